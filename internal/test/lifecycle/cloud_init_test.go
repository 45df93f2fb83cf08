package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const (
	cloudInitNet = `networks = { net0 = { bridge = "vmbr0" }, net1 = { bridge = "vmbr0" } }
`
	cloudInitFull = `cloud_init = { storage = "local-zfs", type = "nocloud", user = "ops", ssh_keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJxyPjCEGMEmwa9rUGOdwDzp5Bk2mTmYXlyCuLp8yVqP a"], nameservers = ["10.0.0.1"], searchdomain = "lan", upgrade = false, custom = { user = "local:snippets/user.yaml" },
  addresses = { net0 = { ipv4 = "10.0.0.5/24", gateway4 = "10.0.0.1" }, net1 = { ipv4 = "dhcp", ipv6 = "auto" } } }
`
)

// TestCloudInitChangesInPlace: every option of cloud-init changes on a running VM, and goes, without a restart and without
// another drive; the drive is written again. A stopped guest gets the new data at its start.
func TestCloudInitChangesInPlace(t *testing.T) {
	t.Parallel()
	const wo = "cloud_init_password_wo = \"secret\"\ncloud_init_password_wo_version = 1\n"
	running := rig.NewVM(t, cloudInitNet+cloudInitFull).Again()
	still := rig.NewVM(t, cloudInitNet+rig.Stopped+cloudInitFull).Again()
	for name, c := range map[string]struct{ old, to, options string }{
		"type":               {`"nocloud"`, `"configdrive2"`, "citype"},
		"no type":            {`type = "nocloud", `, "", "delete=citype"},
		"user":               {`"ops"`, `"root"`, "ciuser"},
		"no user":            {`user = "ops", `, "", "delete=ciuser"},
		"keys":               {` a"]`, ` b"]`, "sshkeys"},
		"no keys":            {`ssh_keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJxyPjCEGMEmwa9rUGOdwDzp5Bk2mTmYXlyCuLp8yVqP a"], `, "", "delete=sshkeys"},
		"nameservers":        {`["10.0.0.1"]`, `["10.0.0.1", "10.0.0.2"]`, "nameserver"},
		"no nameservers":     {`nameservers = ["10.0.0.1"], `, "", "delete=nameserver"},
		"search domain":      {`"lan"`, `"wan"`, "searchdomain"},
		"no search domain":   {`searchdomain = "lan", `, "", "delete=searchdomain"},
		"upgrade":            {`upgrade = false`, `upgrade = true`, "ciupgrade"},
		"upgrade by default": {`upgrade = false, `, "", "delete=ciupgrade"},
		"custom data":        {`custom = { user =`, `custom = { vendor =`, "cicustom"},
		"no custom data":     {` custom = { user = "local:snippets/user.yaml" },`, "", "delete=cicustom"},
		"an address":         {`10.0.0.5/24`, `10.0.0.6/24`, "ipconfig0"},
		"no IPv6 of one":     {`, ipv6 = "auto"`, "", "ipconfig1"},
		"one address less":   {`, net1 = { ipv4 = "dhcp", ipv6 = "auto" }`, "", "delete=ipconfig1"},
		"no address":         {",\n  addresses = { net0 = { ipv4 = \"10.0.0.5/24\", gateway4 = \"10.0.0.1\" }, net1 = { ipv4 = \"dhcp\", ipv6 = \"auto\" } }", "", "delete=ipconfig0,ipconfig1"},
		"a password":         {"cloud_init = {", wo + "cloud_init = {", "cipassword"},
	} {
		for _, power := range []string{"running", "stopped"} {
			t.Run(name+", "+power, func(t *testing.T) {
				with, begin := cloudInitNet, running
				if power == "stopped" {
					with, begin = cloudInitNet+rig.Stopped, still
				}
				if !strings.Contains(cloudInitFull, c.old) {
					t.Fatalf("the configuration has no %q", c.old)
				}
				l := begin(t)
				drive := l.Config()["ide2"]
				l.To(with + strings.Replace(cloudInitFull, c.old, c.to, 1))
				want := []string{"PUT config " + c.options}
				if power == "running" {
					want = append(want, "PUT cloudinit")
				}
				l.WantSent(want...)
				l.Want(map[string]string{"ide2": "ide2"})
				if now := l.Config()["ide2"]; now != drive {
					t.Errorf("the drive was %q and is %q", drive, now)
				}
				l.WantRunning()
				if waiting := l.Waiting(); len(waiting) > 0 {
					t.Errorf("waits for a restart: %v", waiting)
				}
			})
		}
	}
}

