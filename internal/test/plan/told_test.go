package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// told is a change of VM 400, and the one diagnostic that its plan is to give.
type told struct {
	before, after string
	has           map[string]string // options that are set by hand meanwhile
	volumes       []string          // of the VM, that come meanwhile
	forgets       bool              // Terraform has lost the private state
	imported      bool              // the VM is imported then
	firewall      bool              // is made by hand meanwhile, as are permissions
	refused       bool              // an error, not a warning
	attribute     string
	says          []string
}

// tellings are what only the server tells of a volume, and what becomes of devices and their data.
func tellings() map[string]told {
	const (
		boot   = `scsi0 = { storage = "local-zfs", size = "1G" }`
		volume = `disks["scsi1"].imported_disk.volume`
	)
	disks := func(more ...string) string {
		return rig.Stopped + "disks = { " + strings.Join(append([]string{boot}, more...), ", ") + " }\n"
	}
	imported := func(slot, volume string) string {
		return fmt.Sprintf("%s = { imported_disk = { volume = %q } }", slot, volume)
	}
	const seven, nine = "local-zfs:vm-400-disk-7", "local-zfs:vm-400-disk-9"
	found := []string{"vm-400-disk-7", "vm-400-disk-9"}
	second := `scsi1 = { storage = "local-zfs", size = "1G" }`
	efi := "bios = \"ovmf\"\n" + `efi_disk = { storage = "local-zfs", type = "4m", pre_enrolled_keys = false }` + "\n"
	tpm := `tpm_state = { storage = "local-zfs", version = "v2.0" }` + "\n"
	const nic = "networks = { net0 = { bridge = \"vmbr0\" } }\n"
	const drive = "cloud_init = { storage = \"local-zfs\", slot = \"ide2\" }\n"
	const destroys = "removed_disks = \"destroy\"\n"
	return map[string]told{
		"a slot has a volume that the state does not know": {before: disks(), after: disks(imported("scsi1", seven)), volumes: found,
			has:     map[string]string{"unused0": seven, "scsi1": nine + ",size=1G"},
			refused: true, attribute: volume, says: []string{"The slot is not empty", nine, "Choose another slot"}},
		"a CD-ROM drive where the state knows no disk": {before: disks(), after: disks() + "cdroms = { sata3 = { file = \"none\" } }\n", volumes: found,
			has:     map[string]string{"sata3": nine + ",size=1G"},
			refused: true, attribute: `cdroms["sata3"]`, says: []string{"The slot is not empty", nine, "Choose another slot"}},
		"a disk has taken the place of the cloud-init drive": {before: disks() + drive, after: disks() + drive, volumes: found,
			has:       map[string]string{"ide2": nine + ",size=1G"},
			attribute: "cloud_init.slot", says: []string{"ide2 of VM 400", "has a disk", nine, "the apply fails", "Choose another slot"}},
		"a disk where the state knows none": {before: disks(), after: disks(second), volumes: found,
			has:       map[string]string{"scsi1": nine + ",size=1G"},
			attribute: `disks["scsi1"]`, says: []string{"scsi1 of VM 400", "is not empty", nine, "takes this one over with its content"}},
		"a network device where the state knows none": {before: disks() + nic, after: disks() + strings.Replace(nic, "vmbr0\" }", "vmbr0\" }, net1 = { bridge = \"vmbr1\" }", 1),
			has:       map[string]string{"net1": "virtio=BC:24:11:00:00:07,bridge=vmbr0,tag=77"},
			attribute: `networks["net1"]`, says: []string{"net1 of VM 400", "is not empty", "BC:24:11:00:00:07", "gives this one the planned settings"}},
		"another slot has the volume": {before: disks(), after: disks(imported("scsi1", nine)), volumes: found,
			has:     map[string]string{"scsi5": nine + ",size=1G"},
			refused: true, attribute: volume, says: []string{nine + " is in scsi5", "Take it out there first"}},
		"the VM has no such volume": {before: disks(), after: disks(imported("scsi1", seven)), volumes: found[1:],
			has:     map[string]string{"unused0": nine},
			refused: true, attribute: volume, says: []string{"no volume " + seven, "Detached it has " + nine}},
		"a volume is larger than the slot is to be": {before: disks(), volumes: found[:1], has: map[string]string{"unused0": seven},
			after:   disks(fmt.Sprintf("scsi1 = { imported_disk = { volume = %q }, size = \"512M\" }", seven)),
			refused: true, attribute: `disks["scsi1"].size`, says: []string{seven + " has 1G and cannot be shrunk to 512M", "leave size out", "that is the one in state: take it out of ignore_changes"}},
		"a slot that keeps its volume": {before: disks(second), after: disks(strings.Replace(imported("scsi1", seven), " } }", " }, size = \"1G\", storage = \"local-zfs\" }", 1)),
			refused: true, attribute: volume, says: []string{"The VM has no volume " + seven}},
		"another volume in a slot": {before: disks(second), after: disks(imported("scsi1", seven)), volumes: found[:1],
			has:       map[string]string{"unused0": seven},
			attribute: `disks["scsi1"].imported_disk`, says: []string{"scsi1 of VM 400", "gets another volume", "is detached for it and stays with the VM"}},
		"another volume in the slot that a running VM boots from": {before: "boot_order = [\"scsi0\"]\ndisks = { " + boot + " }\n", volumes: found[:1],
			has: map[string]string{"unused0": seven}, after: "boot_order = [\"scsi0\"]\ndisks = { " + imported("scsi0", seven) + " }\n",
			refused: true, attribute: `disks["scsi0"].imported_disk`, says: []string{"boots from scsi0", "stopped"}},
		"another volume in another slot of a running VM": {before: "boot_order = [\"scsi0\"]\ndisks = { " + boot + ", " + second + " }\n", volumes: found[:1],
			has: map[string]string{"unused0": seven}, after: "boot_order = [\"scsi0\"]\ndisks = { " + boot + ", " + imported("scsi1", seven) + " }\n",
			attribute: `disks["scsi1"].imported_disk`, says: []string{"gets another volume"}},
		"a protected VM is to be replaced": {before: rig.Stopped + "protection = true\nclone = { vmid = 9000, full = true }\n",
			after:   rig.Stopped + "protection = true\nclone = { vmid = 8000, full = true }\n",
			refused: true, attribute: "protection", says: []string{"Cannot replace VM 400", "it is protected", "Apply protection = false first"}},
		"a VM with a firewall that was made by hand is to be replaced": {before: rig.Stopped + "protection = false\nclone = { vmid = 9000, full = true }\n",
			after: rig.Stopped + "protection = false\nclone = { vmid = 8000, full = true }\n", firewall: true,
			says: []string{"replacement of VM 400", "loses", "firewall options or rules; permissions on /vms/400"}},
		"a running VM is to be a template": {before: "disks = { " + boot + " }\n", after: "disks = { " + boot + " }\ntemplate = true\n",
			refused: true, attribute: "template", says: []string{"The VM runs", "stopped VMs only"}},
		"an image that waits for a start is to grow": {before: "hotplug = [\"network\"]\ndisks = { " + boot + " }\n",
			after:   "hotplug = [\"network\"]\nreboot_policy = \"never\"\ndisks = { " + boot + ", scsi1 = { storage = \"local-zfs\", import_from = \"local:import/disk.qcow2\", size = \"20G\" } }\n",
			refused: true, attribute: `disks["scsi1"].size`, says: []string{"attaches scsi1 at the next stop and start"}},
		"a disk leaves": {before: disks(second), after: disks(),
			attribute: `disks["scsi1"]`, says: []string{"scsi1 of VM 400", "is detached", "stays with the VM", "imported_disk = { volume ="}},
		"a disk is destroyed": {before: disks(second), after: destroys + disks(),
			attribute: `disks["scsi1"]`, says: []string{"scsi1 of VM 400", "is destroyed with its data", "for good"}},
		"the variables of the firmware leave": {before: disks() + efi, after: disks() + "bios = \"ovmf\"\n",
			attribute: "efi_disk", says: []string{"efidisk0 of VM 400", "is detached"}},
		"the state of the TPM is destroyed": {before: disks() + tpm, after: destroys + disks(),
			attribute: "tpm_state", says: []string{"tpmstate0 of VM 400", "is destroyed with its data"}},
		"a network device leaves a running VM": {before: "disks = { " + boot + " }\n" + nic, after: "disks = { " + boot + " }\n",
			attribute: `networks["net0"]`, says: []string{"net0 of VM 400 on pve1 is unplugged while the guest runs", "write networks.net0 again."}},
		"a network device leaves a running clone": {before: "clone = { vmid = 9000, full = true }\n" + nic, after: "clone = { vmid = 9000, full = true }\n",
			attribute: `networks["net0"]`, says: []string{"is unplugged while the guest runs", "write networks.net0 again, also where the clone has it from its template"}},
		"the boot disk leaves": {before: disks(second), after: rig.Stopped + "disks = { " + second + " }\n",
			attribute: `disks["scsi0"]`, says: []string{"is detached", "The VM boots from it, and will not boot without it", "write disks.scsi0 again"}},
		"the first of two boot disks leaves": {before: disks(second), has: map[string]string{"boot": "order=scsi0;scsi1"}, after: rig.Stopped + "disks = { " + second + " }\n",
			attribute: `disks["scsi0"]`, says: []string{"is detached", "may not boot without it"}},
		"the disk that a running VM boots from leaves": {before: "disks = { " + boot + " }\n", after: "disks = {}\n",
			refused: true, attribute: `disks["scsi0"]`, says: []string{"boots from scsi0", "To keep it, write disks.scsi0 again. To take it out, set power_state"}},
		"the disk of a clone": {before: "clone = { vmid = 9000, full = true }\n", after: "clone = { vmid = 9000, full = true }\ndisks = { scsi0 = { size = \"30G\" } }\n",
			attribute: `disks["scsi0"]`, says: []string{"scsi0 of VM 400 on pve1 is the disk that the VM was made with", "local-zfs:vm-400-disk-0 (", "keeps its content and gets the planned settings."}},
		"the network device of a clone": {before: "clone = { vmid = 9000, full = true }\n", after: "clone = { vmid = 9000, full = true }\n" + strings.Replace(nic, "vmbr0", "vmbr1", 1),
			attribute: `networks["net0"]`, says: []string{"net0 of VM 400 on pve1 is there already", "gives this one the planned settings"}},
		"the disk of a clone that moves": {before: "clone = { vmid = 9000, full = true }\n", after: "clone = { vmid = 9000, full = true }\ndisks = { scsi0 = { storage = \"local-lvm\" } }\n",
			attribute: `disks["scsi0"]`, says: []string{"is the disk that the VM was made with", "moves to local-lvm"}},
		"a disk that a third party has given a clone": {before: "clone = { vmid = 9000, full = true }\n", after: "clone = { vmid = 9000, full = true }\ndisks = { scsi1 = { size = \"30G\", storage = \"local-zfs\" } }\n", volumes: found,
			has:       map[string]string{"scsi1": nine + ",size=1G"},
			attribute: `disks["scsi1"]`, says: []string{"is not empty", nine, "which the state does not know"}},
		"memory goes back to its default": {before: "memory = { size = 1024 }\n", after: "",
			says: []string{"will be restarted", "memory.size goes back to PVE's default, 512."}},
		"a new disk where one leaves": {before: disks(second), after: disks(strings.Replace(second, "scsi1", "scsi4", 1)),
			attribute: `disks["scsi4"]`, says: []string{"will be a new, empty disk", "disks.scsi4.imported_disk = { volume ="}},
		"a device that was never configured": {before: disks() + nic, after: disks() + nic, imported: true,
			has:  map[string]string{"net3": "virtio=BC:24:11:00:00:07,bridge=vmbr0"},
			says: []string{"that the configuration does not name are forgotten", "networks.net3"}},
		"a wait for an agent that is off": {before: "disks = { " + boot + " }\n", after: "disks = { " + boot + " }\nwait_for = { ipv4 = true }\n",
			refused: true, attribute: "wait_for.ipv4", says: []string{"agent.enabled is not true"}},
		"a running VM that is not restarted": {before: "cpu = { cores = 1 }\n", after: "cpu = { cores = 2 }\nreboot_policy = \"never\"\n",
			attribute: "reboot_policy", says: []string{"keeps running with the old values", "cores takes effect at the next stop and start"}},
		"cloud-init data of a running VM": {before: cloudInit("10.0.0.5/24"), after: cloudInit("10.0.0.6/24"),
			attribute: "cloud_init", says: []string{"VM 400 on pve1 reads its new cloud-init data at its next start", "action = \"reboot\"", "qm reboot 400", "new SSH host keys", "cloud_init.custom.meta", "cloud-init query instance_id"}},
		"a cloud-init password of a running VM": {before: password(1), after: password(2),
			attribute: "cloud_init_password_wo_version", says: []string{"VM 400 on pve1 reads its new cloud-init data at its next start", "qm reboot 400"}},
		"cloud-init data of a VM that is restarted": {before: cloudInit("10.0.0.5/24"), after: cloudInit("10.0.0.6/24") + "cpu = { cores = 2 }\n",
			attribute: "cloud_init", says: []string{"reads its new cloud-init data at the restart by this apply", "new SSH host keys"}},
		"the MAC address of a VM with a cloud-init drive": {before: cloudInit("dhcp"), after: strings.Replace(cloudInit("dhcp"), "\"vmbr0\"", "\"vmbr0\", macaddr = \"BC:24:11:00:00:77\"", 1),
			attribute: "networks", says: []string{"at its next start", "new SSH host keys"}},
		"the notes of the provider are lost": {before: disks(), after: disks(), forgets: true,
			says: []string{"knew of VM 400", "is lost", "notes again what is configured"}},
	}
}

