package orphan

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestOrphansAmongLocks: a lock is left over where the task that took it was killed; where none is known it may be a
// program's.
func TestOrphansAmongLocks(t *testing.T) {
	t.Parallel()
	const user = "other@pam"
	for name, c := range map[string]struct {
		happens func(r *rig)
		want    []string
		misses  []string
	}{
		"its task is at work": {happens: func(r *rig) { r.sim.HoldLock(300, "backup", time.Hour, user) }},
		"its task was killed": {happens: func(r *rig) { r.sim.StaleLock(300, "backup", user) }, want: []string{"lock 300 certain " +
			"qm unlock 300"}},
		"a migration's": {happens: func(r *rig) { r.sim.StaleLock(300, "migrate", user) }, want: []string{"lock 300 certain " +
			"qm unlock 300"}},
		"of an unknown task": {happens: func(r *rig) { r.sim.StaleLock(300, "backup", "") },
			want: []string{"lock 300 unknown"}},
		"suspended to disk":    {happens: func(r *rig) { r.sim.StaleLock(300, "suspended", "") }},
		"of a container":       {happens: func(r *rig) { r.sim.StaleLock(8100, "backup", user) }, want: []string{"lock 8100 unknown"}},
		"a container's backup": {happens: func(r *rig) { r.sim.HoldLock(8100, "backup", time.Hour, user) }},
		"a restore over a VM":  {happens: func(r *rig) { r.sim.StaleLock(300, "create", user) }, want: []string{"half_made 300 unknown"}},
		"a restore over a VM that bears no identity": {happens: func(r *rig) {
			r.change(func(w *state.World) { delete(w.Guests[300].Config, "smbios1"); delete(w.Guests[300].Config, "meta") })
			r.sim.StaleLock(300, "create", user)
		}, want: []string{"half_made 300 unknown"}},
		"whose task cannot be seen": {happens: func(r *rig) { r.sim.StaleLock(300, "backup", user); r.without("Sys.Audit") },
			misses: []string{"VM 300 on node pve1: which tasks run on node pve1 cannot be seen without " +
				"Sys.Audit", "HA", "permissions", "pools", "guests that are not listed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.vm(300, nil)
			c.happens(r)
			report := r.find()
			r.mustFind(name, report, c.want...)
			r.mustMiss(name, report, c.misses...)
		})
	}
}

// TestOrphansThatWereBeingRolledBack: what the end of the lock does not mend is said.
func TestOrphansThatWereBeingRolledBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.vm(300, nil)
	r.sim.StaleLock(300, "rollback", "other@pam")
	report := r.find()
	r.mustFind("a roll-back that died", report, "lock 300 certain qm unlock 300")
	if i := report.Items[0]; !strings.HasSuffix(i.Reason, "its disks may be rolled back or not") || i.Size != 1<<30 || i.Name != "vm300" {
		t.Errorf("%+v", i)
	}
}

// killed has the worker of a request of ours killed.
func (r *rig) killed(method, path string, send func() (pve.UPID, error)) pve.UPID {
	r.t.Helper()
	r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: method, Path: path}, Phase: fault.KillTask}})
	upid, err := send()
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.api.Tasks().Wait(r.t.Context(), upid); err == nil {
		r.t.Fatal("the task was not killed")
	}
	r.sim.SetFaults(nil)
	return upid
}

