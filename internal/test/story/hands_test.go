package story_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// The moments at which a third party may act.
const (
	beforeCommand = "before the command"
	afterPlan     = "between plan and apply"
	amidRequests  = "between two requests"
)

// hand is something that a third party does to a guest of ours: acts of the simulator, or a change of its world.
type hand struct {
	name  string
	first []thirdparty.Order // before the command at the latest, so that the others can be done
	then  []thirdparty.Order
	do    func(s *story, w *state.World, vmid int) bool
	// lasts: its effect comes or goes later, so a plan that was made after it may be out of date.
	lasts bool
}

// hands are all of them.
func hands() []hand {
	order, prepared := thirdparty.Orders, thirdparty.Preparations()
	prepared[thirdparty.Imitate] = order(thirdparty.Describe)
	brief := []thirdparty.Act{thirdparty.Lock, thirdparty.MakeID, thirdparty.StorageOffline, thirdparty.NodeOffline,
		thirdparty.NodeCrash, thirdparty.Fill, thirdparty.BackupRun}
	later := append([]thirdparty.Act{thirdparty.HAMove, thirdparty.AddHA, thirdparty.StaleLock}, brief...)
	var list []hand
	for _, act := range thirdparty.Acts() {
		h := hand{name: string(act), first: prepared[act], then: order(act), lasts: slices.Contains(later, act)}
		if slices.Contains(brief, act) {
			h.then[0].ForMS = 20_000
		}
		list = append(list, h)
	}
	return append(list,
		hand{name: "id given to another guest", then: order(thirdparty.Delete, thirdparty.TakeID)},
		hand{name: "backup, delete and restore", first: order(thirdparty.Backup),
			then: order(thirdparty.Delete, thirdparty.Restore)},
		hand{name: "disk put into a slot", do: putDisk},
		hand{name: "disk exchanged in a slot", do: exchangeDisk},
		hand{name: "firewall made", do: makeFirewall},
		hand{name: "boot order set", do: setBootOrder},
		hand{name: "medium put into a drive", do: putMedium},
		hand{name: "removal of a disk that waits", do: removeDisk},
	)
}

// cue is when an act comes.
type cue struct {
	hand   hand
	moment string
	nth    int
	method string
}

// drawCue draws an act. The number of the story takes turns through the acts, so that few stories have all of them.
func (s *story) drawCue(n int) cue {
	all := hands()
	return cue{hand: all[(int(s.seed)*2+n)%len(all)], moment: pick(s, []string{beforeCommand, afterPlan, amidRequests}),
		nth: 1 + s.rng.IntN(6), method: pick(s, []string{http.MethodPost, http.MethodPut, http.MethodGet, http.MethodDelete})}
}

// subject is the guest that an act is about: a VM of the working directory that is there, or the holder of its
// disk.
func (s *story) subject(d *workdir) int {
	var ids []int
	s.w.Change(func(w *state.World) {
		for _, m := range d.vms {
			if g := w.Guests[m.vmid]; g != nil && !w.ThirdParties.Guests[g] {
				ids = append(ids, m.vmid, m.vmid)
			}
		}
		if d.disk != nil && w.Guests[300] != nil {
			ids = append(ids, 300)
		}
	})
	if len(ids) == 0 {
		return pick(s, d.vms).vmid
	}
	return pick(s, ids)
}

// cue lets the third party act, if this is the moment.
func (s *story) cue(a *turn, moment string) {
	c := a.cue
	if c.hand.name == "" || c.moment != moment || a.cued {
		return
	}
	a.cued = true
	a.vmid = s.subject(a.dir)
	s.tell("third party, %s: %s of %d", moment, c.hand.name, a.vmid)
	for _, o := range c.hand.first {
		s.atOnce(a, o)
		a.acted = a.acted || moment != beforeCommand
	}
	if moment == amidRequests {
		s.amid(a)
		return
	}
	a.acted = a.acted || moment == afterPlan || c.hand.lasts
	done := false
	for _, o := range c.hand.then {
		done = s.atOnce(a, o)
	}
	if c.hand.do != nil {
		s.w.Change(func(w *state.World) { done = s.byHand(a, w, 0) })
	}
	s.effective(a, done)
	a.began.guests = s.ledger.guests() // the next command may make one where one was deleted
	if moment == beforeCommand {
		s.w.Sim.Advance(15 * time.Second) // the listing has caught up
	}
}