// TestCloudInitDriveComesAndGoes: the drive comes to a VM that has options of cloud-init, and goes while options that another tool has
// set stay. Each plan says of its volume, slot and format what the next refresh finds.
func TestCloudInitDriveComesAndGoes(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, rig.Stopped)
	l.Guest(func(_ *state.World, g *state.Guest) { g.Config["ciuser"] = "guest" })
	l.To(rig.Stopped + `cloud_init = { user = "ops", storage = "local-zfs" }`)
	if drive := l.Config()["ide2"]; !strings.Contains(drive, "cloudinit") {
		t.Errorf("the drive is %q", drive)
	}
	l.Guest(func(_ *state.World, g *state.Guest) { g.Config["citype"] = "nocloud" })
	rig.Must(t, l.Session.Refresh(t.Context()))
	l.To(rig.Stopped)
	if drive, kind := l.Config()["ide2"], l.Config()["citype"]; drive != "" || kind != "nocloud" {
		t.Errorf("the drive is %q, the type %q", drive, kind)
	}
}

// TestStaleAddresses: with a NIC goes the address that cloud-init had for it, and with cloud-init all of them.
func TestStaleAddresses(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, cloudInitNet+cloudInitFull)
	l.To(`networks = { net0 = { bridge = "vmbr0" } }
` + strings.Replace(cloudInitFull, `, net1 = { ipv4 = "dhcp", ipv6 = "auto" }`, "", 1))
	l.WantSent("PUT config delete=ipconfig1,net1", "PUT cloudinit")
	l.To(rig.Stopped + `networks = { net0 = { bridge = "vmbr0" } }`)
	for option := range l.Config() {
		if strings.HasPrefix(option, "ipconfig") || strings.HasPrefix(option, "ci") || option == "sshkeys" || option == "ide2" {
			t.Errorf("%s is left", option)
		}
	}
	l.Want(map[string]string{})
}

// TestCloudInitDriveMoves: another storage is a move of the drive, another slot makes a new one; the options stay.
func TestCloudInitDriveMoves(t *testing.T) {
	t.Parallel()
	elsewhere := strings.Replace(cloudInitFull, `"local-zfs"`, `"local-lvm"`, 1)
	for _, power := range []string{"", rig.Stopped} {
		l := rig.NewVM(t, power+cloudInitNet+cloudInitFull)
		l.To(power + cloudInitNet + elsewhere)
		if power == "" { // PVE copies no data of it, and the running guest is to get the new one; only then QEMU lets go of the old one
			l.WantSent("POST move_disk delete=1 disk=ide2 storage=local-lvm", "PUT cloudinit", "DELETE {volume} delay storage=local-zfs volume")
		} else {
			l.WantSent("POST move_disk delete=1 disk=ide2 storage=local-lvm")
		}
		l.Want(map[string]string{"ide2": "ide2"})
		l.WantRunning()
	}
	const boot = "boot_order = [\"net0\"]\n" // PVE unplugs nothing that is in it
	l := rig.NewVM(t, boot+cloudInitNet+strings.Replace(cloudInitFull, "cloud_init = {", `cloud_init = { slot = "scsi9",`, 1))
	ipconfig := l.Config()["ipconfig0"]
	l.To(boot + cloudInitNet + strings.Replace(cloudInitFull, "cloud_init = {", `cloud_init = { slot = "scsi8",`, 1))
	l.WantSent("PUT config delete=scsi9", "POST config scsi8")
	l.Want(map[string]string{"scsi8": ""})
	if l.Config()["ipconfig0"] != ipconfig {
		t.Errorf("ipconfig0 is %q", l.Config()["ipconfig0"])
	}
	l.WantRunning()

	l = rig.NewVM(t, cloudInitNet+cloudInitFull)
	l.Refuses(cloudInitNet+strings.Replace(cloudInitFull, "cloud_init = {", `cloud_init = { slot = "ide3",`, 1), "cloud_init.slot", "from ide2 at the next stop only")
	l.Want(map[string]string{"ide2": "ide2"})
	if waiting := l.Waiting(); len(waiting) > 0 {
		t.Errorf("waits for a restart: %v", waiting)
	}
}

