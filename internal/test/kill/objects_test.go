package kill_test

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// killedThing is a change of something other than a VM whose provider gets killed.
type killedThing struct {
	name, before, after string
	id                  rig.Identity
}

func killedThings(t *testing.T) (all []killedThing) {
	t.Helper()
	for _, c := range rig.ImageCases(t) {
		all = append(all, killedThing{name: c.Name, after: c.Config, id: rig.TokenNoSSH},
			killedThing{name: c.Name + ", removed", before: c.Config, id: rig.TokenNoSSH})
	}
	vm := func(power string) string {
		return `resource "proxmox_vm" "web" {
  vmid = 300
  node = "pve1"
  name = "web"
  power_state = "` + power + `"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
}
`
	}
	snapshot := func(lines string) string {
		return "resource \"proxmox_vm_snapshot\" \"it\" {\n  vmid = proxmox_vm.web.vmid\n  name = \"before\"\n  " + lines + "\n}\n"
	}
	off, on := vm("stopped"), vm("running")
	all = append(all, killedThing{"snapshot", off, off + snapshot(`description = "one"`), rig.TokenNoSSH},
		killedThing{"snapshot with memory", on, on + snapshot("vmstate = true"), rig.TokenNoSSH},
		killedThing{"snapshot described", off + snapshot(`description = "one"`), off + snapshot(`description = "two"`), rig.TokenNoSSH},
		killedThing{"snapshot removed", off + snapshot(`description = "one"`), off, rig.TokenNoSSH})
	for _, turn := range engine.DiskSteps() {
		if turn.Name == "made with its VM" { // Terraform keeps the disk before it makes the VM, which one plan that is killed does not show
			continue
		}
		all = append(all, killedThing{"disk " + turn.Name, turn.Before, turn.After, rig.RootTicket})
	}
	return all
}

// killedChange is a bench with one of them.
type killedChange struct {
	*killBench
	thing killedThing
	base  []byte
	saved terraformtest.SavedState
	plan  *terraformtest.Plan
	want  []string
}

func newKilledChange(t *testing.T, thing killedThing) *killedChange {
	t.Helper()
	b := &killedChange{killBench: newKillBench(t, thing.id), thing: thing}
	b.w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
	b.w.Sim.MarkThirdParties()
	b.unkilled()
	b.configure(t, thing.before)
	if err := b.s.Converge(t.Context()); err != nil {
		t.Fatalf("apply the previous configuration: %v", err)
	}
	b.w.Sim.Advance(30 * time.Second)
	b.base, b.saved = b.w.Sim.Snapshot(), b.s.SaveState()
	b.configure(t, thing.after)
	b.s.TrustPlans = true
	var err error
	if b.plan, err = b.s.Plan(t.Context()); err != nil {
		t.Fatalf("plan: %v", err)
	}
	return b
}

// changes are the differences of the world from that before, without values that are unique to a run.
func (b *killedChange) changes() []string {
	lines := rig.SnapshotDiff(b.base, b.w.Sim.Snapshot())
	lines = slices.DeleteFunc(lines, func(line string) bool { // its size is that of the storage (disk.Disks.Read)
		return strings.HasPrefix(line, "changed: guest 300: config.scsi0") && strings.HasPrefix(b.thing.name, "disk grown under")
	})
	for i, line := range lines {
		lines[i] = unsharedIn.ReplaceAllString(line, "x")
	}
	slices.Sort(lines)
	return lines
}

