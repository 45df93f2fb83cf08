package acctest

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// killPlan is a create whose provider gets killed, and what it comes to when nobody is.
type killPlan struct {
	name, config string
	fixed        bool // its VMID
	plan         string
	moments      []Moment
	want         []string // how the cluster differs afterwards
}

// killPlans are creates from scratch and of a template, of VMs with and without a name and an id.
func killPlans() []*killPlan {
	var plans []*killPlan
	for _, kind := range []struct{ name, options string }{
		{"create", "memory = { size = 1024 }\n  disks = { scsi0 = { storage = \"local-zfs\", size = \"2G\" } }\n" +
			"  networks = { net0 = { bridge = \"vmbr0\", firewall = true } }\n" +
			"  firewall = { enabled = true, rules = [{ type = \"in\", action = \"ACCEPT\" }] }\n"},
		{"clone", "clone = { vmid = 9000 }\n  protection = false\n  memory = { size = 2048 }\n  disks = { scsi0 = { size = \"4G\" } }\n"},
	} {
		for _, named := range []bool{true, false} {
			for _, fixed := range []bool{true, false} {
				p := &killPlan{name: kind.name, fixed: fixed}
				options := "node = \"pve1\"\n  pool = \"web\"\n  " + kind.options
				if named {
					options, p.name = "name = \"killed\"\n  "+options, p.name+" named"
				} else {
					p.name += " nameless"
				}
				if fixed {
					options, p.name = "vmid = 300\n  "+options, p.name+" fixed"
				} else {
					p.name += " automatic"
				}
				p.config = "resource \"proxmox_vm\" \"x\" {\n  " + options + "}\n"
				plans = append(plans, p)
			}
		}
	}
	return plans
}

// rehearse plans once for all cells, and applies that once with nobody killed.
func (p *killPlan) rehearse(t *testing.T, tools killTools, dir string) {
	t.Helper()
	r := newKillRoom(t, tools, p.config)
	p.plan = filepath.Join(dir, strings.ReplaceAll(p.name, " ", "-"))
	if text, err := r.run(t, "plan", "-out="+p.plan); err != nil {
		t.Fatalf("%s: %v\n%s", p.name, err, text)
	}
	r.gate.Begin(Moment{}, nil, nil)
	if text, err := r.run(t, "apply", p.plan); err != nil {
		t.Fatalf("%s: %v\n%s", p.name, err, text)
	}
	p.moments = r.gate.Moments()
	ids := r.guests()
	if len(ids) != 1 {
		t.Fatalf("%s has made %v", p.name, ids)
	}
	p.want = r.changes(ids[0])
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
	plan  *killPlan
	at    Moment
	who   victim
	comes killReturn
}

func (c killCell) String() string {
	return fmt.Sprintf("%s/%s/%s killed %s", c.plan.name, c.comes, c.who, strings.ReplaceAll(c.at.String(), "/", "|"))
}

// What a kill may cost.
const (
	// KillPatience is after which time a run elsewhere counts as dead: two minutes after the last task that it began, which may have gone on.
	KillPatience = 2*time.Minute + 8*time.Second
	killLimit    = 150 * time.Second
)

// killOutcome is what came of a cell.
type killOutcome struct {
	applies int
	took    time.Duration // of the cluster's time
	said    []string      // by the applies
	wrong   []string
}

func (o *killOutcome) add(format string, args ...any) {
	o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
}

// play kills and applies again, twice at most.
func (c killCell) play(t *testing.T, tools killTools) (o killOutcome) {
	t.Helper()
	r := newKillRoom(t, tools, c.plan.config)
	theirs := r.w.Sim.Strangers()
	o.said = append(o.said, afterThePlan(r.killed(t, c.at, c.who, c.comes == killedElsewhere, "apply", c.plan.plan)))
	if !r.gate.Killed() {
		o.add("the moment never came")
		return o
	}
	died := r.clock.Now()
	if c.comes == killedBefore {
		r.w.Sim.Advance(30 * time.Second)
	}
	for o.applies < 2 {
		if o.applies == 1 {
			r.w.Sim.Advance(KillPatience - r.clock.Now().Sub(died))
		}
		o.applies++
		text, err := r.apply(t)
		o.said = append(o.said, afterThePlan(text))
		if id := offersImport(text); err != nil && id != "" {
			text, imported := r.run(t, "import", "proxmox_vm.x", id)
			o.said = append(o.said, text)
			if imported != nil {
				o.add("the import that was offered: %v", imported)
			}
			continue
		}
		if err == nil && len(r.differences(c.plan)) == 0 {
			break
		}
		if o.applies == 2 && err != nil {
			o.add("the last apply: %v", err)
		}
	}
	o.took = r.clock.Now().Sub(died)
	for _, line := range r.differences(c.plan) {
		o.add("%s", line)
	}
	if !bytes.Equal(theirs, r.w.Sim.Strangers()) {
		o.add("strangers' things have changed: %s", cmp.Diff(string(theirs), string(r.w.Sim.Strangers())))
	}
	if o.took > killLimit {
		o.add("it took %v of the cluster's time", o.took)
	}
	if addresses := r.addresses(t); !slices.Equal(addresses, []string{"proxmox_vm.x"}) {
		o.add("in state: %v", addresses)
	}
	return o
}

