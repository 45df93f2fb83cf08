package destroy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// snap is a snapshot of VM 400 that an administrator takes; the clock of his node may go wrong.
func snap(w *rig.World, name, taken string) {
	w.Change(func(world *state.World) {
		g := world.Guests[400]
		if g.Snaps == nil {
			g.Snaps = map[string]map[string]string{}
		}
		g.Snaps[name] = map[string]string{"snaptime": taken}
	})
}

// TestPlanNamesSnapshotsThatGo: the snapshots of a VM go with it. The plan of a replacement names them all. That of a destroy names those
// that no proxmox_vm_snapshot of the same plan removes, as far as it is planned before the VM. Of blocks that leave the configuration Terraform
// plans either first: there the words are true in any order, as they are where the snapshot stays in the configuration.
func TestPlanNamesSnapshotsThatGo(t *testing.T) {
	t.Parallel()
	const own = "resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.x.vmid\n  name = \"before\"\n}\n"
	const literal = "resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = 400\n  name = \"before\"\n  depends_on = [proxmox_vm.x]\n}\n"
	const has = "goes with more than its disks"
	for name, c := range map[string]struct {
		own, to   string
		all       bool // terraform destroy
		his, deaf bool // an administrator's is there, too; the snapshots cannot be read
		retaken   bool // an administrator has taken one of its name since the refresh
		says, not []string
	}{
		"replacement":                         {own: own, to: copied(8000, "") + own, his: true, says: []string{has, "snapshot before", "takes its id"}},
		"replacement with one's own":          {own: own, to: copied(8000, "") + own, says: []string{has, "snapshot before"}},
		"replacement without":                 {to: copied(8000, ""), not: []string{has}},
		"destroy":                             {his: true, says: []string{has}, not: []string{"before\n", "takes its id"}},
		"destroy of all":                      {own: own, to: copied(9000, "") + own, all: true, his: true, says: []string{has}, not: []string{"snapshot before"}},
		"destroy of all with one's own":       {own: own, to: copied(9000, "") + own, all: true, not: []string{has}},
		"destroy of all, taken again by hand": {own: own, to: copied(9000, "") + own, all: true, retaken: true, says: []string{has, "snapshot before"}},
		"both removed, VM planned first":      {own: own, says: []string{has, "snapshot before"}},
		"VM removed, snapshot stays":          {own: literal, to: strings.Replace(literal, "  depends_on = [proxmox_vm.x]\n", "", 1), says: []string{has, "snapshot before"}},
		"not read":                            {his: true, deaf: true, says: []string{has, "every snapshot, if there is one: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, copied(9000, "")+c.own)
			rig.Must(t, s.Converge(t.Context()))
			var options []terraformtest.PlanOption
			if c.his {
				snap(w, "theirs", "1700000000")
				if len(c.says) > 0 && !c.deaf {
					c.says = append(c.says, "theirs")
				}
			}
			if c.retaken {
				w.Change(func(world *state.World) { world.Guests[400].Snaps["before"]["snaptime"] = "1700000000" })
				options = append(options, terraformtest.WithoutRefresh())
			}
			if c.deaf {
				w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/snapshot"}, Times: -1, Phase: fault.Before, Status: 403}})
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, c.to)
			if c.all {
				options = append(options, terraformtest.ToDestroy())
			}
			_, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			wantSaid(t, "the plan", fmt.Sprint(s.Diagnostics()), c.says, c.not)
		})
	}
}

// TestSnapshotTakenSinceThePlanIsNotDestroyed: a third party takes a snapshot between plan and apply. The destroy is refused, and the next
// plan names the snapshot. A plan that is shown no VM, or could not read the snapshots, has named none: there the destroy names those that
// went.
func TestSnapshotTakenSinceThePlanIsNotDestroyed(t *testing.T) {
	t.Parallel()
	const refused, went = "has a snapshot that the plan does not name", "VM 400 went with more than its disks"
	for name, c := range map[string]struct {
		to            string // "": the VM leaves the configuration
		had, taken    string // snapshots "theirs" and another at these times; "": none
		taint, forced bool
		deaf          bool // the plan cannot read the snapshots
		planned, says string
	}{
		"destroy":                           {taken: "1700000001", says: refused},
		"destroy of one with a snapshot":    {had: "1700000000", taken: "1700000001", planned: "snapshot theirs", says: refused},
		"destroy, nothing taken":            {had: "1700000000", planned: "snapshot theirs"},
		"replacement":                       {to: copied(8000, ""), taken: "1700000001", says: refused},
		"replacement, nothing taken":        {to: copied(8000, ""), had: "1700000000", planned: "snapshot theirs"},
		"-replace":                          {to: copied(9000, ""), forced: true, had: "1700000000", says: went},
		"taint":                             {to: copied(9000, ""), taint: true, had: "1700000000", planned: "snapshot theirs", says: went},
		"destroy, where no plan could look": {deaf: true, had: "1700000000", planned: "every snapshot", says: went},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, copied(9000, ""))
			rig.Must(t, s.Converge(t.Context()))
			if c.had != "" {
				snap(w, "theirs", c.had)
			}
			if c.deaf {
				w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/snapshot"}, Times: -1, Phase: fault.Before, Status: 403}})
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, c.to)
			var options []terraformtest.PlanOption
			for _, address := range s.Addresses() {
				if c.taint {
					s.Taint(address, true)
				} else if c.forced {
					options = append(options, terraformtest.Replacing(address))
				}
			}
			plan, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			wantSaid(t, "the plan", fmt.Sprint(s.Diagnostics()), []string{c.planned}, nil)
			w.Sim.SetFaults(nil)
			if c.taken != "" {
				snap(w, "since", c.taken)
			}
			err = s.Apply(t.Context(), plan)
			if c.says != refused {
				rig.Must(t, err)
				not := []string{went}
				if c.says != "" {
					not = nil
				}
				wantSaid(t, "the apply", fmt.Sprint(s.Diagnostics()), []string{c.says}, not)
				return
			}
			rig.MustSay(t, err, refused)
			w.Change(func(world *state.World) {
				if g := world.Guests[400]; g == nil || g.Snaps["since"] == nil {
					t.Error("the VM or the snapshot is gone")
				}
			})
			plan, err = s.Plan(t.Context())
			rig.Must(t, err)
			wantSaid(t, "the next plan", fmt.Sprint(s.Diagnostics()), []string{"since"}, nil)
			rig.Must(t, s.Apply(t.Context(), plan))
		})
	}
}

