package acctest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// exodus is twenty VMs of another provider: the state that it wrote, the cluster that belongs to it, and the same VMs in the words of this
// provider.
type exodus struct {
	dir    string
	config string
	moves  map[string]string // block of theirs to block of ours
	theirs []foreignInstance
}

// foreignInstance is an instance in their state with its address in ours.
type foreignInstance struct {
	from, to string
	drive.Foreign
	attributes map[string]json.RawMessage
}

// stateFile is a state file, as far as it counts here.
type stateFile struct {
	Resources []struct {
		Mode, Type, Name, Provider string
		Instances                  []struct {
			Key        json.RawMessage `json:"index_key"`
			Version    int64           `json:"schema_version"`
			Attributes json.RawMessage
			Private    []byte
		}
	}
}

func readExodus(t *testing.T, peer string) exodus {
	t.Helper()
	e := exodus{dir: filepath.Join("testdata", "move", peer), moves: map[string]string{}}
	e.config = read(t, filepath.Join(e.dir, "main.tf"))
	blocks := regexp.MustCompile(`(?s)moved \{\s+from = (\S+)\s+to\s+= (\S+)\s+\}`)
	for _, m := range blocks.FindAllStringSubmatch(read(t, filepath.Join(e.dir, "moved.tf")), -1) {
		e.moves[m[1]] = m[2]
	}
	var file stateFile
	must(t, json.Unmarshal([]byte(read(t, filepath.Join(e.dir, "state.json"))), &file))
	for _, r := range file.Resources {
		from := r.Type + "." + r.Name
		address := regexp.MustCompile(`"(.*)"`).FindStringSubmatch(r.Provider)
		if e.moves[from] == "" || len(address) != 2 {
			t.Fatalf("%s of %s moves nowhere", from, r.Provider)
		}
		for _, i := range r.Instances {
			f := foreignInstance{from: from, to: e.moves[from], Foreign: drive.Foreign{Provider: address[1], Type: r.Type, Version: i.Version,
				JSON: i.Attributes, Private: i.Private}}
			if len(i.Key) > 0 {
				f.from, f.to = f.from+"["+string(i.Key)+"]", f.to+"["+string(i.Key)+"]"
			}
			must(t, json.Unmarshal(i.Attributes, &f.attributes))
			e.theirs = append(e.theirs, f)
		}
	}
	if len(e.theirs) != 20 {
		t.Fatalf("%d VMs", len(e.theirs))
	}
	return e
}

// world is the cluster that the state speaks of.
func (e exodus) world(t *testing.T, o pvesim.Options) *World {
	t.Helper()
	var err error
	o.World, err = state.Read([]byte(read(t, filepath.Join(e.dir, "world.yaml"))))
	must(t, err)
	return NewWorld(t, o)
}

// moved is a session whose state came from the other provider, unrefreshed.
func (e exodus) moved(t *testing.T, w *World, id Identity) *drive.Session {
	t.Helper()
	s := w.Session(t, id, e.config)
	w.ResetCalls()
	for _, f := range e.theirs {
		must(t, s.Move(t.Context(), f.to, f.Foreign))
		if said := s.Diagnostics(); len(said) > 0 {
			t.Errorf("%s: %v", f.from, said)
		}
		identity, err := s.Identity(t.Context(), f.to)
		must(t, err)
		if is, vmid := drive.At(identity, "vmid"), s.Attr(f.to, "vmid"); vmid.IsNull() || !is.RawEquals(vmid) {
			t.Errorf("%s: moved, VM %s has the identity %#v", f.from, drive.ShowValue(vmid), identity)
		}
	}
	for _, c := range w.Calls() {
		if len(c.Ops) > 0 {
			t.Errorf("%s %s makes requests: %v", c.RPC, c.Address, c.Ops)
		}
	}
	return s
}

// writes are the requests of a session that may have changed something.
func writes(w *World) []string {
	var all []string
	for _, c := range w.Calls() {
		for _, op := range c.Ops {
			if op.Method != http.MethodGet && !strings.HasSuffix(op.Path, "/access/ticket") {
				all = append(all, op.Method+" "+op.Path)
			}
		}
	}
	return all
}

func peers() []string { return []string{"bpg", "telmate"} }

