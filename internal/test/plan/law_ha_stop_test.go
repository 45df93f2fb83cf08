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

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// TestLawRestartsByHA: a plan says that HA will stop the guest if and only if HA stops it after the apply.
func TestLawRestartsByHA(t *testing.T) {
	t.Parallel()
	ha := func(state string) string { return "ha = { state = \"" + state + "\" }\n" }
	for name, c := range map[string]struct {
		before, after string
		announced     bool
	}{
		"put under HA, stopped":  {"", ha("stopped"), true},
		"put under HA, disabled": {"", ha("disabled"), true},
		"from started":           {ha("started"), ha("stopped"), true},
		"started":                {"", ha("started"), false},
		"ignored":                {"", ha("ignored"), false},
		"off already":            {rig.Stopped, rig.Stopped + ha("stopped"), false},
		"another change":         {ha("started"), ha("started") + "description = \"x\"\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
			s := w.Session(t, rig.RootTicket, rig.NodeVMBlock(c.before))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Sim.Advance(time.Minute)
			w.Sim.ResetPowerOffs()
			w.Reconfigure(t, s, rig.RootTicket, rig.NodeVMBlock(c.after))
			pl, err := s.Plan(t.Context())
			said := strings.Contains(fmt.Sprint(s.Diagnostics()), "will be stopped by HA")
			if err == nil {
				err = s.Apply(t.Context(), pl)
			}
			w.Sim.Advance(3 * time.Minute)
			if stopped := len(w.Sim.PowerOffs()) > 0; err != nil || said != c.announced || stopped != c.announced {
				t.Errorf("announced %t, stopped %t: %v", said, stopped, err)
			}
		})
	}
}

// TestPlanTellsThatHAStopsTheGuest: a shutdown of a guest under HA is HA's, which cuts off a guest that does not obey; the plan says so, also
// where an administrator has put the VM under HA. Where it leaves HA first, or HA ignores it, the apply fails instead.
func TestPlanTellsThatHAStopsTheGuest(t *testing.T) {
	t.Parallel()
	const short = "shutdown_timeout = \"30s\"\n"
	ha := func(state string) string { return short + "ha = { state = \"" + state + "\" }\n" }
	for name, c := range map[string]struct {
		before, after string
		byHand        bool // an administrator puts the VM under HA before the plan
		cut           bool
	}{
		"by the configuration":   {ha("started"), rig.Stopped + ha("stopped"), false, true},
		"by an administrator":    {short, rig.Stopped + short, true, true},
		"it is ignored":          {ha("ignored"), rig.Stopped + ha("ignored"), false, false},
		"it leaves HA":           {ha("started"), rig.Stopped + short, false, false},
		"it comes under HA":      {short, rig.Stopped + ha("stopped"), false, false},
		"and is off by the plan": {rig.Stopped + ha("stopped"), rig.Stopped + ha("stopped") + "description = \"x\"\n", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
			s := w.Session(t, rig.RootTicket, rig.NodeVMBlock(c.before))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) { world.Guests[400].Ignores = []string{"shutdown"} })
			if c.byHand {
				w.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.AddHA, VMID: 400})
			}
			w.Sim.Advance(time.Minute)
			w.Sim.ResetPowerOffs()
			w.Reconfigure(t, s, rig.RootTicket, rig.NodeVMBlock(c.after))
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			said := strings.Contains(pl.Diagnostics.String(), "cuts the guest off when it is not off within shutdown_timeout")
			err = s.Apply(t.Context(), pl)
			isCut := slices.ContainsFunc(w.Sim.PowerOffs(), func(off state.PowerOff) bool { return off.Kind == state.PowerStop })
			if said != c.cut || isCut != c.cut {
				t.Errorf("told %t, cut off %t, want %t: %v", said, isCut, c.cut, err)
			}
		})
	}
}

// unknownRestarts are plans that are alike, of a running VM with a value that is not known yet, and the values that it may turn out to have.
type unknownRestarts struct {
	name string
	rows []unknownRow
}

// isNew is the plan of a value that was null before.
const isNew = ", which was null"

// beyondRows are plans of attributes with a value that restarts the guest, which the rows do not have.
func beyondRows() []string { return []string{"hotplug", "hotplug" + isNew, "disks" + isNew} }

