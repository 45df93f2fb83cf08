package update

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// pending is a configuration with values and what waits; "-" waits for its removal.
func pending(current, waiting map[string]string) pve.PendingConfig {
	var c pve.PendingConfig
	for key, value := range current {
		e := pve.PendingValue{Key: key, Value: value, HasValue: true}
		if next, ok := waiting[key]; ok {
			e.Pending, e.HasPending = next, next != "-"
			if next == "-" {
				e.Pending, e.Delete = "", 1
			}
		}
		c.Entries = append(c.Entries, e)
	}
	for key, next := range waiting {
		if _, there := current[key]; !there {
			c.Entries = append(c.Entries, pve.PendingValue{Key: key, Pending: next, HasPending: true})
		}
	}
	return c
}

// TestToRevert: exactly what PVE refused, or never tried, is taken back, and nothing that waited before.
func TestToRevert(t *testing.T) {
	refused := &pve.Error{Status: 400, Kind: pve.Invalid, Params: map[string]string{"net0": "hotplug problem - no"}}
	died := &pve.Error{Status: 500, Kind: pve.Unknown, Message: "got lost"}
	current := map[string]string{"net0": "virtio", "cores": "1", "memory": "512", "boot": "order=scsi0"}
	for name, c := range map[string]struct {
		sent          map[string]string
		before, after map[string]string
		cause         error
		want          []string
	}{
		"what is refused": {map[string]string{"net0": "e1000", "cores": "2"}, nil,
			map[string]string{"net0": "e1000", "cores": "2"}, refused, []string{"net0"}},
		"with the boot order": {map[string]string{"net0": "e1000"}, nil,
			map[string]string{"net0": "e1000", "boot": "order=net0"}, refused, []string{"net0", "boot"}},
		"what waited stays": {map[string]string{"net0": "e1000"}, map[string]string{"net0": "e1000"},
			map[string]string{"net0": "e1000"}, refused, nil},
		"all of one that died": {map[string]string{"net0": "e1000", "cores": "2"}, nil,
			map[string]string{"net0": "e1000", "cores": "2", "memory": "1024"}, died, []string{"cores", "net0"}},
		"nothing that took effect": {map[string]string{"net0": "e1000"}, nil, nil, refused, nil},
	} {
		got := toRevert(vm.Change{Set: c.sent}, pending(current, c.before), pending(current, c.after), c.cause)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestRefusedOptionIsTakenBack: a running guest that refuses an option has nothing waiting afterwards.
func TestRefusedOptionIsTakenBack(t *testing.T) {
	w := newWorld(t, pve.Params{"net0": "virtio,bridge=vmbr0"})
	w.start()
	r := w.request()
	nic := r.Planned.Networks["net0"]
	nic.Bridge = new("vmbr77")
	r.Planned.Networks["net1"] = nic
	_, _, err := w.update(r)
	now, readErr := w.api.QEMU("pve1", theVM).Pending(t.Context())
	if err == nil || readErr != nil || len(now.Waiting()) > 0 || now.Current()["net1"] != "" {
		t.Errorf("%v %v; waits %v", err, readErr, now.Waiting())
	}
}

// TestRefusedDeviceIsSaidToBeGone: PVE unplugs a network device of a running guest before it refuses the changed one, and
// the option that comes back plugs nothing in. The error says so, and how the guest gets it back.
func TestRefusedDeviceIsSaidToBeGone(t *testing.T) {
	for name, change := range map[string]func(*vm.NIC){
		"an MTU above the bridge's":                 func(n *vm.NIC) { n.MTU = new(int64(9000)) },
		"another model, and a bridge that is none":  func(n *vm.NIC) { n.Model, n.Bridge = "e1000", new("vmbr77") },
		"a VLAN on a bridge without a network card": func(n *vm.NIC) { n.Bridge, n.Tag = new("vmbr1"), new(int64(7)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"net0": "virtio,bridge=vmbr0"})
			w.start()
			inWorld(w, func(all *state.World) { all.Nodes["pve1"].Isolated = []string{"vmbr1"} })
			r := w.request()
			nic := r.Planned.Networks["net0"]
			change(&nic)
			r.Planned.Networks["net0"] = nic
			has := ""
			_, _, err := w.update(r)
			w.alter(func(g *state.Guest) { has = g.Running.Booted["net0"] })
			now, readErr := w.api.QEMU("pve1", theVM).Pending(t.Context())
			if err == nil || readErr != nil || has != "" || len(now.Waiting()) > 0 {
				t.Fatalf("%v %v; the guest has %q, and %v wait", err, readErr, has, now.Waiting())
			}
			if says := err.Error(); !strings.Contains(says, "run without net0 now") ||
				!strings.Contains(says, "`qm reboot 400` as root on node pve1") {
				t.Errorf("says %s", says)
			}
		})
	}
}

