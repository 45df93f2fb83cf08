package plan_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// restartShare: one row in so many is the share of `make test`.
const restartShare = 211

// moment is how the VM is when the change is planned.
type moment string

const (
	runs         moment = "runs"
	isOff        moment = "is off"
	justStopped  moment = "stopped a moment ago"
	justStarted  moment = "started a moment ago"
	takenBack    moment = "the other value waits, and the one in force is planned"
	equalsWaits  moment = "the planned value waits"
	neitherWaits moment = "a third value waits"
)

// restartRow is the change of one attribute of a VM at one moment, with a setting of hotplug.
type restartRow struct {
	path string
	oneChange
	third   cty.Value // a value that neither of the two is; cty.NilVal for none
	hotplug []string  // nil: PVE's default
	moment  moment
}

func (r restartRow) String() string {
	return fmt.Sprintf("%s, hotplug %v, %s", r.path, r.hotplug, r.moment)
}

// restartRows are those of all attributes whose change is one option of the configuration.
func restartRows(t *testing.T) (rows []restartRow) {
	t.Helper()
	values, changes := scalarValues(), oneChanges(t)
	maps.Copy(values, deviceValues())
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		c := changes[path]
		option, ok := strings.CutPrefix(c.want, "PUT config ")
		if !ok || strings.ContainsAny(option, ",; ") || option == "hotplug" || c.to == cty.NilVal {
			continue
		}
		third := cty.NilVal
		for _, v := range values[path] {
			if !v.RawEquals(c.from) && !v.RawEquals(c.to) {
				third = v
			}
		}
		for _, hotplug := range [][]string{nil, {}, {"cpu", "disk", "network", "usb"}} {
			for _, when := range []moment{runs, isOff, justStopped, justStarted, takenBack, equalsWaits, neitherWaits} {
				if when != neitherWaits || third != cty.NilVal {
					rows = append(rows, restartRow{path, c, third, hotplug, when})
				}
			}
		}
	}
	return append(rows, hotplugRows()...)
}

// hotplugRows are changes of hotplug itself, each from and to any of some settings. Hotplug of memory starts with NUMA only.
func hotplugRows() (rows []restartRow) {
	settings := [][]string{nil, {"disk", "network"}, {"cpu", "disk"}, {"cpu", "memory"}}
	list := func(features []string) cty.Value {
		if features == nil {
			return cty.NilVal
		}
		return cty.ListVal(texts(features...))
	}
	beside := flat{"cpu.numa": cty.True, "memory.size": cty.NumberIntVal(1024)}
	for _, from := range settings {
		for _, to := range settings {
			for _, when := range []moment{runs, isOff, justStopped, justStarted} {
				if !slices.Equal(from, to) {
					rows = append(rows, restartRow{path: fmt.Sprintf("hotplug from %v to %v", from, to), moment: when,
						oneChange: oneChange{path: "hotplug", from: list(from), to: list(to), beside: beside}})
				}
			}
		}
	}
	return rows
}

// TestLawRestarts: a plan says that the VM will be restarted if and only if the apply changes its power.
func TestLawRestarts(t *testing.T) {
	t.Parallel()
	rows, count, started := restartRows(t), map[string]int{}, time.Now()
	drawn := func(number int, r restartRow) bool { return share.Plays(number, restartShare, r.String()) }
	open := func() *rig.World {
		w := driftWorld(t, "pve1", "pve2")
		w.Change(addOthers)
		w.ExpectPowerOffs(state.PowerShutdown, state.PowerReboot, state.PowerStop)
		return w
	}
	for _, outcome := range play(t, rows, drawn, open, func(w *rig.World, n int, r restartRow) string {
		outcome, err := r.try(t.Context(), w, 20000+n)
		if err != nil {
			t.Errorf("%s: %v", r, err)
		}
		w.Change(func(world *state.World) { forget(world, 20000+n) })
		return outcome
	}) {
		count[outcome]++
	}
	t.Logf("rows by outcome, of %d: %v, %s", len(rows), count, time.Since(started).Round(time.Second))
	if len(rows) < 600 || count[cannotRun] > len(rows)/100 {
		t.Errorf("%d rows, of which %d start no VM", len(rows), count[cannotRun])
	}
	if count[restarted] == 0 || count[unrestarted] == 0 {
		t.Error("the rows are all alike")
	}
}

