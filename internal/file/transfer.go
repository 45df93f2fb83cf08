package file

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// transfer is the create of an image: a download by the node, or an upload from this machine.
type transfer struct {
	*Files
	spec Spec

	before   []pve.Volume // listed under this name before the first write
	looked   time.Time    // when that was asked for
	present  bool         // the file was there, so that nothing is sent
	tasks    request.Tasks
	result   error // how the task ended
	told     bool  // its log was read
	reused   bool  // PVE says that it had the file already
	target   string
	file     File
	warnings []guest.Warning
}

func (t *transfer) steps() []saga.Step {
	verb := "download"
	if t.spec.Source != nil {
		verb = "upload"
	}
	return []saga.Step{
		{Name: "look what is on storage " + t.spec.Storage, Do: t.look},
		{Name: verb + " " + t.spec.Name, Do: t.put, Undo: t.undo},
		{Name: "look for " + t.spec.Volume(), Do: t.readBack},
	}
}

func (t *transfer) made() (File, []guest.Warning) { return t.file, t.warnings }

func (t *transfer) find(ctx context.Context) ([]pve.Volume, error) {
	return t.Files.find(ctx, t.spec.Node, t.spec.Storage, t.spec.Content, t.spec.Volume())
}

// look finds out whether the file is there. While a third party's task writes it, it may be a part of itself.
func (t *transfer) look(ctx context.Context) error {
	err := t.list(ctx)
	if err == nil && len(t.before) > 0 {
		_, waited, unseen := t.await(ctx)
		if ctx.Err() != nil {
			return unseen
		}
		if waited {
			err = t.list(ctx)
		}
	}
	if err != nil || len(t.before) == 0 || t.spec.isVerifiable() {
		return err // PVE itself compares a verifiable file
	}
	if err := t.spec.conflict(t.before); err != nil && !t.isFetched(ctx, t.spec, t.before[len(t.before)-1]) {
		return err
	}
	// The listing also shows the remains of a killed download under this name. PVE opens the file to tell its size.
	if _, err := t.api.Volume(t.spec.Node, t.spec.Volume()).Size(ctx); err != nil {
		return fmt.Errorf("%s is listed and cannot be opened: %w", t.spec.Volume(), err)
	}
	t.present = true
	return nil
}

// list notes which files of the name are there before this create.
func (t *transfer) list(ctx context.Context) (err error) {
	t.looked = t.clock.Now()
	t.before, err = t.find(ctx)
	return err
}

// isVerifiable reports whether PVE can tell that an existing file is the right one. PVE compares the checksum with that
// of the file on the storage, which a compressed source does not have (pve-common Tools.pm download_file_from_url).
func (s Spec) isVerifiable() bool {
	return s.URL != "" && s.Checksum.Value != "" && s.Compression == ""
}

// conflict refuses an existing file that is different, or that cannot be compared.
func (s Spec) conflict(there []pve.Volume) error {
	found := there[len(there)-1]
	summary := fmt.Sprintf("There is %s on node %s already", found.ID, s.Node)
	const ways = "Remove it if it is not needed, adopt it with terraform import, or set file_name to another name"
	switch {
	case s.Source != nil && s.Source.Data != nil && found.Size != s.Source.Size:
		return refused("name", summary, fmt.Sprintf("It has %d bytes, and the new one has %d: it is another file, or a part "+
			"of one. An upload would overwrite it. Remove it if it is not needed, or set name to another one",
			found.Size, s.Source.Size))
	case s.isVerifiable():
		return nil
	case s.Source != nil && found.Size == s.Source.Size:
		return nil
	case s.Source != nil:
		return refused("source_file", summary, fmt.Sprintf("It has %d bytes, and %s has %d: it is another file, or a part "+
			"of one. An upload would overwrite it. %s", found.Size, s.Source.Path, s.Source.Size, ways))
	case s.Compression != "":
		return refused("url", summary, "Whether it is the right one cannot be told: the checksum is that of the compressed "+
			"file, and PVE keeps none. "+ways)
	}
	return refused("url", summary, "Whether it is the right one cannot be told without a checksum. Set checksum, and "+
		"PVE compares it. "+ways)
}

// put sends the request and waits for its task.
func (t *transfer) put(ctx context.Context) error {
	if t.present {
		return nil
	}
	_, err := t.runner.Once(ctx, &t.tasks, t.request())
	t.result = err
	if hasCome(err) { // it is as if it had been there
		if lookErr := t.look(ctx); lookErr != nil || t.present {
			return lookErr
		}
	}
	if err != nil {
		return t.explain(err)
	}
	t.readLog(ctx)
	return nil
}

// hasCome reports whether a request found a file of the name there, as that of a run that was killed. PVE compares it
// with the checksum, which may be that of the compressed file (pve-common Tools.pm download_file_from_url).
func hasCome(err error) bool {
	var ended *pve.TaskError
	return errors.Is(err, errHasCome) || pve.IsKind(err, pve.Exists) || errors.As(err, &ended) &&
		strings.HasPrefix(ended.ExitStatus, "checksum mismatch") && strings.HasSuffix(ended.ExitStatus, "aborting")
}

// readLog reads from the log of the task whether it has made the file, and where. Until then the file counts as
// another's.
func (t *transfer) readLog(ctx context.Context) {
	if log, err := t.log(ctx); err == nil {
		t.told, t.reused, t.target = true, task.HadAlready(log), task.TargetOf(log)
	}
}

