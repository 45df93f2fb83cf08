package destroy

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

const rescanned = "local2:300/vm-300-disk-7.raw"

// rescan gives the VM a volume of an earlier VM of its id as an unused disk, as `qm rescan` does (qemu-server
// QemuServer.pm update_disk_config).
func (r *rig) rescan() {
	r.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local2", Node: "pve1", Name: "300/vm-300-disk-7.raw", VMID: 300, Content: "images", Format: "raw",
			Size: 1 << 30, Data: "theirs"})
		w.Guests[300].Config["unused0"] = rescanned
	})
}

// TestVolumesOfARescanSurviveTheDestroy: PVE destroys unused disks with their VM. One that a rescan has found is not known to be
// the VM's, so it stays, and a warning names it.
func TestVolumesOfARescanSurviveTheDestroy(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(r *rig, request *Request)
		goes bool
	}{
		"off":     {set: func(*rig, *Request) {}},
		"running": {set: func(r *rig, _ *Request) { r.running() }},
		"found again after it was let go of": {set: func(r *rig, _ *Request) {
			times := 0
			r.answered = func(method, path string) {
				if method == http.MethodPut && strings.HasSuffix(path, "/qemu/300/config") && times == 0 {
					times++
					r.rescan()
				}
			}
		}},
		"found during the shutdown": {set: func(r *rig, _ *Request) {
			r.running()
			r.without("unused0")
			r.answered = func(method, path string) {
				if method == http.MethodPost && strings.HasSuffix(path, "/status/shutdown") {
					r.rescan()
				}
			}
		}},
		"detached by us":      {set: func(_ *rig, q *Request) { q.Known = []string{rescanned} }, goes: true},
		"named by a snapshot": {set: func(r *rig, _ *Request) { r.snapshot("scsi7", rescanned) }},
		"named by it alone":   {set: func(r *rig, _ *Request) { r.snapshot("scsi7", rescanned); r.without("unused0") }},
		"known, and named by it": {set: func(r *rig, q *Request) {
			q.Known = []string{rescanned}
			r.snapshot("scsi7", rescanned)
			r.without("unused0")
		}, goes: true},
		"named by what pends":  {set: func(r *rig, _ *Request) { r.pending("scsi7", rescanned) }, goes: true},
		"the answer gets lost": {set: func(r *rig, _ *Request) { r.lose(http.MethodPut, "/nodes/{node}/qemu/{vmid}/config") }},
		"the VM's cloud-init is all it has": {set: func(r *rig, _ *Request) {
			r.without("scsi0")
			r.change(func(w *state.World) {
				delete(w.Volumes, w.Storages["local-zfs"].Key("pve1", "vm-300-disk-0"))
				w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-cloudinit", VMID: 300, Content: "images",
					Format: "raw", Size: 4 << 20})
			})
			r.option("ide2", "local-zfs:vm-300-cloudinit,media=cdrom")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, asToken)
			request := Request{Ref: r.vm(300)}
			r.rescan()
			c.set(r, &request)
			left, warnings, err := r.s.Delete(t.Context(), request)
			is, kept := r.has(300, rescanned)
			if err != nil || len(left) > 0 || is || kept == c.goes {
				t.Fatalf("%v; left %+v; the VM is there: %v, the volume: %v", err, left, is, kept)
			}
			_, disk := r.has(300, "local-zfs:vm-300-disk-0")
			if _, drive := r.has(300, "local-zfs:vm-300-cloudinit"); disk || drive {
				t.Error("the VM's own disk is left")
			}
			named := slices.ContainsFunc(warnings, func(w guest.Warning) bool { return strings.Contains(w.Detail, rescanned) })
			if named == c.goes {
				t.Errorf("warnings %+v", warnings)
			}
		})
	}
}

// TestVolumesOfARescanRefuseTheDestroy: PVE lets go of an unused disk only where another volume is in a slot.
func TestVolumesOfARescanRefuseTheDestroy(t *testing.T) {
	r := newRig(t, asToken)
	ref := r.vm(300)
	r.rescan()
	r.running()
	r.without("scsi0")
	before := string(r.sim.Snapshot())
	_, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
	if err == nil || !strings.Contains(err.Error(), rescanned) || !strings.Contains(err.Error(), "Reassign Owner") {
		t.Errorf("%v", err)
	}
	if string(r.sim.Snapshot()) != before {
		t.Error("something was changed")
	}
}

// TestVolumesOfARescanStopTheDestroyThatCannotLetGo: the VM stays, with a word that says why, and no command that would destroy
// the volume.
func TestVolumesOfARescanStopTheDestroyThatCannotLetGo(t *testing.T) {
	r := newRig(t, asToken)
	ref := r.vm(300)
	r.rescan()
	r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.Before, Times: -1}})
	left, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
	if is, kept := r.has(300, rescanned); err == nil || !is || !kept || len(left) != 1 || left[0].Command != "" ||
		!strings.Contains(left[0].Reason, rescanned) {
		t.Errorf("%v; left %+v; the VM is there: %v, the volume: %v", err, left, is, kept)
	}
}

func (r *rig) without(option string) {
	r.change(func(w *state.World) { delete(w.Guests[300].Config, option) })
}

func (r *rig) snapshot(slot, volume string) {
	r.change(func(w *state.World) {
		w.Guests[300].Snaps = map[string]map[string]string{"one": {slot: volume, "snaptime": "1"}}
	})
}