// TestOrphansHalfMadeAndHalfDestroyed: what killed workers of PVE leave.
func TestOrphansHalfMadeAndHalfDestroyed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.vm(303, nil)
	r.killed("POST", "/nodes/{node}/qemu", func() (pve.UPID, error) {
		return r.api.Node("pve1").CreateVM(t.Context(), pve.Params{"vmid": "301", "scsi0": "local-zfs:1"})
	})
	r.killed("POST", "/nodes/{node}/qemu/{vmid}/clone", func() (pve.UPID, error) {
		return r.api.QEMU("pve1", 9000).Clone(t.Context(), pve.Params{"newid": "302", "full": "1"})
	})
	destroy := r.killed("DELETE", "/nodes/{node}/qemu/{vmid}", func() (pve.UPID, error) { return r.api.QEMU("pve1", 303).Destroy(t.Context(), true) })
	r.change(func(w *state.World) { // the worker came as far as that
		w.Guests[303].Config = map[string]string{}
		w.Guests[303].SetLock("destroyed", string(destroy))
	})
	report := r.find()
	r.mustFind("killed workers", report,
		"half_made 301 certain qm unlock 301 && qm destroy 301 --purge",
		"half_made 302 certain qm unlock 302 && qm set 302 --protection 0 && qm destroy 302 --purge",
		"half_destroyed 303 certain qm unlock 303 && qm destroy 303 --purge")
	for _, i := range report.Items {
		if i.Since.IsZero() || !strings.Contains(i.Reason, "was killed") || i.Node != "pve1" {
			t.Errorf("%+v", i)
		}
	}
	// A third party has attached the half-made VM's volume to another VM.
	r.volume("local-zfs", "vm-302-disk-7", 302)
	r.change(func(w *state.World) { w.Guests[302].Config["scsi7"] = "local-zfs:vm-302-disk-7,size=1G" })
	guestThat(600, "qemu", map[string]string{"scsi5": "local-zfs:vm-302-disk-7,size=1G"})(r)
	if report = r.find(); report.Items[1].Certainty != Unknown || !strings.Contains(report.Items[1].Reason, "also used by VM 600") {
		t.Errorf("%+v", report.Items[1])
	}
}

// TestOrphanOfADestroyThatDidNotGetTheLockOfUserConfig: the task was not killed, and says that it came as far as that
// lock, which it takes when the disks are gone. It is proved as half destroyed, and removed.
func TestOrphanOfADestroyThatDidNotGetTheLockOfUserConfig(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.make(pve.Params{"vmid": "303", "scsi0": "local-zfs:1"})
	pvesim.HoldUserConfig(r.sim, time.Hour)
	upid, err := r.api.QEMU("pve1", 303).Destroy(t.Context(), true)
	if err == nil {
		_, err = r.api.Tasks().Wait(t.Context(), upid)
	}
	if err == nil {
		t.Fatal("the destroy did not fail")
	}
	r.sim.Advance(time.Hour)
	report := r.find()
	r.mustFind("a destroy that failed", report, "half_destroyed 303 certain qm unlock 303 && qm destroy 303 --purge")
	if reason := report.Items[0].Reason; !strings.Contains(reason, "has failed (access permissions cleanup for VM 303") {
		t.Error(reason)
	}
}

// TestOrphansLockedLikeAClone: the task that was killed over a clone does not say which VM it was making.
func TestOrphansLockedLikeAClone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.make(pve.Params{"vmid": "301", "name": "mine", "scsi0": "local-zfs:1"})
	r.killed("POST", "/nodes/{node}/qemu/{vmid}/clone", func() (pve.UPID, error) {
		return r.api.QEMU("pve1", 9000).Clone(t.Context(), pve.Params{"newid": "302", "full": "1"})
	})
	r.sim.StaleLock(301, "clone", "") // by hand
	report := r.find()
	r.mustFind("two that are locked", report, "half_made 301 unknown",
		"half_made 302 certain qm unlock 302 && qm set 302 --protection 0 && qm destroy 302 --purge")
}

