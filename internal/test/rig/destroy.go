package rig

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// destroyedVM is a VM that the tests of destroy make; LINES is replaced by them.
const destroyedVM = `
resource "proxmox_vm" "x" {
  name   = "doomed"
  vmid   = 400
  node   = "pve1"
  pool   = "web"
  disks  = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local", size = "1G" } }
LINES
}
`

// DestroyBlock returns the VM that the tests of destroy make, with further lines.
func DestroyBlock(lines string) string { return strings.Replace(destroyedVM, "LINES", lines, 1) }

// Applied applies a configuration in a new world, and returns the previous content of the world.
func Applied(t *testing.T, who Identity, hcl string) (*World, *terraformtest.Session) {
	t.Helper()
	w := NewWorld(t)
	s := w.Session(t, who, hcl)
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Sim.ResetPowerOffs()
	return w, s
}

// TracesOf lists what there is of a VM.
func TracesOf(w *World, vmid int) (found []string) {
	w.Change(func(world *state.World) {
		if world.Guests[vmid] != nil {
			found = append(found, "configuration")
		}
		for _, v := range world.Volumes {
			if v.VMID == vmid && v.Content == "images" {
				found = append(found, v.Volid()+" on "+v.Node)
			}
		}
		for _, p := range world.Pools {
			if slices.Contains(p.Guests, vmid) {
				found = append(found, "pool "+p.ID)
			}
		}
		if world.Firewall[vmid] != nil {
			found = append(found, "firewall")
		}
		if world.HA[fmt.Sprint("vm:", vmid)] != nil {
			found = append(found, "HA")
		}
		for id, job := range world.Replication {
			if job.Guest == vmid {
				found = append(found, "replication job "+id)
			}
		}
		for id, job := range world.Backups {
			if slices.Contains(job.VMIDs, vmid) {
				found = append(found, "backup job "+id)
			}
		}
	})
	slices.Sort(found)
	return found
}