// The outcomes of a row.
const (
	restarted   = "restarted"
	unrestarted = "not restarted"
	cannotRun   = "no such VM starts here"
	neverWaits  = "the option never waits"
)

func (r restartRow) try(ctx context.Context, w *rig.World, vmid int) (outcome string, err error) {
	s := w.NewSession()
	s.TrustPlans = true
	if err := s.Configure(w.ProviderBlock(rig.RootTicket)); err != nil {
		return "", err
	}
	before, after := r.configs(vmid)
	for _, config := range []flat{before, after} {
		delete(config, "power_state")
		if r.hotplug != nil {
			config["hotplug"] = cty.ListValEmpty(cty.String)
			if len(r.hotplug) > 0 {
				config["hotplug"] = cty.ListVal(texts(r.hotplug...))
			}
		}
	}
	if apply(ctx, s, before) != nil {
		return cannotRun, nil //nolint:nilerr // the outcome says it
	}
	config := after
	switch r.moment {
	case runs:
		w.Sim.Advance(time.Minute) // its process shows that it ran before the change
	case isOff:
		w.Change(func(world *state.World) { world.Guests[vmid].Running = nil })
		if err := s.Refresh(ctx); err != nil {
			return "", err
		}
	case justStopped:
		w.Change(func(world *state.World) { world.Guests[vmid].Running = nil })
	case justStarted:
		running := &state.Running{}
		w.Change(func(world *state.World) { running, world.Guests[vmid].Running = world.Guests[vmid].Running, nil })
		if err := s.Refresh(ctx); err != nil {
			return "", err
		}
		w.Change(func(world *state.World) { world.Guests[vmid].Running = running })
	case takenBack, equalsWaits, neitherWaits:
		other := r.to
		if r.moment == neitherWaits {
			other = r.third
		}
		if !r.waits(ctx, w, s, before, other, vmid) {
			return neverWaits, nil
		}
		if r.moment == takenBack {
			config = before
		}
	}
	last := w.Sim.LastOp()
	if err := s.SetResource(driftAddress, config.tree()); err != nil {
		return "", err
	}
	pl, ok := stalePlan(ctx, s)
	if !ok {
		return cannotRun, nil
	}
	said := slices.ContainsFunc(pl.Diagnostics, func(d terraformtest.Diagnostic) bool { return strings.HasSuffix(d.Summary, "will be restarted") })
	takes := slices.ContainsFunc(pl.Diagnostics, func(d terraformtest.Diagnostic) bool {
		return strings.HasPrefix(d.Summary, "The apply takes back the pending change of "+optionOf(r.oneChange.path))
	})
	if takes != (r.moment == takenBack) {
		return "", fmt.Errorf("said %t that a pending change is taken back:\n%s", takes, pl)
	}
	if err := s.Apply(ctx, pl); err != nil {
		return "", err
	}
	var power []string
	for _, op := range w.Sim.OpsAfter(last) {
		if op.Method == http.MethodPost && strings.Contains(op.Path, "/status/") {
			power = append(power, op.Path[strings.LastIndex(op.Path, "/")+1:])
		}
	}
	if said != (len(power) > 0) {
		return "", fmt.Errorf("announced %t, and the apply asked for %v\n%s", said, power, pl)
	}
	if r.moment == runs {
		err = r.unplugs(w, pl, vmid)
	}
	if err != nil {
		return "", err
	}
	if said {
		return restarted, nil
	}
	return unrestarted, nil
}

// unplugs wants the plan to name the devices, and no others, that the running guest has lost for a moment.
func (r restartRow) unplugs(w *rig.World, pl *terraformtest.Plan, vmid int) (err error) {
	w.Change(func(world *state.World) {
		g := world.Guests[vmid]
		slot := optionOf(r.oneChange.path)
		lost := g.Running != nil && slices.Contains(g.Running.Unplugged, slot) && g.Config[slot] != ""
		said := strings.Contains(pl.Diagnostics.String(), fmt.Sprintf("%s of VM %d on pve1 is unplugged while the guest runs", slot, vmid))
		if said != lost {
			err = fmt.Errorf("said %t that %s is unplugged, and it was: %t\n%s", said, slot, lost, pl)
		}
	})
	return err
}