func (r *rig) pending(slot, volume string) {
	r.change(func(w *state.World) { w.Guests[300].Pending = map[string]string{slot: volume} })
}

// lose loses the answer to the first request of that kind.
func (r *rig) lose(method, path string) {
	r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: method, Path: path}, Phase: fault.After, Times: 1}})
}

// TestRescanBeforeEachRequestOfADestroy: the disk of an earlier VM of the id lies on another storage. `qm rescan` makes it an unused
// disk of the VM before any request of its destroy. The disk stays, unless the rescan comes after the last look.
func TestRescanBeforeEachRequestOfADestroy(t *testing.T) {
	for name, c := range map[string]struct {
		orders []thirdparty.Order
		set    func(w *state.World)
	}{
		"alone": {},
		"described meanwhile": {orders: []thirdparty.Order{{Act: thirdparty.Describe, VMID: 300,
			Before: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/shutdown"}}}},
		"two disks of one name": {set: func(w *state.World) {
			w.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-300-disk-0", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
			w.Guests[300].Config["scsi1"] = "local-lvm:vm-300-disk-0,size=1G"
		}},
		"another guest's disk of the name": {set: func(w *state.World) {
			w.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-300-disk-0", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
			w.Guests[8000].Config["scsi5"] = "local-lvm:vm-300-disk-0,size=1G"
		}},
	} {
		scans := 0
		for n, more := 1, true; more; n++ {
			r := newRig(t, asToken)
			ref := r.vm(300)
			r.running()
			r.change(func(w *state.World) {
				w.Put(&state.Volume{Storage: "local2", Node: "pve1", Name: "300/vm-300-disk-7.raw", VMID: 300, Content: "images",
					Format: "raw", Size: 1 << 30, Data: "theirs"})
				if c.set != nil {
					c.set(w)
				}
			})
			r.sim.ResetOps()
			r.sim.SetThirdParties(append(slices.Clone(c.orders),
				thirdparty.Order{Act: thirdparty.Rescan, VMID: 300, Before: fault.Match{Seq: n}}))
			left, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
			more = slices.ContainsFunc(r.sim.Reports(), func(d thirdparty.Report) bool {
				scans += map[bool]int{true: 1}[d.Act == thirdparty.Rescan && d.Done]
				return d.Act == thirdparty.Rescan
			})
			isLast := func(op pvesim.Op) bool {
				return op.Seq == n && op.Method == http.MethodDelete && op.Path == "/nodes/{node}/qemu/{vmid}"
			}
			if slices.ContainsFunc(r.sim.Ops(), isLast) { // PVE takes no digest with it
				continue
			}
			if is, kept := r.has(300, rescanned); err != nil || len(left) > 0 || is || !kept {
				t.Errorf("%s, rescan before request %d: %v; left %+v; the VM is there: %v, the disk: %v", name, n, err, left, is, kept)
			}
		}
		if scans < 8 {
			t.Errorf("%s: %d rescans are no sweep", name, scans)
		}
		t.Logf("%s: %d rescans", name, scans)
	}
}

// TestDestroyOfAVMThatChangesAllTheTime: without a reading of a configuration whose volumes are known nothing is deleted.
func TestDestroyOfAVMThatChangesAllTheTime(t *testing.T) {
	r := newRig(t, asToken)
	ref := r.vm(300)
	r.running()
	changes := 0
	r.answered = func(method, path string) {
		isRead := method == http.MethodGet && (strings.HasSuffix(path, "/qemu/300/pending") || strings.HasSuffix(path, "/qemu/300/config"))
		if isRead || strings.HasSuffix(path, "/shutdown") {
			changes++
			r.option("description", strings.Repeat("x", changes))
		}
	}
	left, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
	if is, _ := r.has(300, ""); !is || err == nil || !strings.Contains(err.Error(), "VM 300 changes while it is looked at") {
		t.Errorf("%v; left %+v; the VM is there: %v", err, left, is)
	}
	for _, op := range r.sim.Ops() {
		if op.Method == http.MethodDelete {
			t.Errorf("%s %s was sent", op.Method, op.Path)
		}
	}
}

// TestTextsNameNoVolume: a text of a VM, or of a snapshot of it, has the form of the id of a third party's volume, which carries the VM's
// id. Anybody may have written it, so it makes the volume neither the VM's nor one that a rescan has not brought.
func TestTextsNameNoVolume(t *testing.T) {
	for name, happens := range map[string]func(r *rig){
		"the description":               func(r *rig) { r.option("description", rescanned); r.without("unused0") },
		"the description, and a rescan": func(r *rig) { r.option("description", rescanned) },
		"a user, and a rescan":          func(r *rig) { r.option("ciuser", rescanned) },
		"a user that waits":             func(r *rig) { r.pending("ciuser", rescanned); r.without("unused0") },
		"the description of a snapshot": func(r *rig) { r.snapshot("description", rescanned); r.without("unused0") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, asRoot)
			ref := r.vm(300)
			r.rescan()
			happens(r)
			_, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref, Disks: Disks{Known: []string{"local-zfs:vm-300-disk-0"}}})
			if is, kept := r.has(300, rescanned); is || !kept || err != nil {
				t.Errorf("the VM is there: %t, the volume: %t; %v; %v", is, kept, warnings, err)
			}
		})
	}
}
