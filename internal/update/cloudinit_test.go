package update

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestCloudInitDriveThatOthersUse: PVE frees a cloud-init drive with the option, even if another guest has it.
func TestCloudInitDriveThatOthersUse(t *testing.T) {
	for _, shared := range []bool{true, false} {
		w := newWorld(t, pve.Params{"ide2": "local-zfs:cloudinit"})
		const drive = "local-zfs:vm-400-cloudinit"
		if shared {
			all := w.sim.World()
			all.Lock()
			all.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: "pve1",
				Config: map[string]string{"memory": "512", "ide0": drive + ",media=cdrom"}}
			all.Unlock()
		}
		r := w.request()
		r.Planned.CloudInit = vm.CloudInit{}
		_, _, err := w.update(r)
		if shared != (err != nil) || shared && !strings.Contains(err.Error(), "VM 600") {
			t.Errorf("used by another %t: %v", shared, err)
		}
		if kept := slices.Contains(w.everyVolume(), drive); kept != shared || (w.config()["ide2"] != "") != shared {
			t.Errorf("used by another %t: drive %t, config %v", shared, kept, w.config())
		}
		if shared && len(w.writes()) > 0 {
			t.Errorf("sent %v", w.writes())
		}
	}
}

// TestCloudInitDriveOfAnotherVM: PVE frees a cloud-init drive with the option, also one that carries another VM's id
// (qemu-server QemuServer.pm vmconfig_register_unused_drive). A third party has given VM 600's to this VM.
func TestCloudInitDriveOfAnotherVM(t *testing.T) {
	for what, change := range map[string]func(*vm.Spec){
		"removed": func(s *vm.Spec) { s.CloudInit = vm.CloudInit{} },
		"moved": func(s *vm.Spec) {
			s.CloudInit = vm.CloudInit{Slot: "ide0", Storage: "local-lvm"}
		},
	} {
		for _, used := range []bool{true, false} {
			w := newWorld(t, nil)
			const drive = "local-zfs:vm-600-cloudinit"
			w.put("local-zfs", "vm-600-cloudinit", 600, "")
			w.alter(func(g *state.Guest) { g.Config["ide2"] = drive + ",media=cdrom" })
			if used {
				all := w.sim.World()
				all.Lock()
				all.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: "pve1",
					Config: map[string]string{"memory": "512", "ide2": drive + ",media=cdrom"}}
				all.Unlock()
			}
			r := w.request()
			change(&r.Planned)
			_, _, err := w.update(r)
			kept := slices.Contains(w.everyVolume(), drive)
			if kept != used || used && (err == nil || !strings.Contains(err.Error(), "VM 600")) || !used && err != nil {
				t.Errorf("%s, used by VM 600 %t: kept %t, config %v, %v", what, used, kept, w.config(), err)
			}
		}
	}
}

// TestPendingCloudInitDriveOfAnotherVM: a third party has put VM 600's cloud-init drive into a slot of a running VM, which
// takes it at its next start. PVE frees a pending drive as soon as its slot is set, deleted or reverted (qemu-server
// API2/Qemu.pm update_vm_api).
func TestPendingCloudInitDriveOfAnotherVM(t *testing.T) {
	const drive, own = "local-zfs:vm-600-cloudinit", "local-zfs:vm-400-cloudinit"
	theirs := vm.CloudInit{Slot: "ide2", Storage: "local-zfs", Volume: drive}
	for what, one := range map[string]struct {
		options pve.Params
		change  func(*Request)
	}{
		"deleted": {nil, func(r *Request) { r.Prior.CloudInit = theirs }},
		"set": {nil, func(r *Request) {
			r.Prior.CloudInit = theirs
			r.Planned.CDROMs = map[string]vm.CDROM{"ide2": {File: "none"}}
		}},
		"reverted": {pve.Params{"ide2": "local-zfs:cloudinit"}, func(r *Request) {
			r.Prior.CloudInit = vm.CloudInit{Slot: "ide2", Storage: "local-zfs", Volume: own}
			r.Planned.CloudInit = vm.CloudInit{Slot: "ide2", Storage: "local-lvm"}
		}},
	} {
		for _, used := range []bool{true, false} {
			w := newWorld(t, one.options)
			w.start()
			w.put("local-zfs", "vm-600-cloudinit", 600, "")
			w.alter(func(g *state.Guest) { g.Pending = map[string]string{"ide2": drive + ",media=cdrom"} })
			if used {
				all := w.sim.World()
				all.Lock()
				all.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: "pve1",
					Config: map[string]string{"memory": "512", "ide2": drive + ",media=cdrom"}}
				all.Unlock()
			}
			r := w.request()
			one.change(&r)
			_, _, err := w.update(r)
			kept := slices.Contains(w.everyVolume(), drive)
			if kept != used || used && (err == nil || !strings.Contains(err.Error(), "VM 600")) {
				t.Errorf("%s, used by VM 600 %t: kept %t, config %v, sent %v, %v", what, used, kept, w.config(), w.writes(), err)
			}
		}
	}
}
