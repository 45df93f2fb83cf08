package create

import (
	"context"
	"net/http"
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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// TestVolumesOfARescanSurviveTheUndo: an earlier VM of the id has left a disk on a storage that the create does not write
// to. An administrator runs `qm rescan` while the VM is made, which makes the disk an unused one of the new VM
// (qemu-server QemuServer.pm, update_disk_config), and then the start fails. PVE would destroy the disk with the VM, so
// the VM stays and is named.
func TestVolumesOfARescanSurviveTheUndo(t *testing.T) {
	for name, request := range map[string]func() Request{"create": onZFS, "clone": ofTemplate} {
		b := newBench(t, token)
		const theirs = "local2:100/vm-100-disk-7.raw"
		b.change(func(w *state.World) {
			w.Put(&state.Volume{Storage: "local2", Node: "pve1", Name: "100/vm-100-disk-7.raw", VMID: 100, Content: "images",
				Format: "raw", Size: 1 << 30, Data: "theirs"})
		})
		b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost,
			Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Task}})
		scanned := false
		rescan := func(context.Context, string, map[string]string) {
			b.change(func(w *state.World) {
				if g := w.Guests[100]; g != nil && g.Config["lock"] == "" && !scanned {
					scanned, g.Config["unused0"] = true, theirs
				}
			})
		}
		config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
			Clock: b.jobs.Clock, Trace: rescan}
		token(&config, b.sim.Credentials())
		r := request()
		r.VMID, r.Start = 100, true
		created, err := creatorWith(t, config).Create(t.Context(), r)
		if !scanned {
			t.Fatalf("%s: there was no rescan", name)
		}
		named := slices.ContainsFunc(created.Left, func(left saga.Residue) bool { return strings.Contains(left.Reason, theirs) })
		if err == nil || created.Guest.VMID != 100 || !named || b.volumesOf(100)[theirs] == "" && !slices.Contains(b.everything(), "pve1 "+theirs) {
			t.Errorf("%s: %v; left %+v; there are %v", name, err, created.Left, b.everything())
		}
	}
}

// TestRescanBeforeEachRequestOfAnUndo: the disk of an earlier VM of the id lies on a storage that the create does not
// write to. `qm rescan` makes it an unused disk of the new VM before any request of the create or its undo, also after
// the undo has attached volumes of its own. No request takes the disk, unless the rescan comes after the last look.
func TestRescanBeforeEachRequestOfAnUndo(t *testing.T) {
	const theirs, create = "local2:100/vm-100-disk-7.raw", "/nodes/{node}/qemu"
	for name, c := range map[string]struct {
		request func() Request
		fails   fault.Rule
		who     func(*pve.Config, pvesim.Credentials)
	}{
		"start fails": {onZFS, fault.Rule{Match: fault.Match{Method: http.MethodPost, Path: create + "/{vmid}/status/start"},
			Phase: fault.Task}, token},
		"clone is killed": {ofTemplate, fault.Rule{Match: fault.Match{Method: http.MethodPost, Path: create + "/{vmid}/clone"},
			Phase: fault.KillTask}, ticket},
		"create is killed": {onZFS, fault.Rule{Match: fault.Match{Method: http.MethodPost, Path: create}, Phase: fault.KillTask},
			ticket},
	} {
		scans := 0
		for n, more := 1, true; more; n++ {
			b := newBench(t, c.who)
			b.change(func(w *state.World) {
				w.Put(&state.Volume{Storage: "local2", Node: "pve1", Name: "100/vm-100-disk-7.raw", VMID: 100, Content: "images",
					Format: "raw", Size: 1 << 30, Data: "theirs"})
			})
			b.sim.SetFaults([]fault.Rule{c.fails})
			b.sim.ResetOps()
			b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Rescan, VMID: 100, Before: fault.Match{Seq: n}}})
			r := c.request()
			r.VMID, r.Start = 100, true
			created, err := b.Create(t.Context(), r)
			if more = len(b.sim.Reports()) > 0; more && b.sim.Reports()[0].Done {
				scans++
			}
			lastLook := func(op pvesim.Op) bool {
				return op.Seq == n && op.Method == http.MethodDelete && op.Path == create+"/{vmid}"
			}
			if slices.ContainsFunc(b.sim.Ops(), lastLook) { // PVE takes no digest with it
				continue
			}
			if err == nil || !slices.Contains(b.everything(), "pve1 "+theirs) {
				t.Errorf("%s, rescan before request %d: %v; left %+v; there are %v", name, n, err, created.Left, b.everything())
			}
		}
		if scans < 5 {
			t.Errorf("%s: %d rescans are no sweep", name, scans)
		}
	}
}

// TestResumeWithDisksOfOthers: a run is killed before each of its requests, and its VM gets a third party's disk: by a
// rescan, or in a slot that the create does not fill, with a request that leaves no task; or another guest attaches a
// disk of it. The next create does not complete that VM, since a roll-back would destroy the disk, and a move or a start
// would take it from that guest. Once the disk is in one VM only, a create does.
func TestResumeWithDisksOfOthers(t *testing.T) {
	give := func(option string) func(*state.World, *state.Guest) string {
		return func(w *state.World, g *state.Guest) string {
			g.Config[option] = "local-lvm:vm-150-disk-77"
			w.Put(&state.Volume{Storage: "local-lvm", Node: g.Node, Name: "vm-150-disk-77", VMID: 150, Content: "images",
				Format: "raw", Size: 1 << 30, Data: "theirs"})
			return g.Config[option]
		}
	}
	for name, happens := range map[string]func(*state.World, *state.Guest) string{
		"a rescan": give("unused5"), "a disk in a slot": give("scsi5"),
		"another guest has its disk": func(w *state.World, g *state.Guest) string {
			own := guest.OwnVolumes(150, g.Config)
			if len(own) == 0 {
				return ""
			}
			w.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: g.Node, Config: map[string]string{"name": "theirs",
				"scsi1": own[0], "smbios1": "uuid=11111111-2222-3333-4444-000000000600"}}
			return own[0]
		}} {
		for _, way := range killedWays(t) {
			if !way.fixed || !way.named || way.process == elsewhere {
				continue
			}
			refused := 0
			for n, died := 1, true; died; n++ {
				synctest.Test(t, func(t *testing.T) {
					b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
					b.backedUp(nil)
					if died = b.kill(t, way.process, way.of(), n); !died {
						return
					}
					theirs := ""
					b.change(func(w *state.World) {
						if g := w.Guests[150]; g != nil && g.Config["lock"] == "" {
							theirs = happens(w, g)
						}
					})
					if theirs == "" {
						return
					}
					refused++
					time.Sleep(startUp)
					b.sim.ResetOps()
					_, err := creatorOf(t, b.sim, token).Create(t.Context(), way.of())
					wrote := slices.ContainsFunc(b.sim.Ops(), func(op pvesim.Op) bool { return op.Method != http.MethodGet })
					if err == nil || !strings.Contains(err.Error(), theirs) || wrote {
						t.Errorf("%s, killed before request %d, %s: wrote %t: %v", way.name, n, name, wrote, err)
					}
					b.change(func(w *state.World) {
						for _, option := range []string{"unused5", "scsi5"} {
							delete(w.Guests[150].Config, option)
						}
						delete(w.Guests, 600)
					})
					if _, err := creatorOf(t, b.sim, token).Create(t.Context(), way.of()); err != nil {
						t.Errorf("%s, killed before request %d, %s, which is undone: %v", way.name, n, name, err)
					}
				})
			}
			if refused < 3 {
				t.Errorf("%s, %s: %d kills left a VM", way.name, name, refused)
			}
		}
	}
}
