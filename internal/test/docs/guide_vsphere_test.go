package docs_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestGuideFromVSphere: the machines of the guide are made as they were; then the host goes, and with it the data source, and nothing
// changes.
func TestGuideFromVSphere(t *testing.T) {
	t.Parallel()
	w := rig.ExampleWorld(t)
	config := rig.Examples(t)["guides/from-vsphere"]
	s := w.Session(t, rig.TokenNoSSH, config)
	rig.Must(t, s.Converge(t.Context()))
	for path, want := range map[string]string{
		"name": `"web"`, "cpu.cores": "2", "cpu.sockets": "2", "memory.size": "4096", "disks.scsi0.size": `"16G"`, "disks.scsi1.size": `"100G"`,
		"networks.net0.macaddr": `"00:0C:29:6B:C3:F9"`, "uuid": `"564d1c2f-88aa-0b31-9c5e-7d20416bc3f9"`, "status": `"running"`,
	} {
		if got := terraformtest.ShowValue(s.Attr("proxmox_vm.web", path)); !strings.EqualFold(got, want) {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	w.Change(func(world *state.World) {
		for _, g := range world.Guests {
			if g.Config["name"] != "web" {
				continue
			}
			if v := world.Volume(g.Node, strings.Split(g.Config["scsi0"], ",")[0]); v == nil || v.Data != "web on ESXi" {
				t.Errorf("its disk is %v", v)
			}
		}
		world.Storages["esxi"].Offline = true
	})
	if _, err := s.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "storage 'esxi' is not activated") {
		t.Errorf("without the host the plan says %v", err)
	}
	frozen := regexp.MustCompile(`(?s)data "proxmox_import_metadata" "web".*?\n}\n`).ReplaceAllString(config, "")
	frozen = regexp.MustCompile(`(?s)  name       = data.proxmox_import_metadata.web.name.*?\n}\n`).ReplaceAllString(frozen, `
  name       = "web"
  ostype     = "l26"
  bios       = "seabios"
  cpu        = { cores = 2, sockets = 2, type = "x86-64-v2-AES" }
  memory     = { size = 4096 }
  smbios     = { uuid = "564d1c2f-88aa-0b31-9c5e-7d20416bc3f9" }
  boot_order = ["scsi0", "scsi1"]
  scsihw     = "virtio-scsi-single"
  disks = {
    scsi0 = { storage = "local-lvm", discard = true, size = "16G" }
    scsi1 = { storage = "local-lvm", discard = true, size = "100G", import_from = "esxi:ha-datacenter/datastore1/web/web_1.vmdk" }
  }
  networks = { net0 = { bridge = "vmbr0", model = "virtio", macaddr = "00:0C:29:6B:C3:F9" } }
}
`)
	if strings.Contains(frozen, "metadata.web") {
		t.Fatal(frozen)
	}
	w.Reconfigure(t, s, rig.TokenNoSSH, frozen)
	w.Sim.ResetOps()
	rig.Must(t, s.Converge(t.Context()))
	for _, op := range w.Sim.Ops() {
		if op.Method != http.MethodGet {
			t.Errorf("sent %s %s", op.Method, op.Path)
		}
	}
	w.Change(func(world *state.World) { world.Storages["esxi"].Offline = false })
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}

// TestImportFromESXi: machines have blanks in their names, and only identities that may allocate on the storage import from it. A comma is
// refused in the plan: PVE could not be told of it.
func TestImportFromESXi(t *testing.T) {
	t.Parallel()
	w := rig.ExampleWorld(t)
	const dir = "ha-datacenter/store 1/"
	machine := func(name string) string {
		w.Change(func(world *state.World) {
			world.Put(&state.Volume{Storage: "esxi", Name: dir + name + "/" + name + ".vmx", Content: "import", Format: "vmx",
				Data: "displayName = \"" + name + "\"\nmemSize = \"512\"\nscsi0:0.fileName = \"" + name + ".vmdk\"\n"})
			world.Put(&state.Volume{Storage: "esxi", Name: dir + name + "/" + name + ".vmdk", Content: "images", Format: "vmdk", Size: 1 << 30,
				Data: "from elsewhere"})
		})
		return `data "proxmox_import_metadata" "mine" {
  volume = "esxi:` + dir + name + "/" + name + `.vmx"
}

resource "proxmox_vm" "mine" {
  node        = "pve1"
  name        = "mine"
  power_state = "stopped"
  memory      = data.proxmox_import_metadata.mine.memory
  disks       = { for slot, d in data.proxmox_import_metadata.mine.disks : slot => merge(d, { storage = "local-lvm" }) }
}
`
	}
	good, bad := machine("My Web (old)"), machine("Web, old")
	w.Mark()
	s := w.Session(t, rig.TokenNoSSH, good)
	rig.Must(t, s.Converge(t.Context()))
	disk := strings.Trim(terraformtest.ShowValue(s.Attr("proxmox_vm.mine", "disks.scsi0.volume")), `"`)
	w.Change(func(world *state.World) {
		v := world.Volume("pve1", disk)
		if v == nil || v.Data != "from elsewhere" || v.Size != 1<<30 {
			t.Errorf("the disk is %+v", v)
		}
	})
	rig.Must(t, s.Destroy(t.Context()))
	for _, refused := range []struct {
		id           rig.Identity
		config, says string
	}{
		{rig.TokenNoSSH, bad, "PVE takes no name with a comma"}, {rig.RootTicket, bad, "PVE takes no name with a comma"},
		{rig.TokenNoAllocate, good, "PVE lets only identities with Datastore.Allocate on /storage/esxi"},
	} {
		s := w.Session(t, refused.id, refused.config)
		if _, err := s.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), refused.says) {
			t.Errorf("%s: the plan says %v, want %q", refused.id, err, refused.says)
		}
	}
	w.MustBeClean(t)
}