// cloudInit is a drive with one fixed address.
func cloudInit(address string) string {
	return fmt.Sprintf("networks = { net0 = { bridge = \"vmbr0\" } }\ncloud_init = { storage = \"local-zfs\", addresses = { net0 = { ipv4 = %q } } }\n", address)
}

// password is a drive with one version of a password.
func password(version int) string {
	return fmt.Sprintf("cloud_init = { storage = \"local-zfs\" }\ncloud_init_password_wo = \"secret-%[1]d\"\ncloud_init_password_wo_version = %[1]d\n", version)
}

// TestPlanTellsOnTheAttribute: the fate of disks and devices, and the server's answers about volumes, are told on their attributes.
func TestPlanTellsOnTheAttribute(t *testing.T) {
	t.Parallel()
	for name, c := range tellings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, c.before)
			l.Guest(func(world *state.World, g *state.Guest) {
				for _, volume := range c.volumes {
					world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: volume, Content: "images", VMID: 400, Format: "raw", Size: 1 << 30})
				}
				for option, value := range c.has {
					g.Config[option] = value
				}
				if c.firewall {
					world.Firewall[400] = &state.FirewallFile{Options: map[string]string{"enable": "1", "policy_in": "DROP"}}
					world.ACL = append(world.ACL, state.ACLEntry{Path: "/vms/400", Subject: "auditor@pve", Role: "PVEVMUser"})
				}
			})
			if c.forgets {
				l.Session.SetPrivate(rig.VMAddress, nil)
			}
			if c.imported {
				l.Session.Forget(rig.VMAddress)
				rig.Must(t, l.Session.Import(t.Context(), rig.VMAddress, "pve1/400"))
			}
			if c.refused {
				l.Refuses(c.after, c.attribute, c.says...)
				return
			}
			l.Plan(c.after)
			l.Warned(c.attribute, c.says...)
		})
	}
}

