package create

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// mortal is the clock of a run that is killed: once no request of it comes through it waits for nothing any more.
type mortal struct {
	pve.Clock
	sim   *pvesim.Sim
	after int // so many faults
}

func (m mortal) Sleep(ctx context.Context, d time.Duration) error {
	if m.sim.FaultsFired() > m.after {
		return context.Canceled
	}
	return m.Clock.Sleep(ctx, d)
}

// elsewhere names a process of another machine.
const elsewhere = "elsewhere 00000000-0000-0000-0000-000000000000 pid:[1] 1 1"

// kill has a run with that process end before its request n, as far as the server can tell, and reports whether it came
// that far.
func (b bench) kill(t *testing.T, process string, r Request, n int) bool {
	t.Helper()
	return b.killBy(t, process, r, n, nil)
}

// killBy is kill of a run that has root on the nodes.
func (b bench) killBy(t *testing.T, process string, r Request, n int, root request.Root) bool {
	t.Helper()
	b.guests.Process = process
	here := mortal{b.jobs.Clock, b.sim, 0}
	config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
		Clock: here}
	token(&config, b.sim.Credentials())
	doomed := creatorWith(t, config)
	doomed.guests.Process, doomed.jobs.Root = process, root
	var rules []fault.Rule
	for k := range 60 {
		rules = append(rules, fault.Rule{Match: fault.Match{Nth: n + k}, Phase: fault.Before})
	}
	b.sim.SetFaults(rules)
	_, err := doomed.Create(t.Context(), r)
	b.sim.SetFaults(nil)
	return err != nil
}

// killed is one way of a create.
type killed struct {
	name    string
	request func() Request
	fixed   bool
	named   bool
	process string
}

func (k killed) of() Request {
	r := k.request()
	r.Start = true
	if k.named {
		r.Spec.Name = to("web")
	}
	if k.fixed {
		r.VMID = 150
	}
	return r
}

// killedWays are those of a create, crossed with where its run was.
func killedWays(t *testing.T) (all []killed) {
	t.Helper()
	gone := deadProcess(t, newBench(t, token).Creator)
	clone := func() Request {
		r := ofTemplate()
		r.Spec.CPU.Cores = to(int64(4))
		r.Spec.Disks = map[string]vm.Disk{"scsi0": {Size: to(int64(8 << 30))}}
		return r
	}
	linked := func() Request { return Request{Node: "pve1", Clone: &guest.Clone{VMID: 9000}} }
	other := func() Request { r := clone(); r.Node = "pve2"; return r }
	requests := map[string]func() Request{"create": onZFS, "clone": clone, "linked clone": linked, "restore": aRestore,
		"clone and migrate": other}
	places := map[string]string{"here": gone, "elsewhere": elsewhere}
	for _, what := range slices.Sorted(maps.Keys(requests)) {
		request := requests[what]
		for _, where := range slices.Sorted(maps.Keys(places)) {
			process := places[where]
			for _, fixed := range []bool{false, true} {
				for _, named := range []bool{false, true} {
					all = append(all, killed{fmt.Sprintf("%s, %s, fixed %t, named %t", what, where, fixed, named), request, fixed,
						named, process})
				}
			}
		}
	}
	return all
}

// TestResumeACreate: a run is killed before each of its requests. The next create with its configuration, at once,
// continues its VM or begins, and waits first until the run would have shown that it lives. Nothing is left over or made
// twice, and a third party's objects are never touched.
func TestResumeACreate(t *testing.T) {
	kills, left, resumed, step := 0, 0, 0, 19
	if share.IsWhole() {
		step = 1
	}
	for i, k := range killedWays(t) {
		begin, step := 1+i%step, step
		if k.name == "create, here, fixed true, named true" { // always from its begin to its end
			begin, step = 1, 1
		}
		for n, died := begin, true; died; n += step {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				b.backedUp(nil)
				slow := time.Duration(n%2) * 12 * time.Second // the server may still be at work
				b.sim.SetTaskTime(slow)
				foreign := len(b.everything())
				if died = b.kill(t, k.process, k.of(), n); died {
					kills++
					left += min(1, len(b.vms()))
					if b.converges(t, fmt.Sprintf("%s, killed before request %d", k.name, n), k.of(), foreign, slow) {
						resumed++
					}
				}
			})
		}
	}
	t.Logf("%d kills, of which %d left a VM; %d were continued", kills, left, resumed)
	if left == 0 || resumed == 0 {
		t.Error("no kill has left a VM, or none was continued")
	}
}

// startUp is about what Terraform takes from its start to the first create of an apply. Meanwhile the task of a clone has
// the lock of its source, for which it waits a second, and has written its VM (qemu-server API2/Qemu.pm, clone_vm). The
// simulator lets a quarter of a task's time pass before that.
const startUp = 4 * time.Second

// everything is what there is in the cluster.
func (b bench) everything() (all []string) {
	b.change(func(w *state.World) {
		for id := range w.Guests {
			all = append(all, fmt.Sprint(id))
		}
		for _, v := range w.Volumes {
			all = append(all, v.Node+" "+v.Volid())
		}
	})
	return all
}