// TestCloudInitDriveMakesRoom: an optical drive takes the slot of the cloud-init drive of a running guest. Nothing of that
// is left on its storage, and the drive can come back.
func TestCloudInitDriveMakesRoom(t *testing.T) {
	t.Parallel()
	for _, medium := range []string{"local:iso/debian.iso", "none"} {
		l := rig.NewVM(t, cloudInitNet+cloudInitFull)
		l.To(cloudInitNet + `cdroms = { ide2 = { file = "` + medium + `" } }`)
		l.WantNoOrphans()
		l.To(cloudInitNet + cloudInitFull)
		l.WantSent("POST config cicustom citype ciupgrade ciuser ide2 ipconfig0 ipconfig1 nameserver searchdomain sshkeys", "PUT cloudinit")
		l.Want(map[string]string{"ide2": ""})
		l.WantRunning()
	}
}

// TestWaitingCloudInitDriveMoves: a cloud-init drive waits for the next start of the guest, and its storage changes. PVE moves
// no such drive: it is made on the other storage, and waits on.
func TestWaitingCloudInitDriveMoves(t *testing.T) {
	t.Parallel()
	const never = "reboot_policy = \"never\"\n"
	for _, storage := range []string{`"local-lvm"`, `"local", format = "qcow2"`} {
		l := rig.NewVM(t, never)
		l.To(never + `cloud_init = { storage = "local-zfs", user = "a" }`)
		l.To(never + `cloud_init = { storage = ` + storage + `, user = "a" }`)
		l.WantSent("POST config ide2")
		if waiting := l.Waiting(); len(waiting) != 1 {
			t.Errorf("waits for a restart: %v", waiting)
		}
		l.Guest(func(w *state.World, _ *state.Guest) {
			for _, v := range w.Volumes {
				if v.VMID == 400 && v.Storage == "local-zfs" && strings.Contains(v.Name, "cloudinit") {
					t.Errorf("%s is left", v.Volid())
				}
			}
		})
		l.WantRunning()
	}
}

// TestRegenerationRefused: the options are changed, and a warning says that the drive has the old data.
func TestRegenerationRefused(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, cloudInitNet+cloudInitFull)
	l.World.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT", Path: "/nodes/{node}/qemu/{vmid}/cloudinit"}, Phase: fault.Before, Reason: "no space left on device"}})
	l.To(cloudInitNet + strings.Replace(cloudInitFull, `"ops"`, `"root"`, 1))
	l.Warned("", "cloud-init drive of VM 400 may have old data", "no space left on device", "next stop and start")
	if user := l.Config()["ciuser"]; user != "root" {
		t.Errorf("ciuser is %q", user)
	}
	l.World.Sim.SetFaults(nil)
	l.Guest(func(world *state.World, _ *state.Guest) { // a snippet that is not there: PVE's own refusal
		for key, v := range world.Volumes {
			if v.Name == "snippets/user.yaml" {
				delete(world.Volumes, key)
			}
		}
	})
	l.To(cloudInitNet + strings.Replace(cloudInitFull, `"ops"`, `"admin"`, 1))
	l.Warned("", "may have old data", "snippets/user.yaml")
}

// TestDrivesOfACopyKeepTheirSlots: a copy gets no other drive in the place of its disk, or of the cloud-init drive that it needs. PVE
// would take those out without a word, and the new VM would not boot, or have no user. The plan refuses it, and a create whose plan
// could not know the slot.
func TestDrivesOfACopyKeepTheirSlots(t *testing.T) {
	t.Parallel()
	const clone, backup = "clone = { vmid = 9000, full = true }\n", "node = \"pve1\"\nrestore = { archive = \"" + rig.WebBackup + "\" }\n"
	for name, c := range map[string]struct{ body, refused, warned string }{
		"a medium in the place of its disk":         {clone + `cdroms = { scsi0 = { file = "none" } }`, `cdroms["scsi0"]`, ""},
		"a drive in the place of its disk":          {clone + `cloud_init = { slot = "scsi0" }`, "cloud_init.slot", ""},
		"a medium in the place of a restored disk":  {backup + `cdroms = { scsi0 = { file = "none" } }`, `cdroms["scsi0"]`, ""},
		"a medium in the place of a drive it needs": {clone + "cdroms = { ide2 = { file = \"none\" } }\ncloud_init = { user = \"ops\" }", `cdroms["ide2"]`, ""},
		"a disk in the place of a drive it needs": {clone + "disks = { ide2 = { storage = \"local-zfs\", size = \"1G\" } }\ncloud_init = { user = \"ops\" }",
			`disks["ide2"]`, ""},
		"a medium in the place of a drive": {clone + `cdroms = { ide2 = { file = "none" } }`, "", "The copy has no cloud-init drive"},
		"a medium, and the drive elsewhere": {clone + "cdroms = { ide2 = { file = \"none\" } }\ncloud_init = { user = \"ops\", slot = \"ide0\", storage = \"local-zfs\" }",
			"", ""},
		"its own slots": {clone + "disks = { scsi0 = { size = \"4G\" } }\ncloud_init = { user = \"ops\" }", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) { world.AddBackup("pve1") })
			s := w.Session(t, rig.RootTicket, rig.VMBlock("vmid = 400\nprotection = false\n"+c.body+"\n"))
			pl, err := s.Plan(t.Context())
			for _, d := range s.Diagnostics() {
				if d.Error && d.Attribute != c.refused || !d.Error && c.warned != "" && !strings.Contains(d.Summary, c.warned) {
					t.Errorf("unexpected: %s", d)
				}
			}
			if (err != nil) != (c.refused != "") || (c.warned != "") != strings.Contains(s.Diagnostics().String(), "no cloud-init drive") {
				t.Fatalf("%v: %s", err, s.Diagnostics())
			}
			if err == nil {
				rig.Must(t, s.Apply(t.Context(), pl))
				if unused := rig.GuestOf(w, 400).Config["unused0"]; unused != "" {
					t.Errorf("%s was taken out", unused)
				}
			}
		})
	}
}

