package storage_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestSnippetThatIsNoText: Terraform's strings are UTF-8 in the normal form NFC, so no configuration names other bytes.
// A file with such is not imported, and where others have written them into a snippet, the plan shows that they go.
func TestSnippetThatIsNoText(t *testing.T) {
	const address = "proxmox_snippet.web"
	for name, c := range map[string]struct{ bytes, text string }{
		"Latin-1":    {"#!/bin/sh\n# f\xfcr alle\n", "#!/bin/sh\n# f\uFFFDr alle\n"},
		"decomposed": {"#!/bin/sh\n# fu\u0308r alle\n", "#!/bin/sh\n# f\u00fcr alle\n"},
	} {
		w := rig.NewWorld(t)
		putSnippet(w, c.bytes)
		s := w.Session(t, rig.TokenSSH, rig.SnippetBlock("#!/bin/sh\n"))
		err := s.Import(t.Context(), address, "pve2/local:snippets/web.yaml")
		rig.MustRefuse(t, err, []string{"no text that Terraform can hold", "local:snippets/web.yaml on node pve2", "The file was not touched"})
		if is := snippetOn(w, "pve2"); is != c.bytes {
			t.Errorf("%s: the import has written %q", name, is)
		}

		w = rig.NewWorld(t)
		s = w.Session(t, rig.TokenSSH, "variable \"content\" {}\nresource \"proxmox_snippet\" \"web\" {\n  node = \"pve2\"\n"+
			"  storage = \"local\"\n  name = \"web.yaml\"\n  content = var.content\n}\n")
		s.SetVariable("content", cty.StringVal(c.text))
		rig.Must(t, s.Converge(t.Context()))
		putSnippet(w, c.bytes)
		plan, err := s.Plan(t.Context())
		rig.Must(t, err)
		if said := fmt.Sprint(plan); !strings.Contains(said, "content that Terraform cannot show") {
			t.Errorf("%s: the plan does not show the content that goes: %s", name, said)
		}
		rig.Must(t, s.Apply(t.Context(), plan))
		if is := snippetOn(w, "pve2"); is != c.text {
			t.Errorf("%s: the apply has written %q", name, is)
		}
	}
}
