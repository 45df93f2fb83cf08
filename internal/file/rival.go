package file

import (
	"context"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
)

// logLines is the number of lines of a task's log that are read: enough to tell what the task did.
const logLines = 500

// hasRival reports whether a third party's task worked, or may have worked, on the same file during a create. Each of
// two downloads renames its own file over the other's and ends well, and an upload overwrites what is there. The
// timestamps have a resolution of a second, which does not tell whose rename was the last.
func (f *Files) hasRival(ctx context.Context, own pve.UPID, path string) (rival bool, err error) {
	for _, kind := range []string{"download", "imgcopy"} { // an upload's task has no name in its id
		var tasks []pve.Task
		err = f.runner.Retry(ctx, request.Policy{Tries: 3}, func(ctx context.Context) (err error) {
			tasks, err = f.api.Tasks().List(ctx, own.Node(), pve.TaskFilter{Type: kind})
			return err
		})
		for _, t := range tasks {
			over := !t.Running() && t.EndTime.Before(own.Start())
			if over || kind == own.Type() && t.UPID.ID() != own.ID() || f.runner.IsKnown(t.UPID) {
				continue
			}
			log, err := f.api.Tasks().Log(ctx, t.UPID, logLines)
			target := task.TargetOf(log)
			if known := err == nil && target != "" && path != ""; !known || target == path {
				return true, nil
			}
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}
