package provision

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// AgentMemory is what state knows of a VM's guest agent, so that a refresh can tell whom it is worth asking.
type AgentMemory struct {
	Enabled bool // the VM's configuration has an agent
	Silent  bool // it did not answer the last question of a refresh
}

// Address is what the agent says of one network device.
type Address struct {
	MAC  string   // of the VM's configuration, in its spelling
	IPv4 []string // without prefix length, in the order of the agent
	IPv6 []string // likewise, global ones before unique local ones (fc00::/7)
}

// Addresses are the addresses by network device; nil if the agent did not answer.
//
// An interface of the guest belongs to the device with its MAC address. So a bridge, a bond or a VLAN of the guest counts
// for the device that it has its MAC address from, and several with one MAC address count together. What the guest has made up
// itself (lo, docker0, br-*, veth*, virbr*, cni*, flannel*, cali*, tun*, wg*, tailscale*) has a MAC address of its own or
// none, and does not count.
func (g Guest) Addresses() map[string]Address {
	if g.Interfaces == nil {
		return nil
	}
	all := map[string]Address{}
	for slot, nic := range g.Spec.Networks {
		if nic.MACAddr == nil {
			continue
		}
		found, ok := Address{MAC: *nic.MACAddr, IPv4: []string{}, IPv6: []string{}}, false
		for _, i := range g.Interfaces {
			if strings.EqualFold(i.MAC, *nic.MACAddr) {
				found.IPv4, found.IPv6, ok = append(found.IPv4, i.IPv4...), append(found.IPv6, i.IPv6...), true
			}
		}
		if ok {
			found.IPv4, found.IPv6 = distinct(found.IPv4), distinct(found.IPv6)
			slices.SortStableFunc(found.IPv6, func(a, b string) int { return cmp.Compare(locality(a), locality(b)) })
			all[slot] = found
		}
	}
	return all
}

// NICs are the slots of network devices in the order of their numbers.
func (g Guest) NICs() []string {
	return slices.SortedFunc(maps.Keys(g.Spec.Networks), func(a, b string) int { return cmp.Compare(nicNumber(a), nicNumber(b)) })
}

func nicNumber(slot string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(slot, "net"))
	if err != nil { // no slot of PVE's
		return 1 << 30
	}
	return n
}

// distinct drops repetitions and keeps the order.
func distinct(all []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}

// locality is 0 for an address that the world can reach, 1 for a unique local one (RFC 4193).
func locality(address string) int {
	if addr, err := netip.ParseAddr(address); err == nil && addr.Is6() && addr.IsPrivate() {
		return 1
	}
	return 0
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

// hasAgent reports whether the guest can have an agent that answers. One that was enabled while the guest ran gets its device
// at the next start.
func (g Guest) hasAgent() bool {
	return g.Status == string(Running) && g.Spec.Agent.Enabled != nil && *g.Spec.Agent.Enabled && !slices.Contains(g.Pending, "agent")
}

// question is one that a read has for an agent.
type question struct {
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

// askAgent asks the agent, beside whatever else the caller has to ask the server; hear says what became of it.
//
// PVE pings the agent first, and a silent one holds one of the three workers of the node's pvedaemon for 3 s, whether we wait
// or not (qemu-server QemuServer/Agent.pm; pve-manager Service/pvedaemon.pm). See desk for who is asked.
func (s *Service) askAgent(ctx context.Context, node string, vmid int, memory AgentMemory) *question {
	q := &question{desk: &s.desk, node: node, class: expected, begun: make(chan begun, 1), answer: make(chan heard, 1)}
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

// hear waits for the answer, but not for long, and puts it into the guest. Silence is no error: agents start late, and stop.
func (q *question) hear(ctx context.Context, guest *Guest) {
	result := q.await(ctx)
	switch {
	case !result.asked:
	case result.err == nil:
		guest.Interfaces = result.interfaces
		q.desk.score(q.node, q.class, true)
	case pve.IsKind(result.err, pve.Denied):
		q.desk.refuse()
	default:
		guest.Silent = true
		q.desk.score(q.node, q.class, false)
	}
}

func (q *question) await(ctx context.Context) heard {
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
