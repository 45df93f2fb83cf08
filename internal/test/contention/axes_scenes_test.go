package contention_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/world"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// axisScene is an operation of the provider whose outcome an axis changes.
type axisScene struct {
	axis  string
	scene scene
	id    rig.Identity
	at    int                          // the operation before which the background actors act
	facts func(*adversaryBench) string // what is told of the world besides the error
	same  bool                         // the outcome is the same without the axis, as is documented
}

// play plays the scene in a world with or without the axis, and states the outcome in a line.
func (c axisScene) play(t *testing.T, with bool) (outcome string, wrong []string) {
	t.Helper()
	drawn := world.Of()
	if with {
		drawn = world.Of(c.axis)
	}
	b, err := openAdversaryBench(t, c.id, c.scene, &drawn)
	if err != nil {
		return "refused: " + shortOf(err), nil
	}
	b.spots(t)
	b.reset(t)
	faults, orders := drawn.Faults(0), drawn.Orders(0, c.scene.vmid, 1)
	for n := range faults {
		faults[n].Match.Nth = 1
	}
	for n := range orders {
		orders[n].Before.Seq = c.at
	}
	b.w.Sim.SetFaults(slices.Concat(c.scene.faults, faults))
	b.w.Sim.SetThirdParties(orders)
	b.actors = orders
	a := &inspection{b: b, theirs: b.w.Sim.ThirdParties()}
	began := b.w.Sim.World().Clock.Now()
	a.err = c.scene.do(t.Context(), b)
	b.waited = b.w.Sim.World().Clock.Now().Sub(began).Round(30 * time.Second)
	b.w.Sim.SetFaults(nil)
	a.acts, a.ops = b.w.Sim.Reports(), b.w.Sim.Ops()
	for _, d := range a.acts {
		if !d.Done {
			a.add("the actor could not act: %s: %s", d.Act, d.Why)
		}
	}
	outcome = "done"
	if a.err != nil {
		outcome = "error: " + shortOf(a.err)
	}
	for _, d := range b.s.Diagnostics() {
		if !d.Error {
			outcome += "; warning: " + d.Summary
		}
	}
	if c.facts != nil {
		outcome += "; " + c.facts(b)
	}
	a.lawHolds(t)
	if len(a.wrong) > 0 {
		a.add("%s", a.writes()+a.said())
	}
	return outcome, a.wrong
}

// shortOf is the line of an error that says most: the first one of its detail that is no heading.
func shortOf(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for _, line := range lines[1:] {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "Failed step:") {
			return line[:min(len(line), 150)]
		}
	}
	return lines[0]
}

// TestAxesChangeAnOutcome: for each axis there is a scene whose outcome is another one where the axis is switched off, and in neither
// is another party's object changed, or one of ours left without a name. With -v the outcomes are printed.
func TestAxesChangeAnOutcome(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range axisScenes() {
		seen[c.axis] = true
		t.Run(c.axis+", "+c.scene.name, func(t *testing.T) {
			t.Parallel()
			with, wrong := c.play(t, true)
			without, wrongWithout := c.play(t, false)
			t.Logf("%s, %s\n  with    %s\n  without %s", c.axis, c.scene.name, with, without)
			if (with == without) != c.same {
				t.Errorf("the axis changes the outcome: %t, want %t: %s", !c.same, c.same, with)
			}
			for _, line := range slices.Concat(wrong, wrongWithout) {
				t.Error(line)
			}
		})
	}
	for _, axis := range world.Axes() {
		if !seen[axis.Name] {
			t.Errorf("axis %s has no scene", axis.Name)
		}
	}
}

