package conformance_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// conformanceSteps is what happened on the server between the recorded requests, by the row that follows.
func conformanceSteps(s *conformer) map[int]func() {
	orphan := func(storage, name string, vmid int, size int64) func() {
		return func() {
			if s.sim == nil {
				s.allocate(storage, name, vmid, size)
				return
			}
			s.change(func(w *state.World) { orphanVolume(w, storage, name, vmid, size) })
		}
	}
	gone := func(storage, name string) func() {
		return func() {
			if s.sim == nil {
				s.must("token", "DELETE", "/nodes/{node}/storage/"+roleOf(storage)+"/content/"+roleOf(storage)+":"+name, nil)
				return
			}
			s.change(func(w *state.World) {
				delete(w.Volumes, state.VolumeKey{Storage: storage, Node: "pve1", Name: name})
			})
		}
	}
	lock := func(id int, lock string) func() {
		return func() {
			if s.sim == nil {
				s.must("root", "PUT", fmt.Sprintf("/nodes/{node}/qemu/%d/config", id), map[string]string{"lock": lock, "skiplock": "1"})
				return
			}
			s.change(func(w *state.World) { w.Guests[id].SetLock(lock, "state") })
		}
	}
	content := func(data string) func() {
		return func() {
			if s.sim == nil {
				return // the row about it is not run
			}
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

// repeatable tells the steps that the API of a real cluster can do as well.
func (s *conformer) repeatable(row int) bool {
	byRoot := []int{166, 181, 196, 211}
	return onlyTime(row) || slices.Contains([]int{74, 76, 77, 100, 233, 336}, row) || slices.Contains(byRoot, row) && s.client.ticket != ""
}

// must sends a request that has to succeed, and waits for its task.
func (s *conformer) must(as, method, path string, params map[string]string) {
	path = s.named(path)
	if id := s.strange(method, path, params); id != "" {
		s.t.Fatalf("VM %s is not in the test range", id)
	}
	a, err := s.client.do(s.t.Context(), as, method, path, params)
	if err != nil || a.status != 200 {
		s.t.Fatalf("%s %s: %d %s %v %v", method, path, a.status, a.reason, a.body.Errors, err)
	}
	if upid, ok := a.data.(string); ok && strings.HasPrefix(upid, "UPID:") {
		s.tasks[-1] = upid
		s.taskDiff(callRow{N: -1})
	}
}

// allocate makes a volume that no guest names by the API.
func (s *conformer) allocate(storage, name string, vmid int, size int64) {
	file := s.named(name[strings.IndexByte(name, '/')+1:])
	params := map[string]string{"vmid": fmt.Sprint(vmid + s.offset), "filename": file, "size": fmt.Sprintf("%dM", size>>20)}
	if strings.HasSuffix(file, ".qcow2") {
		params["format"] = "qcow2"
	}
	s.must("token", "POST", "/nodes/{node}/storage/"+roleOf(storage)+"/content", params)
}

// roleOf is the role of a simulated storage.
func roleOf(storage string) string {
	for role, name := range conformanceRoles() {
		if name == storage {
			return role
		}
	}
	return storage
}

// onlyTime tells the steps that let time pass and change nothing.
func onlyTime(row int) bool { return slices.Contains([]int{38, 243, 258, 261, 263, 269, 381}, row) }

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
				"scsi0": "local-zfs:vm-122-disk-0,size=3G", "ide2": "local-lvm:vm-122-cloudinit,media=cdrom,size=4M", "scsi1": "local-lvm:vm-122-disk-1,size=1G",
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
