package rig

import (
	"bytes"
	"compress/gzip"
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
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// ImageCase is a file, and how it gets onto the storage.
type ImageCase struct {
	Name, Config, Volume string
	Data                 []byte // that is on the storage in the end
}

// ImageCases returns an image for each way onto a storage.
func ImageCases(t *testing.T) []ImageCase {
	t.Helper()
	data := QCOW2("an image")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("an ISO image")); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	local := filepath.Join(t.TempDir(), "debian.qcow2")
	if err := os.WriteFile(local, data, 0o600); err != nil {
		t.Fatal(err)
	}
	url := ServeFiles(t, map[string][]byte{"/debian.qcow2": data, "/talos.iso.gz": packed.Bytes()})
	name := "import/debian-" + SHA256(data)[:12] + ".qcow2"
	return []ImageCase{
		{"download", DownloadedImage(url+"/debian.qcow2", SHA256(data)), name, data},
		{"upload", ImageBlock("disk", `node = "pve1"`, `storage = "local"`, fmt.Sprintf("source_file = %q", local)), name, data},
		{"compressed download", DownloadedImage(url+"/talos.iso.gz", SHA256(packed.Bytes()), `content = "iso"`, `compression = "gz"`),
			"iso/talos-" + SHA256(packed.Bytes())[:12] + ".iso", []byte("an ISO image")},
	}
}

// ImageSweep is a world in which one image is made and destroyed again and again.
type ImageSweep struct {
	ImageCase
	T        *testing.T
	Who      Identity
	World    *World
	Session  *terraformtest.Session
	Root     *ssh.Shell
	Snapshot []byte
	File     *state.Volume // of that world, with the fields that a snapshot leaves out; nil: there is none
	Saved    terraformtest.SavedState

	// unreadable: the node went down in the middle, so an error could say no more than which task had made what.
	unreadable bool

	Effective, Made, Unowned, TakenBack, Named int
}

// Reset goes back to the saved world and state, and sets the faults.
func (sw *ImageSweep) Reset(rules ...fault.Rule) {
	sw.T.Helper()
	sw.World.Sim.SetFaults(nil)
	if err := sw.World.Sim.Load(sw.Snapshot); err != nil {
		sw.T.Fatal(err)
	}
	if sw.File != nil {
		sw.World.Change(func(world *state.World) {
			kept := *sw.File
			world.Volumes[state.VolumeKey{Storage: kept.Storage, Node: kept.Node, Name: kept.Name}] = &kept
		})
	}
	sw.Session.RestoreState(sw.Saved)
	sw.World.Sim.ResetOps()
	sw.World.Sim.SetFaults(rules)
}

// Settle ends what went wrong.
func (sw *ImageSweep) Settle() {
	sw.World.Sim.SetFaults(nil)
	for _, node := range []string{"pve1", "pve2"} {
		sw.World.Sim.SetNode(node, true)
	}
	sw.World.Sim.Advance(30 * time.Second)
}

// Configure replaces the configuration.
func (sw *ImageSweep) Configure(config string) {
	sw.T.Helper()
	sw.World.Reconfigure(sw.T, sw.Session, sw.Who, config)
}

// Said returns the error and the diagnostics as one text.
func (sw *ImageSweep) Said(err error) string { return fmt.Sprint(err, sw.Session.Diagnostics()) }

// Whole reports whether the file is there as it should be.
func (sw *ImageSweep) Whole() bool {
	v := VolumeOn(sw.World, "local:"+sw.Volume)
	return v != nil && bytes.Equal(v.Raw, sw.Data)
}

// Create fails one operation of a create in one way.
func (sw *ImageSweep) Create(seq int, phase fault.Phase) {
	sw.unreadable = false
	sw.Reset(fault.Rule{Match: fault.Match{Seq: seq}, Phase: phase})
	err := sw.Session.Run(sw.T.Context())
	ops := sw.World.Sim.Ops()
	if sw.World.Sim.FaultsFired() == 0 {
		return
	}
	sw.Effective++
	what := fmt.Sprintf("%s, %s, %s at #%d %s", sw.Who, sw.Name, phase, seq, OpName(ops[seq-1]))
	sw.Settle()
	if err == nil {
		sw.Made++
		sw.Destroyed(what)
		return
	}
	sw.Failed(what, err)
}