// stalePlan is the plan of a state that was not refreshed; false for a change that the plan refuses.
func stalePlan(ctx context.Context, s *terraformtest.Session) (*terraformtest.Plan, bool) {
	pl, err := s.Plan(ctx, terraformtest.WithoutRefresh())
	return pl, err == nil
}

// waits has a third party give the VM another value of the attribute, and reports whether that waits for a restart. Both
// show where the provider sets it first.
func (r restartRow) waits(ctx context.Context, w *rig.World, s *terraformtest.Session, config flat, other cty.Value, vmid int) bool {
	last, option, text := w.Sim.LastOp(), optionOf(r.oneChange.path), ""
	with := maps.Clone(config)
	with[r.oneChange.path] = other
	if apply(ctx, s, with) != nil {
		return false
	}
	restarts := slices.ContainsFunc(w.Sim.OpsAfter(last), func(op pvesim.Op) bool { return strings.HasSuffix(op.Path, "/status/reboot") })
	w.Change(func(world *state.World) { text = world.Guests[vmid].Config[option] })
	if !restarts || text == "" || apply(ctx, s, config) != nil {
		return false
	}
	same := false // some values mean "any"
	w.Change(func(world *state.World) {
		g := world.Guests[vmid]
		if g.Pending == nil {
			g.Pending = map[string]string{}
		}
		g.Pending[option], same = text, g.Config[option] == text
	})
	return !same && s.Refresh(ctx) == nil
}

// TestRestartsOfMany: a plan of many VMs asks each node for all of them at once. It announces the restart of exactly those that run at
// that moment, whatever the cluster's listing, which is late, and the state say.
func TestRestartsOfMany(t *testing.T) {
	t.Parallel()
	const n = 12
	config := func(cores int) string {
		return fmt.Sprintf(`
resource "proxmox_vm" "many" {
  count       = %d
  vmid        = 300 + count.index
  name        = "vm-${count.index}"
  node        = "pve${count.index %% 2 + 1}"
  disks       = { scsi0 = { storage = "local-zfs", size = "1G" } }
  cpu         = { cores = %d }
}
`, n, cores)
	}
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, config(1))
	s.Parallelism = 10
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	running := map[int]*state.Running{}
	runs := func(is func(i int) bool) {
		w.Change(func(all *state.World) {
			for i := range n {
				g := all.Guests[300+i]
				if g.Running != nil {
					running[i] = g.Running
				}
				if g.Running = nil; is(i) {
					g.Running = running[i]
				}
			}
		})
	}
	runs(func(i int) bool { return i >= n/2 })
	w.Sim.Advance(time.Minute)
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Reconfigure(t, s, rig.TokenNoSSH, config(2))
	for _, is := range []func(i int) bool{
		func(i int) bool { return i%3 == 0 },
		func(i int) bool { return i%3 != 0 },
	} {
		runs(is)
		w.Sim.ResetOps()
		pl, err := s.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			said := slices.ContainsFunc(pl.Diagnostics, func(d terraformtest.Diagnostic) bool {
				tells := strings.HasSuffix(d.Summary, "will be restarted") || i < n/2 && strings.HasSuffix(d.Summary, "keeps running with the old values")
				return tells && strings.Contains(d.Summary, fmt.Sprintf("VM %d ", 300+i))
			})
			if said != is(i) {
				t.Errorf("VM %d runs: %t, and its restart is announced: %t", 300+i, is(i), said)
			}
		}
		asked := 0
		for _, op := range w.Sim.Ops() {
			if op.Path == "/nodes/{node}/qemu" || strings.HasSuffix(op.Path, "/status/current") {
				asked++
			}
		}
		if asked > 4 {
			t.Errorf("%d questions whether guests run: %v", asked, w.Sim.Ops())
		}
	}
}