// TestAxesAreDrawnBySeed: a seed draws the same world each time, all axes are drawn, and each says what it sets and means.
func TestAxesAreDrawnBySeed(t *testing.T) {
	t.Parallel()
	drawn := map[string]bool{}
	for seed := range uint64(axesWorlds) {
		a, b := world.Draw(seed, 4), world.Draw(seed, 4)
		if a.String() != b.String() || len(a.Axes) != 4 || !strings.Contains(a.String(), fmt.Sprint(seed)) {
			t.Errorf("%s and %s", a, b)
		}
		if !slices.Equal(a.Orders(7, 101, 30), b.Orders(7, 101, 30)) || !slices.Equal(a.Faults(7), b.Faults(7)) {
			t.Errorf("%s: the moments differ", a)
		}
		for _, axis := range a.Axes {
			drawn[axis.Name] = true
		}
	}
	for _, axis := range world.Axes() {
		if !drawn[axis.Name] || axis.Sets == "" || !strings.HasSuffix(axis.Means, ".") {
			t.Errorf("axis %+v", axis)
		}
	}
}

// claimingAt is a small VM that wants leftover volumes of its id destroyed.
func claimingAt(vmid int, storage string) string {
	return fmt.Sprintf(`
resource "proxmox_vm" "x" {
  vmid  = %d
  name  = "claiming"
  node  = "pve1"
  disks = { scsi0 = { storage = %q, size = "1G" } }
  on_orphaned_volumes = "destroy"
}
`, vmid, storage)
}

// claimsAnID is a create that claims an id.
func claimsAnID(vmid int, storage string) scene {
	return scene{name: fmt.Sprintf("claim %d on %s", vmid, storage), vmid: vmid, after: claimingAt(vmid, storage), do: applies}
}

