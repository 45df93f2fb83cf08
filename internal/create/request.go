package create

import (
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// OnFailure says what a failed create does.
type OnFailure int

// What a failed create does with what it made.
const (
	Rollback OnFailure = iota // remove everything
	Keep                      // leave it, tainted, for somebody to look at
)

// OnOrphans says what a create does about volumes that carry the configured VMID and that no VM owns.
type OnOrphans int

// What becomes of orphan volumes of a configured VMID.
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
	Firewall *guest.Firewall // nil: left alone
	HA       *guest.HA       // nil: none
	Clone    *guest.Clone
	Restore  *guest.Restore // instead of Clone
	Start    bool
	// ImportStorage is where a disk of an OVA is unpacked; "" is the storage of the OVA.
	ImportStorage string
	OnFailure     OnFailure
	OnOrphans     OnOrphans
	Adopts        []Adopted // with the configured VMID; they are neither leftovers nor touched
	Wait          *guest.Wait
	// UndoTimeout bounds the rollback, which goes on after a cancel. Zero: ten minutes.
	UndoTimeout time.Duration
	// Lease is how long the create may take; it is written into the stamp so that another process can tell a running
	// create from a dead one.
	Lease time.Duration
}

// Adopted is a volume with the configured VMID that is to become a disk of the new VM. The create leaves it alone, as it leaves alone
// all that was there before: a roll-back removes the VM by its id, and PVE destroys every volume that carries the id and that the
// configuration names (qemu-server QemuServer.pm destroy_vm), detached ones too. So whoever has the VM made attaches it afterwards.
type Adopted struct {
	Slot, Volume string
	SHA256       string // what its content must have; "" for any
}

func (a Adopted) refuse(key, what, detail string, err error) error {
	return &guest.FieldError{Path: "disks." + a.Slot + ".imported_disk." + key, Summary: a.Volume + " " + what, Detail: detail, Err: err}
}

// Created is the outcome of a create. With an error, a zero Guest.VMID says that nothing is left: state stays empty.
// Otherwise the guest and the residues belong in state, tainted.
type Created struct {
	Guest    guest.Guest
	Warnings []guest.Warning
	Left     []tx.Residue
	Proof    *guest.Proof // of a guest that was not committed
	// Doubt: nothing is known to be left, and yet not all could be looked at, or told. The warnings say what.
	Doubt bool
}

// until is when others may take the create for dead: after its time and that of its undo, or never, where what it leaves
// is to be kept for somebody to look at.
func (r Request) until(deadline time.Time) time.Time {
	if r.OnFailure == Keep {
		return deadline.AddDate(1000, 0, 0)
	}
	return deadline.Add(r.undoTimeout())
}

// undoTimeout bounds the rollback. The lease covers it, so that nobody takes over a create that is being undone.
func (r Request) undoTimeout() time.Duration {
	if r.UndoTimeout > 0 {
		return r.UndoTimeout
	}
	return 10 * time.Minute
}
