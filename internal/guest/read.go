package guest

import (
	"context"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Read looks at a VM in state: where it is, whether it is still the one in state, and what it is like. Gone and Unknown are as
// Find has them, but that a VM which is gone is no error. A VM that is another than the one in state is an *IdentityError.
func (s *Guests) Read(ctx context.Context, ref Ref) (Guest, Seen, error) {
	listed, ok, err := s.api.SharedGuest(ctx, ref.VMID)
	if err != nil {
		return Guest{}, Unknown, fmt.Errorf("list the cluster's guests: %w", err)
	}
	var resources pve.Resources
	if ok {
		resources = pve.Resources{listed}
		// Each VM of such a node would cost several requests that fail; of a thousand VMs that is the time of the refresh.
		if away, err := s.api.SharedAway(ctx, listed.Node); err == nil && away {
			return Guest{}, Unknown, fmt.Errorf("read VM %d on node %s: the node is offline", ref.VMID, listed.Node)
		}
	}
	var asked *agent.Question
	if ref.Agent.Enabled && listed.Type == "qemu" && listed.Status == string(Running) {
		asked = s.agents.Ask(ctx, listed.Node, ref.VMID, ref.Agent)
	}
	at, seen, err := s.Find(ctx, ref, resources)
	if seen == Gone {
		return Guest{}, Gone, nil
	}
	if err != nil {
		return Guest{}, seen, err
	}
	if at.Node != listed.Node {
		asked = nil
	}
	guest, seen, err := judge(ref, at)
	if err != nil || seen != Found || guest.Placeholder {
		return guest, seen, err
	}
	err = s.complete(ctx, ref, at.Listed, &guest, asked)
	return guest, Found, err
}

// judge says what it is that was found in the place of the VM in state.
func judge(ref Ref, at Location) (Guest, Seen, error) {
	config, owner := at.Config.Current(), Ours
	if ref.Proof != nil {
		owner = ref.Proof.Whose(config)
	}
	if owner == Stranger {
		return Guest{}, Gone, nil // what our create left is gone, and somebody else has the id
	}
	if err := Guard(ref, at.Node, config); err != nil {
		return Guest{}, Found, err
	}
	if ref.Proof == nil && isPlaceholder(ref.VMID, config) {
		return Guest{VMID: ref.VMID, Node: at.Node, Placeholder: true}, Found, nil
	}
	guest := FromConfig(at.Config, at.Node, ref.VMID)
	if owner != Ours {
		guest.Identity = Identity{} // not proven, so not to be remembered
	}
	return guest, Found, nil
}

// complete reads what a guest's configuration does not say. asked is the question to its agent, if that has been put.
func (s *Guests) complete(ctx context.Context, ref Ref, listed pve.Resource, guest *Guest, asked *agent.Question) error {
	var err error
	guest.Pool, guest.Status = listed.Pool, listed.Status
	if listed.Status != ref.Status || listed.Status == "" || listed.Status == "unknown" {
		err = s.readStatus(ctx, guest)
	}
	if asked == nil && guest.HasAgent() {
		asked = s.agents.Ask(ctx, guest.Node, guest.VMID, ref.Agent)
	}
	if err == nil {
		err = s.ReadFirewallAndHA(ctx, guest, ref.Firewall, ref.HA || listed.HAState != "")
		if !ref.HA && pve.IsKind(err, pve.Denied) { // nobody has asked for it
			err = nil
		}
	}
	if asked != nil && guest.HasAgent() {
		guest.takeAnswer(ctx, asked)
	}
	return err
}

// ReadBack reads a VM that was just created or changed.
func (s *Guests) ReadBack(ctx context.Context, node string, vmid int) (Guest, error) {
	config, err := s.api.PendingConfig(ctx, node, vmid)
	if err != nil {
		return Guest{VMID: vmid, Node: node}, err
	}
	guest := FromConfig(config, node, vmid)
	err = s.readStatus(ctx, &guest)
	return guest, err
}

// FromConfig is a VM as its configuration has it. Whether it runs is in no configuration.
func FromConfig(config pve.PendingConfig, node string, vmid int) Guest {
	current := config.Current()
	spec, now := vm.Decode(config.Merged()), vm.Decode(current)
	for slot, disk := range spec.Disks { // a resize takes effect at once and leaves the size in a pending line as it was
		if has := now.Disks[slot]; has.Volume == disk.Volume && has.Size != nil {
			disk.Size = has.Size
			spec.Disks[slot] = disk
		}
	}
	return Guest{VMID: vmid, Node: node, Spec: spec, Identity: IdentityOf(current),
		Lock: current["lock"], Pending: config.Waiting()}
}

// readStatus asks whether the guest runs. The listing is up to ten seconds old and never trusted for it.
func (s *Guests) readStatus(ctx context.Context, guest *Guest) error {
	status, err := s.api.GuestStatus(ctx, guest.Node, guest.VMID)
	if err != nil {
		return fmt.Errorf("read the status of VM %d: %w", guest.VMID, err)
	}
	guest.Status = status.Status
	return nil
}

// ReadFirewallAndHA reads what stands beside a guest's configuration, as far as it is wanted.
func (s *Guests) ReadFirewallAndHA(ctx context.Context, guest *Guest, firewall, ha bool) error {
	var err error
	if firewall {
		if guest.Firewall, err = s.readFirewall(ctx, guest.Node, guest.VMID); err != nil {
			return err
		}
	}
	if ha {
		guest.HA, err = s.ReadHA(ctx, guest.VMID)
	}
	return err
}

// takeAnswer waits for what an agent says of the guest.
func (g *Guest) takeAnswer(ctx context.Context, q *agent.Question) {
	interfaces, silent := q.Answer(ctx)
	if interfaces != nil {
		g.Interfaces = interfaces
	}
	g.Silent = g.Silent || silent
}

// AskAgent asks the agent of a guest that was just read.
func (s *Guests) AskAgent(ctx context.Context, guest *Guest, memory agent.Memory) {
	guest.takeAnswer(ctx, s.agents.Ask(ctx, guest.Node, guest.VMID, memory))
}
