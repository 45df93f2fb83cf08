package image

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// takeBack removes what the create has made, and names what it cannot. PVE has done so itself where the task failed: its temporary file
// is gone, and the file was not put in its place (pve-common Tools.pm download_file_from_url; pve-storage API2/Storage/Status.pm
// upload).
func (c *creation) takeBack(ctx context.Context) error {
	if c.present {
		return nil
	}
	c.settle(ctx)
	var ended *pve.TaskError
	failed := errors.As(c.result, &ended)
	interrupted := (*job.InterruptedError)(nil)
	switch {
	case errors.As(c.result, &interrupted) && interrupted.Running:
		return &tx.LeftError{Left: []tx.Residue{c.running(interrupted.Task)}}
	case failed && (ended.Kind == pve.Ambiguous || pve.LeftTemporary(ended.Log)): // killed, or nobody knows how it ended, or it says so
		return c.afterKill(ctx, ended)
	case failed:
		return nil
	case c.result != nil && !pve.IsKind(c.result, pve.Ambiguous):
		return nil // the request was refused, or not sent to its end
	case c.isOwn():
		return c.remove(ctx)
	case c.had:
		return nil
	}
	return c.afterLoss(ctx)
}

// settle ends a task of this create that was lost sight of.
func (c *creation) settle(ctx context.Context) {
	ended := (*pve.TaskError)(nil)
	task, own := c.ownTask()
	if !own || !pve.IsKind(c.result, pve.Ambiguous) || errors.As(c.result, &ended) {
		return
	}
	if err := c.api.StopTask(ctx, task); err != nil {
		return
	}
	_, c.result = c.api.Wait(ctx, task)
	if c.result == nil {
		c.had = pve.HadAlready(c.log(ctx))
	}
}

// remove takes away the file that the task of this create has made.
func (c *creation) remove(ctx context.Context) error {
	rival, err := c.hasRival(ctx, c.tasks.UPIDs[0], c.target)
	if rival {
		return &tx.LeftError{Left: []tx.Residue{c.residueUnknown("somebody else was at work on the same file at the same time, so it may be " +
			"his")}}
	}
	found, lookErr := c.made(ctx)
	err = errors.Join(err, lookErr)
	for _, v := range found {
		if err == nil {
			err = c.remover.FreeNewFile(ctx, &job.Tasks{}, fileOf(c.spec.Node, v).MadeFile)
		}
	}
	other := (*remove.OtherFileError)(nil)
	if err == nil || errors.As(err, &other) { // somebody has put his in its place
		return nil
	}
	return &tx.LeftError{Err: err, Left: []tx.Residue{c.residue("the file could not be removed again")}}
}

// made is what is there of the file's name since the create began, without what was there before.
func (c *creation) made(ctx context.Context) ([]pve.Volume, error) {
	found, err := c.find(ctx)
	return c.without(found, c.before), err
}

// afterKill deals with what a worker leaves that is killed: an upload, that part of the file which it has copied; a download,
// its temporary file, which the API does not show. A file that is whole is named and stays: it is there all but never by a
// worker that was killed, and may be that of another run, which gives the same file the same name.
func (c *creation) afterKill(ctx context.Context, ended *pve.TaskError) error {
	guessed := c.tasks.Guessed[ended.UPID]
	left := c.temporary(ctx, ended.UPID)
	found, err := c.made(ctx)
	whole := false
	for _, v := range found {
		switch {
		case err != nil:
		case guessed || v.CreatedAt.Before(ended.UPID.Start().Add(-job.Skew)):
			left = append(left, c.residueUnknown("the answer to the request was lost, so it may be somebody else's"))
		case c.spec.Source == nil || v.Size == c.spec.Source.Size:
			whole = true
		default:
			err = c.remover.FreeNewFile(ctx, &job.Tasks{}, fileOf(c.spec.Node, v).MadeFile)
		}
	}
	if whole && !c.isPhantom(ctx) {
		left = append(left, c.residueUnknown("it is whole, although the task that was to put it there did not end well, so it may be "+
			"somebody else's"))
	}
	if err != nil && !c.isPhantom(ctx) {
		left = append(left, c.residue("its task ended before it was whole, and it could not be removed"))
	}
	if len(left) == 0 {
		return nil
	}
	return &tx.LeftError{Left: left}
}

