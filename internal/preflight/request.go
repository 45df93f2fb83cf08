package preflight

import (
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
	Storages map[string]string // attribute path -> storage id
	Bridges  map[string]string // attribute path -> bridge
	Pool     string
	Spec     *vm.Spec // of a clone, if all of it is known
	Needs    []Need   // what has to be there besides
	Formats  []Format // of new disks
	CPUs     int64    // with which the VM is started
	Orphans  bool     // volumes that carry VMID are to be destroyed
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
