package request

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Root changes VMs as root on their nodes, which may name files by their paths.
type Root interface {
	// SetVM sets options of a VM as its configuration with that digest stands, and gives what PVE says meanwhile.
	SetVM(ctx context.Context, node string, vmid int, options map[string]string, digest string) (log string, err error)
}

// Command is a command over SSH that was to make a volume, once it has ended in any way but well.
type Command struct {
	Log  []string
	Died bool // its end is unknown: it may have been killed, and then it has not cleaned up
}

// ByRoot are the drives of a change that are made of files which are named by their paths: PVE takes those only from
// root@pam with a password (pve-storage Storage.pm, check_volume_access), so for others root on the node writes them.
func (r *Runner) ByRoot(c vm.Change) []string {
	if r.Root == nil || r.API.Identity().IsRootTicket() {
		return nil
	}
	var slots []string
	for _, option := range slices.Sorted(maps.Keys(c.Set)) {
		if vm.ImportsPath(option, c.Set[option]) {
			slots = append(slots, option)
		}
	}
	return slots
}

// setAsRoot has root on the node write a drive: one command, which holds the lock of the VM from the look at its
// digest to the end of the copy and is no task.
func (r *Runner) setAsRoot(ctx context.Context, tasks *Tasks, node string, vmid int, slot, value,
	digest string) error {
	return r.Contend(ctx, node, vmid, func(ctx context.Context) error {
		log, err := r.Root.SetVM(ctx, node, vmid, map[string]string{slot: value}, digest)
		var failed *ssh.Error
		if !errors.As(err, &failed) || failed.Command == "" { // well, or it was never begun
			return err
		}
		tasks.Commands = append(tasks.Commands, Command{Log: strings.Split(log+"\n"+failed.Stderr, "\n"),
			Died: failed.ExitStatus < 0})
		if failed.ExitStatus > 0 && failed.Err == nil {
			return fault.Said(failed.Op+" on node "+node, failed.Stderr)
		}
		return err
	})
}
