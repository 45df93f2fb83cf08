package pve

import "context"

// AgentInterface is a network interface as the guest sees it.
type AgentInterface struct {
	// Name is the guest's, MAC in the guest's spelling.
	Name, MAC string
	Addresses []AgentAddress
}

// AgentAddress is one address: Type is ipv4 or ipv6, Prefix the length of the network's.
type AgentAddress struct {
	Type, Address string
	Prefix        int
}

type agentWire struct {
	Result []struct {
		Name      flexString `json:"name"`
		MAC       flexString `json:"hardware-address"`
		Addresses []struct {
			Type    flexString `json:"ip-address-type"`
			Address flexString `json:"ip-address"`
			Prefix  flexInt    `json:"prefix"`
		} `json:"ip-addresses"`
	} `json:"result"`
}

// AgentInterfaces asks the guest agent once. An agent that does not answer (after about 3 s) and a stopped VM are
// Unhealthy, an agent that is not configured is Unsupported.
func (c *Client) AgentInterfaces(ctx context.Context, node string, vmid int) ([]AgentInterface, error) {
	op := "ask the agent of " + guestName(node, vmid) + " for its interfaces"
	w, err := fetch[agentWire](ctx, c, op, guestPath(node, vmid, "/agent/network-get-interfaces"), nil)
	if err != nil {
		return nil, err
	}
	out := make([]AgentInterface, 0, len(w.Result))
	for _, i := range w.Result {
		nic := AgentInterface{Name: string(i.Name), MAC: string(i.MAC)}
		for _, a := range i.Addresses {
			nic.Addresses = append(nic.Addresses, AgentAddress{Type: string(a.Type), Address: string(a.Address), Prefix: int(a.Prefix)})
		}
		out = append(out, nic)
	}
	return out, nil
}
