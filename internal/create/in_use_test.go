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

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// interrupted is another run of a create, with Ctrl-C after its request m.
func interrupted(m int) func(*testing.T, bench, Request) (Created, error) {
	return func(t *testing.T, b bench, r Request) (Created, error) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := -1000
		config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
			Clock: b.jobs.Clock, Trace: func(_ context.Context, message string, _ map[string]string) {
				if message != "PVE request" {
					return
				}
				if seen++; seen == m {
					cancel()
				}
			}}
		token(&config, b.sim.Credentials())
		next := creatorWith(t, config)
		seen = 0
		return next.Create(ctx, r)
	}
}

// refused is another run of a create, whose writes of options PVE refuses from the nth on: the first takes the VM over.
func refused(nth int) func(*testing.T, bench, Request) (Created, error) {
	return func(t *testing.T, b bench, r Request) (Created, error) {
		t.Helper()
		next := creatorOf(t, b.sim, token)
		b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config", Nth: nth},
			Phase: fault.Before, Status: 500, Reason: "no space", Times: -1}})
		return next.Create(t.Context(), r)
	}
}

// afterHours kills a run before its request n, lets ten hours pass, and has another run go on.
type afterHours struct {
	died    bool
	was, is *state.Guest // VM 150 before the other run and after it
	created Created
	err     error
}

func goOn(t *testing.T, request func() Request, n int, next func(*testing.T, bench, Request) (Created, error)) (h afterHours) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
		look := func() (g *state.Guest) {
			b.change(func(w *state.World) {
				if at := w.Guests[150]; at != nil {
					copied := *at
					copied.Config = maps.Clone(at.Config)
					g = &copied
				}
			})
			return g
		}
		b.change(func(w *state.World) { delete(w.Guests[9000].Config, "protection") })
		if h.died = b.kill(t, deadProcess(t, b.Creator), request(), n); !h.died {
			return
		}
		time.Sleep(10 * time.Hour)
		h.was = look()
		h.created, h.err = next(t, b, request())
		h.is = look()
	})
	return h
}

// TestResumedVMThatIsInUseStays: a run is killed, and the next apply goes on with its VM ten hours later. It is
// interrupted after one of its requests, or PVE refuses its commit. A VM that was complete by then, or whose guest was
// started, may be in use: it stays, in state, and its guest runs on. Any other one is taken back whole.
func TestResumedVMThatIsInUseStays(t *testing.T) {
	started := func(g *state.Guest) bool { return g.Running != nil }
	off := func() Request { r := startedVM(); r.Start = false; return r }
	for name, c := range map[string]struct {
		request func() Request
		inUse   func(*state.Guest) bool
	}{
		"started":  {startedVM, started},
		"off":      {off, func(*state.Guest) bool { return true }},
		"template": {func() Request { r := off(); r.Spec.Template = to(true); return r }, func(g *state.Guest) bool { return g.Config["template"] == "1" }},
		"clone":    {func() Request { r := ofTemplate(); r.VMID, r.Start, r.Spec.Name = 150, true, to("web"); return r }, started},
	} {
		kept, gone, last := 0, 0, map[bool]int{}
		check := func(n int, h afterHours) {
			stays := h.created.Guest.VMID == 150 && h.created.Proof != nil && h.created.Stays != ""
			switch untouched := h.is != nil && h.was != nil && h.is.Running == h.was.Running && h.created.Guest.VMID == 0; {
			case untouched && saga.RolledBack(h.err):
				t.Errorf("%s, killed before %d: it says that all was removed, and the VM is there: %v", name, n, h.err)
			case h.err == nil, h.was == nil, untouched: // left to the next apply
			case c.inUse(h.was) && h.is != nil && h.is.Running == h.was.Running && stays:
				kept++
			case !c.inUse(h.was) && h.is == nil && h.created.Guest.VMID == 0:
				gone++
			default:
				t.Errorf("%s, killed before %d: it was %v, and is %v: %+v, %v", name, n, h.was, h.is, h.created, h.err)
			}
		}
		for n, died := 1, true; died; n++ {
			h := goOn(t, c.request, n, refused(2))
			if died = h.died; h.was != nil {
				last[c.inUse(h.was)] = n
			}
			check(n, h)
		}
		for _, n := range last {
			if name == "off" || name == "template" {
				break // as with started
			}
			for m, failed := 1, true; failed; m++ {
				h := goOn(t, c.request, n, interrupted(m))
				failed = h.err != nil
				check(n, h)
			}
		}
		t.Logf("%s: %d stayed, %d were taken back", name, kept, gone)
		if kept == 0 || gone == 0 && name != "off" {
			t.Errorf("%s: only %d stayed, and %d were taken back", name, kept, gone)
		}
	}
}

