package contention_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	requestpkg "github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// TestAnUpdateWaitsForLocks: if a third party holds the configuration or its file, every kind of change waits until it is released, and
// is then made exactly once.
func TestAnUpdateWaitsForLocks(t *testing.T) {
	t.Parallel()
	holds := map[string]func(*engine.CreateBench){
		"backup":   func(b *engine.CreateBench) { b.Sim.HoldLock(300, "backup", 90*time.Second, "root@pam") },
		"snapshot": func(b *engine.CreateBench) { b.Sim.HoldLock(300, "snapshot", 40*time.Second, "other@pve") },
		"file":     func(b *engine.CreateBench) { b.Sim.HoldGuestFile(300, 75*time.Second) },
	}
	h := engine.NewHookedBench(t, engine.TokenIdentity())
	ref := h.Existing(t, engine.SmallCreate(300))
	h.Base = h.Sim.Snapshot()
	for what, alter := range engine.ContendedChanges() {
		for kind, hold := range holds {
			for _, early := range []bool{true, false} { // before the update looks, or between its look and its first write
				h.Reset()
				r := h.Updating(t, ref)
				alter(&r)
				start, lines := h.Now(), h.Lines()
				if early {
					hold(h.CreateBench)
				} else {
					h.Once(http.MethodGet, "/pending", func() { hold(h.CreateBench) })
				}
				_, _, err := h.Service.Update(t.Context(), r)
				h.Hook = func(engine.Answer) {}
				name := fmt.Sprintf("%s, %s, early %t", what, kind, early)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if waited := h.Now().Sub(start); waited < 40*time.Second {
					t.Errorf("%s: done after %s, so it did not wait", name, waited)
				}
				if len(*lines) == 0 || !strings.Contains((*lines)[0], "VM 300 is ") || !strings.HasSuffix((*lines)[0], "; trying again") {
					t.Errorf("%s: log %q", name, *lines)
				}
				h.MustBeDoneOnce(t, name, start)
			}
		}
	}
}

// TestALockThatStays: the error names the lock, the task that holds it, its user and since when, or says why that cannot be
// seen, and what to do. Nothing was written.
func TestALockThatStays(t *testing.T) {
	whole, cannot := "by vzdump of other@pve since 20", "which task holds it cannot be seen without Sys.Audit on /nodes/pve1"
	cases := []struct {
		name    string
		who     engine.FaultIdentity
		blind   bool
		hold    func(*engine.CreateBench)
		phrases []string
	}{
		{"held, seen", engine.FaultIdentities()[0], false, func(b *engine.CreateBench) { b.Sim.HoldLock(300, "backup", time.Hour, "other@pve") },
			[]string{"VM is locked (backup)", "VM 300 is locked (backup) " + whole, "pvenode task status UPID:pve1:", "timeouts attribute"}},
		{"held, unseen", engine.TokenIdentity(), true, func(b *engine.CreateBench) { b.Sim.HoldLock(300, "backup", time.Hour, "other@pve") },
			[]string{"VM 300 is locked (backup); " + cannot, "pvenode task list --vmid 300", "`qm unlock 300` as root on that node"}},
		{"dead, seen", engine.FaultIdentities()[0], false, func(b *engine.CreateBench) { b.Sim.StaleLock(300, "snapshot", "other@pve") },
			[]string{"VM 300 is locked (snapshot); no task that runs on node pve1 is seen to hold it", "`qm unlock 300` as root on node pve1"}},
		{"file", engine.FaultIdentities()[0], false, func(b *engine.CreateBench) { b.Sim.HoldGuestFile(300, time.Hour) },
			[]string{"can't lock file '/var/lock/qemu-server/lock-300.conf' - got timeout", "VM 300 is held by another task of PVE"}},
	}
	for _, c := range cases {
		h := engine.NewHookedBench(t, c.who)
		ref := h.Existing(t, engine.SmallCreate(300))
		if c.blind {
			h.Change(func(w *state.World) {
				for name, privileges := range w.Roles {
					w.Roles[name] = slices.DeleteFunc(slices.Clone(privileges), func(p string) bool { return p == "Sys.Audit" })
				}
			})
		}
		r := h.Updating(t, ref)
		r.Planned.Name = rig.Pointer("renamed")
		c.hold(h.CreateBench)
		before := h.Sim.Snapshot()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		start := h.Now()
		_, _, err := h.Service.Update(ctx, r)
		cancel()
		var locked *requestpkg.LockedError
		if !errors.As(err, &locked) || !pve.IsKind(err, pve.Locked) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, phrase := range append(c.phrases, "Nothing was done", "waited ") {
			if !strings.Contains(err.Error(), phrase) {
				t.Errorf("%s: %q is not in %q", c.name, phrase, err)
			}
		}
		least, most := 4*time.Minute, 5*time.Minute+30*time.Second
		if c.name == "dead, seen" { // no task will give it back
			least, most = 2*time.Minute, 2*time.Minute+45*time.Second
		}
		if waited := h.Now().Sub(start); waited < least || waited > most {
			t.Errorf("%s: gave up after %s", c.name, waited)
		}
		if tries := h.Sent(http.MethodPut, "/config") + h.Sent(http.MethodGet, "/pending"); tries > 60 {
			t.Errorf("%s: %d tries", c.name, tries)
		}
		h.MustBeAsBefore(t, before)
	}
}

