package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// quietVM is a running VM with an agent that has told its address; parts of it are replaced by the cases.
var quietVM = map[string]string{
	"cpu": "{ cores = 2 }", "memory": "{ size = 512 }", "agent": "{ enabled = true }",
	"disks":    `{ scsi0 = { storage = "local-zfs", size = "1G" } }`,
	"networks": `{ net0 = { bridge = "vmbr0", macaddr = "BC:24:11:00:00:01" } }`,
}

func quiet(parts ...map[string]string) string {
	all := map[string]string{}
	for _, of := range append([]map[string]string{quietVM}, parts...) {
		for name, value := range of {
			all[name] = value
		}
	}
	var hcl strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != "" {
			fmt.Fprintf(&hcl, "  %s = %s\n", name, all[name])
		}
	}
	return "resource \"proxmox_vm\" \"x\" {\n  node = \"pve1\"\n  vmid = 500\n" + hcl.String() + "}\n"
}

// unknownsIn are the attributes of a plan that are not known, dotted.
func unknownsIn(v cty.Value) (all []string) {
	_ = cty.Walk(v, func(at cty.Path, v cty.Value) (bool, error) {
		if v.IsKnown() {
			return true, nil
		}
		var path []string
		for _, step := range at {
			switch s := step.(type) {
			case cty.GetAttrStep:
				path = append(path, s.Name)
			case cty.IndexStep:
				path = append(path, s.Key.AsString())
			}
		}
		all = append(all, strings.Join(path, "."))
		return false, nil
	})
	slices.Sort(all)
	return all
}

// TestQuietPlans: a plan leaves open what may change, and nothing else. The values that it leaves known are so after the apply and the
// refresh that follows.
func TestQuietPlans(t *testing.T) {
	t.Parallel()
	const addresses = "addresses ipv4_address ipv6_address"
	for name, c := range map[string]struct {
		before, after map[string]string
		world         func(*state.Guest)
		open          string
	}{
		"cores":                          {after: map[string]string{"cpu": "{ cores = 4 }"}},
		"cores, later":                   {after: map[string]string{"cpu": "{ cores = 4 }", "reboot_policy": `"never"`}, open: "pending_changes"},
		"cores, and wait":                {after: map[string]string{"cpu": "{ cores = 4 }", "wait_for": "{ ipv4 = true }"}, open: addresses},
		"cores of a stopped VM":          {before: map[string]string{"power_state": `"stopped"`}, after: map[string]string{"cpu": "{ cores = 4 }", "power_state": `"stopped"`}},
		"power":                          {before: map[string]string{"power_state": `"stopped"`}, after: map[string]string{"power_state": `"running"`}, open: addresses},
		"a description":                  {after: map[string]string{"description": `"x"`}},
		"a description, no agent":        {before: map[string]string{"agent": ""}, after: map[string]string{"agent": "", "description": `"x"`}},
		"cores, no agent":                {before: map[string]string{"agent": ""}, after: map[string]string{"agent": "", "cpu": "{ cores = 4 }"}},
		"a disk":                         {after: map[string]string{"disks": `{ scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "1G" } }`}, open: "disks.scsi1.format disks.scsi1.volume"},
		"a larger disk":                  {after: map[string]string{"disks": `{ scsi0 = { storage = "local-zfs", size = "2G" } }`}},
		"a network device":               {after: map[string]string{"networks": `{ net0 = { bridge = "vmbr0", macaddr = "BC:24:11:00:00:01" }, net1 = { bridge = "vmbr0" } }`}, open: addresses + " networks.net1.macaddr networks.net1.model"},
		"a network device, old notation": {world: legacy, after: map[string]string{"networks": `{ net0 = { bridge = "vmbr0", macaddr = "BC:24:11:00:00:01" }, net1 = { bridge = "vmbr0" } }`}, open: addresses + " boot_order networks.net1.macaddr networks.net1.model"},
		"a CD-ROM drive":                 {after: map[string]string{"cdroms": `{ ide0 = { file = "none" } }`}, open: "boot_order"},
		"the disk that it boots from":    {before: map[string]string{"power_state": `"stopped"`}, after: map[string]string{"power_state": `"stopped"`, "disks": "{}"}, open: "boot_order unused_volumes"},
		"the machine":                    {after: map[string]string{"machine": `"q35"`}, open: addresses},
		"the machine, no agent":          {before: map[string]string{"agent": ""}, after: map[string]string{"agent": "", "machine": `"q35"`}},
		"tries and comment of HA":        {before: map[string]string{"ha": `{ state = "started" }`}, after: map[string]string{"ha": `{ state = "started", max_restart = 3, comment = "web" }`}},
		"the state of HA":                {before: map[string]string{"ha": `{ state = "started" }`}, after: map[string]string{"ha": `{ state = "disabled" }`}, open: addresses + " pending_changes status"},
		"the node":                       {after: map[string]string{"node": `"pve2"`}, open: "disks.scsi0.format disks.scsi0.volume unused_volumes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.RootTicket, quiet(c.before))
			rig.Must(t, s.Converge(t.Context()))
			if c.world != nil {
				w.Change(func(world *state.World) { c.world(world.Guests[500]) })
				rig.Must(t, s.Refresh(t.Context()))
			}
			after := quiet(c.after)
			if strings.Contains(after, "node = \"pve2\"") {
				after = strings.Replace(after, "  node = \"pve1\"\n", "", 1)
			}
			w.Reconfigure(t, s, rig.RootTicket, after)
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			planned := pl.Changes[0].Planned
			mustBeOpen(t, planned, c.open)
			rig.Must(t, s.Apply(t.Context(), pl))
			rig.Must(t, s.Refresh(t.Context()))
			i, err := s.Instance("proxmox_vm.x")
			rig.Must(t, err)
			mustKeepPromises(t, planned, i.Value)
		})
	}
}

