package create

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// afterCommit is which requests were made after the last change of a configuration.
func (b bench) afterCommit() (after []string) {
	for _, op := range b.sim.Ops() {
		if after = append(after, op.Method+" "+op.Path); op.Method == http.MethodPut &&
			strings.HasSuffix(op.Path, "/config") {
			after = nil
		}
	}
	return after
}

// TestCommittedIsWhatARead: what a create says of its VM without looking after the commit is what a look would show.
func TestCommittedIsWhatARead(t *testing.T) {
	yes, no, words, nothing := true, false, "a web server\n\nsecond line \n", ""
	for name, change := range map[string]func(r *Request){
		"as it comes":            func(*Request) {},
		"off":                    func(r *Request) { r.Start = false },
		"template":               func(r *Request) { r.Spec.Template = &yes },
		"protected":              func(r *Request) { r.Spec.Protection = &yes },
		"not protected":          func(r *Request) { r.Spec.Protection = &no },
		"described":              func(r *Request) { r.Spec.Description = &words },
		"described with nothing": func(r *Request) { r.Spec.Description = &nothing },
	} {
		for from, r := range map[string]Request{"scratch": onZFS(), "template": ofTemplate()} {
			b := newBench(t, token)
			r.Start = true
			change(&r)
			created, err := b.Create(t.Context(), r)
			if err != nil {
				t.Errorf("%s from %s: %v", name, from, err)
				continue
			}
			if after := b.afterCommit(); len(after) > 0 {
				t.Errorf("%s from %s: after the commit came %v", name, from, after)
			}
			read, err := b.guests.ReadBack(t.Context(), "pve1", created.Guest.VMID)
			read.Source = created.Guest.Source
			if diff := cmp.Diff(read, created.Guest); diff != "" || err != nil {
				t.Errorf("%s from %s: -read +said: %s, %v", name, from, diff, err)
			}
		}
	}
}

// TestCommitSeesWhatOthersChange: the commit changes the very configuration that was read. Whatever came between is
// read, too.
func TestCommitSeesWhatOthersChange(t *testing.T) {
	commit := fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}
	for act, complete := range map[thirdparty.Act]bool{thirdparty.Rename: true, thirdparty.Lock: true,
		thirdparty.Describe: false, thirdparty.Delete: false} {
		b := newBench(t, token)
		b.sim.SetThirdParties([]thirdparty.Order{{Act: act, Name: "renamed", Before: commit, ForMS: 5000}})
		r := named(onZFS(), "web")
		r.Start = true
		created, err := b.Create(t.Context(), r)
		if reports := b.sim.Reports(); len(reports) == 0 || !reports[0].Done {
			t.Fatalf("%s was not done", act)
		}
		if !complete {
			if err == nil || act == thirdparty.Delete && created.Guest.VMID != 0 {
				t.Errorf("%s: %+v, %v", act, created, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", act, err)
			continue
		}
		read, err := b.guests.ReadBack(t.Context(), "pve1", created.Guest.VMID)
		if diff := cmp.Diff(read, created.Guest); diff != "" || err != nil {
			t.Errorf("%s: -read +said: %s, %v", act, diff, err)
		}
	}
}

// TestCommitWhoseAnswerIsLost: what PVE changed is not known, so it is looked at.
func TestCommitWhoseAnswerIsLost(t *testing.T) {
	b := newBench(t, token)
	b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, VMID: 100}, Phase: fault.After}})
	created, err := b.Create(t.Context(), onZFS())
	if err != nil || created.Guest.VMID != 100 {
		t.Fatalf("%+v, %v", created, err)
	}
	if after := b.afterCommit(); len(after) != 2 {
		t.Errorf("after the commit came %v", after)
	}
}

// TestHAKeepsThePowerToItself: under HA a guest is started and stopped by others, so its power is looked at.
func TestHAKeepsThePowerToItself(t *testing.T) {
	b, stopped := newBench(t, ticket), "stopped"
	r := onZFS()
	r.Start, r.HA = true, &guest.HA{State: &stopped}
	created, err := b.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	status, err := b.api.QEMU("pve1", created.Guest.VMID).Status(t.Context())
	if err != nil || status.Status != created.Guest.Status {
		t.Errorf("the guest is %s, and said to be %s: %v", status.Status, created.Guest.Status, err)
	}
	if after := strings.Join(b.afterCommit(), " "); !strings.Contains(after, "/status/current") {
		t.Errorf("after the commit came %s", after)
	}
}

// TestWaitThatCannotRead: what was to be waited for is not known, and the VM is complete and not tainted.
func TestWaitThatCannotRead(t *testing.T) {
	b := newBench(t, ticket)
	entry := fault.Match{Method: http.MethodGet, Path: "/cluster/ha/resources/{sid}"}
	b.sim.SetFaults([]fault.Rule{{Match: entry, Phase: fault.Before, Status: 403, Reason: "not now", Times: 2}}) // before the entry is made, and before the wait
	r := onZFS()
	r.HA, r.Start, r.Wait = &guest.HA{State: to("started")}, true, &guest.Wait{Agent: true}
	created, err := b.Create(t.Context(), r)
	if err != nil || created.Guest.VMID != 100 {
		t.Fatalf("%+v, %v", created, err)
	}
	if config := b.vms()[100]; ownership.IsMark(config["description"]) {
		t.Errorf("it was not committed: %v", config)
	}
	if w := created.Warnings; len(w) != 1 || !strings.Contains(w[0].Summary, "was not waited for") || !strings.Contains(w[0].Detail, "not now") {
		t.Errorf("%+v", w)
	}
}

