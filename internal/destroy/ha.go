package destroy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
)

// kept is the HA entry of a guest that HA is to ignore for its shutdown: its options before. The zero value is none.
type kept struct {
	options map[string]string
	dropped bool // the entry was removed, to be made again
}

// asKnown are the options that the entry has as far as this destroy knows; nil if it has none at the moment.
func (k kept) asKnown(options map[string]string) map[string]string {
	if k.dropped {
		return nil
	}
	return options
}

// ignored are the options of the entry meanwhile.
func (k kept) ignored() map[string]string {
	options := maps.Clone(k.options)
	options["state"] = "ignored"
	return options
}

// ignore has HA ignore the guest. The entry stays, so that a failed destroy loses none of its options, and the deletion
// of the VM takes it out of the rules, which it does only for a VM that has an entry (qemu-server API2/Qemu.pm
// destroy_vm). HA changes no entry of a service in state error (pve-ha-manager API2/HA/Resources.pm
// check_service_state): that one is made again.
func (k *kept) ignore(ctx context.Context, d *destruction) error {
	vmid := d.r.Ref.VMID
	entry, err := d.d.api.HA().Resource(ctx, vmid)
	if err != nil {
		return err
	}
	prove := func(ctx context.Context) (guard.Evidence, error) { return d.proveSelf(ctx, false) }
	d.seenAt = time.Time{} // an act, after which the next one looks again
	k.options = entry.Options
	k.options["state"] = cmp.Or(k.options["state"], "started") // its default (pve-ha-manager HA/Resources.pm)
	if listed, _ := d.resources.Guest(vmid); listed.HAState == "error" {
		err = d.d.LeaveHA(ctx, vmid, prove)
		k.dropped = true
	}
	if err == nil {
		err = d.d.guests.SetHA(ctx, vmid, k.asKnown(k.options), k.ignored(), func(ctx context.Context) error {
			_, err := prove(ctx)
			return err
		})
	}
	if err != nil {
		return err
	}
	k.dropped = false
	return awaitIgnored(ctx, d)
}

// manages is how long HA's manager, which comes round each 10 s, may take to let go of a guest. One that does not come
// round at all starts no guest either.
const manages = 30 * time.Second

// awaitIgnored waits until HA's manager has dropped the guest from its status. Until then the local manager, which
// goes by that status, starts a guest that is off: it looks whether there is an entry, not at the state of the entry
// (pve-ha-manager LRM.pm exec_resource_agent, Manager.pm "ignored state requested"). The listing shows the manager's
// status rather than the entry (pve-manager API2/Cluster.pm resources).
func awaitIgnored(ctx context.Context, d *destruction) error {
	_, err := d.d.jobs.Poll(ctx, request.Policy{Within: manages}, func(ctx context.Context) (bool, error) {
		d.asked = d.d.use.Ask()
		err := d.list(ctx)
		listed, ok := d.resources.Guest(d.r.Ref.VMID)
		return !ok || listed.HAState == "ignored", err
	})
	return err
}

// putBack gives the entry back what it was, after a destroy that did not remove the VM. An entry that a third party
// has changed or removed meanwhile stays so, and so does that of a VM of which only the lock of its destroy is left.
func (k *kept) putBack(ctx context.Context, d *destruction) error {
	if k.options == nil {
		return nil
	}
	vmid := d.r.Ref.VMID
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	prove := func(ctx context.Context) error {
		now, err := d.d.api.QEMU(d.node, vmid).Config(ctx)
		if err == nil && (!d.mine(now.Values) || guest.IsHalfDestroyed(now.Values)) {
			err = guard.ErrNotOurs
		}
		return err
	}
	entry, err := d.d.api.HA().Resource(ctx, vmid)
	if err == nil && entry.Options["state"] != "ignored" || pve.IsKind(err, pve.NotFound) && !k.dropped {
		return nil
	}
	err = d.d.guests.SetHA(ctx, vmid, k.asKnown(k.ignored()), k.options, prove)
	if err == nil || errors.Is(err, guard.ErrNotOurs) || pve.IsKind(err, pve.NotFound) && !k.dropped {
		return nil
	}
	return fmt.Errorf("put VM %d back under HA: %w", vmid, err)
}
