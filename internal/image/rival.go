package image

import (
	"context"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// logLines is as much of a task's log as says what it did.
const logLines = 500

// hasRival reports whether a task of somebody else was at work on a file, by its path, while a create's own was, or may have been. Each of
// two downloads renames its own over the other's and ends well, and the second in which that was done does not tell whose the last was.
func (s *Images) hasRival(ctx context.Context, own pve.UPID, path string) (rival bool, err error) {
	var tasks []pve.Task
	for attempt := range 3 {
		if err := s.jobs.Pause(ctx, attempt); err != nil {
			return false, err
		}
		if tasks, err = s.api.Tasks(ctx, own.Node(), pve.TaskFilter{Type: own.Type()}); err == nil {
			break
		}
	}
	for _, t := range tasks {
		over := !t.Running() && t.EndTime.Before(own.Start())
		if over || t.UPID.ID() != own.ID() || s.jobs.IsKnown(t.UPID) {
			continue
		}
		log, err := s.api.TaskLog(ctx, t.UPID, logLines)
		target := pve.TargetOf(log)
		if known := err == nil && target != "" && path != ""; !known || target == path {
			return true, nil
		}
	}
	return false, err
}
