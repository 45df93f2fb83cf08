package create

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// awaitedOnNFS is awaitedVM on a storage of all nodes.
func awaitedOnNFS(timeout time.Duration) Request {
	r := awaitedVM(timeout)
	r.Spec.Disks["scsi0"] = vm.Disk{Storage: "shared-nfs", Format: to("raw"), Size: to(int64(1 << 30))}
	return r
}

// TestMovedWhileItIsWaitedFor: HA or an administrator takes the VM to another node at the end of the wait, and something
// is away at the commit. The commit finds the VM, or the VM stays; its guest runs on in any case. A VM that is gone
// does not get into the state, nor does another one with its id.
func TestMovedWhileItIsWaitedFor(t *testing.T) {
	const s = time.Second
	const committed, stays, gone, others = "committed on pve2", "stays", "gone", "another's"
	move := func(b bench) { b.change(func(w *state.World) { w.Guests[150].Node = "pve2" }) }
	away := func(method, path string, status int, lasts time.Duration) func(b bench) {
		return func(b bench) {
			move(b)
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: method, Path: path}, Phase: fault.Before, Status: status, Times: -1}})
			time.Sleep(lasts)
			b.sim.SetFaults(nil)
		}
	}
	const list, storages = "/cluster/resources", "/nodes/{node}/storage"
	for name, c := range map[string]struct {
		happens func(b bench)
		want    string
	}{
		"nothing is away":                      {move, committed},
		"503 of the listing for 20 s":          {away(http.MethodGet, list, 503, 20*s), committed},
		"no answer of the listing for 90 s":    {away(http.MethodGet, list, 596, 90*s), committed},
		"a refusal of the listing for 20 s":    {away(http.MethodGet, list, 500, 20*s), committed},
		"no answer of the listing for 5 min":   {away(http.MethodGet, list, 596, 300*s), stays},
		"no list of the storages for 5 min":    {away(http.MethodGet, storages, 500, 300*s), committed},
		"no content of the storages for 5 min": {away(http.MethodGet, storages+"/{storage}/content", 503, 300*s), committed},
		"the old node is off":                  {func(b bench) { move(b); b.sim.SetNode("pve1", false) }, committed},
		"it is removed":                        {func(b bench) { b.sim.ThirdParty(thirdparty.Order{Act: thirdparty.Delete, VMID: 150}) }, gone},
		"another has its id": {func(b bench) {
			b.change(func(w *state.World) {
				w.Guests[150].Config = map[string]string{"name": "his", "smbios1": "uuid=99999999-2222-3333-4444-555555555555"}
				w.Guests[150].Node = "pve2"
			})
		}, others},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			var running *state.Running
			var at time.Time
			created, err := b.await(t, awaitedOnNFS(20*time.Minute+5*s), func(func()) {
				b.change(func(w *state.World) { running = w.Guests[150].Running })
				at = time.Now()
				c.happens(b)
			})
			took := time.Since(at)
			is, inState := gone, created.Guest.VMID != 0
			b.change(func(w *state.World) {
				g := w.Guests[150]
				switch {
				case g == nil:
					return
				case g.Running != running:
					t.Errorf("%s: its guest was stopped", name)
				}
				switch is = committed; {
				case g.Config["name"] == "his":
					is = others
				case ownership.IsMark(g.Config["description"]):
					is = stays
				case g.Node != "pve2" || created.Guest.Node != "pve2":
					t.Errorf("%s: it is on %s, and in state on %s", name, g.Node, created.Guest.Node)
				}
			})
			if is != c.want || (err == nil) != (is == committed) || inState != (is == committed || is == stays) {
				t.Errorf("%s: it is %s, in state %t: %v; %v", name, is, inState, err, created.Warnings)
			}
			if is == stays && (created.Proof == nil || !strings.Contains(created.Stays, "VM 150 is complete")) {
				t.Errorf("%s: with a proof %t, it says %q", name, created.Proof != nil, created.Stays)
			}
			if is == gone && took > time.Minute {
				t.Errorf("%s: it was looked for for %s", name, took)
			}
		})
	}
}

// TestMovedAndStillWaitedFor: the VM is moved, and its create waits on. It shows that it lives on the new node, too: the
// same create elsewhere does not take the VM over.
func TestMovedAndStillWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
		var other error
		created, err := b.await(t, awaitedOnNFS(40*time.Minute), func(func()) {
			b.change(func(w *state.World) { w.Guests[150].Node = "pve2" })
			time.Sleep(10 * time.Minute)
			_, other = creatorOf(t, b.sim, token).Create(t.Context(), awaitedOnNFS(40*time.Minute))
		})
		if err != nil || created.Guest.Node != "pve2" || other == nil || !strings.Contains(other.Error(), "it lives") {
			t.Errorf("it is on %s: %v; the other create: %v", created.Guest.Node, err, other)
		}
	})
}
