package adoption_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"github.com/zclconf/go-cty/cty/msgpack"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// statesDir has a folder for each release, and in it a file for each resource that there was: the type of its state and states as its
// users have them. docs/design/release.md says when they are written, and what may change between two of them.
const statesDir = "testdata/states"

// keptStates is such a file.
type keptStates struct {
	Version         int64           `json:"schema_version"`
	IdentityVersion int64           `json:"identity_schema_version"` // noIdentity where it has none
	Type            json.RawMessage `json:"type"`
	States          []keptState     `json:"states"`

	identity []byte // its type now
}

const noIdentity = -1

type keptState struct {
	Of         string          `json:"of"` // the example that has made it, and the address
	Attributes json.RawMessage `json:"attributes"`
	Private    []byte          `json:"private,omitempty"`
	Identity   json.RawMessage `json:"identity,omitempty"`
}

// release is a section of CHANGELOG.md.
type release struct {
	version string
	dated   bool
}

// releases are those that CHANGELOG.md knows, the newest first.
func releases(t *testing.T) []release {
	t.Helper()
	var all []release
	for _, m := range regexp.MustCompile(`(?m)^## (\S+)(?: - (\S+))?$`).FindAllStringSubmatch(rig.ReadFile(t, "../../../CHANGELOG.md"), -1) {
		if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(m[1]) {
			t.Fatalf("CHANGELOG.md: %q is neither a version with a date nor one that is unreleased", m[0])
		}
		all = append(all, release{version: m[1], dated: m[2] != "unreleased"})
	}
	if len(all) == 0 {
		t.Fatal("CHANGELOG.md has no version")
	}
	for _, r := range all[1:] {
		if !r.dated {
			t.Fatalf("CHANGELOG.md: %s is not the newest version and has no date", r.version)
		}
	}
	return all
}

// presentSchemas asks the provider, as Terraform does, what states look like now.
func presentSchemas(t *testing.T, server tfprotov6.ProviderServer) map[string]keptStates {
	t.Helper()
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	rig.Must(t, err)
	identities, err := server.GetResourceIdentitySchemas(t.Context(), &tfprotov6.GetResourceIdentitySchemasRequest{})
	rig.Must(t, err)
	present := map[string]keptStates{}
	for name, schema := range schemas.ResourceSchemas {
		typ, err := json.Marshal(schema.ValueType())
		rig.Must(t, err)
		k := keptStates{Version: schema.Version, IdentityVersion: noIdentity, Type: typ}
		if identity := identities.IdentitySchemas[name]; identity != nil {
			k.IdentityVersion = identity.Version
			k.identity, err = json.Marshal(identity.ValueType())
			rig.Must(t, err)
		}
		present[name] = k
	}
	return present
}

// unreadable lists the parts of a state of one type that a provider with another type would lose or refuse. A new attribute is merely
// empty in old states.
func unreadable(kept, now cty.Type, at string) []string {
	switch {
	case kept.IsObjectType() && now.IsObjectType():
		var all []string
		for _, name := range slices.Sorted(maps.Keys(kept.AttributeTypes())) {
			if !now.HasAttribute(name) {
				all = append(all, strings.TrimPrefix(at+"."+name, ".")+" is gone")
				continue
			}
			all = append(all, unreadable(kept.AttributeType(name), now.AttributeType(name), at+"."+name)...)
		}
		return all
	case kept.IsMapType() && now.IsMapType(), kept.IsListType() && now.IsListType(), kept.IsSetType() && now.IsSetType():
		return unreadable(kept.ElementType(), now.ElementType(), at+"[]")
	case kept.Equals(now):
		return nil
	}
	return []string{fmt.Sprintf("%s was %s and is %s", strings.TrimPrefix(at, "."), kept.FriendlyName(), now.FriendlyName())}
}

// TestStatesOfReleases upgrades the states that each release has written, as Terraform does before it does anything else with them, and
// reads them from a cluster that knows nothing of them. It fails when a schema changes so that they cannot be read, or not wholly.
func TestStatesOfReleases(t *testing.T) {
	t.Parallel()
	all, server := releases(t), provider.NewServer(provider.New("test"))()
	present := presentSchemas(t, server)
	var known []string
	for n, r := range all {
		known = append(known, r.version)
		t.Run(r.version, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(statesDir, r.version, "*.json"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no states are kept of %s (%v): make states", r.version, err)
			}
			seen := map[string]bool{}
			for _, file := range files {
				name := strings.TrimSuffix(filepath.Base(file), ".json")
				var kept keptStates
				rig.Must(t, json.Unmarshal([]byte(rig.ReadFile(t, file)), &kept))
				seen[name] = true
				t.Run(name, func(t *testing.T) { upgradeKept(t, server, name, kept, present, n == 0 && r.dated) })
			}
			for name := range present {
				if !seen[name] && n == 0 {
					t.Errorf("%s is new: make states%s", name, ifDated(r))
				}
			}
		})
	}
	dirs, err := os.ReadDir(statesDir)
	rig.Must(t, err)
	for _, dir := range dirs {
		if !slices.Contains(known, dir.Name()) {
			t.Errorf("states are kept of %s, which CHANGELOG.md does not know", dir.Name())
		}
	}
}

