package create

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestTakenVMID: whichever guest has the configured id, the error is on vmid and names it, and nothing is touched.
func TestTakenVMID(t *testing.T) {
	for want, guestOf := range map[string]func(b bench) *state.Guest{
		"VMID 900 is taken|VM 900": func(bench) *state.Guest {
			return &state.Guest{Type: "qemu", Config: map[string]string{"name": "web", "smbios1": "uuid=11111111-2222-3333-4444-555555555555"}}
		},
		"VMID 900 is taken|Container 900": func(bench) *state.Guest {
			return &state.Guest{Type: "lxc", Config: map[string]string{"hostname": "web"}}
		},
		"VMID 900 is taken by a VM that was not finished|another create": func(b bench) *state.Guest {
			other := onZFS()
			other.VMID, other.Node = 900, "pve2"
			mark := b.markOf(900, other, deadProcess(t, b.Creator))
			return &state.Guest{Type: "qemu", Config: map[string]string{"name": "web", "description": mark.String()}}
		},
		"VMID 900 is taken by a half-made VM|locked (create)": func(bench) *state.Guest {
			return &state.Guest{Type: "qemu", LockCause: "state", Config: map[string]string{"lock": "create"}}
		},
	} {
		b, r := newBench(t, token), onZFS()
		r.VMID = 900
		b.change(func(w *state.World) {
			w.Guests[900] = guestOf(b)
			w.Guests[900].VMID, w.Guests[900].Node = 900, "pve1"
		})
		before := b.vms()
		_, err := b.Create(t.Context(), r)
		summary, detail, _ := strings.Cut(want, "|")
		var field *guest.FieldError
		if !errors.As(err, &field) || field.Path != "vmid" || field.Summary != summary || !strings.Contains(field.Detail, detail) {
			t.Errorf("want %s on vmid, got %v", want, err)
		}
		if len(b.vms()) != len(before) {
			t.Errorf("%s: the cluster has %v, and had %v", want, b.vms(), before)
		}
	}
}

// TestDiskAttachedWhileATakeOverWaits: the run that goes on with a dead clone has read that no other guest has its disks. Its take-over waits
// for the lock on the VM's file, and another guest gets a disk meanwhile. The migration would free that.
func TestDiskAttachedWhileATakeOverWaits(t *testing.T) {
	attached := 0
	for _, way := range killedWays(t) {
		if !strings.HasPrefix(way.name, "clone and migrate, here, fixed true, named true") {
			continue
		}
		for n, died := 1, true; died; n++ {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				if died = b.kill(t, way.process, way.of(), n); !died {
					return
				}
				time.Sleep(time.Minute)
				theirs, tries := "", 0
				config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
					Clock: b.jobs.Clock, Trace: func(_ context.Context, message string, f map[string]string) {
						if message != "PVE request" || f["method"] != http.MethodPut || !strings.HasSuffix(f["path"], "/qemu/150/config") {
							return
						}
						if tries++; tries == 9 {
							b.change(func(w *state.World) { theirs = attachLast(w, 150, 600) })
						}
					}}
				token(&config, b.sim.Credentials())
				b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.Before,
					Status: 500, Reason: "can't lock file '/var/lock/qemu-server/lock-150.conf' - got timeout", Times: 8}})
				_, err := creatorWith(t, config).Create(t.Context(), way.of())
				b.change(func(w *state.World) {
					if theirs != "" && w.Volume("pve1", theirs) == nil {
						t.Errorf("killed before request %d: VM 600 has lost %s: %v", n, theirs, err)
					}
				})
				if theirs != "" {
					attached++
				}
			})
		}
	}
	if attached == 0 {
		t.Error("no disk was attached meanwhile")
	}
}

// attachLast gives the last disk of a VM on pve1 to another one, which it makes.
func attachLast(w *state.World, vmid, to int) string {
	g := w.Guests[vmid]
	own := guest.OwnVolumes(vmid, g.Config)
	if len(own) == 0 || g.Node != "pve1" {
		return ""
	}
	volume := own[len(own)-1]
	w.Guests[to] = &state.Guest{VMID: to, Type: "qemu", Node: g.Node, Config: map[string]string{"name": "theirs", "scsi1": volume,
		"smbios1": fmt.Sprintf("uuid=11111111-2222-3333-4444-%012d", to)}}
	return volume
}