// TestSnapshotThatNoPlanCouldLookFor: the provider block depends on a value that is not known yet, so the plan has no server to ask. Its
// destroy is refused where the VM has a snapshot, and the next plan, which has a server, names it. A VM without one goes.
func TestSnapshotThatNoPlanCouldLookFor(t *testing.T) {
	t.Parallel()
	const vm, disk, unknown = "proxmox_vm.x", rig.DiskAddress, "variable \"tags\" {}\n"
	for name, c := range map[string]struct {
		of, from, to     string // "": it leaves the configuration
		forced, taint    bool
		withoutASnapshot bool
	}{
		"destroy":                   {of: vm, from: copied(9000, "")},
		"destroy of one without":    {of: vm, from: copied(9000, ""), withoutASnapshot: true},
		"replacement":               {of: vm, from: copied(9000, ""), to: copied(8000, "")},
		"-replace":                  {of: vm, from: copied(9000, ""), to: copied(9000, ""), forced: true},
		"-replace of one without":   {of: vm, from: copied(9000, ""), to: copied(9000, ""), forced: true, withoutASnapshot: true},
		"taint":                     {of: vm, from: copied(9000, ""), to: copied(9000, ""), taint: true},
		"destroy of a disk":         {of: disk, from: rig.DiskBlock(rig.SmallDisk)},
		"destroy of a disk without": {of: disk, from: rig.DiskBlock(rig.SmallDisk), withoutASnapshot: true},
		"-replace of a disk":        {of: disk, from: rig.DiskBlock(rig.SmallDisk), to: rig.DiskBlock(rig.SmallDisk), forced: true},
		"taint of a disk":           {of: disk, from: rig.DiskBlock(rig.SmallDisk), to: rig.DiskBlock(rig.SmallDisk), taint: true},
		"taint of a disk without":   {of: disk, from: rig.DiskBlock(rig.SmallDisk), to: rig.DiskBlock(rig.SmallDisk), taint: true, withoutASnapshot: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
			vmid := map[string]int{vm: 400, disk: 300}[c.of]
			block := strings.Replace(w.ProviderBlock(rig.RootTicket), "{\n", "{\n  default_tags = var.tags\n", 1) + unknown
			s := w.NewSession()
			rig.Must(t, s.Configure(block, c.from))
			none := cty.SetValEmpty(cty.String)
			s.SetVariable("tags", none)
			rig.Must(t, s.Converge(t.Context()))
			if !c.withoutASnapshot {
				w.Change(func(world *state.World) {
					world.Guests[vmid].Snaps = map[string]map[string]string{"theirs": {"snaptime": "1700000000"}}
				})
			}
			rig.Must(t, s.Configure(block, c.to))
			var options []terraformtest.PlanOption
			if c.forced {
				options = append(options, terraformtest.Replacing(c.of))
			}
			if c.taint {
				s.Taint(c.of, true)
			}
			s.SetVariable("tags", cty.DynamicVal)
			plan, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			s.SetVariable("tags", none)
			err = s.Apply(t.Context(), plan)
			if c.withoutASnapshot {
				rig.Must(t, err)
				return
			}
			rig.MustSay(t, err, "has a snapshot that the plan does not name")
			w.Change(func(world *state.World) {
				if g := world.Guests[vmid]; g == nil || g.Snaps["theirs"] == nil {
					t.Fatal("the VM or the snapshot is gone")
				}
			})
			plan, err = s.Plan(t.Context(), options...)
			rig.Must(t, err)
			rig.Must(t, s.Apply(t.Context(), plan))
		})
	}
}
