package create

import (
	"fmt"
	"maps"
	"slices"
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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/kinds"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestResumeOnOneOfSeveralNodes: the first of the nodes that will do is away while a run makes its VM on the second one,
// and back when the run is dead. The next create completes the VM where it is.
func TestResumeOnOneOfSeveralNodes(t *testing.T) {
	request := func() Request {
		r := onZFS()
		r.Node, r.Nodes, r.Start, r.Spec.Name = "", []string{"pve1", "pve2"}, true, to("web")
		return r
	}
	resumed := 0
	for n, died := 1, true; died && n < 40; n++ {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			b.sim.SetNode("pve1", false)
			time.Sleep(time.Minute)
			if died = b.kill(t, deadProcess(t, b.Creator), request(), n); !died {
				return
			}
			b.sim.SetNode("pve1", true)
			time.Sleep(time.Minute)
			left := b.vms()
			created, err := creatorOf(t, b.sim, token).Create(t.Context(), request())
			if err != nil || len(b.vms()) != 1 || len(left) > 0 && created.Guest.Node != "pve2" {
				t.Errorf("killed before request %d, which left %v: on %s, %v: %v", n, left, created.Guest.Node, b.vms(), err)
			} else if len(left) > 0 {
				resumed++
			}
		})
	}
	if resumed < 3 {
		t.Errorf("%d VMs were completed", resumed)
	}
}

// TestResumeOfACloneWithCloudInit: the template has no cloud-init drive, and the create chooses the slot of the clone's.
// The next create completes what a run that was killed has left, with that drive.
func TestResumeOfACloneWithCloudInit(t *testing.T) {
	request := func() Request {
		r := Request{Node: "pve1", VMID: 150, Clone: &guest.Clone{VMID: 9000, Full: to(true)}, Start: true}
		r.Spec.CloudInit, r.Spec.Name = vm.CloudInit{Storage: "local-zfs"}, to("web")
		return r
	}
	resumed := 0
	for n, died := 1, true; died && n < 60; n++ {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			b.change(func(w *state.World) {
				maps.DeleteFunc(w.Guests[9000].Config, func(_, value string) bool { return strings.Contains(value, "cloudinit") })
			})
			if died = b.kill(t, deadProcess(t, b.Creator), request(), n); !died {
				return
			}
			left := len(b.vms())
			time.Sleep(startUp)
			if _, err := creatorOf(t, b.sim, token).Create(t.Context(), request()); err != nil || len(b.vms()) != 1 {
				t.Errorf("killed before request %d: %v", n, err)
			}
			resumed += left
		})
	}
	if resumed < 5 {
		t.Errorf("%d VMs were completed", resumed)
	}
}

// TestResumeOfACloneWhoseTemplateIsAnother: a template was made again between the death of a run and the next apply,
// under its VMID or under its name, and where no task tells. The VM of the dead run has the disks of the old one: it is named, and not completed.
func TestResumeOfACloneWhoseTemplateIsAnother(t *testing.T) {
	again := func(w *state.World) { // by a clone or from a backup, which keep the time of creation
		upid := fmt.Sprintf("UPID:pve1:00001111:00002222:%08X:qmdestroy:9000:root@pam:", w.Clock.Now().Unix())
		w.Tasks[upid] = &state.Task{UPID: upid, Node: "pve1", Type: "qmdestroy", ID: "9000", User: "root@pam",
			Start: w.Clock.Now(), End: w.Clock.Now(), ExitStatus: "OK"}
	}
	cloned := func(w *state.World) { // and a sibling was cloned of it since, whose task may be the dead run's
		w.Guests[9000].Config["smbios1"] = "uuid=00000000-0000-4000-8000-000000009000"
	}
	for way, change := range map[string]func(*state.World){"": nil, "under its VMID": again, "by a clone": cloned, "under its name": func(w *state.World) {
		g := w.Guests[9000]
		g.VMID = 9001
		w.Guests[9001] = g
		delete(w.Guests, 9000)
	}} {
		named := 0
		for n, died := 1, true; died && n < 40; n++ {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				request := func() Request {
					r := Request{Node: "pve1", VMID: 150, Clone: &guest.Clone{Name: "debian", Full: to(true)}, Start: true}
					r.Spec.Name = to("web")
					return r
				}
				b.change(func(w *state.World) { w.Guests[9000].Config["name"] = "debian" })
				time.Sleep(30 * time.Second)
				if died = b.kill(t, deadProcess(t, b.Creator), request(), n); !died {
					return
				}
				whole := b.vms()[150] != nil && b.vms()[150]["lock"] == ""
				time.Sleep(2 * time.Second)
				if change != nil {
					b.change(change)
				}
				time.Sleep(30 * time.Second)
				was := fmt.Sprint(b.vms()[150])
				_, err := creatorOf(t, b.sim, token).Create(t.Context(), request())
				stays := whole && change != nil
				if (err != nil) != stays || stays && (fmt.Sprint(b.vms()[150]) != was || !strings.Contains(err.Error(), "a template was made again")) {
					t.Errorf("%s, killed before request %d, whole %t: %v", way, n, whole, err)
				}
				if whole {
					named++
				}
			})
		}
		if named < 2 {
			t.Errorf("%s: %d VMs were whole", way, named)
		}
	}
}

