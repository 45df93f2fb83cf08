package create

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func ofTemplate() Request {
	full := true
	return Request{Node: "pve1", Clone: &guest.Clone{VMID: 9000, Full: &full}}
}

// TestCloneThatFailsOnTheFirewallLock: a clone writes the target's configuration before it waits for the lock of the
// firewall, and leaves it where it does not get that. Such a clone is taken back, or named; never is it forgotten and
// another made.
func TestCloneThatFailsOnTheFirewallLock(t *testing.T) {
	b := newBench(t, token)
	b.sim.HoldFirewall(100, time.Minute)
	created, err := b.Create(t.Context(), ofTemplate())
	if err == nil || len(created.Left) == 0 || created.Left[0].ID != "100" {
		t.Errorf("no run may unlock VM 100, and it is not named: %+v, %v", created.Left, err)
	}
	if all := b.vms(); len(all) != 1 || all[100]["lock"] != "clone" {
		t.Errorf("the cluster has %v", all)
	}

	b = newBench(t, ticket)
	b.sim.HoldFirewall(100, time.Minute)
	if created, err = b.Create(t.Context(), ofTemplate()); err != nil || created.Guest.VMID == 0 {
		t.Errorf("the lock is gone after a minute: %+v, %v", created, err)
	}
	for id, config := range b.vms() {
		if config["lock"] != "" || strings.Contains(config["description"], "qmclone") || id != created.Guest.VMID {
			t.Errorf("VM %d is left: %v", id, config)
		}
	}
}

// living is another process of this host, for as long as the test runs.
func living(t *testing.T) *exec.Cmd {
	t.Helper()
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	return child
}

// processOf names a process of this host as its own marks would.
func processOf(t *testing.T, s *Creator, pid int) string {
	t.Helper()
	fields := strings.Fields(s.guests.Process)
	if len(fields) != 5 {
		t.Fatalf("this system does not tell processes apart: %q", s.guests.Process)
	}
	fields[3] = strconv.Itoa(pid)
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		fields[4] = strings.Fields(string(stat))[21]
	}
	return strings.Join(fields, " ")
}

// deadProcess names a process of this host that is over.
func deadProcess(t *testing.T, s *Creator) string {
	t.Helper()
	over := exec.Command("true")
	if err := over.Run(); err != nil {
		t.Fatal(err)
	}
	return processOf(t, s, over.Process.Pid)
}

func named(r Request, name string) Request {
	r.Spec.Name = &name
	return r
}

// TestKilledDuringTheTask: a run is killed while its create task runs, and started again at once. The VM of that
// task has no name and no mark yet; it is waited for and continued, and no second VM is made. The time is that of a
// bubble, so that the task runs until a third party waits for it.
func TestKilledDuringTheTask(t *testing.T) {
	for what, killed := range map[string]Request{"create": onZFS(), "clone": ofTemplate()} {
		killed.Spec.CPU.Cores = to(int64(3)) // else what is found is complete
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { killedDuringTheTask(t, what, named(killed, "web")) })
		})
	}
}

func killedDuringTheTask(t *testing.T, what string, killed Request) {
	b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
	b.sim.SetTaskTime(40 * time.Second)
	other := creatorOf(t, b.sim, token)
	mark := b.markOf(100, killed, deadProcess(t, b.Creator))
	var err error
	if what == "clone" {
		_, err = other.api.QEMU("pve1", 9000).Clone(t.Context(),
			pve.Params{"newid": "100", "full": "1", "name": "web", "description": mark.String()})
	} else {
		_, err = other.api.Node("pve1").CreateVM(t.Context(),
			pve.Params{"vmid": "100", "name": "web", "description": mark.String(), "scsi0": "local-zfs:1"})
	}
	if err != nil {
		t.Fatal(err)
	}
	for len(b.vms()) == 0 { // PVE waits for the source's lock before it writes the target's configuration
		if err := b.jobs.Pause(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if half := b.vms()[100]; half["lock"] != what || strings.Contains(half["description"], "Terraform") {
		t.Fatalf("the task is over before the next run begins: %v", half)
	}
	created, err := b.Create(t.Context(), killed)
	if err != nil || len(created.Warnings) != 1 || created.Guest.VMID != 100 {
		t.Errorf("%v, %v", err, created.Warnings)
	}
	if all := b.vms(); len(all) != 1 || all[created.Guest.VMID]["name"] != "web" || all[100]["cores"] != "3" {
		t.Errorf("the cluster has %v", all)
	}
}

// TestKilledRightBeforeTheTaskEnds: the task of a dead run ends right after the next run has read its VM. That run reads
// the VM again and continues it, and makes no second one.
func TestKilledRightBeforeTheTaskEnds(t *testing.T) {
	for what, r := range map[string]Request{"create": onZFS(), "clone": ofTemplate()} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				b.sim.SetTaskTime(40 * time.Second)
				gone := deadProcess(t, b.Creator)
				for n := 1; len(b.vms()) == 0; n++ {
					b.kill(t, gone, r, n)
					time.Sleep(startUp)
				}
				if half := b.vms()[100]; half["lock"] != what {
					t.Fatalf("the task is over before the next run begins: %v", half)
				}
				read := false
				ends := func(_ context.Context, _ string, fields map[string]string) {
					if path := fields["path"]; !read && strings.HasSuffix(path, "/qemu/100/config") {
						read = true
						time.Sleep(time.Minute)
					}
				}
				config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
					Clock: b.jobs.Clock, Trace: ends}
				token(&config, b.sim.Credentials())
				created, err := creatorWith(t, config).Create(t.Context(), r)
				if vms := b.vms(); err != nil || !read || created.Guest.VMID != 100 || len(vms) != 1 {
					t.Errorf("%v; it was read %t; VM %d was made, and there are %v", err, read, created.Guest.VMID, vms)
				}
			})
		})
	}
}