// TestGuideFilesFromVSphere: the guide's machines are listed, and its appliance is uploaded and read, in one run too.
func TestGuideFilesFromVSphere(t *testing.T) {
	t.Parallel()
	w := rig.ExampleWorld(t)
	file := filepath.Join(t.TempDir(), "web.ova")
	w.Change(func(world *state.World) {
		rig.Must(t, os.WriteFile(file, world.Volume("pve1", "local:import/appliance.ova").Raw, 0o600))
	})
	var config strings.Builder
	for _, block := range vsphereBlocks(t) {
		if strings.Contains(block, "proxmox_files") || strings.Contains(block, "proxmox_image") {
			config.WriteString(strings.Replace(block, `"web.ova"`, strconv.Quote(file), 1) + "\n")
		}
	}
	s := w.Session(t, rig.TokenNoSSH, config.String()+`
data "proxmox_import_metadata" "web" {
  node   = proxmox_image.web.node
  volume = proxmox_image.web.volume
}

resource "proxmox_vm" "web" {
  node   = "pve1"
  name   = "web"
  memory = data.proxmox_import_metadata.web.memory
  disks  = { for slot, disk in data.proxmox_import_metadata.web.disks : slot => merge(disk, { storage = "local-zfs" }) }
}
`)
	rig.Must(t, s.Converge(t.Context()))
	if machines := terraformtest.ShowValue(s.Output("machines")); !strings.Contains(machines, "esxi:ha-datacenter/datastore1/web/web.vmx") {
		t.Errorf("machines: %s", machines)
	}
	if size := terraformtest.ShowValue(s.Attr("proxmox_vm.web", "disks.scsi0.size")); size != `"8G"` {
		t.Errorf("the disk has %s", size)
	}
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}

// vsphereBlocks are the configurations in the text of the guide.
func vsphereBlocks(t *testing.T) (all []string) {
	t.Helper()
	for _, block := range regexp.MustCompile("(?s)```terraform\n(.*?)```").FindAllStringSubmatch(rig.ReadFile(t, "../../../templates/guides/from-vsphere.md.tmpl"), -1) {
		all = append(all, block[1])
	}
	return all
}

// windowsOfVSphere are the two configurations of the guide for Windows: as it is imported, and with its drivers.
func windowsOfVSphere(t *testing.T) (imported, driven string) {
	t.Helper()
	var found []string
	for _, block := range vsphereBlocks(t) {
		if strings.Contains(block, `resource "proxmox_vm" "desktop"`) {
			found = append(found, block)
		}
	}
	if len(found) != 2 {
		t.Fatalf("%d configurations", len(found))
	}
	return found[0], found[1]
}

// TestGuideWindowsFromVSphere follows the guide's steps for Windows: the plan names the losses, the disk is a SATA disk first, and it
// moves to the other slot with its data once the guest is shut down.
func TestGuideWindowsFromVSphere(t *testing.T) {
	t.Parallel()
	w := rig.ExampleWorld(t)
	imported, driven := windowsOfVSphere(t)
	s := w.Session(t, rig.TokenNoSSH, imported)
	_, err := s.Plan(t.Context())
	rig.Must(t, err)
	if said := fmt.Sprint(s.Diagnostics()); !strings.Contains(said, "the firmware's variables are not imported") || strings.Contains(said, "It is running") {
		t.Errorf("said %s", said)
	}
	const disk = "esxi:ha-datacenter/datastore1/desktop/desktop."
	power := func(how string) {
		w.Change(func(world *state.World) {
			world.Volume("", disk+"vmx").Busy, world.Volume("", disk+"vmdk").Busy = how, how
		})
	}
	power("poweredOn")
	if err := s.Converge(t.Context()); err == nil || !strings.Contains(err.Error(), "desktop.vmdk") {
		t.Errorf("a machine that runs is imported: %v", err)
	}
	if said := fmt.Sprint(s.Diagnostics()); !strings.Contains(said, "It is running. Shut it down") {
		t.Errorf("said %s", said)
	}
	power("")
	w.MustBeClean(t)
	rig.Must(t, s.Converge(t.Context()))
	volume := terraformtest.ShowValue(s.Attr("proxmox_vm.desktop", "disks.sata0.volume"))
	w.Change(func(world *state.World) {
		for _, g := range world.Guests {
			if g.Config["name"] == "desktop" {
				g.Running = nil // shut down in Windows
			}
		}
	})
	w.Reconfigure(t, s, rig.TokenNoSSH, regexp.MustCompile(`"local-zfs:vm-100-disk-\d"`).ReplaceAllString(driven, volume))
	rig.Must(t, s.Converge(t.Context()))
	if is := terraformtest.ShowValue(s.Attr("proxmox_vm.desktop", "disks.scsi0.volume")); is != volume {
		t.Errorf("the disk was %s and is %s", volume, is)
	}
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}
