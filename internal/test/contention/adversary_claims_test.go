package contention_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
)

// claim is a sentence of the provider's, and what must be so in the world where it is said. The words that match are given to it.
type claim struct {
	says  string
	holds func(a *inspection, words []string) string // why it is untrue, "" if it is true
	// shownBy are the ends of the paths of the requests that would show it, nil for a claim that has to be right in every case: what is
	// left is listed as it was when it was looked at last, and each thing is looked at by itself.
	shownBy []string
	// now: it is about the moment; ten minutes later it may be otherwise.
	now bool
	// seldom is the condition, which no scene has, under which a case would say it. If a case says it, it must still be true.
	seldom string
}

// claims are the sentences that say how the world is. Where no guest is named, they are about the VM at hand.
func claims() []claim {
	return append(claimsOfGuests(), []claim{
		{says: `nothing is left on the server`, holds: func(a *inspection, _ []string) string {
			l := a.left()
			return unless(l.guest == nil && len(l.orphans)+len(l.others) == 0, "something of ours is left")
		}},
		{says: `nothing is in state`, holds: func(a *inspection, _ []string) string {
			return unless(len(a.b.inState()) == 0, "state has %v", a.b.inState())
		}},
		{says: `(?:VM|It|resource) (?:is|stays) in state\b`, holds: func(a *inspection, _ []string) string {
			return unless(len(a.b.inState()) > 0, "state is empty")
		}},
		{says: `(?:\n +\d+\. volume|Volume|left over:) ([a-z0-9-]+:[\w./-]+)([^\n]*)`, now: true, shownBy: []string{"/content"}, holds: func(a *inspection, words []string) string {
			return unless(a.volume(words[1]) || uncertain(words[2]), "there is no volume %s", words[1])
		}},
		{says: `\n +\d+\. (?:VM|guest) (\d+)([^\n]*)`, shownBy: []string{"/config", "/pending"}, holds: func(a *inspection, words []string) string {
			return a.mustBe(words[1], "there", func(_ *state.World, g *state.Guest) bool { return g != nil || uncertain(words[2]) })
		}},
		{says: `Its (rules|options) are as they were before`, now: true, holds: func(a *inspection, words []string) string {
			return a.sameFirewall(words[1])
		}},
		{says: `(UPID:\S+?:)[\w ,()]* still runs`, now: true, seldom: "an interrupt", holds: func(a *inspection, words []string) (why string) {
			a.b.w.Change(func(w *state.World) {
				why = unless(w.Tasks[words[1]] != nil && w.Tasks[words[1]].Running, "the task does not run")
			})
			return why
		}},
	}...)
}

// claimsOfGuests are the claims about the existence and the activity of a guest.
func claimsOfGuests() []claim {
	his := func(w *state.World, g *state.Guest) bool { return g == nil || w.ThirdParties.Guests[g] }
	running := func(_ *state.World, g *state.Guest) bool { return g != nil && g.Running != nil }
	there := func(_ *state.World, g *state.Guest) bool { return g != nil }
	return []claim{
		{says: `VM (\d+)(?: on node \S+)? belongs to another user now`, holds: func(a *inspection, words []string) string {
			return a.mustBe(words[1], "another user's", func(w *state.World, g *state.Guest) bool { return his(w, g) || a.restoredSince() })
		}},
		{says: `made another one under the same id`, holds: func(a *inspection, _ []string) string { return a.another() }},
		{says: `VM (\d+) is gone(?: from node ([a-z0-9]+)|[:;,.]|$)`, seldom: "a VM that goes during PVE's own reboot", holds: func(a *inspection, words []string) string {
			return a.mustBe(words[1], "gone", func(w *state.World, g *state.Guest) bool {
				return his(w, g) || words[2] != "" && g.Node != words[2]
			})
		}},
		{says: `[Ii]t runs on, and may go off later`, now: true, holds: func(a *inspection, _ []string) string {
			return a.mustBe(strconv.Itoa(a.vmid()), "running", running)
		}},
		{says: `[Ii]t runs on(?:[^,]|$|, and nothing)`, holds: func(a *inspection, _ []string) string {
			return a.mustBe(strconv.Itoa(a.vmid()), "running", running)
		}},
		{says: `VM (\d+)(?: on node \S+)? runs again`, now: true, holds: func(a *inspection, words []string) string {
			return a.mustBe(words[1], "running", running)
		}},
		{says: `VMID (\d+) is taken|VM (\d+) on node \S+ (?:has this id|is complete)`, holds: func(a *inspection, words []string) string {
			return a.mustBe(words[1]+words[2], "there", there)
		}},
		{says: `(?:[Ii]t|VM \d+[^.\n]*) was not (?:touched|created|changed)|Nothing was (?:touched|changed)`,
			holds: func(a *inspection, _ []string) string { return a.untouched() }},
	}
}

// uncertain tells whether a sentence says that the provider could not look.
func uncertain(text string) bool {
	return strings.Contains(text, "may be gone already") || strings.Contains(text, "cannot be told") ||
		strings.Contains(text, "tell the volumes")
}

func unless(ok bool, why string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(why, args...)
}

