package acctest_test

import (
	"strings"
	"testing"
)

// TestFound33AdoptedWithDefaults: a running VM is imported with a configuration that names what is true of it anyway. Nothing is
// sent for it, nothing is restarted, and what only the provider reads makes no request either.
func TestFound33AdoptedWithDefaults(t *testing.T) {
	t.Parallel()
	const body = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\nnetworks = { net0 = { bridge = \"vmbr0\" } }\n"
	const defaults = `onboot = false
protection = false
acpi = true
bios = "seabios"
agent = { enabled = false, type = "virtio" }
cpu = { numa = false, limit = 0 }
`
	l := newLife(t, body)
	l.s.Forget(lifeAddress)
	l.configure(body + defaults)
	if err := l.s.Import(t.Context(), lifeAddress, "pve1/400"); err != nil {
		t.Fatal(err)
	}
	if pl := l.plan(body + defaults); !pl.Empty() {
		t.Errorf("the import plans:\n%s", pl)
	}
	own := body + defaults + "power_state = \"running\"\non_destroy = { power_off = \"force\" }\ntimeouts = { create = \"45m\" }\n" +
		"reboot_policy = \"never\"\nshutdown_timeout = \"90s\"\n"
	l.to(own)
	for _, call := range l.w.Calls() {
		if call.RPC != "ApplyResourceChange" && call.RPC != "PlanResourceChange" {
			continue
		}
		for _, op := range call.Ops {
			if !strings.HasPrefix(op.Path, "/access") {
				t.Errorf("%s asks %s %s", call.RPC, op.Method, op.Path)
			}
		}
	}
	l.wantSent()
	l.to(body) // and taking the defaults out again
	l.wantSent()
	l.steady()
}
