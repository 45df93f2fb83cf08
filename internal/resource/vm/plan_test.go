package vm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// texts are the diagnostics of the last operation, in order.
func (s *session) texts() []string {
	var all []string
	for _, d := range s.diags {
		all = append(all, fmt.Sprintf("%s %s: %s", d.Severity, d.Attribute, d.Summary+"\n"+d.Detail))
	}
	return all
}

// TestStableDiagnostics: a plan with much to say says it in the same order every time.
func TestStableDiagnostics(t *testing.T) {
	f, _ := obedient(t)
	s := newSession(t, f)
	full, less := plain(), plain()
	full.Hotplug, full.Protection, less.Protection = []string{"network"}, new(true), new(true)
	for _, slot := range []string{"scsi1", "scsi2", "scsi10", "virtio0", "sata0", "ide0"} {
		full.Disks[slot] = size("1G")
	}
	full.CDROMs = map[string]model.CDROM{"ide2": {File: new("none")}, "ide3": {File: new("none")}, "sata1": {File: new("none")}}
	full.EFIDisk, full.TPMState = &model.EFIDisk{Storage: new("local-zfs")}, &model.TPMState{Storage: new("local-zfs")}
	full.CloudInit = &model.CloudInit{Storage: new("local-zfs"), Slot: new("sata2")}
	full.BootOrder = []string{"scsi1", "scsi2"}
	for _, slot := range []string{"scsi20", "scsi21", "scsi22"} {
		less.Disks[slot] = model.Disk{Size: new("1G")}
	}
	s.apply(full)
	if s.failed() {
		t.Fatal(s.texts())
	}
	var first []string
	for i := range 40 {
		s.plan(rawOf(t, s.v, less))
		if i == 0 {
			first = s.texts()
		}
		if now := s.texts(); !slices.Equal(now, first) {
			t.Fatalf("in another order:\n%q\n%q", first, now)
		}
	}
	if len(first) < 15 {
		t.Errorf("only %d diagnostics: %q", len(first), first)
	}
}

// TestSlotChangeWithoutHotplug: a disk changes its slot in a running VM where both slots wait for a restart; it is refused
// where PVE fills the new slot at once and empties the old one later.
func TestSlotChangeWithoutHotplug(t *testing.T) {
	for name, c := range map[string]struct {
		hotplug []string
		refused bool
	}{
		"with hotplug of disks":    {[]string{"disk", "network"}, true},
		"by default":               {nil, true},
		"without hotplug of disks": {[]string{"network"}, false},
	} {
		f, server := obedient(t)
		s := newSession(t, f)
		before, after := plain(), plain()
		before.Hotplug, after.Hotplug = c.hotplug, c.hotplug
		before.Disks["ide0"] = size("1G")
		s.apply(before)
		volume := server.Disks["ide0"].Volume
		after.Disks["scsi1"] = model.Disk{Imported: &model.ImportedDisk{Volume: &volume}}
		s.plan(rawOf(t, s.v, after))
		if s.failed() != c.refused {
			t.Errorf("%s: refused %t, %q", name, s.failed(), s.texts())
		}
		if !c.refused {
			s.says(isWarning, "will be restarted", "ide0, scsi1")
		}
	}
}
