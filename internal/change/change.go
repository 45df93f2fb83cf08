// Package change takes a VM in place from what state says to what the plan says: exactly what differs is sent, in the order
// of a table of steps. There is no undo: what was done stays, and the guest that is returned says so. It creates no VM and
// removes none.
package change

import (
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/source"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Changer changes VMs of one cluster.
type Changer struct {
	api     *pve.Client
	clock   pve.Clock
	jobs    *job.Runner
	guests  *guest.Guests
	remover *remove.Remover
	sources *source.Sources
}

// New makes a Changer.
func New(jobs *job.Runner, guests *guest.Guests, remover *remove.Remover, sources *source.Sources) *Changer {
	return &Changer{api: jobs.API, clock: jobs.Clock, jobs: jobs, guests: guests, remover: remover, sources: sources}
}

// Request changes a VM in place from Prior (state) to Planned (plan). Only what differs between the two is sent.
type Request struct {
	Ref       guest.Ref
	Prior     vm.Spec
	Planned   vm.Spec
	PriorPool string
	Pool      string
	// Firewall and HA are taken from Prior to planned; nil is nothing.
	PriorFirewall, Firewall *guest.Firewall
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

// update is one change of a VM: what is wanted, which never changes, and the one view of the server.
type update struct {
	s        *Changer
	r        Request
	vmid     int
	before   pve.PendingConfig // what the server had when the update began
	view     *view
	warnings []guest.Warning
	deaf     *unobeyed
}

// unobeyed is the error for a guest that did not obey, with what is true only while it runs: that is said if the last look shows it.
type unobeyed struct {
	err  *guest.FieldError
	runs string
}

// disobedient is an error for a guest that did not obey.
func (u *update) disobedient(err *guest.FieldError, runs string) error {
	u.deaf = &unobeyed{err, runs}
	return err
}

// warn keeps a warning for the end of the update.
func (u *update) warn(summary, detail string) {
	u.warnings = append(u.warnings, guest.Warning{Summary: summary, Detail: detail})
}
