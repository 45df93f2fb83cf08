package permissions_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// lockedBuffer is a log that several goroutines write to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

const secretVM = `
resource "proxmox_vm" "x" {
  name  = "x"
  node  = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
  cloud_init = { storage = "local-zfs", user = "ops", ssh_keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8Yd3Qe0mUqL3n7l0aFv5l6C0lO1b0m2YF7m7m3m3m3 ops@example"] }
  cloud_init_password_wo         = "correct-horse-battery"
  cloud_init_password_wo_version = 1
}
`

// TestNoSecretIsDisclosed: on success and on failure, no secret is in the logs at TRACE, in a diagnostic or in state.
func TestNoSecretIsDisclosed(t *testing.T) {
	t.Parallel()
	faults := map[string][]fault.Rule{
		"no fault":      nil,
		"refused":       {{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: fault.Before, Reason: "cannot take cipassword correct-horse-battery"}},
		"task fails":    {{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: fault.Task, Reason: "bad value correct-horse-battery"}},
		"worker killed": {{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: fault.KillTask}},
		"answer lost":   {{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: fault.After}},
		"login refused": {{Match: fault.Match{Path: "/access/ticket"}, Phase: fault.Before, Times: 9, Status: 401, Reason: "authentication failure"}},
	}
	for name, rules := range faults {
		for _, id := range rig.Identities() {
			w, log := rig.NewWorld(t), &lockedBuffer{}
			w.LogTo(log)
			s := w.Session(t, id, secretVM)
			w.Sim.SetFaults(rules)
			err := s.Run(t.Context())
			if (err == nil) != (rules == nil || name == "answer lost" || name == "login refused" && id != rig.RootTicket) {
				t.Errorf("%s, %s: %v", name, id, err)
			}
			told := log.String()
			if !strings.Contains(told, "/nodes/pve1/qemu") && name != "login refused" {
				t.Fatalf("%s: the log has no requests in it: the test proves nothing", name)
			}
			for _, d := range s.Diagnostics() {
				told += d.String()
			}
			for _, address := range s.Addresses() {
				i, err := s.Instance(address)
				if err != nil {
					t.Fatal(err)
				}
				told += terraformtest.ShowValue(i.Value) + string(i.Private)
			}
			c := w.Sim.Credentials()
			secrets := map[string]string{"the cloud-init password": "correct-horse-battery", "root's password": c.RootPassword,
				"the SSH key": strings.Split(string(w.Sim.SSHPrivateKeyPEM()), "\n")[1]}
			for _, token := range []string{c.Token, c.TokenNoAllocate, c.RootToken} {
				_, secrets["token "+token[:8]], _ = strings.Cut(token, "=")
			}
			for what, secret := range secrets {
				if strings.Contains(told, secret) {
					t.Errorf("%s, %s: %s is told:\n%s", name, id, what, around(told, secret))
				}
			}
			if strings.Contains(log.String(), "PVE:root@pam:") {
				t.Errorf("%s, %s: a ticket is in the log:\n%s", name, id, around(told, "PVE:root@pam:"))
			}
		}
	}
}

func around(text, needle string) string {
	i := strings.Index(text, needle)
	return text[max(0, i-200):min(len(text), i+200)]
}
