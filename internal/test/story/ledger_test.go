package story_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// ledger knows the contents of all volumes: those of our guests, which users write after each command, and
// those of third parties.
type ledger struct {
	story     *story
	n         int
	ours      map[string]content
	theirs    map[string]content
	export    []byte
	firewalls map[int]string            // made by hand, by guest
	options   map[int]map[string]string // set by hand, by guest
}

// content is where a text was last seen.
type content struct {
	vmid        int
	volid, slot string
	guest       *state.Guest // of ours that names it
}

// moment is what there was when a command began.
type moment struct {
	offs   int
	guests map[int]bool // of ours
}

func newLedger(s *story) *ledger {
	l := &ledger{story: s, ours: map[string]content{}, theirs: map[string]content{}, firewalls: map[int]string{},
		options: map[int]map[string]string{}}
	l.write()
	return l
}

func (l *ledger) moment() moment {
	l.story.w.Change(func(w *state.World) { l.export = w.ExportThirdParties() })
	return moment{offs: len(l.story.w.Sim.PowerOffs()), guests: l.guests()}
}

// guests tells of each guest whether it is ours.
func (l *ledger) guests() (ours map[int]bool) {
	ours = map[int]bool{}
	l.story.w.Change(func(w *state.World) {
		for id, g := range w.Guests {
			ours[id] = !w.ThirdParties.Guests[g]
		}
	})
	return ours
}

// markTheirs gives a volume of a third party's a content of its own.
func (l *ledger) markTheirs(w *state.World, v *state.Volume) {
	if strings.HasPrefix(v.Data, "theirs ") || v.Content != "images" || v.Parent != "" || len(w.Children(v)) > 0 {
		return
	}
	l.n++
	v.Data = fmt.Sprintf("theirs %d", l.n)
}

// sorted are the volumes in the order of their names: the stories of one seed are the same.
func sorted(w *state.World) []*state.Volume {
	return slices.SortedFunc(maps.Values(w.Volumes), func(a, b *state.Volume) int {
		return strings.Compare(a.Node+" "+a.Volid(), b.Node+" "+b.Volid())
	})
}

// naming is the guest of ours that names a volume, and where.
func naming(w *state.World, v *state.Volume) (g *state.Guest, slot string) {
	for _, id := range slices.Sorted(maps.Keys(w.Guests)) {
		g := w.Guests[id]
		if w.ThirdParties.Guests[g] || v.Node != "" && v.Node != g.Node {
			continue
		}
		for _, slot := range slices.Sorted(maps.Keys(g.Config)) {
			if file, _, _ := strings.Cut(g.Config[slot], ","); file == v.Volid() {
				return g, slot
			}
		}
	}
	return nil, ""
}

// write has users write to the disks of our guests that are in a state, and looks where everything is.
func (l *ledger) write() {
	l.story.w.Change(func(w *state.World) {
		clear(l.ours)
		clear(l.theirs)
		for _, v := range sorted(w) {
			g, slot := naming(w, v)
			switch {
			case w.ThirdParties.Volumes[v]:
				l.markTheirs(w, v)
				l.theirs[v.Data] = content{v.VMID, v.Volid(), slot, g}
			case g != nil && g.VMID == v.VMID && v.Content == "images" && !strings.Contains(v.Name, "cloudinit") &&
				l.inState(g.VMID):
				if !strings.HasPrefix(v.Data, "ours ") {
					l.n++
					v.Data = fmt.Sprintf("ours %d", l.n)
				}
				l.ours[v.Data] = content{v.VMID, v.Volid(), slot, g}
			}
		}
		for id, f := range w.Firewall {
			if f.Options["policy_in"] == "DROP" && w.Guests[id] != nil {
				l.firewalls[id] = fmt.Sprint(f.Options, f.Rules)
			}
		}
		l.export = w.ExportThirdParties()
	})
}

func (l *ledger) inState(vmid int) bool { return !(&turn{}).gone(vmid, l.story) }

// judge holds a command to the law.
func (l *ledger) judge(a *turn) {
	s := l.story
	l.powers(a)
	l.texts(a)
	s.w.Change(func(w *state.World) {
		if !a.tooLate() {
			was := l.export
			for _, l := range a.chain {
				s.wrong = append(s.wrong, differences(w, a, was, l.was)...)
				was = l.is
			}
			s.wrong = append(s.wrong, differences(w, a, was, w.ExportThirdParties())...)
			l.theirsStay(w, a)
		}
		l.oursStay(w, a)
		l.firewallsStay(w, a)
		l.optionsStay(w, a)
	})
}

