package guest

import (
	"context"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
)

// HasAgent reports whether the guest can have an agent that answers. One that was enabled while the guest ran gets its device
// at the next start.
func (g Guest) HasAgent() bool {
	return g.Status == string(Running) && g.Spec.Agent.Enabled != nil && *g.Spec.Agent.Enabled && !slices.Contains(g.Pending, "agent")
}

// hear waits for what an agent says of the guest.
func (g *Guest) hear(ctx context.Context, q *agent.Question) {
	interfaces, silent := q.Answer(ctx)
	if interfaces != nil {
		g.Interfaces = interfaces
	}
	g.Silent = g.Silent || silent
}

// AskAgent asks the agent of a guest that was just read.
func (s *Guests) AskAgent(ctx context.Context, guest *Guest, memory agent.Memory) {
	guest.hear(ctx, s.agents.Ask(ctx, guest.Node, guest.VMID, memory))
}

// Addresses are the addresses by network device; nil if the agent did not answer.
func (g Guest) Addresses() map[string]agent.Address {
	return agent.Addresses(g.Spec.Networks, g.Interfaces)
}

// NICs are the slots of network devices in the order of their numbers.
func (g Guest) NICs() []string { return agent.NICs(g.Spec.Networks) }
