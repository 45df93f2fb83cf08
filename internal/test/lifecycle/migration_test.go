package lifecycle_test

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// movingVM is a VM with volumes of every kind on storages of its node alone. %s: node, storage of the disk, further attributes.
const movingVM = `
resource "proxmox_vm" "mine" {
  name      = "mine"
  vmid      = 400
  %s
  bios      = "ovmf"
  disks     = {
    scsi0 = { storage = %q, size = "2G" }
    scsi1 = { storage = "shared-nfs", size = "1G" }
  }
  efi_disk   = { storage = "local-zfs", type = "4m" }
  networks   = { net0 = { bridge = "vmbr0" }, net1 = { bridge = "vmbr1" } }
  cloud_init = { storage = "local-zfs", user = "ops", addresses = { net0 = { ipv4 = "10.0.0.5/24" } } }
  %s
}
`

func threeNodes(t *testing.T) *rig.World {
	t.Helper()
	return rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2", "pve3"}})
}

// fill puts content on the volumes of a VM, so that a copy can be told from a new one.
func fill(w *rig.World, vmid int) {
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.VMID == vmid && !strings.Contains(v.Name, "cloudinit") {
				v.Data = "data of " + v.Storage
			}
		}
	})
}

// contents are the data of a VM's volumes by storage and node.
func contents(w *rig.World, vmid int) map[string]string {
	all := map[string]string{}
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.VMID == vmid {
				kind := "disk"
				if strings.Contains(v.Name, "cloudinit") {
					kind = "cloudinit"
				}
				all[fmt.Sprintf("%s on %s (%s, %d MiB)", v.Storage, v.Node, kind, v.Size>>20)] = v.Data
			}
		}
	})
	return all
}

// TestMigrate: a VM moves to the configured node with all its devices, and is not switched off.
func TestMigrate(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		before, after string // power, ha
		storage       string // of scsi0 afterwards
		id            rig.Identity
	}{
		"running":                      {storage: "local-zfs"},
		"stopped":                      {before: `power_state = "stopped"`, after: `power_state = "stopped"`, storage: "local-zfs"},
		"running, to another storage":  {storage: "local-lvm"},
		"stopped, to another storage":  {before: `power_state = "stopped"`, after: `power_state = "stopped"`, storage: "local-lvm"},
		"stopped on the way":           {after: `power_state = "stopped"`, storage: "local-zfs"},
		"started on the other node":    {before: `power_state = "stopped"`, after: `power_state = "running"`, storage: "local-zfs"},
		"running under HA":             {before: `ha = { state = "started" }`, after: `ha = { state = "started" }`, storage: "local-zfs", id: rig.RootTicket},
		"taken out of HA":              {before: `ha = { state = "started" }`, storage: "local-zfs", id: rig.RootTicket},
		"with another option, running": {after: "description = \"moved\"\ncpu = { cores = 2 }\nreboot_policy = \"never\"", storage: "local-zfs"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := threeNodes(t)
			if c.id == "" {
				c.id = rig.TokenNoSSH
			}
			s := w.Session(t, c.id, fmt.Sprintf(movingVM, `node = "pve1"`, "local-zfs", c.before))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			fill(w, 400)
			before := rig.GuestOf(w, 400)
			w.Sim.ResetPowerOffs()
			w.Reconfigure(t, s, c.id, fmt.Sprintf(movingVM, `node = "pve2"`, c.storage, c.after))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			after := rig.GuestOf(w, 400)
			if after.Node != "pve2" {
				t.Errorf("the VM is on %s", after.Node)
			}
			for _, option := range []string{"net0", "net1", "smbios1", "vmgenid", "ipconfig0", "ciuser"} {
				if before.Config[option] != after.Config[option] {
					t.Errorf("%s was %q, is %q", option, before.Config[option], after.Config[option])
				}
			}
			want := map[string]string{
				c.storage + " on pve2 (disk, 2048 MiB)":   "data of local-zfs",
				"shared-nfs on  (disk, 1024 MiB)":         "data of shared-nfs",
				"local-zfs on pve2 (disk, 1 MiB)":         "data of local-zfs",
				"local-zfs on pve2 (disk, 4 MiB)":         "data of local-zfs", // the EFI disk has been on LVM with the other one
				"local-zfs on pve2 (cloudinit, 4 MiB)":    "",
				c.storage + " on pve2 (disk, 1 MiB)":      "data of local-zfs",
				c.storage + " on pve2 (cloudinit, 4 MiB)": "",
			}
			got := contents(w, 400)
			for volume, data := range got {
				if expected, ok := want[volume]; !ok || data != expected && !strings.Contains(volume, "cloudinit") {
					t.Errorf("volume %s has %q", volume, data)
				}
			}
			if len(got) != 4 {
				t.Errorf("volumes: %v", got)
			}
			for _, off := range w.Sim.PowerOffs() {
				if !strings.Contains(c.after, "stopped") || off.Hard {
					t.Errorf("power-off: %+v", off)
				}
			}
		})
	}
}