// TestTakeBackLeavesTheirs: QEMU refuses a new disk, and before that is taken back a third party puts a disk of theirs into
// the slot for the next start, as large and on the same storage or not. Theirs is not destroyed.
func TestTakeBackLeavesTheirs(t *testing.T) {
	for _, volume := range []string{"local-zfs:vm-400-disk-7,size=1G", "local-lvm:vm-400-disk-7,size=2G"} {
		came := 0
		for at := 1; at < 8; at++ {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
			w.start()
			w.alter(func(g *state.Guest) { g.Ignores = []string{"plug"} })
			r := w.request()
			r.Planned.Disks["scsi5"] = vm.Disk{Storage: "local-lvm", Size: new(int64(2 << 30))}
			storage, _, _ := strings.Cut(volume, ":")
			id, size, _ := strings.Cut(volume, ",size=")
			answers, did := 0, false
			w.answered = func() {
				inWorld(w, func(all *state.World) {
					g := all.Guests[theVM]
					if did || g.Pending["scsi5"] == "" {
						return
					}
					if answers++; answers == at {
						all.Put(&state.Volume{Storage: storage, Node: "pve1", Name: "vm-400-disk-7", Content: "images",
							VMID: theVM, Format: "raw", Size: map[string]int64{"1G": 1 << 30, "2G": 2 << 30}[size]})
						g.Pending["scsi5"], did = volume, true
					}
				})
			}
			_, _, err := w.update(r)
			if w.answered = nil; !did {
				continue
			}
			came++
			if err == nil || !slices.Contains(w.everyVolume(), id) {
				t.Errorf("answer %d: %s is destroyed after %v: %v", at, id, w.writes(), err)
			}
		}
		if came < 3 {
			t.Errorf("they came %d times", came)
		}
	}
}

// TestRefusedInTheWorker: since qemu-server 9.2.0 a worker waits for the file's lock, and compares the digest after that
// (API2/Qemu.pm update_vm_api, 797ab238). Another run has the lock, and gives the running guest a value and a disk that wait,
// the disk as this change wants it. The refused change has made nothing: both stay.
func TestRefusedInTheWorker(t *testing.T) { synctest.Test(t, refusedInTheWorker) }

func refusedInTheWorker(t *testing.T) {
	w := newWorldOf(t, pvesim.Options{Profile: "9.2", Clock: clock.Real{}, Latency: -1, TaskTime: time.Second},
		pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
	w.start()
	r := w.request()
	r.Planned.Memory.Size = new(int64(1024))
	r.Planned.Disks["sata3"] = vm.Disk{Storage: "local-lvm", Size: new(int64(2 << 30))}
	w.sim.HoldGuestFile(theVM, 5*time.Second)
	did := false
	w.answered = func() {
		if did || w.sent("/config") == 0 {
			return
		}
		did = true
		inWorld(w, func(all *state.World) {
			all.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: theVM,
				Format: "raw", Size: 2 << 30})
			all.Guests[theVM].Pending = map[string]string{"memory": "2048", "sata3": "local-lvm:vm-400-disk-7,size=2G"}
		})
	}
	_, _, err := w.update(r)
	w.answered = nil
	now, readErr := w.api.QEMU("pve1", theVM).Pending(t.Context())
	var refused *pve.TaskError
	if !did || readErr != nil || !errors.As(err, &refused) || refused.Kind != pve.DigestMismatch {
		t.Fatalf("%v %v: %v; %v", did, readErr, err, w.writes())
	}
	if is := now.Merged(); is["memory"] != "2048" || is["sata3"] != "local-lvm:vm-400-disk-7,size=2G" ||
		!slices.Contains(w.everyVolume(), "local-lvm:vm-400-disk-7") {
		t.Errorf("memory %s, sata3 %q, volumes %v after %v", is["memory"], is["sata3"], w.everyVolume(), w.writes())
	}
}