// TestLawRestartsUnknown: the plan of a running VM with a value that is not known yet says that the guest may be restarted if and only if the
// apply changes its power for one of the values that it turns out to be.
func TestLawRestartsUnknown(t *testing.T) {
	t.Parallel()
	changes, all, at := oneChanges(t), []unknownRestarts{}, map[string]int{}
	for path, c := range changes {
		running := flat{"power_state": cty.NilVal}
		maps.Copy(running, c.beside)
		c.beside = running
		changes[path] = c
	}
	for _, r := range unknownRows(t, changes) {
		path, what, _ := strings.Cut(r.name, ": ")
		group, _, _ := strings.Cut(path, ".")
		if strings.HasPrefix(what, "made") || strings.HasSuffix(what, "in a replacement") || group == "power_state" || group == "ha" {
			continue // the plan shows the power itself, and TestLawRestartsByHA is of HA
		}
		if what == afterNull {
			path += isNew
		}
		if _, seen := at[path]; !seen {
			at[path], all = len(all), append(all, unknownRestarts{name: path})
		}
		all[at[path]].rows = append(all[at[path]].rows, r)
		if n, ok := at[path+isNew]; ok && what == "another" {
			r.before = all[n].rows[0].before
			all[n].rows = append(all[n].rows, r)
		}
	}
	outcomes := map[string]int{}
	for _, is := range play(t, all, func(number int, r unknownRestarts) bool { return share.Plays(number, 40, r.name) }, worldOfOthers(t),
		func(w *rig.World, number int, r unknownRestarts) string {
			w.ExpectPowerOffs(state.PowerShutdown, state.PowerReboot, state.PowerStop)
			is, err := r.try(t.Context(), w, 30000+10*number)
			if err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
			return is
		}) {
		outcomes[is]++
	}
	t.Logf("%d plans: %v", len(all), outcomes)
	if len(all) < 400 || outcomes[restarted] == 0 || outcomes[unrestarted] == 0 {
		t.Errorf("%d plans, or they are all alike", len(all))
	}
}

func (r unknownRestarts) try(ctx context.Context, w *rig.World, vmid int) (outcome string, err error) {
	said, power, plans := "", "", 0
	for n, row := range r.rows {
		s, pl := row.planned(ctx, w, vmid+n)
		if pl != nil {
			plans++
			last := w.Sim.LastOp()
			for _, d := range pl.Diagnostics {
				if strings.HasSuffix(d.Summary, "may be restarted") || strings.HasSuffix(d.Summary, "will be restarted") {
					said += d.Summary + ": " + d.Detail + "\n"
				}
			}
			err = s.Apply(ctx, pl) // refused as the known value is: TestLawUnknowns
			if wrong := wrongOfUnplugging(w, pl, vmid+n); wrong != nil && err == nil {
				return "", fmt.Errorf("%s: %w", row.name, wrong)
			}
			for _, op := range w.Sim.OpsAfter(last) {
				if op.Method == http.MethodPost && strings.Contains(op.Path, "/status/") {
					power += fmt.Sprintf("%s %s (%v)\n", row.name, op.Path, err)
				}
			}
		}
		w.Change(func(world *state.World) { forget(world, vmid+n) })
		w.ResetCalls()
	}
	switch {
	case plans == 0:
		return cannotRun, nil
	case (said != "") != (power != "") && !slices.Contains(beyondRows(), r.name):
		return "", fmt.Errorf("the plan said: %s\nthe apply asked for: %s", said, power)
	case power != "":
		return restarted, nil
	}
	return unrestarted, nil
}

// wrongOfUnplugging wants each device named that the running guest has lost for a moment, and each of which that is certain to be lost.
func wrongOfUnplugging(w *rig.World, pl *terraformtest.Plan, vmid int) (err error) {
	w.Change(func(world *state.World) {
		g, said := world.Guests[vmid], pl.Diagnostics.String()
		if g == nil || g.Running == nil {
			return
		}
		for slot := range g.Config {
			lost := slices.Contains(g.Running.Unplugged, slot)
			of := fmt.Sprintf("%s of VM %d on pve1 ", slot, vmid)
			is, may := strings.Contains(said, of+"is unplugged while"), strings.Contains(said, of+"may be unplugged while")
			if isNIC := strings.HasPrefix(slot, "net") || strings.HasPrefix(slot, "usb"); isNIC && (lost && !is && !may || is && !lost) {
				err = fmt.Errorf("%s: unplugged %t, and the plan says %s", slot, lost, said)
			}
		}
	})
	return err
}

