package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// TestPlanLines counts the lines that a CLI prints of a plan, from the first resource to the summary: a reader of a review
// finds what changes without scrolling. The whole counts those of all cases.
func TestPlanLines(t *testing.T) {
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	w := rig.NewWorld(t, pvesim.Options{RealNetwork: true})
	ws := rig.NewWorkspace(t, w, rig.DevOverride(t, t.TempDir()), nil)
	const groups = "  cpu        = { cores = %d }\n  memory     = { size = 2048 }\n  networks   = { net0 = { model = \"virtio\", bridge = \"vmbr0\" } }\n"
	readme := func(from, disk, cloudInit string) string {
		return fmt.Sprintf("  name = \"web-1\"\n%s  cpu = { cores = 2 }\n  memory = { size = 2048 }\n  disks = { scsi0 = { %ssize = \"32G\" } }\n"+
			"  networks = { net0 = { model = \"virtio\", bridge = \"vmbr0\" } }\n  cloud_init = { %suser = \"ops\", addresses = { net0 = { ipv4 = \"10.0.0.5/24\", "+
			"gateway4 = \"10.0.0.1\" } } }\n", from, disk, cloudInit)
	}
	const clone, many = "  clone = { vmid = 9000, full = true, storage = \"local-zfs\" }\n", "  count = 20\n  node = \"pve1\"\n  tags = [\"web\"%s]\n"
	plan := func(name, body string) int {
		ws.Write(t, "main.tf", "terraform {\n  required_providers {\n    proxmox = { source = \"terraform-proxmox/proxmox\" }\n  }\n}\n\nresource \"proxmox_vm\" \"x\" {\n"+body+"}\n")
		said := ws.Says(t, "plan")
		_, text, _ := strings.Cut(said, "  # proxmox_vm")
		text, _, _ = strings.Cut(text, "\nPlan: ")
		lines := strings.Count(text, "\n")
		t.Logf("%s: %d lines\n%s", name, lines, text)
		return lines
	}
	atMost := func(name, body string, most int) {
		if lines := plan(name, body); lines > most {
			t.Errorf("%s: %d lines, want at most %d", name, lines, most)
		}
	}
	atMost("a clone with three configured groups", clone+fmt.Sprintf(groups, 2), 60) // of which 14 are options that the next template does not have
	scratch := func(cores int) string {
		return fmt.Sprintf("  node = \"pve1\"\n  name = \"web-1\"\n  disks = { scsi0 = { storage = \"local-zfs\", size = \"32G\" } }\n"+groups, cores)
	}
	atMost("the same from scratch", scratch(2), 40)
	if !share.IsWhole() {
		return
	}
	atMost("the README's VM", readme(clone, "", ""), 75)
	atMost("the README's VM from scratch", readme("  node = \"pve1\"\n", "storage = \"local-zfs\", ", "storage = \"local-zfs\", "), 51)
	w.Change(func(world *state.World) {
		for _, option := range []string{"agent", "description", "onboot", "protection", "tags"} {
			delete(world.Guests[9000].Config, option)
		}
	})
	atMost("a clone of a plain template", clone+fmt.Sprintf(groups, 2), 46)
	plan("from scratch", scratch(2))
	ws.Run(t, "apply", "-auto-approve")
	atMost("cores 2 -> 4", scratch(4), 9)
	ws.Run(t, "destroy", "-auto-approve")
	plan("twenty VMs", fmt.Sprintf(many, ""))
	ws.Run(t, "apply", "-auto-approve")
	atMost("a tag on twenty VMs", fmt.Sprintf(many, ", \"blue\""), 279)
	ws.Run(t, "destroy", "-auto-approve")
}
