package acctest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// now is the cluster's time.
func (b *bench) now() time.Time { return b.sim.World().Clock.Now() }

// lines keeps what the service says while it waits: what it tries again, not which step it comes to.
func (b *bench) lines() *[]string {
	var lines []string
	b.svc.Log = func(_ context.Context, message string, fields map[string]string) {
		if fields["try"] != "" {
			lines = append(lines, message)
		}
	}
	return &lines
}

// sent counts the requests of a method whose template ends so.
func (b *bench) sent(method, end string) int {
	n := 0
	for _, op := range b.sim.Ops() {
		if op.Method == method && strings.HasSuffix(op.Path, end) {
			n++
		}
	}
	return n
}

// changing are the changes of a VM that meet locks in different places: as an answer, and in a task.
func changing() map[string]func(*change.Request) {
	disk := func(alter func(*vm.Disk)) func(*change.Request) {
		return func(r *change.Request) {
			d := r.Planned.Disks["scsi0"]
			alter(&d)
			r.Planned.Disks = maps.Clone(r.Planned.Disks)
			r.Planned.Disks["scsi0"] = d
		}
	}
	return map[string]func(*change.Request){
		"an option": func(r *change.Request) { r.Planned.Name = to("renamed") },
		"a new disk": func(r *change.Request) {
			r.Planned.Disks = maps.Clone(r.Planned.Disks)
			r.Planned.Disks["scsi1"] = vm.Disk{Storage: "local-lvm", Size: to(int64(1 << 30))}
		},
		"a move":     disk(func(d *vm.Disk) { d.Storage = "local-lvm" }),
		"growth":     disk(func(d *vm.Disk) { d.Size = to(int64(2 << 30)) }),
		"a start":    func(r *change.Request) { r.PowerState = guest.Running },
		"a template": func(r *change.Request) { r.Planned.Template = to(true) },
		"a node":     func(r *change.Request) { r.Node = "pve2" },
	}
}

