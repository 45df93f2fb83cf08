package create

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestBaselineStorages: those that the configuration names, and a source's, and no other.
func TestBaselineStorages(t *testing.T) {
	r := Request{Clone: &guest.Clone{Storage: "c"}, Spec: vm.Spec{Disks: map[string]vm.Disk{"scsi0": {Storage: "a"},
		"scsi1": {}},
		EFIDisk: &vm.EFIDisk{Storage: "hidden"}, TPMState: &vm.TPMState{Storage: "a"}}}
	from := &source{node: "pve1", storages: storagesOf(map[string]string{"scsi0": "bb:vm-1-disk-0,size=1G",
		"ide2": "iso:iso/a.iso,media=cdrom", "name": "bb:x",
		"description": "text:vm-1-disk-9"})}
	if got := strings.Join(writtenTo(r, from), " "); got != "a bb c hidden" {
		t.Errorf("got %q", got)
	}
}
