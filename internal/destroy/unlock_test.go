package destroy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// lockOf is the lock of VM 300.
func (r *rig) lockOf() (lock string) {
	r.change(func(w *state.World) { lock = w.Guests[300].Lock() })
	return lock
}

// TestReleaseLock: a lock is taken away where a task is known to have died over it, or where that is said to be no
// matter, and no task holds it.
func TestReleaseLock(t *testing.T) {
	chosen := guest.Choice{VMID: 300}
	for name, c := range map[string]struct {
		locks func(r *rig)
		u     guard.Unlocking
		want  string // of the error, "" = it is taken away
		by    string
	}{
		"none":                 {locks: func(*rig) {}, u: guard.Unlocking{Choice: chosen}},
		"dead":                 {locks: func(r *rig) { r.sim.StaleLock(300, "backup", "root@pam") }, u: guard.Unlocking{Choice: chosen}, by: "died and left it"},
		"dead, this one":       {locks: func(r *rig) { r.sim.StaleLock(300, "backup", "root@pam") }, u: guard.Unlocking{Choice: chosen, Lock: "backup"}, by: "died"},
		"another":              {locks: func(r *rig) { r.sim.StaleLock(300, "backup", "root@pam") }, u: guard.Unlocking{Choice: chosen, Lock: "migrate"}, want: "has another lock"},
		"by hand":              {locks: func(r *rig) { r.sim.StaleLock(300, "backup", "") }, u: guard.Unlocking{Choice: chosen}, want: "It is not certain that the lock (backup) of VM 300 is dead"},
		"by hand, and said so": {locks: func(r *rig) { r.sim.StaleLock(300, "backup", "") }, u: guard.Unlocking{Choice: chosen, Unknown: true}, by: "none that died over it is known"},
		"alive": {locks: func(r *rig) { r.sim.HoldLock(300, "backup", time.Hour, "root@pam") }, u: guard.Unlocking{Choice: chosen, Unknown: true},
			want: "A task holds the lock"},
		"another VM": {locks: func(r *rig) { r.sim.StaleLock(300, "backup", "root@pam") },
			u: guard.Unlocking{Choice: guest.Choice{VMID: 300, UUID: uuidOf(1)}}, want: "is another VM"},
		"not whole": {locks: func(r *rig) { r.sim.StaleLock(300, "clone", "root@pam") }, u: guard.Unlocking{Choice: chosen, Unknown: true}, want: "is not whole"},
	} {
		r := newRig(t, asRoot)
		r.vm(300)
		c.locks(r)
		before := r.lockOf()
		got, err := r.s.Locks().Release(t.Context(), c.u)
		switch now := r.lockOf(); {
		case c.want == "" && (err != nil || now != "" || got.Lock != before || !strings.Contains(got.By, c.by)):
			t.Errorf("%s: %+v, %v; the lock is %q", name, got, err, now)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || now != before):
			t.Errorf("%s: %v; the lock is %q, was %q", name, err, now, before)
		}
	}
}

// TestReleaseLockTakesRoot: who can take no lock away is told so before anything is asked.
func TestReleaseLockTakesRoot(t *testing.T) {
	r := newRig(t, asToken)
	r.vm(300)
	r.sim.StaleLock(300, "backup", "root@pam")
	asked := 0
	r.answered = func(string, string) { asked++ }
	if _, err := r.s.Locks().Release(t.Context(), guard.Unlocking{Choice: guest.Choice{VMID: 300}}); err == nil || asked > 0 || r.lockOf() == "" {
		t.Errorf("%v after %d requests, the lock is %q", err, asked, r.lockOf())
	}
}

// TestReleaseLockOfAnother: a third party makes another VM of the id, locked by a task of theirs, after any one of
// the answers. Its lock stays.
func TestReleaseLockOfAnother(t *testing.T) {
	came := 0
	for at := 1; ; at++ {
		r := newRig(t, asRoot)
		r.vm(300)
		r.sim.StaleLock(300, "backup", "root@pam")
		var asked []string
		r.answered = func(method, _ string) {
			if asked = append(asked, method); len(asked) == at && method == http.MethodGet {
				r.change(func(w *state.World) {
					w.Guests[300].Config["smbios1"], w.Guests[300].Config["meta"] = "uuid="+uuidOf(1), "creation-qemu=9.2.0,ctime=9"
					w.Guests[300].SetLock("", "")
				})
				r.sim.HoldLock(300, "backup", time.Hour, "root@pam")
			}
		}
		_, err := r.s.Locks().Release(t.Context(), guard.Unlocking{Choice: guest.Choice{VMID: 300}})
		if len(asked) < at {
			break
		}
		if asked[at-1] != http.MethodGet {
			continue
		}
		if came++; r.lockOf() == "" {
			t.Errorf("after answer %d of %d: the lock of another VM was taken away: %v", at, len(asked), err)
		}
	}
	if came < 5 {
		t.Errorf("the third party came %d times", came)
	}
}
