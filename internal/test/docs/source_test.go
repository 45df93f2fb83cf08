package docs_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestSourceAlone applies, changes and destroys the configuration of the guide that needs another provider beside ours elsewhere: an image by
// its URL, a snippet, and a VM of both, which is started.
func TestSourceAlone(t *testing.T) {
	t.Parallel()
	all := blocksOf(t, "../../../templates/guides/migrate-from-bpg.md.tmpl", "proxmox_image")
	if len(all) != 1 {
		t.Fatalf("%d configurations", len(all))
	}
	w := rig.ExampleWorld(t)
	s := w.Session(t, rig.TokenSSH, all[0])
	rig.Must(t, s.Converge(t.Context()))
	vm := func() (g state.Guest, disk state.Volume) {
		w.Change(func(world *state.World) {
			for _, one := range world.Guests {
				if one.Config["name"] == "web-1" && one.Config["cicustom"] == "user=local:snippets/web.yaml" {
					g = *one
				}
			}
			volid, _, _ := strings.Cut(g.Config["scsi0"], ",")
			if v := world.Volume("pve1", volid); v != nil {
				disk = *v
			}
		})
		return g, disk
	}
	made, disk := vm()
	if made.Running == nil || disk.Size != 20<<30 || disk.Data == "" {
		t.Fatalf("the VM is %+v with %+v", made, disk)
	}
	change := func(from, to string) {
		t.Helper()
		config := strings.ReplaceAll(all[0], from, to)
		if config == all[0] {
			t.Fatalf("the guide does not say %q", from)
		}
		w.Reconfigure(t, s, rig.TokenSSH, config)
		w.ExpectPowerOffs(state.PowerReboot, state.PowerShutdown)
		rig.Must(t, s.Converge(t.Context()))
		all[0] = config
	}
	change(`size = "20G"`, `size = "30G"`)
	change("hostname: web-1", "hostname: web-2")
	is, grown := vm()
	if is.VMID != made.VMID || grown.Name != disk.Name || grown.Size != 30<<30 {
		t.Errorf("the VM is %+v with %+v after the changes", is, grown)
	}
	change(`size = "30G"`, `size = "30G", ssd = true`)
	if status := terraformtest.ShowValue(s.Attr("proxmox_vm.web", "status")); status != `"running"` {
		t.Errorf("the VM is %s", status)
	}
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}

// TestSourceAloneBefore84: the same where PVE takes no disk image as import content: the image is ISO content, which root on the node imports.
func TestSourceAloneBefore84(t *testing.T) {
	t.Parallel()
	all := blocksOf(t, "../../../templates/guides/migrate-from-bpg.md.tmpl", "proxmox_image")
	config := strings.Replace(all[0], `storage  = "local"`, "storage  = \"local\"\n  content = \"iso\"\n  file_name = \"debian-12.img\"", 1)
	w := rig.ExampleWorld(t, pvesim.Options{Profile: "8.2"})
	s := w.Session(t, rig.TokenSSH, config)
	rig.Must(t, s.Converge(t.Context()))
	w.Change(func(world *state.World) {
		for _, g := range world.Guests {
			if g.Config["name"] == "web-1" && (g.Running == nil || g.Config["boot"] != "order=scsi0" || g.Config["scsi0"] == "") {
				t.Errorf("the VM is %+v", g)
			}
		}
	})
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}