// TestStartedAfterABegunRollBackStays: a guest does not start, the destroy of its roll-back fails early, and the provider
// is killed. The user starts the VM by an action of this provider, which PVE shows as it shows the create's own start,
// and works in it. The next apply would make it again: it says why it does not.
func TestStartedAfterABegunRollBackStays(t *testing.T) {
	t.Parallel()
	clone := ofTemplate()
	clone.VMID, clone.Start, clone.Spec.Name = 150, true, to("web")
	for name, r := range map[string]Request{"scratch": startedVM(), "clone": clone} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			doomed := creatorOf(t, b.sim, token)
			doomed.guests.Process = deadProcess(t, b.Creator)
			start := fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}
			destroy := fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}
			b.sim.SetFaults([]fault.Rule{{Match: start, Phase: fault.Before, Status: 500, Reason: "no", Times: -1},
				{Match: destroy, Phase: fault.Before, Status: 500, Times: -1}})
			_, _ = doomed.Create(t.Context(), r)
			b.sim.SetFaults(nil)
			b.change(func(w *state.World) { // qemu-server AbstractConfig.pm lock_config_full
				now, me := w.Clock.Now(), b.api.Identity().User
				upid := fmt.Sprintf("UPID:pve1:00001111:00002222:%08X:qmdestroy:150:%s:", now.Unix(), me)
				w.Tasks[upid] = &state.Task{UPID: upid, Node: "pve1", Type: "qmdestroy", ID: "150", User: me, Start: now, End: now,
					ExitStatus: "can't lock file '/var/lock/qemu-server/lock-150.conf' - got timeout"}
			})
			time.Sleep(startUp)
			upid, err := b.api.QEMU("pve1", 150).Start(t.Context(), pve.Params{})
			if err == nil {
				_, err = b.api.Tasks().Wait(t.Context(), upid)
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			was := b.everythingOf(150)
			_, err = creatorOf(t, b.sim, token).Create(t.Context(), r)
			if now := b.everythingOf(150); now != was || err == nil || !strings.Contains(err.Error(), "has started it since") {
				t.Errorf("%s: VM 150 was\n%s\nand is\n%s\n%v", name, was, now, err)
			}
		})
	}
}

// TestDiskThatWaitsStays: a create could not start its VM, nor remove it. A user has given it a disk that waits for the next start, and
// the guest is off. The destroy of the tainted VM, which would take that disk along, is refused.
func TestDiskThatWaitsStays(t *testing.T) {
	t.Parallel()
	const known, theirs = "local-zfs:vm-150-disk-0", "local-zfs:vm-150-disk-77"
	for _, slot := range []string{"sata1", "scsi0"} {
		b := newBench(t, ticket)
		b.sim.SetFaults([]fault.Rule{
			{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Task, Times: -1},
			{Match: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}, Phase: fault.Before, Times: -1}})
		failed, err := b.Create(t.Context(), startedVM())
		b.sim.SetFaults(nil)
		if err == nil || failed.Proof == nil {
			t.Fatalf("%+v: %v", failed, err)
		}
		b.theirs("pve1", "vm-150-disk-77", 5<<30)
		b.change(func(w *state.World) { w.Guests[150].Pending = map[string]string{slot: theirs + ",size=5G"} })
		r := destroy.Request{Ref: guest.Ref{VMID: 150, Node: "pve1", Proof: failed.Proof}, Left: failed.Left,
			Disks: destroy.Disks{Known: []string{known}, Slots: map[string]string{"scsi0": known}, Sizes: map[string]int64{known: 1 << 30}}}
		rest, _, err := creatorOf(t, b.sim, ticket).destroyer.Delete(t.Context(), r)
		if err == nil || !strings.Contains(err.Error(), theirs) || !b.hasTheirs() || b.vms()[150] == nil {
			t.Errorf("%s: theirs is there %t, left %v: %v", slot, b.hasTheirs(), rest, err)
		}
		b.change(func(w *state.World) { w.Guests[150].Pending = nil })
		if rest, _, err = creatorOf(t, b.sim, ticket).destroyer.Delete(t.Context(), r); err != nil || b.vms()[150] != nil {
			t.Errorf("%s, without it: left %v: %v", slot, rest, err)
		}
	}
}