// TestDueOptions: what this change sent or owes is a reason to restart, and nothing else.
func TestDueOptions(t *testing.T) {
	current := map[string]string{"cores": "1", "memory": "512", "boot": "order=scsi0;net0", "cpu": "host"}
	u := &update{before: pending(current, map[string]string{"cpu": "kvm64"}), r: Request{Due: []string{"memory"}}}
	now := pending(current, map[string]string{"cores": "2", "memory": "1024", "boot": "order=scsi0", "cpu": "kvm64"})
	if got := (power{u}).due(now, []string{"cores"}); !slices.Equal(got, []string{"cores", "memory"}) {
		t.Errorf("due: %v", got)
	}
	for option, want := range map[string]bool{"cores": true, "scsi0": false, "efidisk0": false, "cipassword": false,
		"net0": true} {
		if got := canBeResent(option); got != want {
			t.Errorf("%s may be sent again: %v", option, got)
		}
	}
}

// TestLeftoversAreNamed: what a killed move has made is named, and not removed.
func TestLeftoversAreNamed(t *testing.T) {
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1"})
	r := w.request()
	with(&r, "scsi0", func(d *vm.Disk) { d.Storage = "local-lvm" })
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/move_disk"}, Phase: fault.KillTask}})
	g, warnings, err := w.update(r)
	if err == nil || g.VMID != theVM || !strings.HasPrefix(w.config()["scsi0"], "local-zfs:") {
		t.Errorf("%v: %+v", err, g)
	}
	left := slices.DeleteFunc(w.everyVolume(), func(v string) bool { return !strings.HasPrefix(v, "local-lvm:vm-400-") })
	if said := text(warnings); len(left) != 1 || !strings.Contains(said, "`pvesm free "+left[0]+"` on node pve1") {
		t.Errorf("left %v, says %q", left, said)
	}
}

// TestGuestOnAVolumeOfADeadTask: only a move of a running guest's disk goes on in QEMU where the task was killed. A killed
// migration leaves the guest where it is, on its own disks, and PVE's own refusal leaves no copy at work.
func TestGuestOnAVolumeOfADeadTask(t *testing.T) {
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1"})
	w.start()
	ended := func(kind, status string) *pve.TaskError {
		return &pve.TaskError{UPID: pve.UPID("UPID:pve1:00001001:00010010:6B0DECA3:" + kind + ":400:root@pam:"), ExitStatus: status}
	}
	const killed, volume = "unexpected status", "local-lvm:vm-400-disk-1"
	look := func(at string, failed *pve.TaskError) bool {
		return strings.Contains((volumes{w.updating()}).nextStep(t.Context(), volume, at, failed), "leave it until it is known")
	}
	for name, c := range map[string]struct {
		at     string
		failed *pve.TaskError
		want   bool
	}{
		"a killed move":                 {"pve1", ended("qmmove", killed), true},
		"a killed move of another node": {"pve2", ended("qmmove", killed), false},
		"a move that PVE has given up":  {"pve1", ended("qmmove", "storage migration failed: no space"), false},
		"a killed migration":            {"pve1", ended("qmigrate", killed), false},
		"no task":                       {"pve1", nil, false},
	} {
		if got := look(c.at, c.failed); got != c.want {
			t.Errorf("%s: the guest may run on it: %t", name, got)
		}
	}
	w.alter(func(g *state.Guest) { g.Running = nil })
	if look("pve1", ended("qmmove", killed)) {
		t.Error("a guest that is off runs on no volume")
	}
}

