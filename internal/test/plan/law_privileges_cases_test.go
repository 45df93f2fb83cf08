package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// addSources adds what the cases name.
func addSources(world *state.World) {
	world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "iso/debian.iso", Content: "iso", Format: "iso", Size: 1 << 20})
	world.Put(state.WebBackup("pve1"))
	world.Pools["web"], world.Pools["db"] = &state.Pool{ID: "web"}, &state.Pool{ID: "db"}
	template := world.Guests[9000]
	delete(template.Config, "protection")
	config := maps.Clone(template.Config)
	delete(config, "tags")
	maps.Copy(config, map[string]string{"name": "rich", "vmstatestorage": "local-lvm", "hostpci0": "mapping=gpu", "usb0": "mapping=stick",
		"rng0": "source=/dev/hwrng", "cpu": "custom-web", "ide3": "cdrom,media=cdrom", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=20"})
	for _, disk := range []string{"scsi0", "ide2"} {
		config[disk] = strings.ReplaceAll(config[disk], "9000", "9100")
	}
	for _, v := range slices.Collect(maps.Values(world.Volumes)) {
		if v.VMID == 9000 {
			c := *v
			c.VMID, c.Name = 9100, strings.ReplaceAll(v.Name, "9000", "9100")
			world.Put(&c)
		}
	}
	world.Guests[9100] = &state.Guest{VMID: 9100, Type: "qemu", Node: "pve1", Config: config}
}

// textCase is a case of two configurations in words, each of VM 500 if it is no block.
func textCase(name, was, is string, seed func(*state.World)) allowedCase {
	c := allowedCase{name: name, seed: seed}
	if strings.Contains(name, " tag") { // the datacenter's rules are told with it alone
		c.more = []need{{path: "/", anyOf: "Sys.Audit"}}
	}
	configured := func(text string) func(*terraformtest.Session, string) error {
		if text == "" {
			return nil
		}
		if !strings.Contains(text, "resource ") && !strings.Contains(text, "action ") {
			if !strings.HasPrefix(text, "vmid") {
				text = "vmid = 500\n" + text
			}
			if !strings.Contains(text, "node =") {
				text = "node = \"pve1\"\n" + text
			}
			text = rig.VMBlock("name = \"x\"\n" + text)
		}
		return func(s *terraformtest.Session, provider string) error { return s.Configure(provider, text) }
	}
	c.was, c.is = configured(was), configured(is)
	return c
}

// operations are the changes that are more than one attribute.
func operations() []allowedCase {
	const stopped, disk = "power_state = \"stopped\"\n", rig.OneDisk + "\n"
	tags := func(access, registered string) func(*state.World) {
		return func(w *state.World) {
			w.Options = map[string]string{"user-tag-access": access, "registered-tags": registered}
		}
	}
	none, listed := tags("user-allow=none", ""), tags("user-allow=list,user-allow-list=a", "r")
	clone := func(more string) string { return stopped + "protection = false\nclone = {" + more + "}\n" }
	ofPlan := func(source, how, more string) string {
		const begins = "resource \"proxmox_vm\" \"%s\" {\nnode = \"pve1\"\nvmid = %d\nname = \"%[1]s\"\npower_state = \"stopped\"\n"
		return fmt.Sprintf(begins, "t", 700) + "template = true\n" + disk + source + "}\n" +
			fmt.Sprintf(begins, "x", 500) + "clone = { vmid = proxmox_vm.t.vmid" + how + " }\n" + more + "}\n"
	}
	held := func(more string) string {
		return "resource \"proxmox_disk\" \"x\" {\nvmid = 600\nnode = \"pve1\"\n" + more + "\n}\n"
	}
	snapshot := func(more string) string {
		return "resource \"proxmox_vm_snapshot\" \"x\" {\nvmid = 8000\nname = \"mine\"\n" + more + "}\n"
	}
	rule := func(more string) string {
		return "resource \"proxmox_ha_rule\" \"x\" {\nrule = \"here\"\ntype = \"node-affinity\"\nresources = [\"vm:8000\"]\nnodes = { pve1 = 1 }\n" + more + "}\n"
	}
	managed := func(w *state.World) { w.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored"} }
	all := []allowedCase{
		textCase("create from nothing", "", stopped+disk, nil), textCase("create and start", "", disk, nil),
		textCase("create without a name", "", "resource \"proxmox_vm\" \"x\" {\nvmid = 500\nnode = \"pve1\"\n"+stopped+disk+"}\n", nil),
		textCase("create in a pool", "", stopped+disk+"pool = \"web\"\n", nil),
		textCase("create with a medium", "", stopped+"cdroms = { ide0 = { file = \"local:iso/debian.iso\" } }\n", nil),
		textCase("create with the node's drive", "", stopped+"cdroms = { ide0 = { file = \"cdrom\" } }\n", nil),
		textCase("create with an image", "", stopped+"disks = { scsi0 = { storage = \"local-zfs\", import_from = \"local:import/other.qcow2\" } }\n", nil),
		textCase("create with a disk of its image's size", "", stopped+"disks = { scsi0 = { storage = \"local-zfs\", size = \"2G\", import_from = \"local:import/other.qcow2\" } }\n", nil),
		textCase("create with a disk larger than another VM's", "", stopped+"disks = { scsi0 = { storage = \"local-zfs\", size = \"90G\", import_from = \"local-lvm:vm-8000-disk-0\" } }\n", nil),
		textCase("create with another VM's disk", "", stopped+"disks = { scsi0 = { storage = \"local-zfs\", import_from = \"local-lvm:vm-8000-disk-0\" } }\n", nil),
		textCase("create with the node's random numbers", "", stopped+"rng = { source = \"/dev/hwrng\" }\n", nil),
		textCase("create with a VLAN", "", stopped+"networks = { net0 = { bridge = \"vmbr0\", tag = 20 } }\n", nil),
		textCase("create with trunks", "", stopped+"networks = { net0 = { bridge = \"vmbr0\", trunks = [\"7\", \"9\"] } }\n", nil),
		textCase("create with tags of which none is allowed", "", stopped+"tags = [\"a\"]\n", none),
		textCase("create with a registered tag", "", stopped+"tags = [\"r\"]\n", listed),
		textCase("clone", "", clone("vmid = 9000"), nil), textCase("clone as a copy", "", clone("vmid = 9000\nfull = true\nstorage = \"local-lvm\""), nil),
		textCase("clone into a pool", "", clone("vmid = 9000")+"pool = \"web\"\n", nil),
		textCase("clone with devices", "", clone("vmid = 9100"), nil),
		textCase("clone with tags of which none is allowed", "", clone("vmid = 9000")+"tags = [\"golden\", \"a\"]\n", none),
		textCase("clone with more", "", clone("vmid = 9000")+"cpu = { cores = 4 }\nmemory = { size = 4096 }\ndisks = { scsi0 = { size = \"9G\" } }\nstartup = { order = 3 }\n", nil),
		textCase("clone onto another storage", "", clone("vmid = 9000\nfull = true")+"disks = { scsi0 = { storage = \"local-lvm\" } }\n", nil),
		textCase("clone of a VM of the same plan", "", ofPlan("", "", ""), nil),
		textCase("clone of a VM of the same plan, with more", "", ofPlan("", "", "startup = { order = 3 }\ncpu = { cores = 4 }\nmemory = { size = 4096 }\n"+
			"cdroms = { ide0 = { file = \"cdrom\" } }\n"), nil),
		textCase("clone of a VM of the same plan, with the same", "", ofPlan("startup = { order = 3 }\n", "", "startup = { order = 3 }\n"), nil),
		textCase("clone of a VM of the same plan, in a pool", "", ofPlan("pool = \"web\"\n", ", full = true, storage = \"local-lvm\"", "pool = \"db\"\ncpu = { cores = 4 }\n"), nil),
		textCase("restore", "", stopped+"restore = { archive = \""+rig.WebBackup+"\", storage = \"local-zfs\" }\n", nil),
		textCase("update of the power state", stopped+disk, "power_state = \"running\"\n"+disk, nil),
		textCase("update that restarts", disk+"cpu = { cores = 1 }\n", disk+"cpu = { cores = 2 }\n", nil),
		textCase("update of a medium", stopped+"cdroms = { ide0 = { file = \"none\" } }\n", stopped+"cdroms = { ide0 = { file = \"local:iso/debian.iso\" } }\n", nil),
		textCase("update to no medium", stopped+"cdroms = { ide0 = { file = \"local:iso/debian.iso\" } }\n", stopped+"cdroms = {}\n", nil),
		textCase("update of the bridge", stopped+"networks = { net0 = { bridge = \"vmbr0\" } }\n", stopped+"networks = { net0 = { bridge = \"vmbr1\" } }\n", nil),
		textCase("update to no network", stopped+"networks = { net0 = { bridge = \"vmbr0\" } }\n", stopped+"networks = {}\n", nil),
		textCase("update to no mapping", stopped+"pci = { hostpci0 = { mapping = \"gpu\" } }\nvirtiofs = { virtiofs0 = { dirid = \"share\" } }\n", stopped+"pci = {}\nvirtiofs = {}\n", nil),
		textCase("update to a pool", stopped, stopped+"pool = \"web\"\n", nil), textCase("update to a pool with more", stopped, "pool = \"web\"\ndescription = \"new\"\n", nil),
		textCase("update to another pool", stopped+"pool = \"web\"\n", stopped+"pool = \"db\"\n", nil),
		textCase("update of a VM in a pool", stopped+"pool = \"web\"\n"+disk, stopped+"pool = \"web\"\ndescription = \"new\"\n"+disk, nil),
		textCase("update of tags of which none is allowed", stopped+"tags = [\"a\"]\n", stopped+"tags = [\"b\"]\n", none),
		textCase("update of tags to a registered one", stopped+"tags = [\"a\"]\n", stopped+"tags = [\"a\", \"r\"]\n", listed),
		textCase("update of tags to an allowed one", stopped, stopped+"tags = [\"a\"]\n", listed),
		textCase("update with another disk", stopped+disk, stopped+"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, scsi1 = { storage = \"local-lvm\", size = \"1G\" } }\n", nil),
		textCase("update to an optical drive in the slot of a disk", stopped+"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, scsi1 = { storage = \"local-zfs\", size = \"1G\" } }\n",
			stopped+disk+"cdroms = { scsi1 = { file = \"none\" } }\n", nil),
		textCase("update to no disk", stopped+disk, stopped+"disks = {}\n", nil),
		textCase("update to no disk, destroyed", stopped+disk+"removed_disks = \"destroy\"\n", stopped+"removed_disks = \"destroy\"\ndisks = {}\n", nil),
		textCase("update that waits", disk, "cpu = { cores = 2 }\nagent = { enabled = true }\nwait_for = { agent = true, on_timeout = \"fail\" }\n"+disk, nil),
		textCase("migrate", stopped+disk, strings.Replace(stopped+disk, "power", "node = \"pve2\"\npower", 1), nil),
		textCase("replace", stopped+disk, "vmid = 501\n"+stopped+disk+"cdroms = { ide0 = { file = \"local:iso/debian.iso\" } }\n", nil),
		textCase("replace by a copy", stopped+disk, "vmid = 501\n"+clone("vmid = 9100"), nil),
		textCase("destroy", stopped+disk, "", nil), textCase("destroy what runs", disk, "", nil), textCase("destroy in a pool", stopped+disk+"pool = \"web\"\n", "", nil),
		textCase("disk, new", "", held(rig.SmallDisk), nil), textCase("disk, grown", held(rig.SmallDisk), held(strings.Replace(rig.SmallDisk, "1G", "2G", 1)), nil),
		textCase("disk, moved", held(rig.SmallDisk), held(strings.Replace(rig.SmallDisk, "zfs", "lvm", 1)), nil), textCase("disk, destroyed", held(rig.SmallDisk), "", nil),
		textCase("disk in a pool, new", "", held(rig.SmallDisk+"\npool = \"web\""), nil),
		textCase("disk in a pool, destroyed", held(rig.SmallDisk+"\npool = \"web\""), "", nil),
		textCase("disk, to a pool", held(rig.SmallDisk), held(rig.SmallDisk+"\npool = \"web\""), nil),
		textCase("disk, out of a pool", held(rig.SmallDisk+"\npool = \"web\""), held(rig.SmallDisk), nil),
		textCase("disk, migrated", held(rig.SmallDisk), strings.Replace(held(rig.SmallDisk), "pve1", "pve2", 1), nil),
		textCase("disk, named", held(rig.SmallDisk), held(rig.SmallDisk+"\nname = \"data\""), nil),
		textCase("snapshot, new", "", snapshot(""), nil), textCase("snapshot, described", snapshot(""), snapshot("description = \"x\"\n"), nil),
		textCase("snapshot, removed", snapshot(""), "", nil),
		textCase("HA rule, new", "", rule(""), managed), textCase("HA rule, changed", rule(""), rule("disable = true\n"), managed),
		textCase("HA rule, removed", rule(""), "", managed),
		textCase("image, new", "", "resource \"proxmox_image\" \"x\" {\nnode = \"pve1\"\nstorage = \"local\"\nurl = \"http://mirror.example/disc.qcow2\"\n}\n", nil),
		textCase("disc, new", "", "resource \"proxmox_cloud_init_iso\" \"x\" {\nnode = \"pve1\"\nstorage = \"local\"\nname = \"x\"\nuser_data = \"#cloud-config\\n\"\n}\n", nil),
	}
	for typ, config := range map[string]string{"proxmox_vm_power": "vmid = 8000\naction = \"start\"", "proxmox_vm_snapshot_rollback": "vmid = 8000\nname = \"before\""} {
		c := textCase("action "+typ, "", "action \""+typ+"\" \"it\" {\nconfig {\n"+config+"\n}\n}\n", nil)
		c.action = typ
		all = append(all, c)
	}
	return all
}

// privilegeCases are the changes of each attribute, the creations with it, and the other operations.
func privilegeCases(t *testing.T) []allowedCase {
	t.Helper()
	all := operations()
	vmOf := func(config flat) func(*terraformtest.Session, string) error {
		return func(s *terraformtest.Session, provider string) error {
			if err := s.Configure(provider); err != nil {
				return err
			}
			return s.SetResource(driftAddress, config.tree())
		}
	}
	changes := oneChanges(t)
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		before, after := changes[path].configs(500)
		all = append(all, allowedCase{name: "create with " + path, is: vmOf(after)},
			allowedCase{name: "update of " + path, was: vmOf(before), is: vmOf(after)})
		if group, _, nested := strings.Cut(path, "."); !nested || group == "ha" || group == "on_destroy" {
			all = append(all, allowedCase{name: "destroy with " + path, was: vmOf(before)})
		}
	}
	return all
}

// beyondLaw are the cases that do not obey the law yet, and why. One that does has to go out.
func beyondLaw() map[string]string {
	return map[string]string{
		"create with clone.name":                   "a source by name that is not seen may be any VM, so no path can be named",
		"create with clone.tags":                   "likewise, a source by its tags",
		"update of clone.name":                     "the same",
		"restore":                                  "PVE asks for what the backup's configuration names, and for the backup itself, without a command",
		"create with restore.archive":              "the same",
		"update of restore.archive":                "the same",
		"update of cloud_init_password_wo_version": "the request of a plan has no password",
	}
}
