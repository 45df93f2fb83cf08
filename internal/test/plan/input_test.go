package plan_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestInputThatOnlyTheApplyUsedToRefuse: an error that can be known at plan time fails the plan, on the attribute that is wrong.
func TestInputThatOnlyTheApplyUsedToRefuse(t *testing.T) {
	t.Parallel()
	disk := func(more string) string { return `disks = { scsi0 = { storage = "local-zfs", ` + more + ` } }` }
	for _, c := range []refusal{
		{hcl: `description = "a\u0000b"`, attribute: "description", says: []string{"NUL"}},
		{hcl: `cpu = { type = "host,flags=+aes" }`, attribute: "cpu.type", says: []string{"flags have an attribute"}},
		{hcl: `cpu = { flags = ["+aes"] }`, attribute: "cpu.type", says: []string{"CPU model"}},
		{hcl: `cpu = { cores = 2, vcpus = 3 }`, attribute: "cpu.vcpus", says: []string{"2 processors"}},
		{hcl: `cpu = { units = 1 }`, attribute: "cpu.units", says: []string{"262144"}},
		{hcl: `agent = { type = "isa" }`, attribute: "agent.enabled", says: []string{"enabled"}},
		{hcl: disk(`size = "99999999999999999999999G"`), attribute: `disks["scsi0"].size`, says: []string{"too large"}},
		{hcl: disk(`size = "1.0001G"`), attribute: `disks["scsi0"].size`, says: []string{"whole number of bytes"}},
		{hcl: disk(`size = "0G"`), attribute: `disks["scsi0"].size`, says: []string{"nothing"}},
		{hcl: disk(`import_from = "nostore:import/x.qcow2"`), attribute: `disks["scsi0"].import_from`, says: []string{"nostore", "local-zfs"}},
		{hcl: `cdroms = { ide2 = { file = "nostore:iso/x.iso" } }`, attribute: `cdroms["ide2"].file`, says: []string{"nostore"}},
		{hcl: `networks = { net0 = {} }`, attribute: `networks["net0"].bridge`, says: []string{"root@pam", "terraform@pve!prov"}},
		{hcl: `networks = { net0 = { bridge = "vmbr0", trunks = ["20-10"] } }`, attribute: `networks["net0"].trunks`, says: []string{"backwards"}},
		{hcl: `networks = { net0 = { bridge = "vmbr0", trunks = ["5000"] } }`, attribute: `networks["net0"].trunks`, says: []string{"4094"}},
		{hcl: `cloud_init = { storage = "local-zfs", user = "a\nb: c" }`, attribute: "cloud_init.user", says: []string{"one line"}},
		{hcl: `cloud_init = { storage = "local-zfs", nameservers = ["fe80::1%eth0"] }`, attribute: "cloud_init.nameservers[0]", says: []string{"zone"}},
		{hcl: `cloud_init = { storage = "local-zfs", addresses = { net0 = {} } }`, attribute: `cloud_init.addresses["net0"]`, says: []string{"empty"}},
		{hcl: `cloud_init = { storage = "local-zfs", addresses = { net0 = { ipv4 = "10.0.0.5/0" } } }`, attribute: `cloud_init.addresses["net0"].ipv4`, says: []string{"prefix length"}},
		{hcl: "template = true\npower_state = \"running\"", attribute: "power_state", says: []string{"template cannot run"}},
		{hcl: `clone = { vmid = 9000, storage = "local-lvm" }`, attribute: "clone.storage", says: []string{"clone.full = true"}},
		{hcl: `clone = { vmid = 9000, full = true, snapshot = "x" }`, attribute: "clone.snapshot", says: []string{"2 to 40"}},
		{hcl: "clone = { vmid = 9000 }\n  disks = { scsi0 = { size = \"1G\" } }", attribute: `disks["scsi0"].size`, says: []string{"2G", "1G", "shrunk"}},
		{hcl: "clone = { vmid = 9000 }\n  disks = { scsi5 = { size = \"1G\" } }", attribute: `disks["scsi5"].storage`, says: []string{"needs a storage. There are disks already, in scsi0: to grow or change one of them, name its slot"}},
		{hcl: "machine_options = { aw_bits = 48 }", attribute: "machine_options.aw_bits", says: []string{"set machine_options.viommu too"}},
		{hcl: `pool = ""`, attribute: "pool", says: []string{`"prod/web". To leave it unset write null, as in pool = var.pool == "" ? null : var.pool`}},
		{hcl: `networks = { net0 = { bridge = "vmbr0", macaddr = "" } }`, attribute: `networks["net0"].macaddr`, says: []string{`macaddr = var.macaddr == "" ? null`}},
		{hcl: `networks = { net0 = { bridge = "vmbr0", tag = 0 } }`, attribute: `networks["net0"].tag`, says: []string{"tag = var.tag == 0 ? null : var.tag"}},
		{hcl: `networks = { net0 = { bridge = "vmbr0", tag = -1 } }`, attribute: `networks["net0"].tag`, says: []string{"tag = var.tag == -1 ? null : var.tag"}},
		{hcl: `cloud_init = { storage = "local-zfs", searchdomain = "" }`, attribute: "cloud_init.searchdomain", says: []string{"It is empty. To leave it unset write null"}},
		{hcl: `cloud_init = { storage = "local-zfs", addresses = { net0 = { ipv4 = "", gateway4 = "10.0.0.1" } } }`, attribute: `cloud_init.addresses["net0"].ipv4`, says: []string{"write null"}},
		{hcl: `cdroms = { ide2 = { file = "" } }`, attribute: `cdroms["ide2"].file`, says: []string{`An empty drive is "none"`}},
		{hcl: "clone = { vmid = 9000 }\n  efi_disk = {}", attribute: "efi_disk.storage", says: []string{"needs a storage"}},
	} {
		t.Run(c.hcl, func(t *testing.T) {
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("node = \"pve1\"\n"+c.hcl))
			err := s.Validate(t.Context())
			if err == nil {
				_, err = s.Plan(t.Context())
			}
			if err == nil {
				t.Fatal("accepted by the plan")
			}
			wantOne(t, s.Diagnostics(), c)
			w.MustBeClean(t)
		})
	}
}