// isPhantom reports whether what is listed is only the temporary file, whose name has that of the file in it.
func (c *creation) isPhantom(ctx context.Context) bool {
	_, err := c.api.VolumeSize(ctx, c.spec.Node, c.spec.Volume())
	return pve.IsKind(err, pve.Unknown)
}

// temporary are the files of a worker that was killed. Their names have its process id, which the UPID has, or are in its log; nobody
// else's are called so.
func (c *creation) temporary(ctx context.Context, task pve.UPID) []tx.Residue {
	log := c.log(ctx)
	path := pve.TargetOf(log)
	var paths []string
	if uploaded := pve.UploadedTo(log); uploaded != "" {
		paths = append(paths, uploaded)
	} else if pid, ok := processOf(task); ok && path != "" {
		paths = append(paths, fmt.Sprintf("%s.tmp_dwnl.%d", path, pid))
		if c.spec.Compression != "" {
			paths = append(paths, fmt.Sprintf("%s.tmp_dcom.%d", path, pid))
		}
	}
	if len(paths) == 0 {
		return []tx.Residue{{Kind: "file", Node: task.Node(), ID: string(task),
			What:   "what task " + string(task) + " had of " + c.spec.Name,
			Reason: "the task could not remove its temporary file, and its log cannot be read"}}
	}
	var left []tx.Residue
	for _, path := range paths {
		left = append(left, tx.Residue{Kind: "file", Node: task.Node(), ID: path, What: "temporary file " + path + ", if it is there",
			Reason: "the task could not remove it, and the API does not show it", Command: "rm -f -- " + quote(path)})
	}
	return left
}

// processOf is the id of a task's process (pve-common Tools.pm upid_encode).
func processOf(task pve.UPID) (int64, bool) {
	parts := strings.Split(string(task), ":")
	if len(parts) < 3 {
		return 0, false
	}
	pid, err := strconv.ParseInt(parts[2], 16, 64)
	return pid, err == nil
}

func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// afterLoss deals with a request of which nothing is known but that it was sent.
func (c *creation) afterLoss(ctx context.Context) error {
	found, err := c.made(ctx)
	if err == nil && len(found) == 0 && c.spec.Source == nil {
		return nil // no task was found, and no file
	}
	if task, own := c.ownTask(); own { // the node cannot be asked
		left := append(c.temporary(ctx, task), c.residueUnknown(fmt.Sprintf("what became of task %s is not known", task)))
		return &tx.LeftError{Left: left}
	}
	reason := "the answer to the request was lost: it may be of this apply, or somebody else's"
	if err != nil {
		reason += fmt.Sprintf("; and it could not be looked whether it is there (%v)", err)
	} else if len(found) == 0 {
		return nil
	}
	return &tx.LeftError{Left: []tx.Residue{c.residueUnknown(reason)}}
}

func (c *creation) residue(reason string) tx.Residue {
	r := c.residueUnknown(reason)
	r.Command = "pvesm free " + c.spec.Volume()
	return r
}

// residueUnknown has no command: the file may be somebody else's.
func (c *creation) residueUnknown(reason string) tx.Residue {
	return tx.Residue{Kind: "volume", Node: c.spec.Node, ID: c.spec.Volume(), What: "file " + c.spec.Volume(), Reason: reason}
}

func (c *creation) running(task pve.UPID) tx.Residue {
	r := c.residueUnknown(fmt.Sprintf("task %s still runs, and may yet put it there; `pvenode task status %s` shows when it has "+
		"ended", task, task))
	r.What = "file " + c.spec.Volume() + ", when its task has ended"
	return r
}
