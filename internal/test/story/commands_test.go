package story_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// command is something that a user does in a working directory.
type command struct {
	name   string
	weight int
	do     func(*story, *turn)
}

// commands are all of them, with how often they come.
func commands() []command {
	return []command{
		{"apply with edits", 8, func(s *story, a *turn) { s.edit(a); s.planAndApply(a) }},
		{"apply", 3, func(s *story, a *turn) { s.planAndApply(a) }},
		{"saved plan applied later", 2, func(s *story, a *turn) {
			s.edit(a)
			a.later = time.Duration(1+s.rng.IntN(100)) * time.Minute
			s.planAndApply(a)
		}},
		{"plan", 1, func(s *story, a *turn) { s.edit(a); s.plan(a) }},
		{"apply with trouble", 5, func(s *story, a *turn) { s.edit(a); a.trouble = pick(s, troubles()); s.planAndApply(a) }},
		{"apply without refresh", 1, func(s *story, a *turn) {
			s.edit(a)
			a.partial = true
			s.planAndApply(a, terraformtest.WithoutRefresh())
		}},
		{"replace", 1, func(s *story, a *turn) { s.planAndApply(a, terraformtest.Replacing(pick(s, a.dir.vms).address())) }},
		{"target", 1, (*story).target},
		{"taint and apply", 1, func(s *story, a *turn) {
			a.dir.session.Taint(pick(s, a.dir.vms).address(), true)
			s.planAndApply(a)
		}},
		{"taint and untaint", 1, func(s *story, a *turn) {
			address := pick(s, a.dir.vms).address()
			a.dir.session.Taint(address, true)
			s.plan(a)
			a.dir.session.Taint(address, false)
			s.planAndApply(a)
		}},
		{"untaint and apply", 1, func(s *story, a *turn) {
			for _, m := range a.dir.vms { // what a failed create has left
				a.dir.session.Taint(m.address(), false)
			}
			s.planAndApply(a)
		}},
		{"state rm and import", 1, (*story).reimport},
		{"roll back", 2, (*story).rollBack},
		{"destroy", 2, func(s *story, a *turn) {
			if s.odds(3) {
				a.trouble = pick(s, troubles())
			}
			a.ends = true
			s.planAndApply(a, terraformtest.ToDestroy())
		}},
	}
}

// trouble is something that goes wrong in an apply, at or after its n-th write.
type trouble struct {
	name   string
	faults func(n int) []fault.Rule
	// after the n-th write; kills are told apart since Terraform's state is then the one from before.
	interrupt, kill bool
}

func troubles() []trouble {
	at := func(phase fault.Phase) func(int) []fault.Rule {
		return func(n int) []fault.Rule {
			rule := func(method string, nth int) fault.Rule {
				return fault.Rule{Match: fault.Match{Method: method, Nth: nth}, Phase: phase}
			}
			return []fault.Rule{rule(http.MethodPost, n), rule(http.MethodPut, n)}
		}
	}
	return []trouble{
		{name: "refused", faults: at(fault.Before)}, {name: "lost answer", faults: at(fault.After)},
		{name: "failed task", faults: at(fault.Task)}, {name: "killed task", faults: at(fault.KillTask)},
		{name: "partial task", faults: at(fault.Partial)},
		{name: "interrupt", interrupt: true}, {name: "kill", kill: true},
		{name: "lost read", faults: func(n int) []fault.Rule {
			read := fault.Match{Method: http.MethodGet, Nth: 5 * n}
			return []fault.Rule{{Match: read, Phase: fault.Before, Status: 599, Times: 20}}
		}},
	}
}

