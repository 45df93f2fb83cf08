package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestUUIDOfAStoppedVMChanges: a VM that is off gets another uuid, and is known by it from then on.
func TestUUIDOfAStoppedVMChanges(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, rig.Stopped)
	const uuid = "0d4e83a9-947b-41d9-acb7-93796cdd896b"
	l.To(rig.Stopped + "smbios = { uuid = \"" + uuid + "\" }\n")
	if now := l.Attr("uuid"); !strings.Contains(now, uuid) {
		t.Errorf("the uuid in state is %s", now)
	}
	l.To(rig.Stopped + "smbios = { uuid = \"" + strings.ToUpper(strings.Replace(uuid, "0d", "1d", 1)) + "\" }\ndescription = \"x\"\n")
	rig.Must(t, l.Session.Destroy(t.Context()))
	l.GuestIsGone()
}
