package create

import (
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestWhatIsKeptIsNeverTakenBack: a later create with the same name takes back what a dead one left, but not what the
// user wanted kept.
func TestWhatIsKeptIsNeverTakenBack(t *testing.T) {
	end := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if got := (Request{OnFailure: Keep}).until(end); got.Before(end.AddDate(100, 0, 0)) {
		t.Errorf("what is kept may be taken back from %s on", got)
	}
	if got := (Request{UndoTimeout: time.Minute}).until(end); got != end.Add(time.Minute) {
		t.Errorf("the lease of a create and its undo ends %s", got)
	}
	s := guest.NewMark("pve1", 100, (Request{OnFailure: Keep}).until(end))
	if back, ok := guest.ParseMark(s.String()); !ok || back != s {
		t.Errorf("the mark does not survive: %v", back)
	}
}

// TestBaselineStorages: those that the configuration names, and a source's, and no other.
func TestBaselineStorages(t *testing.T) {
	r := Request{Clone: &guest.Clone{Storage: "c"}, Spec: vm.Spec{Disks: map[string]vm.Disk{"scsi0": {Storage: "a"},
		"scsi1": {}},
		EFIDisk: &vm.EFIDisk{Storage: "hidden"}, TPMState: &vm.TPMState{Storage: "a"}}}
	from := &source{node: "pve1", storages: storagesOf(map[string]string{"scsi0": "bb:vm-1-disk-0,size=1G",
		"ide2": "iso:iso/a.iso,media=cdrom", "name": "bb:x"})}
	if got := strings.Join(writtenTo(r, from), " "); got != "a bb c hidden" {
		t.Errorf("got %q", got)
	}
}