// updating is an update of VM 300 as it is.
func (h *hooked) updating(t *testing.T, ref guest.Ref) change.Request {
	t.Helper()
	found, _, err := h.svc.Read(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return change.Request{Ref: ref, Prior: found.Spec, Planned: found.Spec, Node: "pve1"}
}

// TestAnUpdateWaitsForLocks: whoever holds the configuration or its file, every kind of change waits until he lets go, and
// is then made exactly once.
func TestAnUpdateWaitsForLocks(t *testing.T) {
	t.Parallel()
	holds := map[string]func(*bench){
		"backup":   func(b *bench) { b.sim.HoldLock(300, "backup", 90*time.Second, "root@pam") },
		"snapshot": func(b *bench) { b.sim.HoldLock(300, "snapshot", 40*time.Second, "somebody@pve") },
		"file":     func(b *bench) { b.sim.HoldGuestFile(300, 75*time.Second) },
	}
	h := newHooked(t, token())
	ref := h.existing(t, small(300))
	h.base = h.sim.Snapshot()
	for what, alter := range changing() {
		for kind, hold := range holds {
			for _, early := range []bool{true, false} { // before the update looks, or between its look and its first write
				h.reset()
				r := h.updating(t, ref)
				alter(&r)
				start, lines := h.now(), h.lines()
				if early {
					hold(h.bench)
				} else {
					h.once(http.MethodGet, "/pending", func() { hold(h.bench) })
				}
				_, _, err := h.svc.Update(t.Context(), r)
				h.hook = func(request) {}
				name := fmt.Sprintf("%s, %s, early %t", what, kind, early)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if waited := h.now().Sub(start); waited < 40*time.Second {
					t.Errorf("%s: done after %s, so it did not wait", name, waited)
				}
				if len(*lines) == 0 || !strings.Contains((*lines)[0], "VM 300 is ") || !strings.HasSuffix((*lines)[0], "; trying again") {
					t.Errorf("%s: log %q", name, *lines)
				}
				h.mustBeDoneOnce(t, name, start)
			}
		}
	}
}

// mustBeDoneOnce looks that no task succeeded twice, and that nothing is locked or left.
func (h *hooked) mustBeDoneOnce(t *testing.T, name string, since time.Time) {
	t.Helper()
	h.change(func(w *state.World) {
		done := map[string]int{}
		for _, task := range w.Tasks {
			if task.ID == "300" && !task.Start.Before(since) && task.User == "terraform@pve!prov" && task.ExitStatus == "OK" {
				done[task.Type]++
			}
			if task.Running {
				t.Errorf("%s: task %s runs on", name, task.UPID)
			}
		}
		for typ, n := range done {
			if n > 1 {
				t.Errorf("%s: %d tasks %s did their work", name, n, typ)
			}
		}
		g := w.Guests[300]
		if lock := g.Config["lock"]; lock != "" {
			t.Errorf("%s: locked (%s)", name, lock)
		}
		for _, v := range w.Volumes {
			if v.VMID == 300 && !slices.ContainsFunc(slices.Collect(maps.Values(g.Config)), func(value string) bool { return strings.HasPrefix(value, v.Volid()) }) {
				t.Errorf("%s: volume %s is in no slot", name, v.Volid())
			}
		}
	})
	if h.sent(http.MethodPost, "/move_disk")+h.sent(http.MethodPut, "/resize") > 20 {
		t.Errorf("%s: the waiting took %d requests", name, h.sim.LastOp())
	}
}

// TestALockThatStays: the error names the lock, the task that holds it, its user and since when, or says why that cannot be
// seen, and what to do. Nothing was written.
func TestALockThatStays(t *testing.T) {
	whole, cannot := "by vzdump of somebody@pve since 20", "which task holds it cannot be seen without Sys.Audit on /nodes/pve1"
	cases := []struct {
		name    string
		who     sweepIdentity
		blind   bool
		hold    func(*bench)
		phrases []string
	}{
		{"held, seen", sweepIdentities()[0], false, func(b *bench) { b.sim.HoldLock(300, "backup", time.Hour, "somebody@pve") },
			[]string{"VM is locked (backup)", "VM 300 is locked (backup) " + whole, "pvenode task status UPID:pve1:", "timeouts attribute"}},
		{"held, unseen", token(), true, func(b *bench) { b.sim.HoldLock(300, "backup", time.Hour, "somebody@pve") },
			[]string{"VM 300 is locked (backup); " + cannot, "pvenode task list --vmid 300", "`qm unlock 300` as root on that node"}},
		{"dead, seen", sweepIdentities()[0], false, func(b *bench) { b.sim.StaleLock(300, "snapshot", "somebody@pve") },
			[]string{"VM 300 is locked (snapshot); no task that runs on node pve1 is seen to hold it", "`qm unlock 300` as root on node pve1"}},
		{"file", sweepIdentities()[0], false, func(b *bench) { b.sim.HoldGuestFile(300, time.Hour) },
			[]string{"can't lock file '/var/lock/qemu-server/lock-300.conf' - got timeout", "VM 300 is held by another task of PVE"}},
	}
	for _, c := range cases {
		h := newHooked(t, c.who)
		ref := h.existing(t, small(300))
		if c.blind {
			h.change(func(w *state.World) {
				for name, privileges := range w.Roles {
					w.Roles[name] = slices.DeleteFunc(slices.Clone(privileges), func(p string) bool { return p == "Sys.Audit" })
				}
			})
		}
		r := h.updating(t, ref)
		r.Planned.Name = to("renamed")
		c.hold(h.bench)
		before := h.sim.Snapshot()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		start := h.now()
		_, _, err := h.svc.Update(ctx, r)
		cancel()
		var locked *job.LockedError
		if !errors.As(err, &locked) || !pve.IsKind(err, pve.Locked) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, phrase := range append(c.phrases, "Nothing was done", "waited ") {
			if !strings.Contains(err.Error(), phrase) {
				t.Errorf("%s: %q is not in %q", c.name, phrase, err)
			}
		}
		if waited := h.now().Sub(start); waited < 4*time.Minute || waited > 5*time.Minute+30*time.Second {
			t.Errorf("%s: gave up after %s", c.name, waited)
		}
		if tries := h.sent(http.MethodPut, "/config") + h.sent(http.MethodGet, "/pending"); tries > 60 {
			t.Errorf("%s: %d tries", c.name, tries)
		}
		h.mustBeAsBefore(t, before)
	}
}

// TestWritesBesideTheConfigurationWait: the pools', HA's and the firewall's locks are the cluster's, and a request that did
// not get one did nothing.
func TestWritesBesideTheConfigurationWait(t *testing.T) {
	t.Parallel()
	cfs := func(name string) string { return "cfs-lock '" + name + "' error: got lock request timeout" }
	cases := map[string]struct {
		path, reason string
		change       func(*change.Request)
	}{
		"pool":     {"/pools", "update pools failed: " + cfs("file-user_cfg"), func(r *change.Request) { r.Pool = "web" }},
		"HA":       {"/cluster/ha/resources", "create resource failed: " + cfs("domain-ha"), func(r *change.Request) { r.HA = &guest.HA{State: to("stopped")} }},
		"firewall": {"/nodes/{node}/qemu/{vmid}/firewall/options", cfs("firewall-vm-300"), func(r *change.Request) { r.Firewall = &guest.Firewall{Enabled: to(true)} }},
		"firewall rule": {"/nodes/{node}/qemu/{vmid}/firewall/rules", cfs("firewall-vm-300"), func(r *change.Request) {
			r.Firewall = &guest.Firewall{Rules: []guest.FirewallRule{{Type: to("in"), Action: to("DROP")}}}
		}},
	}
	for name, c := range cases {
		h := newHooked(t, sweepIdentities()[0])
		r := h.updating(t, h.existing(t, small(300)))
		c.change(&r)
		var rules []fault.Rule
		for _, method := range []string{http.MethodPost, http.MethodPut} {
			rules = append(rules, fault.Rule{Match: fault.Match{Method: method, Path: c.path}, Phase: fault.Before, Reason: c.reason, Times: 4})
		}
		h.sim.SetFaults(rules)
		if _, _, err := h.svc.Update(t.Context(), r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := h.sim.FaultsFired(); n != 4 {
			t.Errorf("%s: refused %d times, want 4", name, n)
		}
	}
}

// TestALockInTheMiddle: words about a lock from the middle of the work are no proof, and the request is not sent again. A
// create that failed so is rolled back first and then begun anew.
func TestALockInTheMiddle(t *testing.T) {
	t.Parallel()
	busy := "can't lock file '/var/lock/pve-manager/pve-storage-local-zfs' - got timeout"
	h := newHooked(t, token())
	h.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu"}, Phase: fault.Task, Reason: "unable to create VM 300 - " + busy, Times: 3}})
	created, err := h.svc.Create(t.Context(), small(300))
	if err != nil || created.Guest.VMID != 300 || h.sim.FaultsFired() != 3 || h.sent(http.MethodPost, "/nodes/{node}/qemu") != 4 {
		t.Fatalf("%+v, %v; %d faults, %d creates", created.Guest.VMID, err, h.sim.FaultsFired(), h.sent(http.MethodPost, "/nodes/{node}/qemu"))
	}
	r := h.updating(t, guest.Ref{VMID: 300, Node: "pve1", Identity: created.Guest.Identity})
	r.Planned.Disks = map[string]vm.Disk{"scsi0": r.Planned.Disks["scsi0"]}
	d := r.Planned.Disks["scsi0"]
	d.Size = to(int64(2 << 30))
	r.Planned.Disks["scsi0"] = d
	h.sim.ResetOps()
	h.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/resize"}, Phase: fault.Task, Reason: busy, Times: -1}})
	if _, _, err := h.svc.Update(t.Context(), r); !pve.IsKind(err, pve.Locked) || h.sent(http.MethodPut, "/resize") != 1 {
		t.Errorf("%d resizes: %v", h.sent(http.MethodPut, "/resize"), err)
	}
}

// TestAStorageThatIsHeld: creates wait for a storage on which somebody else allocates.
func TestAStorageThatIsHeld(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"local-zfs", "shared-nfs"} {
		h := newHooked(t, token())
		before := h.sim.Snapshot()
		r := small(300)
		r.Spec.Disks["scsi0"] = vm.Disk{Storage: storage, Size: to(int64(1 << 30))}
		h.sim.HoldStorage("pve1", storage, 45*time.Second)
		created, err := h.svc.Create(t.Context(), r)
		if err != nil || created.Guest.VMID != 300 || h.sent(http.MethodPost, "/nodes/{node}/qemu") < 2 {
			t.Errorf("%s: %v after %d creates", storage, err, h.sent(http.MethodPost, "/nodes/{node}/qemu"))
		}
		if diff := sameWorld(h.world(before), h.world(h.sim.Snapshot()).without(300, "pve1").without(300, "")); diff != "" {
			t.Errorf("%s: something else changed (-before +after):\n%s", storage, diff)
		}
	}
}

// TestALockedTemplateIsWaitedFor: a backup, a clone or a migration of the template, before the create looks or after it.
// The template stays as it is.
func TestALockedTemplateIsWaitedFor(t *testing.T) {
	t.Parallel()
	h := newHooked(t, token())
	r := small(200)
	r.Clone, r.Spec.Disks = &guest.Clone{VMID: 9000}, nil
	for _, lock := range []string{"backup", "clone", "migrate", "snapshot", "file"} {
		for _, early := range []bool{true, false} {
			h.reset()
			before, start, lines := h.world(h.sim.Snapshot()), h.now(), h.lines()
			hold := func() { h.sim.HoldLock(9000, lock, time.Minute, "root@pam") }
			if lock == "file" {
				hold = func() { h.sim.HoldGuestFile(9000, time.Minute) }
			}
			if early {
				hold()
			} else {
				h.once(http.MethodGet, "/9000/config", hold)
			}
			created, err := h.svc.Create(t.Context(), r)
			h.hook = func(request) {}
			if err != nil || created.Guest.VMID != 200 || len(created.Warnings) > 0 {
				t.Errorf("%s, early %t: %v %v", lock, early, err, created.Warnings)
			}
			if waited := h.now().Sub(start); waited < 50*time.Second || len(*lines) == 0 || !strings.Contains((*lines)[0], "VM 9000 is ") {
				t.Errorf("%s, early %t: waited %s, said %q", lock, early, waited, *lines)
			}
			if diff := sameWorld(before, h.world(h.sim.Snapshot()).without(200, "pve1")); diff != "" {
				t.Errorf("%s, early %t: something else changed (-before +after):\n%s", lock, early, diff)
			}
			h.mustNotTouch(t, 9000)
		}
	}
}

// mustNotTouch looks that nothing was asked of a VM but to be read and cloned.
func (b *bench) mustNotTouch(t *testing.T, vmid int) {
	t.Helper()
	for _, op := range b.sim.Ops() {
		if op.Params["vmid"] == fmt.Sprint(vmid) && op.Method != http.MethodGet && !strings.HasSuffix(op.Path, "/clone") {
			t.Errorf("VM %d: %s %s %v", vmid, op.Method, op.Path, op.Params)
		}
	}
}

// TestATemplateThatMigrates: while it is waited for, the template goes to another node, and is cloned there.
func TestATemplateThatMigrates(t *testing.T) {
	t.Parallel()
	h := newHooked(t, token())
	r := small(400)
	r.Spec.Template = to(true)
	r.Spec.Disks["scsi0"] = vm.Disk{Storage: "shared-nfs", Size: to(int64(1 << 30))}
	h.existing(t, r)
	h.sim.HoldLock(400, "migrate", 30*time.Second, "root@pam")
	h.svc.Log = func(context.Context, string, map[string]string) {
		h.change(func(w *state.World) { w.Guests[400].Node = "pve2" })
	}
	cloning := small(401)
	cloning.Node, cloning.Clone, cloning.Spec.Disks = "", &guest.Clone{VMID: 400}, nil
	created, err := h.svc.Create(t.Context(), cloning)
	if err != nil || created.Guest.Node != "pve2" {
		t.Errorf("on node %q: %v", created.Guest.Node, err)
	}
}

// TestATemplateThatStaysLocked: the create gives up when its time is over, with the lock, its holder and nothing left.
func TestATemplateThatStaysLocked(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"backup", "file"} {
		h := newHooked(t, sweepIdentities()[0])
		if kind == "file" {
			h.sim.HoldGuestFile(9000, time.Hour)
		} else {
			h.sim.HoldLock(9000, kind, time.Hour, "root@pam")
		}
		before := h.sim.Snapshot()
		r := small(200)
		r.Clone, r.Spec.Disks = &guest.Clone{VMID: 9000}, nil
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		created, err := h.svc.Create(ctx, r)
		cancel()
		var locked *job.LockedError
		if !errors.As(err, &locked) || !strings.Contains(err.Error(), "VM 9000 is ") || created.Guest.VMID != 0 || kind == "file" && !tx.RolledBack(err) {
			t.Errorf("%s: %+v, %v", kind, created, err)
		}
		h.mustBeAsBefore(t, before)
		h.mustNotTouch(t, 9000)
	}
}

