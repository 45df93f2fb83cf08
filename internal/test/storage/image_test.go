package storage_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestImageDownload: an image is downloaded, is the source of a VM's disk in the same apply, is replaced with its checksum and
// goes with its resource, for every identity. The plan is empty afterwards.
func TestImageDownload(t *testing.T) {
	t.Parallel()
	for _, who := range rig.Identities() {
		t.Run(string(who), func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			one, two := rig.QCOW2("one"), rig.QCOW2("two")
			url := rig.ServeFiles(t, map[string][]byte{"/debian.qcow2": one, "/mirror/debian.qcow2": one, "/next/debian.qcow2": two})
			s := w.Session(t, who, rig.DownloadedImage(url+"/debian.qcow2", rig.SHA256(one))+`
resource "proxmox_vm" "web" {
  node  = "pve1"
  vmid  = 300
  disks = { scsi0 = { storage = "local-zfs", size = "2G", import_from = proxmox_image.disk.volume } }
}`)
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			volume := "local:import/debian-" + rig.SHA256(one)[:12] + ".qcow2"
			if v := rig.VolumeOn(w, volume); v == nil || !bytes.Equal(v.Raw, one) {
				t.Fatalf("%s is %v", volume, v)
			}
			if got := []string{rig.ImageAttr(s, "volume"), rig.ImageAttr(s, "size"), rig.ImageAttr(s,
				"owned")}; got[0] != volume || got[1] != fmt.Sprint(len(one)) || got[2] != "true" {
				t.Errorf("state has %v", got)
			}
			// A mirror is no change of the file.
			w.Reconfigure(t, s, who, rig.DownloadedImage(url+"/mirror/debian.qcow2", rig.SHA256(one)))
			w.ResetCalls()
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, op := range w.Sim.Ops() {
				if op.Method == http.MethodPost && strings.HasSuffix(op.Path, "/download-url") {
					t.Error("downloaded from the mirror")
				}
			}
			w.Reconfigure(t, s, who, rig.DownloadedImage(url+"/next/debian.qcow2", rig.SHA256(two)))
			plan, err := s.Plan(t.Context())
			if who == rig.TokenNoAllocate { // Terraform would destroy a VM made of it first
				rig.MustSay(t, err, "No permission to remove "+volume, "Datastore.Allocate", "on_destroy")
				w.Reconfigure(t, s, who, rig.DownloadedImage(url+"/debian.qcow2", rig.SHA256(one), `on_destroy = "keep"`))
				if err := s.Converge(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := s.Destroy(t.Context()); err != nil || rig.VolumeOn(w, volume) == nil {
					t.Errorf("%v; the file is there: %t", err, rig.VolumeOn(w, volume) != nil)
				}
				return
			}
			if err != nil || !strings.Contains(plan.String(), "replace proxmox_image.disk") {
				t.Fatalf("planned %v, %v", plan, err)
			}
			rig.Must(t, s.Converge(t.Context()))
			if rig.VolumeOn(w, volume) != nil {
				t.Error("the file that was replaced is still there")
			}
			if err := s.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.MustBeClean(t)
		})
	}
}

// TestImageThatExists: the same file is used as it is and outlives the resource; another one is refused, and not touched.
func TestImageThatExists(t *testing.T) {
	t.Parallel()
	one := rig.QCOW2("one")
	sum := rig.SHA256(one)
	name := "debian-" + sum[:12] + ".qcow2"
	local := filepath.Join(t.TempDir(), "debian.qcow2")
	if err := os.WriteFile(local, one, 0o600); err != nil {
		t.Fatal(err)
	}
	url := rig.ServeFiles(t, map[string][]byte{"/debian.qcow2": one, "/talos.iso.gz": one})
	upload := rig.ImageBlock("disk", `node = "pve1"`, `storage = "local"`, fmt.Sprintf("source_file = %q", local))
	unverified := "import/debian-" + urlDigits(url+"/debian.qcow2", "") + ".qcow2"
	for what, c := range map[string]struct {
		config, volume string
		data           []byte
		words          []string // of the refusal; none: it is used
	}{
		"download, the same": {config: rig.DownloadedImage(url+"/debian.qcow2", sum), volume: "import/" + name, data: one},
		"download, another": {config: rig.DownloadedImage(url+"/debian.qcow2", sum), volume: "import/" + name, data: rig.QCOW2("two"),
			words: []string{name, "another checksum", "not touched", "checksum mismatch: got '" + rig.SHA256(rig.QCOW2("two"))}},
		"upload, the same": {config: upload, volume: "import/" + name, data: one},
		"upload, another": {config: upload, volume: "import/" + name, data: one[:1000],
			words: []string{name, "It has 1000 bytes", fmt.Sprint(len(one)), "would overwrite it"}},
		"without a checksum": {config: rig.DownloadedImage(url+"/debian.qcow2", ""), volume: unverified, data: one,
			words: []string{unverified, "cannot be told without a checksum"}},
		"compressed": {config: rig.DownloadedImage(url+"/talos.iso.gz", sum, `content = "iso"`, `compression = "gz"`),
			volume: "iso/talos-" + sum[:12] + ".iso",
			data:   one, words: []string{"iso/talos-" + sum[:12], "the checksum is that of the compressed file"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				kind, _, _ := strings.Cut(c.volume, "/")
				world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: c.volume, Content: kind, Format: "qcow2",
					Size: 1 << 30, Raw: c.data})
			})
			w.Mark()
			s := w.Session(t, rig.TokenNoSSH, c.config)
			err := s.Converge(t.Context())
			if c.words != nil {
				rig.MustSay(t, err, c.words...)
				w.MustBeClean(t)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if owned := rig.ImageAttr(s, "owned"); owned != "false" {
				t.Errorf("owned = %s", owned)
			}
			if err := s.Destroy(t.Context()); err != nil || !strings.Contains(fmt.Sprint(s.Diagnostics()), "The file stays: "+
				"local:import/"+name) {
				t.Errorf("%v, %v", err, s.Diagnostics())
			}
			w.MustBeClean(t)
		})
	}
}

