package destroy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// running starts VM 300 of a rig.
func (r *rig) running(ignores ...string) {
	r.change(func(w *state.World) {
		g := w.Guests[300]
		g.Ignores = ignores
		g.Running = &state.Running{QMPStatus: "running", PID: 4711, StartedAt: w.Clock.Now(), Booted: map[string]string{"scsi0": g.Config["scsi0"]}}
	})
}

// TestDeafGuestIsCutOff: its disks are about to go, so a guest that was asked twice and did not obey is stopped hard,
// and the user is told; unless the user wants a graceful end only.
func TestDeafGuestIsCutOff(t *testing.T) {
	for _, only := range []bool{false, true} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		r.running("shutdown")
		_, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref, StopTimeout: 20 * time.Second, GracefulOnly: only})
		asked := 0
		for _, op := range r.sim.Ops() {
			if op.Method == http.MethodPost && strings.HasSuffix(op.Path, "/status/shutdown") {
				asked++
			}
		}
		is, _ := r.has(300, contested)
		if asked != asks || (err != nil) != only || is != only || only != (len(r.sim.PowerOffs()) == 0) {
			t.Errorf("graceful only %t: asked %d times, still there %t: %v", only, asked, is, err)
		}
		if !only && !strings.Contains(fmt.Sprint(warnings), "VM 300 was cut off") {
			t.Errorf("no warning says that it was cut off: %v", warnings)
		}
	}
}

// TestAdministratorInterruptsTheShutdown: the shutdown is interrupted, and the guest is off a moment later.
func TestAdministratorInterruptsTheShutdown(t *testing.T) {
	r := newRig(t, asToken)
	ref := r.vm(300)
	r.running("shutdown")
	r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/shutdown"}, Phase: fault.Task, Reason: "received interrupt"}})
	looks := 0
	r.answered = func(_, path string) {
		if strings.HasSuffix(path, "/300/status/current") {
			if looks++; looks == 3 {
				r.sim.EndGuest(300)
			}
		}
	}
	if _, _, err := r.s.Delete(t.Context(), Request{Ref: ref}); err != nil {
		t.Error(err)
	}
	if is, _ := r.has(300, contested); is {
		t.Error("it is still there")
	}
}

// TestHARulesWaitForTheManager: HA's local manager starts a guest again that goes off while the manager's status still
// has it. So the guest is asked to shut down only when that status has let go of it.
func TestHARulesWaitForTheManager(t *testing.T) {
	r := newRig(t, asRoot)
	ref := r.vm(300)
	r.running()
	r.change(func(w *state.World) { w.HA["vm:300"] = &state.HAResource{SID: "vm:300", State: "started"} })
	asked := 0
	r.answered = func(method, path string) {
		if method == http.MethodPost && strings.HasSuffix(path, "/300/status/shutdown") {
			asked++
			r.change(func(w *state.World) {
				if h := w.HA["vm:300"]; h == nil || h.Listed() != "ignored" {
					t.Errorf("asked to shut down while HA has it: %+v", h)
				}
			})
		}
	}
	if _, _, err := r.s.Delete(t.Context(), Request{Ref: ref}); err != nil {
		t.Fatal(err)
	}
	if is, _ := r.has(300, contested); is || asked != 1 {
		t.Errorf("still there %t, asked %d times", is, asked)
	}
}

