package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"

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

// Adopt reads a VM for import. It writes nothing, and adopts only what it has really read: a virtual machine, whole, whose
// configuration the server showed.
func (s *Guests) Adopt(ctx context.Context, node string, vmid int) (Guest, error) {
	resources, err := s.api.Resources(ctx)
	if err != nil {
		return Guest{}, fmt.Errorf("list the cluster's guests: %w", err)
	}
	listed, _ := resources.Guest(vmid)
	if node, err = s.nodeToAdoptFrom(ctx, resources, node, vmid); err != nil {
		return Guest{}, err
	}
	config, err := s.api.PendingConfig(ctx, node, vmid)
	if pve.IsKind(err, pve.NotFound) {
		return Guest{}, s.nothing(ctx, resources, node, vmid)
	}
	if err != nil {
		return Guest{}, fmt.Errorf("read VM %d on node %s: %w", vmid, node, err)
	}
	if err := s.checkWhole(ctx, resources, node, vmid, config.Current()); err != nil {
		return Guest{}, err
	}
	guest := FromConfig(config, node, vmid)
	guest.Pool = listed.Pool
	err = s.readStatus(ctx, &guest)
	if guest.HasAgent() {
		s.AskAgent(ctx, &guest, agent.Memory{Enabled: true})
	}
	if err == nil {
		err = s.ReadFirewallAndHA(ctx, &guest, true, listed.HAState != "")
	}
	if pve.IsKind(err, pve.Denied) {
		err = nil // what may not be seen is not adopted
	}
	return guest, err
}

// nodeToAdoptFrom is the node of the VM, which may be named.
func (s *Guests) nodeToAdoptFrom(ctx context.Context, resources pve.Resources, named string, vmid int) (string, error) {
	listed, ok := resources.Guest(vmid)
	switch {
	case ok && listed.Type != "qemu":
		return "", fmt.Errorf("%d is a container (%s, node %s), not a virtual machine: proxmox_vm takes over none", vmid,
			listed.Name, listed.Node)
	case ok && named != "" && named != listed.Node:
		return "", fmt.Errorf("VM %d is on node %s, not on %s: import %s/%d", vmid, listed.Node, named, listed.Node, vmid)
	case named != "":
		return named, CheckNode(resources, named)
	case ok:
		return listed.Node, nil
	}
	return "", s.nothing(ctx, resources, "", vmid)
}

// checkWhole refuses what is half made or half destroyed.
func (s *Guests) checkWhole(ctx context.Context, resources pve.Resources, node string, vmid int, config map[string]string) error {
	if lock := config["lock"]; lock == "create" || lock == "clone" || lock == "destroyed" {
		return fmt.Errorf("VM %d on node %s is locked (%s): it is half made, or half destroyed. %s", vmid, node, lock,
			s.OnHalfMade(ctx, node, vmid, lock))
	}
	mark, stamped := ParseStamp(config["description"])
	if stamped && mark.VMID == vmid && !s.isComplete(ctx, resources, node, mark, config) {
		return fmt.Errorf("VM %d on node %s is not complete: transaction %s of this provider is creating it, until %s at the latest",
			vmid, node, mark.TX, mark.Deadline)
	}
	return nil
}

// isComplete reports whether a stamped VM is known to be more than a create's leftover. Only reading depends on it.
func (s *Guests) isComplete(ctx context.Context, resources pve.Resources, node string, mark Stamp, config map[string]string) bool {
	why, err := s.WhyComplete(ctx, resources, node, mark, config)
	return err == nil && why != ""
}

// nothing is the refusal to adopt an id without a configuration, with the volumes that carry the id, if there are any.
func (s *Guests) nothing(ctx context.Context, resources pve.Resources, node string, vmid int) error {
	text := fmt.Sprintf("there is no VM %d in the cluster: no configuration of it exists on any node that this identity may see "+
		"(VM.Audit)", vmid)
	if node != "" {
		text = fmt.Sprintf("there is no VM %d on node %s: it has no configuration there", vmid, node)
	}
	var left, unseen []string
	for _, n := range resources.Nodes() {
		if node != "" && n.Node != node {
			continue
		}
		if n.Status != "online" {
			unseen = append(unseen, n.Node)
			continue
		}
		storages, err := s.ImageStorages(ctx, resources, n.Node)
		if err != nil {
			continue
		}
		if f, err := s.NewFence(ctx, resources, n.Node, vmid, storages); err == nil {
			for _, v := range f.orphans() {
				left = append(left, v+" on node "+n.Node)
			}
		}
	}
	if len(left) > 0 {
		text += fmt.Sprintf(". Volumes with this id are left over: %s. An import takes over whole VMs only. A VM that is made with vmid = %d "+
			"takes one over as a disk with imported_disk, or has them destroyed with on_orphaned_volumes = \"destroy\"",
			strings.Join(left, ", "), vmid)
	}
	if len(unseen) > 0 {
		text += fmt.Sprintf(". What is on %s cannot be told now: not online", strings.Join(unseen, ", "))
	}
	return errors.New(text)
}
