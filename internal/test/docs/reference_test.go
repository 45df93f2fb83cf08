package docs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// blocks are the VMs that a page shows in its text.
func blocks(t *testing.T, page string) (all []string) { return blocksOf(t, page, "proxmox_vm") }

// blocksOf are the resources of a type that a page shows in its text.
func blocksOf(t *testing.T, page, typ string) (all []string) {
	t.Helper()
	for _, block := range regexp.MustCompile("(?s)```terraform\n(.*?)```").FindAllStringSubmatch(rig.ReadFile(t, page), -1) {
		if strings.HasPrefix(block[1], `resource "`+typ+`"`) {
			all = append(all, block[1])
		}
	}
	return all
}

// TestReferenceConfigurations applies the six configurations that the reference begins with, and plans them empty.
func TestReferenceConfigurations(t *testing.T) {
	t.Parallel()
	all := blocks(t, "../../../templates/resources/vm.md.tmpl")
	if len(all) != 6 {
		t.Fatalf("%d configurations", len(all))
	}
	for n, config := range all {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := rig.ExampleWorld(t)
			s := w.Session(t, rig.TokenNoSSH, config)
			rig.Must(t, s.Converge(t.Context()))
			rig.Must(t, s.Destroy(t.Context()))
			w.MustBeClean(t)
		})
	}
}

// TestReferenceNamesEveryAttribute: the table of the reference says of every attribute where it belongs, and names none that there is not.
func TestReferenceNamesEveryAttribute(t *testing.T) {
	t.Parallel()
	server, err := rig.NewWorld(t).Factory()()
	rig.Must(t, err)
	schema, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	rig.Must(t, err)
	_, table, _ := strings.Cut(rig.ReadFile(t, "../../../templates/resources/vm.md.tmpl"), "## Where to find an attribute")
	table, _, _ = strings.Cut(table, "## ")
	named := map[string]bool{}
	for _, name := range regexp.MustCompile("`([a-z0-9_]+)[`.]").FindAllStringSubmatch(table, -1) {
		named[name[1]] = true
	}
	for _, a := range schema.ResourceSchemas["proxmox_vm"].Block.Attributes {
		if !named[a.Name] {
			t.Errorf("%s stands in no group", a.Name)
		}
		delete(named, a.Name)
	}
	for name := range named {
		t.Errorf("there is no attribute %s", name)
	}
}

// TestGuideToAdoption applies the configuration by which the import guide adopts a disk.
func TestGuideToAdoption(t *testing.T) {
	t.Parallel()
	for _, config := range blocks(t, "../../../templates/guides/import.md.tmpl") {
		if !strings.Contains(config, "imported_disk") {
			continue
		}
		w := rig.ExampleWorld(t)
		w.Change(func(world *state.World) {
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-210-disk-7", Content: "images", VMID: 210, Format: "raw", Size: 1 << 30})
		})
		rig.Must(t, w.Session(t, rig.TokenNoSSH, config).Converge(t.Context()))
		return
	}
	t.Error("the guide shows none")
}

// TestOutputOfAnAddress: an output of an address is known after the first apply, and the plan after it is empty.
func TestOutputOfAnAddress(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, `resource "proxmox_vm" "web" {
  node     = "pve1"
  name     = "web"
  agent    = { enabled = true }
  wait_for = { ipv4 = true }
  disks    = { scsi0 = { storage = "local-zfs", size = "4G" } }
  networks = { net0 = { bridge = "vmbr0" } }
}

output "address" {
  value = proxmox_vm.web.ipv4_address
}
`)
	rig.Must(t, s.Run(t.Context()))
	first := terraformtest.ShowValue(s.Output("address"))
	if s.Output("address").IsNull() {
		t.Fatal("the address is not known after the apply")
	}
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	if !pl.Empty() {
		t.Errorf("the plan after the apply: %s", pl)
	}
	rig.Must(t, s.Apply(t.Context(), pl))
	if again := terraformtest.ShowValue(s.Output("address")); again != first {
		t.Errorf("the output was %s and is %s", first, again)
	}
}