// markOf is the mark of a run of a create, as a process with that name would have written it.
func (b bench) markOf(vmid int, r Request, process string) ownership.Mark {
	mark := b.guests.NewMark("pve1,pve2", vmid)
	mark.Key, mark.Process = b.keyOf(r), process
	switch {
	case r.Restore != nil:
		mark.By = "qmrestore"
	case r.Clone != nil:
		mark.By, mark.Source = "qmclone", r.Clone.VMID
	}
	return b.guests.Sign(mark)
}

// TestVMsOfTheSameName: a name may be used twice. A run that lives, or may live, or left what is to be kept, is no
// reason to refuse another VM of its name, and no user is told to destroy it. A dead one of another configuration is an
// error that names it, if its mark is genuine; nothing is touched.
func TestVMsOfTheSameName(t *testing.T) {
	b := newBench(t, token)
	child := living(t)
	dead := deadProcess(t, b.Creator)
	for name, c := range map[string]struct {
		process      string
		kept, forged bool
		warnings     int
		refused      bool
	}{
		"another host":         {process: elsewhere, warnings: 1},
		"not told":             {warnings: 1},
		"alive":                {process: processOf(t, b.Creator, child.Process.Pid)},
		"dead":                 {process: dead, refused: true},
		"dead, but to be kept": {process: dead, kept: true},
		"dead, forged":         {process: dead, forged: true, warnings: 1},
	} {
		mark := b.markOf(900, Request{}, c.process)
		mark.Kept = c.kept
		if mark = b.guests.Sign(mark); c.forged {
			mark.Signature = strings.Repeat("0", 64)
		}
		b.change(func(w *state.World) {
			w.Guests = map[int]*state.Guest{900: {VMID: 900, Type: "qemu", Node: "pve1",
				Config: map[string]string{"name": "web", "memory": "512", "description": mark.String()}}}
			w.Volumes = map[state.VolumeKey]*state.Volume{}
		})
		created, err := b.Create(t.Context(), named(onZFS(), "web"))
		if (err != nil) != c.refused || !c.refused && (created.Guest.VMID != 100 || len(created.Warnings) != c.warnings) {
			t.Errorf("%s: %+v, %v", name, created, err)
		}
		if all := b.vms(); len(all) != map[bool]int{true: 1, false: 2}[c.refused] || all[900] == nil {
			t.Errorf("%s: the cluster has %v", name, all)
		}
		delete(b.ids, 100)
	}
}

// TestVMIDOfALiveRun: a live run's VM is in the way of another with its id, and no user is told to destroy it.
func TestVMIDOfALiveRun(t *testing.T) {
	b := newBench(t, token)
	child := living(t)
	r := onZFS()
	r.VMID = 900
	mark := b.markOf(900, r, processOf(t, b.Creator, child.Process.Pid))
	b.change(func(w *state.World) {
		w.Guests[900] = &state.Guest{VMID: 900, Type: "qemu", Node: "pve1",
			Config: map[string]string{"name": "web", "description": mark.String()}}
	})
	_, err := b.Create(t.Context(), r)
	var field *guest.FieldError
	if !errors.As(err, &field) || field.Path != "vmid" || !strings.Contains(field.Summary, "being created by another run") ||
		strings.Contains(err.Error(), "qm ") {
		t.Errorf("got %v", err)
	}
}