// urlDigits are the digits in the name of a file without a checksum.
func urlDigits(url, compression string) string {
	return rig.SHA256([]byte(url + "\n" + compression))[:12]
}

// TestImageInUse: a file that a guest uses is not removed, nor one for which an identity that does not see all guests cannot tell.
func TestImageInUse(t *testing.T) {
	t.Parallel()
	data := []byte("an ISO image")
	url := rig.ServeFiles(t, map[string][]byte{"/debian.iso": data})
	config := rig.DownloadedImage(url+"/debian.iso", rig.SHA256(data), `content = "iso"`)
	volume := "local:iso/debian-" + rig.SHA256(data)[:12] + ".iso"
	for what, c := range map[string]struct {
		use   func(world *state.World)
		words []string
	}{
		"in a drive": {func(world *state.World) { world.Guests[8000].Config["ide3"] = volume + ",media=cdrom" },
			[]string{volume, "VM 8000", "(ide3)"}},
		"in a snapshot": {func(world *state.World) {
			world.Guests[8000].Snaps = map[string]map[string]string{"old": {"ide3": volume + ",media=cdrom", "snaptime": "1"}}
		}, []string{volume, "VM 8000", "snapshot old"}},
		"not to be seen": {func(world *state.World) {
			world.Roles["TerraformProvider"] = rig.Except(world.Roles["TerraformProvider"], "VM.Audit")
		}, []string{volume, "VM.Audit on /vms"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, config)
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Change(c.use)
			w.Mark()
			w.Reconfigure(t, s, rig.TokenNoSSH, "")
			rig.MustSay(t, s.Run(t.Context()), c.words...)
			if len(s.Addresses()) != 1 {
				t.Error("the image is not in state any more")
			}
			w.MustBeClean(t)
		})
	}
}

// TestImageReplacedByAnother: a file that a third party put in the place of ours is theirs: the plan says so, a destroy leaves it.
func TestImageReplacedByAnother(t *testing.T) {
	t.Parallel()
	one := rig.QCOW2("one")
	url := rig.ServeFiles(t, map[string][]byte{"/debian.qcow2": one})
	volume := "import/debian-" + rig.SHA256(one)[:12] + ".qcow2"
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.DownloadedImage(url+"/debian.qcow2", rig.SHA256(one)))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Sim.Advance(60e9)
	w.Change(func(world *state.World) {
		world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: volume, Content: "import", Format: "qcow2", Size: 1 << 30,
			Raw: rig.QCOW2("three")})
	})
	w.Mark()
	if _, err := s.Plan(t.Context()); err != nil || !strings.Contains(fmt.Sprint(s.Diagnostics()), "Another file is in the "+
		"place of local:"+volume) {
		t.Errorf("planned %v, %v", err, s.Diagnostics())
	}
	if err := s.Destroy(t.Context()); err != nil || !strings.Contains(fmt.Sprint(s.Diagnostics()), "A third party has put another file in "+
		"its place") {
		t.Errorf("%v, %v", err, s.Diagnostics())
	}
	w.MustBeClean(t)
}

