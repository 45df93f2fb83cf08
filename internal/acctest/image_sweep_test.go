package acctest_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/host"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// imagePhases are the ways in which an operation can go wrong where no id is to be had.
var imagePhases = []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Partial, fault.Offline}

// imageCase is a file, and how it gets onto the storage.
type imageCase struct {
	name, config, volume string
	data                 []byte // that is on the storage in the end
}

func imageCases(t *testing.T) []imageCase {
	t.Helper()
	data := qcow2("an image")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("an ISO image")); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	local := filepath.Join(t.TempDir(), "debian.qcow2")
	if err := os.WriteFile(local, data, 0o600); err != nil {
		t.Fatal(err)
	}
	url := served(t, map[string][]byte{"/debian.qcow2": data, "/talos.iso.gz": packed.Bytes()})
	name := "import/debian-" + sha256Of(data)[:12] + ".qcow2"
	return []imageCase{
		{"download", downloaded(url+"/debian.qcow2", sha256Of(data)), name, data},
		{"upload", imageBlock("disk", `node = "pve1"`, `storage = "local"`, fmt.Sprintf("source_file = %q", local)), name, data},
		{"compressed download", downloaded(url+"/talos.iso.gz", sha256Of(packed.Bytes()), `content = "iso"`, `compression = "gz"`),
			"iso/talos-" + sha256Of(packed.Bytes())[:12] + ".iso", []byte("an ISO image")},
	}
}

// imageSweep is a world in which one image is made and destroyed again and again.
type imageSweep struct {
	imageCase
	t     *testing.T
	who   acctest.Identity
	w     *acctest.World
	s     *drive.Session
	root  *host.Shell
	world []byte
	file  *state.Volume // of that world, with what a snapshot leaves out; nil: there is none
	saved drive.SavedState

	// unreadable: the node went down in the middle, so nobody could say more than which task had made what.
	unreadable bool

	effective, made, unowned, takenBack, named int
}

func newImageSweep(t *testing.T, who acctest.Identity, c imageCase) *imageSweep {
	t.Helper()
	w := acctest.NewWorld(t)
	sw := &imageSweep{imageCase: c, t: t, who: who, w: w, s: w.Session(t, who, c.config), root: operator(t, w.Sim),
		world: w.Sim.Snapshot()}
	sw.saved = sw.s.SaveState()
	return sw
}

func (sw *imageSweep) reset(rules ...fault.Rule) {
	sw.t.Helper()
	sw.w.Sim.SetFaults(nil)
	if err := sw.w.Sim.Load(sw.world); err != nil {
		sw.t.Fatal(err)
	}
	if sw.file != nil {
		sw.w.Change(func(world *state.World) {
			kept := *sw.file
			world.Volumes[state.VolumeKey{Storage: kept.Storage, Node: kept.Node, Name: kept.Name}] = &kept
		})
	}
	sw.s.RestoreState(sw.saved)
	sw.w.Sim.ResetOps()
	sw.w.Sim.SetFaults(rules)
}

// settle ends what went wrong.
func (sw *imageSweep) settle() {
	sw.w.Sim.SetFaults(nil)
	for _, node := range []string{"pve1", "pve2"} {
		sw.w.Sim.SetNode(node, true)
	}
	sw.w.Sim.Advance(30 * time.Second)
}

func (sw *imageSweep) configure(config string) {
	sw.t.Helper()
	sw.w.Reconfigure(sw.t, sw.s, sw.who, config)
}

func (sw *imageSweep) said(err error) string { return fmt.Sprint(err, sw.s.Diagnostics()) }

// whole reports whether the file is there as it should be.
func (sw *imageSweep) whole() bool {
	v := fileOn(sw.w, "local:"+sw.volume)
	return v != nil && bytes.Equal(v.Raw, sw.data)
}

// phasesOf are those that can have an effect on an operation: a read starts no task.
func phasesOf(op pvesim.Op) []fault.Phase {
	if op.Method == http.MethodGet {
		return []fault.Phase{fault.Before, fault.After, fault.Offline}
	}
	return imagePhases
}

// create fails one operation of a create in one way.
func (sw *imageSweep) create(seq int, phase fault.Phase) {
	sw.unreadable = false
	sw.reset(fault.Rule{Match: fault.Match{Seq: seq}, Phase: phase})
	err := sw.s.Run(sw.t.Context())
	ops := sw.w.Sim.Ops()
	if sw.w.Sim.FaultsFired() == 0 {
		return
	}
	sw.effective++
	what := fmt.Sprintf("%s, %s, %s at #%d %s", sw.who, sw.name, phase, seq, opName(ops[seq-1]))
	sw.settle()
	if err == nil {
		sw.made++
		sw.destroyed(what)
		return
	}
	sw.failed(what, err)
}

// failed checks what a create that failed has left: nothing, or what it names; the commands remove it, and the next apply makes
// the image.
func (sw *imageSweep) failed(what string, err error) {
	t, said := sw.t, sw.said(err)
	t.Helper()
	if in := sw.s.Addresses(); len(in) > 0 {
		t.Errorf("%s: in state: %v", what, in)
	}
	leaks := sw.w.Leaks()
	sw.unreadable = strings.Contains(said, "what task UPID:pve1:") && strings.Contains(said, "what became of task UPID:pve1:")
	claims := strings.Contains(said, "nothing is left on the server")
	if claims && len(leaks) > 0 {
		t.Errorf("%s: says that nothing is left: %v\n%s", what, leaks, said)
	}
	for _, line := range leaks {
		if !sw.isNamed(line, said) {
			t.Errorf("%s: not named: %s\n%s", what, line, said)
		}
	}
	if sw.takenBack++; len(leaks) > 0 {
		sw.takenBack--
		sw.named++
		for _, m := range printed.FindAllStringSubmatch(said, -1) {
			words := strings.Fields(strings.ReplaceAll(m[1]+m[3], "'", ""))
			if _, err := sw.root.Run(t.Context(), m[2]+m[4], words...); err != nil {
				t.Errorf("%s: %q fails: %v", what, words, err)
			}
		}
		if left := sw.w.Leaks(); len(left) > 0 && !sw.unreadable && !strings.Contains(said, "the answer to the request was lost") {
			t.Errorf("%s: the commands leave %v\n%s", what, left, said)
		}
	}
	if err := sw.s.Converge(t.Context()); err != nil {
		if !sw.unreadable && !strings.Contains(said, "the answer to the request was lost") {
			t.Errorf("%s: the next apply says %v\nat first: %s", what, err, said)
		}
		return
	}
	sw.destroyed(what)
}

