package create

import (
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// OnFailure says what a failed create does.
type OnFailure int

// Treatments of the objects that a failed create made.
const (
	Rollback OnFailure = iota // remove everything
	Keep                      // leave it, tainted, for an administrator to look at
)

// OnOrphans says what a create does about volumes that carry the configured VMID and that no VM owns.
type OnOrphans int

// Treatments of orphan volumes of a configured VMID.
const (
	FailOnOrphans  OnOrphans = iota // refuse, naming them
	DestroyOrphans                  // destroy them first
)

// Request is everything a create needs.
type Request struct {
	Node     string   // "" = the template's node, or the only one
	Nodes    []string // instead of Node: the first of them that is online
	VMID     int      // 0 = automatic
	Range    [2]int   // inclusive bounds of automatic ids; zero = PVE's
	Spec     vm.Spec  // only what is configured
	Pool     string
	Firewall *firewall.Settings // nil: left alone
	HA       *guest.HA          // nil: none
	Clone    *guest.Clone
	// AsPlanned compares the source of the clone, as the create finds it, with the plan; nil: nothing of it is planned.
	AsPlanned func(guest.Source) error `json:"-"`
	Restore   *guest.Restore           // instead of Clone
	Start     bool
	// ImportStorage is where a disk of an OVA is unpacked; "" is the storage of the OVA.
	ImportStorage string
	OnFailure     OnFailure
	OnOrphans     OnOrphans
	Adopts        []Adopted   // with the configured VMID; they are neither leftovers nor touched
	Wait          *guest.Wait `json:"-"`
	// UndoTimeout bounds the rollback, which goes on after a cancel. Zero: ten minutes.
	UndoTimeout time.Duration `json:"-"`
}

// Adopted is a volume with the configured VMID that is to become a disk of the new VM. The create leaves it alone, like
// all volumes of the baseline: an undo removes the VM by its VMID, and PVE destroys every volume with the VMID that the
// configuration names, detached ones too (qemu-server QemuServer.pm destroy_vm). So an update attaches it after the
// commit.
type Adopted struct {
	Slot, Volume string
	SHA256       string // what its content must have; "" for any
}

func (a Adopted) refuse(key, what, detail string, err error) error {
	return &guest.FieldError{Path: "disks." + a.Slot + ".imported_disk." + key, Summary: a.Volume + " " + what,
		Detail: detail, Err: err}
}

// Created is the outcome of a create. With an error, a zero Guest.VMID means that nothing is left: state stays empty.
// Otherwise the guest and the leftovers belong in state, tainted.
type Created struct {
	Guest    guest.Guest
	Warnings []guest.Warning
	Left     []saga.Residue
	Proof    *guest.Proof // of a guest that was not committed
	Stays    string       // why a guest that was not committed was not removed, though nothing says to keep it
	// Inherited are the slots that a copy has from its source. A disk in a slot that is neither one of them nor configured
	// is a third party's, who has given it to the VM before its commit.
	Inherited []string
	// Doubt says that nothing is known to be left, but that not everything could be looked at. The warnings have the
	// details.
	Doubt bool
}

// undoTimeout bounds the undo.
func (r Request) undoTimeout() time.Duration {
	if r.UndoTimeout > 0 {
		return r.UndoTimeout
	}
	return 10 * time.Minute
}
