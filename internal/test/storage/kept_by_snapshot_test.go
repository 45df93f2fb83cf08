package storage_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestPlanTellsThatASnapshotKeepsADisk: PVE moves no disk that a snapshot has to another storage, and takes it to
// another node only as far as the snapshots on its storage can travel. The plan warns of it on the disk where the apply
// would fail, and nowhere else.
func TestPlanTellsThatASnapshotKeepsADisk(t *testing.T) {
	t.Parallel()
	const snapshot = `
resource "proxmox_vm_snapshot" "s" {
  vmid = proxmox_vm.x.vmid
  name = "before"
}
`
	const one, other = `scsi0 = { storage = "local-zfs", size = "1G" }`, `, scsi1 = { storage = "local-lvm", size = "1G" }`
	vm := func(head, disks string) string { return rig.NodeVMBlock(head + "\ndisks = { " + disks + " }") }
	moved := func(config string) string { return strings.Replace(config, "local-zfs", "local-lvm", 1) }
	away := func(config string) string { return strings.Replace(config, `"pve1"`, `"pve2"`, 1) }
	both, destroys := strings.Replace(one+other, "local-lvm", "local-zfs", 1), `removed_disks = "destroy"`
	shared, stopped := `scsi0 = { storage = "shared-nfs", size = "1G", format = "qcow2" }`, rig.Stopped
	clone := rig.NodeVMBlock("clone = { vmid = 9000, full = true }")
	for name, c := range map[string]struct {
		first, second, third string // second is made when the snapshot is there, third is the plan in question
		warns                []string
		fails                string
	}{
		"another storage": {vm("", one), vm("", one), moved(vm("", one)) + snapshot,
			[]string{`disks["scsi0"].storage`, "Snapshot before keeps scsi0 on local-zfs: remove it first"},
			"Snapshot before keeps scsi0 on local-zfs: remove it first"},
		"another storage, of a clone's disk that is configured for the first time": {clone, clone,
			strings.Replace(clone, "true }", "true }\ndisks = { scsi0 = { storage = \"local-lvm\" } }", 1) + snapshot,
			[]string{`disks["scsi0"].storage`, "Snapshot before keeps scsi0 on local-zfs: remove it first"},
			"Snapshot before keeps scsi0 on local-zfs: remove it first"},
		"another storage, of two disks": {vm("", both), vm("", both),
			vm("", strings.ReplaceAll(both, "local-zfs", "local-lvm")) + snapshot,
			[]string{"Snapshot before keeps scsi0 on local-zfs, scsi1 on local-zfs: remove it first"}, "has snapshots, and was not moved"},
		"another storage, and the VM is replaced": {vm("", one), vm("", one),
			moved(strings.Replace(vm("", one), "vmid = 400", "vmid = 401", 1)) + snapshot, nil, ""},
		"a disk is destroyed": {vm(destroys, both), vm(destroys, both), vm(destroys, one) + snapshot,
			[]string{"removed_disks", "Snapshot before keeps scsi1 on local-zfs: remove it first", `removed_disks = "detach"`},
			"Snapshot before needs it"},
		"a disk is destroyed that is newer": {vm(destroys, one), vm(destroys, both), vm(destroys, one) + snapshot, nil, ""},
		"a disk is detached":                {vm("", both), vm("", both), vm("", one) + snapshot, nil, ""},
		"another storage, of a disk that is newer": {vm("", one), vm("", one+other),
			vm("", one+strings.Replace(other, "local-lvm", "local-zfs", 1)) + snapshot, nil, ""},
		"another storage, and the snapshot goes": {vm("", one), vm("", one), moved(vm("", one)),
			[]string{"the same apply"}, ""},
		"another size": {vm("", one), vm("", one), strings.Replace(vm("", one), "1G", "2G", 1) + snapshot, nil, ""},
		"another node, and it runs": {vm("", one), vm("", one), away(vm("", one)) + snapshot,
			[]string{`disks["scsi0"]`, "before", "pve1"}, "was not migrated"},
		"another node, from ZFS, and it is off": {vm(stopped, one), vm(stopped, one), away(vm(stopped, one)) + snapshot,
			nil, ""},
		"another node, from LVM, and it is off": {vm(stopped, moved(one)), vm(stopped, moved(one)),
			away(vm(stopped, moved(one))) + snapshot, []string{`disks["scsi0"]`, "before", "pve1"}, "was not migrated"},
		"another node, from a shared storage": {vm("", shared),
			vm("", shared),
			away(vm("", shared)) + snapshot, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, c.first+snapshot)
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, c.second+snapshot)
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, c.third)
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			var said []string
			for _, d := range s.Diagnostics().Warnings() {
				if strings.Contains(d.Summary, "snapshot") {
					said = append(said, d.String())
				}
			}
			text := strings.Join(said, "\n")
			if len(said) != min(1, len(c.warns)) {
				t.Errorf("the plan says %q, want %q", text, c.warns)
			}
			rig.MustSayAll(t, text, c.warns...)
			switch err := s.Apply(t.Context(), pl); {
			case c.fails != "":
				rig.MustSay(t, err, c.fails)
			default:
				rig.Must(t, err)
			}
		})
	}
}