// TestPlanIsSilentAboutDevicesNotMissed: a device that a guest which is off loses was not plugged, one without hotplug leaves with
// a restart, another VM takes the place of one that is replaced, and a VM boots on without a disk that it does not boot from.
func TestPlanIsSilentAboutDevicesNotMissed(t *testing.T) {
	t.Parallel()
	const nic, off, cold = "networks = { net0 = { bridge = \"vmbr0\" } }\n", rig.Stopped, "hotplug = [\"disk\"]\n"
	const clone = "clone = { vmid = 9000, full = true }\n"
	disks := func(slots ...string) string {
		return "disks = { " + strings.Join(slots, ` = { storage = "local-zfs", size = "1G" }, `) + ` = { storage = "local-zfs", size = "1G" } }` + "\n"
	}
	for name, c := range map[string]struct{ before, after string }{
		"a network device of a VM that is off":       {off + nic, off},
		"a network device of a VM that is shut down": {nic, off},
		"a network device without hotplug":           {cold + nic, cold},
		"a network device of a VM that is replaced":  {"protection = false\n" + clone + nic, "protection = false\n" + strings.Replace(clone, "9000", "8000", 1)},
		"a disk that the VM does not boot from":      {off + disks("scsi0", "scsi1"), off + disks("scsi0")},
		"a boot disk in the place of which the configuration has another": {off + disks("scsi0", "scsi1"),
			off + "boot_order = [\"scsi1\"]\n" + disks("scsi1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, c.before)
			said := l.Plan(c.after).Diagnostics.String()
			if strings.Contains(said, "unplugged while") || strings.Contains(said, "boot without it") {
				t.Error(said)
			}
		})
	}
}

// legacy gives a guest a boot order in the old notation, of the same devices.
func legacy(g *state.Guest) {
	g.Config["boot"], g.Config["bootdisk"] = "cdn", "scsi0"
}

// mustBeOpen compares the attributes that a plan leaves open.
func mustBeOpen(t *testing.T, planned cty.Value, want string) {
	t.Helper()
	got, wanted := unknownsIn(planned), strings.Fields(want)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("open is %q, want %q", got, wanted)
	}
}

// mustKeepPromises compares the values that a plan knows with a state.
func mustKeepPromises(t *testing.T, planned, state cty.Value) {
	t.Helper()
	for _, broken := range terraformtest.BrokenPromises(planned, state) {
		t.Error(broken)
	}
}