// Failed checks the leftovers of a failed create: none, or only those that it names; the commands remove it, and the next apply makes
// the image.
func (sw *ImageSweep) Failed(what string, err error) {
	t, said := sw.T, sw.Said(err)
	t.Helper()
	if in := sw.Session.Addresses(); len(in) > 0 {
		t.Errorf("%s: in state: %v", what, in)
	}
	leaks := sw.World.Leaks()
	sw.unreadable = strings.Contains(said, "that task UPID:pve1:") && strings.Contains(said, "how task UPID:pve1:")
	claims := strings.Contains(said, "nothing is left on the server")
	if claims && len(leaks) > 0 {
		t.Errorf("%s: says that nothing is left: %v\n%s", what, leaks, said)
	}
	for _, line := range leaks {
		if !sw.isNamed(line, said) {
			t.Errorf("%s: not named: %s\n%s", what, line, said)
		}
	}
	if sw.TakenBack++; len(leaks) > 0 {
		sw.TakenBack--
		sw.Named++
		for _, m := range Printed.FindAllStringSubmatch(said, -1) {
			words := strings.Fields(strings.ReplaceAll(m[1]+m[3], "'", ""))
			if _, err := sw.Root.Run(t.Context(), m[2]+m[4], words...); err != nil {
				t.Errorf("%s: %q fails: %v", what, words, err)
			}
		}
		if left := sw.World.Leaks(); len(left) > 0 && !sw.unreadable && !strings.Contains(said, "the answer to the request was lost") {
			t.Errorf("%s: the commands leave %v\n%s", what, left, said)
		}
	}
	if err := sw.Session.Converge(t.Context()); err != nil {
		if !sw.unreadable && !strings.Contains(said, "the answer to the request was lost") {
			t.Errorf("%s: the next apply says %v\nat first: %s", what, err, said)
		}
		return
	}
	sw.Destroyed(what)
}

// isNamed reports whether what differs is said: a volume, or a file of a node.
func (sw *ImageSweep) isNamed(line, said string) bool {
	if strings.Contains(line, sw.Volume) && !strings.Contains(line, ".tmp_d") {
		return strings.Contains(said, "local:"+sw.Volume)
	}
	for _, part := range []string{".tmp_dwnl.", ".tmp_dcom.", "/var/tmp/pveupload-"} {
		if _, rest, ok := strings.Cut(line, part); ok {
			id := rest[:strings.IndexFunc(rest+" ", func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })]
			return strings.Contains(said, part+id) || sw.unreadable // the log of the task could not be read
		}
	}
	return false
}

// Destroyed destroys the image, which must be whole. A file that the resource does not own stays, and is named.
func (sw *ImageSweep) Destroyed(what string) {
	t := sw.T
	t.Helper()
	if !sw.Whole() {
		t.Errorf("%s: in state, and not whole on the storage", what)
		return
	}
	owned := ImageAttr(sw.Session, "owned") == "true"
	before := sw.World.Leaks()
	sw.Configure("")
	err := sw.Session.Run(t.Context())
	said := sw.Said(err)
	sw.Configure(sw.Config)
	switch {
	case owned && sw.Who == TokenNoAllocate:
		if err == nil || !strings.Contains(said, "Datastore.Allocate") {
			t.Errorf("%s: the destroy says %s", what, said)
		}
	case err != nil:
		t.Errorf("%s: the destroy says %v", what, err)
	case !owned:
		sw.Unowned++
		if !sw.Whole() || !strings.Contains(said, "The file stays: local:"+sw.Volume) {
			t.Errorf("%s: not owned, whole %t: %s", what, sw.Whole(), said)
		}
	default:
		for _, line := range sw.World.Leaks() {
			if strings.HasPrefix(line, "new: ") || len(before) <= len(sw.World.Leaks()) && !sw.unreadable {
				t.Errorf("%s: after the destroy: %s (before it %v)", what, line, before)
			}
		}
	}
}

