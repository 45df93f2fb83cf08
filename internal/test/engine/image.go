package engine

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// ImageSweep is a world in which one image is made and destroyed again and again.
type ImageSweep struct {
	rig.ImageCase
	T        *testing.T
	Who      rig.Identity
	World    *rig.World
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
	v := rig.VolumeOn(sw.World, "local:"+sw.Volume)
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
	owned := rig.ImageAttr(sw.Session, "owned") == "true"
	before := sw.World.Leaks()
	sw.Configure("")
	err := sw.Session.Run(t.Context())
	said := sw.Said(err)
	sw.Configure(sw.Config)
	switch {
	case owned && sw.Who == rig.TokenNoAllocate:
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