// TestMigrateNumbersDisksAnew: PVE gives the disks of a running VM the first free names on the other node, in the order of
// their slots (qemu-server QemuServer.pm vm_migrate_alloc_nbd_disks). So two disks may exchange their names. Each is
// still in its slot, nothing is to be done, and a destroy takes both.
func TestMigrateNumbersDisksAnew(t *testing.T) {
	t.Parallel()
	const config = "resource \"proxmox_vm\" \"mine\" {\n  vmid = 400\n  node = %q\n  disks = {\n%s    scsi1 = { storage = \"local-zfs\", size = \"2G\" }\n  }\n}\n"
	const first = "    scsi0 = { storage = \"local-zfs\", size = \"1G\" }\n"
	w := threeNodes(t)
	s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(config, "pve1", ""))
	converge := func(text string) {
		t.Helper()
		w.Reconfigure(t, s, rig.TokenNoSSH, text)
		if err := s.Converge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	inSlots := func() map[string]string {
		all, g := map[string]string{}, rig.GuestOf(w, 400)
		for _, slot := range []string{"scsi0", "scsi1"} {
			volume, _, _ := strings.Cut(g.Config[slot], ",")
			w.Change(func(world *state.World) { all[slot] = volume + ": " + world.Volume(g.Node, volume).Data })
		}
		return all
	}
	converge(fmt.Sprintf(config, "pve1", ""))
	converge(fmt.Sprintf(config, "pve1", first))
	w.Change(func(world *state.World) {
		world.Volume("pve1", "local-zfs:vm-400-disk-0").Data = "second"
		world.Volume("pve1", "local-zfs:vm-400-disk-1").Data = "first"
	})
	for _, move := range []func(){func() { converge(fmt.Sprintf(config, "pve2", first)) }, func() { rig.MigrateByHand(t, w, 400, "pve1") }} {
		move()
		want := map[string]string{"scsi0": "local-zfs:vm-400-disk-0: first", "scsi1": "local-zfs:vm-400-disk-1: second"}
		if got := inSlots(); !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	converge(fmt.Sprintf(config, "pve1", first))
	if err := s.Destroy(t.Context()); err != nil || len(contents(w, 400)) > 0 {
		t.Errorf("left %v: %v", contents(w, 400), err)
	}
}

// TestMigrateAndDetach: an apply migrates a VM and takes a disk out of the configuration. Its volume, which has another
// name or is on another storage by now, is still known as the VM's own, so the destroy takes it along.
func TestMigrateAndDetach(t *testing.T) {
	t.Parallel()
	config := func(node, power, storage string, slots ...string) string {
		text := fmt.Sprintf("resource \"proxmox_vm\" \"mine\" {\n  vmid = 400\n  node = %q\n  power_state = %q\n", node, power) +
			"  boot_order = [\"net0\"]\n  networks = { net0 = { bridge = \"vmbr0\" } }\n  disks = {\n"
		for _, slot := range slots {
			text += fmt.Sprintf("    %s = { storage = %q, size = \"%sG\" }\n", slot, storage, map[string]string{"scsi0": "1", "scsi1": "2"}[slot])
		}
		return text + "  }\n}\n"
	}
	for name, c := range map[string]struct{ power, storage string }{
		"running":                     {"running", "local-zfs"},
		"running, to another storage": {"running", "local-lvm"},
		"stopped, to another storage": {"stopped", "local-lvm"},
	} {
		w := threeNodes(t)
		s := w.Session(t, rig.TokenNoSSH, config("pve1", c.power, "local-zfs", "scsi1"))
		rig.Must(t, s.Converge(t.Context()))
		for _, next := range []string{config("pve1", c.power, "local-zfs", "scsi0", "scsi1"), config("pve2", c.power, c.storage, "scsi0")} {
			w.Reconfigure(t, s, rig.TokenNoSSH, next)
			rig.Must(t, s.Converge(t.Context()))
		}
		if has := rig.GuestOf(w, 400).Config; has["unused0"] == "" {
			t.Errorf("%s: nothing is detached: %v", name, has)
		}
		if err := s.Destroy(t.Context()); err != nil || len(contents(w, 400)) > 0 || len(s.Diagnostics()) > 0 {
			t.Errorf("%s: left %v: %v, %v", name, contents(w, 400), err, s.Diagnostics())
		}
	}
}

// TestMigrateRefused: what PVE would refuse is said in the plan, on the attribute, with nothing done.
func TestMigrateRefused(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		more   string
		world  func(*state.World)
		at     string
		detail string
	}{
		"storage not on the target": {world: func(w *state.World) { w.Storages["local-zfs"].Nodes = []string{"pve1", "pve3"} }, at: `disks["scsi0"].storage`, detail: "local-zfs"},
		"bridge not on the target":  {world: func(w *state.World) { w.Nodes["pve2"].Bridges = []string{"vmbr0"} }, at: `networks["net1"].bridge`, detail: "vmbr1"},
		"medium of the node":        {more: `cdroms = { ide0 = { file = "local:iso/debian.iso" } }`, at: `cdroms["ide0"]`, detail: "local:iso/debian.iso"},
		"node that is not there":    {world: func(w *state.World) { w.Nodes["pve2"].Online = false }, at: "node", detail: "offline"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := threeNodes(t)
			s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(movingVM, `node = "pve1"`, "local-zfs", c.more))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.world != nil {
				w.Change(c.world)
			}
			w.Mark()
			w.Reconfigure(t, s, rig.TokenNoSSH, fmt.Sprintf(movingVM, `node = "pve2"`, "local-zfs", c.more))
			_, err := s.Plan(t.Context())
			if err == nil {
				t.Fatal("the plan does not say it")
			}
			found := false
			for _, d := range s.Diagnostics().Errors() {
				found = found || strings.HasPrefix(d.Attribute, c.at) && strings.Contains(d.Summary+d.Detail, c.detail)
			}
			if !found {
				t.Errorf("want %s: …%s…; got %v", c.at, c.detail, s.Diagnostics().Errors())
			}
			w.MustBeClean(t)
		})
	}
}