// TestWritesBesideTheConfigurationWait: the pools', HA's and the firewall's locks are the cluster's, and a request that did
// not get one did nothing.
func TestWritesBesideTheConfigurationWait(t *testing.T) {
	t.Parallel()
	cfs := func(name string) string { return "cfs-lock '" + name + "' error: got lock request timeout" }
	cases := map[string]struct {
		path, reason string
		change       func(*update.Request)
	}{
		"pool":     {"/pools", "update pools failed: " + cfs("file-user_cfg"), func(r *update.Request) { r.Pool = "web" }},
		"HA":       {"/cluster/ha/resources", "create resource failed: " + cfs("domain-ha"), func(r *update.Request) { r.HA = &guest.HA{State: rig.Pointer("stopped")} }},
		"firewall": {"/nodes/{node}/qemu/{vmid}/firewall/options", cfs("firewall-vm-300"), func(r *update.Request) { r.Firewall = &firewall.Settings{Enabled: rig.Pointer(true)} }},
		"firewall rule": {"/nodes/{node}/qemu/{vmid}/firewall/rules", cfs("firewall-vm-300"), func(r *update.Request) {
			r.Firewall = &firewall.Settings{Rules: []firewall.Rule{{Type: rig.Pointer("in"), Action: rig.Pointer("DROP")}}}
		}},
	}
	for name, c := range cases {
		h := engine.NewHookedBench(t, engine.FaultIdentities()[0])
		r := h.Updating(t, h.Existing(t, engine.SmallCreate(300)))
		c.change(&r)
		var rules []fault.Rule
		for _, method := range []string{http.MethodPost, http.MethodPut} {
			rules = append(rules, fault.Rule{Match: fault.Match{Method: method, Path: c.path}, Phase: fault.Before, Reason: c.reason, Times: 4})
		}
		h.Sim.SetFaults(rules)
		if _, _, err := h.Service.Update(t.Context(), r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := h.Sim.FaultsFired(); n != 4 {
			t.Errorf("%s: refused %d times, want 4", name, n)
		}
	}
}

// TestALockInTheMiddle: words about a lock from the middle of the work are no proof, and the request is not sent again. A
// create that failed so is rolled back first and then started again.
func TestALockInTheMiddle(t *testing.T) {
	t.Parallel()
	busy := "can't lock file '/var/lock/pve-manager/pve-storage-local-zfs' - got timeout"
	h := engine.NewHookedBench(t, engine.TokenIdentity())
	h.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu"}, Phase: fault.Task, Reason: "unable to create VM 300 - " + busy, Times: 3}})
	created, err := h.Service.Create(t.Context(), engine.SmallCreate(300))
	if err != nil || created.Guest.VMID != 300 || h.Sim.FaultsFired() != 3 || h.Sent(http.MethodPost, "/nodes/{node}/qemu") != 4 {
		t.Fatalf("%+v, %v; %d faults, %d creates", created.Guest.VMID, err, h.Sim.FaultsFired(), h.Sent(http.MethodPost, "/nodes/{node}/qemu"))
	}
	r := h.Updating(t, guest.Ref{VMID: 300, Node: "pve1", Identity: created.Guest.Identity})
	r.Planned.Disks = map[string]vm.Disk{"scsi0": r.Planned.Disks["scsi0"]}
	d := r.Planned.Disks["scsi0"]
	d.Size = rig.Pointer(int64(2 << 30))
	r.Planned.Disks["scsi0"] = d
	h.Sim.ResetOps()
	h.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/resize"}, Phase: fault.Task, Reason: busy, Times: -1}})
	if _, _, err := h.Service.Update(t.Context(), r); !pve.IsKind(err, pve.Locked) || h.Sent(http.MethodPut, "/resize") != 1 {
		t.Errorf("%d resizes: %v", h.Sent(http.MethodPut, "/resize"), err)
	}
}

// TestAStorageThatIsHeld: creates wait for a storage on which a third party allocates.
func TestAStorageThatIsHeld(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"local-zfs", "shared-nfs"} {
		h := engine.NewHookedBench(t, engine.TokenIdentity())
		before := h.Sim.Snapshot()
		r := engine.SmallCreate(300)
		r.Spec.Disks["scsi0"] = vm.Disk{Storage: storage, Size: rig.Pointer(int64(1 << 30))}
		h.Sim.HoldStorage("pve1", storage, 45*time.Second)
		created, err := h.Service.Create(t.Context(), r)
		if err != nil || created.Guest.VMID != 300 || h.Sent(http.MethodPost, "/nodes/{node}/qemu") < 2 {
			t.Errorf("%s: %v after %d creates", storage, err, h.Sent(http.MethodPost, "/nodes/{node}/qemu"))
		}
		if diff := engine.ContentDiff(h.Content(before), h.Content(h.Sim.Snapshot()).Without(300, "pve1").Without(300, "")); diff != "" {
			t.Errorf("%s: something else changed (-before +after):\n%s", storage, diff)
		}
	}
}

