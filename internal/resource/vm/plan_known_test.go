package vm

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// open are the attributes of a plan that are not known.
func open(planned tftypes.Value) map[string]bool {
	all := map[string]bool{}
	_ = tftypes.Walk(planned, func(at *tftypes.AttributePath, v tftypes.Value) (bool, error) {
		if !v.IsKnown() {
			all[at.String()] = true
		}
		return true, nil
	})
	return all
}

// TestPlanLeavesOpenOnlyWhatTheServerChooses: a plan of a new VM leaves open only what the server chooses; one that grows a disk or changes a tag leaves open
// nothing.
func TestPlanLeavesOpenOnlyWhatTheServerChooses(t *testing.T) {
	f, _ := obedient(t)
	s := newSession(t, f)
	config := plain()
	planned, _ := s.plan(rawOf(t, s.v, config))
	if unknown := open(planned); len(unknown) > 14 {
		t.Errorf("%d attributes of a new VM are not known: %v", len(unknown), unknown)
	}
	s.apply(config)
	s.quiet()
	for name, change := range map[string]func(*model.Model){
		"a disk that grows": func(m *model.Model) { m.Disks = map[string]model.Disk{"scsi0": size("8G")} },
		"a tag":             func(m *model.Model) { m.Tags = []string{"web"} },
	} {
		config := plain()
		change(&config)
		planned, _ := s.plan(rawOf(t, s.v, config))
		unknown := open(planned)
		for _, followed := range []string{"status", "pending_changes", "unused_volumes"} {
			if unknown[`AttributeName("`+followed+`")`] {
				t.Errorf("%s: %s is not known", name, followed)
			}
		}
	}
	config.CPU.Cores = new(int64(3))
	for policy, isOpen := range map[string]bool{"auto": false, "force": false, "never": true} {
		config.RebootPolicy = &policy
		if planned, _ = s.plan(rawOf(t, s.v, config)); open(planned)[`AttributeName("pending_changes")`] != isOpen {
			t.Errorf("%s: pending_changes is open: %t", policy, !isOpen)
		}
	}
}