// oursStay: the user's data is there unless the plan named its end, or another has taken it.
func (l *ledger) oursStay(w *state.World, a *turn) {
	found := map[string]*state.Volume{}
	for _, v := range sorted(w) {
		if g, _ := naming(w, v); !w.ThirdParties.Volumes[v] && (found[v.Data] == nil || g != nil) {
			found[v.Data] = v
		}
	}
	for _, data := range slices.Sorted(maps.Keys(l.ours)) {
		was := l.ours[data]
		v := found[data]
		switch {
		case slices.Contains(a.hurts, was.vmid):
		case v == nil && !a.names(was.volid):
			l.story.violated("the user's data %q in %s (%s of VM %d) is gone, and the plan did not name it",
				data, was.volid, was.slot, was.vmid)
		case v == nil:
		default:
			g, _ := naming(w, v)
			if g == nil && w.Guests[was.vmid] == was.guest && !strings.Contains(a.said.String(), v.Name) {
				l.story.violated("the user's data %q in %s is in no slot of VM %d any more, and nothing said so",
					data, v.Volid(), was.vmid)
			}
		}
	}
}

// theirsStay: a disk that a third party has put into a slot of ours stays there.
func (l *ledger) theirsStay(w *state.World, a *turn) {
	for _, data := range slices.Sorted(maps.Keys(l.theirs)) {
		was := l.theirs[data]
		if was.guest == nil || w.Guests[was.vmid] != was.guest || slices.Contains(a.hurts, was.vmid) || len(a.chain) > 0 {
			continue
		}
		var seen []string
		stays := false
		for _, v := range sorted(w) { // a migration that fails leaves copies on the other node
			if v.Data == data {
				g, slot := naming(w, v)
				seen, stays = append(seen, slot), stays || g == was.guest && slot == was.slot
			}
		}
		if len(seen) > 0 && !stays && !a.names(was.volid) {
			l.story.violated("a third party's disk %s was in %s of VM %d, and is in %q", was.volid, was.slot, was.vmid, seen)
		}
	}
}

// firewallsStay: a firewall that was made by hand stays as long as its guest.
func (l *ledger) firewallsStay(w *state.World, a *turn) {
	for id, was := range l.firewalls {
		g := w.Guests[id]
		if g == nil || !a.began.guests[id] || slices.Contains(a.hurts, id) || l.replaced(a, id) {
			delete(l.firewalls, id)
			continue
		}
		if f := w.Firewall[id]; f == nil || fmt.Sprint(f.Options, f.Rules) != was {
			l.story.violated("the firewall of VM %d that a third party made is changed: %v", id, f)
		}
	}
}

// setByHand notes an option that a third party has set, and that no command of a story changes.
func (l *ledger) setByHand(vmid int, option, value string) {
	if l.options[vmid] == nil {
		l.options[vmid] = map[string]string{}
	}
	l.options[vmid][option] = value
}

// optionsStay: an option that was set by hand stays as long as its guest, in force or waiting.
func (l *ledger) optionsStay(w *state.World, a *turn) {
	for id, set := range l.options {
		g := w.Guests[id]
		if g == nil || !a.began.guests[id] || slices.Contains(a.hurts, id) || l.replaced(a, id) {
			delete(l.options, id)
			continue
		}
		for option, value := range set {
			if is := cmp.Or(g.Pending[option], g.Config[option]); is != value {
				l.story.violated("%s of VM %d was set to %s by hand, and is %q", option, id, value, is)
				delete(set, option)
			}
		}
	}
}

// replaced tells whether the plan ends a VM.
func (l *ledger) replaced(a *turn, id int) bool {
	if a.plan == nil {
		return false
	}
	return slices.ContainsFunc(a.plan.Changes, func(c *terraformtest.Change) bool {
		return (c.Action == terraformtest.Replace || c.Action == terraformtest.Delete) &&
			terraformtest.Text(c.Prior, "vmid") == fmt.Sprint(id)
	})
}

// saysOff are words of a message that announce that a guest goes off.
var saysOff = regexp.MustCompile(`(?i)restart|reboot|shut ?down|shut off|stop|cut off|power|off\b`)

// addressOf is the address of a VM, or what names a guest that is none of the working directory.
func addressOf(a *turn, vmid int) string {
	for _, m := range a.dir.vms {
		if m.vmid == vmid {
			return m.address()
		}
	}
	return fmt.Sprint("VM ", vmid)
}

