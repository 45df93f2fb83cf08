package create

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/kinds"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestResumeKinds: of creates of all kinds a run is killed before each of its requests, and the next one comes to the VM that an
// undisturbed one makes: every disk in its slot, and no other volume. `make test` plays a share.
func TestResumeKinds(t *testing.T) {
	kills, left, step := 0, 0, 7
	if share.IsWhole() {
		step = 1
	}
	begin := 0
	for name, k := range share.Rows(kinds.All(theArchive), 1) {
		begin++
		r := Request{VMID: 150, Node: k.Node, Clone: k.Clone, Restore: k.Restore, Spec: k.Spec, Start: k.Start}
		r.Spec.Name = to("web")
		want := ""
		for n, died := 1+begin%step, true; died; n += step {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				b.change(kinds.World)
				b.backedUp(nil)
				foreign := len(b.everything())
				if want == "" {
					if _, err := b.Create(t.Context(), r); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					want, n = b.slotsOf(150), n-step
					return
				}
				if died = b.kill(t, deadProcess(t, b.Creator), r, n); !died {
					return
				}
				kills++
				left += min(1, len(b.vms()))
				what := fmt.Sprintf("%s, killed before request %d", name, n)
				b.converges(t, what, r, foreign, 0)
				if got := b.slotsOf(150); got != want {
					t.Errorf("%s: the VM has\n%s, want\n%s", what, got, want)
				}
			})
		}
	}
	t.Logf("%d kills, of which %d left a VM", kills, left)
	if left == 0 {
		t.Error("no kill has left a VM")
	}
}

// slotsOf are a VM's node, whether it runs, and its slots with their values.
func (b bench) slotsOf(vmid int) (all string) {
	b.change(func(w *state.World) {
		if g := w.Guests[vmid]; g != nil {
			all = fmt.Sprintln(g.Node, g.Running != nil)
		}
	})
	config := b.vms()[vmid]
	for _, slot := range vm.Slots(config) {
		all += fmt.Sprintf("%s %v\n", slot, config[slot])
	}
	return all
}

// TestKilledInItsRollBack: the worker that makes the VM dies, and the run dies before each request of its roll-back,
// also between taking the lock away and the destroy. The next create removes what it left and makes the whole VM, and volumes that stay are named.
func TestKilledInItsRollBack(t *testing.T) {
	for name, path := range map[string]string{"full, moves, adds, imports": "/nodes/{node}/qemu/{vmid}/clone",
		"scratch, firmware": "/nodes/{node}/qemu", "restore, moves, grows": "/nodes/{node}/qemu"} {
		k, killed := kinds.All(theArchive)[name], 0
		r := Request{VMID: 150, Node: k.Node, Clone: k.Clone, Restore: k.Restore, Spec: k.Spec, Start: k.Start}
		r.Spec.Name = to("web")
		for n := 20; n <= 38; n++ {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, ticket)
				b.change(kinds.World)
				b.backedUp(nil)
				b.killWithWorker(t, r, path, n, ticket)
				if left := b.vms()[150]; left["description"] == "" || left["lock"] != "" { // one without a mark is for an administrator
					return
				}
				killed++
				created, err := creatorOf(t, b.sim, ticket).Create(t.Context(), r)
				has, said := b.vms()[150], fmt.Sprint(created.Warnings)
				if adopted := has["unused0"]; err != nil && adopted != "" && strings.Contains(err.Error(), adopted) {
					return // the roll-back has given it the half-made copy, which nothing proves any more
				}
				whole := err == nil && (k.Clone == nil || has["tpmstate0"] != "")
				for slot := range r.Spec.Disks {
					whole = whole && has[slot] != ""
				}
				// a cloud-init drive that stays has the name that the next one must have
				if isInTheWay := err != nil && has == nil && strings.Contains(err.Error(), "cloudinit'"); !whole && !isInTheWay {
					t.Errorf("%s, killed at %d: %v: %v", name, n, has, err)
				}
				for id := range b.volumesOf(150) {
					if !strings.Contains(fmt.Sprint(has), fmt.Sprint(id)) && !strings.Contains(said, fmt.Sprint(id)) {
						t.Errorf("%s, killed at %d: %v is not named: %s", name, n, id, said)
					}
				}
			})
		}
		if t.Logf("%s: %d unlocked VMs were left", name, killed); killed < 3 {
			t.Errorf("%s: %d unlocked VMs were left", name, killed)
		}
	}
}

// TestCloudInitDriveInTheWayIsNamed: the worker that was to make a clone's cloud-init drive elsewhere dies, and the run with it. The next
// create cannot make the drive, and the one after finds its VMID taken by it: both name it, with the command that removes it.
func TestCloudInitDriveInTheWayIsNamed(t *testing.T) {
	const command = "pvesm free local:150/vm-150-cloudinit.qcow2"
	k, met := kinds.All(theArchive)["full, cloud-init drive elsewhere"], map[int]int{}
	r := Request{VMID: 150, Node: k.Node, Clone: k.Clone, Spec: k.Spec, Start: k.Start}
	r.Spec.Name = to("web")
	for n := 10; n <= 30; n++ {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			b.change(kinds.World)
			b.killWithWorker(t, r, "/nodes/{node}/qemu/{vmid}/config", n, token)
			for try := range 2 {
				_, err := creatorOf(t, b.sim, token).Create(t.Context(), r)
				if err == nil || b.vms()[150] != nil {
					break
				}
				if met[try]++; !strings.Contains(err.Error(), command) {
					t.Errorf("killed at %d, try %d: %v", n, try, err)
				}
			}
		})
	}
	if met[0] == 0 || met[1] == 0 {
		t.Errorf("no drive was in the way: %v", met)
	}
}
