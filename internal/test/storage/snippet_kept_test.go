package storage_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestSnippetOfOtherBytesIsNotRewrittenUnshown: the configuration has the very content that the state has, but the bytes of the
// file are no such text: an older version has imported them, or others wrote them and ignore_changes has the content. No plan
// would show that they go, so they stay, until another content is configured.
func TestSnippetOfOtherBytesIsNotRewrittenUnshown(t *testing.T) {
	t.Parallel()
	const address = "proxmox_snippet.web"
	block := func(lines string) string {
		return "variable \"content\" {}\nresource \"proxmox_snippet\" \"web\" {\n  node = \"pve2\"\n  storage = \"local\"\n" +
			"  name = \"web.yaml\"\n  content = var.content\n" + lines + "}\n"
	}
	for name, c := range map[string]struct {
		bytes, text string
		ignored     bool
	}{
		"Latin-1, imported before":    {"#!/bin/sh\n# f\xfcr alle\n", "#!/bin/sh\n# f\uFFFDr alle\n", false},
		"decomposed, imported before": {"#!/bin/sh\n# fu\u0308r alle\n", "#!/bin/sh\n# f\u00fcr alle\n", false},
		"Latin-1, ignored":            {"#!/bin/sh\n# f\xfcr alle\n", "#!/bin/sh\n# one\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := ""
			if c.ignored {
				lines = "  lifecycle { ignore_changes = [content] }\n"
			}
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenSSH, block(lines))
			s.SetVariable("content", cty.StringVal(c.text))
			rig.Must(t, s.Converge(t.Context()))
			putSnippet(w, c.bytes)
			if !c.ignored {
				json, private := s.Raw(address)
				s.Put(address, []byte(strings.ReplaceAll(string(json), sumOf(c.text), sumOf(c.bytes))), private)
			}
			plan, err := s.Plan(t.Context())
			rig.Must(t, err)
			if said := s.Diagnostics(); len(said) != 1 || !strings.Contains(said[0].Summary, "is not the text in content") ||
				strings.Contains(plan.String(), "sha256") {
				t.Errorf("planned %v; %v", plan, said)
			}
			rig.Must(t, s.Apply(t.Context(), plan))
			w.Reconfigure(t, s, rig.TokenSSH, block(lines+"  kind = \"hookscript\"\n"))
			_, err = s.Plan(t.Context())
			rig.MustSay(t, err, "is not the text in content", "The file was not touched")
			if is := snippetOn(w, "pve2"); is != c.bytes {
				t.Errorf("it was written: %q", is)
			}
			w.Reconfigure(t, s, rig.TokenSSH, block("")) // another content is shown, and written
			s.SetVariable("content", cty.StringVal("#!/bin/sh\n# two\n"))
			rig.Must(t, s.Converge(t.Context()))
			if is := snippetOn(w, "pve2"); is != "#!/bin/sh\n# two\n" {
				t.Errorf("the file holds %q", is)
			}
		})
	}
}
