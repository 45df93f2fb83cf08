package conformance_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/capture"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// captured is a configuration with something of all that a look at a cluster brings home.
const captured = `
resource "proxmox_vm" "web" {
  name        = "web-1"
  node        = "pve1"
  pool        = "web"
  tags        = ["a", "b"]
  description = "größer\nsecond line: 'quotes' # and more"
  clone       = { vmid = 9000, full = true, storage = "local-zfs" }
  cpu         = { cores = 2 }
  memory      = { size = 2048 }
  agent       = { enabled = true }
  protection  = false
  disks = {
    scsi0 = { size = "10G" }
    scsi1 = { storage = "local-lvm", size = "4G" }
  }
  networks = {
    net0 = { model = "virtio", bridge = "vmbr0" }
  }
  cloud_init = {
    user      = "ops"
    ssh_keys  = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"]
    addresses = { net0 = { ipv4 = "10.0.0.5/24", gateway4 = "10.0.0.1" } }
  }
  firewall = {
    enabled = true
    rules   = [{ type = "in", action = "ACCEPT", macro = "ssh", source = "10.0.0.0/8" }]
  }
  ha          = { state = "started", max_restart = 3 }
}

resource "proxmox_vm" "bare" {
  name        = "bare"
  node        = "pve2"
  power_state = "stopped"
  disks       = { scsi0 = { storage = "local-zfs", size = "8G" } }
}

resource "proxmox_vm_snapshot" "before" {
  vmid = proxmox_vm.bare.vmid
  name = "before"
}
`

// TestCapturedWorldPlansEmpty: what the provider made on a cluster it finds again on the simulator that serves a look at that cluster, and
// there it can go on: change it, and take it away.
func TestCapturedWorldPlansEmpty(t *testing.T) {
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, captured)
	p, err := s.Plan(t.Context())
	rig.Must(t, err)
	rig.Must(t, s.Apply(t.Context(), p))
	f, err := capture.Run(t.Context(), capture.Config{
		Endpoint: w.Sim.Endpoint(), Token: w.Sim.Credentials().RootToken, CACertificate: w.Sim.CAPEM(), DialContext: w.Sim.DialContext,
		Texts: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	var document bytes.Buffer
	if err := f.Write(&document); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(document.String(), "geheim") {
		t.Error("the password is in the file")
	}
	world, err := state.Read(document.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	there := rig.NewWorld(t, pvesim.Options{World: world})
	again := there.Session(t, rig.RootTicket, captured)
	again.RestoreState(s.SaveState())
	p, err = again.Plan(t.Context())
	rig.Must(t, err)
	if !p.Empty() {
		t.Errorf("the plan on the captured world is not empty:\n%s", p)
	}
	there.Reconfigure(t, again, rig.RootTicket, strings.Replace(captured, "cores = 2", "cores = 4", 1))
	p, err = again.Plan(t.Context())
	rig.Must(t, err)
	rig.Must(t, again.Apply(t.Context(), p))
	there.ExpectPowerOffs(state.PowerShutdown, state.PowerStop, state.PowerReboot)
	if err := again.Destroy(t.Context()); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	there.Change(func(left *state.World) {
		for id, g := range left.Guests {
			if g.Config["name"] == "web-1" || g.Config["name"] == "bare" {
				t.Errorf("guest %d is left", id)
			}
		}
	})
}
