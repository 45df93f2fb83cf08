package file

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// undo removes the file that the create has made, and names whatever it cannot remove. After a task that failed by
// itself nothing is left: PVE has removed its temporary file and put none in place (pve-common Tools.pm
// download_file_from_url; pve-storage API2/Storage/Status.pm upload).
func (t *transfer) undo(ctx context.Context) error {
	if t.present {
		return nil
	}
	if t.settle(ctx); t.result == nil && !t.told {
		t.readLog(ctx)
	}
	var ended *pve.TaskError
	failed := errors.As(t.result, &ended)
	interrupted := (*request.InterruptedError)(nil)
	switch {
	case errors.As(t.result, &interrupted) && interrupted.Running:
		return &saga.LeftError{Left: []saga.Residue{t.leftRunning(interrupted.Task)}}
	// killed, end unknown, or its log says so
	case failed && (ended.Kind == pve.Ambiguous || task.LeftTemporary(ended.Log)):
		return t.afterKill(ctx, ended)
	case failed:
		return nil
	case t.result != nil && !pve.IsKind(t.result, pve.Ambiguous):
		return nil // PVE refused the request, or never got all of it
	case t.isOwn():
		return t.remove(ctx)
	case t.reused:
		return nil
	}
	return t.afterLoss(ctx)
}

// settle stops a task of this create that was lost sight of, if that is safe, and reads how it ended.
func (t *transfer) settle(ctx context.Context) {
	ended := (*pve.TaskError)(nil)
	upid, own := t.ownTask()
	if !own || !pve.IsKind(t.result, pve.Ambiguous) || errors.As(t.result, &ended) {
		return
	}
	log, err := t.log(ctx)
	if err == nil && task.IsSafeToStop(upid.Type(), log) {
		err = t.api.Tasks().Stop(ctx, upid)
	}
	if err != nil {
		return
	}
	_, t.result = t.api.Tasks().Wait(ctx, upid)
}

// remove deletes the file that the task of this create has made.
func (t *transfer) remove(ctx context.Context) error {
	found, lookErr := t.fresh(ctx)
	if lookErr == nil && len(found) == 0 {
		return nil
	}
	rivals, err := t.rivals(ctx)
	if len(rivals) > 0 {
		return &saga.LeftError{Left: []saga.Residue{t.leftUnknown(
			"a third party wrote the same file at the same time, so it may be theirs")}}
	}
	err = errors.Join(err, lookErr)
	for _, v := range found {
		if err == nil {
			err = t.guard.FreeNew(ctx, &request.Tasks{}, listed(t.spec.Node, v).MadeFile)
		}
	}
	other := (*guard.OtherFileError)(nil)
	if err == nil || errors.As(err, &other) { // a third party has put another file in its place
		return nil
	}
	return &saga.LeftError{Err: err, Left: []saga.Residue{t.left("the file could not be removed again")}}
}

// fresh returns the entries under the file's name that appeared after the create began.
func (t *transfer) fresh(ctx context.Context) ([]pve.Volume, error) {
	found, err := t.find(ctx)
	return t.since(found), err
}

// skew is how far the clock that dates a file may be behind that of the node. The date only adds to what speaks against
// a removal: a file that was there before the request is none of ours in any case.
const skew = 3 * time.Second

// afterKill handles the leftovers of a killed worker. An upload leaves the part of the file that was copied. A download
// leaves its temporary file, which the API does not show. A whole file stays and is named: a killed worker hardly ever
// leaves one, and another run gives the same file the same name.
func (t *transfer) afterKill(ctx context.Context, ended *pve.TaskError) error {
	guessed := t.tasks.Guessed[ended.UPID]
	left := t.temporary(ctx, ended.UPID)
	found, err := t.fresh(ctx)
	whole := false
	for _, v := range found {
		switch {
		case err != nil:
		case guessed || v.CreatedAt.Before(ended.UPID.Start().Add(-skew)):
			left = append(left, t.leftUnknown("the answer to the request was lost, so it may be a third party's"))
		case t.spec.Source == nil || v.Size == t.spec.Source.Size:
			whole = true
		case t.mayBeARivals(ctx):
			left = append(left, t.leftUnknown("a third party may write the same file at the same time, so it may be theirs"))
		default:
			err = t.guard.FreeNew(ctx, &request.Tasks{}, listed(t.spec.Node, v).MadeFile)
		}
	}
	if whole && !t.isPhantom(ctx) {
		left = append(left, t.leftUnknown("it is whole, although the task that was to put it there did not end well, so it "+
			"may be a third party's"))
	}
	if err != nil && !t.isPhantom(ctx) {
		left = append(left, t.left("its task ended before it was whole, and it could not be removed"))
	}
	if len(left) == 0 {
		return nil
	}
	return &saga.LeftError{Left: left}
}