// act is one command of the story, with what third parties do at it.
func (s *story) act(n int) {
	d := pick(s, s.dirs)
	a := &turn{dir: d, cue: s.script[n]}
	c := s.drawCommand(d, a.cue)
	s.note("%s: %s", d.name, c.name)
	s.w.Sim.SetThirdParties(nil)
	a.began = s.ledger.moment()
	s.cue(a, beforeCommand)
	before := d.copy()
	c.do(s, a)
	if a.plan == nil || a.refused { // an edit that a plan refuses is taken back
		d.vms, d.disk = before.vms, before.disk
		s.configure(d)
	}
	s.cue(a, afterPlan) // the command has made no plan, or only one
	if a.ran {
		s.count("command", c.name)
	}
	s.w.Sim.SetFaults(nil)
	s.drain(a)
	s.ledger.judge(a)
	s.w.Sim.SetThirdParties(nil)
	s.ledger.write()
	s.w.Sim.Advance(time.Duration(s.rng.IntN(40)) * time.Second)
}

func (s *story) drawCommand(d *workdir, c cue) command {
	all := commands()
	if !d.reached {
		all = all[:5]
		all[0].weight, all[3].weight = 2, 0
	}
	if c.hand.name != "" { // there should be something to come between
		all = slices.DeleteFunc(all, func(c command) bool { return c.weight < 2 || c.name == "apply" })
	}
	sum := 0
	for _, c := range all {
		sum += c.weight
	}
	n := s.rng.IntN(sum)
	for _, c := range all {
		if n -= c.weight; n < 0 {
			return c
		}
	}
	return all[0]
}

// edit changes the configuration in one to three ways.
func (s *story) edit(a *turn) {
	if !a.dir.reached {
		return
	}
	for wanted := 1 + s.rng.IntN(3); len(a.edits) < wanted; {
		e := pick(s, edits())
		if text := e.do(s, a.dir, pick(s, a.dir.vms)); text != "" {
			s.tell("edit: %s", text)
			a.edits = append(a.edits, e.name)
		}
	}
}

// plan plans, and holds the plan to write nothing.
func (s *story) plan(a *turn, opts ...terraformtest.PlanOption) bool {
	s.configure(a.dir, a.only...)
	a.ran = true
	ctx, end := s.guide.begin(a.dir.session)
	defer end()
	at := s.w.Sim.LastOp()
	pl, err := a.dir.session.Plan(ctx, opts...)
	for _, op := range s.w.Sim.OpsAfter(at) {
		if op.Method != http.MethodGet && op.Path != "/access/ticket" {
			s.violated("a plan has sent %s %s", op.Method, op.Path)
		}
	}
	s.listen(a, err)
	a.refused = err != nil
	if pl != nil {
		s.tell("plan: %s", regexp.MustCompile(`(?m)^.*\(absent\) -> null\n`).ReplaceAllString(pl.String(), ""))
		if a.plan == nil || err == nil {
			a.plan = pl
		}
	}
	return err == nil
}

// listen keeps the messages of the last operation.
func (s *story) listen(a *turn, err error) {
	said := a.dir.session.Diagnostics()
	a.said = append(a.said, said...)
	for _, d := range said {
		s.said += d.String() + "\n"
		s.tell("%s", d)
	}
	a.err = err
}

// planAndApply applies what a plan says.
func (s *story) planAndApply(a *turn, opts ...terraformtest.PlanOption) {
	if !s.plan(a, opts...) {
		return
	}
	if len(a.only) > 0 { // a target does not end what stands beside it
		a.plan.Changes = slices.DeleteFunc(a.plan.Changes, func(c *terraformtest.Change) bool {
			return c.Action == terraformtest.Delete && !slices.Contains(a.only, c.Address)
		})
	}
	s.cue(a, afterPlan)
	s.w.Sim.Advance(a.later)
	saved := a.dir.session.SaveState()
	ctx, end := s.guide.begin(a.dir.session)
	at := s.w.Sim.LastOp()
	s.cue(a, amidRequests)
	s.arm(a)
	err := a.dir.session.Apply(ctx, a.plan)
	end()
	fired := s.w.Sim.FaultsFired() > 0
	s.w.Sim.SetFaults(nil)
	a.dir.reached, a.applied, a.ops = true, true, s.w.Sim.OpsAfter(at)
	s.listen(a, err)
	s.reported(a)
	s.showRequests(a)
	s.tell("apply: %d requests, error %t", len(a.ops), err != nil)
	if a.trouble.name != "" && (fired || s.guide.pressed && a.trouble.interrupt) {
		a.troubled = true
		s.count("trouble", a.trouble.name)
	}
	if a.trouble.kill && fired {
		s.died(a, saved)
	}
	if err == nil {
		for _, e := range a.edits {
			s.count("edit", e)
		}
		s.planAgain(a)
	}
}

