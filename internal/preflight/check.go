package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nearest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Check tells at plan time what the server would refuse at apply time. It costs one listing of the cluster, one list of
// bridges per node and the configuration of each template. It does not report what the identity may not see.
func (c *Checker) Check(ctx context.Context, r Request) Findings {
	if r.onlyTakesPrivileges() {
		p := &planCheck{node: r.Node, who: r.Who, unheard: r.Unheard}
		hears(ctx, p, c, r)
		p.privileges(ctx, c, p.needed(ctx, c, r))
		return Findings{Refused: p.found, Doubtful: p.doubts}
	}
	defer c.askAhead(ctx, r)()
	// Terraform plans each VM again right before it makes or changes it, while others are made and changed: that is no
	// matter, unless one of them has got the VMID. Only what seems to be wrong by a listing that may lack something is
	// held against another one.
	if !r.Creating || r.VMID == 0 {
		resources, _, err := c.api.Listing().Recent(ctx)
		if err != nil {
			return cannotLook(err)
		}
		if p := c.check(ctx, r, resources); len(p.found) == 0 {
			return p.findings(ctx, c, r)
		}
	}
	resources, err := c.api.Listing().Shared(ctx)
	if err != nil {
		return cannotLook(err)
	}
	return c.check(ctx, r, resources).findings(ctx, c, r)
}

// findings are the problems of the plan, by itself or together with all others.
func (p *planCheck) findings(ctx context.Context, c *Checker, r Request) Findings {
	if len(p.found) == 0 {
		demand{p}.addUp(ctx, c, r)
	}
	return Findings{Refused: p.found, Doubtful: p.doubts}
}

// askAhead asks for the bridges of a node and the privileges of the identity while the cluster is listed. The returned
// function ends that. A check that needs one of the answers asks again, and gets the error.
func (c *Checker) askAhead(ctx context.Context, r Request) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var asked sync.WaitGroup
	if r.Node != "" && asksForBridges(r) {
		asked.Go(func() { _, _ = c.nodeNetworks(ctx, r.Node) })
	}
	if !c.api.Identity().IsRootTicket() {
		asked.Go(func() {
			if r.Clone != nil { // the listing goes first, since the source is looked for in it
				_, _, _ = c.api.Listing().Recent(ctx)
			}
			_, _ = c.permissions(ctx)
		})
	}
	return func() {
		cancel()
		asked.Wait()
	}
}

func cannotLook(err error) Findings {
	report := finding(cannotLookAtAll, "", "This needs the list of nodes, storages and guests")
	report.Err = err
	return Findings{Refused: []*guest.FieldError{report}}
}

// check checks against a listing.
func (c *Checker) check(ctx context.Context, r Request, resources pve.Resources) *planCheck {
	p := &planCheck{resources: resources, node: r.Node, who: r.Who, unheard: r.Unheard}
	p.look(ctx, c, r)
	return p
}

// look makes all the checks.
func (p *planCheck) look(ctx context.Context, c *Checker, r Request) {
	p.place(r)
	p.quorum(ctx, c)
	if r.Creating {
		p.vmid(ctx, c, r)
		p.source(ctx, c, r)
	}
	if len(p.found) > 0 && (p.found[0].Path == "node" || p.found[0].Path == "nodes") {
		return
	}
	p.nodeState(r)
	hears(ctx, p, c, r)
	p.clone(ctx, c, r)
	p.restore(ctx, c, r)
	displaced(p, r)
	if !r.Creating {
		p.change = vm.Diff(r.Prior, r.Planned)
		lostCopies(ctx, p, c, r)
	}
	p.moving(ctx, c, r)
	p.storages(ctx, c, r.Storages)
	p.images(r)
	p.storagesDown(ctx, c, at{p.node, "images"}, r.Storages)
	p.volumes(ctx, c, r.Needs)
	if !r.Acting {
		sourcesDown(ctx, p, c, r.Needs)
	}
	p.pool(ctx, c, r.Pool)
	p.cpus(r.CPUs)
	p.formats(ctx, c, r.Formats)
	chained(ctx, p, c, r)
	if p.node != "" && asksForBridges(r) {
		if networks, err := c.nodeNetworks(ctx, p.node); err == nil {
			p.bridges(ctx, c, r, networks)
			fitBridges(p, r, networks)
		}
	}
	if p.node != "" {
		p.needs(ctx, c, r.Needs)
		starting(ctx, p, c, r)
		written(ctx, p, c, r)
		p.orphans(ctx, c, r)
	}
	p.privileges(ctx, c, p.needed(ctx, c, r))
	kept{p}.bySnapshots(ctx, c, r)
	replicated(ctx, p, c, r)
}

// place finds the node, or reports why there is none.
func (p *planCheck) place(r Request) {
	var err error
	if len(r.Nodes) > 0 && p.node == "" {
		p.node, err = guest.FirstOnline(p.resources, r.Nodes)
		p.add(err)
	}
	if p.node == "" && len(r.Nodes) == 0 && r.Clone == nil && r.Creating && len(p.resources.Nodes()) > 1 {
		_, err := guest.Target(p.resources, "", "")
		p.add(err)
	}
	if p.node != "" {
		p.add(guest.CheckNode(p.resources, p.node))
	}
}

