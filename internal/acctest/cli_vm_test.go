package acctest

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
)

const accScratch = `
resource "proxmox_vm" "acc" {
  node        = "NODE"
  vmid        = VMID+0
  name        = "acc-scratch"
  description = "made by an acceptance test"
  tags        = ["acc", "test"]
  ostype      = "l26"
  scsihw      = "virtio-scsi-single"
  bios        = "ovmf"
  machine     = "q35"
  cpu         = { type = "x86-64-v2", cores = 1 }
  memory      = { size = 512 }
  disks = {
    scsi0 = { storage = "STORAGE", size = "1G", discard = true }
    scsi1 = { storage = "STORAGE2", size = "1G" }
  }
  efi_disk   = { storage = "STORAGE", type = "4m", pre_enrolled_keys = false }
  networks   = { net0 = { model = "virtio", bridge = "BRIDGE" } }
  on_destroy = { power_off = "force", timeout = "5s" }
}
`

const accScratchChanged = `
resource "proxmox_vm" "acc" {
  node       = "NODE"
  vmid       = VMID+0
  name       = "acc-renamed"
  tags       = ["acc"]
  ostype     = "l26"
  scsihw     = "virtio-scsi-single"
  bios       = "ovmf"
  machine    = "q35"
  cpu        = { type = "x86-64-v2", cores = 1 }
  memory     = { size = 512 }
  onboot     = true
  disks = {
    scsi0 = { storage = "STORAGE", size = "2G", discard = true }
    scsi1 = { storage = "STORAGE2", size = "1G" }
  }
  efi_disk   = { storage = "STORAGE", type = "4m", pre_enrolled_keys = false }
  networks   = { net0 = { model = "virtio", bridge = "BRIDGE", firewall = true } }
  on_destroy = { power_off = "force", timeout = "5s" }
}
`

// TestAccVM makes a VM from scratch, changes it in place, imports it and destroys it.
func TestAccVM(t *testing.T) {
	c := acceptance(t)
	const addr = "proxmox_vm.acc"
	made := map[string]string{}
	c.test(t,
		resource.TestStep{
			Config: accScratch,
			Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr(addr, "id", fmt.Sprint(c.first)),
				resource.TestCheckResourceAttr(addr, "status", "running"),
				resource.TestCheckResourceAttr(addr, "description", "made by an acceptance test"),
				resource.TestCheckResourceAttrSet(addr, "uuid"),
				resource.TestMatchResourceAttr(addr, "disks.scsi1.volume", regexp.MustCompile(fmt.Sprintf(`^%s:.*vm-%d-disk-`, c.storage2, c.first))),
				resource.TestCheckResourceAttrSet(addr, "networks.net0.macaddr"),
			),
		},
		resource.TestStep{
			Config: accScratchChanged,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(addr, plancheck.ResourceActionUpdate),
			}},
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(addr, tfjsonpath.New("name"), knownvalue.StringExact("acc-renamed")),
				statecheck.ExpectKnownValue(addr, tfjsonpath.New("onboot"), knownvalue.Bool(true)),
				statecheck.ExpectKnownValue(addr, tfjsonpath.New("disks").AtMapKey("scsi0").AtMapKey("size"), knownvalue.StringExact("2G")),
			},
			Check: resource.ComposeAggregateTestCheckFunc(resource.TestCheckNoResourceAttr(addr, "description"), remember(addr, made)),
		},
		resource.TestStep{
			ResourceName: addr, ImportState: true, ImportStateId: fmt.Sprintf("%s/%d", c.node, c.first),
			ImportStateCheck: func(imported []*terraform.InstanceState) error { return knowsAll(imported, made) },
		},
	)
}

// remember keeps the attributes of a resource.
func remember(addr string, attributes map[string]string) resource.TestCheckFunc {
	return func(s *terraform.State) error {
		maps.Copy(attributes, s.RootModule().Resources[addr].Primary.Attributes)
		return nil
	}
}