// byHand is an act that is none of the simulator's, with what belongs to third parties before and after it. It came
// before the request of a number, or at once if that is 0.
func (s *story) byHand(a *turn, w *state.World, seq int) bool {
	g := w.Guests[a.vmid]
	if g == nil || w.ThirdParties.Guests[g] || g.Type != "qemu" || g.IsTemplate() || g.Lock() != "" {
		return false
	}
	was := w.ExportThirdParties()
	done := a.cue.hand.do(s, w, a.vmid)
	a.chain = append(a.chain, link{seq, was, w.ExportThirdParties(), thirdparty.Act(a.cue.hand.name), a.vmid})
	return done
}

// effective counts an act that was done.
func (s *story) effective(a *turn, done bool) {
	if done {
		s.count("by hand", a.cue.hand.name)
		s.count("moment", a.cue.moment)
	}
	s.tell("third party: done %t", done)
}

// atOnce has the simulator carry an act out now.
func (s *story) atOnce(a *turn, o thirdparty.Order) bool {
	o.VMID = a.vmid
	report := s.w.Sim.ThirdParty(o)
	s.drain(a)
	return report.Done
}

// drain takes what third parties have done since the last time, the ends of their tasks too.
func (s *story) drain(a *turn) (done bool) {
	reports := s.w.Sim.Reports()
	for _, d := range reports[a.drained:] {
		done = s.keep(a, d)
	}
	a.drained = len(reports)
	return done
}

// amid orders an act for a request of the apply to come.
func (s *story) amid(a *turn) {
	c := a.cue
	if c.hand.do != nil {
		s.guide.after(c.nth, func(w *state.World) {
			a.acted = true
			a.amidDone = s.byHand(a, w, s.guide.seq)
		})
		return
	}
	var list []thirdparty.Order
	for _, o := range c.hand.then {
		o.VMID, o.Before = a.vmid, fault.Match{Method: c.method, Nth: c.nth}
		if c.method == http.MethodGet {
			o.Before.Nth *= 3
		}
		list = append(list, o)
	}
	s.drain(a)
	s.w.Sim.SetThirdParties(list)
	a.ordered, a.drained = true, 0
}

// reported takes what has become of the orders.
func (s *story) reported(a *turn) {
	if a.ordered {
		a.acted = a.acted || len(s.w.Sim.Reports()) > a.drained
		a.amidDone = s.drain(a)
		s.w.Sim.SetThirdParties(nil) // the moment is over
		a.ordered, a.drained = false, 0
	}
	if a.cued && a.cue.moment == amidRequests {
		s.effective(a, a.amidDone)
	}
}

// keep notes an act of the simulator.
func (s *story) keep(a *turn, d thirdparty.Report) bool {
	a.chain = append(a.chain, link{d.Seq, d.Was, d.Is, d.Act, d.About})
	if !d.Done {
		s.tell("%s was refused: %s", d.Act, d.Why)
		if strings.Contains(d.Why, "hotplug problem") { // PVE keeps the change for the next start
			s.tell("it waits for the next start of %d", d.About)
			a.acted = a.acted || a.plan != nil
		}
		return false
	}
	switch d.Act {
	case thirdparty.Delete, thirdparty.Restore, thirdparty.RestoreHis, thirdparty.Rollback:
		a.hurt(d.About)
	}
	if d.Act == thirdparty.Restore && a.gone(d.About, s) { // no state has it: it belongs to the one who has restored it
		s.w.Change(func(w *state.World) { w.ThirdParties.Guests[w.Guests[d.About]] = true })
	}
	return true
}