// TestNodes: a VM that may be on several nodes is made on the first one that is online, followed among them, and fetched back
// from elsewhere.
func TestNodes(t *testing.T) {
	t.Parallel()
	w := threeNodes(t)
	w.Change(func(world *state.World) { world.Nodes["pve2"].Online = false })
	s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(movingVM, `nodes = ["pve2", "pve3"]`, "local-zfs", ""))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if at := rig.GuestOf(w, 400).Node; at != "pve3" {
		t.Fatalf("made on %s, want pve3, the first that is online", at)
	}
	w.Change(func(world *state.World) { world.Nodes["pve2"].Online = true })
	for _, move := range []struct{ to, ends string }{{"pve2", "pve2"}, {"pve1", "pve2"}} {
		rig.MigrateByHand(t, w, 400, move.to)
		pl, err := s.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if pl.Empty() != (move.to == move.ends) {
			t.Errorf("moved to %s by hand; the plan: %s", move.to, pl)
		}
		if err := s.Converge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if at := rig.GuestOf(w, 400).Node; at != move.ends {
			t.Errorf("moved to %s by hand, it ends on %s, want %s", move.to, at, move.ends)
		}
	}
}

// TestFollow: without a node in the configuration a VM that was moved is followed, for changes as well.
func TestFollow(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	const config = "resource \"proxmox_vm\" \"mine\" {\n  vmid = 400\n  clone = { vmid = 9000, full = true }\n  description = %q\n}\n"
	s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(config, "one"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Sim.ResetPowerOffs()
	rig.MigrateByHand(t, w, 400, "pve2")
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Reconfigure(t, s, rig.TokenNoSSH, fmt.Sprintf(config, "two"))
	pl, err := s.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rig.MigrateByHand(t, w, 400, "pve1") // between plan and apply
	if err := s.Apply(t.Context(), pl); err != nil {
		t.Fatal(err)
	}
	if g := rig.GuestOf(w, 400); g.Config["description"] != "two" || g.Node != "pve1" {
		t.Errorf("on %s with %q", g.Node, g.Config["description"])
	}
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if offs := w.Sim.PowerOffs(); len(offs) > 0 {
		t.Errorf("power-offs: %+v", offs)
	}
}

// TestTPMOfARunningVMStays: PVE moves the state of a TPM with a stopped VM only. A migration takes it to another storage where it takes all
// drives of its storage there. Where it does not, the plan refuses what the apply would find out after the migration.
func TestTPMOfARunningVMStays(t *testing.T) {
	t.Parallel()
	body := func(node, disk, tpm, more string) string {
		return fmt.Sprintf("resource \"proxmox_vm\" \"a\" {\nname = \"a\"\nvmid = 400\nnode = %q\ndisks = { scsi0 = { storage = %q, size = \"1G\" } }\ntpm_state = { storage = %q, version = \"v2.0\" }\n%s\n}\n", node, disk, tpm, more)
	}
	const running = `power_state = "running"`
	for name, c := range map[string]struct {
		on, to  string // on: the storage before, "" for that of the node
		refused bool
	}{
		"migration of a disk from a share":       {on: "shared-nfs", to: body("pve2", "local-zfs", "shared-nfs", running)},
		"migration of both from a share":         {on: "shared-nfs", to: body("pve2", "local-zfs", "local-zfs", running), refused: true},
		"no migration":                           {to: body("pve1", "local-zfs", "local-lvm", running), refused: true},
		"no migration, stopped":                  {to: body("pve1", "local-zfs", "local-lvm", `power_state = "stopped"`)},
		"migration with all drives":              {to: body("pve2", "local-lvm", "local-lvm", running)},
		"migration of which the disk stays":      {to: body("pve2", "local-zfs", "local-lvm", running), refused: true},
		"such a migration, stopped":              {to: body("pve2", "local-zfs", "local-lvm", `power_state = "stopped"`)},
		"migration with the state where it was":  {to: body("pve2", "local-zfs", "local-zfs", running)},
		"migration that would take it elsewhere": {to: body("pve2", "local-lvm", "local-zfs", running), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.ExpectPowerOffs(state.PowerShutdown)
			s := w.Session(t, rig.TokenNoSSH, body("pve1", cmp.Or(c.on, "local-zfs"), cmp.Or(c.on, "local-zfs"), running))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, c.to)
			if c.refused {
				_, err := s.Plan(t.Context())
				rig.MustSay(t, err, "with a stopped VM only")
				return
			}
			rig.Must(t, s.Converge(t.Context()))
		})
	}
}

