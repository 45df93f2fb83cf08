package vm

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
)

// TestPlanOfUnknownDisksRemovesNone: of disks that are not known yet no plan can say that they leave the VM.
func TestPlanOfUnknownDisksRemovesNone(t *testing.T) {
	f, _ := obedient(t)
	s := newSession(t, f)
	config := plain()
	config.RemovedDisks, config.BootOrder = new("destroy"), []string{"scsi0"}
	s.apply(config)
	raw := rawOf(t, s.v, config)
	disks := plan.At(raw, "disks").Type()
	s.plan(plan.Replace(raw, "disks", tftypes.NewValue(disks, tftypes.UnknownValue)))
	if s.failed() || strings.Contains(strings.Join(s.texts(), "\n"), "destroyed with its data") {
		t.Errorf("of unknown disks: %q", s.texts())
	}
	s.says(isWarning, "The disks of VM 100", "not known yet")
	for _, d := range s.diags {
		if at := d.Attribute.String(); at != `AttributeName("disks")` && !strings.HasSuffix(d.Summary, "may be restarted") {
			t.Errorf("%s is on %s", d.Summary, at)
		}
	}
}
