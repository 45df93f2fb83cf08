package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const acting = `
resource "proxmox_vm" "web" {
  node  = "pve1"
  vmid  = 500
  name  = "web"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }

  lifecycle {
    action_trigger {
      events  = [after_create]
      actions = [action.proxmox_vm_power.pause]
    }
  }
}

action "proxmox_vm_power" "pause" {
  config {
    vmid   = proxmox_vm.web.vmid
    uuid   = proxmox_vm.web.uuid
    action = "suspend"
  }
}

action "proxmox_vm_power" "on" {
  config {
    vmid   = proxmox_vm.web.vmid
    uuid   = proxmox_vm.web.uuid
    action = "resume"
  }
}

action "proxmox_vm_unlock" "backup" {
  config {
    vmid = 500
    lock = "backup"
  }
}

data "proxmox_orphans" "all" {}

action "proxmox_orphan_delete" "all" {
  for_each = { for o in data.proxmox_orphans.all.orphans : o.id => o if o.certainty == "certain" }
  config {
    kind  = each.value.kind
    id    = each.value.id
    node  = each.value.node
    since = each.value.since
  }
}
`

// TestAccActions invokes the actions with the CLI, by hand and by a trigger: what they tell is shown, what they refuse is an error, and one
// address removes all orphans that a data source lists.
func TestAccActions(t *testing.T) {
	atHome(t)
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	program := os.Getenv("TF_ACC_TERRAFORM_PATH")
	var is struct {
		Version string `json:"terraform_version"`
	}
	out, err := exec.CommandContext(t.Context(), program, "version", "-json").Output()
	rig.Must(t, err)
	rig.Must(t, json.Unmarshal(out, &is))
	if !hasIt(t, is.Version, since(t, strings.Contains(filepath.Base(program), "tofu"))["actions, `terraform apply -invoke`"]) {
		t.Skipf("%s %s has no actions", program, is.Version)
	}
	w := rig.NewWorld(t, pvesim.Options{RealNetwork: true})
	w.Change(func(world *state.World) {
		for n := range 3 {
			world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: fmt.Sprintf("777/vm-777-disk-%d.raw", n), VMID: 777,
				Content: "images", Format: "raw", Size: 1 << 30}) // a directory tells when, so no maker is at work
		}
	})
	w.Sim.Advance(time.Hour)
	ws := rig.NewWorkspace(t, w, rig.DevOverride(t, t.TempDir()), map[string]string{"main.tf": w.ProviderBlock(rig.TokenSSH) + acting,
		"versions.tf": "terraform {\n  required_providers {\n    proxmox = { source = \"terraform-proxmox/proxmox\" }\n  }\n}\n"})
	does := func() (does string) {
		w.Change(func(world *state.World) {
			if g := world.Guests[500]; g != nil && g.Running != nil {
				does = g.Running.QMPStatus + " " + g.Lock()
			}
		})
		return strings.TrimSpace(does)
	}
	wants := func(text string, all ...string) {
		t.Helper()
		for _, want := range all {
			if !strings.Contains(text, want) {
				t.Errorf("it does not say %q but\n%s", want, text)
			}
		}
	}
	invoke := func(address string) (string, error) {
		return ws.Try(t, "apply", "-auto-approve", "-invoke=action."+address)
	}
	wants(ws.Says(t, "apply", "-auto-approve"), "action.proxmox_vm_power.pause", "Task UPID", "1 added")
	if got := does(); got != "paused" {
		t.Errorf("after the trigger it is %q", got)
	}
	text, err := invoke("proxmox_vm_power.on")
	if wants(text, "Task UPID"); err != nil || does() != "running" {
		t.Errorf("resumed it is %q, %v", does(), err)
	}
	text, err = invoke("proxmox_vm_power.on")
	if wants(text, "runs: there is nothing to do"); err != nil {
		t.Error(err)
	}
	w.Sim.StaleLock(500, "backup", "")
	text, err = invoke("proxmox_vm_unlock.backup")
	if wants(text, "none that died over it is known"); err == nil || does() != "running backup" {
		t.Errorf("it is %q, %v", does(), err)
	}
	w.Sim.StaleLock(500, "backup", "root@pam")
	text, err = invoke("proxmox_vm_unlock.backup")
	if wants(text, "The lock (backup) of VM 500 on node pve1 was removed"); err != nil || does() != "running" {
		t.Errorf("it is %q, %v", does(), err)
	}
	text, err = invoke("proxmox_orphan_delete.all")
	if wants(text, "vm-777-disk-0.raw was removed", "vm-777-disk-1.raw was removed", "vm-777-disk-2.raw was removed", "3 invoked"); err != nil {
		t.Error(err)
	}
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.VMID == 777 {
				t.Errorf("%s is left", v.Volid())
			}
		}
	})
	ws.Run(t, "destroy", "-auto-approve")
}