// TestPlansShareLookups: many VMs in one plan cost one listing, one list of bridges, one configuration of the template and one list of
// the identity's privileges.
func TestPlansShareLookups(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, `
resource "proxmox_vm" "many" {
  count    = 10
  name     = "vm-${count.index}"
  clone    = { vmid = 9000 }
  networks = { net0 = { bridge = "vmbr1" } }
}
`)
	w.ResetCalls()
	if _, err := s.Plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if used := rig.RequestsOf(w, "PlanResourceChange"); len(used) > 4 {
		t.Errorf("%d requests, want at most 4:\n%s", len(used), strings.Join(used, "\n"))
	}
}

// TestCloneOfAProtectedTemplate: a clone inherits the protection, which must not be in the way of its own configuration
// and must stand in the end.
func TestCloneOfAProtectedTemplate(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("vmid = 400\nclone = { vmid = 9000 }\ncloud_init = { slot = \"ide0\" }"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		config := world.Guests[400].Config
		if config["protection"] != "1" || config["ide2"] != "" || !strings.Contains(config["ide0"], "cloudinit") {
			t.Errorf("the clone is %v", config)
		}
	})
}

// TestADeviceOfTheTemplateNamedLater: the device's unconfigured options stay as they are.
func TestADeviceOfTheTemplateNamedLater(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("vmid = 400\nclone = { vmid = 9000 }"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	var before string
	w.Change(func(world *state.World) { before = world.Guests[400].Config["net0"] })
	w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock("vmid = 400\nclone = { vmid = 9000 }\nnetworks = { net0 = { tag = 7 } }\ndisks = { scsi0 = { size = \"5G\" } }"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		guest := world.Guests[400]
		net := guest.Config["net0"]
		if pending := guest.Pending["net0"]; pending != "" {
			net = pending
		}
		if net != before+",tag=7" {
			t.Errorf("net0 was %q and is %q", before, net)
		}
		if guest.Config["unused0"] != "" || !strings.HasSuffix(guest.Config["scsi0"], ",size=5G") {
			t.Errorf("the disk is %q, unused %q", guest.Config["scsi0"], guest.Config["unused0"])
		}
	})
}

// TestAMoveLeavesNoPendingVolume: an option that waits for a restart stands in a line with the disk's old volume; after a
// move the next boot would put that volume, which is gone, back in its place.
func TestAMoveLeavesNoPendingVolume(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	disk := func(storage, more string) string {
		return rig.VMBlock("vmid = 400\nnode = \"pve1\"\nreboot_policy = \"never\"\ndisks = { scsi0 = { storage = \"" + storage + "\", size = \"1G\"" + more + " } }")
	}
	s := w.Session(t, rig.TokenNoSSH, disk("local-zfs", ""))
	for _, config := range []string{disk("local-zfs", ""), disk("local-zfs", ", discard = true"), disk("local-lvm", ", discard = true")} {
		w.Reconfigure(t, s, rig.TokenNoSSH, config)
		if err := s.Converge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.Change(func(world *state.World) {
		guest := world.Guests[400]
		if !strings.HasPrefix(guest.Config["scsi0"], "local-lvm:") || !strings.HasPrefix(guest.Pending["scsi0"], "local-lvm:") || !strings.Contains(guest.Pending["scsi0"], "discard=on") {
			t.Errorf("scsi0 is %q, and %q after the next boot", guest.Config["scsi0"], guest.Pending["scsi0"])
		}
	})
}

// TestRefusedAtHotplugInATask: a change that a running guest cannot take is an error, and does not happen later either. The guest is
// started after the plan, which would refuse the change.
func TestRefusedAtHotplugInATask(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after, says string }{
		"another kind of drive": {`cdroms = { sata0 = { file = "none" } }`, `disks = { sata0 = { storage = "local-zfs", size = "1G" } }`, "unable to change media type"},
		"cloud-init drive":      {`cloud_init = { storage = "local-zfs" }`, `cloud_init = { storage = "local-zfs", slot = "ide0" }`, "cannot leave ide2 while the VM runs"},
	} {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("vmid = 400\nnode = \"pve1\"\n"+c.before))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock("vmid = 400\nnode = \"pve1\"\n"+c.after))
			var running *state.Running
			w.Change(func(world *state.World) { running, world.Guests[400].Running = world.Guests[400].Running, nil })
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			w.Change(func(world *state.World) { world.Guests[400].Running = running })
			if err := s.Apply(t.Context(), pl); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want an error that says %q, got %v", c.says, err)
			}
			w.Change(func(world *state.World) {
				if g := world.Guests[400]; len(g.Pending)+len(g.Deletes) > 0 {
					t.Errorf("still waiting for the next boot: %v %v", g.Pending, g.Deletes)
				}
			})
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock("vmid = 400\nnode = \"pve1\"\npower_state = \"stopped\"\n"+c.before))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatalf("stop: %v", err)
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock("vmid = 400\nnode = \"pve1\"\npower_state = \"stopped\"\n"+c.after))
			if err := s.Converge(t.Context()); err != nil {
				t.Errorf("on the stopped VM: %v", err)
			}
		})
	}
}
