package story_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// target applies one machine alone, with its dependencies.
func (s *story) target(a *turn) {
	s.edit(a)
	m := pick(s, a.dir.vms)
	a.only, a.partial = []string{m.name}, true
	s.tell("target: %s", m.address())
	s.planAndApply(a)
	a.only = nil
	s.configure(a.dir)
}

// reimport forgets a machine, and imports it again.
func (s *story) reimport(a *turn) {
	m, session := pick(s, a.dir.vms), a.dir.session
	if !slices.Contains(session.Addresses(), m.address()) {
		return
	}
	s.configure(a.dir)
	saved := session.SaveState()
	node := terraformtest.Text(session.Attr(m.address(), "node"), "")
	for _, at := range []string{"node"} {
		if i, err := session.Instance(m.address()); err == nil {
			node = terraformtest.Text(i.Value, at)
		}
	}
	session.Forget(m.address())
	err := session.Import(s.Context(), m.address(), fmt.Sprintf("%s/%d", node, m.vmid))
	s.listen(a, err)
	if err != nil {
		session.RestoreState(saved)
		return
	}
	a.ran = true
	s.w.Change(func(w *state.World) { // the user has decided whose it is
		delete(w.ThirdParties.Guests, w.Guests[m.vmid])
		for _, v := range w.Volumes {
			if g, _ := naming(w, v); g != nil && g.VMID == m.vmid && v.VMID == m.vmid {
				delete(w.ThirdParties.Volumes, v)
			}
		}
	})
	a.began = s.ledger.moment()
	s.planAndApply(a)
}

// rollBack invokes the action for a machine whose snapshot is in state.
func (s *story) rollBack(a *turn) {
	for _, m := range a.dir.vms {
		if !slices.Contains(a.dir.session.Addresses(), "proxmox_vm_snapshot."+m.name) {
			continue
		}
		s.configure(a.dir)
		hcl := fmt.Sprintf("action \"proxmox_vm_snapshot_rollback\" \"it\" {\nconfig {\n  vmid = %d\n"+
			"  name = \"before\"\n  start = %t\n}\n}\n", m.vmid, s.odds(2))
		ctx, end := s.guide.begin(a.dir.session)
		at := s.w.Sim.LastOp()
		s.cue(a, amidRequests)
		_, err := a.dir.session.Invoke(ctx, "action.proxmox_vm_snapshot_rollback.it", nil, hcl)
		end()
		a.ops = s.w.Sim.OpsAfter(at)
		s.listen(a, err)
		s.reported(a)
		s.showRequests(a)
		a.hurt(m.vmid)
		a.rolledBack = m.vmid
		a.ran = err == nil
		return
	}
}

// end destroys everything, and looks at what is left.
func (s *story) end() {
	s.w.Sim.SetFaults(nil)
	s.w.Sim.SetThirdParties(nil)
	s.w.Sim.Advance(time.Hour) // nodes and storages are back, tasks have ended
	for _, d := range slices.Backward(s.dirs) {
		for try := range 2 {
			s.w.Sim.SetThirdParties(nil)
			a := &turn{dir: d, began: s.ledger.moment(), did: did{ends: true}}
			s.note("%s: destroy everything, try %d", d.name, try+1)
			d.empty = try > 0 // the configuration may be what stops the plan
			s.planAndApply(a, terraformtest.ToDestroy())
			s.ledger.judge(a)
			s.ledger.write()
			if a.err == nil || len(s.wrong) > 0 {
				break
			}
			s.w.Sim.Advance(10 * time.Minute)
		}
	}
	if len(s.wrong) == 0 { // what stays in state was in the way of something, or something of it, which an error named
		s.ledger.nothingUnnamed()
	}
}
