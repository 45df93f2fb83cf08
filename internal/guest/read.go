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

// Read looks at a VM in state. Gone needs proof: its configuration is missing, the cluster does not list it, and all of
// the cluster could be seen. When that cannot be had the answer is Unknown, with the reason as error. A VM that is
// another than the one in state is an *IdentityError.
func (s *Guests) Read(ctx context.Context, ref Ref) (Guest, Seen, error) {
	listed, ok, err := s.api.SharedGuest(ctx, ref.VMID)
	if err != nil {
		return Guest{}, Unknown, fmt.Errorf("list the cluster's guests: %w", err)
	}
	return s.readListed(ctx, ref, listed, ok)
}

// readListed is Read with what the listing says of the VM, ok if it has it.
func (s *Guests) readListed(ctx context.Context, ref Ref, listed pve.Resource, ok bool) (Guest, Seen, error) {
	node := ref.Node
	if ok && listed.Type == "qemu" {
		node = listed.Node
	}
	var asked *agent.Question
	if ref.Agent.Enabled && ok && listed.Status == string(Running) {
		asked = s.agents.Ask(ctx, node, ref.VMID, ref.Agent)
	}
	config, err := s.api.PendingConfig(ctx, node, ref.VMID)
	if pve.IsKind(err, pve.NotFound) || !ok && s.isFree(ctx, ref.VMID, err) {
		return s.missing(ctx, ref, node)
	}
	if err != nil {
		return Guest{}, Unknown, fmt.Errorf("read VM %d on node %s: %w", ref.VMID, node, err)
	}
	if ref.Proof != nil && ref.Proof.Whose(config.Current()) == Stranger {
		return Guest{}, Gone, nil // what our create left is gone, and somebody else has the id
	}
	if err := Guard(ref, node, config.Current()); err != nil {
		return Guest{}, Found, err
	}
	if ref.Proof == nil && IsHusk(ref.VMID, config.Current()) {
		return Guest{VMID: ref.VMID, Node: node, Husk: true}, Found, nil
	}
	guest := FromConfig(config, node, ref.VMID)
	if ref.Proof != nil && ref.Proof.Whose(config.Current()) != Ours {
		guest.Identity = Identity{} // not proven, so not to be remembered
	}
	guest.Pool, guest.Status = listed.Pool, listed.Status
	if !ok || listed.Status != ref.Status || listed.Status == "unknown" {
		err = s.power(ctx, &guest)
	}
	if asked == nil && guest.HasAgent() {
		asked = s.agents.Ask(ctx, node, ref.VMID, ref.Agent)
	}
	if err == nil {
		err = s.Attend(ctx, &guest, ref.Firewall, ref.HA || listed.HAState != "")
		if !ref.HA && pve.IsKind(err, pve.Denied) { // nobody has asked for it
			err = nil
		}
	}
	if asked != nil && guest.HasAgent() {
		guest.hear(ctx, asked)
	}
	return guest, Found, err
}

// isFree reports whether a VM that may not be read is gone: one that left the pool from which the identity has its privileges is
// refused before PVE looks for it, but whether an id is free PVE tells everybody (pve-manager API2/Cluster.pm nextid).
func (s *Guests) isFree(ctx context.Context, vmid int, err error) bool {
	if !pve.IsKind(err, pve.Denied) {
		return false
	}
	free, err := s.api.IsFreeID(ctx, vmid)
	return err == nil && free
}

// missing decides what it means that a VM's configuration is not where state has it. The listing is that of the beginning of
// the refresh, so it is fetched anew.
func (s *Guests) missing(ctx context.Context, ref Ref, node string) (Guest, Seen, error) {
	resources, err := s.api.Resources(ctx)
	if err != nil {
		return Guest{}, Unknown, fmt.Errorf("list the cluster's guests: %w", err)
	}
	if listed, ok := resources.Guest(ref.VMID); ok {
		switch {
		case listed.Type != "qemu":
			return Guest{}, Found, &IdentityError{VMID: ref.VMID, Node: listed.Node, State: ref.Identity}
		case listed.Node != node:
			return s.readListed(ctx, ref, listed, true)
		}
		return Guest{}, Unknown, fmt.Errorf("VM %d is listed on node %s, but its configuration is not there", ref.VMID, node)
	}
	for _, n := range resources.Nodes() {
		if n.Status != "online" {
			return Guest{}, Unknown, fmt.Errorf("VM %d was not found, but node %s is %s and may have it", ref.VMID, n.Node, n.Status)
		}
	}
	return Guest{}, Gone, nil
}

