package sshd

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/pkg/sftp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func (b *bench) sftp() *sftp.Client {
	b.t.Helper()
	c, err := sftp.NewClient(b.client())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

func put(c *sftp.Client, name, text string) error {
	f, err := c.OpenFile(name, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, strings.NewReader(text))
	return errors.Join(err, f.Truncate(int64(len(text))), f.Chmod(0o750), f.Close())
}

// TestSnippetUnderTwoNames: a snippet in the directory of two storages has a name on each.
func TestSnippetUnderTwoNames(t *testing.T) {
	b := newBench(t)
	c := b.sftp()
	b.cluster.Do(func(w *state.World) {
		twin := *w.Storages["local"]
		twin.ID, twin.Same = "again", "local"
		w.Storages[twin.ID] = &twin
	})
	const dir = "/var/lib/vz/snippets/"
	for _, name := range []string{"a", "b", "c", "d"} { // each finds one of the two storages
		if err := put(c, dir+".tmp", "text"); err != nil {
			t.Fatal(err)
		}
		if err := c.PosixRename(dir+".tmp", dir+name); err != nil {
			t.Fatal(err)
		}
		b.cluster.Do(func(w *state.World) {
			if v := w.Volume("pve1", "again:snippets/"+name); v == nil || v != w.Volume("pve1", "local:snippets/"+name) {
				t.Errorf("%s is %+v", name, v)
			}
		})
	}
}

// TestSnippetsAreFiles: a file in the directory of the snippets is a snippet, unless it is hidden; a rename overwrites
// nothing.
func TestSnippetsAreFiles(t *testing.T) {
	b := newBench(t)
	c := b.sftp()
	const dir = "/var/lib/vz/snippets/"
	for _, name := range []string{dir + ".a.tmp", dir + "b.yaml", "/root/c"} {
		if err := put(c, name, "text of "+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(c, "/var/lib/vz2/snippets/a", "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a storage without snippets has their directory: %v", err)
	}
	b.cluster.Do(func(w *state.World) {
		if v := w.Volume("pve1", "local:snippets/b.yaml"); v == nil || v.Data != "text of "+dir+"b.yaml" ||
			v.Size != int64(len(v.Data)) {
			t.Errorf("b.yaml is %+v", v)
		}
		if w.Volume("pve2", "local:snippets/b.yaml") != nil || w.Volume("pve1", "local:snippets/.a.tmp") != nil {
			t.Error("there is more")
		}
		if w.Nodes["pve1"].Files["/root/c"] != "text of /root/c" {
			t.Error("/root/c is not there")
		}
	})
	if err := c.Rename(dir+".a.tmp", dir+"b.yaml"); err == nil {
		t.Error("a rename overwrites")
	}
	if err := c.PosixRename(dir+".a.tmp", dir+"b.yaml"); err != nil {
		t.Error(err)
	}
	f, err := c.Open(dir + "b.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(f); err != nil || string(data) != "text of "+dir+".a.tmp" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := c.Lstat(dir + ".a.tmp"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the rename: %v", err)
	}
	if err := c.Remove(dir + "b.yaml"); err != nil {
		t.Error(err)
	}
	if err := c.Remove(dir + "b.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed twice: %v", err)
	}
}

// TestTransferFaults: requests of SFTP are operations, which faults meet.
func TestTransferFaults(t *testing.T) {
	b := newBench(t)
	if err := b.cluster.Faults().Put([]fault.Rule{
		{Match: fault.Match{Method: "SSH", Path: "sftp write"}, Phase: fault.Before, Reason: "No space left on device"},
		{Match: fault.Match{Method: "SSH", Path: "sftp rename"}, Phase: fault.After},
	}); err != nil {
		t.Fatal(err)
	}
	if err := put(b.sftp(), "/root/a", "x"); err == nil || !strings.Contains(err.Error(), "No space left on device") {
		t.Errorf("got %v", err)
	}
	if err := b.sftp().Rename("/root/a", "/root/b"); err == nil {
		t.Error("the answer was not lost")
	}
	if _, err := b.sftp().Lstat("/root/b"); err != nil {
		t.Errorf("it was done: %v", err)
	}
	var paths []string
	for _, op := range b.cluster.Ops() {
		paths = append(paths, op.Path)
	}
	if got := strings.Join(paths,
		", "); got != "sftp open, sftp write, sftp setstat, sftp setstat, sftp rename, sftp stat" {
		t.Errorf("operations %s", got)
	}
}
