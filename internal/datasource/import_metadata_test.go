package datasource

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// furnished is a cluster beside which there is an ESXi host.
func furnished(t *testing.T, profile string) *pvesim.Sim {
	t.Helper()
	sim, err := pvesim.New(pvesim.Options{Profile: profile}.ForGuides())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	return sim
}

const machines = "esxi:ha-datacenter/datastore1/"

// TestImportMetadata: machines of an ESXi host and an appliance, in the attributes of proxmox_vm.
func TestImportMetadata(t *testing.T) {
	t.Parallel()
	sim := furnished(t, "")
	s := session(t, sim, sim.Credentials().TokenNoAllocate)
	const appliance = "local:import/appliance.ova"
	for _, c := range []struct {
		volume, node    string
		attribute, want string
	}{
		{machines + "web/web.vmx", "", "node", "pve1"},
		{machines + "web/web.vmx", "pve2", "node", "pve2"},
		{machines + "web/web.vmx", "", "name", "web"},
		{machines + "web/web.vmx", "", "cpu", "{cores=2 sockets=2}"},
		{machines + "web/web.vmx", "", "memory", "{size=4096}"},
		{machines + "web/web.vmx", "", "ostype", "l26"},
		{machines + "web/web.vmx", "", "bios", "seabios"},
		{machines + "web/web.vmx", "", "scsihw", "pvscsi"},
		{machines + "web/web.vmx", "", "boot_order", "[scsi0 scsi1]"},
		{machines + "web/web.vmx", "", "smbios", "{uuid=564d1c2f-88aa-0b31-9c5e-7d20416bc3f9}"},
		{machines + "web/web.vmx", "", "disks", "{scsi0={import_from=" + machines + "web/web.vmdk size=16G} " +
			"scsi1={import_from=" + machines + "web/web_1.vmdk size=100G}}"},
		{machines + "web/web.vmx", "", "networks", "{net0={macaddr=00:0c:29:6b:c3:f9 model=vmxnet3}}"},
		{machines + "web/web.vmx", "", "cdroms", "{}"},
		{machines + "web/web.vmx", "", "warnings", "[]"},
		{machines + "desktop/desktop.vmx", "", "cpu", "{cores=4 sockets=1}"},
		{machines + "desktop/desktop.vmx", "", "bios", "ovmf"},
		{machines + "desktop/desktop.vmx", "", "cdroms", "{sata0={file=none}}"},
		{machines + "desktop/desktop.vmx", "", "serial", "{serial0={device=socket}}"},
		{machines + "desktop/desktop.vmx", "", "disks", "{scsi0={import_from=" + machines +
			"desktop/desktop.vmdk size=64G}}"},
		{appliance, "pve1", "cpu", "{cores=2 sockets=1}"},
		{appliance, "pve1", "bios", "null"},
		{appliance, "pve1", "smbios", "null"},
		{appliance, "pve1", "disks", "{scsi0={import_from=local:import/appliance.ova/appliance-disk1.vmdk size=8G}}"},
		{appliance, "pve1", "networks", "{net0={macaddr=null model=vmxnet3}}"},
		{appliance, "", "node", "error: storage local is not shared, and several nodes have one"},
		{"local:import/none.ova", "pve1", "node", "error: Cannot read what local:import/none.ova would be as a VM"},
		{"nope:import/none.ova", "pve1", "node", "error: there is no storage nope on node pve1"},
		{machines + "none/none.vmx", "", "node", "error: No such file or directory"},
	} {
		given := config{"volume": text(c.volume)}
		if c.node != "" {
			given["node"] = text(c.node)
		}
		got, diags := read(t, NewImportMetadata, s, given)
		mustShow(t, c.volume+" "+c.attribute, attributeOf(t, got, diags, c.attribute), c.want)
		if warned := len(diags.Warnings()); warned > 0 != strings.Contains(c.volume, "desktop") {
			t.Errorf("%s: %v", c.volume, diags)
		}
	}
}

// TestImportWarnings: what is lost or different is said in words, all of it in one warning.
func TestImportWarnings(t *testing.T) {
	t.Parallel()
	sim := furnished(t, "")
	change(sim, func(w *state.World) {
		v := w.Volume("pve1", machines+"desktop/desktop.vmx")
		v.Busy = "poweredOn"
		v.Data += "nvme0:0.fileName = \"fast.vmdk\"\n"
	})
	got, diags := read(t, NewImportMetadata, session(t, sim, sim.Credentials().Token),
		config{"volume": text(machines + "desktop/desktop.vmx")})
	if len(diags) != 1 {
		t.Fatal(diags)
	}
	said := diags[0].Detail()
	for _, want := range []string{
		"efi_disk: the firmware's variables are not imported", "sata0: esxi:ha-datacenter/datastore1/iso/windows-10.iso is " +
			"not imported",
		"It is running. Shut it down before", "nvme0:0: fast.vmdk becomes a SCSI disk", "OVMF has no drivers for " +
			"controllers of LSI. It is pvscsi",
		"serial0: the serial port is connected to a socket",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said: %s", want, said)
		}
	}
	if shown := attributeOf(t, got, diags, "warnings"); strings.Count(shown, "message=") != 6 || !strings.Contains(shown,
		"key=nvme0:0 message=nvme0:0: fast.vmdk") {
		t.Error(shown)
	}
	var kinds []string
	for _, kind := range []string{"cdrom-image-ignored", "efi-state-lost", "guest-is-running", "nvme-unsupported",
		"ova-needs-extracting",
		"ovmf-with-lsi-unsupported", "serial-port-socket-only"} { // the whole list of PVE's
		kinds = append(kinds, explain(pve.ImportWarning{Type: kind}))
	}
	if slices.ContainsFunc(kinds, func(words string) bool { return len(strings.Fields(words)) < 5 }) {
		t.Errorf("%q", kinds)
	}
	if said := explain(pve.ImportWarning{Type: "of-tomorrow", Value: "x"}); said != "of-tomorrow x" {
		t.Error(said)
	}
}

// TestImportMetadataOfReleases: machines of ESXi are read since 8.2, appliances since 8.3; before 8.2 the error says
// so.
func TestImportMetadataOfReleases(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"8.2", "9.2"} {
		sim := furnished(t, profile)
		got, diags := read(t, NewImportMetadata, session(t, sim, sim.Credentials().Token),
			config{"volume": text(machines + "web/web.vmx")})
		mustShow(t, profile, attributeOf(t, got, diags, "cpu"), "{cores=2 sockets=2}")
	}
	sim := furnished(t, "8.0")
	got, diags := read(t, NewImportMetadata, session(t, sim, sim.Credentials().RootToken),
		config{"volume": text("local:import/appliance.ova"), "node": text("pve1")})
	mustShow(t, "8.0", attributeOf(t, got, diags, "node"), "error: PVE reads ESXi machines from 8.2 on, and appliances "+
		"from 8.3 on")
}

// TestMachinesOfESXi: the storage of a host is the same on all nodes, so none has to be given.
func TestMachinesOfESXi(t *testing.T) {
	t.Parallel()
	sim := furnished(t, "")
	got, diags := read(t, NewFiles, session(t, sim, sim.Credentials().Token), config{"storage": text("esxi")})
	mustShow(t, "machines", attributeOf(t, got, diags, "volumes"),
		"["+machines+"desktop/desktop.vmx "+machines+"web/web.vmx]")
}
