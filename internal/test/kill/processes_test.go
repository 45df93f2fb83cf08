package kill_test

import (
	"bytes"
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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// killPlans are creates from scratch and of a template, of VMs with and without a name and an id.
func killPlans() []*engine.KillPlan {
	var plans []*engine.KillPlan
	for _, kind := range []struct{ name, options string }{
		{"create", "memory = { size = 1024 }\n  disks = { scsi0 = { storage = \"local-zfs\", size = \"2G\" } }\n" +
			"  networks = { net0 = { bridge = \"vmbr0\", firewall = true } }\n" +
			"  firewall = { enabled = true, rules = [{ type = \"in\", action = \"ACCEPT\" }] }\n"},
		{"create and wait", "disks = { scsi0 = { storage = \"local-zfs\", size = \"2G\" } }\n" +
			"  agent = { enabled = true }\n  wait_for = { agent = true }\n"},
		{"clone", "clone = { vmid = 9000 }\n  protection = false\n  memory = { size = 2048 }\n  disks = { scsi0 = { size = \"4G\" } }\n"},
	} {
		for _, named := range []bool{true, false} {
			for _, fixed := range []bool{true, false} {
				p := &engine.KillPlan{Name: kind.name, Fixed: fixed}
				options := "node = \"pve1\"\n  pool = \"web\"\n  " + kind.options
				if named {
					options, p.Name = "name = \"killed\"\n  "+options, p.Name+" named"
				} else {
					p.Name += " nameless"
				}
				if fixed {
					options, p.Name = "vmid = 300\n  "+options, p.Name+" fixed"
				} else {
					p.Name += " automatic"
				}
				p.Config = "resource \"proxmox_vm\" \"x\" {\n  " + options + "}\n"
				plans = append(plans, p)
			}
		}
	}
	return plans
}

// killReturn is when and where the user applies again.
type killReturn int

const (
	killedNow       killReturn = iota // while the cluster may still be at work
	killedBefore                      // half a minute later
	killedElsewhere                   // at once, but another machine's run was killed
)

func (k killReturn) String() string { return [...]string{"at once", "after the task", "elsewhere"}[k] }

// killCell is one kill.
type killCell struct {
	plan      *engine.KillPlan
	at        engine.Moment
	committed bool // the commit has been served
	who       engine.KillTarget
	comes     killReturn
}

func (c killCell) String() string {
	return fmt.Sprintf("%s/%s/%s killed %s", c.plan.Name, c.comes, c.who, strings.ReplaceAll(c.at.String(), "/", "|"))
}

// The time that a kill may cost.
const (
	// KillPatience is the time after which a run elsewhere counts as dead: two minutes after its last task, which may have gone on.
	KillPatience = 2*time.Minute + 8*time.Second
	killLimit    = 150 * time.Second
)

// killOutcome is the result of a cell.
type killOutcome struct {
	imported bool          // as the apply after a commit says
	took     time.Duration // of the cluster's time
	said     []string      // by the applies
	wrong    []string
}

func (o *killOutcome) add(format string, args ...any) {
	o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
}

// play kills and applies again, once. A VM whose commit has been served bears no mark any more, and may be in another
// state: the apply names it and how it is imported, and the sweep does that.
func (c killCell) play(t *testing.T, tools engine.KillTools) (o killOutcome) {
	t.Helper()
	r := engine.NewKillHost(t, tools, c.plan.Config)
	theirs := r.World.Sim.ThirdParties()
	o.said = append(o.said, afterThePlan(r.Killed(t, c.at, c.who, c.comes == killedElsewhere, "apply", c.plan.Plan)))
	if !r.Gate.Killed() {
		o.add("the moment never came")
		return o
	}
	died := r.Clock.Now()
	if c.comes == killedBefore {
		r.World.Sim.Advance(30 * time.Second)
	}
	text, err := r.Apply(t)
	o.said = append(o.said, afterThePlan(text))
	if c.committed {
		text, err = c.follow(t, r, &o, text, err)
		o.said = append(o.said, text)
	}
	if err != nil {
		o.add("the next apply: %v", err)
	}
	o.took = r.Clock.Now().Sub(died)
	for _, line := range r.Differences(c.plan) {
		o.add("%s", line)
	}
	if !bytes.Equal(theirs, r.World.Sim.ThirdParties()) {
		o.add("third parties' objects have changed: %s", cmp.Diff(string(theirs), string(r.World.Sim.ThirdParties())))
	}
	if o.took > killLimit {
		o.add("it took %v of the cluster's time", o.took)
	}
	if addresses := r.Addresses(t); !slices.Equal(addresses, []string{"proxmox_vm.x"}) {
		o.add("in state: %v", addresses)
	}
	return o
}

// importAdvice is the command that an apply prints for a VM that no state may have.
var importAdvice = regexp.MustCompile("`terraform import ADDRESS ([0-9]+)`")

// follow does what the apply after a commit says: it imports the VM that the apply names. A fixed VMID is taken until
// then. Otherwise a second VM was made, and the first one is imported beside it and destroyed.
func (c killCell) follow(t *testing.T, r *engine.KillHost, o *killOutcome, said string, failed error) (text string, err error) {
	t.Helper()
	advice := importAdvice.FindStringSubmatch(strings.Join(strings.Fields(strings.ReplaceAll(said, "│", " ")), " "))
	switch {
	case c.plan.Fixed == (failed == nil):
		o.add("the apply after the commit: %v", failed)
		return said, failed
	case advice == nil:
		o.add("the apply after the commit names no VM to import")
		return said, failed
	}
	o.imported = true
	address := "proxmox_vm.x"
	if !c.plan.Fixed {
		address = "proxmox_vm.y"
		r.World.ExpectPowerOffs(state.PowerShutdown) // it is destroyed
		r.Configure(t, c.plan.Config+strings.Replace(c.plan.Config, `"x"`, `"y"`, 1))
	}
	if text, err = r.Run(t, "import", address, advice[1]); err == nil {
		r.Configure(t, c.plan.Config)
		text, err = r.Apply(t)
	}
	return text, err
}

// afterThePlan is what a CLI says but for the plan, and what comes with each run.
func afterThePlan(text string) string {
	if _, after, ok := strings.Cut(text, "\nPlan: "); ok {
		return after
	}
	_, after, _ := strings.Cut(text, "published\nreleases.\n")
	return after
}

// drawKills are the cells of the plans that are played, always the same ones.
func drawKills(plans []*engine.KillPlan, returns []killReturn, part uint32) (cells []killCell) {
	for _, p := range plans {
		for i, at := range p.Moments {
			for _, comes := range returns {
				c := killCell{plan: p, at: at, comes: comes, committed: i >= p.Committed()}
				drawn := fnv.New32a()
				_, _ = drawn.Write([]byte(c.String()))
				c.who = engine.KillTarget(drawn.Sum32() >> 8 % 2)
				if drawn.Sum32()%part == 0 {
					cells = append(cells, c)
				}
			}
		}
	}
	return cells
}

// TestKillCreate kills the provider, or Terraform and the provider, at every request of a create and of a clone, before it is served and
// before its answer: VMs with a name and without, with an id of their own and without, waited for and not. The next apply of the same
// configuration alone comes to what an undisturbed one does, and to nothing else; after the commit, with the import that it names.
//
// `make test` plays some cells of two of the twelve, SHARE=1 all.
func TestKillCreate(t *testing.T) {
	t.Parallel()
	tools, plans, part := engine.NewKillTools(t), killPlans(), uint32(share.Of(0))
	returns := []killReturn{killedNow, killedBefore, killedElsewhere}
	if part == 0 {
		plans, returns, part = []*engine.KillPlan{plans[4], plans[9]}, returns[:2], 8
	}
	plans = slices.DeleteFunc(plans, func(p *engine.KillPlan) bool { return !share.Picks(p.Name) })
	dir := t.TempDir()
	t.Run("no kill", func(t *testing.T) {
		for _, p := range plans {
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				p.Rehearse(t, tools, dir)
			})
		}
	})
	if t.Failed() {
		return
	}
	cells := drawKills(plans, returns, part)
	var mu sync.Mutex
	tally, played := map[string]int{}, 0
	t.Run("killed", func(t *testing.T) {
		for _, c := range cells {
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				o := c.play(t, tools)
				for _, line := range o.wrong {
					t.Error(line)
				}
				if t.Failed() {
					t.Logf("it took %v; what was said:\n%s", o.took, strings.Join(o.said, "\n----\n"))
				}
				mu.Lock()
				defer mu.Unlock()
				tally[map[bool]string{false: "converged with one apply", true: "imported after the commit"}[o.imported]]++
				played++
			})
		}
	})
	t.Logf("%d kills of %d: %v", played, len(cells), tally)
	if len(cells) < 6 {
		t.Error("that is no sweep")
	}
}
