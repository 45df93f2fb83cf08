package docs_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestCLIKeepsAVMThatARenamedBlockImports: a block gets another name, and an import block says which VM the new one is. Terraform plans
// "1 to import, 1 to destroy", in either order; the plan is refused, and a moved block in the place of the import keeps the VM.
func TestCLIKeepsAVMThatARenamedBlockImports(t *testing.T) {
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	const head = "terraform {\n  required_providers {\n    proxmox = { source = \"terraform-proxmox/proxmox\" }\n  }\n}\n"
	for _, labels := range [][2]string{{"a", "b"}, {"b", "a"}} {
		t.Run(labels[0], func(t *testing.T) {
			w := rig.NewWorld(t, pvesim.Options{RealNetwork: true})
			ws := rig.NewWorkspace(t, w, rig.DevOverride(t, t.TempDir()), nil)
			block := func(label, more string) string {
				return head + "resource \"proxmox_vm\" \"" + label + "\" {\nname = \"web\"\nvmid = 400\nnode = \"pve1\"\npower_state = \"stopped\"\n" +
					"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n}\n" + more
			}
			ws.Write(t, "main.tf", block(labels[0], ""))
			ws.Run(t, "apply", "-auto-approve")
			ws.Write(t, "main.tf", block(labels[1], "import {\nto = proxmox_vm."+labels[1]+"\nid = \"400\"\n}\n"))
			if said, err := ws.Try(t, "apply", "-auto-approve"); err == nil || !strings.Contains(said, "is in state twice") || rig.GuestOf(w, 400).VMID == 0 {
				t.Errorf("%v: %s", err, said)
			}
			ws.Write(t, "main.tf", block(labels[1], "moved {\nfrom = proxmox_vm."+labels[0]+"\nto = proxmox_vm."+labels[1]+"\n}\n"))
			ws.Run(t, "apply", "-auto-approve")
			if rig.GuestOf(w, 400).VMID == 0 {
				t.Error("the VM is gone")
			}
		})
	}
}