// TestCheckSaysWhoHasTheVM: only the mark of another run says that another run has taken a VM over.
func TestCheckSaysWhoHasTheVM(t *testing.T) {
	own := ownership.Mark{Cluster: "pve1", VMID: 100, Saga: "0123456789abcdef", Key: guest.NoKey, User: "root@pam", By: "qmcreate",
		UUID: "11111111-2222-3333-4444-555555555555"}.Sign([]byte("key"))
	other := own
	other.Saga = "fedcba9876543210"
	b := benchOf(t, pvesim.Options{}, token)
	a := &attempt{creator: b.Creator, plan: plan{vmid: 100, node: "pve1"}, mark: own, view: &guest.View{}}
	for name, c := range map[string]struct{ description, says string }{
		"another run's mark":           {other.Sign([]byte("key")).String(), "another run (transaction fedcba9876543210) has taken VM 100"},
		"its own mark, another's uuid": {own.String(), "no longer has this create's mark"},
		"no mark":                      {"golden image", "no longer has this create's mark"},
	} {
		config := map[string]string{"description": c.description, "smbios1": "uuid=99999999-2222-3333-4444-555555555555"}
		if err := a.Check("pve1", config, false); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBlankDescriptionLeavesNoMark: PVE keeps the old description where the new one is nothing but line breaks, and
// clears it where that is blanks or "0" (qemu-server QemuServer.pm, write_vm_config). Whatever is configured, no VM that
// a create has committed bears a mark, and so no later create takes it for one to continue.
func TestBlankDescriptionLeavesNoMark(t *testing.T) {
	for _, text := range []string{"", "\n", "\n\n\n", " ", " \n ", "\t\n", "0", "\r\n"} {
		for from, r := range map[string]Request{"scratch": onZFS(), "template": ofTemplate()} {
			b := newBench(t, token)
			r.Spec.Description, r.VMID = &text, 150
			if _, err := b.Create(t.Context(), r); err != nil {
				t.Errorf("%q from %s: %v", text, from, err)
				continue
			}
			was := b.vms()[150]
			if ownership.IsMark(was["description"]) {
				t.Errorf("%q from %s: the VM bears %q", text, from, was["description"])
			}
			_, err := creatorOf(t, b.sim, token).Create(t.Context(), r)
			if now := b.vms()[150]; err == nil || !maps.Equal(was, now) {
				t.Errorf("%q from %s: the next create says %v, and the VM is %v", text, from, err, now)
			}
		}
	}
}

// TestUndoAfterAWaitSeesWhoStoppedTheGuest: a create waits for its guest for long, looks at the VM all the while, and PVE
// refuses the commit. Meanwhile another user has shut the guest down, and may work on its disks: the VM stays. Without that it goes.
func TestUndoAfterAWaitSeesWhoStoppedTheGuest(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			user := creatorOf(t, b.sim, ticket)
			created, err := b.await(t, awaitedOnNFS(20*time.Minute+5*time.Second), func(func()) {
				if stopped {
					upid, err := user.api.QEMU("pve1", 150).HardStop(t.Context(), pve.Params{})
					if err != nil {
						t.Fatal(err)
					}
					_, _ = user.api.Tasks().Wait(t.Context(), upid)
				}
				b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"},
					Phase: fault.Before, Status: 400, Reason: "no", Times: -1}})
			})
			there := b.vms()[150] != nil
			if named := strings.Contains(fmt.Sprint(created.Warnings), "has begun qmstop on it since"); err == nil || there != stopped || named != stopped {
				t.Errorf("stopped %t: there %t: %v; %v", stopped, there, err, created.Warnings)
			}
		})
	}
}

// TestUndoLeavesAGuestThatOthersStartedAndStopped: another user starts the guest right before the create does, which PVE tells it, and has
// shut it down when PVE refuses the commit: that user may work on its disks. The VM stays.
func TestUndoLeavesAGuestThatOthersStartedAndStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
		user, did := creatorOf(t, b.sim, ticket), false
		act := func(send func(context.Context, pve.Params) (pve.UPID, error)) bool {
			ctx := context.WithoutCancel(t.Context())
			upid, err := send(ctx, pve.Params{})
			if err == nil {
				_, err = user.api.Tasks().Wait(ctx, upid)
			}
			return err == nil
		}
		config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
			Clock: b.jobs.Clock, Trace: func(_ context.Context, message string, fields map[string]string) {
				if message == "PVE request" && !did && strings.HasSuffix(fields["path"], "/qemu/150/pending") {
					did = act(user.api.QEMU("pve1", 150).Start)
				}
			}}
		token(&config, b.sim.Credentials())
		run := bench{Creator: creatorWith(t, config), sim: b.sim}
		created, err := run.await(t, awaitedOnNFS(20*time.Minute+5*time.Second), func(func()) {
			did = did && act(user.api.QEMU("pve1", 150).HardStop)
			b.sim.SetFaults([]fault.Rule{commitRefused})
		})
		if there := b.vms()[150] != nil; !did || err == nil || !there || !strings.Contains(fmt.Sprint(created.Warnings), "has begun qmst") {
			t.Errorf("others came: %t; there %t: %v; %v", did, there, err, created.Warnings)
		}
	})
}