// TestPlanTellsOfAMigrationUnderHA: HA chooses the node of its guests, so a migration may not last.
func TestPlanTellsOfAMigrationUnderHA(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	on := func(node, ha string) string { return rig.VMBlock(fmt.Sprintf("vmid = 400\nnode = %q\n%s\n", node, ha)) }
	for ha, warns := range map[string]bool{`ha = { state = "started" }`: true, "": false} {
		s := w.Session(t, rig.RootTicket, on("pve1", ha))
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.RootTicket, on("pve2", ha))
		_, err := s.Plan(t.Context())
		rig.Must(t, err)
		said := s.Diagnostics()
		if warns && (len(said) != 1 || said[0].Attribute != "node" || !strings.Contains(said[0].Summary, "VM 400 on pve1 is under HA")) || !warns && len(said) > 0 {
			t.Errorf("%q: said %v", ha, said)
		}
		rig.Must(t, s.Destroy(t.Context()))
	}
}

// TestPlanTellsOfDisksThatAReplacementDestroys: a VM that was made of volumes is not replaced by one that is made of them.
func TestPlanTellsOfDisksThatAReplacementDestroys(t *testing.T) {
	t.Parallel()
	w := rig.DisksWithoutVM(t, "vm-200-disk-0")
	s := w.Session(t, rig.TokenNoSSH, rig.Adopting(rig.AdoptedDisk, "protection = false"))
	rig.Must(t, s.Converge(t.Context()))
	s.Taint(rig.VMAddress, true)
	_, err := s.Plan(t.Context())
	errs := s.Diagnostics().Errors()
	if len(errs) != 1 || errs[0].Attribute != `disks["scsi0"].imported_disk` || !strings.Contains(errs[0].Summary, "Cannot replace VM 200") {
		t.Errorf("want one error on the disk: %v", err)
	}
	if data := rig.DataOf(w, "vm-200-disk-0"); data == "" {
		t.Error("the disk is gone")
	}
}