// TestALockedTemplateIsWaitedFor: a backup, a clone or a migration of the template, before the create looks or after it.
// The template stays as it is.
func TestALockedTemplateIsWaitedFor(t *testing.T) {
	t.Parallel()
	h := engine.NewHookedBench(t, engine.TokenIdentity())
	r := engine.SmallCreate(200)
	r.Clone, r.Spec.Disks = &guest.Clone{VMID: 9000}, nil
	for _, lock := range []string{"backup", "clone", "migrate", "snapshot", "file"} {
		for _, early := range []bool{true, false} {
			h.Reset()
			before, start, lines := h.Content(h.Sim.Snapshot()), h.Now(), h.Lines()
			hold := func() { h.Sim.HoldLock(9000, lock, time.Minute, "root@pam") }
			if lock == "file" {
				hold = func() { h.Sim.HoldGuestFile(9000, time.Minute) }
			}
			if early {
				hold()
			} else {
				h.Once(http.MethodGet, "/9000/config", hold)
			}
			created, err := h.Service.Create(t.Context(), r)
			h.Hook = func(engine.Answer) {}
			if err != nil || created.Guest.VMID != 200 || len(created.Warnings) > 0 {
				t.Errorf("%s, early %t: %v %v", lock, early, err, created.Warnings)
			}
			if waited := h.Now().Sub(start); waited < 50*time.Second || len(*lines) == 0 || !strings.Contains((*lines)[0], "VM 9000 is ") {
				t.Errorf("%s, early %t: waited %s, said %q", lock, early, waited, *lines)
			}
			if diff := engine.ContentDiff(before, h.Content(h.Sim.Snapshot()).Without(200, "pve1")); diff != "" {
				t.Errorf("%s, early %t: something else changed (-before +after):\n%s", lock, early, diff)
			}
			h.MustNotTouch(t, 9000)
		}
	}
}