// TestCreateTakesNoDriveOut: the plan did not know the slot, so the create refuses it, and leaves nothing.
func TestCreateTakesNoDriveOut(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, "resource \"proxmox_vm\" \"first\" {\n  node = \"pve1\"\n}\n"+
		rig.VMBlock("vmid = 400\nprotection = false\nclone = { vmid = 9000, full = true }\ncloud_init = { slot = \"scsi${proxmox_vm.first.vmid - 100}\" }\n"))
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	if err := s.Apply(t.Context(), pl); err == nil || !strings.Contains(err.Error(), "the slot is not empty") {
		t.Errorf("want a refusal, got %v", err)
	}
	if rig.GuestOf(w, 400).VMID != 0 {
		t.Error("VM 400 is left")
	}
}

// TestNewInstanceIsToldWhereItIsOne: no word of a new instance where PVE's instance-id stays: it is a hash of user data and
// network data alone, and a snippet with meta data brings its own.
func TestNewInstanceIsToldWhereItIsOne(t *testing.T) {
	t.Parallel()
	body := func(more, ci string) string {
		return rig.OneDisk + "\nnetworks = { net0 = { bridge = \"vmbr0\"" + more + " } }\ncloud_init = { storage = \"local-zfs\", addresses = { net0 = { ipv4 = \"dhcp\" } }" + ci + " }\n"
	}
	const renamed, meta = "#renamed\n", ", custom = { meta = \"local:snippets/user.yaml\" }"
	for name, c := range map[string]struct {
		before, after string
		isNew         bool
	}{
		"user":            {body("", ""), body("", ", user = \"ops\""), true},
		"upgrade as ever": {body("", ""), body("", ", upgrade = true"), false},
		"bridge":          {body("", ""), strings.Replace(body("", ""), "vmbr0", "vmbr1", 1), false},
		"storage":         {body("", ""), strings.Replace(body("", ""), "cloud_init = { storage = \"local-zfs\"", "cloud_init = { storage = \"local-lvm\"", 1), false},
		"name":            {body("", ""), renamed + body("", ""), true},
		"its own meta":    {body("", meta), renamed + body("", meta), false},
		"no drive":        {rig.OneDisk + "\n", renamed + rig.OneDisk + "\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, c.before)
			block := rig.NodeVMBlock(c.after)
			if strings.HasPrefix(c.after, renamed) {
				block = strings.Replace(block, "name = \"x\"", "name = \"other\"", 1)
			}
			l.World.Reconfigure(t, l.Session, rig.TokenNoSSH, block)
			pl, err := l.Session.Plan(t.Context())
			rig.Must(t, err)
			if is := strings.Contains(pl.Diagnostics.String(), "host keys"); is != c.isNew {
				t.Errorf("told of a new instance: %v", is)
			}
		})
	}
}

// TestNewMACReachesTheCloudInitDrive: its network data name the devices by their MAC addresses, so the drive of a running guest
// is written again with a new one.
func TestNewMACReachesTheCloudInitDrive(t *testing.T) {
	t.Parallel()
	body := rig.OneDisk + "\nnetworks = { net0 = { bridge = \"vmbr0\" } }\ncloud_init = { storage = \"local-zfs\", addresses = { net0 = { ipv4 = \"dhcp\" } } }\n"
	l := rig.NewVM(t, body)
	l.To(strings.Replace(body, "\"vmbr0\"", "\"vmbr0\", macaddr = \"BC:24:11:00:00:77\"", 1))
	if sent := rig.RequestsOf(l.World, "ApplyResourceChange"); !strings.Contains(fmt.Sprint(sent), "/cloudinit") {
		t.Errorf("sent %v", sent)
	}
}