// TestNamesThatAreNotTold: PVE tells neither the name of a VM that was just made nor whether it is a template. Where
// such a one may be meant, the answer or the error of a data source names it; once PVE tells, there is nothing to say. That its id helps is
// not said: the configuration of a VM whose node is away cannot be read by that either. The plan of a clone reads it (TestPlanReadsNamesOfNewVMs).
func TestNamesThatAreNotTold(t *testing.T) {
	t.Parallel()
	clone := func(source string) string {
		return "resource \"proxmox_vm\" \"c\" {\n  vmid = 500\n  node = \"pve1\"\n  clone = { " + source + " }\n}\n"
	}
	for name, c := range map[string]struct {
		reads, plans string
		fails, tells bool
	}{
		"a VM by its name":              {reads: `name = "existing"`, tells: true},
		"a VM by its name on its node":  {reads: "name = \"existing\"\nnode = \"pve1\"", tells: true},
		"a VM by its id":                {reads: `vmid = 8000`},
		"no VM":                         {reads: `name = "missing"`, fails: true, tells: true},
		"no VM on another node":         {reads: "name = \"existing\"\nnode = \"pve2\"", fails: true},
		"a clone by name":               {plans: clone(`name = "existing"`)},
		"a clone by name and node":      {plans: clone(`name = "existing", node = "pve1"`)},
		"a clone by id":                 {plans: clone(`vmid = 8000`)},
		"a clone of no VM":              {plans: clone(`name = "missing"`), fails: true},
		"a clone by name on its node":   {plans: clone(`name = "existing", node = "pve2"`), fails: true},
		"a clone by tags":               {plans: clone(`tags = ["golden"]`)},
		"a clone by tags of nothing":    {plans: clone(`tags = ["fresh"]`), fails: true},
		"a clone by tags of another VM": {plans: clone(`tags = ["debian"]`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			made := w.Session(t, rig.RootTicket, rig.VMBlock("name = \"fresh\"\nvmid = 400\nnode = \"pve1\"\ntags = [\"golden\", \"fresh\"]\n"))
			w.Change(func(world *state.World) { world.Guests[9000].Config["tags"] = "golden;debian" })
			rig.Must(t, made.Converge(t.Context()))
			s := w.Session(t, rig.RootTicket, c.plans)
			for _, tells := range []bool{c.tells, false} {
				var err error
				if c.reads != "" {
					_, err = s.ReadDataSource(t.Context(), "proxmox_vm", c.reads)
				} else {
					_, err = s.Plan(t.Context())
				}
				said := s.Diagnostics().String()
				if (err != nil) != c.fails || strings.Contains(said, "400 (node pve1)") != tells || !c.fails && !tells && said != "" {
					t.Errorf("fails %t, tells %t: %v, said %s", c.fails, tells, err, said)
				}
				if text := fmt.Sprint(err); strings.Contains(text, "400 (node pve1)") && strings.Contains(text, "by its vmid") {
					t.Errorf("its id does not help where the node is away: %s", text)
				}
				w.Sim.Advance(time.Minute)
			}
		})
	}
}

