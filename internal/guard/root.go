package guard

import (
	"context"
	"errors"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// This file sends the requests that PVE grants to root alone: over SSH as root on the node, or with a ticket of root's.

// FreeByRoot removes a volume as root on its node. prove is called when the turn to run a command there has come: as
// many imports of disks may be under way as sshd allows sessions. A lost answer is Ambiguous: the caller looks, and
// proves again before a second try.
func (g *Guard) FreeByRoot(ctx context.Context, node, volume string,
	prove func(context.Context) (Evidence, error)) error {
	return g.shell.Hold(ctx, node, func(ctx context.Context) error {
		e, err := prove(ctx)
		if err == nil {
			err = permits(g, e, e.MayFree(volume) && e.place == node)
		}
		if err != nil {
			return err
		}
		err = g.shell.FreeVolume(guest.Soon(ctx, g.clock, e.at), node, volume)
		if pve.IsKind(err, pve.Ambiguous) {
			g.awaitFree(ctx, node, volume)
		}
		return err
	})
}

// awaitFree waits, as far as this identity sees it, for the worker of a `pvesm free` whose connection was lost. The
// worker goes on, and is a task (pve-storage 9.1.7, API2/Storage/Content.pm delete). A look before its end would find
// the volume, and a second free could meet another volume of that name.
func (g *Guard) awaitFree(ctx context.Context, node, volume string) {
	id := volid.Storage(volume)
	if owner, ok := volid.Owner(volume); ok {
		id = fmt.Sprintf("%d@%s", owner, id)
	}
	running, err := g.api.Tasks().List(ctx, node, pve.TaskFilter{RunningOnly: true})
	if err != nil {
		return // the caller's look decides
	}
	for _, t := range running {
		if t.UPID.Type() == "imgdel" && t.UPID.ID() == id {
			_, _ = g.api.Tasks().Wait(ctx, t.UPID) // likewise
		}
	}
}

// RemoveByRoot removes a snippet as root on its node, if it has the expected content. prove is called as by FreeByRoot.
func (g *Guard) RemoveByRoot(ctx context.Context, f Snippet, prove func(context.Context) (Evidence, error)) error {
	return g.shell.Hold(ctx, f.Node, func(ctx context.Context) error {
		e, err := prove(ctx)
		if err == nil {
			err = permits(g, e, e.MayFree(f.Volume) && e.place == f.Node)
		}
		if err != nil {
			return err
		}
		return g.shell.RemoveFile(guest.Soon(ctx, g.clock, e.at), f.Node, f.Path, f.SHA256)
	})
}

// TakeLock takes the lock of a dead task away. With a ticket of root@pam it does so over the API, bound to the digest
// of the evidence: PVE lets no other identity skip a lock, not even a token of root. Otherwise it does so as root on
// the node. description, if not "", marks what is left.
func (g *Guard) TakeLock(ctx context.Context, e Evidence, description string) error {
	switch {
	case !e.ours:
		return ErrNoEvidence
	case e.held != nil:
		return e.held
	case g.api.Identity().IsRootTicket():
		return g.api.QEMU(e.node, e.vmid).RemoveLock(ctx, e.config.Digest, description)
	case g.shell != nil:
		return g.unlockByRoot(ctx, e)
	}
	return ErrCannotUnlock
}

// unlockByRoot takes the lock away as root on the node. `qm unlock` takes away any lock, and no digest, so it looks
// once more whether the lock is still the one of the evidence: finding its holder took requests to several nodes. After
// a wait for its turn it does nothing: another task may have taken a lock of the same name, and then the digest is
// equal.
func (g *Guard) unlockByRoot(ctx context.Context, e Evidence) error {
	began := g.clock.Now()
	return g.shell.Hold(ctx, e.node, func(ctx context.Context) error {
		if pve.Elapsed(began, g.clock.Now()) > guest.LookLife {
			return guest.ErrLate
		}
		looked := g.clock.Now()
		now, err := g.api.QEMU(e.node, e.vmid).Config(ctx)
		switch {
		case err != nil:
			return err
		case now.Digest != e.config.Digest:
			return &pve.Error{Op: fmt.Sprintf("unlock VM %d on node %s", e.vmid, e.node), Kind: pve.DigestMismatch,
				Message: "its configuration was changed while it was looked at; it was not touched"}
		}
		return g.shell.Unlock(guest.Soon(ctx, g.clock, looked), e.node, e.vmid)
	})
}

// ErrCannotUnlock says that neither this identity nor SSH can take a lock away.
var ErrCannotUnlock = errors.New("only the user root@pam with a password may unlock it over the API, and no SSH is " +
	"configured")
