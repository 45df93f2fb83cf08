package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// rowsOf are the rows of a replacement whose plan makes these requests.
func rowsOf(asked []string) (all []replacementRow) {
	for _, request := range asked {
		method, path, _ := strings.Cut(request, " ")
		for _, how := range slices.Sorted(maps.Keys(failuresOfRequests())) {
			rule := failuresOfRequests()[how]
			rule.Match, rule.Times = fault.Match{Method: method, Path: path}, -1
			all = append(all, replacementRow{name: request + " " + how, rules: []fault.Rule{rule}})
		}
	}
	others := changesBetween()
	for _, what := range slices.Sorted(maps.Keys(others)) {
		all = append(all, replacementRow{name: what, other: others[what]})
	}
	return all
}

// changesBetween are what third parties do between a plan and its apply.
func changesBetween() map[string]func(*state.World) (undo func()) {
	without := func(gone func(*state.Volume) bool) func(*state.World) func() {
		return func(world *state.World) func() {
			var all []*state.Volume
			for key, v := range world.Volumes {
				if gone(v) {
					all = append(all, v)
					delete(world.Volumes, key)
				}
			}
			return func() {
				for _, v := range all {
					world.Put(v)
				}
			}
		}
	}
	node := func(name string) func(*state.World) func() {
		return func(world *state.World) func() {
			world.Nodes[name].Online = false
			return func() { world.Nodes[name].Online = true }
		}
	}
	content := func(kind string) func(*state.Volume) bool {
		return func(v *state.Volume) bool { return v.Content == kind }
	}
	return map[string]func(*state.World) (undo func()){
		"the images are gone": without(content("import")), "the media are gone": without(content("iso")),
		"the snippets are gone": without(content("snippets")), "the node is away": node("pve1"), "there is no quorum": node("pve2"),
		"the storages are away": func(world *state.World) func() {
			for _, s := range world.Storages {
				s.Disabled = true
			}
			return func() {
				for _, s := range world.Storages {
					s.Disabled = false
				}
			}
		},
		"the privileges are taken away": func(world *state.World) func() {
			was := world.ACL
			world.ACL = nil
			return func() { world.ACL = was }
		},
		"the VMID is taken": func(world *state.World) func() {
			for _, id := range []int{401, 411} {
				world.Guests[id] = &state.Guest{VMID: id, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "theirs"}}
			}
			return func() { delete(world.Guests, 401); delete(world.Guests, 411) }
		},
		"a volume carries the VMID": func(world *state.World) func() {
			v := &state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-401-disk-9", Content: "images", VMID: 401, Format: "raw", Size: 1 << 30}
			world.Put(v)
			return func() {
				delete(world.Volumes, state.VolumeKey{Storage: v.Storage, Node: v.Node, Name: v.Name})
			}
		},
		"the bridges are gone": func(world *state.World) func() {
			was := world.Nodes["pve1"].Bridges
			world.Nodes["pve1"].Bridges = nil
			return func() { world.Nodes["pve1"].Bridges = was }
		},
		"the pools are gone": func(world *state.World) func() {
			was := maps.Clone(world.Pools)
			clear(world.Pools)
			return func() { maps.Copy(world.Pools, was) }
		},
		"the mappings are gone": func(world *state.World) func() {
			was, groups := world.Mappings, maps.Clone(world.SecurityGroups)
			world.Mappings = nil
			clear(world.SecurityGroups)
			return func() { world.Mappings = was; maps.Copy(world.SecurityGroups, groups) }
		},
		"the template is gone": func(world *state.World) func() {
			was := world.Guests[9000]
			delete(world.Guests, 9000)
			return func() { world.Guests[9000] = was }
		},
		"the template is another's": func(world *state.World) func() {
			was := world.Guests[9000].Config
			world.Guests[9000].Config = map[string]string{"name": "theirs", "memory": "16"}
			return func() { world.Guests[9000].Config = was }
		},
	}
}

