package preflight

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Check tells at plan time what the server would refuse at apply time. It costs one listing of the cluster, one list
// of bridges of each node and the configuration of each template. What the identity may not see is not reported.
func (s *Checker) Check(ctx context.Context, r Request) Findings {
	if r.onlyTakesPrivileges() {
		c := &planCheck{node: r.Node}
		c.privileges(ctx, s, c.uses(r))
		return Findings{Refused: c.found, Doubtful: c.doubts}
	}
	defer s.askAhead(ctx, r)()
	// Terraform plans each new VM again right before it makes it, while others are being made: what those change is no matter.
	// Only what seems to be wrong by a listing that may lack something is held against another one.
	if r.Creating && r.VMID == 0 {
		resources, _, err := s.api.RecentResources(ctx)
		if err != nil {
			return cannotLook(err)
		}
		if c := s.check(ctx, r, resources); len(c.found) == 0 {
			return c.findings(s, r)
		}
	}
	resources, err := s.api.SharedResources(ctx)
	if err != nil {
		return cannotLook(err)
	}
	return s.check(ctx, r, resources).findings(s, r)
}

// findings are what is wrong with the plan, by itself or with all others.
func (c *planCheck) findings(s *Checker, r Request) Findings {
	if len(c.found) == 0 {
		c.addUp(s, r)
	}
	return Findings{Refused: c.found, Doubtful: c.doubts}
}

// askAhead asks for the bridges of a node and the privileges of the identity while the cluster is listed. The function that it returns
// ends that. Whoever needs an answer asks again, and hears the error.
func (s *Checker) askAhead(ctx context.Context, r Request) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var asked sync.WaitGroup
	if r.Node != "" && len(r.Bridges) > 0 {
		asked.Go(func() { _, _ = s.nodeNetworks(ctx, r.Node) })
	}
	if !s.api.Identity().IsRootTicket() {
		asked.Go(func() {
			if r.Clone != nil { // the listing goes first, since the source is looked for in it
				_, _, _ = s.api.RecentResources(ctx)
			}
			_, _ = s.permissions(ctx)
		})
	}
	return func() {
		cancel()
		asked.Wait()
	}
}

func cannotLook(err error) Findings {
	report := finding(cannotLookAtAll, "", "The plan needs the list of nodes, storages and guests")
	report.Err = err
	return Findings{Refused: []*guest.FieldError{report}}
}

// check is Check by a listing.
func (s *Checker) check(ctx context.Context, r Request, resources pve.Resources) *planCheck {
	c := &planCheck{resources: resources, node: r.Node}
	c.look(ctx, s, r)
	return c
}

// look makes all the checks.
func (c *planCheck) look(ctx context.Context, s *Checker, r Request) {
	c.place(r)
	c.quorum(ctx, s)
	if r.Creating {
		c.vmid(ctx, s, r.VMID, r.Name)
		c.source(r.Clone)
	}
	if len(c.found) > 0 && (c.found[0].Path == "node" || c.found[0].Path == "nodes") {
		return
	}
	c.nodeState(r)
	c.clone(ctx, s, r)
	c.restore(ctx, s, r)
	c.moving(ctx, s, r)
	c.storages(ctx, s, r.Storages)
	c.images(r)
	c.storagesDown(ctx, s, r.Storages)
	c.volumes(ctx, s, r.Needs)
	c.pool(ctx, s, r.Pool)
	c.cpus(r.CPUs)
	c.formats(r.Formats)
	if c.node != "" && len(r.Bridges) > 0 {
		if networks, err := s.nodeNetworks(ctx, c.node); err == nil {
			c.bridges(ctx, s, r, networks)
		}
	}
	if c.node != "" {
		c.needs(ctx, s, r.Needs)
		c.orphans(ctx, s, r)
	}
	c.privileges(ctx, s, c.uses(r))
}

// place finds the node, or says why there is none.
func (c *planCheck) place(r Request) {
	var err error
	if len(r.Nodes) > 0 && c.node == "" {
		c.node, err = guest.FirstOnline(c.resources, r.Nodes)
		c.add(err)
	}
	if c.node == "" && len(r.Nodes) == 0 && r.Clone == nil && r.Creating && len(c.resources.Nodes()) > 1 {
		_, err := guest.Target(c.resources, "", "")
		c.add(err)
	}
	if c.node != "" {
		c.add(guest.CheckNode(c.resources, c.node))
	}
}

// clone asks whether the source can become what is wanted, where it is wanted. A source that cannot be read now is the apply's affair.
func (c *planCheck) clone(ctx context.Context, s *Checker, r Request) {
	if c.origin.VMID == 0 {
		return
	}
	config, err := s.guests.SourceConfig(ctx, c.origin.Node, c.origin.VMID)
	if err != nil {
		return
	}
	c.copy = vm.Decode(config)
	if c.node != "" && c.node != c.origin.Node {
		_, err := r.Clone.Migrates(c.resources, c.origin, config, c.node)
		c.add(err)
	}
	if r.Whole {
		c.copied(config, r.Planned, notLikeThis, strconv.Itoa(c.origin.VMID))
	}
}

// vmid reports an id that is taken, but for what a dead create left, which the apply removes or tells about. A VM of the same
// name may be the one that this create is to replace: with create_before_destroy Terraform plans the create once more in the
// apply, without any word of the VM in state, and keeps that VM where the create fails but loses sight of it where the plan does.
func (c *planCheck) vmid(ctx context.Context, s *Checker, vmid int, name string) {
	listed, ok := c.resources.Guest(vmid)
	if name == "" { // as PVE lists one without
		name = fmt.Sprintf("VM %d", vmid)
	}
	if !ok || listed.Lock == "create" || listed.Lock == "clone" || listed.Type == "qemu" && (listed.Name == "" || listed.Name == name) {
		return
	}
	if _, _, dead := s.guests.Unfinished(ctx, c.resources, listed); dead {
		return
	}
	c.say(vmidTaken, "vmid", fmt.Sprintf("%s on node %s has this id. %s", guest.Named(listed), listed.Node, guest.OtherThan(listed)),
		strconv.Itoa(vmid))
}

func (c *planCheck) source(clone *guest.Clone) {
	if clone == nil {
		return
	}
	found, err := guest.FindSource(c.resources, clone)
	if err != nil {
		c.add(err)
		return
	}
	if c.node == "" {
		c.node = found.Node
	}
	c.origin = found
	linked := clone.Full == nil && found.Template
	for path, value := range map[string]string{"clone.storage": clone.Storage, "clone.format": clone.Format} {
		if linked && value != "" {
			c.say(linkedElsewhere, path, fmt.Sprintf("VM %d is a template, of which PVE makes linked clones unless told otherwise: set "+
				"clone.full = true", found.VMID))
		}
	}
}

// volumes reports those that are on storages which are not there.
func (c *planCheck) volumes(ctx context.Context, s *Checker, needs []Need) {
	storages := map[string]string{}
	for _, need := range needs {
		if need.Kind.isVolume() {
			storages[need.Path] = vm.VolumeStorage(need.Value)
		}
	}
	c.storages(ctx, s, storages)
}

func (c *planCheck) pool(ctx context.Context, s *Checker, pool string) {
	if pool == "" {
		return
	}
	var names []string
	for _, r := range c.resources {
		if r.Type == "pool" {
			names = append(names, r.Pool)
		}
	}
	if !slices.Contains(names, pool) && s.mustHold(ctx, "/pool/"+pool, "Pool.Audit") {
		c.say(poolUnknown, "pool", "The cluster has the pools "+some(names)+", as far as this identity may see them (Pool.Audit)", pool)
	}
}
