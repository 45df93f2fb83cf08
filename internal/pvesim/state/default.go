package state

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const gib = 1 << 30

// defaultCtime is the creation time in the default guests' meta, and of volumes that were put into the world from
// outside.
var defaultCtime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Default is the cluster that the simulator starts with: the given nodes, six storages, a template 9000, a plain VM
// 8000 and a container 8100 on the first node, a pool "web", and identities of every kind. The caller sets Clock and
// Profile. The same nodes give the same world, secrets included.
func Default(nodes []string) *World {
	w := &World{
		Profile: "8.4", Nodes: map[string]*Node{}, Guests: map[int]*Guest{}, Storages: map[string]*Storage{},
		Volumes: Volumes{}, HA: map[string]*HAResource{}, Firewall: map[int]*FirewallFile{}, Tasks: map[string]*Task{},
		Pools: map[string]*Pool{"web": {ID: "web", Comment: "web servers", Guests: []int{}}},
		Users: map[string]*User{}, Tokens: map[string]*Token{}, Roles: defaultRoles(),
		Replication: map[string]*ReplicationJob{}, Backups: map[string]*BackupJob{}, HAGroups: map[string]*HAGroup{},
	}
	w.SecurityGroups = map[string]string{"web-servers": "web servers"}
	for i, name := range nodes {
		w.Nodes[name] = &Node{
			Name: name, Address: fmt.Sprintf("192.0.2.%d", i+11), Online: true, CPUs: 8, Memory: 64 * gib,
			Bridges: []string{"vmbr0", "vmbr1"}, Files: map[string]string{},
		}
	}
	for _, s := range defaultStorages() {
		w.Storages[s.ID] = s
	}
	for _, name := range slices.Sorted(maps.Keys(w.Nodes)) {
		w.Put(&Volume{Storage: "local", Node: name, Name: "iso/debian.iso", Content: "iso", Format: "iso", Size: 600 * mib,
			Data: "debian"})
		w.Put(&Volume{Storage: "local", Node: name, Name: "import/disk.qcow2", Content: "import", Format: "qcow2",
			Size: 2 * gib,
			Data: "cloud image"})
		w.Put(&Volume{Storage: "local", Node: name, Name: "snippets/user.yaml", Content: "snippets", Format: "snippet",
			Size: 20,
			Data: "#cloud-config\n"})
	}
	if len(nodes) > 0 {
		defaultGuests(w, nodes[0])
	}
	defaultIdentities(w)
	return w
}

func defaultStorages() []*Storage {
	return []*Storage{
		{ID: "local", Type: "dir", Path: "/var/lib/vz", Total: 250 * gib,
			Content: []string{"images", "iso", "snippets", "import", "vztmpl", "backup"}},
		{ID: "local2", Type: "dir", Path: "/var/lib/vz2", Total: 250 * gib, Content: []string{"images"}},
		{ID: "local-zfs", Type: "zfspool", Path: "rpool/data", Total: 500 * gib, Content: []string{"images", "rootdir"}},
		{ID: "local-lvm", Type: "lvmthin", Path: "pve/data", Total: 500 * gib, Content: []string{"images", "rootdir"}},
		{ID: "shared-nfs", Type: "nfs", Path: "/mnt/pve/shared-nfs", Total: 1000 * gib, Shared: true,
			Content: []string{"images", "iso"}},
	}
}

func defaultGuests(w *World, node string) {
	disk := func(storage, name string, vmid int, size int64, data string) {
		w.Put(&Volume{Storage: storage, Node: node, Name: name, Content: "images", VMID: vmid, Format: "raw", Size: size,
			Data: data})
	}
	meta := "creation-qemu=9.2.0,ctime=" + strconv.FormatInt(defaultCtime.Unix(), 10)
	disk("local-zfs", "base-9000-disk-0", 9000, 2*gib, "golden image")
	disk("local-zfs", "vm-9000-cloudinit", 9000, 4*mib, "")
	w.Guests[9000] = &Guest{VMID: 9000, Type: "qemu", Node: node, Config: map[string]string{
		"name": "template", "template": "1", "protection": "1", "onboot": "1", "description": "golden image",
		"tags":  "golden",
		"agent": "1", "cores": "2", "memory": "2048", "ostype": "l26", "scsihw": "virtio-scsi-single", "boot": "order=scsi0",
		"scsi0": "local-zfs:base-9000-disk-0,size=2G", "ide2": "local-zfs:vm-9000-cloudinit,media=cdrom",
		"net0": "virtio=" + w.MAC() + ",bridge=vmbr0", "smbios1": "uuid=" + w.UUID(), "vmgenid": w.UUID(), "meta": meta,
	}}
	disk("local-lvm", "vm-8000-disk-0", 8000, 4*gib, "another VM's data")
	w.Guests[8000] = &Guest{VMID: 8000, Type: "qemu", Node: node, Config: map[string]string{
		"name": "existing", "cores": "1", "memory": "1024", "ostype": "l26", "boot": "order=scsi0;net0",
		"scsi0": "local-lvm:vm-8000-disk-0,size=4G", "net0": "virtio=" + w.MAC() + ",bridge=vmbr0",
		"smbios1": "uuid=" + w.UUID(), "vmgenid": w.UUID(), "meta": meta,
	}}
	w.Put(&Volume{Storage: "local-zfs", Node: node, Name: "subvol-8100-disk-0", Content: "rootdir", VMID: 8100,
		Format: "subvol",
		Size:   8 * gib, Data: "container"})
	w.Guests[8100] = &Guest{VMID: 8100, Type: "lxc", Node: node, Config: map[string]string{
		"hostname": "container", "arch": "amd64", "cores": "1", "memory": "512", "ostype": "debian",
		"rootfs": "local-zfs:subvol-8100-disk-0,size=8G",
	}}
}

