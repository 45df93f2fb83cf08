package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func furnished(c *engine.Config) { c.World.Furnish() }

// TestESXi: the machines of a host are listed and described, their disks are imported, and what PVE refuses is refused
// (pve-storage ESXiPlugin.pm).
func TestESXi(t *testing.T) {
	g := newRig(t, furnished)
	const dir = "ha-datacenter/datastore1/"
	list := g.do("root@pam!tf", "GET", "/nodes/pve2/storage/esxi/content", "").list()
	if len(list) != 2 || list[1]["volid"] != "esxi:"+dir+"web/web.vmx" || list[1]["format"] != "vmx" ||
		list[1]["size"] != 0.0 || list[1]["name"] != "web" {
		t.Errorf("listed: %v", list)
	}
	for machine, want := range map[string]string{
		"web": `{"create-args":{"bios":"seabios","boot":"order=scsi0;scsi1","cores":2,"memory":"4096","name":"web","ostype":"l26",` +
			`"scsihw":"pvscsi","smbios1":"uuid=564d1c2f-88aa-0b31-9c5e-7d20416bc3f9","sockets":2},` +
			`"disks":{"scsi0":{"size":17179869184,"volid":"esxi:ha-datacenter/datastore1/web/web.vmdk"},` +
			`"scsi1":{"size":107374182400,"volid":"esxi:ha-datacenter/datastore1/web/web_1.vmdk"}},` +
			`"net":{"net0":{"macaddr":"00:0c:29:6b:c3:f9","model":"vmxnet3"}},"source":"esxi","type":"vm","warnings":[]}`,
		"desktop": `{"create-args":{"bios":"ovmf","boot":"order=sata0;scsi0","cores":4,"memory":"8192","name":"desktop","ostype":"win10",` +
			`"sata0":"none,media=cdrom","scsihw":"pvscsi","serial0":"socket","smbios1":"uuid=564d7710-0c9b-4ed2-a318-5f6e902b71c4"},` +
			`"disks":{"efidisk0":1,"scsi0":{"size":68719476736,"volid":"esxi:ha-datacenter/datastore1/desktop/desktop.vmdk"}},` +
			`"net":{"net0":{"macaddr":"00:50:56:00:00:17","model":"e1000e"}},"source":"esxi","type":"vm",` +
			`"warnings":[{"key":"bios","type":"efi-state-lost","value":"ovmf"},` +
			`{"key":"sata0","type":"cdrom-image-ignored","value":"esxi:ha-datacenter/datastore1/iso/windows-10.iso"},` +
			`{"key":"scsihw","type":"ovmf-with-lsi-unsupported","value":"pvscsi"},{"key":"serial0","type":"serial-port-socket-only"},` +
			`{"type":"guest-is-running"}]}`,
	} {
		if machine == "desktop" {
			g.s.Do(func(w *state.World) {
				w.Volume("", "esxi:"+dir+"desktop/desktop.vmx").Busy = "poweredOn"
				w.Volume("", "esxi:"+dir+"desktop/desktop.vmdk").Busy = "poweredOn"
			})
		}
		r := g.do("auditor@pve!ro", "GET", "/nodes/pve1/storage/esxi/import-metadata",
			"volume="+dir+machine+"/"+machine+".vmx")
		if got, err := json.Marshal(r.object(t)); err != nil || string(got) != want {
			t.Errorf("%s is\n%s, want\n%s (%v)", machine, got, want, err)
		}
	}
	const from = "vmid=100&scsi0=local-lvm:0,import-from%3Desxi:" + dir
	g.steps([]step{
		{"", "GET", "/storage/esxi/import-metadata", "volume=" + dir + "web/web.vmdk",
			"volume '" + dir + "web/web.vmdk' does not look like an importable vm config"},
		{"", "GET", "/storage/esxi/import-metadata", "volume=" + dir + "no/no.vmx",
			"can't open '/run/pve/import/esxi/esxi/mnt/" + dir + "no/no.vmx' - No such file or directory"},
		{"", "GET", "/storage/esxi/import-metadata", "volume=web.vmx", "failed to parse volname 'web.vmx'"},
		{"terraform@pve!lite", "POST", "/qemu", from + "web/web.vmdk",
			"missing privileges to access esxi:" + dir + "web/web.vmdk"},
		{"", "POST", "/qemu", from + "web/web.vmx", "volume 'esxi:" + dir + "web/web.vmx' - not a QEMU image format 'vmx'"},
		{"", "POST", "/qemu", from + "web/none.vmdk", "unable to create VM 100 - cannot import from 'esxi:" + dir +
			"web/none.vmdk' - could not get size of esxi:" + dir + "web/none.vmdk"},
		{"", "POST", "/qemu", from + "desktop/desktop.vmdk", "unable to create VM 100 - cannot import from 'esxi:" + dir +
			"desktop/desktop.vmdk' - copy failed: command '/usr/bin/qemu-img convert -p -n -t none -f vmdk -O raw " +
			// it runs
			"/run/pve/import/esxi/esxi/mnt/" + dir +
			"desktop/desktop.vmdk zeroinit:/dev/pve/vm-100-disk-0' failed: exit code 1"},
		{"", "POST", "/qemu", from + "web/web.vmdk", "OK"},
	})
	if c := g.config("100"); c["scsi0"] != "local-lvm:vm-100-disk-0,size=16G" {
		t.Errorf("imported disk: %v", c["scsi0"])
	}
	g.s.Do(func(w *state.World) { w.Storages["esxi"].Offline = true })
	g.steps([]step{{"", "GET", "/storage/esxi/import-metadata", "volume=" + dir + "web/web.vmx",
		"storage 'esxi' is not activated"}})
	g.check()
}

// TestFurnishedOfOldRelease: a feature that a release does not have is not there.
func TestFurnishedOfOldRelease(t *testing.T) {
	w := state.Default([]string{"pve1"})
	w.Furnish()
	w.Profile = "8.0"
	w.Adapt()
	for _, v := range w.Volumes {
		if v.Storage == "esxi" || v.Content == "import" {
			t.Errorf("%s is there", v.Volid())
		}
	}
	if err := w.Check(); err != nil || w.Storages["esxi"] != nil {
		t.Errorf("storage %v, %v", w.Storages["esxi"], err)
	}
}

// TestAppliance: the furnished world's appliance, of which an older number of an operating system has a name that is no
// ostype.
func TestAppliance(t *testing.T) {
	g := newRig(t, furnished)
	const path, name = "/nodes/pve1/storage/local/import-metadata", "volume=import/appliance.ova"
	g.s.Do(func(w *state.World) {
		v := w.Volume("pve1", "local:import/appliance.ova")
		v.Raw = []byte(strings.Replace(string(v.Raw), `ovf:id="96"`, `ovf:id="18"`, 1))
	})
	want := `{"create-args":{"boot":"order=scsi0","cores":"2","memory":"2048","name":"appliance","ostype":"winxp"},` +
		`"disks":{"scsi0":{"size":8589934592,"volid":"local:import/appliance.ova/appliance-disk1.vmdk"}},"net":{"net0":{"model":"vmxnet3"}},` +
		`"source":"import/appliance.ova","type":"vm","warnings":[{"type":"ova-needs-extracting"}]}`
	if got, err := json.Marshal(g.do("root@pam!tf", "GET", path, name).object(t)); err != nil || string(got) != want {
		t.Errorf("it is\n%s, want\n%s (%v)", got, want, err)
	}
}