// TestDiskThatComesDuringTheShutdown: a guest takes minutes to go off. A disk that a third party gives the VM meanwhile is not destroyed
// with it.
func TestDiskThatComesDuringTheShutdown(t *testing.T) {
	for _, comes := range []bool{true, false} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		r.running()
		r.sim.Advance(20 * time.Second)
		storage, _, _ := strings.Cut(contested, ":")
		theirs, asked := storage+":vm-300-disk-77", false
		r.answered = func(method, path string) {
			if asked || method != http.MethodPost || !strings.HasSuffix(path, "/300/status/shutdown") {
				return
			}
			if asked = true; comes {
				r.change(func(w *state.World) {
					g := w.Guests[300]
					w.Put(&state.Volume{Storage: storage, Node: g.Node, Name: "vm-300-disk-77", Content: "images", VMID: 300, Format: "raw", Size: 1 << 30})
					g.Config["scsi7"] = theirs + ",size=1G"
				})
			}
		}
		_, _, err := r.s.Delete(t.Context(), Request{Ref: ref, Disks: Disks{Known: []string{contested}, Slots: map[string]string{"scsi0": contested}}})
		if refused := err != nil && strings.Contains(err.Error(), theirs+" is in scsi7") && strings.Contains(err.Error(), "The guest is off"); refused != comes || !asked {
			t.Errorf("it comes: %v, after the request: %v: %v", comes, asked, err)
		}
		if is, _ := r.has(300, contested); is != comes {
			t.Errorf("it comes: %v; VM 300 is there: %v", comes, is)
		}
		r.change(func(w *state.World) {
			if kept := w.Volume("pve1", theirs) != nil; kept != comes {
				t.Errorf("it comes: %v; its volume is there: %v", comes, kept)
			}
		})
	}
}

// TestDestroyThatFailsNamesTheGuestThatIsOff: a destroy has asked its guest to shut down, and is interrupted, or refused
// for a disk that has come meanwhile. A warning has the command that starts the guest, unless HA does, or the guest has
// not obeyed and runs on. HA does not where a third party has taken the guest out meanwhile, where HA itself has stopped
// the guest, or where the entry could not be put back: then the error has the command for that.
func TestDestroyThatFailsNamesTheGuestThatIsOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		interrupted, deaf, underHA bool
		removed, denied, stuck     bool // the HA entry: by a third party; it may not be changed; it cannot be put back
		says                       string
	}{
		"refused, under HA":              {underHA: true},
		"refused, taken out of HA":       {underHA: true, removed: true, says: "Its guest is off: `qm start 300`"},
		"refused, stopped by HA":         {underHA: true, denied: true, says: "Its guest is off: `qm start 300`"},
		"refused, and HA is not told so": {underHA: true, stuck: true, says: "Its guest is off: `qm start 300`"},
		"interrupted":                    {interrupted: true, says: "Its guest still runs, and may go off: `qm start 300`"},
		"refused":                        {says: "Its guest is off: `qm start 300`"},
		"interrupted, under HA":          {interrupted: true, underHA: true},
		"does not obey":                  {deaf: true},
	} {
		r := newRig(t, asRoot)
		ref := r.vm(300)
		if r.running(); c.underHA {
			r.change(func(w *state.World) { w.HA["vm:300"] = &state.HAResource{SID: "vm:300", State: "started"} })
		}
		r.change(func(w *state.World) {
			if g := w.Guests[300]; c.interrupted || c.deaf {
				g.Ignores = []string{"shutdown"}
			}
		})
		deny := func(reason int) {
			r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/cluster/ha/resources/{sid}"},
				Phase: fault.Before, Times: -1, Status: reason}})
		}
		if c.denied {
			deny(403)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		r.answered = func(method, path string) {
			isAsked := method == http.MethodPost && strings.HasSuffix(path, "/status/shutdown")
			if isAsked && c.removed {
				r.change(func(w *state.World) { delete(w.HA, "vm:300") })
			}
			if isAsked && c.stuck {
				deny(501)
			}
			switch {
			case !isAsked || c.deaf:
			case c.interrupted:
				interrupt()
			default:
				r.change(func(w *state.World) { w.Guests[300].Config["scsi7"] = "local-zfs:vm-300-disk-77,size=1G" })
			}
		}
		_, warnings, err := r.s.Delete(ctx, Request{Ref: ref, GracefulOnly: !c.denied, ForceStop: c.denied,
			Disks: Disks{Known: []string{contested}, Slots: map[string]string{"scsi0": contested}}})
		interrupt()
		if command := "`ha-manager set vm:300 --state started`"; strings.Contains(fmt.Sprint(err), command) != c.stuck {
			t.Errorf("%s: %v", name, err)
		}
		said := fmt.Sprint(warnings)
		if err == nil || strings.Contains(said, "asked to shut down") != (c.says != "") || !strings.Contains(said, c.says) {
			t.Errorf("%s: %s: %v", name, said, err)
		}
	}
}
