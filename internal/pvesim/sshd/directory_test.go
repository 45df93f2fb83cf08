package sshd

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestDirectories: content directories are there and can be looked at, others can be made; a file in one is a volume if
// its name fits.
func TestDirectories(t *testing.T) {
	b := newBench(t)
	c := b.sftp()
	for _, dir := range []string{"/", "/var/lib", "/var/lib/vz", "/var/lib/vz/snippets", "/var/lib/vz/template", "/root"} {
		if info, err := c.Stat(dir); err != nil || !info.IsDir() {
			t.Errorf("%s: %v %v", dir, info, err)
		}
	}
	if err := c.MkdirAll("/var/lib/vz/snippets"); err != nil {
		t.Errorf("a directory that is there: %v", err)
	}
	if err := c.Mkdir("/var/lib/vz/snippets"); err == nil {
		t.Error("a directory is made twice")
	}
	if err := c.Mkdir("/srv/a/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its parent: %v", err)
	}
	if err := c.MkdirAll("/srv/a/b"); err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{"/srv/a/b/c": "1", "/var/lib/vz/template/iso/x.iso": "22", "/var/lib/vz/template/iso/y": "3"} {
		if err := put(c, name, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := c.Stat(name); err != nil || info.Size() != int64(len(text)) || info.IsDir() {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	if err := put(c, "/srv/a", "x"); err == nil {
		t.Error("a file is written over a directory")
	}
	b.cluster.Do(func(w *state.World) {
		if v := w.Volume("pve1", "local:iso/x.iso"); v == nil || v.Content != "iso" || v.Format != "iso" || v.Size != 2 {
			t.Errorf("the image: %+v", v)
		}
		if w.Volume("pve1", "local:iso/y") != nil || w.Nodes["pve1"].Files["/var/lib/vz/template/iso/y"] != "3" {
			t.Error("a file without the suffix is an image")
		}
	})
}

// TestLastFileTakesItsDirectory: PVE removes the directory with the last file (pve-storage Plugin.pm, free_image), and makes
// it again when it activates the storage: for an answer about it, and in each round of pvestatd.
func TestLastFileTakesItsDirectory(t *testing.T) {
	b := newBench(t)
	c := b.sftp()
	const dir = "/var/lib/vz/snippets"
	b.cluster.Do(func(w *state.World) {
		for key, v := range w.Volumes {
			if v.Storage == "local" && v.Content == "snippets" {
				delete(w.Volumes, key)
			}
		}
	})
	remove := func() {
		t.Helper()
		if err := put(c, dir+"/only.yaml", "x"); err != nil {
			t.Fatal(err)
		}
		if _, errs, status := b.run("pvesm free local:snippets/only.yaml"); status != 0 {
			t.Fatal(errs)
		}
		if err := put(c, dir+"/next.yaml", "x"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("a file is put into a directory that is gone: %v", err)
		}
	}
	again := func(how string) {
		t.Helper()
		if info, err := c.Stat(dir); err != nil || !info.IsDir() {
			t.Errorf("%s: %v", how, err)
		}
	}
	remove()
	b.world.Clock.(*clock.Virtual).Advance(11 * time.Second)
	again("after a round of pvestatd")
	remove()
	b.run("pvesm list local")
	again("after a list")
	remove()
	if err := c.Mkdir(dir); err != nil {
		t.Error(err)
	}
	again("made by hand")
	if err := put(c, dir+"/.hidden", "x"); err != nil {
		t.Fatal(err)
	}
	if err := put(c, dir+"/last.yaml", "x"); err != nil {
		t.Fatal(err)
	}
	b.run("pvesm free local:snippets/last.yaml")
	again("with a file that is no volume")
}
