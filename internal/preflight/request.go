package preflight

import (
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Request is what can be checked against the server before anything is changed. Zero values are not checked.
type Request struct {
	Creating bool
	Node     string
	VMID     int
	Gone     int    // in the place of VMID: the id of a VM that was in state, and that a refresh has found gone
	OtherID  bool   // VMID is another id than that of the VM which the new one replaces
	Name     string // of a create
	Clone    *guest.Clone
	Restore  *guest.Restore
	Storages map[string]string // attribute path -> storage id
	Bridges  map[string]string // attribute path -> bridge
	Pool     string
	Needs    []Need   // what has to be there besides
	Formats  []Format // of new disks
	CPUs     int64    // with which the VM is started
	Orphans  bool     // volumes that carry VMID are to be destroyed
	Imported []string // the slots of a new VM that get volumes by their names
	Adopts   []string // those of them that are to be disks of the VM
	Nodes    []string // instead of Node, of a create: the first of them that is online
	NodeOpen bool     // the node is not known yet
	Moving   *Moving  // a VM that is to be migrated to Node

	Prior    vm.Spec  // the VM in state
	Planned  vm.Spec  // the VM as far as it is known; what is not known is not set
	Whole    bool     // all of Planned is known
	Unknown  []string // the attributes of Planned that are not
	Beside   vm.Spec  // what the VM in state has in slots that the state does not know
	ID       int      // the VM in state, or that of a create which it may be known by
	Running  bool     // the VM runs, and goes on running
	Stopped  bool     // the apply stops it
	Forced   bool     // and cuts it off
	Started  bool     // the apply starts it
	Restarts bool     // the apply restarts it
	Who      string   // names the VM in sums over a run; "": it is in none
	Acting   bool     // the apply has begun

	Firewall bool   // the apply changes its firewall
	HA       bool   // the apply changes its HA
	Removing bool   // the apply removes it, and nothing else
	Unheard  bool   // only the doubtful findings are shown
	LeftPool string // the pool that it leaves

	Agent          bool   // the apply fails unless it may ask the guest's agent
	Copy           *Copy  // a clone of a VM that the run makes; then Clone is not set
	DestroyRemoved bool   // the volumes of drives that leave it are destroyed
	Takes          []Take // privileges that the operation takes besides

	SnapshotsGo []string // the names of those that the plan is known to remove
	// Leaves reports whether the new VM takes the place of the VM with this id, whose permissions go with it.
	Leaves func(vmid int) bool
	// SourceOpen reports whether the run may change the VM that is cloned, or the plan does not know all of the clone.
	SourceOpen func(vmid int) bool
	// Changes reports whether the run changes, replaces or destroys a VM; nil: none.
	Changes func(vmid int) bool
}

// Copy is a clone of a VM that is not there yet.
type Copy struct {
	VMID     int // 0: not chosen yet
	Pool     string
	Clone    guest.Clone
	From, To vm.Spec // the planned source, and the configured part of the clone
}

// copies reports whether a new VM begins with the values of another one.
func (r Request) copies() bool {
	return r.Creating && (r.Clone != nil || r.Restore != nil || r.Copy != nil)
}

// Moving is a VM in state that a plan takes to another node.
type Moving struct {
	From     string
	Attached map[string]string // the volumes that slots get by their names
	// ByHA: HA's manager migrates it, which takes no targetstorage (qemu-server API2/Qemu.pm, migrate_vm).
	ByHA bool
}

// Format is the format that a disk is to have on a storage.
type Format struct {
	Path, Storage, Format string
	// Grows: the disk is made of an image, and gets a larger size.
	Grows bool
}

// Findings are the results of a check.
type Findings struct {
	Refused  []*guest.FieldError // the server would certainly refuse it
	Doubtful []*guest.FieldError // it may
}

// Need is an object that a plan names and that must exist.
type Need struct {
	Path  string
	Kind  Kind
	Value string
	Work  string // the storage on which an import is unpacked; "": its own
	Size  int64  // bytes that the disk made of an image is to have; 0: as many as the image
	Own   bool   // a firewall's name that a copy may have from its source
	// Off: the VM is not started with it. Loose: the run may bring the VM whose disk it is to another node.
	Off, Loose bool
}

// Kind is the sort of object that a Need is.
type Kind string

// The kinds. The first four are volumes, by what PVE calls their content.
const (
	Medium  Kind = "iso"
	Import  Kind = "import"
	Image   Kind = "images" // another VM's
	Snippet Kind = "snippets"

	CPUType       Kind = "CPU type"
	Machine       Kind = "machine type"
	PCIMapping    Kind = "pci"
	USBMapping    Kind = "usb"
	DirMapping    Kind = "dir"
	FirewallRef   Kind = "alias or IP set" // an IP set has a "+" before its name
	SecurityGroup Kind = "security group"
	FirewallMacro Kind = "firewall macro"
	HAGroup       Kind = "HA group"
)

// KindOfSource is the sort of volume that a disk is made from.
func KindOfSource(volume string) Kind {
	_, name, _ := strings.Cut(volume, ":")
	if kind, _, ok := strings.Cut(name, "/"); ok && slices.Contains([]Kind{Medium, Import, Snippet}, Kind(kind)) {
		return Kind(kind)
	}
	return Image
}

func (k Kind) isVolume() bool { return slices.Contains([]Kind{Medium, Import, Image, Snippet}, k) }

// onlyTakesPrivileges reports whether only privileges are to be checked.
func (r Request) onlyTakesPrivileges() bool {
	if r.Removing {
		return true
	}
	if r.Creating || r.Moving != nil || r.Pool != "" || r.CPUs > 0 || r.Started || r.Restarts || asksForBridges(r) ||
		len(r.Storages)+len(r.Needs)+len(r.Formats) > 0 {
		return false
	}
	change := vm.Diff(r.Prior, r.Planned)
	grows := len(change.Grow) > 0 || r.Running && memoryOf(r.Planned) > memoryOf(r.Prior)
	return !grows && !converts(change) && len(destroyedBy(r, change.Delete)) == 0
}

// converts reports whether a VM in state is to become a template.
func converts(c vm.Change) bool { return c.Set["template"] == "1" }