// replacedObjects are the objects of the law.
func replacedObjects(t *testing.T) []replacedObject {
	t.Helper()
	const imported = "name = \"web\"\nnode = \"pve1\"\npool = \"web\"\nnetworks = { net0 = { bridge = \"vmbr0\" } }\n" +
		"disks = { scsi0 = { storage = \"local-zfs\", import_from = \"local:import/%s.qcow2\" } }\n"
	const restored = "node = \"pve1\"\nprotection = false\nrestore = { archive = %q }\n"
	const vm = "proxmox_vm.it"
	placed := func(vmid int, name string) string {
		return fmt.Sprintf("vmid = %d\nname = %q\nnode = \"pve1\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n", vmid, name)
	}
	rich := func(vmid int) string {
		return placed(vmid, "rich") + `cpu = { type = "x86-64-v2-AES", cores = 2 }
machine = "pc-q35-9.2"
networks = { net0 = { bridge = "vmbr1", firewall = true } }
cdroms = { ide3 = { file = "local:iso/debian.iso" } }
cloud_init = { storage = "local-zfs", custom = { user = "local:snippets/user.yaml" } }
pci = { hostpci0 = { mapping = "gpu" } }
usb = { usb0 = { mapping = "stick" } }
ha = { state = "stopped" }
power_state = "stopped"
on_orphaned_volumes = "destroy"
firewall = { enabled = true, rules = [{ type = "group", action = "web-servers" }] }
`
	}
	one, two := rig.QCOW2("one"), rig.QCOW2("two")
	url := rig.ServeFiles(t, map[string][]byte{"/odd1.qcow2": one, "/odd2.qcow2": two})
	place := "node = \"pve1\"\nstorage = \"local\"\n"
	return []replacedObject{
		{name: "VM of an image", address: vm, before: fmt.Sprintf(imported, "disk"), after: fmt.Sprintf(imported, "other")},
		{name: "VM as root", address: vm, who: rig.RootTicket, before: rich(410), after: rich(411), placed: true},
		{name: "clone", address: vm, before: "name = \"copy\"\nclone = { vmid = 8000, full = true }\n", after: "name = \"copy\"\nclone = { vmid = 9000 }\nprotection = false\n"},
		{name: "clone of a name", address: vm, before: "name = \"copy\"\nclone = { name = \"existing\", full = true }\n",
			after: "name = \"copy\"\nprotection = false\nclone = { name = \"template\", full = true, storage = \"local-lvm\" }\n"},
		{name: "VM of a backup", address: vm, who: rig.RootTicket, before: fmt.Sprintf(restored, rig.WebBackup), after: fmt.Sprintf(restored, laterBackup)},
		{name: "other VMID", address: vm, before: placed(400, "db"), after: placed(401, "db2"), placed: true},
		{name: "same VMID, other name", address: vm, before: placed(400, "db"), after: placed(400, "db2"), renames: true, stuck: true},
		{name: "same VMID without a name", address: vm, before: strings.Replace(placed(400, "x"), "name = \"x\"\n", "", 1), stuck: true},
		{name: "VM of a disk", address: vm, before: "name = \"user\"\nnode = \"pve1\"\ndisks = { scsi0 = { imported_disk = { volume = \"local-lvm:vm-8001-disk-0\" } } }\n", stuck: true},
		{name: "proxmox_disk", address: "proxmox_disk.it", before: place + "vmid = 400\nsize = \"1G\"\n", stuck: true},
		{name: "proxmox_disk with a name", address: "proxmox_disk.it", before: "node = \"pve1\"\nstorage = \"local-zfs\"\nname = \"data\"\npool = \"web\"\nsize = \"1G\"\n"},
		{name: "proxmox_vm_snapshot", address: "proxmox_vm_snapshot.it", before: "vmid = 8000\nname = \"odd\"\n", after: "vmid = 8000\nname = \"odd2\"\n", placed: true},
		{name: "proxmox_ha_rule", address: "proxmox_ha_rule.it", who: rig.RootTicket,
			before: "rule = \"odd\"\ntype = \"node-affinity\"\nresources = [\"vm:8000\"]\nnodes = { pve1 = 1 }\n",
			after:  "rule = \"odd2\"\ntype = \"node-affinity\"\nresources = [\"vm:9000\"]\nnodes = { pve1 = 1 }\n", placed: true},
		{name: "proxmox_image", address: "proxmox_image.it", who: rig.RootTicket, before: place + fmt.Sprintf("url = %q\nchecksum = %q\n", url+"/odd1.qcow2", rig.SHA256(one)), after: place + fmt.Sprintf("url = %q\n", url+"/odd2.qcow2")},
		{name: "proxmox_image without a checksum", address: "proxmox_image.it", who: rig.RootTicket, before: place + fmt.Sprintf("url = %q\n", url+"/odd1.qcow2"), stuck: true},
		{name: "proxmox_snippet", address: "proxmox_snippet.it", who: rig.TokenSSH, before: place + "name = \"odd.yaml\"\ncontent = \"#cloud-config\\n{}\\n\"\n",
			after: place + "name = \"odd2.yaml\"\ncontent = \"#cloud-config\\n{}\\n\"\n"},
		{name: "proxmox_cloud_init_iso", address: "proxmox_cloud_init_iso.it", before: place + "name = \"odd\"\nuser_data = \"#cloud-config\\n{}\\n\"\nmeta_data = \"instance-id: x\\n\"\n"},
	}
}