func defaultIdentities(w *World) {
	w.Users["root@pam"] = &User{ID: "root@pam", Password: "simulated-" + w.UUID()[:8]}
	for _, id := range []string{"terraform@pve", "lite@pve", "auditor@pve"} {
		w.Users[id] = &User{ID: id, Password: "simulated-" + w.UUID()[:8]}
	}
	token := func(id, role string) {
		w.Tokens[id] = &Token{ID: id, Secret: w.UUID(), Separated: role != ""}
		if role != "" {
			w.ACL = append(w.ACL, ACLEntry{Path: "/", Subject: id, Role: role, Propagate: true})
		}
	}
	grant := func(id, role string) {
		w.ACL = append(w.ACL, ACLEntry{Path: "/", Subject: id, Role: role, Propagate: true})
	}
	grant("terraform@pve", "TerraformProvider")
	grant("lite@pve", "TerraformLite")
	grant("auditor@pve", "PVEAuditor")
	token("root@pam!tf", "")
	token("terraform@pve!prov", "TerraformProvider")
	token("terraform@pve!lite", "TerraformLite")
	token("lite@pve!prov", "TerraformLite")
	token("auditor@pve!ro", "PVEAuditor")
}

// defaultRoles are the built-in roles of access-control (AccessControl.pm) that a client is likely to ask for, and two
// of our own: what a Terraform provider needs, and the same without Datastore.Allocate.
func defaultRoles() map[string][]string {
	vmConfig := []string{
		"VM.Config.CDROM", "VM.Config.CPU", "VM.Config.Cloudinit", "VM.Config.Disk", "VM.Config.HWType",
		"VM.Config.Memory", "VM.Config.Network", "VM.Config.Options",
	}
	vmUser := []string{"VM.Audit", "VM.Backup", "VM.Config.CDROM", "VM.Config.Cloudinit", "VM.Console", "VM.PowerMgmt"}
	vmAdmin := slices.Concat(vmConfig, []string{
		"VM.Allocate", "VM.Audit", "VM.Backup", "VM.Clone", "VM.Console", "VM.GuestAgent.Audit", "VM.GuestAgent.FileRead",
		"VM.GuestAgent.FileSystemMgmt", "VM.GuestAgent.FileWrite", "VM.GuestAgent.Unrestricted", "VM.Migrate", "VM.Monitor",
		"VM.PowerMgmt", "VM.Replicate", "VM.Snapshot", "VM.Snapshot.Rollback",
	})
	datastore := []string{"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit"}
	mapping := []string{"Mapping.Audit", "Mapping.Modify", "Mapping.Use"}
	pool := []string{"Pool.Allocate", "Pool.Audit"}
	sdn := []string{"SDN.Allocate", "SDN.Audit", "SDN.Use"}
	sys := []string{"Sys.AccessNetwork", "Sys.Audit", "Sys.Console", "Sys.Incoming", "Sys.Modify", "Sys.PowerMgmt",
		"Sys.Syslog"}
	user := []string{"Group.Allocate", "Permissions.Modify", "Realm.Allocate", "Realm.AllocateUser", "User.Modify"}
	userAdmin := []string{"Group.Allocate", "Realm.AllocateUser", "User.Modify"}
	provider := slices.Concat(vmConfig, []string{
		"VM.Allocate", "VM.Audit", "VM.Clone", "VM.GuestAgent.Audit", "VM.Migrate", "VM.Monitor", "VM.PowerMgmt",
		"VM.Snapshot", "VM.Snapshot.Rollback", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit",
		"Mapping.Use", "Pool.Allocate", "Pool.Audit", "SDN.Audit", "SDN.Use", "Sys.AccessNetwork", "Sys.Audit",
		"Sys.Syslog",
	})
	return map[string][]string{
		"Administrator": slices.Concat(vmAdmin, datastore, mapping, pool, sdn, sys, user),
		"PVEAdmin": slices.Concat(vmAdmin, datastore, pool, sdn, userAdmin,
			[]string{"Mapping.Audit", "Mapping.Use", "Sys.Audit", "Sys.Console", "Sys.Syslog"}),
		"PVEMappingAdmin": mapping,
		"PVEMappingUser":  {"Mapping.Audit", "Mapping.Use"},
		"PVESDNAdmin":     sdn,
		"PVESysAdmin":     {"Sys.Audit", "Sys.Console", "Sys.Syslog"},
		"PVETemplateUser": {"VM.Audit", "VM.Clone"},
		"PVEUserAdmin":    userAdmin,
		"PVEAuditor": {"Datastore.Audit", "Mapping.Audit", "Pool.Audit", "SDN.Audit", "Sys.Audit", "VM.Audit",
			"VM.GuestAgent.Audit"},
		"PVEDatastoreAdmin": datastore,
		"PVEDatastoreUser":  {"Datastore.AllocateSpace", "Datastore.Audit"},
		"PVEPoolAdmin":      pool,
		"PVEPoolUser":       {"Pool.Audit"},
		"PVESDNUser":        {"SDN.Audit", "SDN.Use"},
		"PVEVMAdmin":        vmAdmin,
		"PVEVMUser":         vmUser,
		"NoAccess":          {},
		"TerraformProvider": append([]string{"Datastore.Allocate"}, provider...),
		"TerraformLite":     provider,
	}
}

// IsSpecial tells the roles that PVE makes itself.
func IsSpecial(role string) bool {
	return strings.HasPrefix(role, "PVE") || role == "Administrator" || role == "NoAccess"
}