// TestOrphansWithoutADisk: what a program leaves that makes a VM first and its disk afterwards. Nothing marks it.
func TestOrphansWithoutADisk(t *testing.T) {
	t.Parallel()
	noBoot := pve.Params{"name": "web", "boot": "order=scsi0"}
	network := pve.Params{"name": "web", "net0": "virtio,bridge=vmbr0"}
	const one, two = "half_made 301 likely qm destroy 301 --purge", "half_made 302 likely qm destroy 302 --purge"
	for name, c := range map[string]struct {
		made    pve.Params
		copies  int
		happens func(r *rig)
		want    []string
		misses  []string
	}{
		"nothing to start from":    {made: noBoot, copies: 1, want: []string{one}},
		"may start from network":   {made: network, copies: 1},
		"two that are alike":       {made: network, copies: 2, want: []string{one, two}},
		"no name":                  {made: pve.Params{"net0": "virtio,bridge=vmbr0"}, copies: 2},
		"a disk":                   {made: pve.Params{"name": "web", "scsi0": "local-zfs:1"}, copies: 2},
		"an ISO image":             {made: pve.Params{"name": "web", "ide2": "local:iso/debian.iso,media=cdrom"}, copies: 1},
		"an empty drive":           {made: pve.Params{"name": "web", "ide2": "none,media=cdrom"}, copies: 1, want: []string{one}},
		"protected":                {made: pve.Params{"name": "web", "protection": "1"}, copies: 1},
		"a disk that is not in it": {made: noBoot, copies: 1, happens: func(r *rig) { r.volume("local-zfs", "vm-301-disk-0", 301) }},
		"made by an unknown user": {made: noBoot, copies: 1,
			happens: func(r *rig) { r.change(func(w *state.World) { clear(w.Tasks) }) }},
		"its tasks cannot be " +
			"seen": {made: noBoot, copies: 1, happens: func(r *rig) { r.without("Sys.Audit") }, misses: []string{"VMs without a " +
			"disk: ", "HA", "permissions", "pools", "guests that are not listed"}},
		"it was started, and ended": {made: noBoot, copies: 1, happens: func(r *rig) { r.startAndStop(301) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for n := range c.copies {
				p := maps.Clone(c.made)
				p["vmid"] = fmt.Sprint(301 + n)
				r.make(p)
			}
			if c.happens != nil {
				c.happens(r)
			}
			if report := r.find(); len(c.want) > 0 && (len(report.Items) == 0 || report.Items[0].Certainty != Unknown) {
				t.Errorf("it is new, and yet: %v", report.Items)
			}
			r.later(2 * fresh)
			report := r.find()
			r.mustFind(name, report, c.want...)
			r.mustMiss(name, report, c.misses...)
		})
	}
}

func (r *rig) startAndStop(vmid int) {
	r.t.Helper()
	upid, err := r.api.QEMU("pve1", vmid).Start(r.t.Context(), nil)
	if err == nil {
		_, err = r.api.Tasks().Wait(r.t.Context(), upid)
	}
	if err == nil {
		if upid, err = r.api.QEMU("pve1", vmid).HardStop(r.t.Context(), nil); err == nil {
			_, err = r.api.Tasks().Wait(r.t.Context(), upid)
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestOrphansElsewhere: entries of HA, pools and permissions for ids that no guest has.
func TestOrphansElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.vm(300, nil)
	r.change(func(w *state.World) {
		for _, vmid := range []int{300, 301} {
			sid := fmt.Sprintf("vm:%d", vmid)
			w.HA[sid] = &state.HAResource{SID: sid, State: "ignored"}
		}
		w.ACL = append(w.ACL, state.ACLEntry{Path: "/vms/300", Subject: "auditor@pve", Role: "PVEAuditor"},
			state.ACLEntry{Path: "/vms/302", Subject: "auditor@pve", Role: "PVEAuditor"}, state.ACLEntry{Path: "/vms/302", Subject: "auditor@pve!ro", Role: "PVEAuditor"})
		w.Pools["web"].Guests = []int{300, 303}
	})
	report := r.find()
	elsewhere := []string{"ha_resource vm:301 certain ha-manager remove vm:301"}
	permissions := []string{
		"acl_entry /vms/302 auditor@pve PVEAuditor likely pveum acl delete /vms/302 --users auditor@pve --roles PVEAuditor",
		"acl_entry /vms/302 auditor@pve!ro PVEAuditor likely pveum acl delete /vms/302 --tokens 'auditor@pve!ro' --roles PVEAuditor"}
	r.mustFind("elsewhere", report, append(append(elsewhere, "pool_member web/303 likely pveum pool modify web --vms 303 --delete "+
		"1"), permissions...)...)
	r.mustMiss("elsewhere", report)
	r.change(func(w *state.World) { w.Pools["db"] = &state.Pool{ID: "db"} })
	report = r.find()
	r.mustFind("two pools", report, append(append(elsewhere, "pool_member 303 likely"), permissions...)...)
	if reason := report.Items[1].Reason; !strings.Contains(reason, "grep -w 303 /etc/pve/user.cfg") {
		t.Error(reason)
	}
}