// TestReplacementThatPVECannotMake: the old VM would be destroyed first, so the plan refuses a new one that PVE makes, or
// starts, in no case on that node.
func TestReplacementThatPVECannotMake(t *testing.T) {
	t.Parallel()
	const disk = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	elsewhere := func(w *state.World) {
		for _, m := range w.Mappings {
			m.Nodes = []string{"pve2"}
		}
	}
	group := func(id, typ string) func(*state.World) {
		return func(w *state.World) {
			w.Storages[id] = &state.Storage{ID: id, Type: typ, Path: id, Shared: typ == "rbd", Content: []string{"images"}, Total: 100 << 30}
		}
	}
	for name, c := range map[string]struct {
		body, says string
		edit       func(*state.World)
	}{
		"a PCI mapping without the node":   {disk + "pci = { hostpci0 = { mapping = \"gpu\" } }\n", "Mapping gpu has no entry for node pve1", elsewhere},
		"a USB mapping without the node":   {disk + "usb = { usb0 = { mapping = \"stick\" } }\n", "Mapping stick has no entry for node pve1", elsewhere},
		"a directory without the node":     {disk + "virtiofs = { virtiofs0 = { dirid = \"share\" } }\n", "Mapping share has no entry for node pve1", elsewhere},
		"a macro that is misspelt":         {disk + "firewall = { rules = [{ type = \"in\", action = \"ACCEPT\", macro = \"HTPS\" }] }\n", `Unknown firewall macro "HTPS"`, nil},
		"qcow2 on a volume group":          {"disks = { scsi0 = { storage = \"san\", size = \"1G\", format = \"qcow2\" } }\n", "There is no format qcow2 on storage san", group("san", "lvm")},
		"qcow2 on Ceph":                    {"disks = { scsi0 = { storage = \"ceph\", size = \"1G\", format = \"qcow2\" } }\n", "There is no format qcow2 on storage ceph", group("ceph", "rbd")},
		"a disk of a VM on another node":   {"disks = { scsi0 = { storage = \"local-zfs\", import_from = \"shared-nfs:9100/vm-9100-disk-0.qcow2\" } }\n", "cannot be imported on node pve1", theirsOnNFS("pve2")},
		"a disk of one on the same, which": {"disks = { scsi0 = { storage = \"local-zfs\", import_from = \"shared-nfs:9100/vm-9100-disk-0.qcow2\" } }\n", "", theirsOnNFS("pve1")},
		"a macro in small letters, which":  {disk + "firewall = { rules = [{ type = \"in\", action = \"ACCEPT\", macro = \"ssh\" }] }\n", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, disk)
			if c.edit != nil {
				l.World.Change(c.edit)
			}
			l.Configure(c.body)
			l.Session.Taint(rig.VMAddress, true)
			_, err := l.Session.Plan(t.Context())
			if said := l.Session.Diagnostics().String(); (err != nil) != (c.says != "") || !strings.Contains(said, c.says) {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}

// theirsOnNFS is a VM of another user with a disk on a storage that all nodes have.
func theirsOnNFS(node string) func(*state.World) {
	return func(w *state.World) {
		v := &state.Volume{Storage: "shared-nfs", Name: "9100/vm-9100-disk-0.qcow2", VMID: 9100, Content: "images", Format: "qcow2", Size: 1 << 30}
		w.Put(v)
		w.Guests[9100] = &state.Guest{VMID: 9100, Type: "qemu", Node: node, Config: map[string]string{"name": "theirs",
			"scsi0": v.Volid() + ",size=1G"}}
	}
}