var unsharedIn = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?:[0-9A-F]{2}:){5}[0-9A-F]{2}|\d{10,}|` +
	`\d{4}-\d\d-\d\dT[\d:.]+Z?`)

func (b *killedChange) reset(t *testing.T) {
	t.Helper()
	if err := b.w.Sim.Load(b.base); err != nil {
		t.Fatal(err)
	}
	b.s.RestoreState(b.saved)
	b.w.Sim.Advance(time.Minute)
}

// rehearse makes the change without a kill.
func (b *killedChange) rehearse(t *testing.T) []engine.Moment {
	t.Helper()
	b.reset(t)
	b.unkilled()
	if err := b.s.Apply(t.Context(), b.plan); err != nil {
		t.Fatalf("without a kill: %v", err)
	}
	moments := b.gate.Moments()
	b.w.Sim.Advance(30 * time.Second)
	b.want = b.changes()
	return moments
}

// play kills, and applies again, twice at most.
func (b *killedChange) play(t *testing.T, at engine.Moment, after time.Duration) (rounds int, wrong []string) {
	t.Helper()
	b.reset(t)
	if !b.kill(t, at, func() error { return b.s.Apply(t.Context(), b.plan) }) {
		return 0, nil
	}
	died := b.clock.Now()
	b.w.Sim.Advance(after)
	said := ""
	for rounds < 2 {
		rounds++
		err := b.s.Run(t.Context())
		for _, d := range b.s.Diagnostics() {
			said += d.String() + "\n"
		}
		if err == nil {
			wrong = nil
			break
		}
		wrong = append(wrong, fmt.Sprintf("apply %d: %v", rounds, err))
		b.obey(t)
		b.w.Sim.Advance(max(0, KillPatience-b.clock.Now().Sub(died)))
	}
	b.w.Sim.Advance(30 * time.Second)
	if diff := cmp.Diff(b.want, b.changes()); diff != "" {
		wrong = append(wrong, "the world is not as without a kill (-want +got):\n"+diff+"what was said: "+said)
	}
	if pl, err := b.s.Plan(t.Context()); err != nil || !pl.Empty() {
		wrong = append(wrong, fmt.Sprintf("the plan afterwards: %v\n%v", err, pl))
	}
	return rounds, wrong
}

// The instructions that an apply may give to its user.
var (
	importByName  = regexp.MustCompile(`terraform import ADDRESS (\d+)|its import id is (\d+/\w+)`)
	importOfImage = regexp.MustCompile(`There is (\S+) on node (\S+) already(?s:.*)adopt it with terraform import`)
	removal       = regexp.MustCompile("`qm delsnapshot 300 (\\w+) --force` as root on node pve1")
)

// obey follows the instructions of an apply: to import something, or to remove a snapshot.
func (b *killedChange) obey(t *testing.T) {
	t.Helper()
	for _, d := range b.s.Diagnostics() {
		id, text := "", d.Summary+"\n"+d.Detail
		if m := importByName.FindStringSubmatch(text); m != nil {
			id = m[1] + m[2]
		}
		if m := importOfImage.FindStringSubmatch(text); m != nil {
			id = m[2] + "/" + m[1]
		}
		if id != "" {
			if err := b.s.Import(t.Context(), strings.Join(strings.Split(d.Address, ".")[:2], "."), id); err != nil {
				t.Errorf("%s: %v", d.Summary, err)
			}
		}
		if m := removal.FindStringSubmatch(text); m != nil {
			b.w.Sim.Advance(30 * time.Second) // "if no task is at work on the VM"
			b.w.Change(func(world *state.World) { removeSnapshot(world, 300, m[1]) })
		}
	}
}

// removeSnapshot is what `qm delsnapshot --force` does, which the simulated nodes do not have.
func removeSnapshot(world *state.World, vmid int, name string) {
	g := world.Guests[vmid]
	delete(g.Snaps, name)
	delete(g.Config, "parent")
	for key, v := range world.Volumes {
		if v.VMID == vmid {
			v.Snaps = slices.DeleteFunc(v.Snaps, func(snap string) bool { return snap == name })
		}
		if v.VMID == vmid && strings.HasSuffix(v.Name, "-state-"+name) {
			delete(world.Volumes, key)
		}
	}
}

// TestKillOtherResources kills the provider at every request with which images, snapshots and disks are made, changed and destroyed, as
// TestKillLife does with VMs.
func TestKillOtherResources(t *testing.T) {
	t.Parallel()
	part := uint32(share.Of(0))
	var mu sync.Mutex
	tally, kills := map[int]int{}, 0
	t.Run("things", func(t *testing.T) {
		for _, thing := range killedThings(t) {
			if part == 0 && !slices.Contains(killedThingsDrawn, thing.name) || !share.Picks(thing.name) {
				continue
			}
			t.Run(thing.name, func(t *testing.T) {
				t.Parallel()
				b := newKilledChange(t, thing)
				for i, at := range b.rehearse(t) {
					drawn := fnv.New32a()
					_, _ = drawn.Write([]byte(thing.name + at.String()))
					if part == 0 && !at.IsWrite() || drawn.Sum32()%max(part, 1) != 0 {
						continue
					}
					after := []time.Duration{0, 30 * time.Second}[i%2]
					rounds, wrong := b.play(t, at, after)
					for _, line := range wrong {
						t.Errorf("%s, killed %s, applied after %v: %s", thing.name, at, after, line)
					}
					mu.Lock()
					kills++
					tally[rounds]++
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d kills, by the applies that they took: %v", kills, tally)
}

// killedThingsDrawn are those that the normal run plays.
var killedThingsDrawn = []string{"download", "snapshot", "disk grown"}
