// Package agent asks the guest agents, and sees to it that the silent ones cost the others nothing: a refresh asks each once
// and waits for none for long. It knows addresses and network devices, and no guest.
package agent

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Memory is what state knows of a VM's guest agent, so that a refresh can tell whom it is worth asking.
type Memory struct {
	Enabled bool // the VM's configuration has an agent
	Silent  bool // it did not answer the last question of a refresh
}

// interfacesFrom leaves out the addresses that nobody else can use: loopback, link-local (169.254.0.0/16, fe80::/10),
// multicast and the unspecified one.
func interfacesFrom(answer []pve.AgentInterface) []Interface {
	all := make([]Interface, 0, len(answer))
	for _, i := range answer {
		found := Interface{Name: i.Name, MAC: strings.ToLower(i.MAC)}
		for _, a := range i.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			switch {
			case err != nil || !addr.IsGlobalUnicast():
			case addr.Unmap().Is4():
				found.IPv4 = append(found.IPv4, addr.Unmap().String())
			default:
				found.IPv6 = append(found.IPv6, addr.String())
			}
		}
		all = append(all, found)
	}
	return all
}

// Agents asks the agents of one cluster's guests.
type Agents struct {
	api  *pve.Client
	desk desk
}

// New asks the agents of the guests that api can see.
func New(api *pve.Client) *Agents { return &Agents{api: api} }

// Question is one that a read has for an agent.
type Question struct {
	desk   *desk
	node   string
	class  class
	begun  chan begun // when the request goes out
	answer chan heard // what came of it
}

// begun is a question on its way.
type begun struct {
	since time.Time
	at    place
}

// heard is what came of a question.
type heard struct {
	asked      bool // it was put at all
	interfaces []Interface
	err        error
}

// Ask asks the agent, beside whatever else the caller has to ask the server; Hear says what became of it.
//
// PVE pings the agent first, and a silent one holds one of the three workers of the node's pvedaemon for 3 s, whether we wait
// or not (qemu-server QemuServer/Agent.pm; pve-manager Service/pvedaemon.pm). See desk for who is asked.
func (s *Agents) Ask(ctx context.Context, node string, vmid int, memory Memory) *Question {
	q := &Question{desk: &s.desk, node: node, class: expected, begun: make(chan begun, 1), answer: make(chan heard, 1)}
	if memory.Silent {
		q.class = doubtful
	}
	if !q.desk.admits(q.class) {
		q.answer <- heard{}
		return q
	}
	go func() {
		at := q.desk.enter(ctx, node, q.class)
		if at == none {
			q.answer <- heard{}
			return
		}
		q.begun <- begun{since: time.Now(), at: at}
		// The worker is busy until the agent has answered or PVE gives up, so the place is given back no sooner.
		request, cancel := context.WithTimeout(context.WithoutCancel(ctx), agentTimeout)
		defer cancel()
		interfaces, err := s.api.AgentInterfaces(request, node, vmid)
		q.desk.leave(node, at)
		q.answer <- heard{asked: true, interfaces: interfacesFrom(interfaces), err: err}
	}()
	return q
}

// Hear waits for the answer, but not for long. Interfaces are nil without one; silent says that the agent was asked and did not
// answer, which is no error: agents start late, and stop.
func (q *Question) Hear(ctx context.Context) (interfaces []Interface, silent bool) {
	result := q.await(ctx)
	switch {
	case !result.asked:
	case result.err == nil:
		q.desk.score(q.node, q.class, true)
		return result.interfaces, false
	case pve.IsKind(result.err, pve.Denied):
		q.desk.refuse()
	default:
		q.desk.score(q.node, q.class, false)
		return nil, true
	}
	return nil, false
}

func (q *Question) await(ctx context.Context) heard {
	var way begun
	select {
	case result := <-q.answer:
		return result
	case way = <-q.begun:
	case <-ctx.Done():
		return heard{}
	}
	patience := time.NewTimer(time.Until(way.since.Add(agentPatience)))
	defer patience.Stop()
	select {
	case result := <-q.answer:
		return result
	case <-ctx.Done():
		return heard{}
	case <-patience.C:
		q.desk.hangs(q.node, way.at)
		return heard{asked: true, err: context.DeadlineExceeded}
	}
}

// Interview asks an agent once, for as long as PVE itself waits for it, and when it is its turn: silent agents are not to
// hold all workers of a node.
func (s *Agents) Interview(ctx context.Context, node string, vmid int) ([]Interface, error) {
	at := s.desk.enter(ctx, node, waited)
	if at == none {
		return nil, ctx.Err()
	}
	defer s.desk.leave(node, at)
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	answer, err := s.api.AgentInterfaces(ctx, node, vmid)
	if err != nil {
		return nil, err
	}
	return interfacesFrom(answer), nil
}

// Interface is a network interface as the guest agent reports it.
type Interface struct {
	Name, MAC string
	IPv4      []string // without prefix length
	IPv6      []string
}