// TestPlanTellsOfUnknownPolicies: where the value is not known that decides what becomes of data or of a running guest, the plan does not
// speak as if it were the default. It names the worst that the apply does then.
func TestPlanTellsOfUnknownPolicies(t *testing.T) {
	t.Parallel()
	const sata, cores, force = `sata1 = { storage = "local-zfs", size = "2G" }`, "cpu = { cores = 2 }\n", "shutdown_timeout = \"30s\"\n"
	const ovmf = rig.Stopped + "bios = \"ovmf\"\nremoved_disks = \"destroy\"\n"
	disks := func(more string) string {
		return "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, " + more + " }\n"
	}
	drive := func(more string) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{"storage": cty.StringVal("local-zfs"), more: cty.StringVal(map[string]string{"version": "v2.0", "type": "4m"}[more])})
	}
	none := cty.NullVal(cty.DynamicPseudoType)
	rows := map[string]struct {
		before, after string
		was, is       cty.Value
		says          string
	}{
		"removed_disks": {rig.Stopped + disks(sata), rig.Stopped + disks(""), cty.StringVal("detach"), cty.StringVal("destroy"), "sata1 of VM 400 on pve1 may be destroyed with its data"},
		"efi_disk":      {ovmf + disks(""), ovmf + disks(""), drive("type"), none, "The EFI disk of VM 400 on pve1 is not known yet"},
		"tpm_state":     {ovmf + disks(""), ovmf + disks(""), drive("version"), none, "The TPM state of VM 400 on pve1 is not known yet"},
		"reboot_policy": {force + disks(""), force + cores + disks(""), cty.StringVal("never"), cty.StringVal("force"), "is cut off if that is \"force\""},
		"ha":            {disks(""), disks(""), cty.ObjectVal(map[string]cty.Value{"state": cty.StringVal("started")}), cty.ObjectVal(map[string]cty.Value{"state": cty.StringVal("stopped")}), "may be stopped by HA"},
		"power_state":   {disks(""), disks(""), cty.StringVal("running"), cty.StringVal("stopped"), "power_state"},
	}
	for name, c := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
			block := func(body string) string { return "variable \"it\" {}\n" + rig.NodeVMBlock(body+name+" = var.it\n") }
			s := w.Session(t, rig.RootTicket, block(c.before))
			s.SetVariable("it", c.was)
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) { world.Guests[400].Ignores = []string{"shutdown"} })
			w.Reconfigure(t, s, rig.RootTicket, block(c.after))
			s.SetVariable("it", cty.DynamicVal)
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			said := pl.String() + "\n" + pl.Diagnostics.String()
			for _, untrue := range []string{"keeps running, and the apply fails", "stays with the VM as an unused disk, and is destroyed with the VM"} {
				if strings.Contains(said, untrue) {
					t.Errorf("the plan says %q", untrue)
				}
			}
			if !strings.Contains(said, c.says) {
				t.Errorf("the plan says %s", said)
			}
			s.SetVariable("it", c.is)
			if err := s.Apply(t.Context(), pl); err != nil && name != "power_state" {
				t.Error(err)
			}
		})
	}
	untold := []string{"on_orphaned_volumes", "restore", "clone", "on_failure", "import_working_storage", // of a create, or read as the worst
		"on_destroy", "shutdown_timeout", "timeouts", "wait_for", "cloud_init_password_wo_version", "cloud_init_trigger",
		"vmid", "node", "nodes", "pool", "firewall", "cdroms"} // no policy
	isOption := map[string]bool{}
	for _, a := range vm.Attributes() {
		top, _, _ := strings.Cut(a.Path, ".")
		isOption[top] = true
	}
	var schema resource.SchemaResponse
	rig.Resources(t.Context())[0]().Schema(t.Context(), resource.SchemaRequest{}, &schema)
	for name, a := range schema.Schema.Attributes {
		if _, ok := rows[name]; !ok && !isOption[name] && (a.IsOptional() || a.IsRequired()) && !slices.Contains(untold, name) {
			t.Errorf("%s may decide what becomes of data or of a running guest", name)
		}
	}
}

