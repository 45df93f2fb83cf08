package request

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// AppendsToBootOrder tells whether PVE will append CD-ROM drives of a change to the boot order: it does so with every
// one that is written and not in it, in whatever order it takes the options of a request (qemu-server API2/Qemu.pm
// update_vm_api). So an order that is to be another one has to be written afterwards.
func AppendsToBootOrder(change vm.Change, order []string) bool {
	drives := vm.Decode(change.Set).CDROMs
	for slot := range drives {
		if !slices.Contains(order, slot) {
			return true
		}
	}
	return false
}

// Problems is what cannot be done in place, worded like a refusal of the options concerned by PVE, so that it is
// shown on their attributes.
func Problems(verb string, vmid int, change vm.Change) error {
	params := map[string]string{}
	for _, p := range change.Problems {
		params[p.Option] = p.Text
	}
	return &pve.Error{Op: fmt.Sprintf("%s VM %d", verb, vmid), Kind: pve.Invalid, Message: "nothing was changed",
		Params: params}
}

// Bound says of which configuration a request is meant, so that PVE carries it out on no other.
type Bound struct {
	// Digest is that of the configuration which was read; "" is any.
	Digest string
	// Again looks once more, where a request of this one has changed the digest, or may have since its answer was lost:
	// it gives the one that there is now. It is an error where the id has another VM, or where the options that are sent
	// next would undo what a third party has done since. Without it what follows is bound to Digest as well.
	Again func(ctx context.Context, next map[string]string) (string, error)
	// Each, if set, puts a look before each try to send: the wait for a lock may last hours, and an earlier look permits
	// nothing after it. root's command over SSH goes without: it imports, and attaches nothing that another guest has.
	Each func(send func(context.Context) error) func(context.Context) error
}

func (b Bound) params(params pve.Params) pve.Params {
	if b.Digest == "" {
		return params
	}
	params = maps.Clone(params)
	params["digest"] = b.Digest
	return params
}

// send sends a request, if the look that comes before it permits that. Otherwise refused is the error of the look, and
// nothing was sent.
func (b Bound) send(ctx context.Context, send func(context.Context) error) (err, refused error) {
	if b.Each == nil {
		return send(ctx), nil
	}
	sent := false
	err = b.Each(func(ctx context.Context) error { sent = true; return send(ctx) })(ctx)
	if err != nil && !sent {
		return nil, err
	}
	return err, nil
}

// next is the Bound for a request that follows with these options.
func (b Bound) next(ctx context.Context, options map[string]string) (_ Bound, err error) {
	if b.Again != nil {
		b.Digest, err = b.Again(ctx, options)
	}
	return b, err
}

// Apply sends the options of a change: through a task where a volume is allocated, since a request may only take 30
// s, and before that over SSH what only root on the node may. It reports whether the configuration that it is bound
// to was what PVE changed, as setRead does.
func (r *Runner) Apply(ctx context.Context, tasks *Tasks, node string, vmid int, change vm.Change,
	b Bound) (known bool, err error) {
	if len(change.DeleteFirst) > 0 {
		if err := r.Set(ctx, node, vmid, pve.Params{"delete": strings.Join(change.DeleteFirst, ",")}, b); err != nil {
			return false, err
		}
	}
	if len(change.Set)+len(change.Delete) == 0 {
		return false, nil
	}
	if len(change.DeleteFirst) > 0 {
		if b, err = b.next(ctx, change.Set); err != nil {
			return false, err
		}
	}
	for _, slot := range r.ByRoot(change) {
		if err := r.setAsRoot(ctx, tasks, node, vmid, slot, change.Set[slot], b.Digest); err != nil {
			return false, err
		}
		change.Set = maps.Clone(change.Set)
		delete(change.Set, slot)
		if b, err = b.next(ctx, change.Set); err != nil {
			return false, err
		}
	}
	if len(change.Set)+len(change.Delete) == 0 {
		return false, nil
	}
	params := pve.Params{}
	for option, value := range change.Set {
		params[option] = value
	}
	if len(change.Delete) > 0 {
		params["delete"] = strings.Join(change.Delete, ",")
	}
	if change.ImportStorage != "" && change.Unpacks() {
		params["import-working-storage"] = change.ImportStorage
	}
	if !change.Allocates() {
		return r.setRead(ctx, node, vmid, params, b)
	}
	params = b.params(params)
	_, err = r.Perform(ctx, tasks, Request{Node: node, Type: "qmconfig", ID: vmid,
		Send: func(ctx context.Context) (upid pve.UPID, _ error) {
			err, refused := b.send(ctx, func(ctx context.Context) (err error) {
				upid, err = r.API.QEMU(node, vmid).UpdateConfigTask(ctx, params)
				return err
			})
			return upid, cmp.Or(refused, err)
		}})
	return false, err
}