// startRefused has PVE refuse each start.
var startRefused = fault.Rule{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"},
	Phase: fault.Before, Status: 500, Reason: "no", Times: -1}

// withoutAudit takes Sys.Audit from the identity.
func (b bench) withoutAudit() {
	b.change(func(w *state.World) {
		for id, privs := range w.Roles {
			if strings.HasPrefix(id, "Terraform") {
				w.Roles[id] = slices.DeleteFunc(slices.Clone(privs), func(p string) bool { return p == "Sys.Audit" })
			}
		}
	})
}

// TestSlowCreateIsTakenBack: each task of a create takes three minutes, in which the run does not look at its VM. PVE
// refuses the start. The VM is taken back, also where the identity may not read the nodes' times and has destroyed a VM
// with that id on the other node before, and where a node does not tell its time for a while.
func TestSlowCreateIsTakenBack(t *testing.T) {
	t.Parallel()
	imported := onZFS()
	image := "local:import/debian-12.qcow2"
	imported.Spec.Disks["scsi0"] = vm.Disk{Storage: "local-zfs", ImportFrom: &image}
	for way, request := range map[string]Request{"scratch": onZFS(), "clone": ofTemplate(), "restore": aRestore(), "import": imported,
		"clone to another node": {Node: "pve2", Clone: ofTemplate().Clone}} {
		for times := range 8 {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				b.backedUp(nil)
				b.change(func(w *state.World) { delete(w.Guests[9000].Config, "protection") })
				r := request
				r.VMID, r.Start = 150, true
				b.change(func(w *state.World) {
					for n, node := range []string{"pve1", "pve2"} {
						began, me := w.Clock.Now().Add(-time.Duration(n+1)*time.Hour), b.api.Identity().User
						upid := fmt.Sprintf("UPID:%s:00001111:00002222:%08X:qmdestroy:150:%s:", node, began.Unix(), me)
						w.Tasks[upid] = &state.Task{UPID: upid, Node: node, Type: "qmdestroy", ID: "150", User: me, Start: began,
							End: began, ExitStatus: "OK"}
					}
				})
				time.Sleep(time.Second)
				if times == 0 {
					b.withoutAudit()
				}
				b.sim.SetTaskTime(3 * time.Minute)
				b.sim.SetFaults([]fault.Rule{startRefused, {Match: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/time"},
					Phase: fault.Before, Status: 500, Reason: "no", Times: times}})
				created, err := creatorOf(t, b.sim, token).Create(t.Context(), r)
				if err == nil || created.Guest.VMID != 0 || b.vms()[150] != nil || len(b.volumesOf(150)) > 0 {
					t.Errorf("%s, no time %d times: there are %v and %v: %v; %v", way, times, b.vms()[150], b.volumesOf(150), err, created.Warnings)
				}
			})
		}
	}
}