// TestImageRefusals: the plan reports each error that the server's answers show, and sends no write.
func TestImageRefusals(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("a", 64)
	const web = "https://example.org/debian.qcow2"
	for what, c := range map[string]struct {
		config string
		world  func(world *state.World)
		old    string // profile
		words  []string
	}{
		"storage of another kind": {config: strings.ReplaceAll(rig.DownloadedImage(web, sum), `"local"`, `"local-zfs"`),
			words: []string{"Storage local-zfs is not for import content", "type zfspool", "these are for it: local"}},
		"content that is not configured": {config: rig.DownloadedImage(web, sum), world: func(world *state.World) {
			world.Storages["local"].Content = []string{"iso", "images"}
		}, words: []string{"Storage local is not for import content", "pvesm set local --content"}},
		"no storage": {config: strings.ReplaceAll(rig.DownloadedImage(web, sum), `"local"`, `"nowhere"`), words: []string{"Node pve1 has " +
			"no storage nowhere"}},
		"no node": {config: strings.ReplaceAll(rig.DownloadedImage(web, sum), `"pve1"`, `"pve7"`), words: []string{`Unknown node "pve7"`}},
		"may not put files": {config: rig.DownloadedImage(web, sum), world: func(world *state.World) {
			world.Roles["TerraformProvider"] = rig.Except(world.Roles["TerraformProvider"], "Datastore.AllocateTemplate")
		}, words: []string{"Datastore.AllocateTemplate on /storage/local"}},
		"may not download": {config: rig.DownloadedImage(web, sum), world: func(world *state.World) {
			world.Roles["TerraformProvider"] = rig.Except(world.Roles["TerraformProvider"], "Sys.AccessNetwork")
		}, words: []string{"Sys.AccessNetwork on /nodes/pve1", "Sys.Audit and Sys.Modify on /", "source_file"}},
		"before 8.4": {config: rig.DownloadedImage(web, sum), old: "8.0", words: []string{"Node pve1 has no upload and download of " +
			"disk images", "since 8.4"}},
		"extension": {config: rig.DownloadedImage("https://example.org/noble.img", sum), words: []string{".img", "qcow2", "file_name"}},
		"xz":        {config: rig.DownloadedImage("https://example.org/talos.raw.xz", sum), words: []string{"xz"}},
		"compressed " +
			"disk": {config: rig.DownloadedImage("https://example.org/a.qcow2.gz", sum, `compression = "gz"`),
			words: []string{"decompression not supported for import"}},
		"checksum":    {config: rig.DownloadedImage(web, "abc"), words: []string{"no checksum"}},
		"two sources": {config: rig.DownloadedImage(web, sum, `source_file = "/etc/hostname"`), words: []string{"Two sources"}},
		"no file": {config: rig.ImageBlock("disk", `node = "pve1"`, `storage = "local"`,
			`source_file = "/nowhere/a.qcow2"`), words: []string{"There is no file", "/nowhere/a.qcow2"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: c.old})
			if c.world != nil {
				w.Change(c.world)
			}
			w.Mark()
			s := w.Session(t, rig.TokenNoSSH, c.config)
			_, err := s.Plan(t.Context())
			rig.MustSay(t, err, c.words...)
			for _, op := range w.Sim.Ops() {
				if op.Method != http.MethodGet {
					t.Errorf("sent %s %s", op.Method, op.Path)
				}
			}
			w.MustBeClean(t)
		})
	}
}

// TestImageOfAVM: the volume of a new image is known in the plan, so a VM whose disk was made of another is planned to be
// replaced, and is; with ignore_changes it stays as it is.
func TestImageOfAVM(t *testing.T) {
	t.Parallel()
	one, two := rig.QCOW2("one"), rig.QCOW2("two")
	url := rig.ServeFiles(t, map[string][]byte{"/one.qcow2": one, "/two.qcow2": two})
	config := func(name string, data []byte, lifecycle string) string {
		return rig.DownloadedImage(url+"/"+name+".qcow2", rig.SHA256(data)) + `
resource "proxmox_vm" "web" {
  node  = "pve1"
  vmid  = 300
  disks = { scsi0 = { storage = "local-zfs", size = "2G", import_from = proxmox_image.disk.volume } }
` + lifecycle + "}\n"
	}
	for _, lifecycle := range []string{"", "  lifecycle {\n    ignore_changes = [disks[\"scsi0\"].import_from]\n  }\n"} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.TokenNoSSH, config("one", one, lifecycle))
		if err := s.Converge(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Reconfigure(t, s, rig.TokenNoSSH, config("two", two, lifecycle))
		plan, err := s.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		volume := "local:import/two-" + rig.SHA256(two)[:12] + ".qcow2"
		if text := plan.String(); !strings.Contains(text, volume) || strings.Contains(text,
			"replace proxmox_vm.web") != (lifecycle == "") {
			t.Errorf("planned %s", text)
		}
		if err := s.Apply(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		if plan, err = s.Plan(t.Context()); err != nil || !plan.Empty() {
			t.Errorf("planned then: %v, %v", plan, err)
		}
		s.Taint("proxmox_image.disk", true) // the same file again
		if err := s.Converge(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.MustBeClean(t)
	}
}