// arm sets what goes wrong in the apply.
func (s *story) arm(a *turn) {
	n := 1 + s.rng.IntN(5)
	switch {
	case a.trouble.faults != nil:
		s.w.Sim.SetFaults(a.trouble.faults(n))
	case a.trouble.interrupt:
		s.guide.after(n, func(*state.World) { s.guide.interrupt() })
	case a.trouble.kill:
		s.guide.after(n, func(*state.World) { s.w.Sim.SetFaults(deaf()) })
	default:
		return
	}
	s.tell("trouble: %s, write %d", a.trouble.name, n)
}

// died makes a provider that was cut off one that is dead: its mark names a process that is none, and Terraform
// has the state from before, unless something else of the same apply had been done, which is in state then.
func (s *story) died(a *turn, saved terraformtest.SavedState) {
	changes := 0
	for _, c := range a.plan.Changes {
		if c.Action != terraformtest.NoOp {
			changes++
		}
	}
	if changes == 1 {
		a.dir.session.RestoreState(saved)
	}
	a.dead = true
	cred := s.w.Sim.Credentials()
	s.w.Change(func(w *state.World) {
		for _, g := range w.Guests {
			if text := g.Config["description"]; text != "" && !w.ThirdParties.Guests[g] {
				g.Config["description"] = rig.Resign(cred, text, rig.OfADeadProcess)
			}
		}
	})
}

// planAgain wants an empty plan after an apply that has succeeded, unless a third party has acted since its plan.
func (s *story) planAgain(a *turn) {
	if a.partial || a.acted || a.dead || announcesMore.MatchString(a.said.String()) {
		return
	}
	s.awaitHA()
	var opts []terraformtest.PlanOption
	if a.ends {
		opts = append(opts, terraformtest.ToDestroy())
	}
	if pl, err := a.dir.session.Plan(s.Context(), opts...); err != nil || !pl.Empty() && !s.knownSnapshot(a, pl) {
		s.violated("the apply has succeeded, and the next plan is not empty: %v\n%s", err, pl)
	}
}

// announcesMore are words of messages after which the next plan has more to do: nothing was refreshed, or a guest has
// gone off unseen by the listing.
var announcesMore = regexp.MustCompile("was not refreshed|the next one does")

// awaitHA gives HA's manager its round: PVE only files the start of a guest under HA.
func (s *story) awaitHA() {
	filed := false
	s.w.Change(func(w *state.World) { filed = len(w.HA) > 0 })
	if filed {
		// A round of the manager, a start, and a round of pvestatd, from which the listing is.
		s.w.Sim.Advance(30 * time.Second)
	}
}

// knownSnapshot tells whether a plan only takes the snapshots of machines that the apply has replaced: their id is
// configured, so nothing told the plan before that they would go with their machine.
func (s *story) knownSnapshot(a *turn, pl *terraformtest.Plan) bool {
	return !slices.ContainsFunc(pl.Changes, func(c *terraformtest.Change) bool {
		name, isSnapshot := strings.CutPrefix(c.Address, "proxmox_vm_snapshot.")
		vm := a.plan.Change("proxmox_vm." + name)
		return c.Action != terraformtest.NoOp && !(isSnapshot && c.Action == terraformtest.Create && vm != nil &&
			(vm.Action == terraformtest.Replace || vm.Action == terraformtest.Create))
	})
}