// TestRenamedDisk: a volume that a conversion has renamed is named in the configuration again, not removed.
func TestRenamedDisk(t *testing.T) {
	config, u := pending(map[string]string{"scsi0": "local-zfs:vm-400-disk-0,size=1G"}, nil), newWorld(t, nil).updating()
	for volume, want := range map[string]string{
		"local-zfs:base-400-disk-0": "`qm set 400 --scsi0 local-zfs:base-400-disk-0,size=1G` on node pve1",
		"local-zfs:base-400-disk-5": "",
		"local-zfs:vm-400-disk-7":   "",
	} {
		if got := (volumes{u}).renamed(config, volume, "pve1"); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %s", volume, got)
		}
	}
}

// TestMigration: the VM comes to its node with its disks, and the rest of the plan is done there.
func TestMigration(t *testing.T) {
	for _, power := range []string{"stopped", "running"} {
		t.Run(power, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1"})
			if power == "running" {
				w.start()
			}
			r := w.request()
			r.Node, r.Planned.Description = "pve2", new("there")
			with(&r, "scsi0", func(d *vm.Disk) { d.Storage, d.Volume = "local-lvm", "" })
			g, warnings, err := w.update(r)
			if err != nil || g.Node != "pve2" || len(warnings) > 0 {
				t.Fatal(err, g.Node, text(warnings))
			}
			c, err := w.api.QEMU("pve2", theVM).Config(t.Context())
			if err != nil || !strings.HasPrefix(c.Values["scsi0"], "local-lvm:") || c.Values["description"] != "there" ||
				w.sent("/move_disk") != 0 {
				t.Errorf("%v: %v, sent %v", err, c.Values, w.writes())
			}
		})
	}
}

// TestMigrationThatFails: the VM is where it was, and nothing else was done.
func TestMigrationThatFails(t *testing.T) {
	w := newWorld(t, nil)
	r := w.request()
	r.Node, r.Planned.Description = "pve2", new("there")
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/migrate"},
		Phase: fault.Task, Reason: "migration aborted"}})
	g, _, err := w.update(r)
	if !strings.Contains(detailOf(err), "nothing else of the plan was done") || g.Node != "pve1" || len(w.writes()) != 1 {
		t.Errorf("%v; on %s, sent %v", err, g.Node, w.writes())
	}
}

// TestReplicaIsNoLeftover: what a failed migration may have left on the other node may be a replica of the disk, too. Its log
// names the disk that it copies, so it does not prove that the volume is new, and there is no command.
func TestReplicaIsNoLeftover(t *testing.T) {
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1"})
	r := w.request()
	r.Node = "pve2"
	all := w.sim.World()
	all.Lock()
	all.Put(&state.Volume{Storage: "local-zfs", Node: "pve2", Name: "vm-400-disk-0", VMID: theVM, Content: "images",
		Format: "raw", Size: 1 << 30})
	all.Unlock()
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/migrate"},
		Phase: fault.Task, Reason: "migration aborted"}})
	_, warnings, err := w.update(r)
	if said := text(warnings); err == nil || !strings.Contains(said, "local-zfs:vm-400-disk-0 on node pve2; leave it "+
		"if a replication job") || strings.Contains(said, "pvesm free") {
		t.Errorf("%v, says %q", err, said)
	}
}

// TestPool: the VM leaves one pool before it comes into another, and the one that it is in is told when the second
// fails.
func TestPool(t *testing.T) {
	w := newWorld(t, nil)
	r := w.request()
	r.Pool = "nosuch"
	g, _, err := w.update(r)
	if !strings.Contains(detailOf(err), "It is in no pool that terraform@pve!prov may see") || g.Pool != "" {
		t.Errorf("%v, in %q", err, g.Pool)
	}
	if got := targetStorages(map[string]string{"aa": "aa", "bb": "cc"}); got != "aa:aa,bb:cc" {
		t.Errorf("storages %q", got)
	}
}

// TestCloudInit: changed data reach the drive of a running guest at once, and one that is off gets it at its start.
func TestCloudInit(t *testing.T) {
	for _, power := range []string{"stopped", "running"} {
		t.Run(power, func(t *testing.T) {
			w := newWorld(t, pve.Params{"ide2": "local-zfs:cloudinit", "ciuser": "me"})
			if power == "running" {
				w.start()
			}
			r := w.request()
			r.Planned.CloudInit.User = new("you")
			if _, _, err := w.update(r); err != nil || (w.sent("/cloudinit") == 1) != (power == "running") {
				t.Errorf("%v, sent %v", err, w.writes())
			}
		})
	}
}

