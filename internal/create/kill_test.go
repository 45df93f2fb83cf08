package create

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// mortal is the clock of a run that is killed: once no request of it comes through it waits for nothing any more.
type mortal struct {
	pve.Clock
	sim *pvesim.Sim
}

func (m mortal) Sleep(ctx context.Context, d time.Duration) error {
	if m.sim.FaultsFired() > 0 {
		return context.Canceled
	}
	return m.Clock.Sleep(ctx, d)
}

// elsewhere names a process of another machine.
const elsewhere = "elsewhere 00000000-0000-0000-0000-000000000000 pid:[1] 1 1"

// kill has a run with that process end before its request n, as far as the server can tell, and reports whether it came that far.
func (b bench) kill(t *testing.T, process string, r Request, n int) bool {
	t.Helper()
	b.guests.Process = process
	here := mortal{b.jobs.Clock, b.sim}
	config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialContext: b.sim.DialContext, Clock: here}
	token(&config, b.sim.Credentials())
	doomed := creatorWith(t, config)
	doomed.guests.Process = process
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
	for what, request := range map[string]func() Request{"create": onZFS, "clone": clone, "linked clone": linked, "restore": aRestore, "clone and migrate": other} {
		for where, process := range map[string]string{"here": gone, "elsewhere": elsewhere} {
			for _, fixed := range []bool{false, true} {
				for _, named := range []bool{false, true} {
					all = append(all, killed{fmt.Sprintf("%s, %s, fixed %t, named %t", what, where, fixed, named), request, fixed, named, process})
				}
			}
		}
	}
	return all
}

// TestKillACreate: a run is killed before each of its requests. The next create of the same id, at once, takes back what it left, or waits
// until it would have shown that it lives; that of a name does so after two minutes, from another machine. What is nobody's is never touched.
func TestKillACreate(t *testing.T) {
	kills, step := 0, 13
	if os.Getenv("CANCEL_ALL") != "" {
		step = 1
	}
	for i, k := range killedWays(t) {
		if !k.fixed && !k.named {
			continue
		}
		for n := 1 + i%step; ; n += step {
			b := newBench(t, ticket)
			b.backedUp(nil)
			strangers := len(b.everything())
			died := b.kill(t, k.process, k.of(), n)
			if !died {
				b.sim.Close()
				break
			}
			kills++
			b.converges(t, fmt.Sprintf("%s, killed before request %d", k.name, n), k, strangers)
			b.sim.Close()
		}
	}
	t.Logf("%d kills", kills)
	if kills == 0 {
		t.Error("nobody was killed")
	}
}

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

// converges has another run make the VM: at once where it takes the same id, else after the lease.
func (b bench) converges(t *testing.T, what string, k killed, strangers int) {
	t.Helper()
	began := b.jobs.Clock.Now()
	if !k.fixed && k.process == elsewhere {
		b.sim.Advance(guest.Lease + 10*time.Second)
	}
	next := creatorOf(t, b.sim, ticket)
	created, err := next.Create(t.Context(), k.of())
	if err != nil || len(created.Warnings) > 0 {
		t.Errorf("%s: %v, %v", what, err, created.Warnings)
		return
	}
	if took := b.jobs.Clock.Now().Sub(began); took > 150*time.Second {
		t.Errorf("%s: it took %s of the server's time", what, took)
	}
	vms := b.vms()
	if config := vms[created.Guest.VMID]; len(vms) != 1 || strings.Contains(config["description"], "Terraform") {
		t.Errorf("%s: the cluster has %v", what, vms)
	}
	gone := b.everything()
	own := 1 + len(b.volumesOf(created.Guest.VMID))
	if len(gone)-own != strangers {
		t.Errorf("%s: %d things of others became %d: %v", what, strangers, len(gone)-own, gone)
	}
}

// TestKillSparesTheLiving: a run on another machine waits six minutes for a lock, in which no task of it runs. Others that want its id
// meanwhile are told that it lives, and it ends well.
func TestKillSparesTheLiving(t *testing.T) { synctest.Test(t, killSparesTheLiving) }

func killSparesTheLiving(t *testing.T) {
	b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, ticket)
	b.guests.Process = elsewhere
	b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Before,
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
		_, err := next.Create(t.Context(), Request{Node: "pve1", VMID: 150})
		select {
		case failed := <-done:
			if failed != nil || refused < 2 {
				t.Errorf("%v, after %d others were refused", failed, refused)
			}
			return
		default:
		}
		if err == nil || !strings.Contains(err.Error(), "being created by another run") {
			t.Fatalf("somebody else got the VM of a run that lives, or is told something else: %v", err)
		}
		refused++
	}
}
