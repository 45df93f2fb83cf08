package storage_test

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/diskimport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// matrixSource is a source of a disk: the value of import_from, the rest of the configuration, and the content of the disk.
type matrixSource struct {
	name, from, beside, holds string
	kind                      diskimport.Kind
	since                     string
}

func matrixSources(t *testing.T, version string) []matrixSource {
	t.Helper()
	data := rig.QCOW2("a file of this machine")
	content, extension, kind := "import", "qcow2", diskimport.File
	if version < "8.4" { // else PVE takes no such upload
		content, extension, kind = "iso", "img", diskimport.ISO
	}
	local := filepath.Join(t.TempDir(), "debian."+extension)
	if err := os.WriteFile(local, data, 0o600); err != nil {
		t.Fatal(err)
	}
	uploaded := rig.ImageBlock("disk", `node = "pve1"`, `storage = "local"`, fmt.Sprintf("content = %q", content), fmt.Sprintf("source_file = %q", local))
	return []matrixSource{
		{"import content", `"local:import/disk.qcow2"`, "", "cloud image", diskimport.File, "8.3"},
		{"iso content", `"local:iso/cloud.img"`, "", "an image of another name", diskimport.ISO, ""},
		{"VM volume", `"local-lvm:vm-8000-disk-0"`, "", "another VM's data", diskimport.Disk, ""},
		{"OVA", `"local:import/small.ova/disk1.vmdk"`, "", "local:import/small.ova/disk1.vmdk", diskimport.Member, "8.3"},
		{"local file", "proxmox_image.disk.volume", uploaded, "sha256:" + rig.SHA256(data), kind, ""},
	}
}

// matrixTargets are the storages that disks are made on.
func matrixTargets() map[string]string {
	return map[string]string{"dir": "local2", "zfspool": "local-zfs", "lvmthin": "local-lvm", "rbd": "ceph"}
}

func addMatrixSources(world *state.World) {
	world.Storages["ceph"] = &state.Storage{ID: "ceph", Type: "rbd", Path: "rbd", Shared: true, Total: 100 << 30, Content: []string{"images"}}
	world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "iso/cloud.img", Content: "iso", Format: "iso", Size: 1 << 30,
		Data: "an image of another name"})
	if world.Has(state.ImportContent) {
		world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "import/small.ova", Content: "import", Format: "ova", Size: 71680,
			Raw: rig.OVA()})
	}
}

// matrixCell is one of everything.
type matrixCell struct {
	version, target string
	who             rig.Identity
	matrixSource
}

func (c matrixCell) String() string {
	return fmt.Sprintf("%s, %s, %s, %s", c.version, c.target, c.who, c.name)
}

// refused reports whether the documented table has no way for the cell.
func (c matrixCell) refused() bool {
	who := diskimport.Identity{RootTicket: c.who == rig.RootTicket, SSH: c.who == rig.TokenSSH}
	return c.version < c.since || diskimport.RowOf(c.kind).Way(who) == diskimport.NoWay
}

func (c matrixCell) config() string {
	format := ""
	if c.kind == diskimport.Member && c.target == "dir" { // it keeps that of the image, and PVE grows no vmdk
		format = `, format = "qcow2"`
	}
	return c.beside + rig.VMBlock(fmt.Sprintf(`node  = "pve1"
  name  = "web"
  disks = {
    scsi0 = { storage = %q, import_from = %s, size = "6G", discard = true%s }
    scsi1 = { storage = "local-zfs", size = "1G" }
  }
  networks = { net0 = { bridge = "vmbr0" } }`, matrixTargets()[c.target], c.from, format))
}

