// Package agent asks the guest agents, and sees to it that the silent ones cost the others nothing: a refresh asks
// each once and waits for none for long. It knows addresses and network devices, and no guest.
package agent

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Memory is what state knows of a VM's guest agent, so that a refresh can tell whom it is worth asking.
type Memory struct {
	Enabled bool // the VM's configuration has an agent
	Silent  bool // it did not answer the last question of a refresh
}

// interfacesFrom leaves out the addresses that no other machine can use: loopback, link-local (169.254.0.0/16,
// fe80::/10), multicast and the unspecified one.
//
// The answer is any text of the guest's root, and configurations put addresses into commands and inventories. So the
// state gets the parsed form, and none with a zone, which may hold any characters and belongs to link-local ones.
func interfacesFrom(answer []pve.AgentInterface) []Interface {
	all := make([]Interface, 0, len(answer))
	for _, i := range answer {
		found := Interface{Name: i.Name, MAC: strings.ToLower(i.MAC)}
		for _, a := range i.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			switch {
			case err != nil || !addr.IsGlobalUnicast() || addr.Zone() != "":
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
	request func(ctx context.Context, node string, vmid int) ([]pve.AgentInterface, error)
	limiter limiter
}

// New asks the agents of the guests that api can see.
func New(api pve.Reader) *Agents {
	return &Agents{request: func(ctx context.Context, node string, vmid int) ([]pve.AgentInterface, error) {
		return api.QEMU(node, vmid).AgentInterfaces(ctx)
	}}
}

// Question is one that a read has for an agent.
type Question struct{ answer chan answer }

// answer is what came of a question; interfaces are nil without one.
type answer struct {
	interfaces []Interface
	silent     bool // it was put
}

// Ask asks the agent, beside whatever else the caller has to ask the server; Answer says what became of it.
//
// PVE pings the agent first, and a silent one holds one of the three workers of the node's pvedaemon for 3 s, whether
// we wait or not (qemu-server QemuServer/Agent.pm; pve-manager Service/pvedaemon.pm). See limiter for the choice of
// guests.
func (a *Agents) Ask(ctx context.Context, node string, vmid int, memory Memory) *Question {
	q, c := &Question{answer: make(chan answer, 1)}, expected
	if memory.Silent {
		c = doubtful
	}
	go func() {
		place := a.limiter.take(ctx, node, c)
		if place == nil {
			q.answer <- answer{}
			return
		}
		defer a.limiter.leave(place)
		a.put(ctx, q, place, node, vmid)
	}()
	return q
}

// put puts a question. The worker is busy until the agent has answered or PVE gives up, so it returns no sooner.
func (a *Agents) put(ctx context.Context, q *Question, place *place, node string, vmid int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	onTime := after(ctx, firstPatience, func() { a.limiter.late(place) })
	isAwaited := after(ctx, patience, func() {
		a.limiter.silent(place)
		q.answer <- answer{silent: true}
	})
	interfaces, err := a.request(ctx, node, vmid)
	onTime()
	switch {
	case !isAwaited():
	case err == nil:
		a.limiter.answered(place)
		q.answer <- answer{interfaces: interfacesFrom(interfaces)}
	case pve.IsKind(err, pve.Denied):
		a.limiter.deny()
		q.answer <- answer{}
	default:
		a.limiter.silent(place)
		q.answer <- answer{silent: true}
	}
}

// after does something when a time is over, unless it is stopped before.
func after(ctx context.Context, limit time.Duration, do func()) (stop func() bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	unless := context.AfterFunc(ctx, do)
	return func() bool {
		defer cancel()
		return unless()
	}
}

// Answer waits for the answer, but not for long. Interfaces are nil without one; silent says that the agent was asked
// and did not answer, which is no error: agents start late, and stop.
func (q *Question) Answer(ctx context.Context) (interfaces []Interface, silent bool) {
	select {
	case a := <-q.answer: // it was faster than the caller
		return a.interfaces, a.silent
	default:
	}
	ctx, over := oplog.Wait(ctx, oplog.Agent, "the answer of a guest agent")
	defer over()
	select {
	case a := <-q.answer:
		return a.interfaces, a.silent
	case <-ctx.Done():
		return nil, false
	}
}

// AskPatiently asks an agent once, for as long as PVE itself waits for it, and when it is its turn: silent agents are
// not to hold all workers of a node.
func (a *Agents) AskPatiently(ctx context.Context, node string, vmid int) ([]Interface, error) {
	place := a.limiter.take(ctx, node, waited)
	if place == nil {
		return nil, ctx.Err()
	}
	defer a.limiter.leave(place)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	interfaces, err := a.request(ctx, node, vmid)
	if err != nil {
		return nil, err
	}
	return interfacesFrom(interfaces), nil
}

// Interface is a network interface as the guest agent reports it.
type Interface struct {
	Name, MAC string
	IPv4      []string // without prefix length
	IPv6      []string
}
