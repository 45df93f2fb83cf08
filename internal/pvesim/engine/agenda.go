package engine

import (
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// appointment is something that happens at its time without a request: a third party lets go of a lock, the HA
// manager has its next round.
type appointment struct {
	at time.Time
	do func()
}

// After makes an appointment. It is kept late, at the next request or at the end of a wait. No client can tell
// the difference. do runs with the mutex held and must not wait.
func (e *Engine) After(d time.Duration, do func()) {
	a := appointment{e.World.Clock.Now().Add(max(d, 0)), do}
	i, _ := slices.BinarySearchFunc(e.agenda, a, func(x, y appointment) int {
		if x.at.After(y.at) {
			return 1
		}
		return -1 // behind those of the same time
	})
	e.agenda = slices.Insert(e.agenda, i, a)
}

// agendaStep is how long a wait sleeps at most while there are appointments, so that they are kept in time.
const agendaStep = time.Second

// expecting reports whether there are appointments, or resources of HA, which may make some.
func (e *Engine) expecting() bool { return len(e.agenda) > 0 || len(e.World.HA) > 0 }

// Pass keeps the appointments that time has brought. It returns how much of the time that is to come may pass before
// the next look at the agenda.
func (e *Engine) Pass(left time.Duration) (step time.Duration) {
	e.Do(func(*state.World) {
		step = left
		if e.expecting() {
			step = min(left, agendaStep)
		}
	})
	return step
}

// Keep keeps the appointments whose time has come.
func (e *Engine) Keep() {
	for len(e.agenda) > 0 && !e.agenda[0].at.After(e.World.Clock.Now()) {
		do := e.agenda[0].do
		e.agenda = e.agenda[1:]
		do()
	}
}

// Tick does what time has brought: first what pvestatd saw before anything changes, then the appointments.
func (e *Engine) Tick() {
	e.Stats.Tick(e.World)
	e.Keep()
}

// Round has the HA manager look at a resource when it comes round to it (pve-ha-manager Manager.pm, LRM.pm): it takes
// up what was asked for and brings the guest to the requested state, in tasks of root's own that no answer reports.
func (e *Engine) Round(sid string) {
	e.After(e.World.HADelay(), func() { e.Config.Hooks.Manage(e, sid) })
}
