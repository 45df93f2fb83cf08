package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// creation is a file on its way.
type creation struct {
	*Images
	spec Spec

	before   []pve.Volume // what was there of this name
	present  bool         // the file was there, so that nothing is sent
	tasks    job.Tasks
	result   error // how the task ended
	had      bool  // PVE had the file already
	target   string
	file     File
	warnings []guest.Warning
}

func (c *creation) verb() string {
	if c.spec.Source != nil {
		return "upload"
	}
	return "download"
}

func (c *creation) find(ctx context.Context) ([]pve.Volume, error) {
	return c.Images.find(ctx, c.spec.Node, c.spec.Storage, c.spec.Content, c.spec.Volume())
}

// look finds out whether the file is there.
func (c *creation) look(ctx context.Context) error {
	var err error
	if c.before, err = c.find(ctx); err != nil || len(c.before) == 0 || c.spec.isVerifiable() {
		return err // whether it is the right one PVE tells
	}
	if err := c.spec.conflict(c.before); err != nil {
		return err
	}
	// What a killed download left is listed too, under this name; PVE opens the file to tell its size.
	if _, err := c.api.VolumeSize(ctx, c.spec.Node, c.spec.Volume()); err != nil {
		return fmt.Errorf("%s is listed and cannot be opened: %w", c.spec.Volume(), err)
	}
	c.present = true
	return nil
}

// conflict refuses a file that is in the way, since it is another, or since nobody can tell.
func (s Spec) conflict(there []pve.Volume) error {
	found := there[len(there)-1]
	summary := fmt.Sprintf("There is %s on node %s already", found.ID, s.Node)
	const ways = "Remove it if nobody needs it, adopt it with terraform import, or set file_name to another name"
	switch {
	case s.Source != nil && s.Source.Data != nil && found.Size != s.Source.Size:
		return refused("name", summary, fmt.Sprintf("It has %d bytes, and the new one has %d: it is another file, or a part of one. "+
			"An upload would overwrite it. Remove it if nobody needs it, or set name to another one", found.Size, s.Source.Size))
	case s.isVerifiable():
		return nil
	case s.Source != nil && found.Size == s.Source.Size:
		return nil
	case s.Source != nil:
		return refused("source_file", summary, fmt.Sprintf("It has %d bytes, and %s has %d: it is another file, or a part of "+
			"one. An upload would "+
			"overwrite it. %s", found.Size, s.Source.Path, s.Source.Size, ways))
	case s.Compression != "":
		return refused("url", summary, "Whether it is the right one cannot be told: the checksum is that of the compressed "+
			"file, and PVE keeps none. "+ways)
	}
	return refused("url", summary, "Whether it is the right one cannot be told without a checksum. Set checksum, and PVE "+
		"compares it. "+ways)
}

// put sends the request and awaits its task.
func (c *creation) put(ctx context.Context) error {
	if c.present {
		return nil
	}
	_, err := c.jobs.Once(ctx, &c.tasks, c.request())
	c.result = err
	if err != nil {
		return c.explain(err)
	}
	log := c.log(ctx)
	c.had, c.target = pve.HadAlready(log), pve.TargetOf(log)
	return nil
}

func (c *creation) request() job.Request {
	r := job.Request{Node: c.spec.Node, Type: "download", Name: c.spec.Name, Send: c.download}
	if c.spec.Source != nil {
		r.Type, r.Name, r.Send = "imgcopy", "", c.upload
		r.Done = func(ctx context.Context) (bool, error) { // it is copied to its place, and has its size when that is done
			found, err := c.find(ctx)
			return len(found) > 0 && found[0].Size == c.spec.Source.Size, err
		}
	}
	return r
}

func (c *creation) download(ctx context.Context) (pve.UPID, error) {
	p := pve.Params{"url": c.spec.URL, "content": c.spec.Content, "filename": c.spec.Name}
	if c.spec.Checksum.Value != "" {
		p["checksum"], p["checksum-algorithm"] = c.spec.Checksum.Value, c.spec.Checksum.Algorithm
	}
	if c.spec.Compression != "" {
		p["compression"] = c.spec.Compression
	}
	if c.spec.Insecure {
		p["verify-certificates"] = "0"
	}
	return c.api.Download(ctx, c.spec.Node, c.spec.Storage, p)
}

