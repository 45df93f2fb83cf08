package vm

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// TestPlanResetsOnlyWhatTerraformHasSet: a value that an import has found and the configuration only repeats is left alone when it
// leaves the configuration, whether an update of something else came between or not. A value that Terraform has set is reset.
func TestPlanResetsOnlyWhatTerraformHasSet(t *testing.T) {
	for name, between := range map[string]bool{"at once": false, "after another update": true} {
		f, server := obedient(t)
		first := newSession(t, f)
		full := plain()
		full.OnBoot, full.SCSIHW, full.Description = new(true), new("virtio-scsi-single"), new("one")
		first.apply(full)
		f.adopt = func(string, int) (guest.Guest, error) { return guestOf(*server, ""), nil }
		s := newSession(t, f)
		s.adopt("100")
		s.refresh()
		if between {
			full.Description = new("two")
			s.apply(full)
			s.quiet()
		}
		less := plain()
		less.Description = full.Description
		planned, _ := s.plan(rawOf(t, s.v, less))
		if after := modelOf(t, s.v, planned); model.Value(after.SCSIHW) != "virtio-scsi-single" || !model.Value(after.OnBoot) {
			t.Errorf("%s: reset: %v, %v", name, after.SCSIHW, after.OnBoot)
		}
		less.Description = nil
		planned, _ = s.plan(rawOf(t, s.v, less))
		if after := modelOf(t, s.v, planned); (after.Description == nil) != between {
			t.Errorf("%s: the description that Terraform has set or not: %v", name, after.Description)
		}
	}
	f, _ := obedient(t)
	s := newSession(t, f)
	full := plain()
	full.SCSIHW = new("virtio-scsi-single")
	s.apply(full)
	planned, _ := s.plan(rawOf(t, s.v, plain()))
	if modelOf(t, s.v, planned).SCSIHW != nil {
		t.Error("what Terraform has set is not reset")
	}
	s.says(isWarning, "scsihw of VM 100", "is reset", "lsi")
}
