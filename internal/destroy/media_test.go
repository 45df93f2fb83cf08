package destroy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// medium is a volume that carries the id of VM 300, and that a third party has put into an optical drive of it.
func (r *rig) medium(w *state.World, storage, format string) string {
	volume, err := w.Alloc("pve1", storage, 300, "", format, 2<<30)
	if err != nil {
		r.t.Fatal(err)
	}
	volume.Data = "theirs"
	return volume.Volid()
}

// TestMediaWithTheIDOfTheVM: PVE leaves a medium with a VM whatever id it carries (qemu-server QemuServer.pm
// destroy_vm, drive_is_cdrom), and so does the destroy: with each medium on the storage of a disk and on another, in
// every kind of drive, in what is in force, in what pends and in a snapshot, put there before the destroy and while the
// guest shuts down. A warning names it. A volume that is also in a slot as a disk, or detached, goes.
func TestMediaWithTheIDOfTheVM(t *testing.T) {
	put := map[string]func(g *state.Guest, slot, volume string){
		"in force": func(g *state.Guest, slot, volume string) { g.Config[slot] = volume + ",media=cdrom,size=2G" },
		"pending": func(g *state.Guest, slot, volume string) {
			g.Pending = map[string]string{slot: volume + ",media=cdrom,size=2G"}
		},
		"in a snapshot": func(g *state.Guest, slot, volume string) {
			g.Snaps = map[string]map[string]string{"one": {slot: volume + ",media=cdrom,size=2G", "snaptime": "1"}}
		},
		"before and after a snapshot": func(g *state.Guest, slot, volume string) {
			g.Config[slot] = volume + ",media=cdrom,size=2G"
			g.Snaps = map[string]map[string]string{"one": {slot: volume + ",media=cdrom,size=2G", "snaptime": "1"}}
		},
		"also as a disk": func(g *state.Guest, slot, volume string) {
			g.Config[slot], g.Config["scsi7"] = volume+",media=cdrom,size=2G", volume+",size=2G"
		},
	}
	for _, storage := range []string{"local-zfs", "local2"} {
		for _, slot := range []string{"ide2", "sata3", "scsi5"} {
			for where, act := range put {
				for _, late := range []bool{false, true} {
					if late && (where == "pending" || where == "in a snapshot") {
						continue // a stop puts the one into force, and the snapshots were read before
					}
					r := newRig(t, asToken)
					ref, volume := r.vm(300), ""
					give := func() {
						r.change(func(w *state.World) {
							volume = r.medium(w, storage, "raw")
							act(w.Guests[300], slot, volume)
						})
					}
					if late {
						r.running()
						r.answered = func(method, path string) {
							if method == http.MethodPost && strings.HasSuffix(path, "/status/shutdown") {
								give()
							}
						}
					} else {
						give()
					}
					left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
					is, kept := r.has(300, volume)
					_, own := r.has(300, "local-zfs:vm-300-disk-0")
					goes := where == "also as a disk"
					text := fmt.Sprint(warnings)
					if err != nil || is || own || len(left) > 0 || kept == goes || strings.Count(text, volume) != map[bool]int{false: 1}[goes] {
						t.Errorf("%s, %s, %s, late %t: %v, left %+v, the VM is there %t, its disk %t, the medium %t: %s", storage, slot, where,
							late, err, left, is, own, kept, text)
					}
				}
			}
		}
	}
}

// TestCloudInitDriveGoesWithTheVM: it is generated from the VM's options.
func TestCloudInitDriveGoesWithTheVM(t *testing.T) {
	r := newRig(t, asToken)
	ref := r.vm(300)
	r.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-cloudinit", VMID: 300, Content: "images", Format: "raw", Size: 4 << 20})
		w.Guests[300].Config["ide2"] = "local-zfs:vm-300-cloudinit,media=cdrom,size=4M"
	})
	_, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
	if is, kept := r.has(300, "local-zfs:vm-300-cloudinit"); err != nil || is || kept || len(warnings) > 0 {
		t.Errorf("%v, the VM is there %t, the drive %t: %+v", err, is, kept, warnings)
	}
}

// TestMediumOfAnUnavailableStorage: it stays in any case, so its storage refuses nothing.
func TestMediumOfAnUnavailableStorage(t *testing.T) {
	r := newRig(t, asToken)
	ref, volume := r.vm(300), ""
	r.change(func(w *state.World) {
		volume = r.medium(w, "local2", "raw")
		w.Guests[300].Config["ide2"] = volume + ",media=cdrom"
		w.Storages["local2"].Disabled = true
	})
	_, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
	if is, kept := r.has(300, volume); err != nil || is || !kept || !strings.Contains(fmt.Sprint(warnings), volume) {
		t.Errorf("%v, the VM is there %t, the medium %t: %+v", err, is, kept, warnings)
	}
}