func (c *creation) upload(ctx context.Context) (pve.UPID, error) {
	source := c.spec.Source
	said := c.clock.Now()
	return c.api.Upload(ctx, pve.Upload{Node: c.spec.Node, Storage: c.spec.Storage, Content: c.spec.Content, Filename: c.spec.Name,
		Checksum: source.Checksum.Value, Algorithm: source.Checksum.Algorithm, Size: source.Size,
		Open: source.open,
		Sent: func(ctx context.Context, bytes int64) {
			if now := c.clock.Now(); c.jobs.Log != nil && (bytes == source.Size || now.Sub(said) >= progressTime) {
				said = now
				c.jobs.Log(ctx, fmt.Sprintf("uploading %s to %s on node %s", source.Path, c.spec.Volume(), c.spec.Node),
					map[string]string{
						"bytes": fmt.Sprint(bytes), "of": fmt.Sprint(source.Size), "percent": fmt.Sprint(bytes * 100 / source.Size)})
			}
		}})
}

// progressTime is how often the log says how far an upload has come.
const progressTime = 10 * time.Second

// explain says what to do where the words of PVE do not.
func (c *creation) explain(err error) error {
	if ended := (*pve.TaskError)(nil); errors.As(err, &ended) && strings.Contains(ended.ExitStatus, "checksum mismatch") {
		if strings.HasSuffix(ended.ExitStatus, "aborting") {
			return &guest.FieldError{Path: "checksum", Summary: fmt.Sprintf("There is %s on node %s already", c.spec.Volume(),
				c.spec.Node),
				Detail: "It has another checksum, so it is another file, or a part of one. It was not touched. " +
					"Remove it if nobody needs it, or set file_name to another name", Err: err}
		}
		path := "checksum"
		if c.spec.Source != nil {
			path = "source_file"
		}
		return &guest.FieldError{Path: path, Summary: "The file has another checksum", Detail: "Nothing was stored", Err: err}
	}
	return err
}

// log is what the task of the request said, as far as it can be read.
func (c *creation) log(ctx context.Context) []string {
	if len(c.tasks.UPIDs) == 0 {
		return nil
	}
	lines, err := c.api.TaskLog(ctx, c.tasks.UPIDs[len(c.tasks.UPIDs)-1], logLines)
	if err != nil {
		return nil
	}
	return lines
}

// readBack notes which file it is by now. It is this create's own where the task that answered its own request has made it.
func (c *creation) readBack(ctx context.Context) error {
	found, err := c.find(ctx)
	if err != nil {
		return err
	}
	fresh := c.without(found, c.before)
	if c.isOwn() || len(fresh) > 0 {
		found = fresh
	}
	if source := c.spec.Source; source != nil {
		found = slices.DeleteFunc(found, func(v pve.Volume) bool { return v.Size != source.Size })
	}
	if len(found) == 0 {
		return fmt.Errorf("the task ended well, and %s is not there", c.spec.Volume())
	}
	c.file = fileOf(c.spec.Node, found[len(found)-1])
	if c.isOwn() && len(found) == 1 {
		rival, err := c.hasRival(ctx, c.tasks.UPIDs[0], c.target)
		c.file.Made = !rival && err == nil
	}
	if !c.file.Made && !c.present && !c.had {
		c.warnings = append(c.warnings, guest.Warning{Summary: "Not known whose " + c.spec.Volume() + " is",
			Detail: fmt.Sprintf("The file is on node %s as it should be. But the answer to the request was lost, or somebody "+
				"else is at work on the "+
				"same file, so it may be his: a destroy will leave it where it is.", c.spec.Node)})
	}
	return nil
}

// without is what there is of a listing that was not in an earlier one.
func (c *creation) without(found, before []pve.Volume) []pve.Volume {
	return slices.DeleteFunc(slices.Clone(found), func(v pve.Volume) bool {
		return slices.ContainsFunc(before, func(was pve.Volume) bool { return fileOf(c.spec.Node, was).Is(v) })
	})
}

// isOwn reports whether the task of this create has made the file.
func (c *creation) isOwn() bool {
	_, own := c.ownTask()
	return own && !c.present && !c.had && c.result == nil
}

// ownTask is the task that answered this create's request, and not one that was only taken for it.
func (c *creation) ownTask() (pve.UPID, bool) {
	if len(c.tasks.UPIDs) != 1 || c.tasks.Guessed[c.tasks.UPIDs[0]] {
		return "", false
	}
	return c.tasks.UPIDs[0], true
}
