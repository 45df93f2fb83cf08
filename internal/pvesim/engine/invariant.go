package engine

import (
	"fmt"
	"net/http"
)

// smallWorld is up to how many guests and volumes a world is checked after reads as well: some microseconds' worth.
const smallWorld = 256

// inspect looks whether the world is still sound after an operation. A reading one cannot have broken a world, so a
// large one is spared the look after it. The mutex is held.
func (e *Engine) inspect(changing bool, what func() string) {
	if e.Config.Violated == nil || !changing && len(e.World.Guests)+len(e.World.Volumes) > smallWorld {
		return
	}
	if err := e.World.Check(); err != nil {
		e.Config.Violated(fmt.Errorf("pvesim: after %s: %w", what(), err))
	}
}

// InspectOp is inspect after a request or a command.
func (e *Engine) InspectOp(op *Op) {
	e.inspect(op.Method != http.MethodGet, func() string {
		return fmt.Sprintf("operation %d, %s %s of %d by %s, status %d", op.Seq, op.Method, op.Path, op.VMID, op.Identity,
			op.Status)
	})
}