func axisScenes() []axisScene {
	off := engine.Replace(engine.PopulatedVM, engine.PoweredOn, engine.PoweredOff)
	disk := rig.DiskBlock(`storage = "local-lvm"`, `size = "2G"`)
	destroyDisk := scene{name: "destroy a disk", vmid: 300, before: disk, do: applies}
	destroyStopped := scene{name: "destroy a stopped VM", vmid: engine.ChangedVMID, before: off, do: applies}
	detach := engine.Replace(engine.PopulatedVM, "    scsi1 = { storage = \"local-lvm\", size = \"2G\" }\n", "")
	rename := engine.Replace(engine.PopulatedVM, `name     = "web"`, `name     = "web-2"`)
	const clone = "resource \"proxmox_vm\" \"x\" {\n  vmid = 200\n  name = \"copy\"\n  node = \"pve1\"\n  clone = { vmid = 9000 }\n  protection = false\n}\n"
	return []axisScene{
		{axis: "rights below /vms", id: rig.TokenNoSSH, scene: destroyDisk},
		{axis: "storage alias", id: rig.TokenNoSSH, scene: destroyDisk},
		{axis: "storage alias", id: rig.RootTicket, scene: destroyStopped},
		{axis: "devices by path", id: rig.TokenNoSSH, scene: destroyDisk},
		{axis: "devices by path", id: rig.RootTicket, scene: destroyStopped},
		{axis: "devices by path", id: rig.TokenNoSSH, scene: claimsAnID(200, "local2")},
		{axis: "overlays", id: rig.TokenNoSSH, scene: destroyStopped},
		{axis: "overlays", id: rig.TokenNoSSH, scene: claimsAnID(200, "local2")},
		{axis: "bound directories", id: rig.TokenNoSSH, scene: destroyStopped, same: true, facts: guestFacts},
		{axis: "snapshots of others", id: rig.TokenNoSSH, scene: destroyDisk},
		{axis: "snapshots of others", id: rig.RootTicket, scene: destroyStopped},
		{axis: "renamed by hand", id: rig.TokenNoSSH, scene: destroyStopped},
		{axis: "renamed by hand", id: rig.TokenNoSSH, scene: claimsAnID(200, "local2")},
		{axis: "renamed by hand", id: rig.TokenNoSSH, scene: claimsAnID(300, "local2")},
		{axis: "SAN", id: rig.TokenNoSSH, scene: destroyDisk},
		{axis: "SAN", id: rig.RootTicket, scene: destroyStopped},
		{axis: "storage of two clusters", id: rig.TokenNoSSH,
			scene: claimsAnID(200, "shared-nfs")},
		{axis: "Kubernetes volumes", id: rig.TokenNoSSH,
			scene: scene{name: "claim an id", vmid: 9999, after: claimingAt(9999, "local-lvm"), do: applies}},
		{axis: "clocks 5 s apart", id: rig.TokenNoSSH, scene: orphansAfter(28*time.Minute + 54*time.Second), facts: orphanFacts},
		{axis: "clocks 3 min apart", id: rig.TokenNoSSH, scene: orphansAfter(27 * time.Minute), facts: orphanFacts},
		{axis: "HA moves the VM", id: rig.TokenNoSSH, at: 1, facts: guestFacts, scene: scene{name: "rename, a minute after the refresh",
			vmid: engine.ChangedVMID, before: engine.PopulatedVM, after: rename, do: func(ctx context.Context, b *adversaryBench) error {
				if err := b.s.Refresh(ctx); err != nil {
					return err
				}
				b.w.Sim.Advance(time.Minute)
				return b.s.Apply(ctx, b.plan)
			}}},
		{axis: "HA rules", id: rig.RootTicket, scene: sceneNamed("leave HA"), facts: ruleFacts},
		{axis: "rescan", id: rig.TokenNoSSH, at: 12, scene: sceneNamed("undo after a start that failed"), facts: guestFacts},
		{axis: "backup starts the VM", id: rig.TokenNoSSH, at: 1, scene: destroyStopped, facts: waitFacts},
		{axis: "forged mark", id: rig.TokenNoSSH, scene: scene{name: "create", vmid: 100, after: scratchBy(0), do: applies}},
		{axis: "replayed mark", id: rig.TokenNoSSH, at: 1, scene: resumed(), facts: guestFacts},
		{axis: "hostile texts", id: rig.TokenNoSSH, scene: orphansAfter(48 * time.Hour), facts: orphanFacts},
		{axis: "listing lag", id: rig.TokenNoSSH, facts: vmFacts, scene: scene{name: "list VMs", vmid: engine.ChangedVMID, before: engine.PopulatedVM,
			after: engine.PopulatedVM, reads: true, do: func(ctx context.Context, b *adversaryBench) error { return b.s.Refresh(ctx) }}},
		{axis: "rotated task logs", id: rig.TokenNoSSH, at: 1, scene: resumed(), facts: guestFacts},
		{axis: "no Sys.Audit", id: rig.TokenNoSSH, scene: resumed(), facts: guestFacts},
		{axis: "node away", id: rig.TokenNoSSH, scene: resumed(), facts: guestFacts},
		{axis: "equal node names", id: rig.TokenNoSSH, scene: scene{name: "rename", vmid: engine.ChangedVMID, before: engine.PopulatedVM, after: rename,
			do: applies}, facts: guestFacts},
		{axis: "equal node names", id: rig.RootTicket, scene: destroyStopped, facts: guestFacts},
		{axis: "SSH dies", id: rig.TokenSSH, facts: guestFacts, scene: scene{name: "create from an ISO file", vmid: 200,
			after: engine.WithISODisk(scratchBy(200)), do: applies}},
		{axis: "imported, not yet applied", id: rig.TokenNoSSH, facts: guestFacts, scene: scene{name: "detach a disk", vmid: engine.ChangedVMID,
			before: engine.PopulatedVM, after: detach, do: applies}},
		{axis: "blank and odd descriptions", id: rig.TokenNoSSH, facts: guestFacts,
			scene: scene{name: "clone", vmid: 200, after: clone, do: applies}},
	}
}

// sceneNamed is a scene of TestAdversary.
func sceneNamed(name string) scene {
	all := scenes()
	return all[slices.IndexFunc(all, func(s scene) bool { return s.name == name })]
}

// waitFacts are how long the operation took.
func waitFacts(b *adversaryBench) string { return fmt.Sprintf("after %v", b.waited) }

// orphansAfter reads proxmox_orphans some time after the volumes came to be.
func orphansAfter(d time.Duration) scene {
	return scene{name: "list orphans", vmid: engine.ChangedVMID, before: engine.PopulatedVM, after: engine.PopulatedVM, reads: true,
		do: func(_ context.Context, b *adversaryBench) error {
			b.w.Sim.Advance(d)
			return nil
		}}
}