func ifDated(r release) string {
	if r.dated {
		return ", after a new section in CHANGELOG.md: " + r.version + " is released without it"
	}
	return ""
}

// upgradeKept holds one resource to the states of one release. exact: that release is the newest, and nothing has come since.
func upgradeKept(t *testing.T, server tfprotov6.ProviderServer, name string, kept keptStates, present map[string]keptStates, exact bool) {
	now, there := present[name]
	if !there {
		t.Fatal("the resource is gone: a release before must have told of it, see docs/design/release.md")
	}
	was, err := ctyjson.UnmarshalType(kept.Type)
	rig.Must(t, err)
	is, err := ctyjson.UnmarshalType(now.Type)
	rig.Must(t, err)
	if kept.Version > now.Version || kept.IdentityVersion > now.IdentityVersion {
		t.Errorf("schema version %d (identity %d) after %d (%d)", now.Version, now.IdentityVersion, kept.Version, kept.IdentityVersion)
	}
	if exact && !was.Equals(is) {
		t.Error("the schema is not the one of the newest release any more: begin a section in CHANGELOG.md, then make states")
	}
	same := kept.Version == now.Version
	if lost := unreadable(was, is, ""); same && len(lost) > 0 {
		t.Errorf("old states are not wholly read: %s\nEither keep it, or raise the schema's version and upgrade it; "+
			"where the version is not released yet, make states", strings.Join(lost, ", "))
	}
	if len(kept.States) == 0 {
		t.Error("no state is kept")
	}
	w := rig.WorldOf(t, fmt.Sprintf("resource %q", name))
	s := w.Session(t, rig.TokenSSH, "")
	for i, one := range kept.States {
		raw := upgraded(t, server, name, kept, one, is)
		readIdentity(t, server, name, kept, one, now)
		if same {
			for _, lost := range lostValues(t, one.Attributes, raw) {
				t.Errorf("%s: %s", one.Of, lost)
			}
		}
		s.Put(fmt.Sprintf("%s.kept[%d]", name, i), raw, one.Private)
	}
	rig.Must(t, s.Refresh(t.Context()))
	if left := s.Addresses(); len(left) > 0 {
		t.Errorf("a cluster without them has %v", left)
	}
	w.MustBeClean(t)
}

// upgraded is a kept state, upgraded by the provider to the present schema.
func upgraded(t *testing.T, server tfprotov6.ProviderServer, name string, kept keptStates, one keptState, is cty.Type) []byte {
	t.Helper()
	resp, err := server.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{
		TypeName: name, Version: kept.Version, RawState: &tfprotov6.RawState{JSON: one.Attributes}})
	rig.Must(t, err)
	for _, d := range resp.Diagnostics {
		t.Fatalf("%s: %s: %s", one.Of, d.Summary, d.Detail)
	}
	v, err := msgpack.Unmarshal(resp.UpgradedState.MsgPack, is)
	rig.Must(t, err)
	raw, err := ctyjson.Marshal(v, is)
	rig.Must(t, err)
	return raw
}

// readIdentity has the provider upgrade a kept identity of an older version, and reads one of the present version as Terraform does.
func readIdentity(t *testing.T, server tfprotov6.ProviderServer, name string, kept keptStates, one keptState, now keptStates) {
	t.Helper()
	switch {
	case kept.IdentityVersion == noIdentity:
	case kept.IdentityVersion == now.IdentityVersion:
		is, err := ctyjson.UnmarshalType(now.identity)
		rig.Must(t, err)
		if _, err := ctyjson.Unmarshal(one.Identity, is); err != nil {
			t.Errorf("%s: identity: %v; raise its schema's version and upgrade it", one.Of, err)
		}
	default:
		resp, err := server.UpgradeResourceIdentity(t.Context(), &tfprotov6.UpgradeResourceIdentityRequest{
			TypeName: name, Version: kept.IdentityVersion, RawIdentity: &tfprotov6.RawState{JSON: one.Identity}})
		rig.Must(t, err)
		for _, d := range resp.Diagnostics {
			t.Errorf("%s: identity: %s: %s", one.Of, d.Summary, d.Detail)
		}
	}
}

// lostValues lists the values of a kept state that the upgraded one lacks.
func lostValues(t *testing.T, kept, now []byte) []string {
	t.Helper()
	var a, b any
	rig.Must(t, json.Unmarshal(kept, &a))
	rig.Must(t, json.Unmarshal(now, &b))
	return lost(a, b, "")
}