// TestCloudInitDriveThatWaits: a drive that waits to leave is kept where one on the same storage is wanted in its slot.
func TestCloudInitDriveThatWaits(t *testing.T) {
	c := vm.Change{Set: map[string]string{"ide2": "local-zfs:cloudinit,media=cdrom", "cores": "2"}}
	const has = "local-zfs:vm-400-cloudinit,media=cdrom"
	if got := keepCloudInitDrive(c, map[string]string{"ide2": has}); got.Set["ide2"] != has || c.Set["ide2"] == has {
		t.Errorf("it is made again, or the change was changed: %v, %v", got.Set, c.Set)
	}
	for name, other := range map[string]map[string]string{"none": {},
		"on another storage": {"ide2": "local-lvm:vm-400-cloudinit"},
		"a CD-ROM":           {"ide2": "none,media=cdrom"}} {
		if got := keepCloudInitDrive(c, other); got.Set["ide2"] != c.Set["ide2"] {
			t.Errorf("%s: %v", name, got.Set)
		}
	}
	u := &update{vmid: theVM}
	config := pending(map[string]string{"ide2": has}, map[string]string{"ide2": "-"})
	moves := vm.Change{Set: map[string]string{"ide0": "local-zfs:cloudinit"}}
	err := u.checkCloudInitDrive(config, todo{planned: vm.Spec{CloudInit: vm.CloudInit{Slot: "ide0"}}}, moves)
	if !strings.Contains(detailOf(err), "cannot leave ide2 while the VM runs") {
		t.Errorf("a second drive: %v", err)
	}
}

// TestPolicies: what waits for a restart is put in force, left, or forced, as the request says.
func TestPolicies(t *testing.T) {
	for name, c := range map[string]struct {
		policy Restart
		ignore bool
		known  string // by the plan
		says   string
		cores  string
		stops  int
	}{
		"gracefully":         {policy: RestartGracefully, cores: "2"},
		"never":              {policy: RestartNever, cores: "1", says: "runs with the old values of cores"},
		"never, was off":     {policy: RestartNever, known: "stopped", cores: "1", says: "runs with the old values of cores"},
		"never, as planned":  {policy: RestartNever, known: "running", cores: "1"},
		"forcibly, obedient": {policy: RestartForcibly, cores: "2"},
		"forcibly, disobeyed": {policy: RestartForcibly, ignore: true, cores: "2", stops: 1,
			says: "was cut off and started again"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"cores": "1"})
			w.start()
			r := w.request()
			r.Planned.CPU.Cores, r.Restart, r.Ref.Status = new(int64(2)), c.policy, c.known
			if c.ignore {
				w.ignoreShutdown()
			}
			_, warnings, err := w.update(r)
			isTold := strings.Contains(text(warnings), c.says) && (c.says != "" || c.policy != RestartNever || len(warnings) == 0)
			if err != nil || !isTold || w.running().Booted["cores"] != c.cores ||
				w.sent("/status/stop") != c.stops {
				t.Errorf("%v, says %q, runs with %v, sent %v", err, text(warnings), w.running().Booted["cores"], w.writes())
			}
		})
	}
}

// TestSuspended: a guest that is suspended to disk changes nothing, and says what helps.
func TestSuspended(t *testing.T) {
	u := newWorld(t, nil).updating()
	u.before = pending(map[string]string{"lock": "suspended"}, nil)
	err := power{u}.notSuspended(todo{change: vm.Change{Set: map[string]string{"cores": "2"}}})
	if err == nil || !strings.Contains(err.Error(), "on node pve1: resume it with `qm resume 400`, or drop") {
		t.Errorf("got %v", err)
	}
	if err := (power{u}).notSuspended(todo{}); err != nil {
		t.Errorf("nothing is to be changed: %v", err)
	}
	if listed(nil) != "none" || listed([]string{"a", "b"}) != "a, b" {
		t.Error("lists")
	}
}
