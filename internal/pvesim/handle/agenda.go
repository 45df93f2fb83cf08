package handle

import (
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// appointment is something that happens at its time without anybody's request: a stranger lets go of a lock, the HA manager
// has its next round.
type appointment struct {
	at time.Time
	do func()
}

// after makes an appointment. It is kept as soon as somebody notices that the time has come, which nobody can tell from the
// real thing: at the next request, or when somebody has waited. do runs with the mutex held and must not wait.
func (s *Server) after(d time.Duration, do func()) {
	a := appointment{s.world.Clock.Now().Add(max(d, 0)), do}
	i, _ := slices.BinarySearchFunc(s.agenda, a, func(x, y appointment) int {
		if x.at.After(y.at) {
			return 1
		}
		return -1 // behind those of the same time
	})
	s.agenda = slices.Insert(s.agenda, i, a)
}

// agendaStep is how long somebody sleeps at most while there are appointments, so that they are kept in time.
const agendaStep = time.Second

// expecting reports whether there are appointments, or somebody who may make some.
func (s *Server) expecting() bool { return len(s.agenda) > 0 || len(s.world.HA) > 0 }

// Pass keeps the appointments that time has brought. It returns how much of the time that is to come may pass before the next
// look at the agenda.
func (s *Server) Pass(left time.Duration) (step time.Duration) {
	s.Do(func(*state.World) {
		step = left
		if s.expecting() {
			step = min(left, agendaStep)
		}
	})
	return step
}

// keep keeps the appointments whose time has come.
func (s *Server) keep() {
	for len(s.agenda) > 0 && !s.agenda[0].at.After(s.world.Clock.Now()) {
		do := s.agenda[0].do
		s.agenda = s.agenda[1:]
		do()
	}
}

// tick does what time has brought: first what pvestatd saw before anything changes, then the appointments.
func (s *Server) tick() {
	s.stats.tick(s.world)
	s.keep()
}