// TestPlanNamesDevicesThatMayBeUnplugged: beside a value that is not known yet, the plan of a running VM names a network device that the guest may
// lose for a moment, and is certain of one that it loses anyway. A bridge in the place of another is plugged at the node's end.
func TestPlanNamesDevicesThatMayBeUnplugged(t *testing.T) {
	t.Parallel()
	const is, may = " is unplugged while", " may be unplugged while"
	nic := func(inside string) string { return "networks = { net0 = { " + inside + " } }\n" }
	for name, c := range map[string]struct {
		before, after, value, says string
		lost                       bool
	}{
		"another bridge":      {nic(`bridge = "vmbr0"`), nic(`bridge = var.it, tag = 5`), "vmbr1", "", false},
		"the first bridge":    {nic(`model = "virtio"`), nic(`model = "virtio", bridge = var.it`), "vmbr1", may, true},
		"the same model":      {nic(`bridge = "vmbr0", model = "e1000"`), nic(`bridge = "vmbr0", model = var.it`), "e1000", may, false},
		"the same queues":     {nic(`bridge = "vmbr0", queues = 4`), nic(`bridge = "vmbr0", queues = var.it, tag = 4`), "4", may, false},
		"another MTU":         {nic(`bridge = "vmbr0"`), nic(`bridge = "vmbr0", mtu = var.it`), "1400", may, true},
		"another MAC address": {nic(`bridge = "vmbr0"`), nic(`bridge = "vmbr0", macaddr = var.it`), "bc:24:11:00:00:78", may, true},
		"a tag":               {nic(`bridge = "vmbr0"`), nic(`bridge = "vmbr0", tag = var.it`), "5", "", false},
		"beside another":      {nic(`bridge = "vmbr0"`), nic(`bridge = var.it, model = "e1000"`), "vmbr1", is, true},
		"off":                 {rig.Stopped + nic(`bridge = "vmbr0"`), rig.Stopped + nic(`bridge = "vmbr0", mtu = var.it`), "1400", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.RootTicket, rig.NodeVMBlock(c.before))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.RootTicket, "variable \"it\" {}\n"+rig.NodeVMBlock(c.after))
			s.SetVariable("it", cty.DynamicVal)
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			s.SetVariable("it", cty.StringVal(c.value))
			rig.Must(t, s.Apply(t.Context(), pl))
			lost, said := false, pl.Diagnostics.String()
			w.Change(func(world *state.World) {
				for _, g := range world.Guests {
					lost = lost || g.Running != nil && slices.Contains(g.Running.Unplugged, "net0")
				}
			})
			for _, says := range []string{is, may} {
				if strings.Contains(said, says) != (says == c.says) || lost != c.lost {
					t.Errorf("unplugged %t, and the plan says %s", lost, said)
				}
			}
		})
	}
}

// TestPlanTellsOfARestartOnce: a value that is not known yet has a warning of its own only where nothing else restarts the guest, and none
// where that takes it at once or is off.
func TestPlanTellsOfARestartOnce(t *testing.T) {
	t.Parallel()
	const size, hardware = "memory = { size = var.it }\n", "scsihw = var.it\n"
	for name, c := range map[string]struct{ before, after, says string }{
		"another value":        {"memory = { size = 1024 }\n", size, "VM 400 on pve1 may be restarted: memory.size is not known yet"},
		"unset before":         {"", hardware, "VM 400 on pve1 may be restarted: scsihw is not known yet"},
		"beside another":       {"", hardware + "cpu = { cores = 2 }\n", "VM 400 on pve1 will be restarted: PVE changes cores on a running VM"},
		"two values":           {"", "memory = { size = var.it }\n" + hardware, "VM 400 on pve1 may be restarted: memory.size, scsihw are not known yet"},
		"left to the user":     {"", hardware + "reboot_policy = \"never\"\n", "VM 400 on pve1 may keep running with the old values: scsihw is not known yet"},
		"taken at once":        {"networks = { net0 = { bridge = \"vmbr0\" } }\n", "networks = { net0 = { bridge = \"vmbr0\", tag = var.it } }\n", ""},
		"off":                  {rig.Stopped, rig.Stopped + hardware, ""},
		"shut down by the way": {"", rig.Stopped + hardware, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.RootTicket, rig.NodeVMBlock(c.before))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.RootTicket, "variable \"it\" {}\n"+rig.NodeVMBlock(c.after))
			s.SetVariable("it", cty.DynamicVal)
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			said := ""
			for _, d := range pl.Diagnostics {
				said += d.Summary + ": " + d.Detail + "\n"
			}
			if !strings.HasPrefix(said, c.says) || strings.Count(said, "\n") > 1 || c.says == "" && said != "" {
				t.Errorf("said %s", said)
			}
			if name == "beside another" && !strings.Contains(said, "So it may be with scsihw, which is not known yet.") {
				t.Errorf("said %s", said)
			}
		})
	}
}

// planned makes the VM and plans it, with its known configuration for the apply. Nil: it is not made, not planned, or replaced.
func (r unknownRow) planned(ctx context.Context, w *rig.World, vmid int) (*terraformtest.Session, *terraformtest.Plan) {
	r.endpoint = w.Sim.Endpoint()
	s, err := r.begin(ctx, w, vmid)
	if err != nil || s.SetResource(driftAddress, r.place(r.open, vmid).tree()) != nil {
		return nil, nil
	}
	w.Sim.Advance(time.Minute) // its process shows that it ran before the change
	pl, err := s.Plan(ctx)
	if err != nil || s.SetResource(driftAddress, r.place(r.known, vmid).tree()) != nil {
		return nil, nil
	}
	if change := pl.Change(driftAddress); change == nil || change.Action != terraformtest.Update {
		return nil, nil
	}
	return s, pl
}