// ReadBack reads a VM that was just created or changed.
func (s *Guests) ReadBack(ctx context.Context, node string, vmid int) (Guest, error) {
	config, err := s.api.PendingConfig(ctx, node, vmid)
	if err != nil {
		return Guest{VMID: vmid, Node: node}, err
	}
	guest := FromConfig(config, node, vmid)
	err = s.power(ctx, &guest)
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

// power asks whether the guest runs. The listing is up to ten seconds old and never trusted for it.
func (s *Guests) power(ctx context.Context, guest *Guest) error {
	status, err := s.api.GuestStatus(ctx, guest.Node, guest.VMID)
	if err != nil {
		return fmt.Errorf("read the status of VM %d: %w", guest.VMID, err)
	}
	guest.Status = status.Status
	return nil
}

// Adopt reads a VM for import. It writes nothing, and adopts only what it has really read: a virtual machine, whole, whose
// configuration the server showed.
func (s *Guests) Adopt(ctx context.Context, node string, vmid int) (Guest, error) {
	resources, err := s.api.Resources(ctx)
	if err != nil {
		return Guest{}, fmt.Errorf("list the cluster's guests: %w", err)
	}
	listed, ok := resources.Guest(vmid)
	switch {
	case ok && listed.Type != "qemu":
		return Guest{}, fmt.Errorf("%d is a container (%s, node %s), not a virtual machine", vmid, listed.Name, listed.Node)
	case ok && node != "" && node != listed.Node:
		return Guest{}, fmt.Errorf("VM %d is on node %s, not on %s: import %s/%d", vmid, listed.Node, node, listed.Node, vmid)
	case node != "":
		if err := CheckNode(resources, node); err != nil {
			return Guest{}, err
		}
	case ok:
		node = listed.Node
	default:
		return Guest{}, s.nothing(ctx, resources, "", vmid)
	}
	config, err := s.api.PendingConfig(ctx, node, vmid)
	if pve.IsKind(err, pve.NotFound) {
		return Guest{}, s.nothing(ctx, resources, node, vmid)
	}
	if err != nil {
		return Guest{}, fmt.Errorf("read VM %d on node %s: %w", vmid, node, err)
	}
	if lock := config.Current()["lock"]; lock == "create" || lock == "clone" || lock == "destroyed" {
		return Guest{}, fmt.Errorf("VM %d on node %s is locked (%s): it is half made, or half destroyed. Wait for the task that holds the lock; "+
			"if none runs, remove it with `qm unlock %d && qm destroy %d --purge` on the node", vmid, node, lock, vmid, vmid)
	}
	if mark, ok := ParseStamp(config.Current()["description"]); ok && mark.VMID == vmid && !s.isComplete(ctx, resources, node, mark, config.Current()) {
		return Guest{}, fmt.Errorf("VM %d on node %s is not complete: transaction %s of this provider is creating it, until %s at the latest",
			vmid, node, mark.TX, mark.Deadline)
	}
	guest := FromConfig(config, node, vmid)
	guest.Pool = listed.Pool
	err = s.power(ctx, &guest)
	if guest.HasAgent() {
		s.AskAgent(ctx, &guest, agent.Memory{Enabled: true})
	}
	if err == nil {
		err = s.Attend(ctx, &guest, true, listed.HAState != "")
	}
	if pve.IsKind(err, pve.Denied) {
		err = nil // what may not be seen is not adopted
	}
	return guest, err
}

// isComplete reports whether a stamped VM is known to be more than a create's leftover. Only reading depends on it.
func (s *Guests) isComplete(ctx context.Context, resources pve.Resources, node string, mark Stamp, config map[string]string) bool {
	why, err := s.WhyComplete(ctx, resources, node, mark, config)
	return err == nil && why != ""
}

// nothing is the refusal to adopt an id without a configuration, with the volumes that carry the id, if there are any.
func (s *Guests) nothing(ctx context.Context, resources pve.Resources, node string, vmid int) error {
	text := fmt.Sprintf("there is no VM %d in the cluster: no configuration of it exists on any node that this identity may see (VM.Audit)", vmid)
	if node != "" {
		text = fmt.Sprintf("there is no VM %d on node %s: it has no configuration there", vmid, node)
	}
	var left []string
	for _, n := range resources.Nodes() {
		if n.Status != "online" || node != "" && n.Node != node {
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
		text += ". Volumes with this id are left over: " + strings.Join(left, ", ")
	}
	return errors.New(text)
}