// TestPlanTellsThatARemovedDiskIsUnplugged: PVE takes a disk that leaves from a running guest at once, mounted or not, whatever becomes of its volume.
// A guest that is off, or is shut down first, loses nothing, and one without hotplug of the slot loses it at a restart.
func TestPlanTellsThatARemovedDiskIsUnplugged(t *testing.T) {
	t.Parallel()
	disks := func(slots ...string) string {
		for i := range slots {
			slots[i] += ` = { storage = "local-zfs", size = "1G" }`
		}
		return "disks = { " + strings.Join(slots, ", ") + " }\n"
	}
	const borrowed, destroys = "local-zfs:vm-8000-disk-7", "removed_disks = \"destroy\"\n"
	with, without := disks("scsi0", "scsi1"), disks("scsi0")
	for name, c := range map[string]struct {
		before, after, has, says string
		told                     bool
	}{
		"kept":                     {with, without, "", "stays with the VM", true},
		"destroyed":                {with, destroys + without, "", "for good", true},
		"another VM's":             {with, without, borrowed, "does not destroy it", true},
		"of a guest that is off":   {rig.Stopped + with, rig.Stopped + without, "", "stays with the VM", false},
		"of one shut down first":   {with, rig.Stopped + without, "", "stays with the VM", false},
		"without hotplug":          {"hotplug = []\n" + with, "hotplug = []\n" + without, "", "stays with the VM", false},
		"of a bus without hotplug": {disks("scsi0", "sata1"), without, "", "stays with the VM", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, c.before)
			if c.has != "" {
				l.Guest(func(world *state.World, g *state.Guest) {
					_, file, _ := strings.Cut(c.has, ":")
					world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: file, Content: "images", VMID: 8000, Format: "raw", Size: 1 << 30})
					g.Config["scsi1"] = c.has + ",size=1G"
				})
			}
			said := l.Plan(c.after).Diagnostics.String()
			if !strings.Contains(said, c.says) || strings.Contains(said, "takes it from the running guest, mounted or not. Unmount it") != c.told {
				t.Errorf("the plan is to tell of a running guest: %v. It says:\n%s", c.told, said)
			}
		})
	}
}
