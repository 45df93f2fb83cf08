package acctest_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// claim is a sentence of the provider's and what must be so in the world where it is said. The words that match are given to it.
type claim struct {
	says  *regexp.Regexp
	holds func(a *aftermath, words []string) string // why it is untrue, "" if it is true
}

// claims are the sentences that say how the world is. Where no guest is named, they are about the VM at hand.
func claims() []claim {
	return []claim{
		{regexp.MustCompile(`nothing is left on the server`), func(a *aftermath, _ []string) string {
			l := a.left()
			if l.guest != nil || len(l.orphans) > 0 || len(l.others) > 0 {
				return "something of ours is left"
			}
			return ""
		}},
		{regexp.MustCompile(`VM (\d+)(?: on node \S+)? is somebody else's`), func(a *aftermath, words []string) string {
			return a.mustBe(words[1], "somebody else's", func(w *state.World, g *state.Guest) bool { return g == nil || w.Strange.Guests[g] })
		}},
		{regexp.MustCompile(`(?:It|it) runs on\b`), func(a *aftermath, _ []string) string {
			return a.mustBe(strconv.Itoa(a.b.scene.vmid), "running", func(_ *state.World, g *state.Guest) bool {
				return g != nil && g.Running != nil
			})
		}},
		{regexp.MustCompile(`VM (\d+) is gone`), func(a *aftermath, words []string) string {
			return a.mustBe(words[1], "gone", func(w *state.World, g *state.Guest) bool { return g == nil || w.Strange.Guests[g] })
		}},
		{regexp.MustCompile(`(?:It|it|VM (\d+)[^.\n]*) was not touched|Nothing was (?:touched|changed)`), func(a *aftermath, _ []string) string {
			return a.untouched()
		}},
	}
}

// claimsHold finds every sentence that claims something, and looks.
func (a *aftermath) claimsHold(when string) {
	if a.err == nil {
		a.successHolds(when)
	}
	for _, d := range a.b.s.Diagnostics() {
		for _, c := range claims() {
			for _, words := range c.says.FindAllStringSubmatch(d.Summary+"\n"+d.Detail, -1) {
				if why := c.holds(a, words); why != "" {
					a.add("%s, %q is untrue: %s", when, words[0], why)
				}
			}
		}
	}
}

// successHolds: what was made or changed is there, what was destroyed is not.
func (a *aftermath) successHolds(when string) {
	l := a.left()
	if a.b.scene.after == "" && l.guest != nil && !strings.Contains(a.said(), "still") {
		a.add("%s, VM %d was destroyed, and is there", when, a.b.scene.vmid)
	}
}

// mustBe looks at a guest.
func (a *aftermath) mustBe(vmid, what string, is func(*state.World, *state.Guest) bool) (why string) {
	id, err := strconv.Atoi(vmid)
	if err != nil {
		return "it names no VM"
	}
	a.b.w.Change(func(w *state.World) {
		if !is(w, w.Guests[id]) {
			why = "VM " + vmid + " is not " + what
		}
	})
	return why
}

// untouched: no request of ours that writes to the VM at hand was carried out.
func (a *aftermath) untouched() string {
	if a.left().his {
		return "" // it is about the stranger's, and that is compared
	}
	for _, op := range a.ops {
		if op.Method != http.MethodGet && op.VMID == a.b.scene.vmid && op.Status == 200 {
			return op.Method + " " + op.Path + " was carried out"
		}
	}
	return ""
}
