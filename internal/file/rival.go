package file

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
)

// logLines is the number of lines of a task's log that are read: enough to tell what the task did.
const logLines = 500

// untold is the number of looks at uploads that have not told their target: half a minute.
const untold = 10

// clocks is how far apart the clocks of two nodes may be. PVE wants them in step (pve-docs pvecm.adoc).
const clocks = time.Minute

// rival is a third party's task that writes, or may write, the file of a create.
type rival struct {
	pve.Task
	told bool // its log says that it is this file
}

// rivals are the tasks of third parties that worked, or may have worked, on the same file since this create's own task
// began; without one they are those that run. Each of two downloads renames its own file over the other's and ends
// well, and an upload overwrites the file that is there. The timestamps have a resolution of a second, which does not
// tell whose rename was the last. A download is done by the node of the path; an upload by the node that took the
// request, which may be any, and which copies the file to the node of the path (pve-storage API2/Storage/Status.pm).
func (t *transfer) rivals(ctx context.Context) (found []rival, err error) {
	resources, err := t.api.Listing().Shared(ctx)
	if err != nil {
		return nil, err
	}
	storage, _ := resources.Storage(t.spec.Node, t.spec.Storage)
	own, _ := t.ownTask()
	for _, n := range resources.Nodes() {
		kinds := []string{"imgcopy"}
		if n.Node == t.spec.Node || storage.Shared {
			kinds = append(kinds, "download")
		}
		for _, kind := range kinds {
			if n.Node != t.spec.Node && n.Status != "online" {
				continue
			}
			var tasks []pve.Task
			err = t.runner.Retry(ctx, request.Policy{Tries: 3}, func(ctx context.Context) (err error) {
				tasks, err = t.api.Tasks().List(ctx, n.Node, pve.TaskFilter{Type: kind, RunningOnly: own == ""})
				return err
			})
			if err != nil && n.Node != t.spec.Node && n.Node != own.Node() {
				continue // no file is in doubt since a node that has no part in it gives no answer
			}
			if err != nil {
				return found, err
			}
			for _, one := range tasks {
				if is, told := t.isRival(ctx, one, own, storage.Shared); is {
					found = append(found, rival{one, told})
				}
			}
		}
	}
	return found, nil
}

// isRival reports whether a task works, or may work, on the file of this create, and whether its log says so. An upload
// names its target when its checksum is verified.
func (t *transfer) isRival(ctx context.Context, one pve.Task, own pve.UPID, isShared bool) (is, told bool) {
	line := own.Start()
	if one.UPID.Node() != own.Node() {
		line = line.Add(-clocks)
	}
	isOver := !one.Running() && one.EndTime.Before(line)
	isOther := one.UPID.Type() == "download" && one.UPID.ID() != t.spec.Name
	if isOver || isOther || t.runner.IsKnown(one.UPID) {
		return false, false
	}
	node, target, err := t.targetOf(ctx, one.UPID)
	switch {
	case target == "":
		return err != nil || one.Running(), false // one that has ended before it told its target has written nothing
	case node != t.spec.Node && !isShared:
		return false, true
	case t.target != "":
		return target == t.target, true
	}
	return path.Base(target) == t.spec.Name, true
}

// targetOf is the node and the path to which a task puts a file; "" as long as its log does not say.
func (t *transfer) targetOf(ctx context.Context, upid pve.UPID) (node, target string, err error) {
	log, err := t.api.Tasks().Log(ctx, upid, logLines)
	if err != nil {
		return "", "", err
	}
	if node = task.TargetNode(log); node == "" || node == "localhost" {
		node = upid.Node()
	}
	return node, task.TargetOf(log), nil
}

// isOtherUpload reports whether a task is certainly not that of this create.
func (t *transfer) isOtherUpload(ctx context.Context, upid pve.UPID) bool {
	node, target, err := t.targetOf(ctx, upid)
	return err == nil && target != "" && (node != t.spec.Node || path.Base(target) != t.spec.Name)
}

// await waits until no third party's task writes the file, and returns those that did. PVE copies an upload into the
// place of the file that is there (cp), so that a VM which is made of it meanwhile would get a part. One that has not
// told its target yet is mostly of another file, and may compute the checksum of a large one: it is awaited a while.
func (t *transfer) await(ctx context.Context) (found []rival, waited bool, err error) {
	var last pve.UPID
	for try := 1; ; try++ {
		found, err = t.rivals(ctx)
		if try > untold {
			found = slices.DeleteFunc(found, func(r rival) bool { return !r.told && r.Running() })
		}
		running := slices.IndexFunc(found, func(r rival) bool { return r.Running() })
		if err != nil || running < 0 {
			return found, waited, err
		}
		waited = true
		// The list shows a task as running until pvestatd has noticed its end (pve-common RESTEnvironment.pm
		// active_workers), so one that was awaited is not asked for again at once.
		if upid := found[running].UPID; found[running].told && upid != last {
			last = upid
			t.runner.Tell(ctx, fmt.Sprintf("task %s of %s writes %s; waiting for its end", upid, upid.User(), t.spec.Volume()))
			_, err = t.api.Tasks().Wait(ctx, upid)
		} else {
			err = t.runner.Pause(ctx, try)
		}
		if ended := (*pve.TaskError)(nil); err != nil && !errors.As(err, &ended) {
			return found, waited, err
		}
	}
}