// TestUUIDProvesALostCommit: every VM made from scratch has a uuid, and what became of a commit whose answers are lost
// is known by it.
func TestUUIDProvesALostCommit(t *testing.T) {
	for name, who := range map[string]func(*pve.Config, pvesim.Credentials){"token": token, "ticket": ticket} {
		b, r := newBench(t, who), onZFS()
		maker := "ACME"
		r.Spec.SMBIOS.Manufacturer = &maker
		created, err := b.Create(t.Context(), r)
		if config := b.vms()[100]; err != nil || created.Guest.Identity.UUID == "" ||
			!strings.Contains(config["smbios1"], "manufacturer=ACME") {
			t.Errorf("%s: %v: %v has %v", name, err, created.Guest.Identity, config["smbios1"])
		}

		b = newBench(t, who)
		b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT", VMID: 100}, Phase: fault.After, Times: 3}})
		created, err = b.Create(t.Context(), r)
		if err == nil || len(b.vms()) != 0 || created.Guest.VMID != 0 {
			t.Errorf("%s: the commit took effect and no answer came: %v, the cluster has %v", name, err, b.vms())
		}
	}
}

// TestWithoutHWType: an identity that may not set smbios1 makes VMs as PVE numbers them.
func TestWithoutHWType(t *testing.T) {
	b := newBench(t, token)
	b.change(func(w *state.World) {
		for role, privileges := range w.Roles {
			w.Roles[role] = slices.DeleteFunc(slices.Clone(privileges), func(p string) bool { return p == "VM.Config.HWType" })
		}
	})
	if created, err := b.Create(t.Context(), onZFS()); err != nil || created.Guest.Identity.UUID == "" {
		t.Errorf("%+v, %v", created.Guest.Identity, err)
	}
}

// TestCloneToAnotherNode: PVE clones to another node only between storages that the nodes share. From and to
// others the clone is made beside its source and migrated, whole or not at all; what cannot be done so is refused
// before anything is made.
func TestCloneToAnotherNode(t *testing.T) {
	full, linked := true, false
	r := Request{Node: "pve2", Clone: &guest.Clone{VMID: 9000, Full: &full}, Start: true}
	b := newBench(t, ticket)
	created, err := b.Create(t.Context(), r)
	if err != nil || created.Guest.Node != "pve2" || created.Guest.Status != "running" {
		t.Errorf("%+v, %v", created.Guest, err)
	}
	b.change(func(w *state.World) {
		for _, v := range w.Volumes {
			if v.VMID == 100 && v.Node != "pve2" && v.Node != "" {
				t.Errorf("volume %s is on node %s", v.Volid(), v.Node)
			}
		}
	})
	for name, refused := range map[string]*guest.Clone{"clone.full": {VMID: 9000, Full: &linked},
		"clone.storage": {VMID: 9000, Full: &full, Storage: "local2"}} {
		b := newBench(t, ticket)
		b.change(func(w *state.World) { w.Storages["local2"].Nodes = []string{"pve1"} })
		b.sim.ResetOps()
		var field *guest.FieldError
		if _, err := b.Create(t.Context(), Request{Node: "pve2", Clone: refused}); !errors.As(err, &field) ||
			field.Path != name {
			t.Errorf("%s: %v", name, err)
		}
		for _, op := range b.sim.Ops() {
			if op.Method != http.MethodGet {
				t.Errorf("%s: %s %s", name, op.Method, op.Path)
			}
		}
	}
}

// TestMigrationOfACloneIsUndone: a migration of a clone that fails, before or after it, leaves nothing.
func TestMigrationOfACloneIsUndone(t *testing.T) {
	full := true
	for name, rule := range map[string]fault.Rule{
		"refused": {Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/migrate"},
			Phase: fault.Before},
		"its answer lost": {Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/migrate"},
			Phase: fault.After},
		"failed": {Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/migrate"}, Phase: fault.Task},
		"start failed": {Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/start"},
			Phase: fault.Task},
	} {
		b := newBench(t, ticket)
		volumes := func() (ids []string) {
			b.change(func(w *state.World) {
				for _, v := range w.Volumes {
					ids = append(ids, v.Node+" "+v.Volid())
				}
			})
			slices.Sort(ids)
			return ids
		}
		before := volumes()
		b.sim.SetFaults([]fault.Rule{rule})
		created, err := b.Create(t.Context(), Request{Node: "pve2", Clone: &guest.Clone{VMID: 9000, Full: &full},
			Start: true})
		if name == "its answer lost" {
			if err != nil || created.Guest.Node != "pve2" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || created.Guest.VMID != 0 || len(b.vms()) != 0 || !slices.Equal(before, volumes()) {
			t.Errorf("%s: %v, left: %+v; the cluster has %v and %v", name, err, created.Left, b.vms(), volumes())
		}
	}
}
