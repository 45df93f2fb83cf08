package destroy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// managedVM is a running VM 300 under HA.
func managedVM(t *testing.T, r *rig) guest.Ref {
	t.Helper()
	ref := r.vm(300)
	r.change(func(w *state.World) {
		w.Guests[300].Running = &state.Running{QMPStatus: "running", PID: 4711, StartedAt: w.Clock.Now(),
			Booted: map[string]string{}}
	})
	if err := r.s.api.HA().Create(t.Context(), 300, pve.Params{"state": "started", "comment": "ours"}); err != nil {
		t.Fatal(err)
	}
	ref.Status = string(guest.Running)
	return ref
}

// TestHAIgnoresOurVMOnly: a destroy waits for the lock on HA's configuration, and meanwhile a third party replaces the VM.
// HA's request names the id alone: it is not told to ignore his VM.
func TestHAIgnoresOurVMOnly(t *testing.T) {
	r := newRig(t, asRoot)
	ref := managedVM(t, r)
	r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/cluster/ha/resources/{sid}"},
		Phase: fault.Before, Status: 500, Reason: "cfs-lock 'domain-ha' error: got lock request timeout"}})
	came := false
	r.answered = func(method, path string) {
		if came || method != http.MethodPut || !strings.Contains(path, "/ha/resources/") {
			return
		}
		came = true
		r.change(func(w *state.World) { w.Guests[300].Config["smbios1"] = "uuid=99999999-2222-3333-4444-555555555555" })
	}
	_, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
	is, kept := r.has(300, "local-zfs:vm-300-disk-0")
	entry, lookErr := r.s.api.HA().Resource(t.Context(), 300)
	if !came || err == nil || !is || !kept || lookErr != nil || entry.Options["state"] != "started" {
		t.Errorf("a third party came: %t; %v; his VM is there: %t, its disk: %t, its entry is %v (%v)", came, err, is, kept,
			entry.Options, lookErr)
	}
}

// TestRemovedHAEntryStaysSo: HA is to ignore a VM for its shutdown. An administrator takes the VM out of HA meanwhile, and
// the guest does not obey, so the destroy fails. The entry is not made again.
func TestRemovedHAEntryStaysSo(t *testing.T) {
	r := newRig(t, asRoot)
	ref := managedVM(t, r)
	r.change(func(w *state.World) { w.Guests[300].Ignores = []string{"shutdown"} })
	came := false
	r.answered = func(method, path string) {
		if came || method != http.MethodPost || !strings.HasSuffix(path, "/status/shutdown") {
			return
		}
		came = true
		r.change(func(w *state.World) { delete(w.HA, "vm:300") })
	}
	_, _, err := r.s.Delete(t.Context(), Request{Ref: ref, GracefulOnly: true})
	_, lookErr := r.s.api.HA().Resource(t.Context(), 300)
	if !came || err == nil || !pve.IsKind(lookErr, pve.NotFound) {
		t.Errorf("an administrator came: %t; %v; the entry: %v", came, err, lookErr)
	}
}

// TestEntryThatAKilledDestroyHasLeftIsNamed: a destroy was killed after it had HA ignore an administrator's VM. The next
// one does not remove the VM either. It does not know the state before, and names the entry with the command.
func TestEntryThatAKilledDestroyHasLeftIsNamed(t *testing.T) {
	t.Parallel()
	for _, ours := range []bool{false, true} {
		r := newRig(t, asRoot)
		ref := managedVM(t, r)
		r.change(func(w *state.World) {
			w.Guests[300].Ignores, w.HA["vm:300"].State = []string{"shutdown"}, "ignored"
		})
		_, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref, GracefulOnly: true, OwnHA: ours})
		named := strings.Contains(fmt.Sprint(warnings), "`ha-manager set vm:300 --state started`")
		entry, lookErr := r.s.api.HA().Resource(t.Context(), 300)
		if err == nil || named == ours || lookErr != nil || entry.Options["state"] != "ignored" {
			t.Errorf("of the configuration %t: named %t: %v %v; %v", ours, named, entry, lookErr, err)
		}
	}
}

// TestDroppedHAEntryIsNamedWithItsOptions: HA changes no entry of a service in state error, so a destroy makes it again.
// PVE refuses that. The error has the command that adds the entry with its options, but for a comment.
func TestDroppedHAEntryIsNamedWithItsOptions(t *testing.T) {
	r := newRig(t, asRoot)
	ref := managedVM(t, r)
	r.change(func(w *state.World) {
		w.HA["vm:300"].Failed = true
		w.HA["vm:300"].Options = map[string]string{"comment": "two words", "max_restart": "3", "max_relocate": "0"}
	})
	r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/cluster/ha/resources"},
		Phase: fault.Before, Times: -1, Status: 501}})
	_, _, err := r.s.Delete(t.Context(), Request{Ref: ref, GracefulOnly: true})
	want := "`ha-manager add vm:300 --state started --max_restart 3 --max_relocate 0`"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s is missing: %v", want, err)
	}
}
