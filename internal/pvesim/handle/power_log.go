package handle

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// PowerOffs are the power-offs and restarts of guests since the start, the last reset or the last ResetPowerOffs.
func (s *Server) PowerOffs() []state.PowerOff {
	s.world.Lock()
	defer s.world.Unlock()
	return append([]state.PowerOff{}, s.world.PowerOffs...)
}

// ResetPowerOffs begins the count anew.
func (s *Server) ResetPowerOffs() {
	s.world.Lock()
	defer s.world.Unlock()
	s.world.PowerOffs = nil
}

// managerLog is what the HA manager said.
func (s *Server) managerLog() []string {
	s.world.Lock()
	defer s.world.Unlock()
	return append([]string{}, s.world.HALog...)
}

// EndGuest lets a guest power itself off, or die. The HA manager starts one in its care again.
func (s *Server) EndGuest(vmid int) {
	s.Do(func(w *state.World) {
		g := w.Guests[vmid]
		if g == nil || g.Running == nil {
			return
		}
		s.lose(g, state.PowerDied, nil)
		s.round(haType(g) + ":" + itoa(vmid))
	})
}

// lose ends a guest's process; pending changes become current when somebody cleans up after it (QemuServer.pm vm_stop_cleanup).
func (s *Server) lose(g *state.Guest, kind state.PowerKind, t *state.Task) {
	s.world.PowerLoss(g, kind, t)
	g.Running = nil
	g.StatusAt = s.world.Clock.Now()
}
