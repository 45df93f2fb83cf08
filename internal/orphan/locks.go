package orphan

import (
	"context"
	"fmt"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// held is what is known of a lock.
type held int

const (
	atWork   held = iota // a task may hold it, or it is gone by now
	unheld               // no task holds it
	untold               // whether one does cannot be seen
	deadTask             // the task that took it was killed
)

// lockOf finds out what holds a guest's lock. A task that begins while it is looked would be missed by one look: the
// tasks are listed, then the lock is read again, then the tasks are listed again.
func (l *look) lockOf(ctx context.Context, r volumeuse.Reading, lock string) (held, pve.Task, error) {
	for again := range 2 {
		if again > 0 {
			config, err := l.api.Guest(r.Guest).Options(ctx)
			if pve.IsKind(err, pve.NotFound) || err == nil && config.Current()["lock"] != lock {
				return atWork, pve.Task{}, nil
			}
			if err != nil {
				return untold, pve.Task{}, err
			}
		}
		runs, err := l.runs(ctx, r.Guest, lock)
		if err != nil {
			return untold, pve.Task{}, err
		}
		if runs {
			return atWork, pve.Task{}, nil
		}
	}
	dead, err := l.died(ctx, r.Guest, lock)
	if err == nil && dead.UPID != "" {
		return deadTask, dead, nil
	}
	return unheld, pve.Task{}, err
}

// nodesOf are the nodes on which the task behind a lock may run: a migration ends on the node that it began on.
func (l *look) nodesOf(g pve.Resource, lock string) ([]string, error) {
	if lock != "migrate" {
		return []string{g.Node}, nil
	}
	if away := l.offline(); len(away) > 0 {
		return nil, fmt.Errorf("the nodes %v are not online", away)
	}
	return l.nodes(), nil
}

// runs reports whether a task runs that may hold the lock. Of a container it is any that names it, or no guest, or
// copies one: which lock is whose is known of VMs only.
func (l *look) runs(ctx context.Context, g pve.Resource, lock string) (bool, error) {
	nodes, err := l.nodesOf(g, lock)
	if err != nil {
		return false, err
	}
	holder := request.Holder{VMID: g.VMID, Lock: lock}
	for _, node := range nodes {
		audits, err := l.jobs.Audits(ctx, node)
		if err != nil {
			return false, err
		}
		if !audits {
			return false, fmt.Errorf("which tasks run on node %s cannot be seen without Sys.Audit on /nodes/%s", node, node)
		}
		tasks, err := l.api.Tasks().List(ctx, node, pve.TaskFilter{RunningOnly: true})
		if err != nil {
			return false, err
		}
		for _, t := range tasks {
			own := t.UPID.ID() == strconv.Itoa(g.VMID)
			elsewhere := t.UPID.ID() == "" || t.UPID.Type() == "vzclone" || t.UPID.Type() == "vzdump"
			if own || holder.MayHold(t.UPID) || g.Type == "lxc" && elsewhere {
				return true, nil
			}
		}
	}
	return false, nil
}

// died finds the task that took a VM's lock and was killed before it gave it back.
func (l *look) died(ctx context.Context, g pve.Resource, lock string) (pve.Task, error) {
	nodes, err := l.nodesOf(g, lock)
	if err != nil || g.Type != "qemu" {
		return pve.Task{}, err
	}
	return l.jobs.Died(ctx, request.Holder{Node: g.Node, VMID: g.VMID, Lock: lock}, nodes...)
}