// powers: a guest of ours goes off only where the plan or a message says so.
func (l *ledger) powers(a *turn) {
	s := l.story
	all := s.w.Sim.PowerOffs()
	for _, off := range all[min(a.began.offs, len(all)):] {
		if off.User != s.user || !a.began.guests[off.VMID] || off.VMID == a.rolledBack || !a.asksFor(off.VMID) {
			continue
		}
		said := slices.ContainsFunc(a.said, func(d terraformtest.Diagnostic) bool {
			text := d.Summary + d.Detail
			return saysOff.MatchString(text) && strings.Contains(text+d.Address, addressOf(a, off.VMID))
		})
		if l.replaced(a, off.VMID) || said {
			continue
		}
		asked := a.plan != nil && slices.ContainsFunc(a.plan.Changes, func(c *terraformtest.Change) bool {
			lines := strings.Join(terraformtest.Differences(c.Prior, c.Planned), "\n")
			return c.Action == terraformtest.Update && terraformtest.Text(c.Prior, "vmid") == fmt.Sprint(off.VMID) &&
				(strings.Contains(lines, "status") || strings.Contains(lines, "power_state") || strings.Contains(lines, "ha"))
		})
		if !asked {
			s.violated("VM %d was switched off (%s by %s), which neither plan nor messages said", off.VMID, off.Kind,
				off.TaskType)
		}
	}
}

// texts: no rule of Terraform is broken, and each error has a next step.
func (l *ledger) texts(a *turn) {
	for _, d := range a.said {
		switch {
		case d.Violation && a.err != nil && (a.acted || a.troubled) && strings.Contains(d.Summary, "inconsistent final plan"):
		case d.Violation:
			l.story.violated("a rule of Terraform is broken: %s", d)
		case d.Error && d.RPC != "walk" && !nextStep.MatchString(d.Summary+"\n"+d.Detail) && !excused.MatchString(d.Detail):
			l.story.violated("an error without a next step: %s", d)
		}
	}
}

// nextStep are words of an advice, or of an error that refers to another one, which has it.
var nextStep = regexp.MustCompile("(?i)next step|next apply|next plan|next destroy|again|does not answer, as for|`|" +
	"two ways|as root|depends_on|detach it|choose|leave |have it|bring it|set |remove the|run terraform|import |write size|" +
	"also used by|has no snapshot|got another|was not touched|does not have the disk|" +
	"eject it|cannot be attached|attaches only|adopts only|it bears no mark|waiting for")

// excused are errors whose cause no text of PVE's tells, or that the user has brought about (a disk on a storage of
// another node), and those that are known to lack a next step: the move of a disk with a snapshot, a migration that
// PVE refuses, a guest that is gone.
var excused = regexp.MustCompile("injected failure|unexpected status|context canceled|interrupted|disk with snapshots|" +
	`was not migrated|volume '\S+' does not exist|conf' does not exist|hotplug problem|could not be destroyed|` +
	"not most recent snapshot|snapshot feature")

// nothingUnnamed: each of our objects that is left at the end was named.
func (l *ledger) nothingUnnamed() {
	s := l.story
	s.w.Change(func(w *state.World) {
		for _, id := range slices.Sorted(maps.Keys(w.Guests)) {
			if !w.ThirdParties.Guests[w.Guests[id]] && !strings.Contains(s.said, fmt.Sprint("VM ", id)) && !l.inState(id) {
				s.violated("VM %d is left, and nothing named it", id)
			}
		}
		for _, v := range sorted(w) {
			if !w.ThirdParties.Volumes[v] && !strings.Contains(s.said, v.Name) && !ofGuest(w, v) && !l.inState(v.VMID) {
				s.violated("volume %s on %s is left, and nothing named it", v.Volid(), v.Node)
			}
		}
		for sid := range w.HA {
			if id := strings.TrimPrefix(sid, "vm:"); !strings.Contains(s.said, sid) && !strings.Contains(s.said, "VM "+id) &&
				!l.inState(number(id)) {
				s.violated("HA entry %s is left, and nothing named it", sid)
			}
		}
	})
}

// number is the number that a text is, 0 if it is none.
func number(text string) (n int) {
	_, _ = fmt.Sscan(text, &n) // then it is 0
	return n
}

// ofGuest tells whether a guest has a volume, with which it is named.
func ofGuest(w *state.World, v *state.Volume) bool {
	for _, g := range w.Guests {
		if slices.Contains(g.Volids(), v.Volid()) {
			return true
		}
	}
	return false
}
