package destroy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// shellRecord is an SSH that does what it is told, and remembers it.
type shellRecord struct {
	r     *rig
	calls []string
}

func (s *shellRecord) Hold(ctx context.Context, _ string, do func(context.Context) error) error {
	return do(ctx)
}

func (s *shellRecord) Unlock(context.Context, string, int) error {
	s.calls = append(s.calls, "unlock")
	s.r.change(func(w *state.World) { delete(w.Guests[300].Config, "lock") })
	return nil
}

func (s *shellRecord) FreeVolume(_ context.Context, _, volume string) error {
	s.calls = append(s.calls, "free "+volume)
	return nil
}

func (s *shellRecord) RemoveFile(_ context.Context, _, path, _ string) error {
	s.calls = append(s.calls, "remove "+path)
	return nil
}

// killedCreate has the worker of a create of VM 300 killed, and says what the create knows: its task, and its baseline.
func (r *rig) killedCreate() Target {
	r.t.Helper()
	r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: fault.KillTask}})
	resources, err := r.s.api.Cluster().Resources(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	f, err := r.s.guests.NewBaseline(r.t.Context(), resources, "pve1", 300, []string{"local-zfs"})
	if err != nil {
		r.t.Fatal(err)
	}
	mark := r.s.guests.NewMark("pve1,pve2", 300)
	l := &request.Tasks{}
	_, err = r.s.jobs.Once(r.t.Context(), l, request.Request{Node: "pve1", Type: "qmcreate", ID: 300, Send: func(ctx context.Context) (pve.UPID, error) {
		return r.s.api.Node("pve1").CreateVM(ctx, pve.Params{"vmid": "300", "description": mark.String(), "scsi0": "local-zfs:1"})
	}})
	if err == nil || len(l.UPIDs) != 1 {
		r.t.Fatalf("the create was not killed: %v", err)
	}
	r.sim.SetFaults(nil)
	return Target{VMID: 300, Nodes: []string{"pve1"}, Baseline: f, Tasks: l, Mark: mark, HalfMade: NewHalfMade("", nil)}
}

// withoutSysAudit takes the privilege from the token, which then sees its own tasks only.
func (r *rig) withoutSysAudit() {
	r.change(func(w *state.World) {
		for name, privileges := range w.Roles {
			w.Roles[name] = slices.DeleteFunc(slices.Clone(privileges), func(p string) bool { return p == "Sys.Audit" && name != "Administrator" })
		}
	})
}

// TestNoLockIsTakenBlindly: an identity that does not see every user's tasks takes no lock away, and frees nothing
// under it.
func TestNoLockIsTakenBlindly(t *testing.T) {
	for _, ssh := range []bool{true, false} {
		r := newRig(t, asToken)
		shell := &shellRecord{r: r}
		if ssh {
			r.useShell(shell)
		}
		r.withoutSysAudit()
		target := r.killedCreate()
		before := string(r.sim.Snapshot())
		err := r.s.Remove(t.Context(), target)
		if err == nil || !strings.Contains(err.Error(), "Sys.Audit") {
			t.Errorf("SSH %t: %v", ssh, err)
		}
		if len(shell.calls) > 0 || string(r.sim.Snapshot()) != before {
			t.Errorf("SSH %t: something was touched: %v", ssh, shell.calls)
		}
	}
}

// TestHalfMadeVMOfAThirdPartyIsNotOurs: our worker was killed, a third party has removed its leftover, and is making
// a VM of their own under the id. It looks just the same.
func TestHalfMadeVMOfAThirdPartyIsNotOurs(t *testing.T) {
	for _, same := range []bool{true, false} {
		r := newRig(t, asToken)
		shell := &shellRecord{r: r}
		r.useShell(shell)
		target := r.killedCreate()
		config, err := r.s.api.QEMU("pve1", 300).Config(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		target.HalfMade = NewHalfMade(config.Digest, target.Tasks.UPIDs) // as an earlier run has noted it
		if !same {
			r.change(func(w *state.World) {
				w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", LockCause: "state",
					Config: map[string]string{"lock": "create", "memory": "512"}}
			})
		}
		before := string(r.sim.Snapshot())
		err = r.s.Remove(t.Context(), target)
		switch {
		case same && err != nil:
			t.Errorf("ours was not removed: %v", err)
		case same:
			if is, kept := r.has(300, contested); is || kept || len(shell.calls) == 0 {
				t.Error("ours is still there")
			}
		case err == nil || !strings.Contains(err.Error(), "it has changed since our task died"):
			t.Errorf("a third party's: %v", err)
		case len(shell.calls) > 0 || string(r.sim.Snapshot()) != before:
			t.Errorf("a third party's was touched: %v", shell.calls)
		}
	}
}

// TestNoUnlockOfAChangedVM: between the look at the lock and the command a third party has taken another lock, or the
// id. Neither is unlocked.
func TestNoUnlockOfAChangedVM(t *testing.T) {
	for what, act := range map[string]func(*state.Guest){
		"":             func(*state.Guest) {},
		"another lock": func(g *state.Guest) { g.Config["lock"] = "backup" },
		"another VM":   func(g *state.Guest) { g.Config["smbios1"] = "uuid=" + uuidOf(999) },
		"a new text":   func(g *state.Guest) { g.Config["description"] = "precious" },
	} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		shell := &shellRecord{r: r}
		r.useShell(shell)
		r.change(func(w *state.World) { w.Guests[300].Config["lock"], w.Guests[300].LockCause = "snapshot", "state" })
		rule := guard.HasIdentity(ref.Identity)
		e, err := r.s.Prove(t.Context(), guard.Claim{Node: "pve1", VMID: 300, Guest: rule, Lock: true})
		if err != nil {
			t.Fatal(err)
		}
		r.change(func(w *state.World) { act(w.Guests[300]) })
		err = r.s.TakeLock(t.Context(), e, "")
		if changed := what != ""; pve.IsKind(err, pve.DigestMismatch) != changed || (len(shell.calls) == 0) != changed {
			t.Errorf("%q: %v, and sent %v", what, err, shell.calls)
		}
	}
}

// TestHalfMadeVMThatIsLockedAgain: a third party's task locks the VM that our killed task has left as soon as it is
// unlocked. It is not taken for another user's VM, whose volumes would be left over, nor removed: it is named.
func TestHalfMadeVMThatIsLockedAgain(t *testing.T) {
	for _, ends := range []bool{true, false} {
		r := newRig(t, asToken)
		target := r.killedCreate()
		r.useShell(&lockingShell{shellRecord{r: r}, ends})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		err := r.s.Remove(ctx, target)
		cancel()
		is, kept := r.has(300, contested)
		var left *saga.LeftError
		if !errors.As(err, &left) || !is || !kept || left.Left[0].ID != "300" || strings.Contains(left.Left[0].Command, "destroy") {
			t.Errorf("its task ends %t: VM %t, volume %t, %v", ends, is, kept, err)
		}
	}
}

// lockingShell is a shell after whose unlock a third party locks the VM.
type lockingShell struct {
	shellRecord
	ends bool
}

func (l *lockingShell) Unlock(ctx context.Context, node string, vmid int) error {
	err := l.shellRecord.Unlock(ctx, node, vmid)
	if l.ends {
		l.r.sim.HoldLock(300, "backup", time.Minute, "root@pam")
	} else {
		l.r.sim.StaleLock(300, "backup", "root@pam")
	}
	return err
}