// killWithWorker has the worker of a request die, and then the run of the create before its request n.
func (b bench) killWithWorker(t *testing.T, r Request, path string, n int, as func(*pve.Config, pvesim.Credentials)) {
	t.Helper()
	config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
		Clock: mortal{b.jobs.Clock, b.sim, 1}}
	as(&config, b.sim.Credentials())
	doomed := creatorWith(t, config)
	doomed.guests.Process = deadProcess(t, b.Creator)
	rules := []fault.Rule{{Match: fault.Match{Method: "POST", Path: path, Nth: 1}, Phase: fault.KillTask}}
	for k := range 60 {
		rules = append(rules, fault.Rule{Match: fault.Match{Nth: n + k}, Phase: fault.Before})
	}
	b.sim.SetFaults(rules)
	_, err := doomed.Create(t.Context(), r)
	b.sim.SetFaults(nil)
	if err == nil {
		t.Fatal("the create ended well")
	}
	time.Sleep(startUp)
}

// TestUnlockedCopyIsNotCompleted: the worker of a clone dies before all disks are copied, its provider is killed, and an
// administrator takes the lock away. The next create makes the VM again, also where PVE lists the task of a sibling only,
// or all disks are there, perhaps half copied. A VM that was started all the same is named, and not touched.
func TestUnlockedCopyIsNotCompleted(t *testing.T) {
	for n := range 16 {
		sibling, started, configured, lacks := n&1 > 0, n&2 > 0, n&4 > 0, n&8 > 0
		if sibling && !lacks { // then nothing shows that it is not whole
			continue
		}
		what := fmt.Sprintf("a sibling's task %t, started %t, configured %t, lacks a disk %t", sibling, started, configured, lacks)
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			b.change(kinds.World)
			r := Request{VMID: 150, Clone: &guest.Clone{VMID: 9100, Full: to(true)}, Start: true}
			r.Spec.Name = to("web")
			if configured {
				r.Spec.Disks = map[string]vm.Disk{"scsi1": {Storage: "local-zfs", Size: to(int64(2 << 30))}}
			}
			b.killWithWorker(t, r, "/nodes/{node}/qemu/{vmid}/clone", 8, token)
			b.change(func(w *state.World) {
				g := w.Guests[150]
				delete(g.Config, "lock")
				if lacks {
					gone := guest.VolumeOf(g.Config["scsi1"])
					maps.DeleteFunc(w.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.Volid() == gone })
					delete(g.Config, "scsi1")
				} else {
					g.Config["tpmstate0"] = "local-zfs:vm-150-disk-3,size=4M,version=v2.0"
				}
				for _, task := range slices.Collect(maps.Values(w.Tasks)) {
					start := *task
					start.UPID, start.Type, start.ID, start.ExitStatus = strings.ReplaceAll(start.UPID, "qmclone:9100", "qmstart:150"), "qmstart", "150", "OK"
					if start.Start = start.End; started {
						w.Tasks[start.UPID] = &start
					}
					if sibling {
						task.ExitStatus = "OK"
					}
				}
			})
			was, uuid, data := fmt.Sprint(b.vms()[150]), vm.UUID(b.vms()[150]), ""
			_, err := creatorOf(t, b.sim, token).Create(t.Context(), r)
			b.change(func(w *state.World) {
				if v := w.Volume("pve1", guest.VolumeOf(w.Guests[150].Config["scsi1"])); v != nil {
					data = v.Data
				}
			})
			stays := err != nil && strings.Contains(err.Error(), "it was started all the same") && fmt.Sprint(b.vms()[150]) == was
			made := err == nil && data == "base-9100-disk-3" && b.vms()[150]["tpmstate0"] != "" && vm.UUID(b.vms()[150]) != uuid
			if started && !stays || !started && !made {
				t.Errorf("%s: data %q, %v: %v", what, data, b.vms()[150], err)
			}
		})
	}
}