// TestPlanOfAMoveReadsTheSnapshotsOnce: a plan that moves disks asks for the list of the VM's snapshots, one that moves
// none does not.
func TestPlanOfAMoveReadsTheSnapshotsOnce(t *testing.T) {
	t.Parallel()
	const body = `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "1G" } }`
	for to, want := range map[string]int{`"local-lvm", size = "1G"`: 1, `"local-zfs", size = "2G"`: 0} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.TokenNoSSH, rig.NodeVMBlock(body))
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.TokenNoSSH, rig.NodeVMBlock(strings.ReplaceAll(body, `"local-zfs", size = "1G"`, to)))
		before := len(w.Sim.Ops())
		_, err := s.Plan(t.Context())
		rig.Must(t, err)
		asked := 0
		for _, op := range slices.Clone(w.Sim.Ops()[before:]) {
			if strings.Contains(op.Path, "/snapshot") {
				asked++
			}
		}
		if asked != want {
			t.Errorf("with %s the plan asks %d times for snapshots, want %d", to, asked, want)
		}
	}
}

// TestRefreshWarnsOfHalfASnapshot: the removal of a snapshot fails at the second disk, and the user takes the resource back into
// the configuration. The plan says that it is no restore point; a replacement makes it one.
func TestRefreshWarnsOfHalfASnapshot(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	const snapshot = `
resource "proxmox_vm_snapshot" "it" {
  vmid = proxmox_vm.web.vmid
  name = "before"
}
`
	vm := `
resource "proxmox_vm" "web" {
  vmid = 300
  node = "pve1"
  name = "web"
  power_state = "stopped"
  disks = {
    scsi0   = { storage = "local-zfs", size = "1G" }
    virtio5 = { storage = "local-zfs", size = "1G" }
  }
}
`
	s := w.Session(t, rig.TokenNoSSH, vm+snapshot)
	rig.Must(t, s.Converge(t.Context()))
	volume, _, _ := strings.Cut(rig.GuestOf(w, 300).Config["virtio5"], ",")
	hold := func(held bool) {
		w.Change(func(world *state.World) {
			world.Volume("pve1", volume).Held = held
			delete(world.Guests[300].Config, "lock") // qm unlock
		})
	}
	hold(true)
	w.Reconfigure(t, s, rig.TokenNoSSH, vm)
	rig.MustSay(t, s.Run(t.Context()), "VM 300 on node pve1 is locked (snapshot-delete)", "virtio5 ("+volume+")", "`qm unlock 300`")
	hold(false)
	w.Reconfigure(t, s, rig.TokenNoSSH, vm+snapshot)
	_, err := s.Plan(t.Context())
	rig.Must(t, err)
	if said := s.Diagnostics().String(); !strings.Contains(said, "Snapshot before of VM 300 on node pve1 is not whole") {
		t.Errorf("the plan takes half a snapshot for a whole one; it says %q", said)
	}
	w.Reconfigure(t, s, rig.TokenNoSSH, vm)
	rig.Must(t, s.Converge(t.Context()))
	w.Reconfigure(t, s, rig.TokenNoSSH, vm+snapshot)
	rig.Must(t, s.Converge(t.Context()))
	if said := s.Diagnostics(); len(said) > 0 || rig.GuestOf(w, 300).Snaps["before"] == nil {
		t.Errorf("it was not taken again: %s", said)
	}
}

// TestPlanForeseesThatADiskTakesNoSnapshot: the plan of the first snapshot of a VM asks PVE once whether its disks take one. It does not ask of
// a VM that the same plan makes or changes, whose apply says the same.
func TestPlanForeseesThatADiskTakesNoSnapshot(t *testing.T) {
	t.Parallel()
	snapshot := "\nresource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.x.vmid\n  name = \"before\"\n}\n"
	vm := func(disk string) string { return rig.NodeVMBlock("disks = { scsi0 = { " + disk + " } }") }
	zfs, raw := vm(`storage = "local-zfs", size = "1G"`), vm(`storage = "shared-nfs", size = "1G", format = "raw"`)
	for name, c := range map[string]struct {
		first, then string
		asked       int
		plan, apply bool // fails
	}{
		"a raw disk on NFS":            {raw, raw, 1, true, false},
		"a disk on ZFS":                {zfs, zfs, 1, false, false},
		"a raw disk that moves to ZFS": {raw, zfs, 0, false, false},
		"a raw disk of a new VM":       {"", raw, 0, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const says = "has a disk on a storage that takes no snapshots, or of a format without them"
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, c.first)
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, c.then+snapshot)
			w.Sim.ResetOps()
			pl, err := s.Plan(t.Context())
			asked := 0
			for _, op := range w.Sim.Ops() {
				if strings.HasSuffix(op.Path, "/feature") {
					asked++
				}
			}
			if asked != c.asked {
				t.Errorf("asked %d times", asked)
			}
			if c.plan {
				rig.MustSay(t, err, says)
				return
			}
			rig.Must(t, err)
			if err := s.Apply(t.Context(), pl); c.apply {
				rig.MustSay(t, err, says)
			} else {
				rig.Must(t, err)
			}
		})
	}
}
