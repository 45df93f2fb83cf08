package vm

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// TestPlanKeepsADiskGrownByHand: a disk that a third party has grown stays as it is, and stops no plan. A size that is lowered in the
// configuration is refused, with the ways out.
func TestPlanKeepsADiskGrownByHand(t *testing.T) {
	f, server := obedient(t)
	s := newSession(t, f)
	config := plain()
	s.apply(config)
	grow := func(gib int64) {
		disk := server.Disks["scsi0"]
		disk.Size = new(gib << 30)
		server.Disks["scsi0"] = disk
	}
	for _, gib := range []int64{15, 16} { // twice, with a state that is written between
		grow(gib)
		s.refresh()
		planned, _ := s.plan(rawOf(t, s.v, config))
		s.says(isWarning, "not 4G", "ignore_changes = [disks[\"scsi0\"].size]", "outside of Terraform")
		if s.failed() || !planned.Equal(s.state) {
			t.Fatalf("a disk that has grown is planned: %v", s.texts())
		}
		config.Description = new(strings.Repeat("x", int(gib))) // another change passes by it
		s.apply(config)
		if size := model.Value(s.model().Disks["scsi0"].Size); s.failed() || size != map[int64]string{15: "15G", 16: "16G"}[gib] {
			t.Errorf("size %s, %v", size, s.texts())
		}
	}
	config.Disks["scsi0"] = size("16G")
	s.apply(config)
	s.quiet()
	config.Disks["scsi0"] = size("4G") // on purpose, now that it was 16G
	s.plan(rawOf(t, s.v, config))
	s.says(isError, "cannot be shrunk to 4G", "size = \"16G\"", "ignore_changes")
	config.Disks["scsi0"] = size("20G")
	s.apply(config)
	s.quiet()
}

// TestPlanReplacesATemplateThatIsToBeAVM: a template that is to be a VM again is replaced, as the guide says; so nothing stops its destroy.
func TestPlanReplacesATemplateThatIsToBeAVM(t *testing.T) {
	f, _ := obedient(t)
	s := newSession(t, f)
	config := plain()
	config.Template = new(true)
	s.apply(config)
	config.Template = nil
	s.plan(rawOf(t, s.v, config))
	if s.failed() || len(s.replaces) != 1 || !strings.Contains(s.replaces[0].String(), "template") {
		t.Errorf("replaced for %v, %v", s.replaces, s.texts())
	}
}
