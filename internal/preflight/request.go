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
	Name     string // of a create
	Clone    *guest.Clone
	Restore  *guest.Restore
	Storages map[string]string // attribute path -> storage id
	Bridges  map[string]string // attribute path -> bridge
	Pool     string
	Spec     *vm.Spec // of a clone or a restore, if all of it is known
	Needs    []Need   // what has to be there besides
	Formats  []Format // of new disks
	CPUs     int64    // with which the VM is started
	Orphans  bool     // volumes that carry VMID are to be destroyed
	Adopts   []string // those of them that are to be disks of the VM
	Nodes    []string // instead of Node, of a create: the first of them that is online
	Moving   *Moving  // a VM that is to be migrated to Node
}

// Moving is a VM in state that a plan takes to another node.
type Moving struct {
	VMID           int
	From           string
	Running        bool // it does, and is not shut down first
	Prior, Planned vm.Spec
}

// Format is the format that a disk is to have on a storage.
type Format struct{ Path, Storage, Format string }

// Findings are what a check found.
type Findings struct {
	Refused  []*guest.FieldError // the server would certainly refuse it
	Doubtful []*guest.FieldError // it may
}

// Need is something that a plan names and that has to be there.
type Need struct {
	Path  string
	Kind  Kind
	Value string
	Work  string // the storage on which an import is unpacked; "": its own
	Size  int64  // bytes that the disk made of an image is to have; 0: as many as the image
}

// Kind is what sort of thing a Need is.
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
	HAGroup       Kind = "HA group"
)

// KindOfSource is what sort of volume a disk is made of.
func KindOfSource(volume string) Kind {
	_, name, _ := strings.Cut(volume, ":")
	if kind, _, ok := strings.Cut(name, "/"); ok && slices.Contains([]Kind{Medium, Import, Snippet}, Kind(kind)) {
		return Kind(kind)
	}
	return Image
}

func (k Kind) isVolume() bool { return slices.Contains([]Kind{Medium, Import, Image, Snippet}, k) }