// QCOW2 is a file that begins as an image of a gigabyte does.
func QCOW2(text string) []byte {
	data := bytes.Repeat([]byte(text+"\n"), 1000)
	copy(data, "QFI\xfb\x00\x00\x00\x03")
	binary.BigEndian.PutUint64(data[24:], 1<<30)
	return data
}

// SHA256 returns the checksum in hexadecimal digits.
func SHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ServeFiles serves files by their paths.
func ServeFiles(t *testing.T, files map[string][]byte) string {
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

// ImageBlock is a proxmox_image.
func ImageBlock(name string, lines ...string) string {
	return fmt.Sprintf("resource \"proxmox_image\" %q {\n  %s\n}\n", name, strings.Join(lines, "\n  "))
}

// DownloadedImage is one that node pve1 downloads to its storage local.
func DownloadedImage(url, sum string, lines ...string) string {
	all := []string{`node = "pve1"`, `storage = "local"`, fmt.Sprintf("url = %q", url)}
	if sum != "" {
		all = append(all, fmt.Sprintf("checksum = %q", sum))
	}
	return ImageBlock("disk", append(all, lines...)...)
}

// VolumeOn is the file of a storage of node pve1, nil: there is none.
func VolumeOn(w *World, volume string) (found *state.Volume) {
	w.Change(func(world *state.World) {
		if v := world.Volume("pve1", volume); v != nil {
			copied := *v
			found = &copied
		}
	})
	return found
}

// ImageAttr returns an attribute of proxmox_image.disk as text.
func ImageAttr(s *terraformtest.Session, name string) string {
	return strings.Trim(terraformtest.ShowValue(s.Attr("proxmox_image.disk", name)), `"`)
}

// Except returns all but name.
func Except(all []string, name string) (rest []string) {
	for _, one := range all {
		if one != name {
			rest = append(rest, one)
		}
	}
	return rest
}

// Chain fails one operation of an apply in one way.
func (sw *ImageSweep) Chain(op pvesim.Op, nth int, phase fault.Phase) {
	t := sw.T
	t.Helper()
	sw.Reset(fault.Rule{Match: fault.Match{Method: op.Method, Path: op.Path, Nth: nth}, Phase: phase})
	err := sw.Session.Run(t.Context())
	if sw.World.Sim.FaultsFired() == 0 {
		return
	}
	sw.Effective++
	sw.Settle()
	what := string(phase) + " of " + OpName(op)
	said := ""
	if err == nil {
		sw.Made++
	} else {
		said = sw.Said(err)
		inState := strings.Join(sw.Session.Addresses(), " ")
		for _, line := range sw.World.Leaks() {
			file, vm := strings.Contains(line, sw.Volume), strings.Contains(line, "300")
			named := file && strings.Contains(inState, "proxmox_image.disk") || vm && strings.Contains(inState, "proxmox_vm.web")
			if !named && !sw.isNamed(line, said) && !(vm && strings.Contains(said, "300")) {
				t.Errorf("%s: neither in state nor named: %s\n%s", what, line, said)
			}
		}
		for _, m := range Printed.FindAllStringSubmatch(said, -1) {
			words := strings.Fields(strings.ReplaceAll(m[1]+m[3], "'", ""))
			_, _ = sw.Root.Run(t.Context(), m[2]+m[4], words...) // the leftovers are checked below
		}
	}
	if err := sw.Session.Converge(t.Context()); err != nil {
		t.Errorf("%s: the next apply says %v\nat first: %s", what, err, said)
		return
	}
	if err := sw.Session.Destroy(t.Context()); err != nil {
		t.Errorf("%s: the destroy says %v", what, err)
	}
	stays := strings.Contains(sw.Session.Diagnostics().String(), "The file stays: local:"+sw.Volume) // whose answer was lost, so that it may be another's
	for _, line := range sw.World.Leaks() {
		if stays && strings.Contains(line, sw.Volume) {
			continue
		}
		t.Errorf("%s: left: %s\nat first: %s", what, line, said)
	}
}