func lost(kept, now any, at string) []string {
	was, isObject := kept.(map[string]any)
	is, stillIs := now.(map[string]any)
	if !isObject || !stillIs {
		if x, y := fmt.Sprint(kept), fmt.Sprint(now); x != y {
			return []string{fmt.Sprintf("%s was %s and is %s", strings.TrimPrefix(at, "."), x, y)}
		}
		return nil
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(was)) {
		all = append(all, lost(was[name], is[name], at+"."+name)...)
	}
	return all
}

// TestStatesCanFail: the checks above detect the defects that they are for.
func TestStatesCanFail(t *testing.T) {
	t.Parallel()
	was := cty.Object(map[string]cty.Type{"name": cty.String, "tags": cty.Set(cty.String),
		"disks": cty.Map(cty.Object(map[string]cty.Type{"size": cty.String, "file": cty.String}))})
	is := cty.Object(map[string]cty.Type{"tags": cty.List(cty.String), "new": cty.Bool,
		"disks": cty.Map(cty.Object(map[string]cty.Type{"size": cty.Number}))})
	want := []string{"disks[].file is gone", "disks[].size was string and is number", "name is gone", "tags was set of string and is list of string"}
	if got := unreadable(was, is, ""); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := unreadable(cty.Object(map[string]cty.Type{"tags": cty.List(cty.String)}), is, ""); len(got) > 0 {
		t.Errorf("attributes that are new: %q", got)
	}
	if got := lostValues(t, []byte(`{"a":{"b":1,"c":[2]},"d":null}`), []byte(`{"a":{"b":1,"c":[3]}}`)); len(got) != 1 || got[0] != "a.c was [2] and is [3]" {
		t.Errorf("%q", got)
	}
	server := provider.NewServer(provider.New("test"))()
	for name, state := range map[string]string{"another type": `{"name":["a"]}`, "no JSON": `{`} {
		resp, err := server.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{
			TypeName: "proxmox_vm", RawState: &tfprotov6.RawState{JSON: []byte(state)}})
		if err == nil && len(resp.Diagnostics) == 0 {
			t.Errorf("a state with %s was upgraded", name)
		}
	}
}

// snippetToKeep is of the resource that no example can have: it takes SSH.
const snippetToKeep = `
resource "proxmox_snippet" "kept" {
  node     = "pve1"
  storage  = "local"
  name     = "kept.yaml"
  content  = "#cloud-config\npackages: [htop]\n"
}
`

// TestKeepStates writes the states of the version that is worked on, as the examples have them: make states.
func TestKeepStates(t *testing.T) {
	if os.Getenv("KEEP_STATES") == "" {
		t.Skip("make states writes them; TestStatesOfReleases reads them")
	}
	newest := releases(t)[0]
	if newest.dated {
		t.Fatalf("%s is released, its states stay as they are: begin a section in CHANGELOG.md", newest.version)
	}
	kept := presentSchemas(t, provider.NewServer(provider.New("test"))())
	configs := rig.Examples(t)
	configs["a snippet"] = snippetToKeep
	for _, of := range slices.Sorted(maps.Keys(configs)) {
		t.Run(of, func(t *testing.T) {
			s := rig.WorldOf(t, configs[of]).Session(t, rig.TokenSSH, configs[of])
			rig.Must(t, s.Converge(t.Context()))
			for _, address := range s.Addresses() {
				name, _, _ := strings.Cut(address, ".")
				k := kept[name]
				if block, _, many := strings.Cut(address, "["); many && slices.ContainsFunc(k.States, func(one keptState) bool {
					return strings.HasPrefix(one.Of, of+" "+block+"[")
				}) {
					continue // one of a kind is enough
				}
				k.States = append(k.States, keptStateOf(t, s, of, address, k.IdentityVersion != noIdentity))
				kept[name] = k
			}
			rig.Must(t, s.Destroy(t.Context()))
		})
	}
	repository, err := filepath.Abs("../../..")
	rig.Must(t, err)
	dir := filepath.Join(statesDir, newest.version)
	rig.Must(t, os.RemoveAll(dir))
	rig.Must(t, os.MkdirAll(dir, 0o755))
	for name, k := range kept {
		text, err := json.Marshal(k)
		rig.Must(t, err)
		text = bytes.ReplaceAll(text, []byte(`{"of":`), []byte("\n{\"of\":"))       // a line for each
		text = bytes.ReplaceAll(text, []byte(repository), []byte("/srv/terraform")) // where a user has files
		rig.Must(t, os.WriteFile(filepath.Join(dir, name+".json"), append(text, '\n'), 0o644))
		t.Logf("%s: %d states", name, len(k.States))
	}
}

func keptStateOf(t *testing.T, s *terraformtest.Session, of, address string, hasIdentity bool) keptState {
	t.Helper()
	attributes, private := s.Raw(address)
	one := keptState{Of: of + " " + address, Attributes: attributes, Private: private}
	if !hasIdentity {
		return one
	}
	identity, err := s.Identity(t.Context(), address)
	rig.Must(t, err)
	if !identity.IsNull() {
		one.Identity, err = ctyjson.Marshal(identity, identity.Type())
		rig.Must(t, err)
	}
	return one
}
