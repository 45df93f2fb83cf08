package create

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestDeleteSparesWhatAnotherRunCompleted: a create fails and cannot take its VM back, so state has it, tainted. A run of
// another state, or of this one with create_before_destroy, completes that very VM. A later run that destroys the
// tainted object leaves the VM alone, and without such a run takes it away.
func TestDeleteSparesWhatAnotherRunCompleted(t *testing.T) {
	for how, request := range map[string]func() Request{"create": onZFS, "clone": ofTemplate} {
		for _, completed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				b.change(func(w *state.World) { delete(w.Guests[9000].Config, "protection") })
				b.guests.Process = deadProcess(t, b.Creator)
				r := request()
				r.VMID, r.Start = 150, true
				b.sim.SetFaults([]fault.Rule{
					{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Before,
						Status: 500, Reason: "no such bridge"},
					{Match: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}, Phase: fault.Before,
						Status: 500, Reason: "not now", Times: 60}})
				failed, err := b.Create(t.Context(), r)
				b.sim.SetFaults(nil)
				if err == nil || failed.Proof == nil || failed.Proof.Identity.IsZero() {
					t.Fatalf("%s: %+v, %v", how, failed, err)
				}
				if completed {
					if made, err := creatorOf(t, b.sim, token).Create(t.Context(), r); err != nil || made.Guest.VMID != 150 {
						t.Fatalf("%s: another run has not completed it: %v", how, err)
					}
				}
				was := b.everythingOf(150)
				left, warnings, err := creatorOf(t, b.sim, token).destroyer.Delete(t.Context(), destroy.Request{
					Ref: guest.Ref{VMID: 150, Node: "pve1", Proof: failed.Proof}, Left: failed.Left})
				now := b.everythingOf(150)
				if err != nil || len(left) > 0 || completed && (now != was || len(warnings) == 0) || !completed && now != "" {
					t.Errorf("%s, completed by another run %t: the VM was\n%s\nand is\n%s\n%v, left %v, warnings %s", how, completed,
						was, now, err, left, fmt.Sprint(warnings))
				}
			})
		}
	}
}

// TestLostCommitProvesNothing: the answer to a commit is lost, and from then on the server. Whether the commit arrived is
// not known: if it did not, another run continues the VM. A later destroy takes away a VM that still bears the mark, or
// that the create itself has seen without it. Any other it leaves alone and names.
func TestLostCommitProvesNothing(t *testing.T) {
	const config = "/nodes/{node}/qemu/{vmid}/config"
	dead := []fault.Rule{{Phase: fault.Before, Status: 596, Times: -1}}
	refuses := []fault.Rule{
		{Match: fault.Match{Method: http.MethodPut, Path: config}, Phase: fault.Before, Status: 500, Reason: "no", Times: -1},
		{Match: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}, Phase: fault.Before, Status: 500,
			Reason: "not now", Times: -1}}
	for name, c := range map[string]struct {
		commit    fault.Phase
		then      []fault.Rule
		completed bool // by another run
		goes      bool
	}{
		"never arrived":                         {fault.Before, dead, false, true},
		"never arrived, another run came":       {fault.Before, dead, true, false},
		"carried out, never seen":               {fault.After, dead, false, false},
		"carried out, seen before anybody came": {fault.After, refuses, false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			r := onZFS()
			r.VMID, r.Start = 150, true
			settings := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(),
				DialTLSContext: b.sim.DialTLSContext, Clock: b.jobs.Clock}
			token(&settings, b.sim.Credentials())
			settings.Trace = func(_ context.Context, _ string, fields map[string]string) {
				if fields["method"] == http.MethodPut {
					b.sim.SetFaults(c.then)
				}
			}
			first := creatorWith(t, settings)
			first.guests.Process = deadProcess(t, first)
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: config}, Phase: c.commit, Status: 596}})
			failed, err := first.Create(t.Context(), r)
			b.sim.SetFaults(nil)
			if err == nil || failed.Proof == nil || !failed.Proof.Committed {
				t.Fatalf("%s: %+v, %v", name, failed, err)
			}
			if c.completed {
				if made, err := creatorOf(t, b.sim, token).Create(t.Context(), r); err != nil || made.Guest.VMID != 150 {
					t.Fatalf("%s: another run has not completed it: %v", name, err)
				}
			}
			was := b.everythingOf(150)
			ref := guest.Ref{VMID: 150, Node: "pve1", Proof: failed.Proof}
			later := creatorOf(t, b.sim, token)
			_, seen, readErr := later.guests.Read(t.Context(), ref)
			left, _, err := later.destroyer.Delete(t.Context(), destroy.Request{Ref: ref, Left: failed.Left})
			now := b.everythingOf(150)
			if readErr != nil || seen != guest.Found || (now == "") != c.goes || !c.goes && now != was || (err == nil) != c.goes ||
				(len(left) == 0) != c.goes {
				t.Errorf("%s: a refresh says %v (%v); the VM was\n%s\nand is\n%s\n%v, left %+v", name, seen, readErr, was, now, err, left)
			}
		})
	}
}