// TestOptionsThatQEMUReadsAtItsStart: PVE stores some options of a disk at once, gives QEMU nothing of them, and reports nothing.
// The plan says when they count, and that the writes of a guest with snapshot = true are lost.
func TestOptionsThatQEMUReadsAtItsStart(t *testing.T) {
	t.Parallel()
	disk := func(more string) string {
		return "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\"" + more + " } }"
	}
	for name, c := range map[string]struct {
		before, after string
		says          []string
	}{
		"serial":        {"", `, serial = "ABC"`, []string{"serial"}},
		"wwn":           {"", `, wwn = "0x5000000000000001"`, []string{"wwn"}},
		"detect_zeroes": {"", `, detect_zeroes = false`, []string{"detect_zeroes"}},
		"werror":        {"", `, werror = "stop"`, []string{"werror"}},
		"a snapshot":    {"", `, snapshot = true`, []string{"snapshot", "discards the guest's writes"}},
		"no snapshot":   {`, snapshot = true`, "", []string{"snapshot", "its writes to the disk since its start are lost when it stops"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, disk(c.before))
			pl := l.Plan(disk(c.after))
			l.Warned(`disks["scsi0"]`, append(c.says, "at the next start", "qm reboot 400")...)
			was := rig.GuestOf(l.World, 400).Running.Booted["scsi0"]
			rig.Must(t, l.Session.Apply(t.Context(), pl))
			if is := rig.GuestOf(l.World, 400).Running.Booted["scsi0"]; is != was || is == l.Config()["scsi0"] {
				t.Errorf("QEMU has %s, the configuration %s", is, l.Config()["scsi0"])
			}
			rig.Must(t, l.Session.Converge(t.Context()))
		})
	}
}

// TestCopyWithoutACloudInitDrive: PVE takes cloud-init options for a VM without a drive, and the guest sees nothing of them. A copy of a source that has
// none is refused by the plan and, where that does not know the source, by the create, before anything is made; so is its replacement. With a storage
// it gets a drive.
func TestCopyWithoutACloudInitDrive(t *testing.T) {
	t.Parallel()
	for name, hcl := range map[string]string{
		"user":     `cloud_init = { user = "x", addresses = { net0 = { ipv4 = "10.0.0.5/24" } } }`,
		"password": "cloud_init_password_wo = \"secret\"\ncloud_init_password_wo_version = 1",
		"slot":     `cloud_init = { user = "x", slot = "scsi9" }`,
		"snippet":  `cloud_init = { custom = { user = "local:snippets/user.yaml" } }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
			w.Change(func(world *state.World) { delete(world.Guests[9000].Config, "ide2") })
			clone := func(more string) string {
				return rig.VMBlock("vmid = 400\nnode = \"pve1\"\nprotection = false\nclone = { vmid = 9000 }\n" + more)
			}
			s := w.Session(t, rig.TokenNoSSH, clone(hcl))
			refused := []string{"no cloud-init drive", "cloud_init.storage"}
			_, err := s.Plan(t.Context())
			rig.MustRefuse(t, err, refused)
			w.Reconfigure(t, s, rig.TokenNoSSH, clone(""))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, clone(hcl))
			s.Taint("proxmox_vm.x", true)
			_, err = s.Plan(t.Context())
			rig.MustRefuse(t, err, refused)
			const made = "resource \"proxmox_vm\" \"made\" {\n  vmid = 500\n  node = \"pve1\"\n  template = true\n}\n"
			late := strings.NewReplacer("400", "401", "vmid = 9000", "vmid = proxmox_vm.made.vmid").Replace(clone(hcl))
			rig.MustRefuse(t, w.Session(t, rig.TokenNoSSH, made+late).Run(t.Context()), refused)
			if rig.GuestOf(w, 500).Config == nil || rig.GuestOf(w, 401).Config != nil {
				t.Error("the template was not made, or its clone was")
			}
			if name == "password" {
				hcl += "\ncloud_init = { user = \"ops\" }"
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, clone(strings.Replace(hcl, "cloud_init = {", "cloud_init = { storage = \"local-zfs\",", 1)))
			rig.Must(t, s.Converge(t.Context()))
		})
	}
}
