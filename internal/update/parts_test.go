package update

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestPartsOfAnOptionThatOthersChange: the plan changes one part of an option. Since the plan a third party has changed
// another one: the VLAN of a device (a quarantine), its bridge, whether a disk is backed up, a flag of the processor.
// PVE takes an option whole (qemu-server API2/Qemu.pm update_vm_api), and both changes stand after the apply.
func TestPartsOfAnOptionThatOthersChange(t *testing.T) {
	queues := func(r *Request) {
		n := r.Planned.Networks["net0"]
		n.Queues = new(int64(4))
		r.Planned.Networks = map[string]vm.NIC{"net0": n}
	}
	discards := func(r *Request) { with(r, "scsi0", func(d *vm.Disk) { d.Discard = new(true) }) }
	hides := func(r *Request) { r.Planned.CPU.Hidden = new(true) }
	gets := func(r *Request) {
		r.Planned.CloudInit.Addresses = map[string]vm.Address{"net0": {IPv4: new("dhcp"), IPv6: new("auto")}}
	}
	for name, c := range map[string]struct {
		option, was, from, to string // what the third party changes
		change                func(*Request)
		ours                  string
	}{
		"vlan":   {"net0", "virtio,bridge=vmbr0,tag=10", "tag=10", "tag=666", queues, "queues=4"},
		"bridge": {"net0", "virtio,bridge=vmbr0", "vmbr0", "vmbr1", queues, "queues=4"},
		"taken":  {"net0", "virtio,bridge=vmbr0,tag=10", ",tag=10", "", queues, "queues=4"},
		"backup": {"scsi0", "local-zfs:1,backup=0", "backup=0", "backup=1", discards, "discard=on"},
		"flags":  {"cpu", "host,flags=+aes", "+aes", "+aes;+spec-ctrl", hides, "hidden=1"},
		"route":  {"ipconfig0", "ip=dhcp", "ip=dhcp", "gw=10.0.0.1,ip=10.0.0.7/24", gets, "ip6=auto"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{c.option: c.was})
			r := w.request()
			c.change(&r)
			theirs := strings.Replace(w.config()[c.option], c.from, c.to, 1)
			w.must(w.api.QEMU("pve1", theVM).UpdateConfig(t.Context(), pve.Params{c.option: theirs}))
			_, _, err := w.update(r)
			is := w.config()[c.option]
			if err != nil || !strings.Contains(is, c.to) || c.to == "" && strings.Contains(is, c.from) || !strings.Contains(is, c.ours) {
				t.Errorf("%s is %q: %v", c.option, is, err)
			}
		})
	}
}