// knowsAll holds an import against what was made: it knows the same, less what only the configuration knows. It may say PVE's default
// where the configuration says nothing.
func knowsAll(imported []*terraform.InstanceState, made map[string]string) error {
	if len(imported) != 1 {
		return fmt.Errorf("%d resources were imported", len(imported))
	}
	var wrong []string
	for name, want := range made {
		if root, _, _ := strings.Cut(name, "."); root == "on_destroy" || root == "timeouts" {
			continue
		}
		if got := imported[0].Attributes[name]; got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", name, got, want))
		}
	}
	if len(made) < 50 || len(wrong) > 0 {
		return fmt.Errorf("of %d attributes: %s", len(made), strings.Join(wrong, "; "))
	}
	return nil
}

const accTemplate = `
resource "proxmox_vm" "template" {
  node     = "NODE"
  vmid     = VMID+1
  name     = "acc-template"
  template = true
  ostype   = "l26"
  scsihw   = "virtio-scsi-single"
  cpu      = { cores = 1 }
  memory   = { size = 512 }
  disks    = { scsi0 = { storage = "STORAGE", size = "1G" } }
  networks = { net0 = { model = "virtio", bridge = "BRIDGE" } }
  cloud_init = { storage = "STORAGE", user = "template" }
}
`

const accClone = accTemplate + `
resource "proxmox_vm" "clone" {
  node  = "NODE"
  vmid  = VMID+2
  name  = "acc-clone"
  clone = { vmid = proxmox_vm.template.vmid, full = true }
  disks = { scsi0 = { size = "2G" } }
  networks = { net0 = { model = "virtio", bridge = "BRIDGE" } }
  cloud_init = {
    user        = "ops"
    ssh_keys    = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJUWfVZMyWxb3ChGAKPF2O9vRIsmR9R9jVRn1HUeSYOH ops@example.org"]
    addresses   = { net0 = { ipv4 = "10.0.0.5/24", gateway4 = "10.0.0.1" } }
    nameservers = ["10.0.0.1"]
  }
  on_destroy = { power_off = "force", timeout = "5s" }
}
`

// TestAccClone makes a template and clones it with cloud-init, a larger disk and a start.
func TestAccClone(t *testing.T) {
	c := acceptance(t)
	const addr = "proxmox_vm.clone"
	c.test(t, resource.TestStep{
		Config: accClone,
		Check: resource.ComposeAggregateTestCheckFunc(
			resource.TestCheckResourceAttr("proxmox_vm.template", "status", "stopped"),
			resource.TestCheckResourceAttr(addr, "status", "running"),
			resource.TestCheckResourceAttr(addr, "clone.source_vmid", fmt.Sprint(c.first+1)),
			resource.TestCheckResourceAttr(addr, "disks.scsi0.size", "2G"),
			resource.TestCheckResourceAttr(addr, "cloud_init.user", "ops"),
			resource.TestCheckResourceAttr(addr, "cloud_init.addresses.net0.ipv4", "10.0.0.5/24"),
			differentUUIDs("proxmox_vm.template", addr),
		),
	})
}

func differentUUIDs(a, b string) resource.TestCheckFunc {
	return func(s *terraform.State) error {
		one, two := s.RootModule().Resources[a].Primary.Attributes["uuid"], s.RootModule().Resources[b].Primary.Attributes["uuid"]
		if one == "" || one == two {
			return fmt.Errorf("uuids %q and %q", one, two)
		}
		return nil
	}
}

// TestAccRollback lets a create fail in its last step and wants nothing left; then it succeeds.
func TestAccRollback(t *testing.T) {
	c := acceptance(t)
	if c.world == nil {
		t.Skip("only a simulated cluster can be told to fail")
	}
	c.world.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Task, Reason: "start failed: no such luck"}})
	c.test(t,
		resource.TestStep{Config: accScratch, ExpectError: regexp.MustCompile(`start failed: no such luck`)},
		resource.TestStep{
			PreConfig: func() {
				if c.world.Sim.FaultsFired() != 1 {
					t.Error("the fault has not fired")
				}
				c.world.MustBeClean(t)
			},
			Config: accScratch,
			Check:  resource.TestCheckResourceAttr("proxmox_vm.acc", "status", "running"),
		},
	)
}