// Set changes options that allocate nothing, as soon as no lock is held on the VM.
func (r *Runner) Set(ctx context.Context, node string, vmid int, params pve.Params, b Bound) error {
	_, err := r.setRead(ctx, node, vmid, params, b)
	return err
}

// SetNow is Set without a wait: a lock that is held on the VM is an error at once.
func (r *Runner) SetNow(ctx context.Context, node string, vmid int, params pve.Params, b Bound) error {
	_, err := r.put(ctx, node, vmid, params, b)
	return err
}

// setRead is Set. It reports whether the configuration that was read was what PVE changed, which is not known without
// a digest, nor once an answer was lost.
func (r *Runner) setRead(ctx context.Context, node string, vmid int, params pve.Params, b Bound) (known bool,
	err error) {
	lost := false
	err = r.Contend(ctx, node, vmid, func(ctx context.Context) error {
		resent, err := r.put(ctx, node, vmid, params, b)
		lost = lost || resent
		return err
	})
	return !lost && b.Digest != "", err
}

// put sends options that allocate nothing, and reports whether it had to send more than once. Such a request means
// the same when it is sent twice, so a lost answer is followed by a second try. The first may have changed the
// digest, also while it is looked at what it is now.
func (r *Runner) put(ctx context.Context, node string, vmid int, params pve.Params, b Bound) (resent bool, err error) {
	update := func(ctx context.Context, b Bound) (err, refused error) {
		return b.send(ctx, func(ctx context.Context) error {
			return r.API.QEMU(node, vmid).UpdateConfig(ctx, b.params(params))
		})
	}
	err, refused := update(ctx, b)
	if refused != nil {
		return false, refused
	}
	if err == nil && r.Written != nil {
		r.Written(vmid, pve.ChangeEntry(vmid, params))
	}
	if !pve.IsKind(err, pve.Ambiguous) {
		return false, err
	}
	late, cancel := r.LookAfter(ctx) // an interrupt may have cut the line: a second try settles what is true
	defer cancel()
	again := func(err error) bool {
		return pve.IsKind(err, pve.Ambiguous) || b.Again != nil && pve.IsKind(err, pve.DigestMismatch)
	}
	for attempt := 1; attempt < 3 && again(err) && r.Pause(late, attempt) == nil; attempt++ {
		now, lookErr := b.next(late, params)
		answer := err
		if lookErr == nil {
			answer, lookErr = update(late, now)
		}
		switch {
		case pve.IsKind(lookErr, pve.Unavailable), pve.IsKind(lookErr, pve.Ambiguous):
		case lookErr != nil:
			return true, errors.Join(lookErr, err)
		default:
			err = answer
		}
	}
	return true, err
}

// GrowRead grows a disk of the configuration with this digest.
func (r *Runner) GrowRead(ctx context.Context, tasks *Tasks, node string, vmid int, g vm.Growth, digest string) error {
	_, err := r.Perform(ctx, tasks, Request{Node: node, Type: "resize", ID: vmid,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return r.API.QEMU(node, vmid).ResizeDisk(ctx, g.Slot, property.FormatSize(g.Size), digest)
		}})
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "shrinking disks is not supported"): // PVE asks the storage, and notes no size
		err = fmt.Errorf("%w. The volume is larger than the size that PVE has noted. `qm disk rescan --vmid %d` on node %s "+
			"has it noted; the next plan then names the size to write", err, vmid, node)
	}
	return fmt.Errorf("grow %s to %s: %w", g.Slot, property.FormatSize(g.Size), err)
}

// Revert drops options that wait for a restart.
func (r *Runner) Revert(ctx context.Context, node string, vmid int, options []string, b Bound) error {
	return r.Set(ctx, node, vmid, pve.Params{"revert": strings.Join(options, ",")}, b)
}