// TestRunningVMOfADeadRunOnAnotherNode: a run dies after it has started its guest, and an administrator moves the VM to another node.
// The next create goes on with it, and takes it back to its node while it runs.
func TestRunningVMOfADeadRunOnAnotherNode(t *testing.T) {
	moved := 0
	for n, died := 1, true; died; n++ {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			r := startedVM()
			if died = b.kill(t, deadProcess(t, b.Creator), r, n); !died {
				return
			}
			runs := false
			b.change(func(w *state.World) {
				g := w.Guests[150]
				if runs = g != nil && g.Running != nil; !runs {
					return
				}
				g.Node = "pve2"
				for key, v := range maps.Clone(w.Volumes) {
					if v.VMID == 150 {
						delete(w.Volumes, key)
						v.Node = "pve2"
						w.Put(v)
					}
				}
			})
			if !runs {
				return
			}
			moved++
			time.Sleep(startUp)
			created, err := creatorOf(t, b.sim, token).Create(t.Context(), r)
			if err != nil || created.Guest.Node != "pve1" || created.Guest.Status != "running" {
				t.Errorf("killed before request %d: %v, on %s, %s", n, err, created.Guest.Node, created.Guest.Status)
			}
		})
	}
	if moved == 0 {
		t.Error("no kill has left a guest that runs")
	}
}

// TestHalfATemplateIsFinished: a run is killed while the conversion of its VM fails at its second disk. The create that
// goes on with it converts the rest, or fails. It does not commit half a template.
func TestHalfATemplateIsFinished(t *testing.T) {
	request := func() Request {
		r := onZFS()
		r.VMID, r.Spec.Name, r.Spec.Template = 150, to("web"), to(true)
		r.Spec.Disks = map[string]vm.Disk{"scsi0": r.Spec.Disks["scsi0"], "scsi1": r.Spec.Disks["scsi0"]}
		return r
	}
	for _, phase := range []fault.Phase{fault.Task, fault.KillTask} {
		halves := 0
		for n, died := 1, true; died && n < 60; n++ {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				died = b.killConverting(t, request(), n, phase)
				if len(guest.Unconverted(150, b.vms()[150])) == 0 {
					return
				}
				halves++
				_, err := b.Create(t.Context(), request())
				now := b.vms()[150]
				if left := guest.Unconverted(150, now); err == nil && len(left) > 0 {
					t.Errorf("%s, killed at %d: the create ends well, and the VM is %v", phase, n, now)
				}
			})
		}
		if halves == 0 {
			t.Errorf("%s: no half a template was left", phase)
		}
	}
}

func (b bench) killConverting(t *testing.T, r Request, n int, phase fault.Phase) (died bool) {
	t.Helper()
	process := deadProcess(t, b.Creator)
	config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
		Clock: mortal{b.jobs.Clock, b.sim, 1}}
	token(&config, b.sim.Credentials())
	b.guests.Process = process
	doomed := creatorWith(t, config)
	doomed.guests.Process = process
	rules := []fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/template"},
		Phase: phase}}
	for k := range 60 {
		rules = append(rules, fault.Rule{Match: fault.Match{Nth: n + k}, Phase: fault.Before})
	}
	b.sim.SetFaults(rules)
	_, err := doomed.Create(t.Context(), r)
	b.sim.SetFaults(nil)
	return err != nil
}