// TestMoveState: the state of twenty VMs of another provider becomes ours with an empty plan and without a write. An apply keeps it so, and so
// does the refresh after it; a move asks nothing.
func TestMoveState(t *testing.T) {
	t.Parallel()
	for _, peer := range peers() {
		for _, id := range []Identity{RootTicket, TokenNoSSH} {
			t.Run(peer+"/"+string(id), func(t *testing.T) {
				t.Parallel()
				e := readExodus(t, peer)
				w := e.world(t, pvesim.Options{})
				s := e.moved(t, w, id)
				for range 2 {
					pl, err := s.Plan(t.Context())
					must(t, err)
					if !pl.Empty() {
						t.Fatalf("the plan is not empty:\n%s", pl)
					}
					must(t, s.Apply(t.Context(), pl))
				}
				if said := s.Diagnostics(); len(said) > 0 {
					t.Errorf("said %v", said)
				}
				if wrote := writes(w); len(wrote) > 0 || len(w.Leaks()) > 0 {
					t.Errorf("writes %v, changed %v", wrote, w.Leaks())
				}
				if n := len(s.Addresses()); n != 20 {
					t.Errorf("%d in state", n)
				}
			})
		}
	}
}

// TestMoveStateIsAnImport: what a move brings into the state is what an import of the same VM does, but for what only the other
// provider's state knew, and for devices that it left alone.
func TestMoveStateIsAnImport(t *testing.T) {
	t.Parallel()
	for _, peer := range peers() {
		t.Run(peer, func(t *testing.T) {
			t.Parallel()
			e := readExodus(t, peer)
			w := e.world(t, pvesim.Options{})
			s := e.moved(t, w, RootTicket)
			must(t, s.Refresh(t.Context()))
			imported := w.Session(t, RootTicket, e.config)
			for _, f := range e.theirs {
				ours, err := s.Instance(f.to)
				must(t, err)
				must(t, imported.Import(t.Context(), f.to, drive.Text(ours.Value, "id")))
				theirs, err := imported.Instance(f.to)
				must(t, err)
				for _, difference := range drive.Differences(theirs.Value, ours.Value) {
					if !carried(difference, ours.Value) {
						t.Errorf("%s: %s", f.from, difference)
					}
				}
			}
		})
	}
}

// carried reports whether a difference to an import is one that a move may make.
func carried(difference string, moved drive.Value) bool {
	if slot := regexp.MustCompile(`^(\w+)\["(\w+)"\]`).FindStringSubmatch(difference); len(slot) == 3 && slot[1] != "addresses" {
		return strings.Contains(difference, "import_from") || drive.At(moved, slot[1]+"."+slot[2]) == cty.NilVal
	}
	name := regexp.MustCompile(`^\w+`).FindString(difference)
	return slices.Contains([]string{"clone", "nodes", "on_destroy", "power_state", "reboot_policy", "timeouts"}, name) ||
		slices.Contains([]string{"disks: (absent) -> null", "networks: (absent) -> null"}, difference)
}

// TestAccMoveState does it with a CLI and moved blocks.
func TestAccMoveState(t *testing.T) {
	useCLI(t)
	withoutEnvironment(t)
	dir := t.TempDir()
	devOverride(t, dir)
	for _, peer := range peers() {
		e := readExodus(t, peer)
		w := e.world(t, pvesim.Options{RealNetwork: true, Clock: clock.Real{}})
		files := map[string]string{"main.tf": e.config, "provider.tf": "terraform {\n  required_providers {\n    proxmox = { source = \"terraform-proxmox/proxmox\" }\n  }\n}\n"}
		files["moved.tf"], files["terraform.tfstate"] = read(t, filepath.Join(e.dir, "moved.tf")), read(t, filepath.Join(e.dir, "state.json"))
		ws := newWorkspace(t, w, everyProvider(t, dir), files)
		before := w.Sim.LastOp()
		ws.run(t, "apply", "-auto-approve")
		ws.run(t, "plan", "-detailed-exitcode")
		for _, op := range w.Sim.OpsAfter(before) {
			if op.Method != http.MethodGet {
				t.Errorf("%s: %s %s", peer, op.Method, op.Path)
			}
		}
		w.MustBeClean(t)
	}
}

// everyProvider are settings with which each provider in the states is the program in dir: a CLI wants one for each address in a state,
// and asks the former owners nothing.
func everyProvider(t *testing.T, dir string) string {
	t.Helper()
	text := "provider_installation {\n  dev_overrides {\n"
	for _, source := range []string{"terraform-proxmox/proxmox", "bpg/proxmox", "telmate/proxmox"} {
		text += fmt.Sprintf("    %q = %q\n", source, dir)
	}
	name := filepath.Join(dir, "all.tfrc")
	must(t, os.WriteFile(name, []byte(text+"  }\n}\n"), 0o600))
	return name
}
