package acctest

import (
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// conformanceSteps is what happened on the server between the recorded requests, by the row that follows.
func conformanceSteps(s *conformer) map[int]func() {
	orphan := func(storage, name string, vmid int, size int64) func() {
		return func() { s.change(func(w *state.World) { orphanVolume(w, storage, name, vmid, size) }) }
	}
	gone := func(storage, name string) func() {
		return func() {
			s.change(func(w *state.World) {
				delete(w.Volumes, state.VolumeKey{Storage: storage, Node: "pve1", Name: name})
			})
		}
	}
	lock := func(id int, lock string) func() {
		return func() { s.change(func(w *state.World) { w.Guests[id].SetLock(lock, "state") }) }
	}
	content := func(data string) func() {
		return func() {
			s.change(func(w *state.World) {
				w.Volumes[state.VolumeKey{Storage: "local", Node: "pve1", Name: "import/disk.qcow2"}].Data = data
			})
		}
	}
	slow := func(d time.Duration) func() { return func() { s.sim.SetTaskTime(d) } }
	then := func(d time.Duration) func() {
		return func() {
			s.sim.SetTaskTime(0)
			s.sim.Advance(d)
		}
	}
	kill := func() { s.sim.SetFaults([]fault.Rule{{Phase: fault.KillTask}}) }
	steps := map[int]func(){
		36:  func() { gone("local-zfs", "vm-401-disk-0")(); slow(1)() },
		38:  then(0),
		74:  orphan("local-zfs", "vm-200-disk-0", 200, 1<<30),
		76:  orphan("local-zfs", "vm-200-cloudinit", 200, 4<<20),
		77:  orphan("local2", "200/vm-200-cloudinit.qcow2", 200, 4<<20),
		99:  content("torn"),
		100: func() { content("an image")(); orphan("local-zfs", "vm-210-cloudinit", 210, 4<<20)() },
		166: lock(100, "clone"), 181: lock(100, "backup"), 196: lock(100, "create"), 211: lock(100, "clone"),
		233: orphan("local-zfs", "vm-302-cloudinit", 302, 4<<20),
		242: slow(200 * time.Second), 243: then(90 * time.Second),
		257: slow(8 * time.Second), 258: then(3 * time.Second), 261: then(10 * time.Second),
		262: slow(72 * time.Second), 263: then(19 * time.Second), 269: then(5 * time.Second),
		306: func() {
			s.change(func(w *state.World) {
				g := w.Guests[320]
				g.Running = &state.Running{QMPStatus: "running", StartedAt: w.Clock.Now(), Booted: g.Config}
				g.SetLock("backup", "state")
			})
		},
		312: lock(320, "backup"), 313: lock(320, ""), 314: kill, 327: kill,
		336: gone("local2", "322/vm-322-disk-0.qcow2"),
		381: then(300 * time.Second),
	}
	guestSteps(s, steps)
	return steps
}

// guestSteps are those that script the guests' operating systems, and the last ones.
func guestSteps(s *conformer, steps map[int]func()) {
	steps[288] = func() { s.change(func(w *state.World) { w.Guests[303].Ignores = []string{"unplug"} }) }
	steps[302] = func() {
		s.change(func(w *state.World) {
			w.Guests[320].Ignores, w.Guests[320].Agent = []string{"shutdown", "unplug"}, &state.Agent{Silent: true}
		})
	}
	steps[339] = func() { s.change(func(w *state.World) { w.Guests[323].Agent = &state.Agent{Silent: true} }) }
	steps[340] = func() {
		s.change(func(w *state.World) {
			w.Guests[323].Agent = &state.Agent{Interfaces: []state.AgentInterface{
				{Name: "lo", MAC: "00:00:00:00:00:00", Addresses: []string{"127.0.0.1/8", "::1/128"}},
				{Name: "eth0", MAC: "bc:24:11:00:00:23", Addresses: []string{"10.99.2.75/16", "fe80::be24:11ff:fe00:0023/64"}},
			}}
		})
	}
	steps[376] = func() {
		s.change(func(w *state.World) {
			w.ACL = append(w.ACL, state.ACLEntry{Path: "/vms/303", Subject: "root@pam!sep", Role: "PVEVMAdmin", Propagate: true})
		})
	}
	steps[444] = func() {
		s.change(func(w *state.World) {
			w.ACL = slices.DeleteFunc(w.ACL, func(e state.ACLEntry) bool { return e.Path == "/vms/303" })
			delete(w.Pools, "p1")
		})
	}
	steps[472] = func() {
		s.change(func(w *state.World) {
			finished(w, "qmdestroy", "127", "OK")
			finished(w, "qmcreate", "128", `unable to create VM 128 - lvcreate 'vgthick/vm-128-disk-0' error:   Volume group "vgthick" has insufficient free space (8192 extents): 25600 required.`)
			finished(w, "vzdump", "122", "unable to find command 'sendmail'")
		})
	}
	steps[421] = func() {
		s.change(func(w *state.World) {
			orphanVolume(w, "local-zfs", "vm-122-disk-0", 122, 3<<30)
			orphanVolume(w, "local-lvm", "vm-122-cloudinit", 122, 4<<20)
			orphanVolume(w, "local-lvm", "vm-122-disk-1", 122, 1<<30)
			w.Guests[122] = &state.Guest{VMID: 122, Type: "qemu", Node: "pve1", Config: map[string]string{
				"scsi0": "local-zfs:vm-122-disk-0,size=3G", "ide2": "local-lvm:vm-122-cloudinit,media=cdrom", "scsi1": "local-lvm:vm-122-disk-1,size=1G",
			}}
		})
	}
}

// finished puts a task of the time in between into the list.
func finished(w *state.World, typ, id, exit string) {
	now := w.Clock.Now()
	n := len(w.Tasks) + 0x8000
	upid := fmt.Sprintf("UPID:pve1:%08X:%08X:%08X:%s:%s:root@pam!tf:", n, n, now.Unix(), typ, id)
	w.Tasks[upid] = &state.Task{UPID: upid, Node: "pve1", Type: typ, ID: id, User: "root@pam!tf", Start: now, End: now, ExitStatus: exit}
}
