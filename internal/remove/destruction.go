package remove

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove/usage"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// Request destroys a VM, or retries what an earlier create or delete left.
type Request struct {
	Ref  guest.Ref    // with the Proof that the create returned, if it failed
	Left []tx.Residue // remembered residues
	Pool string       // that state knows the VM to be in
	// ForceStop has PVE stop the guest hard when it does not shut down in StopTimeout (zero: three minutes), and one that is paused.
	// GracefulOnly forbids a hard stop. With neither a guest that was asked and did not obey is stopped hard, with a warning.
	ForceStop, GracefulOnly bool

	StopTimeout time.Duration
	// KeepReferences leaves the VM's entries in backup and replication jobs and in HA; PVE refuses to destroy a VM that
	// HA or a replication job names (qemu-server API2/Qemu.pm destroy_vm).
	KeepReferences bool
	// Holder says that the VM holds a disk for others (vm.HolderText): its protection, which is ours, is lifted right before it goes, and
	// it goes only where all guests can be seen, since its volume is there to be attached to others.
	Holder bool
}

// destruction is the destroy of a VM in state: everything that can speak against it is asked before anything is touched.
type destruction struct {
	s     *Remover
	r     Request
	tasks job.Tasks
	asked uint64 // when this began, or last waited: what is asked must be answered later

	resources pve.Resources
	node      string
	config    pve.PendingConfig
	seenAt    time.Time // when the configuration was read
	pool      string
	others    *usage.Survey
	// gone: there is no such VM any more. stub: all that is left of its configuration is the lock of a destroy.
	gone, stub bool
	off        bool // the guest is known to be off
	acted      bool // something has been done since the others were surveyed
	status     *pve.GuestStatus
	// copied are nodes that may have copies of its volumes, and why.
	copied   map[string]string
	warnings []guest.Warning
}

// wasThere is why a node may have volumes of the VM: of one that is replicated the copies stay where it was before, and its job turns
// round (qemu-server QemuMigrate.pm phase3_cleanup, not_replicated_volumes; switch_replication_job_target).
const wasThere = "the VM was there before"

// survey is the look before anything is done. The survey of the guests, which is needed anyway, reads the VM last.
func (d *destruction) survey(ctx context.Context) error {
	vmid := d.r.Ref.VMID
	d.asked = d.s.surveyor.Ask()
	if err := d.s.surveyor.Gather(ctx); err != nil {
		return err
	}
	err := together(ctx, d.list,
		func(ctx context.Context) error { _, _ = d.storages(ctx, d.r.Ref.Node); return nil }, // whoever needs it asks again
		func(ctx context.Context) error { _, _ = d.s.surveyor.Sight(ctx, d.asked); return nil })
	if err != nil {
		return err
	}
	listed, ok := d.resources.Guest(vmid)
	if !ok || listed.Type != "qemu" {
		return d.locate(ctx)
	}
	look := []func(context.Context) error{
		func(ctx context.Context) (err error) {
			d.others, err = d.s.surveyor.Since(ctx, d.asked, d.likelyScope(listed.Node))
			return err
		},
	}
	if d.isCluster() {
		look = append(look, func(ctx context.Context) error { _, err := d.replicationJobs(ctx); return err })
	}
	if !d.seemsToRun() {
		look = append(look, d.askStatus)
	}
	_ = together(ctx, look...) // whoever needs what could not be had asks again, and says why
	seen, ok := d.others.Of(vmid)
	if !ok || seen.Guest.Node != listed.Node {
		return d.locate(ctx)
	}
	return d.take(seen.Guest.Node, seen.Config, seen.At)
}

// isCluster reports whether there may be HA and replication.
func (d *destruction) isCluster() bool { return len(d.resources.Nodes()) > 1 }

// seemsToRun reports whether the guest runs, as far as the listing knows, which learns of a start or stop late, and the state, which a
// refresh has just confirmed. PVE's shutdown of one that is off does no harm (qemu-server QemuServer.pm vm_stop), so it is believed.
func (d *destruction) seemsToRun() bool {
	listed, _ := d.resources.Guest(d.r.Ref.VMID)
	running := string(guest.Running)
	return listed.Status == running || listed.Status == "unknown" && d.r.Ref.Status == running
}

