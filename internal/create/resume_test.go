package create

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
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
