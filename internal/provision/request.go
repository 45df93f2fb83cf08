// Package provision says what it takes to create, read, change, adopt and delete a VM on Proxmox VE: the steps, whose
// things are whose, and the order. It knows the server (package pve), the node's shell (package host) and the
// configuration (package vm), and nothing of Terraform.
package provision

import (
	"time"

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

// CreateRequest is everything a create needs.
type CreateRequest struct {
	Node      string   // "" = the template's node, or the only one
	Nodes     []string // instead of Node: the first of them that is online
	VMID      int      // 0 = automatic
	Range     [2]int   // inclusive bounds of automatic ids; zero = PVE's
	Spec      vm.Spec  // only what is configured
	Pool      string
	Firewall  *Firewall // nil: left alone
	HA        *HA       // nil: none
	Clone     *Clone
	Start     bool
	OnFailure OnFailure
	OnOrphans OnOrphans
	Wait      *Wait
	// UndoTimeout bounds the rollback, which goes on after a cancel. Zero: ten minutes.
	UndoTimeout time.Duration
	// Lease is how long the create may take; it is written into the stamp so that another process can tell a running
	// create from a dead one.
	Lease time.Duration
}

// Clone names the source of a clone. Exactly one of VMID, Name and Tags is set.
type Clone struct {
	VMID     int
	Name     string
	Tags     []string
	Node     string // where the source is; "" = looked up
	Full     *bool  // nil: PVE's default (linked for templates)
	Snapshot string
	Storage  string // target of a full clone
	Format   string
	BWLimit  *int64 // KiB/s
}

// Ref is a VM in state.
type Ref struct {
	VMID int
	Node string
	// Identity is what proves that the VM is still the one in state; zero proves nothing and is filled by Read.
	Identity Identity
	// Status is the power status in state; a listing that says the same is believed, another is asked about.
	Status string
	// Agent is what state knows of the guest's agent.
	Agent AgentMemory
	// Firewall and HA say that state knows of them; without that they are not read.
	Firewall, HA bool
	// Proof stands in for the identity while a failed create of ours is all that state has.
	Proof *Proof
}

// Identity tells one VM from another that later got the same id: the SMBIOS uuid, else the creation time in meta.
type Identity struct {
	UUID  string `json:"uuid,omitempty"`
	CTime string `json:"ctime,omitempty"`
}

// Guest is a VM as it was read from the server.
type Guest struct {
	VMID     int
	Node     string
	Spec     vm.Spec // pending values merged
	Identity Identity
	Status   string // running, stopped
	Lock     string
	Pool     string
	Firewall *Firewall // nil: not asked
	HA       *HA       // nil: none, or not asked
	Pending  []string  // options that wait for a restart
	Source   int       // VMID of the clone source, create only
	// Interfaces is what the agent said; nil if it was not asked or silent.
	Interfaces []Interface
	Silent     bool // the agent was asked and did not answer
	Husk       bool // there is only the empty VM under which a destroy takes a volume away: no VM any more
}

// Interface is a network interface as the guest agent reports it.
type Interface struct {
	Name, MAC string
	IPv4      []string // without prefix length
	IPv6      []string
}

// Warning is something the operator should know although the operation succeeded.
type Warning struct{ Summary, Detail string }

// FieldError is an error that belongs to one attribute. Path is in terms of the resource: "vmid", "clone.vmid",
// "disks.scsi0.storage".
type FieldError struct {
	Path            string
	Summary, Detail string
	Err             error // what the server said, or nil
}

// Error is the detail, with what the server said behind it.
func (e *FieldError) Error() string {
	if e.Err == nil {
		return e.Summary + ": " + e.Detail
	}
	return e.Summary + ": " + e.Detail + ": " + e.Err.Error()
}

// Unwrap gives what the server said.
func (e *FieldError) Unwrap() error { return e.Err }

// Created is the outcome of a create. With an error, a zero Guest.VMID says that nothing is left: state stays empty.
// Otherwise the guest and the residues belong in state, tainted.
type Created struct {
	Guest    Guest
	Warnings []Warning
	Left     []tx.Residue
	Proof    *Proof // of a guest that was not committed
}

// PowerState is what the configuration wants of a guest's power; "" leaves it alone.
type PowerState string

// The power states that can be asked for.
const (
	Unmanaged PowerState = ""
	Running   PowerState = "running"
	Stopped   PowerState = "stopped"
)

// UpdateRequest changes a VM in place from Prior (state) to Planned (plan). Only what differs between the two is sent.
type UpdateRequest struct {
	Ref       Ref
	Prior     vm.Spec
	Planned   vm.Spec
	PriorPool string
	Pool      string
	// Firewall and HA are taken from Prior to planned; nil is nothing.
	PriorFirewall, Firewall *Firewall
	PriorHA, HA             *HA
	PowerState              PowerState
	// BootOrder is enforced; nil leaves it to PVE, which appends CD-ROM drives to it.
	BootOrder []string
	// Node is where the VM is to be; "" leaves it where it is. Another node than Ref's means a migration.
	Node string
	// Restart says what is done when a change waits for a restart of the running guest.
	Restart Restart
	// Due are options of earlier changes that still wait for a restart.
	Due []string
	// StopTimeout bounds a graceful shutdown, also that of a restart. Zero: three minutes.
	StopTimeout time.Duration
	Wait        *Wait
	// DestroyRemoved destroys the volumes of drives that leave the VM, which stay with it as unusedN otherwise.
	DestroyRemoved bool
}

// Restart is what the configuration allows when a change waits for a restart of a running guest.
type Restart int

// The restart policies.
const (
	RestartGracefully Restart = iota // reboot through PVE; a guest that does not obey is an error
	RestartNever                     // leave the change pending
	RestartForcibly                  // reboot; cut off a guest that does not obey
)

// Wait is what a create and an update wait for when their work is done. It ends no transaction.
type Wait struct {
	Agent, IPv4, IPv6 bool
	Timeout           time.Duration // zero: five minutes
	// Warn makes a timeout a warning; otherwise it is an error, with the guest kept.
	Warn bool
}

// DeleteRequest destroys a VM, or retries what an earlier create or delete left.
type DeleteRequest struct {
	Ref  Ref          // with the Proof that the create returned, if it failed
	Left []tx.Residue // remembered residues
	Pool string       // that state knows the VM to be in
	// ForceStop allows a hard stop when the guest does not shut down in StopTimeout (zero: three minutes).
	ForceStop   bool
	StopTimeout time.Duration
	// KeepReferences leaves the VM's entries in backup and replication jobs and in HA; PVE refuses to destroy a VM that
	// HA or a replication job names (qemu-server API2/Qemu.pm destroy_vm).
	KeepReferences bool
}

// Seen is what Read found out.
type Seen int

// The outcomes of a read.
const (
	Found   Seen = iota
	Gone         // no such VM anywhere in the cluster, and the whole cluster could be seen
	Unknown      // cannot be told now (node offline, no permission): state is kept, with a warning
)

// PlanRequest is what can be checked against the server before anything is changed. Zero values are not checked.
type PlanRequest struct {
	Creating bool
	Node     string
	VMID     int
	Clone    *Clone
	Storages map[string]string // attribute path -> storage id
	Bridges  map[string]string // attribute path -> bridge
	Pool     string
	Spec     *vm.Spec          // of a clone, if all of it is known
	Images   map[string]string // attribute path -> volume id that must exist (ISO, import source)
	Nodes    []string          // instead of Node, of a create: the first of them that is online
	Moving   *Moving           // a VM that is to be migrated to Node
}

// Moving is a VM in state that a plan takes to another node.
type Moving struct {
	VMID           int
	From           string
	Running        bool // it does, and is not shut down first
	Prior, Planned vm.Spec
}