// askStatus asks whether the guest runs.
func (d *destruction) askStatus(ctx context.Context) error {
	listed, _ := d.resources.Guest(d.r.Ref.VMID)
	status, err := d.s.api.GuestStatus(ctx, cmp.Or(listed.Node, d.node, d.r.Ref.Node), d.r.Ref.VMID)
	if d.status = nil; err == nil {
		d.status = &status
	}
	return err
}

// likelyScope is the node whose guests alone can use volumes of a VM on it, unless it has some on a shared storage.
func (d *destruction) likelyScope(node string) string {
	if slices.ContainsFunc(d.resources.Storages(node), func(s pve.Resource) bool { return !s.Shared && holdsImages(s) }) {
		return node
	}
	return ""
}

func (d *destruction) list(ctx context.Context) error {
	resources, err := d.s.surveyor.Listing(ctx, d.asked)
	if err != nil {
		return fmt.Errorf("list the cluster's guests: %w", err)
	}
	d.resources = resources
	return nil
}

// lookAgain looks at the VM now, wherever it is.
func (d *destruction) lookAgain(ctx context.Context) error {
	d.asked = d.s.surveyor.Ask()
	if err := d.list(ctx); err != nil {
		return err
	}
	return d.locate(ctx)
}

func (d *destruction) locate(ctx context.Context) error {
	at, seen, err := d.s.guests.Find(ctx, d.r.Ref, d.resources)
	if d.gone = seen == guest.Gone; d.gone {
		return nil
	}
	if err != nil {
		return d.unknown(err)
	}
	return d.take(at.Node, at.Config, d.s.clock.Now())
}

// take makes sure that what was found is the VM in state, and that it may be destroyed.
func (d *destruction) take(node string, config pve.PendingConfig, at time.Time) error {
	if d.node != "" && d.node != node {
		d.copied[d.node] = wasThere
	}
	d.node, d.config, d.seenAt = node, config, at
	if listed, ok := d.resources.Guest(d.r.Ref.VMID); ok && listed.Pool != "" {
		d.pool = listed.Pool
	}
	current := config.Current()
	if d.stub = guest.IsStub(current); d.stub {
		return nil
	}
	if err := guest.Guard(d.r.Ref, node, current); err != nil {
		return err
	}
	if d.r.Ref.Identity.IsZero() {
		return fmt.Errorf("state does not know which VM %d it means: it has no uuid. It was not touched; run terraform refresh first",
			d.r.Ref.VMID)
	}
	if current["protection"] == "1" && !d.r.Holder {
		return &guest.FieldError{Path: "protection", Summary: fmt.Sprintf("VM %d is protected", d.r.Ref.VMID),
			Detail: "It was not touched. Set protection = false and apply, then destroy"}
	}
	return nil
}

// unknown says what a failed look leaves open.
func (d *destruction) unknown(err error) error {
	node, ok := d.resources.Node(d.r.Ref.Node)
	if !ok || node.Status == "online" {
		return err
	}
	return fmt.Errorf("node %s is %s, so whether VM %d is still there, and what of it, cannot be told. It stays in state; destroy again "+
		"when the node is back: %w", node.Node, node.Status, d.r.Ref.VMID, err)
}

// replicationJobs are all of the cluster.
func (d *destruction) replicationJobs(ctx context.Context) ([]pve.ReplicationJob, error) {
	return d.s.replication.Since(ctx, d.asked, d.s.api.ReplicationJobs)
}

// storages are those of a node.
func (d *destruction) storages(ctx context.Context, node string) ([]pve.Storage, error) {
	return d.s.storages.Since(ctx, node, d.asked, func(ctx context.Context) ([]pve.Storage, error) { return d.s.api.Storages(ctx, node, "") })
}

// warn keeps the end of a task's log where the task ended with warnings.
func (d *destruction) warn(what string, result pve.TaskResult) {
	if result.Warnings == 0 {
		return
	}
	text := ""
	for _, line := range result.Log {
		text += line + "\n"
	}
	d.warnings = append(d.warnings, guest.Warning{Summary: fmt.Sprintf("%s of VM %d ended with warnings", what, d.r.Ref.VMID), Detail: text})
}
