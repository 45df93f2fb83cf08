package plan_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	providerschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// secretShare: one row in so many is the share of `make test`.
const secretShare = 5

// secretMarker stands for a secret in a value.
const secretMarker = "Hunter22Marker"

// misplaced are texts with a secret in them, as they come into an attribute by mistake or as they are.
func misplaced() map[string]string {
	return map[string]string{
		"alone": secretMarker, "with a blank": " " + secretMarker, "two lines": secretMarker + "\n" + secretMarker + "\n",
		"control character": secretMarker + "\x01", "NUL": secretMarker + "\x00", "long": strings.Repeat(secretMarker+" ", 900),
		"token":          "terraform@pve!prov=" + secretMarker,
		"password":       "https://user:" + secretMarker + "@host.example/x.qcow2",
		"slash":          "https://user:pa/" + secretMarker + "@host.example/x.qcow2",
		"sharp":          "https://user:pa#" + secretMarker + "@host.example/x.qcow2",
		"percent":        "https://user:50%" + secretMarker + "@host.example/x.qcow2",
		"blank":          "https://user:pa " + secretMarker + "@host.example/x.qcow2",
		"other scheme":   "ftp://user:" + secretMarker + "@host.example/x.qcow2",
		"query":          "https://host.example/x.qcow2?" + secretMarker + "andmore",
		"fragment":       "https://host.example/x.qcow2#access_token=" + secretMarker,
		"private key":    "-----BEGIN OPENSSH PRIVATE KEY-----\n" + secretMarker + "\n-----END OPENSSH PRIVATE KEY-----\n",
		"broken key":     "ssh-ed25519 " + secretMarker,
		"no header":      "password: " + secretMarker + "\n",
		"alias":          "#cloud-config\npassword: *" + secretMarker + "\n",
		"colons":         "#cloud-config\npassword: " + secretMarker + ": x: y\n",
		"version":        "version: " + secretMarker + "\n",
		"quote":          "#cloud-config\npassword: \"" + secretMarker + "\n",
		"at":             "#cloud-config\npassword: @" + secretMarker + "\n",
		"property":       "password=" + secretMarker + ",password=" + secretMarker,
		"fingerprint":    "SHA256:" + secretMarker,
		"host and key":   "host.example ssh-ed25519 " + secretMarker,
		"path of a file": "/nonexistent/" + secretMarker,
	}
}

// mayHoldSecrets are the attributes whose texts are a user's own, of resources and of the provider block. A new one that is
// sensitive or write-only counts without an entry. The others are names of things that PVE shows, and numbers.
var mayHoldSecrets = regexp.MustCompile(`(^|\.)(url|source_file|ssh_keys|cloud_init\.user|user_data|meta_data|network_config|vendor_data|args|description|comment|` +
	`serial|endpoint|username|known_hosts|known_hosts_file|private_key_file|host_key_fingerprint|agent_socket|ca_certificate)$|^proxmox_snippet content$`)

// TestLawSecretsInRefusals: a value of an attribute that may hold a secret is in no diagnostic of a plan.
func TestLawSecretsInRefusals(t *testing.T) {
	t.Parallel()
	l := &oddLaw{changes: oneChanges(t), image: "plain"}
	l.files = rig.ServeFiles(t, map[string][]byte{"/plain.qcow2": rig.QCOW2(l.image)})
	var rows []oddRow
	for _, a := range leafAttributes(t) {
		if !a.secret && !mayHoldSecrets.MatchString(a.typ+" "+a.path) && !mayHoldSecrets.MatchString(a.path) {
			continue
		}
		for _, what := range slices.Sorted(maps.Keys(misplaced())) {
			v := cty.StringVal(misplaced()[what])
			switch {
			case a.path == "source_file" && !strings.Contains(misplaced()[what], "://"): // a file that is not there is named
				continue
			case a.kind == textsKind:
				v = cty.ListVal([]cty.Value{v})
			case a.kind != textKind:
				continue
			}
			rows = append(rows, oddRow{a, what, v, false})
		}
	}
	drawn := func(number int, r oddRow) bool { return share.Plays(number, secretShare, r.String()) }
	if len(rows) < 400 {
		t.Errorf("%d rows", len(rows))
	}
	play(t, rows, drawn, worldOfOthers(t), func(w *rig.World, n int, r oddRow) bool {
		base, path, _ := l.oddBase(r.leafAttribute, 20000+n)
		s := w.NewSession()
		if err := s.Configure(w.ProviderBlock(rig.TokenNoSSH)); err != nil {
			t.Error(err)
		}
		if err := s.SetResource(r.typ+".it", base.withOdd(path, r.value).tree()); err != nil {
			t.Error(err)
		}
		_, err := s.Plan(t.Context())
		if text := fmt.Sprint(err, s.Diagnostics()); strings.Contains(text, secretMarker) {
			t.Errorf("%s: %.300s", r, text)
		}
		return err != nil
	})
}

// TestLawSecretsOfTheProvider: the same for the provider block.
func TestLawSecretsOfTheProvider(t *testing.T) {
	t.Parallel()
	w, number := rig.NewWorld(t), 0
	for _, path := range providerTexts(t.Context()) {
		for _, what := range slices.Sorted(maps.Keys(misplaced())) {
			if number++; !share.Plays(number, secretShare, path+", "+what) {
				continue
			}
			group, _, nested := strings.Cut(path, ".")
			values := login(w)
			if nested {
				values["ssh.private_key"] = cty.StringVal(string(w.Sim.SSHPrivateKeyPEM()))
			}
			if path == "api_token" {
				values.drop("username", "password")
			}
			values[path] = cty.StringVal(misplaced()[what])
			names := []string{"endpoint", "username", "password", "ca_certificate"}
			if !slices.Contains(names, group) {
				names = append(names, group)
			}
			s := w.NewSession()
			rig.Must(t, s.Configure(blockOf(names...), "resource \"proxmox_vm\" \"it\" {\n  node = \"pve1\"\n  name = \"it\"\n}\n"))
			configured(s, names, values)
			_, err := s.Plan(t.Context())
			if said := fmt.Sprint(err, s.Diagnostics()); strings.Contains(said, secretMarker) {
				t.Errorf("%s, %s: %.300s", path, what, said)
			}
		}
	}
}

// providerTexts are the paths of the texts in the provider block, by its schema.
func providerTexts(ctx context.Context) (paths []string) {
	var response provider.SchemaResponse
	rig.Provider().Schema(ctx, provider.SchemaRequest{}, &response)
	var walk func(prefix string, level map[string]providerschema.Attribute)
	walk = func(prefix string, level map[string]providerschema.Attribute) {
		for name, a := range level {
			switch at := a.(type) {
			case providerschema.SingleNestedAttribute:
				walk(prefix+name+".", at.Attributes)
			case providerschema.StringAttribute:
				if !at.Sensitive && !mayHoldSecrets.MatchString(prefix+name) {
					continue
				}
				paths = append(paths, prefix+name)
			}
		}
	}
	walk("", response.Schema.Attributes)
	slices.Sort(paths)
	return paths
}