// TestUndoAwaitsABackup: a slow create fails while a backup job of root has its VM: it has started the guest, without
// a task of its own for that. The undo waits for its end. Where that takes too long the VM stays, in state.
func TestUndoAwaitsABackup(t *testing.T) {
	t.Parallel()
	for _, took := range []time.Duration{time.Hour, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			b.change(func(w *state.World) { delete(w.Guests[9000].Config, "protection") })
			b.sim.SetTaskTime(3 * time.Minute)
			b.sim.SetFaults([]fault.Rule{startRefused})
			config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
				Clock: b.jobs.Clock}
			begins := sync.OnceFunc(func() { b.backUp(150, took) })
			config.Trace = func(_ context.Context, _ string, fields map[string]string) {
				if strings.Contains(fields["path"], "status/start") {
					begins()
				}
			}
			token(&config, b.sim.Credentials())
			r := ofTemplate()
			r.VMID, r.Start = 150, true
			created, err := creatorWith(t, config).Create(t.Context(), r)
			there, long := b.vms()[150] != nil, took == time.Hour
			if err == nil || there != long || (created.Proof != nil) != long || (len(created.Left) > 0) != long {
				t.Errorf("a backup of %s: there %t, left %v: %v; %v", took, there, created.Left, err, created.Warnings)
			}
		})
	}
}

// backUp has a backup job of root work on a guest that is off: it runs, paused, until then.
func (b bench) backUp(vmid int, took time.Duration) {
	var upid string
	b.change(func(w *state.World) {
		g, now := w.Guests[vmid], w.Clock.Now()
		g.Config["lock"], g.LockCause, g.Running = "backup", "state", &state.Running{}
		upid = fmt.Sprintf("UPID:pve1:00001111:00002222:%08X:vzdump:%d:root@pam:", now.Unix(), vmid)
		w.Tasks[upid] = &state.Task{UPID: upid, Node: "pve1", Type: "vzdump", ID: fmt.Sprint(vmid), User: "root@pam", Start: now}
	})
	time.AfterFunc(took, func() {
		b.change(func(w *state.World) {
			delete(w.Guests[vmid].Config, "lock")
			w.Guests[vmid].Running = nil
			w.Tasks[upid].End, w.Tasks[upid].ExitStatus = w.Clock.Now(), "OK"
		})
	})
}

// TestSlowImportOfALargerImageIsTakenBack: PVE refuses to shrink the disk. After an import of twenty minutes too the VM
// is taken back, but for one whose disk a user has grown meanwhile, also before the create's first look at it.
func TestSlowImportOfALargerImageIsTakenBack(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "/qemu/150/resize", "/status"} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, ticket)
			b.sim.SetTaskTime(20 * time.Minute)
			grown := before != ""
			config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
				Clock: b.jobs.Clock, Trace: func(_ context.Context, message string, fields map[string]string) {
					if grown && message == "PVE request" && strings.HasSuffix(fields["path"], before) {
						b.sets(150, "scsi0", "local-zfs:vm-150-disk-0,size=20G")
					}
				}}
			ticket(&config, b.sim.Credentials())
			image, r := "local-zfs:base-9000-disk-0", onZFS()
			r.VMID = 150
			r.Spec.Disks["scsi0"] = vm.Disk{Storage: "local-zfs", ImportFrom: &image, Size: to(int64(16 << 20))}
			created, err := creatorWith(t, config).Create(t.Context(), r)
			if there := b.vms()[150] != nil; err == nil || there != grown || grown != strings.Contains(fmt.Sprint(created.Warnings), "has 20G by now") {
				t.Errorf("grown by a user before %q: there %t: %v %v", before, there, err, created.Warnings)
			}
		})
	}
}

// TestSlowCloneOfADiskWithAnOldSizeIsTakenBack: the disk of the template was grown on its storage (lvextend), and no
// rescan has told its configuration. PVE gives the copy the size that the volume has (qemu-server QemuServer.pm
// clone_disk).
func TestSlowCloneOfADiskWithAnOldSizeIsTakenBack(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			b.change(func(w *state.World) {
				g := w.Guests[9000]
				delete(g.Config, "protection")
				w.Volume("pve1", guest.VolumeOf(g.Config["scsi0"])).Size = 8 << 30
			})
			r := ofTemplate()
			r.VMID, r.Start, r.Clone.Full = 150, true, to(full)
			b.sim.SetTaskTime(3 * time.Minute)
			b.sim.SetFaults([]fault.Rule{startRefused})
			created, err := b.Create(t.Context(), r)
			if err == nil || b.vms()[150] != nil || len(created.Warnings) > 0 {
				t.Errorf("full %t, there is %v: %v; %v", full, b.vms()[150]["scsi0"], err, created.Warnings)
			}
		})
	}
}