// free is a slot of a guest without a disk.
func free(g *state.Guest) string {
	for _, slot := range slots() {
		if g.Config[slot] == "" && g.Pending[slot] == "" {
			return slot
		}
	}
	return ""
}

// makeDisk makes a disk of a third party's under the id of a guest.
func makeDisk(s *story, w *state.World, g *state.Guest) *state.Volume {
	v, err := w.Alloc(g.Node, pick(s, s.place.storages), g.VMID, "", "raw", 1<<30)
	if err != nil {
		return nil
	}
	w.ThirdParties.Volumes[v] = true
	s.ledger.markTheirs(w, v)
	return v
}

// putDisk puts a disk with the third party's data into a free slot.
func putDisk(s *story, w *state.World, vmid int) bool {
	g := w.Guests[vmid]
	slot := free(g)
	if slot == "" {
		return false
	}
	v := makeDisk(s, w, g)
	if v == nil {
		return false
	}
	g.Config[slot] = v.Volid() + ",size=1G"
	return true
}

// exchangeDisk detaches the last disk, and puts one with the third party's data into its slot.
func exchangeDisk(s *story, w *state.World, vmid int) bool {
	g := w.Guests[vmid]
	for _, slot := range slices.Backward(slices.Sorted(maps.Keys(g.Config))) {
		volid, _, _ := strings.Cut(g.Config[slot], ",")
		old := w.Volume(g.Node, volid)
		if old == nil || old.VMID != vmid || !slices.Contains(slots(), slot) || g.Running != nil {
			continue
		}
		for n := range 10 {
			if unused := fmt.Sprint("unused", n); g.Config[unused] == "" {
				g.Config[unused] = volid
				v := makeDisk(s, w, g)
				if v == nil {
					delete(g.Config, unused)
					return false
				}
				g.Config[slot] = v.Volid() + ",size=1G"
				return true
			}
		}
	}
	return false
}

// makeFirewall sets a firewall of a guest that has none.
func makeFirewall(_ *story, w *state.World, vmid int) bool {
	if f := w.Firewall[vmid]; f != nil && len(f.Options)+len(f.Rules) > 0 {
		return false
	}
	w.Firewall[vmid] = &state.FirewallFile{Options: map[string]string{"enable": "1", "policy_in": "DROP"},
		Rules: []map[string]string{{"type": "in", "action": "ACCEPT", "proto": "tcp", "dport": "22", "enable": "1"}}}
	return true
}

// setBootOrder sets an order that no command of a story changes. That of a guest that runs waits.
func setBootOrder(s *story, w *state.World, vmid int) bool {
	const order = "order=net0"
	g := w.Guests[vmid]
	values := g.Config
	if g.Running != nil {
		values = g.Pending
	}
	if g.Config["net0"] == "" || g.Config["boot"] == order || values == nil {
		return false
	}
	values["boot"] = order
	s.ledger.setByHand(vmid, "boot", order)
	return true
}

// putMedium puts a medium into a drive that the guest has got for it.
func putMedium(s *story, w *state.World, vmid int) bool {
	const slot, medium = "ide2", "local:iso/debian.iso"
	g := w.Guests[vmid]
	if g.Config[slot] != "" || g.Pending[slot] != "" || w.Volume(g.Node, medium) == nil {
		return false
	}
	g.Config[slot] = medium + ",media=cdrom"
	s.ledger.setByHand(vmid, slot, g.Config[slot])
	return true
}

// removeDisk takes a disk out of a guest that does not let go of it before its stop.
func removeDisk(_ *story, w *state.World, vmid int) bool {
	g := w.Guests[vmid]
	if g.Running == nil {
		return false
	}
	for _, slot := range slots() {
		if g.Config[slot] != "" && g.Pending[slot] == "" && g.Deletes[slot] == 0 {
			if g.Deletes == nil {
				g.Deletes = map[string]int{}
			}
			g.Deletes[slot] = 1
			return true
		}
	}
	return false
}