// TestMigrateMappedDevices: a VM that is off takes its mapped devices along, one that power_state stops in the same change
// too. The plan refuses a running one, and a device whose mapping the target is not in, also one that leaves with the plan.
func TestMigrateMappedDevices(t *testing.T) {
	t.Parallel()
	const devices = "usb = { usb0 = { mapping = \"key\" } }\npci = { hostpci0 = { mapping = \"gpu\" } }\nvirtiofs = { virtiofs0 = { dirid = \"share\" } }"
	body := func(node, power, more string) string {
		return fmt.Sprintf("resource \"proxmox_vm\" \"a\" {\nname = \"a\"\nvmid = 400\nnode = %q\ndisks = { scsi0 = { storage = \"shared-nfs\", size = \"1G\" } }\npower_state = %q\n%s\n}\n", node, power, more)
	}
	for name, c := range map[string]struct {
		power, then, more string
		without           string // the mapping that pve2 is not in
		says              []string
	}{
		"off":                          {power: "stopped", then: "stopped", more: devices},
		"off, and started":             {power: "stopped", then: "running", more: devices},
		"stopped in the same change":   {power: "running", then: "stopped", more: devices},
		"running":                      {power: "running", then: "running", more: devices, says: []string{`pci["hostpci0"]`, `usb["usb0"]`, `virtiofs["virtiofs0"]`, `power_state = "stopped"`}},
		"no such mapping":              {power: "stopped", then: "stopped", more: devices, without: "gpu", says: []string{`pci["hostpci0"]`, "a resource mapping that node pve2 is not in"}},
		"no such mapping, and removed": {power: "stopped", then: "stopped", without: "key", says: []string{"usb0 has a resource mapping that node pve2 is not in"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := threeNodes(t)
			w.ExpectPowerOffs(state.PowerShutdown)
			w.Change(func(world *state.World) {
				world.Mappings = nil
				for id, kind := range map[string]string{"key": "usb", "gpu": "pci", "share": "dir"} {
					nodes := []string{"pve1", "pve2"}
					if id == c.without {
						nodes = []string{"pve1"}
					}
					world.Mappings = append(world.Mappings, &state.Mapping{Kind: kind, ID: id, Nodes: nodes})
				}
			})
			s := w.Session(t, rig.TokenNoSSH, body("pve1", c.power, devices))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, body("pve2", c.then, c.more))
			if len(c.says) == 0 {
				rig.Must(t, s.Converge(t.Context()))
				if on := rig.GuestOf(w, 400).Node; on != "pve2" {
					t.Errorf("it is on %s", on)
				}
				return
			}
			_, err := s.Plan(t.Context())
			text := fmt.Sprint(s.Diagnostics().Errors())
			if err == nil || strings.Count(text, "virtiofs") > 4 {
				t.Errorf("%v", err)
			}
			for _, part := range c.says {
				if !strings.Contains(text, part) {
					t.Errorf("%s is not in %s", part, text)
				}
			}
		})
	}
}