// TestSourceMatrix: whatever a disk is made of, on whatever release, storage and identity, the VM has a disk of it and leaves nothing when
// it goes, or the plan says a sentence of docs/design/sources.md and nothing but reads is sent.
//
// `make test` plays one cell in twelve.
func TestSourceMatrix(t *testing.T) {
	t.Parallel()
	const seed, part = "1", 12
	sentences := documentedRefusals(t)
	for _, version := range []string{"8.0", "8.2", "8.4", "9.2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: version})
			w.Change(addMatrixSources)
			w.Mark()
			sources, played, works := matrixSources(t, version), 0, 0
			for _, target := range []string{"dir", "zfspool", "lvmthin", "rbd"} {
				for _, who := range []rig.Identity{rig.RootTicket, rig.TokenNoSSH, rig.TokenSSH} {
					for _, from := range sources {
						c := matrixCell{version, target, who, from}
						drawn := fnv.New32a()
						_, _ = drawn.Write([]byte(seed + c.String())) // never fails
						if !share.IsWhole() && drawn.Sum32()%part != 0 {
							continue
						}
						if played++; c.refused() {
							c.mustRefuse(t, w, sentences)
						} else {
							c.mustWork(t, w)
							works++
						}
					}
				}
			}
			t.Logf("seed %s: %d of 60 cells, %d of them work", seed, played, works)
			if played == 0 || works == 0 {
				t.Error("nothing was tried")
			}
		})
	}
}

func (c matrixCell) mustWork(t *testing.T, w *rig.World) {
	t.Helper()
	s := w.Session(t, c.who, c.config())
	if err := s.Converge(t.Context()); err != nil {
		t.Errorf("%s: %v", c, err)
		return
	}
	w.Change(func(world *state.World) {
		var g *state.Guest
		for _, one := range world.Guests {
			if one.Config["name"] == "web" {
				g = one
			}
		}
		if g == nil || g.Running == nil || g.Config["boot"] != "order=scsi0;net0" {
			t.Errorf("%s: no VM that has been started from its disk: %+v", c, g)
			return
		}
		volid, _, _ := strings.Cut(g.Config["scsi0"], ",")
		v := world.Volume("pve1", volid)
		if v == nil || v.Data != c.holds || v.Size != 6<<30 || v.Storage != matrixTargets()[c.target] ||
			!strings.Contains(g.Config["scsi0"], "discard=on") {
			t.Errorf("%s: %s is %+v", c, g.Config["scsi0"], v)
		}
	})
	if err := s.Destroy(t.Context()); err != nil {
		t.Errorf("%s: destroy: %v", c, err)
	}
	for _, line := range w.Leaks() {
		t.Errorf("%s: left or changed: %s", c, line)
	}
}

func (c matrixCell) mustRefuse(t *testing.T, w *rig.World, sentences []*regexp.Regexp) {
	t.Helper()
	w.Sim.ResetOps()
	_, err := w.Session(t, c.who, c.config()).Plan(t.Context())
	if err == nil {
		t.Errorf("%s: planned", c)
		return
	}
	said := strings.Join(strings.Fields(err.Error()), " ")
	if !slices.ContainsFunc(sentences, func(r *regexp.Regexp) bool { return r.MatchString(said) }) || !strings.Contains(said, "import_from") {
		t.Errorf("%s: this is no documented sentence: %s", c, said)
	}
	for _, op := range w.Sim.Ops() {
		if op.Method != http.MethodGet && op.Path != "/access/ticket" {
			t.Errorf("%s: sent %s %s", c, op.Method, op.Path)
		}
	}
	for _, line := range w.Leaks() {
		t.Errorf("%s: changed: %s", c, line)
	}
}

// documentedRefusals are the sentences of the documentation, with something in the place of what stands in braces.
func documentedRefusals(t *testing.T) []*regexp.Regexp {
	t.Helper()
	page, err := os.ReadFile("../../../docs/design/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| refused in the plan | what is said |\n| --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var all []*regexp.Regexp
	for _, row := range strings.Split(strings.TrimSpace(table), "\n") {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		summary, detail, ok := strings.Cut(cells[1], ". ")
		if len(cells) != 2 || !ok {
			t.Fatalf("a row that is none: %s", row)
		}
		hole := regexp.MustCompile(`\\\{[a-z]+\\\}`)
		all = append(all, regexp.MustCompile(hole.ReplaceAllString(regexp.QuoteMeta(summary), `\S+`)+".*"+
			hole.ReplaceAllString(regexp.QuoteMeta(detail), `\S+`)))
	}
	if len(all) < 5 {
		t.Fatalf("only %d sentences", len(all))
	}
	return all
}
