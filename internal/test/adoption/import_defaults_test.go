package adoption_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestImportWithDefaults: a running VM is imported with a configuration that names what is true of it anyway. Nothing is
// sent for it, nothing is restarted, and what only the provider reads makes no request either.
func TestImportWithDefaults(t *testing.T) {
	t.Parallel()
	const body = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\nnetworks = { net0 = { bridge = \"vmbr0\" } }\n"
	const defaults = `onboot = false
protection = false
acpi = true
bios = "seabios"
agent = { enabled = false, type = "virtio" }
cpu = { numa = false, limit = 0 }
`
	l := rig.NewVM(t, body)
	l.Session.Forget(rig.VMAddress)
	l.Configure(body + defaults)
	if err := l.Session.Import(t.Context(), rig.VMAddress, "pve1/400"); err != nil {
		t.Fatal(err)
	}
	if pl := l.Plan(body + defaults); !pl.Empty() {
		t.Errorf("the import plans:\n%s", pl)
	}
	own := body + defaults + "power_state = \"running\"\non_destroy = { power_off = \"force\" }\ntimeouts = { create = \"45m\" }\n" +
		"reboot_policy = \"never\"\nshutdown_timeout = \"90s\"\n"
	l.To(own)
	for _, call := range l.World.Calls() {
		if call.RPC != "ApplyResourceChange" && call.RPC != "PlanResourceChange" {
			continue
		}
		for _, op := range call.Ops {
			if !strings.HasPrefix(op.Path, "/access") {
				t.Errorf("%s asks %s %s", call.RPC, op.Method, op.Path)
			}
		}
	}
	l.WantSent()
	l.To(body) // and taking the defaults out again
	l.WantSent()
	l.WantRunning()
}