// couldBeKnown tells whether the provider read the claim's object after the third party's last act.
func (c claim) couldBeKnown(a *inspection) bool {
	last := a.reports[len(a.reports)-1]
	return c.shownBy == nil || slices.ContainsFunc(a.ops, func(op pvesim.Op) bool {
		return op.Seq >= last.Seq && slices.ContainsFunc(c.shownBy, func(suffix string) bool { return strings.HasSuffix(op.Path, suffix) })
	})
}

// claimsHold finds every sentence that claims something, and looks. It is not untrue when the third party came after the last request.
func (a *inspection) claimsHold(when string, later bool) {
	if a.err == nil {
		a.successHolds(when)
	}
	for _, d := range a.b.s.Diagnostics() {
		for _, c := range claims() {
			if c.now && later {
				continue
			}
			for _, words := range regexp.MustCompile(c.says).FindAllStringSubmatch(d.Summary+"\n"+d.Detail, -1) {
				a.claimed = append(a.claimed, c.says)
				if why := c.holds(a, words); why != "" && !a.afterAll() && c.couldBeKnown(a) {
					a.add("%s, %q is untrue: %s", when, words[0], why)
				}
			}
		}
	}
}

// successHolds: no destroyed object exists, and the state holds no third party's object that existed before the last read.
func (a *inspection) successHolds(when string) {
	l := a.left()
	if a.b.scene.destroys() && l.guest != nil && !a.restoredSince() {
		a.add("%s, VM %d was destroyed, and is there", when, a.vmid())
	}
	if !a.b.scene.destroys() && !a.b.scene.reads && l.his && len(a.b.inState()) > 0 && a.seenAfter() {
		a.add("%s, it ended well, and state has VM %d, which is a third party's", when, a.vmid())
	}
}

// restoredSince tells whether a third party has restored the VM after it was destroyed.
func (a *inspection) restoredSince() bool {
	return slices.ContainsFunc(a.acts, func(d thirdparty.Report) bool {
		return d.Act == thirdparty.Restore && d.Done && slices.ContainsFunc(a.ops, func(op pvesim.Op) bool {
			return op.Seq < d.Seq && op.Method == http.MethodDelete && op.Path == "/nodes/{node}/qemu/{vmid}" && op.Status == http.StatusOK
		})
	})
}

// afterAll tells whether the third party's last act came after every request about the VM.
func (a *inspection) afterAll() bool {
	last := a.reports[len(a.reports)-1]
	return !slices.ContainsFunc(a.ops[min(last.Seq, len(a.ops))-1:], asks(a.vmid()))
}

// seenAfter tells whether a read of the VM has shown the effect of the third party's last act.
func (a *inspection) seenAfter() bool {
	last := a.reports[len(a.reports)-1]
	return slices.ContainsFunc(a.ops, func(op pvesim.Op) bool { return op.Seq >= last.Seq && shows(op, last) })
}

// mustBe looks at a guest.
func (a *inspection) mustBe(vmid, what string, is func(*state.World, *state.Guest) bool) (why string) {
	id, err := strconv.Atoi(vmid)
	if err != nil {
		return "it names no VM"
	}
	a.b.w.Change(func(w *state.World) { why = unless(is(w, w.Guests[id]), "VM %s is not %s", vmid, what) })
	return why
}

// another: the VM at hand is a third party's, or not the one from before.
func (a *inspection) another() string {
	id := a.vmid()
	var was string
	for _, g := range a.before().Guests {
		if g.VMID == id {
			was = g.Config["smbios1"]
		}
	}
	return a.mustBe(strconv.Itoa(id), "another", func(w *state.World, g *state.Guest) bool {
		return g == nil || w.ThirdParties.Guests[g] || g.Config["smbios1"] != was
	})
}

// before is the world that the case began with.
func (a *inspection) before() (w engine.ChangedWorld) {
	_ = json.Unmarshal(a.b.base, &w) // the simulator's own
	return w
}

func (a *inspection) volume(volid string) (there bool) {
	a.b.w.Change(func(w *state.World) {
		for _, v := range w.Volumes {
			there = there || v.Volid() == volid
		}
	})
	return there
}

// sameFirewall: the rules, or the options, of the VM at hand are as they were before.
func (a *inspection) sameFirewall(part string) (why string) {
	if a.left().his || a.left().guest == nil {
		return ""
	}
	var was state.FirewallFile
	for _, f := range a.before().Firewall {
		if f.VMID == a.vmid() {
			was = state.FirewallFile{Options: f.Options, Rules: f.Rules}
		}
	}
	a.b.w.Change(func(w *state.World) {
		is := w.Firewall[a.vmid()]
		if is == nil {
			is = &state.FirewallFile{}
		}
		same := part == "rules" && slices.EqualFunc(is.Rules, was.Rules, maps.Equal) || part == "options" && maps.Equal(is.Options, was.Options)
		why = unless(same, "it is %+v", is)
	})
	return why
}

// untouched: since the third party came, no request of ours that writes to the VM at hand was carried out.
func (a *inspection) untouched() string {
	if a.left().his {
		return "" // it is about the third party's, and that is compared
	}
	since := a.reports[len(a.reports)-1].Seq
	for _, op := range a.ops {
		if op.Seq >= since && op.Method != http.MethodGet && op.VMID == a.vmid() && op.Status == http.StatusOK {
			return op.Method + " " + op.Path + " was carried out"
		}
	}
	return ""
}
