package update

import (
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// holder is the VM that holds the disk.
const holder = 300

// TestGiveBackDiskOfTwo: a held disk that a third party attaches at the same moment is given back, and the report on
// it is true whatever becomes of that request.
func TestGiveBackDiskOfTwo(t *testing.T) {
	const config = "/nodes/{node}/qemu/{vmid}/config"
	for name, c := range map[string]struct {
		slot    string
		running bool
		phase   fault.Phase // of the request that gives back, or of the first one
		first   bool
		words   string
		keeps   bool
	}{
		"given back":         {slot: "scsi3", words: "was given back"},
		"its answer is lost": {slot: "scsi3", phase: fault.After, words: "was given back"},
		"it is refused": {slot: "scsi3", phase: fault.Before, words: "is attached to two guests",
			keeps: true},
		"the answer to the attachment is lost": {slot: "scsi3", first: true, phase: fault.After, words: "was given back"},
		"of a guest that runs":                 {slot: "scsi3", running: true, words: "was given back"},
		"from a slot without hotplug":          {slot: "sata3", running: true, words: "was given back"},
		"from such a slot, answer lost":        {slot: "sata3", running: true, phase: fault.After, words: "was given back"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsihw": "virtio-scsi-pci"})
			w.task(w.api.Node("pve1").CreateVM(t.Context(), pve.Params{"vmid": "300", vm.HolderSlot: "local-zfs:1",
				"description": vm.HolderDescription(""), "protection": "1"}))
			if c.running {
				w.start()
			}
			r := w.request()
			volume := "local-zfs:vm-300-disk-0"
			r.Planned.Disks = map[string]vm.Disk{c.slot: {Volume: volume}}
			w.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Attach, VMID: holder,
				Before: fault.Match{Method: http.MethodPut, Path: config}}})
			if nth := map[bool]int{true: 1, false: 2}[c.first]; c.phase != "" {
				w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: config, Nth: nth}, Phase: c.phase}})
			}
			_, _, err := w.update(r)
			if err == nil || !strings.Contains(err.Error(), volume+" "+c.words) {
				t.Errorf("want %q, got %v", c.words, err)
			}
			if reports := w.sim.Reports(); len(reports) != 1 || !reports[0].Done {
				t.Fatalf("reports: %+v\n%v", reports, w.writes())
			}
			if has := strings.Contains(w.config()[c.slot], volume); has != c.keeps {
				t.Errorf("%s has it: %v, want %v\n%v", c.slot, has, c.keeps, w.writes())
			}
			if c.phase != "" && w.sim.FaultsFired() != 1 {
				t.Errorf("%d faults\n%v", w.sim.FaultsFired(), w.writes())
			}
		})
	}
}

// TestGiveBackDeviceOfTwo: a third party gives a device to VM 8000 as soon as this VM has got it, before it starts on it.
func TestGiveBackDeviceOfTwo(t *testing.T) {
	for _, running := range []bool{true, false} {
		w := newWorld(t, pve.Params{"scsihw": "virtio-scsi-pci"})
		root := w.asRoot(t)
		if running {
			w.start()
		}
		r := w.request()
		r.Planned.Disks, r.PowerState = map[string]vm.Disk{"scsi3": {Volume: passed}}, guest.Running
		w.answered = func() {
			if w.sent("/config") > 0 {
				w.answered = nil
				w.must(root.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"scsi5": passed}))
			}
		}
		_, _, err := w.update(r)
		if err == nil || !strings.Contains(err.Error(), passed+" was given back") || !strings.Contains(err.Error(), "VM 8000") {
			t.Errorf("running %t: %v", running, err)
		}
		if is := w.config()["scsi3"]; is != "" || w.sent("/status/start") > 0 {
			t.Errorf("running %t: scsi3 is %q after %v", running, is, w.writes())
		}
	}
}
