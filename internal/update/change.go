// Package update takes a VM in place from what state says to what the plan says: exactly what differs is sent, in the
// order of a table of steps. There is no undo: what was done stays, and the guest that is returned says so. It creates
// no VM and removes none.
package update

import (
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/diskimport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// Changer changes VMs of one cluster.
type Changer struct {
	api       *pve.Client
	clock     pve.Clock
	jobs      *request.Runner
	guests    *guest.Guests
	destroyer *destroy.Destroyer
	sources   *diskimport.Sources
	turns     *turns
	restarts  restarts
}

// New makes a Changer.
func New(jobs *request.Runner, guests *guest.Guests, destroyer *destroy.Destroyer,
	sources *diskimport.Sources) *Changer {
	return &Changer{api: jobs.API, clock: jobs.Clock, jobs: jobs, guests: guests, destroyer: destroyer, sources: sources}
}

// Request changes a VM in place from Prior (state) to Planned (plan). Only what differs between the two is sent.
type Request struct {
	Ref     guest.Ref
	Prior   vm.Spec
	Planned vm.Spec
	Notes
	PriorPool string
	Pool      string
	// PriorFirewall and PriorHA are what Firewall and HA replace; nil is nothing.
	PriorFirewall, Firewall *firewall.Settings
	PriorHA, HA             *guest.HA
	PowerState              guest.PowerState
	// BootOrder is enforced; nil leaves it to PVE, which appends CD-ROM drives to it.
	BootOrder []string
	// Node is where the VM is to be; "" leaves it where it is. Another node than Ref's means a migration.
	Node string
	// Restart says what is done when a change waits for a restart of the running guest.
	Restart Restart
	// Due are options of earlier changes that still wait for a restart.
	Due []string
	// NewSnippets says that what is in the snippets of the VM has changed, so that its cloud-init drive has old data.
	NewSnippets bool
	// StopTimeout bounds a graceful shutdown, also that of a restart. Zero: three minutes.
	StopTimeout time.Duration
	Wait        *guest.Wait
	// ImportStorage is where a disk of an OVA is unpacked; "" is the storage of the OVA.
	ImportStorage string
	// Protect: the VM gets the planned protection whatever Prior says: a third party, or a destroy that was killed, may
	// have switched it off, and no state has it.
	Protect bool
	// DestroyRemoved destroys the volumes of drives that leave the VM, which stay with it as unusedN otherwise.
	DestroyRemoved bool
}

// Notes are what was noted of the VM when the plan was made, beside Prior. They follow the update.
type Notes struct {
	// Leftover is the proof of the failed create that has left the VM, which its user has untainted. Nil: none has.
	Leftover *guest.Proof
	// Others is what slots had that Prior does not know, as vm.Devices has it.
	Others map[string]string
	// Media are what optical drives had that the plan has known, by slot.
	Media map[string]string
	// Sizes are those of the disks among them and of Detached, in bytes, by volume; none: not known.
	Sizes map[string]int64
	// Detached are volumes that were the VM's in state and are in no slot any more, or leave theirs at the next stop.
	Detached []string
	// Leaving are those of Detached that waited to leave their slots, by slot.
	Leaving map[string]string
}

// Restart says whether a running guest may be restarted for a change that waits for it.
type Restart int

// The restart policies.
const (
	RestartGracefully Restart = iota // reboot through PVE; a guest that does not obey is an error
	RestartNever                     // leave the change pending
	RestartForcibly                  // reboot; cut off a guest that does not obey
)

// mayRestart reports whether the guest may be restarted. The plan names no restart of a guest that it found off.
func (r Request) mayRestart() bool {
	return r.Restart != RestartNever && r.Ref.Status != string(guest.Stopped)
}

// foretells reports whether the plan has said of all these options that the guest runs on with their old values. It
// says that of a guest that it knows to run, and of no option that PVE takes from such a one, as far as hotplug goes.
func (r Request) foretells(due []string) bool {
	foretold := append(vm.NeedsRestart(r.Prior, r.Planned), r.Due...)
	return r.Ref.Status == string(guest.Running) &&
		!slices.ContainsFunc(due, func(option string) bool { return !slices.Contains(foretold, option) })
}

// update is one change of a VM: what is wanted, which stays, and the one view of the server.
type update struct {
	changer  *Changer
	r        Request
	vmid     int
	before   pve.PendingConfig // what the server had when the update began
	view     *guest.View
	claim    *guest.StateClaim // the VM in state, which the view claims
	warnings []guest.Warning
	deaf     *unobeyed
	leftOff  bool      // the guest is to run and was not started, so there is nothing to wait for
	began    time.Time // by the clock of this machine
	looked   time.Time // when it was looked at last who else has the volumes that the VM is to get
	reached  Reached
	renamed  map[string]string // guest.Guest.Renamed
}

// newUpdate begins with a configuration that was just read.
func (c *Changer) newUpdate(r Request, at guest.Location) *update {
	claim := &guest.StateClaim{Ref: r.Ref}
	return &update{changer: c, r: r, began: c.clock.Now(), vmid: r.Ref.VMID, before: at.Config, claim: claim,
		view: c.guests.View(claim, at)}
}

// inState names the VM to package destroy.
func (u *update) inState() guard.InState {
	v := guard.InState{Node: u.view.Node(), VMID: u.vmid, Identities: u.claim.Identities()}
	if u.renamed == nil { // else its own migration has brought the disks along
		v.Ref = u.r.Ref
	}
	return v
}

// The parts of an update: each changes one side of the VM.
type (
	power     struct{ *update } // starts, stops and restarts the guest
	migration struct{ *update } // takes the VM to another node
	disks     struct{ *update } // moves and grows disks in their slots
	slots     struct{ *update } // moves volumes between slots, and attaches volumes
	pooling   struct{ *update } // puts the VM into another pool
	volumes   struct{ *update } // destroys, frees or names the volumes that disks have left
)

// unobeyed is the error for a guest that did not obey. runs is true only while the guest runs, so it is added if the
// last look shows that.
type unobeyed struct {
	err  *guest.FieldError
	runs string
}

// disobedient keeps the error for a guest that did not obey, and returns it.
func (u *update) disobedient(err *guest.FieldError, runs string) error {
	u.deaf = &unobeyed{err, runs}
	return err
}

// warn keeps a warning for the end of the update.
func (u *update) warn(summary, detail string) {
	u.warnings = append(u.warnings, guest.Warning{Summary: summary, Detail: detail})
}

// warnOfPower keeps a warning on the power state.
func (p power) warnOfPower(summary, detail string) {
	p.warnings = append(p.warnings, guest.Warning{Summary: summary, Detail: detail, Path: "power_state"})
}

// Reached says which parts of its plan an update has sent, or may have sent. Of a part that it has not reached nothing
// was done: what the plan was to take over there is a third party's still.
type Reached struct{ Options, Firewall, HA bool }

// UnfinishedError is the error of an update, with the parts that it has reached.
type UnfinishedError struct {
	Reached

	err error
}

// Error is the error itself.
func (u *UnfinishedError) Error() string { return u.err.Error() }

// Unwrap returns the error as one of a list, so that each error that is joined in it has its own diagnostic.
func (u *UnfinishedError) Unwrap() []error { return []error{u.err} }
