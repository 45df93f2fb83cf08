package acctest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// coresAndPolicy is a running VM whose cores only a restart changes.
func coresAndPolicy(cores, policy string) string {
	return "cpu = { cores = " + cores + " }\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n" +
		"networks = { net0 = { bridge = \"vmbr0\" } }\nshutdown_timeout = \"30s\"\nreboot_policy = \"" + policy + "\""
}

// foretells tells whether a plan warns that the VM will be restarted.
func foretells(pl *drive.Plan) bool {
	return slices.ContainsFunc(pl.Diagnostics, func(d drive.Diagnostic) bool { return strings.HasSuffix(d.Summary, "will be restarted") })
}

func (l *life) disobeys(disobeys bool) {
	l.w.Change(func(world *state.World) {
		world.Guests[400].Ignores = nil
		if disobeys {
			world.Guests[400].Ignores = []string{"shutdown"}
		}
	})
}

func (l *life) wantOffs(kinds ...state.PowerKind) {
	l.Helper()
	var got []state.PowerKind
	for _, off := range l.w.Sim.PowerOffs() {
		got = append(got, off.Kind)
	}
	if !slices.Equal(got, kinds) {
		l.Errorf("power-offs: want %v, got %v", kinds, got)
	}
}

// TestRestartPolicies: what a user sees of the three policies, from the plan to the plan after.
func TestRestartPolicies(t *testing.T) {
	t.Parallel()
	again := newLife(t, coresAndPolicy("2", "auto")).again()

	t.Run("auto", func(t *testing.T) {
		l := again(t)
		if !foretells(l.plan(coresAndPolicy("4", "auto"))) {
			t.Error("the plan does not say that the VM will be restarted")
		}
		l.to(coresAndPolicy("4", "auto"))
		l.wantOffs(state.PowerReboot)
		if pending := l.s.Attr(lifeAddress, "pending_changes"); pending.LengthInt() != 0 {
			t.Errorf("pending_changes is %#v", pending)
		}
	})

	t.Run("auto, with what a running guest takes", func(t *testing.T) {
		l := again(t)
		body := strings.Replace(coresAndPolicy("2", "auto"), `bridge = "vmbr0"`, `bridge = "vmbr1"`, 1) + "\ndescription = \"x\"\ntags = [\"x\"]"
		if foretells(l.plan(body)) {
			t.Error("the plan says that the VM will be restarted, and it need not be")
		}
		l.to(body)
		l.to(strings.Replace(body, `networks = { net0 = { bridge = "vmbr1" } }`, "networks = {}", 1)) // PVE takes it out of its boot order
		l.wantOffs()
	})

	t.Run("auto, and the guest does not obey", func(t *testing.T) {
		l := again(t)
		l.disobeys(true)
		l.fails(coresAndPolicy("4", "auto"), "reboot_policy", "cores", "runs on")
		for range 2 { // the change is made and waits: the restart is what is left to do, and is said again
			pl := l.plan(coresAndPolicy("4", "auto"))
			if pl.Empty() || !foretells(pl) {
				t.Errorf("the next plan does not show the restart: %s", pl)
			}
			l.fails(coresAndPolicy("4", "auto"), "reboot_policy", "cores")
		}
		l.wantOffs()
		l.disobeys(false)
		l.to(coresAndPolicy("4", "auto"))
		l.wantOffs(state.PowerReboot)
	})

	t.Run("never", func(t *testing.T) {
		l := again(t)
		if foretells(l.plan(coresAndPolicy("4", "never"))) {
			t.Error("the plan says that the VM will be restarted")
		}
		l.to(coresAndPolicy("4", "never"))
		l.wantOffs()
		if text := l.s.Diagnostics().String(); !strings.Contains(text, "old values of cores") {
			t.Errorf("no warning that names what waits: %s", text)
		}
		want := cty.ListVal([]cty.Value{cty.StringVal("cores")})
		if pending := l.s.Attr(lifeAddress, "pending_changes"); pending.LengthInt() != 1 || !pending.RawEquals(want) {
			t.Errorf("pending_changes is %#v", pending)
		}
		l.to(coresAndPolicy("4", "auto")) // the policy is another: what waits is put in force
		l.wantOffs(state.PowerReboot)
	})

	t.Run("force", func(t *testing.T) {
		l := again(t)
		l.disobeys(true)
		l.to(coresAndPolicy("4", "force"))
		l.wantOffs(state.PowerStop)
		l.disobeys(false)
		l.to(coresAndPolicy("2", "force"))
		l.wantOffs(state.PowerStop, state.PowerReboot)
	})
}
