package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// adoption reads VMs for imports.
type adoption struct{ *Guests }

func (g *Guests) adoption() adoption { return adoption{g} }

// Adopt reads a VM for import. It writes nothing, and adopts only what it has really read: a virtual machine, whole,
// whose configuration the server showed.
func (g *Guests) Adopt(ctx context.Context, node string, vmid int) (Guest, error) {
	resources, err := g.api.Cluster().Resources(ctx)
	if err != nil {
		return Guest{}, fmt.Errorf("list the cluster's guests: %w", err)
	}
	listed, _ := resources.Guest(vmid)
	if node, err = g.adoption().nodeToAdoptFrom(ctx, resources, node, vmid); err != nil {
		return Guest{}, err
	}
	guest, err := g.adoption().readWhole(ctx, node, vmid, true)
	if pve.IsKind(err, pve.NotFound) {
		return Guest{}, g.adoption().nothing(ctx, resources, node, vmid)
	}
	if err != nil {
		return Guest{}, err
	}
	guest.Pool = listed.Pool
	err = g.readStatus(ctx, &guest)
	if guest.HasAgent() {
		g.AskAgent(ctx, &guest, agent.Memory{Enabled: true})
	}
	err = g.adoption().completeAdopted(ctx, &guest, listed, err)
	return guest, err
}

// AdoptListed is Adopt for one of many in a listing: what that tells is not asked again, and no agent is asked.
func (g *Guests) AdoptListed(ctx context.Context, listed pve.Resource) (Guest, error) {
	guest, err := g.adoption().readWhole(ctx, listed.Node, listed.VMID, false)
	if pve.IsKind(err, pve.NotFound) {
		return Guest{}, fmt.Errorf("VM %d has no configuration on node %s any more: it has moved or was destroyed since "+
			"the cluster was listed", listed.VMID, listed.Node)
	}
	if err != nil {
		return Guest{}, err
	}
	guest.Pool, guest.Status = listed.Pool, listed.Status
	if listed.Status == "" || listed.Status == "unknown" {
		err = g.readStatus(ctx, &guest)
	}
	err = g.adoption().completeAdopted(ctx, &guest, listed, err)
	return guest, err
}

// AdoptableAsListed is why a VM is known not to be adoptable by what a listing says of it alone; nil where nothing is
// known.
func AdoptableAsListed(listed pve.Resource) error {
	if !IsOwnLock(listed.Lock) {
		return nil
	}
	return fmt.Errorf("VM %d on node %s is locked (%s): it is half made, or half destroyed. An import refuses it, and "+
		"says what is known of it", listed.VMID, listed.Node, listed.Lock)
}

// readWhole reads the configuration of a VM that is neither half made nor half destroyed.
func (a adoption) readWhole(ctx context.Context, node string, vmid int, watch bool) (Guest, error) {
	config, err := a.api.QEMU(node, vmid).Pending(ctx)
	if err != nil {
		return Guest{}, fmt.Errorf("read VM %d on node %s: %w", vmid, node, err)
	}
	if err := a.checkWhole(ctx, node, vmid, config.Current(), watch); err != nil {
		return Guest{}, err
	}
	return FromConfig(config, node, vmid), nil
}

// completeAdopted reads the settings beside the configuration, unless something has failed already. Settings that the
// identity may not see are not adopted.
func (a adoption) completeAdopted(ctx context.Context, guest *Guest, listed pve.Resource, err error) error {
	if err == nil {
		err = a.ReadFirewallAndHA(ctx, guest, true, listed.HAState != "")
	}
	if pve.IsKind(err, pve.Denied) {
		return nil
	}
	return err
}

// nodeToAdoptFrom is the node of the VM, which may be named.
func (a adoption) nodeToAdoptFrom(
	ctx context.Context, resources pve.Resources, named string, vmid int) (string, error) {
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
	return "", a.nothing(ctx, resources, "", vmid)
}

// checkWhole refuses what is half made or half destroyed. watch: it takes the time to see whether a create still makes
// the VM.
func (a adoption) checkWhole(ctx context.Context, node string, vmid int, config map[string]string, watch bool) error {
	if lock := config["lock"]; IsOwnLock(lock) {
		return fmt.Errorf("VM %d on node %s is locked (%s): it is half made, or half destroyed. %s", vmid, node, lock,
			a.OnHalfMade(ctx, node, vmid, lock))
	}
	mark, marked := ownership.Parse(config["description"])
	if !marked || mark.VMID != vmid || mark.Kept {
		return nil
	}
	life, err := a.LifeOf(mark), error(nil)
	if watch {
		life, err = a.Watch(ctx, pve.Resource{Node: node, VMID: vmid}, mark, life)
	}
	switch {
	case life == Dead: // what it lacks an apply makes
		return nil
	case life == Unsure && err == nil:
		return fmt.Errorf("VM %d on node %s may not be complete: transaction %s of this provider was creating it, and "+
			"whether that run lives is not known. An import watches it to find out", vmid, node, mark.Saga)
	}
	return errors.Join(fmt.Errorf("VM %d on node %s is not complete: transaction %s of this provider is creating it",
		vmid, node, mark.Saga), err)
}

// IsUnfinished reports whether a create was killed before it put the description of a VM right.
func (g Guest) IsUnfinished() bool { return g.Leftover != nil }

// nothing is the refusal to adopt an id without a configuration, with the volumes that carry the id, if there are any.
func (a adoption) nothing(ctx context.Context, resources pve.Resources, node string, vmid int) error {
	text := fmt.Sprintf("there is no VM %d in the cluster: no configuration of it exists on any node that this identity "+
		"may see (VM.Audit)", vmid)
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
		storages, err := a.ImageStorages(ctx, resources, n.Node)
		if err != nil {
			continue
		}
		if f, err := a.NewBaseline(ctx, resources, n.Node, vmid, storages); err == nil {
			for _, v := range f.orphans() {
				left = append(left, v+" on node "+n.Node)
			}
		}
	}
	if len(left) > 0 {
		text += fmt.Sprintf(". Volumes with this id are left over: %s. An import takes over whole VMs only. A VM that is "+
			"made with vmid = %d "+
			"takes one over as a disk with imported_disk, or has them destroyed with on_orphaned_volumes = \"destroy\"",
			strings.Join(left, ", "), vmid)
	}
	if len(unseen) > 0 {
		text += fmt.Sprintf(". What is on %s cannot be told now: not online", strings.Join(unseen, ", "))
	}
	return errors.New(text)
}