// isNamed reports whether what differs is said: a volume, or a file of a node.
func (sw *imageSweep) isNamed(line, said string) bool {
	if strings.Contains(line, sw.volume) && !strings.Contains(line, ".tmp_d") {
		return strings.Contains(said, "local:"+sw.volume)
	}
	for _, part := range []string{".tmp_dwnl.", ".tmp_dcom.", "/var/tmp/pveupload-"} {
		if _, rest, ok := strings.Cut(line, part); ok {
			id := rest[:strings.IndexFunc(rest+" ", func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })]
			return strings.Contains(said, part+id) || sw.unreadable // the log of the task nobody could read
		}
	}
	return false
}

// destroyed destroys the image, which must be whole. What is not owned stays, and is named.
func (sw *imageSweep) destroyed(what string) {
	t := sw.t
	t.Helper()
	if !sw.whole() {
		t.Errorf("%s: in state, and not whole on the storage", what)
		return
	}
	owned := imageAttr(sw.s, "owned") == "true"
	before := sw.w.Leaks()
	sw.configure("")
	err := sw.s.Run(t.Context())
	said := sw.said(err)
	sw.configure(sw.config)
	switch {
	case owned && sw.who == acctest.TokenNoAllocate:
		if err == nil || !strings.Contains(said, "Datastore.Allocate") {
			t.Errorf("%s: the destroy says %s", what, said)
		}
	case err != nil:
		t.Errorf("%s: the destroy says %v", what, err)
	case !owned:
		sw.unowned++
		if !sw.whole() || !strings.Contains(said, "The file stays: local:"+sw.volume) {
			t.Errorf("%s: not owned, whole %t: %s", what, sw.whole(), said)
		}
	default:
		for _, line := range sw.w.Leaks() {
			if strings.HasPrefix(line, "new: ") || len(before) <= len(sw.w.Leaks()) && !sw.unreadable {
				t.Errorf("%s: after the destroy: %s (before it %v)", what, line, before)
			}
		}
	}
}

// TestSweepImage fails every operation of creates of images in every way, for every identity. Nothing is left that is not named, and no
// sentence is untrue.
func TestSweepImage(t *testing.T) {
	t.Parallel()
	for _, who := range acctest.Identities() {
		for n, c := range imageCases(t) {
			if n > 0 && who != acctest.TokenNoSSH && os.Getenv("DESTROY_ALL") == "" { // the rest: make test-full
				continue
			}
			t.Run(string(who)+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				sw := newImageSweep(t, who, c)
				sw.reset()
				if err := sw.s.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				n := sw.w.Sim.LastOp()
				for seq, op := range sw.w.Sim.Ops() {
					for _, phase := range phasesOf(op) {
						sw.create(seq+1, phase)
					}
				}
				t.Logf("%d operations, %d faults with an effect: %d made all the same, %d taken back, %d left something and "+
					"named it; %d not owned",
					n, sw.effective, sw.made, sw.takenBack, sw.named, sw.unowned)
				if sw.effective < 10 {
					t.Errorf("only %d faults had an effect", sw.effective)
				}
			})
		}
	}
}

// TestSweepImageDestroy fails every operation of a destroy of an image in every way: the image is gone, or in state, and then the next
// destroy removes it.
func TestSweepImageDestroy(t *testing.T) {
	t.Parallel()
	for _, who := range []acctest.Identity{acctest.RootTicket, acctest.TokenNoSSH} {
		t.Run(string(who), func(t *testing.T) {
			t.Parallel()
			sw := newImageSweep(t, who, imageCases(t)[0])
			if err := sw.s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			sw.saved, sw.world, sw.file = sw.s.SaveState(), sw.w.Sim.Snapshot(), fileOn(sw.w, "local:"+sw.volume)
			sw.configure("")
			sw.reset()
			if err := sw.s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			n := sw.w.Sim.LastOp()
			for at, op := range sw.w.Sim.Ops() {
				for _, phase := range phasesOf(op) {
					seq := at + 1
					sw.reset(fault.Rule{Match: fault.Match{Seq: seq}, Phase: phase})
					err := sw.s.Run(t.Context())
					if sw.w.Sim.FaultsFired() == 0 {
						continue
					}
					sw.effective++
					what := fmt.Sprintf("%s at #%d", phase, seq)
					sw.settle()
					if kept := len(sw.s.Addresses()) == 1; kept != (err != nil) || !kept && fileOn(sw.w, "local:"+sw.volume) != nil {
						t.Errorf("%s: in state %t, %v", what, kept, err)
					}
					if err := sw.s.Run(t.Context()); err != nil {
						t.Errorf("%s: the next destroy says %v", what, err)
					}
					for _, line := range sw.w.Leaks() {
						t.Errorf("%s: %s", what, line)
					}
				}
			}
			t.Logf("%d operations, %d faults with an effect", n, sw.effective)
		})
	}
}
