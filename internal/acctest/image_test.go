package acctest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// qcow2 is a file that begins as an image of a gigabyte does.
func qcow2(text string) []byte {
	data := bytes.Repeat([]byte(text+"\n"), 1000)
	copy(data, "QFI\xfb\x00\x00\x00\x03")
	binary.BigEndian.PutUint64(data[24:], 1<<30)
	return data
}

func sha256Of(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// served serves files by their paths.
func served(t *testing.T, files map[string][]byte) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// imageBlock is a proxmox_image.
func imageBlock(name string, lines ...string) string {
	return fmt.Sprintf("resource \"proxmox_image\" %q {\n  %s\n}\n", name, strings.Join(lines, "\n  "))
}

// downloaded is one that node pve1 downloads to its storage local.
func downloaded(url, sum string, lines ...string) string {
	all := []string{`node = "pve1"`, `storage = "local"`, fmt.Sprintf("url = %q", url)}
	if sum != "" {
		all = append(all, fmt.Sprintf("checksum = %q", sum))
	}
	return imageBlock("disk", append(all, lines...)...)
}

// fileOn is the file of a storage of node pve1, nil: there is none.
func fileOn(w *acctest.World, volume string) (found *state.Volume) {
	w.Change(func(world *state.World) {
		if v := world.Volume("pve1", volume); v != nil {
			copied := *v
			found = &copied
		}
	})
	return found
}

func imageAttr(s *drive.Session, name string) string {
	return strings.Trim(drive.ShowValue(s.Attr("proxmox_image.disk", name)), `"`)
}

// TestImageDownload: an image is downloaded, is the source of a VM's disk in the same apply, is replaced with its checksum and
// goes with its resource, for every identity. What was planned is empty afterwards.
func TestImageDownload(t *testing.T) {
	t.Parallel()
	for _, who := range acctest.Identities() {
		t.Run(string(who), func(t *testing.T) {
			t.Parallel()
			w := acctest.NewWorld(t)
			one, two := qcow2("one"), qcow2("two")
			url := served(t, map[string][]byte{"/debian.qcow2": one, "/mirror/debian.qcow2": one, "/next/debian.qcow2": two})
			s := w.Session(t, who, downloaded(url+"/debian.qcow2", sha256Of(one))+`
resource "proxmox_vm" "web" {
  node  = "pve1"
  vmid  = 300
  disks = { scsi0 = { storage = "local-zfs", size = "2G", import_from = proxmox_image.disk.volume } }
}`)
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			volume := "local:import/debian-" + sha256Of(one)[:12] + ".qcow2"
			if v := fileOn(w, volume); v == nil || !bytes.Equal(v.Raw, one) {
				t.Fatalf("%s is %v", volume, v)
			}
			if got := []string{imageAttr(s, "volume"), imageAttr(s, "size"), imageAttr(s,
				"owned")}; got[0] != volume || got[1] != fmt.Sprint(len(one)) || got[2] != "true" {
				t.Errorf("state has %v", got)
			}
			// A mirror is no change of the file.
			w.Reconfigure(t, s, who, downloaded(url+"/mirror/debian.qcow2", sha256Of(one)))
			w.ResetCalls()
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, op := range w.Sim.Ops() {
				if op.Method == http.MethodPost && strings.HasSuffix(op.Path, "/download-url") {
					t.Error("downloaded from the mirror")
				}
			}
			w.Reconfigure(t, s, who, downloaded(url+"/next/debian.qcow2", sha256Of(two)))
			plan, err := s.Plan(t.Context())
			if err != nil || !strings.Contains(plan.String(), "replace proxmox_image.disk") {
				t.Fatalf("planned %v, %v", plan, err)
			}
			err = s.Converge(t.Context())
			if who == acctest.TokenNoAllocate {
				mustSay(t, err, "Datastore.Allocate", volume)
				w.Reconfigure(t, s, who, downloaded(url+"/debian.qcow2", sha256Of(one), `on_destroy = "keep"`))
				if err := s.Converge(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := s.Destroy(t.Context()); err != nil || fileOn(w, volume) == nil {
					t.Errorf("%v; the file is there: %t", err, fileOn(w, volume) != nil)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if fileOn(w, volume) != nil {
				t.Error("the file that was replaced is still there")
			}
			if err := s.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.MustBeClean(t)
		})
	}
}

// TestImageThere: the same file is used as it is and outlives the resource; another one is refused, and not touched.
func TestImageThere(t *testing.T) {
	t.Parallel()
	one := qcow2("one")
	sum := sha256Of(one)
	name := "debian-" + sum[:12] + ".qcow2"
	local := filepath.Join(t.TempDir(), "debian.qcow2")
	if err := os.WriteFile(local, one, 0o600); err != nil {
		t.Fatal(err)
	}
	url := served(t, map[string][]byte{"/debian.qcow2": one, "/talos.iso.gz": one})
	upload := imageBlock("disk", `node = "pve1"`, `storage = "local"`, fmt.Sprintf("source_file = %q", local))
	unverified := "import/debian-" + urlDigits(url+"/debian.qcow2", "") + ".qcow2"
	for what, c := range map[string]struct {
		config, volume string
		data           []byte
		words          []string // of the refusal; none: it is used
	}{
		"download, the same": {config: downloaded(url+"/debian.qcow2", sum), volume: "import/" + name, data: one},
		"download, another": {config: downloaded(url+"/debian.qcow2", sum), volume: "import/" + name, data: qcow2("two"),
			words: []string{name, "another checksum", "not touched", "checksum mismatch: got '" + sha256Of(qcow2("two"))}},
		"upload, the same": {config: upload, volume: "import/" + name, data: one},
		"upload, another": {config: upload, volume: "import/" + name, data: one[:1000],
			words: []string{name, "It has 1000 bytes", fmt.Sprint(len(one)), "would overwrite it"}},
		"without a checksum": {config: downloaded(url+"/debian.qcow2", ""), volume: unverified, data: one,
			words: []string{unverified, "cannot be told without a checksum"}},
		"compressed": {config: downloaded(url+"/talos.iso.gz", sum, `content = "iso"`, `compression = "gz"`),
			volume: "iso/talos-" + sum[:12] + ".iso",
			data:   one, words: []string{"iso/talos-" + sum[:12], "the checksum is that of the compressed file"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := acctest.NewWorld(t)
			w.Change(func(world *state.World) {
				kind, _, _ := strings.Cut(c.volume, "/")
				world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: c.volume, Content: kind, Format: "qcow2",
					Size: 1 << 30, Raw: c.data})
			})
			w.Mark()
			s := w.Session(t, acctest.TokenNoSSH, c.config)
			err := s.Converge(t.Context())
			if c.words != nil {
				mustSay(t, err, c.words...)
				w.MustBeClean(t)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if owned := imageAttr(s, "owned"); owned != "false" {
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
	return sha256Of([]byte(url + "\n" + compression))[:12]
}

// TestImageInUse: a file that a guest uses is not removed, nor one of which somebody who does not see all guests cannot tell.
func TestImageInUse(t *testing.T) {
	t.Parallel()
	data := []byte("an ISO image")
	url := served(t, map[string][]byte{"/debian.iso": data})
	config := downloaded(url+"/debian.iso", sha256Of(data), `content = "iso"`)
	volume := "local:iso/debian-" + sha256Of(data)[:12] + ".iso"
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
			world.Roles["TerraformProvider"] = without(world.Roles["TerraformProvider"], "VM.Audit")
		}, []string{volume, "VM.Audit on /vms"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := acctest.NewWorld(t)
			s := w.Session(t, acctest.TokenNoSSH, config)
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Change(c.use)
			w.Mark()
			w.Reconfigure(t, s, acctest.TokenNoSSH, "")
			mustSay(t, s.Run(t.Context()), c.words...)
			if len(s.Addresses()) != 1 {
				t.Error("the image is not in state any more")
			}
			w.MustBeClean(t)
		})
	}
}

func without(all []string, name string) (rest []string) {
	for _, one := range all {
		if one != name {
			rest = append(rest, one)
		}
	}
	return rest
}

// TestImageReplacedByAnother: what somebody has put in the place of our file is his: the plan says so, a destroy leaves it.
func TestImageReplacedByAnother(t *testing.T) {
	t.Parallel()
	one := qcow2("one")
	url := served(t, map[string][]byte{"/debian.qcow2": one})
	volume := "import/debian-" + sha256Of(one)[:12] + ".qcow2"
	w := acctest.NewWorld(t)
	s := w.Session(t, acctest.TokenNoSSH, downloaded(url+"/debian.qcow2", sha256Of(one)))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Sim.Advance(60e9)
	w.Change(func(world *state.World) {
		world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: volume, Content: "import", Format: "qcow2", Size: 1 << 30,
			Raw: qcow2("three")})
	})
	w.Mark()
	if _, err := s.Plan(t.Context()); err != nil || !strings.Contains(fmt.Sprint(s.Diagnostics()), "Another file is in the "+
		"place of local:"+volume) {
		t.Errorf("planned %v, %v", err, s.Diagnostics())
	}
	if err := s.Destroy(t.Context()); err != nil || !strings.Contains(fmt.Sprint(s.Diagnostics()), "Somebody has put another in "+
		"its place") {
		t.Errorf("%v, %v", err, s.Diagnostics())
	}
	w.MustBeClean(t)
}

// TestImageRefusals: what the server can tell is said in the plan, and nothing is sent.
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
		"storage of another kind": {config: strings.ReplaceAll(downloaded(web, sum), `"local"`, `"local-zfs"`),
			words: []string{"Storage local-zfs is not for import content", "type zfspool", "these are for it: local"}},
		"content that is not configured": {config: downloaded(web, sum), world: func(world *state.World) {
			world.Storages["local"].Content = []string{"iso", "images"}
		}, words: []string{"Storage local is not for import content", "pvesm set local --content"}},
		"no storage": {config: strings.ReplaceAll(downloaded(web, sum), `"local"`, `"nowhere"`), words: []string{"Node pve1 has " +
			"no storage nowhere"}},
		"no node": {config: strings.ReplaceAll(downloaded(web, sum), `"pve1"`, `"pve7"`), words: []string{`Unknown node "pve7"`}},
		"may not put files": {config: downloaded(web, sum), world: func(world *state.World) {
			world.Roles["TerraformProvider"] = without(world.Roles["TerraformProvider"], "Datastore.AllocateTemplate")
		}, words: []string{"Datastore.AllocateTemplate on /storage/local"}},
		"may not download": {config: downloaded(web, sum), world: func(world *state.World) {
			world.Roles["TerraformProvider"] = without(world.Roles["TerraformProvider"], "Sys.AccessNetwork")
		}, words: []string{"Sys.AccessNetwork on /nodes/pve1", "Sys.Audit and Sys.Modify on /", "source_file"}},
		"before 8.4": {config: downloaded(web, sum), old: "8.0", words: []string{"Node pve1 has no upload and download of " +
			"disk images", "since 8.4"}},
		"extension": {config: downloaded("https://example.org/noble.img", sum), words: []string{".img", "qcow2", "file_name"}},
		"xz":        {config: downloaded("https://example.org/talos.raw.xz", sum), words: []string{"xz"}},
		"compressed " +
			"disk": {config: downloaded("https://example.org/a.qcow2.gz", sum, `compression = "gz"`),
			words: []string{"decompression not supported for import"}},
		"checksum":    {config: downloaded(web, "abc"), words: []string{"no checksum"}},
		"two sources": {config: downloaded(web, sum, `source_file = "/etc/hostname"`), words: []string{"Two sources"}},
		"no file": {config: imageBlock("disk", `node = "pve1"`, `storage = "local"`,
			`source_file = "/nowhere/a.qcow2"`), words: []string{"There is no file", "/nowhere/a.qcow2"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := acctest.NewWorld(t, pvesim.Options{Profile: c.old})
			if c.world != nil {
				w.Change(c.world)
			}
			w.Mark()
			s := w.Session(t, acctest.TokenNoSSH, c.config)
			_, err := s.Plan(t.Context())
			mustSay(t, err, c.words...)
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
	one, two := qcow2("one"), qcow2("two")
	url := served(t, map[string][]byte{"/one.qcow2": one, "/two.qcow2": two})
	config := func(name string, data []byte, lifecycle string) string {
		return downloaded(url+"/"+name+".qcow2", sha256Of(data)) + `
resource "proxmox_vm" "web" {
  node  = "pve1"
  vmid  = 300
  disks = { scsi0 = { storage = "local-zfs", size = "2G", import_from = proxmox_image.disk.volume } }
` + lifecycle + "}\n"
	}
	for _, lifecycle := range []string{"", "  lifecycle {\n    ignore_changes = [disks[\"scsi0\"].import_from]\n  }\n"} {
		w := acctest.NewWorld(t)
		s := w.Session(t, acctest.TokenNoSSH, config("one", one, lifecycle))
		if err := s.Converge(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Reconfigure(t, s, acctest.TokenNoSSH, config("two", two, lifecycle))
		plan, err := s.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		volume := "local:import/two-" + sha256Of(two)[:12] + ".qcow2"
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
		s.Taint("proxmox_image.disk") // the same file again
		if err := s.Converge(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.MustBeClean(t)
	}
}
