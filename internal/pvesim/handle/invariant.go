package handle

import (
	"fmt"
	"net/http"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// smallWorld is up to how many guests and volumes a world is checked after reads as well: some microseconds' worth.
const smallWorld = 256

// inspect looks whether the world is still sound after an operation. A reading one cannot have broken a world, so a large
// one is spared the look after it. The mutex is held.
func (s *Server) inspect(changing bool, what func() string) {
	if s.violated == nil || !changing && len(s.world.Guests)+len(s.world.Volumes) > smallWorld {
		return
	}
	if err := s.world.Check(); err != nil {
		s.violated(fmt.Errorf("pvesim: after %s: %w", what(), err))
	}
}

// inspectOp is inspect after a request or a command.
func (s *Server) inspectOp(op *Op) {
	s.inspect(op.Method != http.MethodGet, func() string {
		return fmt.Sprintf("operation %d, %s %s of %d by %s, status %d", op.Seq, op.Method, op.Path, op.VMID, op.Identity, op.Status)
	})
}

// inspectTask is inspect after a worker's end.
func (s *Server) inspectTask(t *state.Task) {
	s.inspect(true, func() string { return fmt.Sprintf("task %s, which ended %q", t.UPID, t.ExitStatus) })
}