// TestARollbackWaitsForALock: a backup has begun on the VM that is to be taken back. It ends, and then nothing is left.
func TestARollbackWaitsForALock(t *testing.T) {
	t.Parallel()
	for _, who := range sweepIdentities() {
		h := newHooked(t, who)
		before := h.sim.Snapshot()
		h.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Task}})
		h.once(http.MethodPost, "/status/start", func() { h.sim.HoldLock(300, "backup", 3*time.Minute, "root@pam") })
		r := small(300)
		r.Start = true
		created, err := h.svc.Create(t.Context(), r)
		if !tx.RolledBack(err) || created.Guest.VMID != 0 {
			t.Errorf("%s: %v, left %v", who.name, err, created.Left)
		}
		h.mustBeAsBefore(t, before)
	}
}

// TestTwoProvidersShareATemplate: two provider processes make ten clones each of one template at once, while a stranger holds
// its file for some seconds and then backs it up. All twenty are made, and nothing is written to the template.
func TestTwoProvidersShareATemplate(t *testing.T) {
	t.Parallel()
	w := acctest.NewWorld(t)
	w.Sim.SetTaskTime(2 * time.Second)
	template := func() string {
		var text string
		w.Change(func(world *state.World) {
			var volumes []string
			for _, v := range world.Volumes {
				if v.VMID == 9000 {
					volumes = append(volumes, fmt.Sprintf("%+v", *v))
				}
			}
			slices.Sort(volumes)
			text = fmt.Sprint(world.Guests[9000].Config, volumes)
		})
		return text
	}
	before, start := template(), w.Sim.World().Clock.Now()
	w.Sim.HoldGuestFile(9000, 20*time.Second)
	failures := make(chan error, 2)
	sessions := map[string]*drive.Session{}
	for _, name := range []string{"a", "b"} {
		sessions[name] = w.Session(t, acctest.TokenSSH, fmt.Sprintf(`resource "proxmox_vm" "web" {
  count = 10
  node  = "pve1"
  name  = "%s-${count.index}"
  protection = false
  clone = { vmid = 9000 }
}`, name))
		sessions[name].Parallelism = 10
	}
	for _, s := range sessions {
		go func() { failures <- s.Run(t.Context()) }()
	}
	w.Sim.HoldLock(9000, "backup", 60*time.Second, "root@pam")
	for range sessions {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	if after := template(); after != before {
		t.Errorf("the template was\n%s\nand is\n%s", before, after)
	}
	clones, requests := 0, w.Sim.Ops()
	w.Change(func(world *state.World) {
		for _, g := range world.Guests {
			if strings.HasPrefix(g.Config["name"], "a-") || strings.HasPrefix(g.Config["name"], "b-") {
				clones++
			}
			if g.Config["lock"] != "" {
				t.Errorf("VM %d is locked (%s)", g.VMID, g.Config["lock"])
			}
		}
	})
	posts := 0
	for _, op := range requests {
		if op.Params["vmid"] != "9000" || op.Method == http.MethodGet {
			continue
		}
		if posts++; !strings.HasSuffix(op.Path, "/clone") {
			t.Errorf("written to the template: %s %s", op.Method, op.Path)
		}
	}
	if clones != 20 {
		t.Errorf("%d clones", clones)
	}
	t.Logf("20 clones through two providers in %s of the cluster's time: %d clone requests, %d requests in all",
		w.Sim.World().Clock.Now().Sub(start).Round(time.Second), posts, len(requests))
	for _, s := range sessions {
		if err := s.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
	w.MustBeClean(t)
}