func (t *transfer) request() request.Request {
	r := request.Request{Node: t.spec.Node, Type: "download", Name: t.spec.Name, Send: t.download}
	if t.spec.Source != nil {
		r.Type, r.Name, r.Send, r.IsElsewhere, r.IsOther = "imgcopy", "", t.upload, true, t.isOtherUpload
		r.Done = func(ctx context.Context) (bool, error) { // the file has its size once it is copied to its place
			found, err := t.find(ctx)
			return len(found) > 0 && found[0].Size == t.spec.Source.Size, err
		}
	}
	return r
}

func (t *transfer) download(ctx context.Context) (pve.UPID, error) {
	p := pve.Params{"url": t.spec.URL, "content": t.spec.Content, "filename": t.spec.Name}
	if t.spec.Checksum.Value != "" {
		p["checksum"], p["checksum-algorithm"] = t.spec.Checksum.Value, t.spec.Checksum.Algorithm
	}
	if t.spec.Compression != "" {
		p["compression"] = t.spec.Compression
	}
	if t.spec.Insecure {
		p["verify-certificates"] = "0"
	}
	return t.api.Storage(t.spec.Node, t.spec.Storage).Download(ctx, p)
}

// explain adds the next step to a checksum error, of which PVE gives none.
func (t *transfer) explain(err error) error {
	ended := (*pve.TaskError)(nil)
	if !errors.As(err, &ended) || !strings.Contains(ended.ExitStatus, "checksum mismatch") {
		return err
	}
	if hasCome(err) {
		return &guest.FieldError{Path: "checksum", Err: err,
			Summary: fmt.Sprintf("There is %s on node %s already", t.spec.Volume(), t.spec.Node),
			Detail: "It has another checksum, so it is another file, or a part of one. It was not touched. " +
				"Remove it if it is not needed, or set file_name to another name"}
	}
	path := "checksum"
	if t.spec.Source != nil {
		path = "source_file"
	}
	return &guest.FieldError{Path: path, Summary: "The file has another checksum", Detail: "Nothing was stored", Err: err}
}

// log returns the log of the request's task.
func (t *transfer) log(ctx context.Context) (lines []string, err error) {
	if len(t.tasks.UPIDs) == 0 {
		return nil, nil
	}
	err = t.runner.Retry(ctx, request.Policy{Tries: 3}, func(ctx context.Context) (err error) {
		lines, err = t.api.Tasks().Log(ctx, t.tasks.UPIDs[len(t.tasks.UPIDs)-1], logLines)
		return err
	})
	return lines, err
}

// readBack looks up the file that is there now, when no third party's task writes it any more. It belongs to this
// create if the task of its own request made it.
func (t *transfer) readBack(ctx context.Context) error {
	var rivals []rival
	var unseen error
	if !t.present { // the look has waited
		rivals, _, unseen = t.await(ctx)
		if ctx.Err() != nil {
			return unseen
		}
	}
	found, err := t.find(ctx)
	if err != nil {
		return err
	}
	fresh := t.since(found)
	if t.isOwn() || len(fresh) > 0 {
		found = fresh
	}
	if source := t.spec.Source; source != nil {
		found = slices.DeleteFunc(found, func(v pve.Volume) bool { return v.Size != source.Size })
	}
	switch {
	case len(found) == 0 && len(rivals) > 0: // it unlinks the file where its copy fails (Status.pm upload)
		return fmt.Errorf("%s is not there, or not whole: task %s of a third party has written over it since. Apply again",
			t.spec.Volume(), rivals[0].UPID)
	case len(found) == 0:
		return fmt.Errorf("the task ended well, and %s is not there", t.spec.Volume())
	}
	t.file = listed(t.spec.Node, found[len(found)-1])
	t.file.Made = t.isOwn() && len(found) == 1 && len(rivals) == 0 && unseen == nil
	if !t.file.Made && !t.present && !t.reused {
		t.warnings = append(t.warnings, guest.Warning{Summary: "The owner of " + t.spec.Volume() + " is unknown",
			Detail: fmt.Sprintf("The file is on node %s as it should be. But the answer to the request was lost, the log of "+
				"its task cannot be read, or a third party wrote the same file. So the file may be theirs: a destroy will leave "+
				"it in place.", t.spec.Node)})
	}
	return nil
}

// since returns the entries of a listing that were not there before this create.
func (t *transfer) since(found []pve.Volume) []pve.Volume {
	return slices.DeleteFunc(slices.Clone(found), func(v pve.Volume) bool {
		return slices.ContainsFunc(t.before, func(was pve.Volume) bool { return listed(t.spec.Node, was).Is(v) })
	})
}

// isOwn reports whether the task of this create has made the file.
func (t *transfer) isOwn() bool {
	_, own := t.ownTask()
	return own && !t.present && t.told && !t.reused && t.result == nil
}

// ownTask returns the task that PVE named in its answer to this create; false for a task that is only a guess.
func (t *transfer) ownTask() (pve.UPID, bool) {
	if len(t.tasks.UPIDs) != 1 || t.tasks.Guessed[t.tasks.UPIDs[0]] {
		return "", false
	}
	return t.tasks.UPIDs[0], true
}