// TestVMIDOfAVMThatIsDestroyed: the VM with the configured id is being destroyed by this very process, from before the create or from the
// moment at which the create has found it. The create waits for that destroy, and for nothing else: where it fails, or where none has
// begun, the id is taken.
func TestVMIDOfAVMThatIsDestroyed(t *testing.T) {
	for name, c := range map[string]struct {
		late, fails, none bool
	}{
		"before": {}, "meanwhile": {late: true}, "in vain": {fails: true}, "in vain, meanwhile": {late: true, fails: true}, "not begun": {none: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, r := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token), onZFS()
			r.VMID = 900
			b.change(func(w *state.World) {
				w.Guests[900] = &state.Guest{VMID: 900, Node: "pve1", Type: "qemu",
					Config: map[string]string{"name": "web", "smbios1": "uuid=11111111-2222-3333-4444-555555555555"}}
			})
			since := time.Now()
			destroy := func() {
				end := b.guests.Leaving.Begin(900)
				time.AfterFunc(10*time.Minute, func() {
					if !c.fails {
						b.change(func(w *state.World) { delete(w.Guests, 900) })
					}
					end()
				})
			}
			switch {
			case c.none:
			case c.late: // while the create looks at the VM
				b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.After,
					DelayMS: 10_000}})
				time.AfterFunc(5*time.Second, destroy)
			default:
				destroy()
			}
			_, err := b.Create(t.Context(), r)
			var field *guest.FieldError
			isTaken := errors.As(err, &field) && field.Summary == "VMID 900 is taken"
			if took := time.Since(since); (c.fails || c.none) != isTaken || !isTaken && err != nil || c.none != (took < 10*time.Minute) {
				t.Errorf("%s: %v after %s", name, err, took)
			}
		})
	}
}

// TestTwoProcessesRaceForAnID: another process of the same identity takes the automatic id right before the first
// request, and has no mark yet. Its VM is not this create's, so the next id is taken at once, also where its task fails.
func TestTwoProcessesRaceForAnID(t *testing.T) {
	for _, failing := range []bool{false, true} {
		t.Run(fmt.Sprint("failing ", failing), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { raceForAnID(t, failing) })
		})
	}
}

func raceForAnID(t *testing.T, failing bool) {
	b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
	other, came := creatorOf(t, b.sim, token), time.Time{}
	var mu sync.Mutex
	looks := map[string]bool{"/cluster/nextid": true, "/nodes/pve1/storage/local-zfs/content": true, "/access/permissions": true}
	races := func(_ context.Context, _ string, fields map[string]string) {
		mu.Lock() // some looks are at work at the same time, and the last one is followed by the first request
		defer mu.Unlock()
		delete(looks, fields["path"])
		if !came.IsZero() || len(looks) > 0 {
			return
		}
		came = time.Now()
		b.sim.SetTaskTime(5 * time.Minute)
		defer b.sim.SetTaskTime(time.Second)
		if failing {
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu"},
				Phase: fault.Task}})
		}
		params := pve.Params{"vmid": "100", "scsi0": "local-zfs:1"}
		if _, err := other.api.Node("pve1").CreateVM(t.Context(), params); err != nil {
			t.Error(err)
		}
	}
	config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
		Clock: b.jobs.Clock, Trace: races}
	token(&config, b.sim.Credentials())
	ours := creatorWith(t, config)
	created, err := ours.Create(t.Context(), onZFS())
	if err != nil || created.Guest.VMID == 100 || b.asked(http.MethodPost, "/nodes/{node}/qemu", 100) != 2 {
		t.Fatalf("VM %d, %v", created.Guest.VMID, err)
	}
	if took := time.Since(came); took > time.Minute {
		t.Errorf("the other's task was awaited: %s", took)
	}
	if refused := b.asked(http.MethodDelete, "/nodes/{node}/qemu/{vmid}", 100); refused != 0 || b.vms()[100]["lock"] == "" {
		t.Errorf("the other's VM was touched: %d, %v", refused, b.vms()[100])
	}
}