var (
	commandToImport = regexp.MustCompile(`terraform import \S+ '?(\d+)`)
	adviceToImport  = regexp.MustCompile(`VMID (\d+) is taken\.? .* adopt the VM with terraform import`)
)

// offersImport is the id of the VM that is to be imported, if an apply says so.
func offersImport(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, words := range []*regexp.Regexp{commandToImport, adviceToImport} {
		if id := words.FindStringSubmatch(text); id != nil {
			return id[1]
		}
	}
	return ""
}

// afterThePlan is what a CLI says but for the plan, and what comes with each run.
func afterThePlan(text string) string {
	if _, after, ok := strings.Cut(text, "\nPlan: "); ok {
		return after
	}
	_, after, _ := strings.Cut(text, "published\nreleases.\n")
	return after
}

// differences are what is there and should not be, or the other way round.
func (r *killRoom) differences(p *killPlan) []string {
	ids := r.guests()
	if len(ids) == 0 {
		return append([]string{"no VM was made"}, r.w.Leaks()...)
	}
	got := r.changes(ids[len(ids)-1])
	if slices.Equal(got, p.want) {
		return nil
	}
	return strings.Split(cmp.Diff(p.want, got), "\n")
}

// KillShare is the share of the cells that is played: the whole with KILL_ALL=1, one in N with KILL_ALL=N; 0 where it is not set.
func KillShare(t *testing.T) uint32 {
	t.Helper()
	text := os.Getenv("KILL_ALL")
	if text == "" {
		return 0
	}
	share, err := strconv.ParseUint(text, 10, 16)
	if err != nil || share == 0 {
		t.Fatalf("KILL_ALL=%s: want 1 for every cell, N for one in N", text)
	}
	return uint32(share)
}

// committed is the first moment of a create at which the VM is the user's already: its mark is gone, and Terraform has not noted it yet. By
// its VMID the next create is told of it; of one without a VMID of its own nobody can tell that it is not somebody's.
func (p *killPlan) committed() int {
	for i, at := range slices.Backward(p.moments) {
		if at.Served && strings.HasPrefix(at.Request, http.MethodPut) && strings.HasSuffix(at.Request, "/config") {
			return i
		}
	}
	return len(p.moments)
}

// drawKills are the cells of the plans that are played, always the same ones, without those after the commit of a VM that nothing names.
func drawKills(plans []*killPlan, returns []killReturn, share uint32) (cells []killCell) {
	for _, p := range plans {
		moments := p.moments
		if !p.fixed {
			moments = moments[:p.committed()]
		}
		for _, at := range moments {
			for _, comes := range returns {
				c := killCell{plan: p, at: at, comes: comes}
				drawn := fnv.New32a()
				_, _ = drawn.Write([]byte(c.String()))
				c.who = victim(drawn.Sum32() >> 8 % 2)
				if drawn.Sum32()%share == 0 {
					cells = append(cells, c)
				}
			}
		}
	}
	return cells
}

// TestKillCreate kills the provider, or Terraform and the provider, at every request of a create and of a clone, before it is served and
// before its answer: VMs with a name and without, with an id of their own and without. The next apply of the same configuration, or the one
// after that, two minutes later, comes to what an undisturbed one does, and to nothing else.
//
// `make test` plays some cells of two of the eight, KILL_ALL=1 all, KILL_ALL=N one in N.
func TestKillCreate(t *testing.T) {
	t.Parallel()
	tools, plans, share := newKillTools(t), killPlans(), KillShare(t)
	returns := []killReturn{killedNow, killedBefore, killedElsewhere}
	if share == 0 {
		plans, returns, share = []*killPlan{plans[0], plans[5]}, returns[:2], 12
	}
	dir := t.TempDir()
	t.Run("nobody is killed", func(t *testing.T) {
		for _, p := range plans {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				p.rehearse(t, tools, dir)
			})
		}
	})
	if t.Failed() {
		return
	}
	cells := drawKills(plans, returns, share)
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
					t.Logf("%d applies in %v; what was said:\n%s", o.applies, o.took, strings.Join(o.said, "\n----\n"))
				}
				mu.Lock()
				defer mu.Unlock()
				tally[fmt.Sprintf("%d applies", o.applies)]++
				played++
			})
		}
	})
	t.Logf("%d kills of %d: %v; none after the commit of a VM without a fixed VMID", played, len(cells), tally)
	if len(cells) < 6 {
		t.Error("that is no sweep")
	}
}