// converges has another run make the VM at once. resumed: it has continued that of the dead run. A task of the server
// takes slow, of which the create makes several, and a clone that another run makes in the same minute counts as one of
// the dead run.
func (b bench) converges(t *testing.T, what string, r Request, foreign int, slow time.Duration) (resumed bool) {
	t.Helper()
	died := b.jobs.Clock.Now()
	time.Sleep(startUp)
	created, err := creatorOf(t, b.sim, token).Create(t.Context(), r)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return false
	}
	for _, w := range created.Warnings {
		resumed = resumed || strings.Contains(w.Summary, "was begun by a run that did not end")
		if !resumed {
			t.Errorf("%s: %v", what, w)
		}
	}
	if took := b.jobs.Clock.Now().Sub(died); took > 150*time.Second+5*slow {
		t.Errorf("%s: it took %s of the server's time", what, took)
	}
	vms := b.vms()
	if config := vms[created.Guest.VMID]; len(vms) != 1 || strings.Contains(config["description"], "Terraform") {
		t.Errorf("%s: the cluster has %v", what, vms)
	}
	all := b.everything()
	if own := 1 + len(b.volumesOf(created.Guest.VMID)); len(all)-own != foreign {
		t.Errorf("%s: %d things of others became %d: %v", what, foreign, len(all)-own, all)
	}
	return resumed
}

// TestKillSparesTheLiving: a run on another machine waits six minutes for a lock, in which no task of it runs. Others
// that want its id meanwhile are told that it lives, and it ends well.
func TestKillSparesTheLiving(t *testing.T) { synctest.Test(t, killSparesTheLiving) }

func killSparesTheLiving(t *testing.T) {
	b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, ticket)
	b.guests.Process = elsewhere
	b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost,
		Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Before,
		Status: 500, Reason: "can't lock file '/var/lock/qemu-server/lock-150.conf' - got timeout", Times: 40}})
	r := onZFS()
	r.VMID, r.Start = 150, true
	done := make(chan error, 1)
	go func() {
		_, err := b.Create(t.Context(), r)
		done <- err
	}()
	next := creatorOf(t, b.sim, ticket)
	for refused := 0; ; {
		time.Sleep(20 * time.Second)
		_, err := next.Create(t.Context(), r)
		select {
		case failed := <-done:
			if failed != nil || refused < 2 {
				t.Errorf("%v, after %d others were refused", failed, refused)
			}
			return
		default:
		}
		if err == nil || !strings.Contains(err.Error(), "being created by another run") {
			t.Fatalf("another run got the VM of a run that lives, or is told something else: %v", err)
		}
		refused++
	}
}

// TestSlowCopyRenewsItsMark: a copy takes longer than half a lease, and nothing is to be set on it: the run shows that it
// lives, and binds its mark to the VM.
func TestSlowCopyRenewsItsMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
		b.sim.SetTaskTime(4 * time.Minute)
		var marks []string
		r := Request{Node: "pve1", VMID: 150, Clone: &guest.Clone{VMID: 9000}}
		seen := func(context.Context, string, map[string]string) {
			b.change(func(w *state.World) {
				if g := w.Guests[150]; g != nil && !slices.Contains(marks, g.Config["description"]) {
					marks = append(marks, g.Config["description"])
				}
			})
		}
		config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
			Clock: b.jobs.Clock, Trace: seen}
		token(&config, b.sim.Credentials())
		if _, err := creatorWith(t, config).Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		renewed := slices.ContainsFunc(marks, func(text string) bool {
			mark, ok := ownership.Parse(text)
			return ok && mark.Renewed > 0 && mark.UUID != "" && mark.Task != ""
		})
		if !renewed {
			t.Errorf("no mark was renewed: %q", marks)
		}
	})
}

// TestKillManyClones: of several clones that were killed while the server made them, each is taken back by the
// next create of its name, also those whose task ends while another one is taken back.
func TestKillManyClones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
		b.sim.SetTaskTime(12 * time.Second)
		gone := deadProcess(t, b.Creator)
		names := []string{"web-0", "web-1", "web-2"}
		wanted := func(name string) Request {
			r := named(ofTemplate(), name)
			r.Spec.CPU.Cores = to(int64(4))
			return r
		}
		for i, name := range names {
			for n := 1; len(b.vms()) == i; n++ {
				b.kill(t, gone, wanted(name), n)
			}
		}
		next := creatorOf(t, b.sim, token)
		var all sync.WaitGroup
		for _, name := range names {
			all.Go(func() {
				if _, err := next.Create(t.Context(), wanted(name)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if vms := b.vms(); len(vms) != len(names) {
			t.Errorf("the cluster has %d VMs: %v", len(vms), vms)
		}
	})
}

// TestResumeACreateTwice: the run that continues a dead run's VM is killed, too. The mark that it has left names the task
// that made the VM, or none: never one of its own.
func TestResumeACreateTwice(t *testing.T) {
	ways := killedWays(t)
	step, kills, resumed := 11, 0, 0
	if share.IsWhole() {
		step = 1
	}
	for i, k := range ways {
		if step > 1 && k.name != "clone and migrate, here, fixed true, named true" {
			continue
		}
		for first, died := 1+i%step, true; died; first += step {
			for second, again := 1, true; died && again; second += step {
				synctest.Test(t, func(t *testing.T) {
					b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
					b.backedUp(nil)
					foreign := len(b.everything())
					if died = b.kill(t, k.process, k.of(), first); !died {
						return
					}
					time.Sleep(startUp)
					if again = b.kill(t, k.process, k.of(), second); !again {
						return
					}
					kills++
					if b.converges(t, fmt.Sprintf("%s, killed before requests %d and %d", k.name, first, second), k.of(), foreign, 0) {
						resumed++
					}
				})
			}
		}
	}
	t.Logf("%d pairs of kills; the VM of %d was continued", kills, resumed)
	if resumed == 0 {
		t.Error("none was continued")
	}
}