// vmid reports a taken VMID, except for what a dead create left, which the apply removes or reports. A VM of the same
// name may be the one that this create replaces: with create_before_destroy Terraform plans the create again within the
// apply, without the VM in state. If the create then fails Terraform keeps that VM; if the plan fails it loses track of
// it. In a plan before the apply the caller knows that VM, and does not ask. So the VM is none of this state, or has
// another address there, and may be destroyed first. A VM that is replaced by one with another id is not meant.
func (p *planCheck) vmid(ctx context.Context, c *Checker, r Request) {
	vmid, name := r.VMID, r.Name
	listed, ok := p.resources.Guest(vmid)
	if name == "" { // as PVE lists one without
		name = fmt.Sprintf("VM %d", vmid)
	}
	isNamesake := !r.OtherID && listed.Type == "qemu" && (listed.Name == "" || listed.Name == name)
	if !ok || isHalfMade(listed) || isNamesake && (r.Acting || listed.Name == "") {
		return
	}
	if _, _, dead := c.guests.Unfinished(ctx, p.resources, listed); dead {
		return
	}
	if isNamesake {
		p.say(vmidOfNamesake, "vmid", fmt.Sprintf("%s on node %s has this id, and the create fails as long as it is "+
			"there. If this state has it under another address, a moved block keeps it. Otherwise: %s",
			guest.Named(listed), listed.Node,
			guest.OtherThan(listed)), strconv.Itoa(vmid))
		return
	}
	p.say(vmidTaken, "vmid", fmt.Sprintf("%s on node %s has this id. %s", guest.Named(listed), listed.Node,
		guest.OtherThan(listed)),
		strconv.Itoa(vmid))
}

// isHalfMade reports whether PVE is still making a guest, or a task of it has died: then it has no mark yet.
func isHalfMade(listed pve.Resource) bool { return listed.Lock == "create" || listed.Lock == "clone" }

func (p *planCheck) source(ctx context.Context, c *Checker, r Request) {
	clone := r.Clone
	if clone == nil {
		return
	}
	resources := p.resources
	if !r.Acting || !slices.ContainsFunc(resources, clone.Means) { // in an apply each clone would read those before it
		resources = guest.WithNames(ctx, c.guests, resources, clone)
	}
	found, err := guest.FindSource(resources, clone)
	if err != nil {
		p.unseen(ctx, c, clone, err)
		return
	}
	if p.node == "" && !r.NodeOpen {
		p.node = found.Node
	}
	p.origin = found
	if untold := clone.Untold(resources); len(untold) > 0 && !r.Acting {
		p.say(sourceUntold, clone.Path(), fmt.Sprintf("VM %d (%s, node %s) is cloned. %s. Where several are meant, "+
			"the create is refused as soon as PVE tells. clone.vmid names the VM for certain", found.VMID, found.Name,
			found.Node, guest.UntoldText(untold)))
	}
	linked := clone.Full == nil && found.Template && !r.isOpen(found.VMID)
	for path, value := range map[string]string{"clone.storage": clone.Storage, "clone.format": clone.Format} {
		if linked && value != "" {
			p.say(linkedElsewhere, path, fmt.Sprintf("VM %d is a template, of which PVE makes linked clones unless told "+
				"otherwise: set clone.full = true", found.VMID))
		}
	}
}

// unseen reports a source that is not listed. One with a VMID may be there all the same, if the identity may not see
// it.
func (p *planCheck) unseen(ctx context.Context, c *Checker, clone *guest.Clone, err error) {
	at := "/vms/" + strconv.Itoa(clone.VMID)
	var field *guest.FieldError
	if clone.VMID == 0 || !errors.As(err, &field) || c.mustHold(ctx, at, "VM.Audit") {
		p.add(err)
		return
	}
	p.uses = append(p.uses, use{path: field.Path, what: fmt.Sprintf("see VM %d, if there is one", clone.VMID),
		on: []string{at}, anyOf: []string{"VM.Audit"}})
}

// volumes reports volumes on storages that do not exist.
func (p *planCheck) volumes(ctx context.Context, c *Checker, needs []Need) {
	storages := map[string]string{}
	for _, need := range needs {
		if need.Kind.isVolume() {
			storages[need.Path] = volid.Storage(need.Value)
		}
	}
	p.storages(ctx, c, storages)
}

func (p *planCheck) pool(ctx context.Context, c *Checker, pool string) {
	if pool == "" {
		return
	}
	var names []string
	for _, r := range p.resources {
		if r.Type == "pool" {
			names = append(names, r.Pool)
		}
	}
	if !slices.Contains(names, pool) && c.mustHold(ctx, "/pool/"+pool, "Pool.Audit") {
		p.say(poolUnknown, "pool", nearest.Hint(pool, names)+"The cluster has the pools "+some(names)+
			", as far as this identity may see them (Pool.Audit)", pool)
	}
}
