package faults_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// imagePhases are the ways in which an operation can go wrong where no id is to be had.
var imagePhases = []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Partial, fault.Offline}

func newImageSweep(t *testing.T, who rig.Identity, c rig.ImageCase) *engine.ImageSweep {
	t.Helper()
	w := rig.NewWorld(t)
	sw := &engine.ImageSweep{ImageCase: c, T: t, Who: who, World: w, Session: w.Session(t, who, c.Config), Root: engine.Operator(t, w.Sim),
		Snapshot: w.Sim.Snapshot()}
	sw.Saved = sw.Session.SaveState()
	return sw
}

// phasesOf are those that can have an effect on an operation: a read starts no task.
func phasesOf(op pvesim.Op) []fault.Phase {
	if op.Method == http.MethodGet {
		return []fault.Phase{fault.Before, fault.After, fault.Offline}
	}
	return imagePhases
}

// imageShare is the part of the cells of an image's sweep that `make test` plays: one in so many.
const imageShare = 7

func isImageCellDrawn(at int) bool { return share.IsWhole() || at%imageShare == 0 }

// enoughImageCells is the least number of faults with an effect, of so many in the whole.
func enoughImageCells(whole int) int {
	if share.IsWhole() {
		return whole
	}
	return max(1, whole/(2*imageShare))
}

// TestSweepImage fails every operation of creates of images in every way, for every identity. Nothing is left that is not named, and no
// sentence is untrue.
func TestSweepImage(t *testing.T) {
	t.Parallel()
	for _, who := range rig.Identities() {
		for n, c := range rig.ImageCases(t) {
			if n > 0 && who != rig.TokenNoSSH && !share.IsWhole() { // the rest: make test-full
				continue
			}
			t.Run(string(who)+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				sw := newImageSweep(t, who, c)
				sw.Reset()
				if err := sw.Session.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				n, at := sw.World.Sim.LastOp(), 0
				for op, phase := range engine.Cells(sw.World.Sim.Ops(), phasesOf) {
					if at++; isImageCellDrawn(at) {
						sw.Create(op.Seq, phase)
					}
				}
				t.Logf("%d operations, %d faults with an effect: %d made all the same, %d taken back, %d left something and "+
					"named it; %d not owned",
					n, sw.Effective, sw.Made, sw.TakenBack, sw.Named, sw.Unowned)
				if want := enoughImageCells(10); sw.Effective < want {
					t.Errorf("only %d faults had an effect, want %d", sw.Effective, want)
				}
			})
		}
	}
}

// TestSweepImageDestroy fails every operation of a destroy of an image in every way: the image is gone, or in state, and then the next
// destroy removes it.
func TestSweepImageDestroy(t *testing.T) {
	t.Parallel()
	for _, who := range []rig.Identity{rig.RootTicket, rig.TokenNoSSH} {
		t.Run(string(who), func(t *testing.T) {
			t.Parallel()
			sw := newImageSweep(t, who, rig.ImageCases(t)[0])
			if err := sw.Session.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			sw.Saved, sw.Snapshot, sw.File = sw.Session.SaveState(), sw.World.Sim.Snapshot(), rig.VolumeOn(sw.World, "local:"+sw.Volume)
			sw.Configure("")
			sw.Reset()
			if err := sw.Session.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			n, at := sw.World.Sim.LastOp(), 0
			for op, phase := range engine.Cells(sw.World.Sim.Ops(), phasesOf) {
				if at++; !isImageCellDrawn(at) {
					continue
				}
				sw.Reset(engine.FaultAt(op, phase))
				err := sw.Session.Run(t.Context())
				if sw.World.Sim.FaultsFired() == 0 {
					continue
				}
				sw.Effective++
				what := fmt.Sprintf("%s at #%d", phase, op.Seq)
				sw.Settle()
				if kept := len(sw.Session.Addresses()) == 1; kept != (err != nil) || !kept && rig.VolumeOn(sw.World, "local:"+sw.Volume) != nil {
					t.Errorf("%s: in state %t, %v", what, kept, err)
				}
				if err := sw.Session.Run(t.Context()); err != nil {
					t.Errorf("%s: the next destroy says %v", what, err)
				}
				for _, line := range sw.World.Leaks() {
					t.Errorf("%s: %s", what, line)
				}
			}
			t.Logf("%d operations, %d faults with an effect", n, sw.Effective)
			if want := enoughImageCells(10); sw.Effective < want {
				t.Errorf("only %d faults had an effect, want %d", sw.Effective, want)
			}
		})
	}
}
