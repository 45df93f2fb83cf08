package request

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

const (
	// lockTime is how long PVE waits for the lock under which volumes are made on a storage (pve-storage Plugin.pm
	// cluster_lock_storage; pve-common Tools.pm lock_file, pve-cluster Cluster.pm cfs_lock). A task that is older has
	// had it.
	lockTime = 10 * time.Second
	// beginsAtOnce is how many tasks that make volumes may be in that time on a node. If each holds the lock for a
	// second, the last of them just gets it; an eleventh would fail, and be rolled back.
	beginsAtOnce = 10
	// lookForPlace is how often it is looked whether one has ended. It costs no request.
	lookForPlace = 250 * time.Millisecond
)

// begins are the tasks that have begun to make volumes, by node. The zero value has none.
type begins struct {
	mu sync.Mutex
	of map[string][]*time.Time
}

// enter takes a place, or says how long one will be taken at most.
func (b *begins) enter(node string, now time.Time) (place *time.Time, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	young := slices.DeleteFunc(b.of[node], func(at *time.Time) bool { return now.Sub(*at) >= lockTime })
	if len(young) >= beginsAtOnce {
		b.of[node] = young
		return nil, lockTime - now.Sub(*young[0])
	}
	if b.of == nil {
		b.of = map[string][]*time.Time{}
	}
	b.of[node] = append(young, &now)
	return &now, 0
}

func (b *begins) leave(node string, place *time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[node] = slices.DeleteFunc(b.of[node], func(at *time.Time) bool { return at == place })
}

// makesVolumes tells whether a task of a type begins by making volumes under the locks of their storages.
func makesVolumes(typ string) bool {
	return typ == "qmcreate" || typ == "qmclone" || typ == "qmrestore"
}

// turnToBegin waits until a request may begin a task that makes volumes; over is to be called when the task has ended.
func (r *Runner) turnToBegin(ctx context.Context, j Request) (over func(), err error) {
	if !makesVolumes(j.Type) {
		return func() {}, nil
	}
	for {
		place, wait := r.begins.enter(j.Node, r.Clock.Now())
		if place != nil {
			return func() { r.begins.leave(j.Node, place) }, nil
		}
		waiting, waited := oplog.Wait(ctx, oplog.Limit, "the turn to begin a task that makes volumes")
		err := r.Clock.Sleep(waiting, min(wait, lookForPlace))
		waited()
		if err != nil {
			return nil, err
		}
	}
}