// TestATemplateThatMigrates: while it is waited for, the template goes to another node, and is cloned there.
func TestATemplateThatMigrates(t *testing.T) {
	t.Parallel()
	h := engine.NewHookedBench(t, engine.TokenIdentity())
	r := engine.SmallCreate(400)
	r.Spec.Template = rig.Pointer(true)
	r.Spec.Disks["scsi0"] = vm.Disk{Storage: "shared-nfs", Size: rig.Pointer(int64(1 << 30))}
	h.Existing(t, r)
	h.Sim.HoldLock(400, "migrate", 30*time.Second, "root@pam")
	h.Service.Log = func(context.Context, string, map[string]string) {
		h.Change(func(w *state.World) { w.Guests[400].Node = "pve2" })
	}
	cloning := engine.SmallCreate(401)
	cloning.Node, cloning.Clone, cloning.Spec.Disks = "", &guest.Clone{VMID: 400}, nil
	created, err := h.Service.Create(t.Context(), cloning)
	if err != nil || created.Guest.Node != "pve2" {
		t.Errorf("on node %q: %v", created.Guest.Node, err)
	}
}

// TestATemplateThatStaysLocked: the create gives up when its time is over, with the lock, its holder and nothing left.
func TestATemplateThatStaysLocked(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"backup", "file"} {
		h := engine.NewHookedBench(t, engine.FaultIdentities()[0])
		if kind == "file" {
			h.Sim.HoldGuestFile(9000, time.Hour)
		} else {
			h.Sim.HoldLock(9000, kind, time.Hour, "root@pam")
		}
		before := h.Sim.Snapshot()
		r := engine.SmallCreate(200)
		r.Clone, r.Spec.Disks = &guest.Clone{VMID: 9000}, nil
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		created, err := h.Service.Create(ctx, r)
		cancel()
		var locked *requestpkg.LockedError
		if !errors.As(err, &locked) || !strings.Contains(err.Error(), "VM 9000 is ") || created.Guest.VMID != 0 || kind == "file" && !saga.RolledBack(err) {
			t.Errorf("%s: %+v, %v", kind, created, err)
		}
		h.MustBeAsBefore(t, before)
		h.MustNotTouch(t, 9000)
	}
}

// TestARollbackWaitsForALock: a backup has begun on the VM that is to be taken back. It ends, and then nothing is left.
func TestARollbackWaitsForALock(t *testing.T) {
	t.Parallel()
	for _, who := range engine.FaultIdentities() {
		h := engine.NewHookedBench(t, who)
		before := h.Sim.Snapshot()
		h.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Task}})
		h.Once(http.MethodPost, "/status/start", func() { h.Sim.HoldLock(300, "backup", 3*time.Minute, "root@pam") })
		r := engine.SmallCreate(300)
		r.Start = true
		created, err := h.Service.Create(t.Context(), r)
		if !saga.RolledBack(err) || created.Guest.VMID != 0 {
			t.Errorf("%s: %v, left %v", who.Name, err, created.Left)
		}
		h.MustBeAsBefore(t, before)
	}
}

// TestTwoProvidersShareATemplate: two provider processes make ten clones each of one template at once, while a third party holds
// its file for some seconds and then backs it up. All twenty are made, and nothing is written to the template.
func TestTwoProvidersShareATemplate(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
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
	sessions := map[string]*terraformtest.Session{}
	for _, name := range []string{"a", "b"} {
		sessions[name] = w.Session(t, rig.TokenSSH, fmt.Sprintf(`resource "proxmox_vm" "web" {
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