// orphanFacts count the volumes that proxmox_orphans lists, by certainty and whether there is a command.
func orphanFacts(b *adversaryBench) string {
	v, err := b.s.ReadDataSource(context.Background(), "proxmox_orphans", "")
	if err != nil {
		return err.Error()
	}
	count := map[string]int{}
	for it := terraformtest.At(v, "orphans").ElementIterator(); it.Next(); {
		_, o := it.Element()
		if terraformtest.Text(o, "kind") == "volume" {
			count[fmt.Sprintf("%s with command %t", terraformtest.Text(o, "certainty"), terraformtest.Text(o, "command") != "")]++
		}
	}
	return fmt.Sprint(count)
}

// vmFacts are the names and states that proxmox_vms tells.
func vmFacts(b *adversaryBench) string {
	v, err := b.s.ReadDataSource(context.Background(), "proxmox_vms", "")
	if err != nil {
		return err.Error()
	}
	var list []string
	for it := terraformtest.At(v, "vms").ElementIterator(); it.Next(); {
		_, o := it.Element()
		list = append(list, terraformtest.Text(o, "name")+" "+terraformtest.Text(o, "status"))
	}
	return strings.Join(list, ", ")
}

// guestFacts are where the VM at hand is, its disks and texts, and the addresses in state.
func guestFacts(b *adversaryBench) (facts string) {
	b.w.Change(func(w *state.World) {
		g := w.Guests[b.scene.vmid]
		if g == nil {
			facts = fmt.Sprintf("no VM %d", b.scene.vmid)
			return
		}
		var disks []string
		for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
			if strings.HasPrefix(opt, "scsi") && opt != "scsihw" || strings.HasPrefix(opt, "unused") {
				disks = append(disks, opt)
			}
		}
		facts = fmt.Sprintf("VM %d on %s, %v, description %.20q", g.VMID, g.Node, disks, g.Config["description"])
	})
	return facts + fmt.Sprintf(", in state %v", b.s.Addresses())
}

// ruleFacts are the HA rules.
func ruleFacts(b *adversaryBench) (facts string) {
	b.w.Change(func(w *state.World) { facts = fmt.Sprintf("HA rules %v", w.HARules) })
	return facts
}

// resumed is a create that finds the VM of its own run, which died right before it started that VM.
func resumed() scene {
	return scene{name: "create again after a death", vmid: 200, after: scratchBy(200), do: func(ctx context.Context, b *adversaryBench) error {
		b.w.Sim.SetThirdParties(nil)
		b.w.ResetCalls()
		if err := b.s.Apply(ctx, b.plan); err != nil {
			return fmt.Errorf("the undisturbed run: %w", err)
		}
		start := slices.IndexFunc(b.w.Sim.Ops(), func(op pvesim.Op) bool {
			return op.Method == http.MethodPost && strings.HasSuffix(op.Path, "/status/start")
		})
		if err := b.w.Sim.Load(b.base); err != nil {
			return err
		}
		b.markThirdParties()
		b.s.RestoreState(b.state)
		b.w.Sim.Advance(time.Minute)
		b.w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Nth: start + 1}, Phase: fault.Before, Times: -1}})
		if err := b.s.Apply(ctx, b.plan); err == nil {
			return fmt.Errorf("the run did not die at request %d", start+1)
		}
		b.w.Sim.SetFaults(nil)
		b.s.RestoreState(b.state)
		cred := b.w.Sim.Credentials()
		b.w.Change(func(w *state.World) {
			if g := w.Guests[b.scene.vmid]; g != nil {
				g.Config["description"] = rig.Resign(cred, g.Config["description"], rig.OfADeadProcess)
			}
		})
		b.w.ResetCalls()
		b.w.Sim.SetThirdParties(b.actors)
		return b.s.Apply(ctx, b.plan)
	}}
}