// mayBeARivals reports whether a third party has written the file at the same time, or may have.
func (t *transfer) mayBeARivals(ctx context.Context) bool {
	found, err := t.rivals(ctx)
	return err != nil || len(found) > 0
}

// isPhantom reports whether the listed entry is only the temporary file, whose name contains that of the file.
func (t *transfer) isPhantom(ctx context.Context) bool {
	_, err := t.api.Volume(t.spec.Node, t.spec.Volume()).Size(ctx)
	return pve.IsKind(err, pve.Unknown)
}

// temporary returns the temporary files of a killed worker. Their names have the process id of its UPID, or stand in
// its log, so no other file has such a name.
func (t *transfer) temporary(ctx context.Context, upid pve.UPID) []saga.Residue {
	log, _ := t.log(ctx)
	path := task.TargetOf(log)
	var paths []string
	if uploaded := task.UploadedTo(log); uploaded != "" {
		paths = append(paths, uploaded)
	} else if pid, ok := processOf(upid); ok && path != "" {
		paths = append(paths, fmt.Sprintf("%s.tmp_dwnl.%d", path, pid))
		if t.spec.Compression != "" {
			paths = append(paths, fmt.Sprintf("%s.tmp_dcom.%d", path, pid))
		}
	}
	if len(paths) == 0 {
		return []saga.Residue{{Kind: "file", Node: upid.Node(), ID: string(upid),
			What:   "the part of " + t.spec.Name + " that task " + string(upid) + " had written",
			Reason: "the task could not remove its temporary file, and its log cannot be read"}}
	}
	var left []saga.Residue
	for _, path := range paths {
		left = append(left, saga.Residue{Kind: "file", Node: upid.Node(), ID: path,
			What:   "temporary file " + path + ", if it is there",
			Reason: "the task could not remove it, and the API does not show it", Command: shell.Command("rm -f -- {}", path)})
	}
	return left
}

// processOf returns the process id of a task (pve-common Tools.pm upid_encode).
func processOf(task pve.UPID) (int64, bool) {
	parts := strings.Split(string(task), ":")
	if len(parts) < 3 {
		return 0, false
	}
	pid, err := strconv.ParseInt(parts[2], 16, 64)
	return pid, err == nil
}

// afterLoss handles a request that was sent and never answered.
func (t *transfer) afterLoss(ctx context.Context) error {
	found, err := t.fresh(ctx)
	if err == nil && len(found) == 0 && t.spec.Source == nil {
		return nil // no task was found, and no file
	}
	if task, own := t.ownTask(); own { // the node cannot be asked
		left := append(t.temporary(ctx, task), t.leftUnknown(fmt.Sprintf("how task %s ended is unknown", task)))
		return &saga.LeftError{Left: left}
	}
	reason := "the answer to the request was lost: it may be of this apply, or a third party's"
	if err != nil {
		reason += fmt.Sprintf("; and the storage could not be listed (%v)", err)
	} else if len(found) == 0 {
		return nil
	}
	return &saga.LeftError{Left: []saga.Residue{t.leftUnknown(reason)}}
}

// left names the file as a leftover of this create, with the command that removes it.
func (t *transfer) left(reason string) saga.Residue {
	r := t.leftUnknown(reason)
	r.Command = shell.Free(t.spec.Volume())
	return r
}

// leftUnknown names the file without a command: it may be a third party's.
func (t *transfer) leftUnknown(reason string) saga.Residue {
	return saga.Residue{Kind: "volume", Node: t.spec.Node, ID: t.spec.Volume(), What: "file " + t.spec.Volume(),
		Reason: reason}
}

func (t *transfer) leftRunning(task pve.UPID) saga.Residue {
	r := t.leftUnknown(fmt.Sprintf("task %s still runs, and may yet put it there; %s shows when "+
		"it has ended", task, shell.TaskStatus(string(task), task.Node())))
	r.What = "file " + t.spec.Volume() + ", when its task has ended"
	return r
}
