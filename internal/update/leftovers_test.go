package update

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/printed"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestNoCommandForAnotherUsersDisk: a volume that another guest uses is named without a command, and where that
// cannot be told the command asks first.
func TestNoCommandForAnotherUsersDisk(t *testing.T) {
	const volume = "local-lvm:vm-400-disk-7"
	for name, c := range map[string]struct {
		prepare func(*world)
		says    string
	}{
		"no guest has it": {func(*world) {}, "`pvesm free " + volume + "` on node pve1"},
		"another guest has it": {
			func(w *world) { w.others(func(g *state.Guest) { g.Config["scsi7"] = volume + ",size=4M" }) },
			"volume " + volume + " is also used by"},
		"unknown": {func(w *world) {
			w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "GET", VMID: 8000}, Phase: fault.Before, Status: 403,
				Times: -1}})
		}, "`grep -rF -- " + volume + " /etc/pve/nodes; [ $? = 1 ] && pvesm free " + volume + "` on node pve1"},
	} {
		w := newWorld(t, nil)
		w.put("local-lvm", "vm-400-disk-7", theVM, "")
		u := w.updating()
		c.prepare(w)
		if said := (volumes{u}).freeCommand(t.Context(), volume, "pve1"); !strings.Contains(said, c.says) ||
			name == "another guest has it" && strings.Contains(said, "free") {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// TestLawCommandsOfUnusualVolumes: a volume whose name a shell would take apart is named without a command.
func TestLawCommandsOfUnusualVolumes(t *testing.T) {
	w := newWorld(t, nil)
	for _, name := range []string{"vm-400-x;id>${PWD}PWNED;#", "vm-400-$(id)", "vm-400-x'", "vm-400-x y", "vm-400-x\\", "vm-400-ü"} {
		volume := "local-lvm:" + name
		config := pve.PendingConfig{Entries: []pve.PendingValue{{Key: "scsi0", Value: volume}}}
		v := volumes{w.updating()}
		for _, said := range []string{v.freeCommand(t.Context(), volume, "pve1"),
			v.renamed(config, strings.Replace(volume, "vm-", "base-", 1), "pve1")} {
			if len(printed.Commands(said)) > 0 || !strings.Contains(said, "look at it by hand") {
				t.Errorf("%q: said %s", volume, said)
			}
		}
	}
}

// TestLeftoverThatWasThereBefore: a failed task has not left a volume that was there before it, so nothing says so, and
// no command destroys it. Where that cannot be told, there is no command either.
func TestLeftoverThatWasThereBefore(t *testing.T) {
	for name, tt := range map[string]struct {
		storage, node  string
		disk, snapshot string // a volume that the VM has
		log            []string
		age            time.Duration
		says           string // of the volume
	}{
		"older":                   {storage: "local-lvm", age: time.Hour},
		"of the same time":        {storage: "local-lvm", says: "`pvesm free local-lvm:vm-400-disk-9` on node pve1"},
		"no date":                 {storage: "local-zfs", age: time.Hour, says: "local-zfs:vm-400-disk-9 on node pve1"},
		"no date, but in the log": {storage: "local-zfs", log: []string{"created \"vm-400-disk-9\"."}, says: "`pvesm free"},
		"no date, another in the log": {storage: "local-zfs", log: []string{"created vm-400-disk-91", "vm-400-disk-9 exists"},
			says: "may have left"},
		"no date, by its id in the log": {storage: "local-zfs", log: []string{"made 'local-zfs:vm-400-disk-9'"}, says: "`pvesm free"},
		"no date, one of another storage in the log": {storage: "local-zfs",
			log: []string{"create full clone of drive scsi0 (local-lvm:vm-400-disk-9)"}, says: "may have left"},
		"no date, and a disk has the name": {storage: "local-zfs", disk: "local-lvm:vm-400-disk-9",
			log: []string{"created \"vm-400-disk-9\"."}, says: "may have left"},
		"no date, and a snapshot has the name": {storage: "local-zfs", snapshot: "local-lvm:vm-400-disk-9",
			log: []string{"created \"vm-400-disk-9\"."}, says: "may have left"},
		"no date, and a disk of another node's name": {storage: "local-zfs", node: "pve2", disk: "local-zfs:vm-400-disk-9",
			log: []string{"found local disk 'local-zfs:vm-400-disk-9' (attached)"}, says: "may have left"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1"})
			inWorld(w, func(all *state.World) {
				if tt.disk != "" {
					all.Guests[theVM].Config["scsi1"] = tt.disk
				}
				if tt.snapshot != "" {
					all.Guests[theVM].Snaps = map[string]map[string]string{"before": {"scsi1": tt.snapshot}}
				}
				old := &state.Volume{Storage: tt.storage, Node: cmp.Or(tt.node, "pve1"), Name: "vm-400-disk-9", VMID: theVM,
					Content: "images", Format: "raw", Size: 4 << 20}
				all.Put(old)
				old.Created = all.Clock.Now().Add(-tt.age)
			})
			u := w.updating()
			u.r.Node = cmp.Or(tt.node, u.r.Node)
			t0 := todo{planned: vm.Spec{Disks: map[string]vm.Disk{"scsi0": {Storage: tt.storage}}}}
			failed := &pve.TaskError{Log: tt.log, UPID: pve.UPID(fmt.Sprintf("UPID:pve1:00000001:00000001:%08X:qmmove:400:u@pve:",
				w.sim.World().Clock.Now().Unix()))}
			u.view.Tasks.Add(failed.UPID)
			volumes{u}.nameLeftovers(t.Context(), t0, failed)
			said := text(u.warnings)
			if tt.says == "" && said != "" || !strings.Contains(said, tt.says) ||
				strings.Contains(said, "pvesm free") != strings.Contains(tt.says, "pvesm free") {
				t.Errorf("says %q, want %q", said, tt.says)
			}
		})
	}
}

// others alters VM 8000, which is a third party's, on the same node.
func (w *world) others(f func(*state.Guest)) {
	all := w.sim.World()
	all.Lock()
	defer all.Unlock()
	f(all.Guests[8000])
}
