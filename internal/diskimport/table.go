// Package diskimport knows what a disk can be made from, and how: one table refuses a plan, chooses the way of a create
// or an update, and is printed in docs/design/sources.md.
package diskimport

import (
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Kind is the sort of object that a disk is made from.
type Kind string

// The kinds, as the documentation calls them.
const (
	Disk      Kind = "another VM's disk"
	File      Kind = "import content"
	Member    Kind = "disk in an OVA"
	ESXi      Kind = "disk on an ESXi host"
	ISO       Kind = "ISO content"
	Appliance Kind = "OVA or OVF"
	Other     Kind = "anything else"
)

// Way is how PVE is told to make a disk.
type Way string

// The ways.
const (
	ByVolume Way = "`import-from`, by volume"
	ByPath   Way = "`import-from`, by path"
	BySSH    Way = "`qm set` over SSH"
	NoWay    Way = "refused"
)

// Release is a release of PVE that brought a feature: its place in PVE's source, and the pve-manager of the day on
// which that package came out, since a node tells no other version.
type Release struct {
	Major, Minor int
	Manager      []int
	Source       string
}

// String is the release as people call it.
func (r Release) String() string { return fmt.Sprintf("%d.%d", r.Major, r.Minor) }

// ESXiStorages came with PVE 8.2.
func ESXiStorages() Release {
	return Release{8, 2, []int{8, 1, 5}, "pve-storage 8.1.1: Storage/ESXiPlugin.pm (a171036)"}
}

// ImportContent came with PVE 8.3: an older node cannot even name a file of that content.
func ImportContent() Release {
	return Release{8, 3, []int{8, 2, 8}, "pve-storage 8.2.8: Storage/DirPlugin.pm, plugindata (d955a46)"}
}

// ImportImages are disk images that are downloaded or uploaded as import content.
func ImportImages() Release {
	return Release{8, 4, []int{8, 3, 5}, "pve-storage 8.3.6: API2/Storage/Status.pm, upload and download_url (76f695f)"}
}

// Row describes a kind: the ways of root@pam with a password, of a token with SSH and of a token alone.
type Row struct {
	Kind           Kind
	Example        string
	Since          Release // zero: every release that the provider works with
	Root, SSH, API Way
	Needs          string // what else
}

// Rows is the table. PVE takes a path only from root@pam with a password (pve-storage Storage.pm, check_volume_access),
// and a volume only if its type is images or, since 8.3, import (qemu-server API2/Qemu.pm, check_storage_access). A
// disk on an ESXi host is of type images and has no owner, so only identities that may allocate on its storage may use
// it (ESXiPlugin.pm, parse_volname).
func Rows() []Row {
	return []Row{
		{Disk, "local-zfs:vm-101-disk-0", Release{}, ByVolume, ByVolume, ByVolume,
			"`VM.Clone` on the VM that has it, which is on the same node"},
		{File, "local:import/debian.qcow2", ImportContent(), ByVolume, ByVolume, ByVolume, ""},
		{Member, "local:import/appliance.ova/disk.vmdk", ImportContent(), ByVolume, ByVolume, ByVolume,
			"a storage of files for `images`: its own, or `import_working_storage`"},
		{ESXi, "esxi:ha-datacenter/store/web/web.vmdk", ESXiStorages(), ByVolume, ByVolume, ByVolume,
			"`Datastore.Allocate` on the ESXi storage"},
		{ISO, "local:iso/debian.img", Release{}, ByPath, BySSH, NoWay, "no comma in its name"},
		{Appliance, "local:import/appliance.ova", Release{}, NoWay, NoWay, NoWay, ""},
		{Other, "local:snippets/user.yaml", Release{}, NoWay, NoWay, NoWay, ""},
	}
}

// RowOf is the row of a kind.
func RowOf(kind Kind) Row {
	rows := Rows()
	for _, row := range rows {
		if row.Kind == kind {
			return row
		}
	}
	return rows[len(rows)-1]
}

// KindOf is the kind of a volume, by its name and the type of its storage, "" if it is unknown.
func KindOf(volume, storageType string) Kind {
	_, name, _ := strings.Cut(volume, ":")
	content, file, inDirectory := strings.Cut(name, "/")
	switch {
	case storageType == "esxi":
		return ESXi
	case content == "iso":
		return ISO
	case volid.IsInOVA(volume):
		return Member
	case content == "import" && (strings.HasSuffix(file, ".ova") || strings.HasSuffix(file, ".ovf")):
		return Appliance
	case content == "import":
		return File
	case inDirectory && (content == "snippets" || content == "vztmpl" || content == "backup"):
		return Other
	}
	return Disk
}

// Identity is what decides about the way besides the kind.
type Identity struct {
	RootTicket bool // root@pam with a password
	SSH        bool // the provider can log in on the nodes
}

// Way is how a disk is made from the kind.
func (r Row) Way(who Identity) Way {
	switch {
	case who.RootTicket:
		return r.Root
	case who.SSH:
		return r.SSH
	}
	return r.API
}

// Refusal is the error if there is no way. The words in braces stand for values of the plan.
type Refusal struct{ When, Summary, Detail string }

// Refusals by their subject.
const (
	isISO       = "ISO content, API token alone"
	isISOOld    = "the same before PVE 8.3"
	hasComma    = "ISO content with a comma in its name"
	tooOld      = "import content before PVE 8.3"
	tooOldESXi  = "a disk on an ESXi host before PVE 8.2"
	mayNotESXi  = "a disk on an ESXi host, without `Datastore.Allocate` on its storage"
	commaESXi   = "the same with a comma in its name"
	isAppliance = "an OVA or OVF as a whole"
	noUnpacking = "a disk in an OVA, without a storage to unpack it"
	isOther     = "anything else"
	isElsewhere = "a disk of a VM on another node"
)

// widening is the command in a refusal that has a storage take import content.
const widening = "`pvesm set {storage} --content {content}`"

// Refusals are all errors that a plan can report about a source.
func Refusals() []Refusal {
	return []Refusal{
		{isISO, "{volume} is not for import", "PVE imports disks of VMs and files of the content type import for an API " +
			"token; this one is of type iso. Have the file as import content, such as {storage}:import/debian.qcow2 (as root: " +
			widening + "). Or clone a template, or give the provider ssh, which imports it as " +
			"root on the node"},
		{isISOOld, "{volume} is not for import", "PVE {version} imports disks of VMs for an API token; this one is of type " +
			"iso, and releases before 8.3 have no import content. Give the provider ssh, which imports it as root on the " +
			"node, clone a template, or upgrade the node"},
		{hasComma, "{volume} cannot be imported", "PVE takes a file of the content type iso by its path, and no path " +
			"with a comma. Rename it"},
		{tooOld, "{volume} cannot be imported on node {node}",
			"PVE has import content since 8.3, and the node has {version}. Have the file as " +
				"ISO content, such as {storage}:iso/debian.img, and give the provider ssh, clone a template, or upgrade the node"},
		{tooOldESXi, "{volume} cannot be imported on node {node}",
			"PVE has storages of type esxi since 8.2, and the node has {version}. " +
				"Upgrade the node"},
		{mayNotESXi, "This identity may not import {volume}",
			"PVE lets only identities with Datastore.Allocate on /storage/{storage} import from a " +
				"storage of type esxi"},
		{commaESXi, "{volume} cannot be imported", "PVE takes no name with a comma. Rename the files on the host"},
		{isAppliance, "{volume} is no disk", "It describes a machine with its disks. Name one of these: " +
			"{volume}/disk1.vmdk for what an OVA holds, {storage}:import/disk1.vmdk for what lies beside an OVF"},
		{noUnpacking, "There is no room to unpack {volume}", "PVE unpacks a disk of an OVA on a storage of files with the " +
			"content type images first, and {working} is none. Set import_working_storage to one that is"},
		{isOther, "{volume} is not for import", "PVE imports disks of VMs and files of the content type import. Have the " +
			"file on a storage as import content, such as {storage}:import/debian.qcow2; this one is of type {type}"},
		{isElsewhere, "{volume} cannot be imported on node {node}", "It belongs to VM {owner}, which is on node {there}, " +
			"and PVE imports a disk only of a VM on the same node, also from a shared storage. Bring both to one node, or " +
			"clone"},
	}
}

// Markdown is the part of the documentation that follows from the table.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| `import_from` | for example | since PVE | root@pam with a password | API token and SSH | API " +
		"token | needs besides |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range Rows() {
		since := "8.0"
		if r.Since.Major != 0 {
			since = r.Since.String()
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s | %s | %s |\n", r.Kind, r.Example, since, r.Root, r.SSH, r.API, r.Needs)
	}
	b.WriteString("\n| refused in the plan | what is said |\n| --- | --- |\n")
	for _, r := range Refusals() {
		fmt.Fprintf(&b, "| %s | %s. %s |\n", r.When, r.Summary, r.Detail)
	}
	return b.String()
}
