package adoption_test

import (
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// writes are the requests of a session that may have changed something.
func writes(w *rig.World) []string {
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

// TestMoveState: the state of twenty VMs of another provider becomes ours with an empty plan and without a write. An apply keeps it so, and so
// does the refresh after it; a move asks nothing.
func TestMoveState(t *testing.T) {
	t.Parallel()
	for _, peer := range rig.OtherProviders() {
		for _, id := range []rig.Identity{rig.RootTicket, rig.TokenNoSSH} {
			t.Run(peer+"/"+string(id), func(t *testing.T) {
				t.Parallel()
				e := rig.ReadOtherProvider(t, peer)
				w := e.World(t, pvesim.Options{})
				s := e.Moved(t, w, id)
				for range 2 {
					pl, err := s.Plan(t.Context())
					rig.Must(t, err)
					if said := s.Diagnostics(); !pl.Empty() || len(said) > 0 {
						t.Fatalf("the plan is not empty, or says something:\n%s\n%v", pl, said)
					}
					rig.Must(t, s.Apply(t.Context(), pl))
					if said := s.Diagnostics(); len(said) > 0 {
						t.Errorf("said %v", said)
					}
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
	for _, peer := range rig.OtherProviders() {
		t.Run(peer, func(t *testing.T) {
			t.Parallel()
			e := rig.ReadOtherProvider(t, peer)
			w := e.World(t, pvesim.Options{})
			s := e.Moved(t, w, rig.RootTicket)
			rig.Must(t, s.Refresh(t.Context()))
			imported := w.Session(t, rig.RootTicket, e.Config)
			for _, f := range e.Theirs {
				ours, err := s.Instance(f.To)
				rig.Must(t, err)
				rig.Must(t, imported.Import(t.Context(), f.To, terraformtest.Text(ours.Value, "id")))
				theirs, err := imported.Instance(f.To)
				rig.Must(t, err)
				for _, difference := range terraformtest.Differences(theirs.Value, ours.Value) {
					if !carried(difference, ours.Value) {
						t.Errorf("%s: %s", f.From, difference)
					}
				}
			}
		})
	}
}

// carried reports whether a difference to an import is one that a move may make.
func carried(difference string, moved terraformtest.Value) bool {
	if slot := regexp.MustCompile(`^(\w+)\["(\w+)"\]`).FindStringSubmatch(difference); len(slot) == 3 && slot[1] != "addresses" {
		return strings.Contains(difference, "import_from") || terraformtest.At(moved, slot[1]+"."+slot[2]) == cty.NilVal
	}
	name := regexp.MustCompile(`^\w+`).FindString(difference)
	return slices.Contains([]string{"clone", "nodes", "on_destroy", "power_state", "reboot_policy", "timeouts"}, name) ||
		slices.Contains([]string{"disks: (absent) -> null", "networks: (absent) -> null"}, difference)
}

// sourceOf names the provider for a CLI.
const sourceOf = "terraform {\n  required_providers {\n    proxmox = { source = \"terraform-proxmox/proxmox\" }\n  }\n}\n"

// TestAccMoveState does it with a CLI and moved blocks.
func TestAccMoveState(t *testing.T) {
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	dir := t.TempDir()
	rig.DevOverride(t, dir)
	for _, peer := range rig.OtherProviders() {
		e := rig.ReadOtherProvider(t, peer)
		w := e.World(t, pvesim.Options{RealNetwork: true, Clock: rig.NewFastClock()})
		files := map[string]string{"main.tf": e.Config, "provider.tf": sourceOf}
		files["moved.tf"], files["terraform.tfstate"] = rig.ReadFile(t, filepath.Join(e.Dir, "moved.tf")), rig.ReadFile(t, filepath.Join(e.Dir, "state.json"))
		ws := rig.NewWorkspace(t, w, rig.EveryProvider(t, dir), files)
		before := w.Sim.LastOp()
		ws.Run(t, "apply", "-auto-approve")
		ws.Run(t, "plan", "-detailed-exitcode")
		for _, op := range w.Sim.OpsAfter(before) {
			if op.Method != http.MethodGet {
				t.Errorf("%s: %s %s", peer, op.Method, op.Path)
			}
		}
		w.MustBeClean(t)
	}
}

// TestTagsAllOfMovedVMs: the provider's default tags make no difference on VMs that come from another provider.
func TestTagsAllOfMovedVMs(t *testing.T) {
	t.Parallel()
	for _, peer := range rig.OtherProviders() {
		e := rig.ReadOtherProvider(t, peer)
		w := e.World(t, pvesim.Options{})
		s := e.Moved(t, w, rig.TokenNoSSH)
		rig.Must(t, s.Configure(strings.Replace(w.ProviderBlock(rig.TokenNoSSH), "endpoint =", "default_tags = [\"lab\"]\n  endpoint =", 1), e.Config))
		for range 2 {
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			if !pl.Empty() {
				t.Fatalf("%s: the plan is not empty:\n%s", peer, pl)
			}
			rig.Must(t, s.Apply(t.Context(), pl))
		}
	}
}
