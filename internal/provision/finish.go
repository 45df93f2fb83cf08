package provision

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// configure enforces on a clone what the configuration says, and leaves the rest as the template has it.
func (c *creation) configure(ctx context.Context) error {
	config, err := c.s.api.CurrentConfig(ctx, c.node, c.vmid)
	if err != nil {
		return err
	}
	if !c.stamp.proves(c.vmid, config.Values) {
		return c.unmarked()
	}
	c.identity = identityOf(config.Values)
	has := vm.Decode(config.Values)
	want := vm.Merge(has, c.r.Spec)
	want.Description, want.Protection, want.Template = has.Description, has.Protection, has.Template
	vm.Complete(&want)
	c.change = vm.Diff(has, want)
	if len(c.change.Problems) > 0 {
		return problems("configure", c.vmid, c.change)
	}
	if _, renewed := c.change.Set["smbios1"]; renewed {
		c.identity = Identity{} // the commit looks again
	}
	if len(c.change.DeleteFirst) > 0 && has.Protection != nil && *has.Protection { // inherited; the commit sets it again
		if err := c.s.set(ctx, c.node, c.vmid, pve.Params{"protection": "0"}); err != nil {
			return err
		}
		c.unprotected = true
	}
	if err := c.s.apply(ctx, &c.ledger, c.node, c.vmid, c.change, ""); err != nil {
		return err
	}
	if order := c.r.Spec.BootOrder; order != nil && appends(c.change, has.BootOrder) {
		return c.s.reorder(ctx, c.node, c.vmid, order)
	}
	return nil
}

func (c *creation) unmarked() error {
	return fmt.Errorf("VM %d on node %s is not marked as this create's any more: somebody changed or replaced it", c.vmid, c.node)
}

// problems is what cannot be done in place, worded like a refusal of the options concerned by PVE, so that it is shown on
// their attributes.
func problems(verb string, vmid int, change vm.Change) error {
	params := map[string]string{}
	for _, p := range change.Problems {
		params[p.Option] = p.Text
	}
	return &pve.Error{Op: fmt.Sprintf("%s VM %d", verb, vmid), Kind: pve.Invalid, Message: "nothing was changed", Params: params}
}

// apply sends the options of a change: through a task where a volume is allocated, since a request may only take 30 s.
func (s *Service) apply(ctx context.Context, l *ledger, node string, vmid int, change vm.Change, digest string) error {
	if len(change.DeleteFirst) > 0 {
		params := pve.Params{"delete": strings.Join(change.DeleteFirst, ",")}
		if digest != "" {
			params["digest"] = digest
		}
		if err := s.set(ctx, node, vmid, params); err != nil {
			return err
		}
		digest = "" // the request has just changed it
	}
	if len(change.Set)+len(change.Delete) == 0 {
		return nil
	}
	params := pve.Params{}
	for option, value := range change.Set {
		params[option] = value
	}
	if len(change.Delete) > 0 {
		params["delete"] = strings.Join(change.Delete, ",")
	}
	if digest != "" {
		params["digest"] = digest
	}
	if !change.Allocates() {
		return s.set(ctx, node, vmid, params)
	}
	_, err := s.perform(ctx, l, job{node: node, typ: "qmconfig", id: vmid,
		send: func(ctx context.Context) (pve.UPID, error) { return s.api.UpdateConfigTask(ctx, node, vmid, params) }})
	return err
}

// set changes options that allocate nothing, as soon as nobody holds the VM.
func (s *Service) set(ctx context.Context, node string, vmid int, params pve.Params) error {
	return s.contend(ctx, node, vmid, func(ctx context.Context) error { return s.put(ctx, node, vmid, params) })
}

// put changes options that allocate nothing. Such a request means the same when it is sent twice, so a lost answer is
// followed by a second try, without the digest, which the first may have changed.
func (s *Service) put(ctx context.Context, node string, vmid int, params pve.Params) error {
	err := s.api.UpdateConfig(ctx, node, vmid, params)
	if !pve.IsKind(err, pve.Ambiguous) {
		return err
	}
	late, cancel := s.lookAfter(ctx) // an interrupt may have cut the line: a second try settles what is true
	defer cancel()
	params = maps.Clone(params)
	delete(params, "digest")
	for attempt := 1; attempt < 3 && pve.IsKind(err, pve.Ambiguous) && s.pause(late, attempt) == nil; attempt++ {
		err = s.api.UpdateConfig(late, node, vmid, params)
	}
	return err
}

// shape moves and grows disks.
func (c *creation) shape(ctx context.Context) error {
	return c.s.shape(ctx, &c.ledger, c.node, c.vmid, c.change)
}

func (s *Service) shape(ctx context.Context, l *ledger, node string, vmid int, change vm.Change) error {
	for _, m := range change.Moves {
		params := pve.Params{"disk": m.Slot, "storage": m.Storage, "delete": "1"}
		if m.Format != "" {
			params["format"] = m.Format
		}
		if _, err := s.perform(ctx, l, job{node: node, typ: "qmmove", id: vmid,
			send: func(ctx context.Context) (pve.UPID, error) { return s.api.MoveDisk(ctx, node, vmid, params) }}); err != nil {
			return fmt.Errorf("move %s to %s: %w", m.Slot, m.Storage, err)
		}
	}
	grow := slices.Clone(change.Grow)
	slices.SortFunc(grow, func(a, b vm.Growth) int { return strings.Compare(a.Slot, b.Slot) })
	for _, g := range grow {
		if _, err := s.perform(ctx, l, job{node: node, typ: "resize", id: vmid,
			send: func(ctx context.Context) (pve.UPID, error) {
				return s.api.Resize(ctx, node, vmid, g.Slot, vm.FormatSize(g.Size))
			}}); err != nil {
			return fmt.Errorf("grow %s to %s: %w", g.Slot, vm.FormatSize(g.Size), err)
		}
	}
	return nil
}

// convert makes the VM a template.
func (c *creation) convert(ctx context.Context) error {
	return c.s.convert(ctx, &c.ledger, c.node, c.vmid)
}

func (s *Service) convert(ctx context.Context, l *ledger, node string, vmid int) error {
	_, err := s.perform(ctx, l, job{node: node, typ: "qmtemplate", id: vmid,
		send: func(ctx context.Context) (pve.UPID, error) { return s.api.ConvertToTemplate(ctx, node, vmid) }})
	return err
}

// start starts the VM.
func (c *creation) start(ctx context.Context) error {
	result, err := c.s.start(ctx, &c.ledger, c.node, c.vmid)
	c.warn(fmt.Sprintf("Start of VM %d ended with warnings", c.vmid), result)
	return err
}

// commit is the last write: it puts the wanted description in the stamp's place, and sets protection. Before it the VM is
// ours to remove; after it, it is the user's.
func (c *creation) commit(ctx context.Context) error {
	if err := c.recognise(ctx); err != nil {
		return err
	}
	params := pve.Params{}
	description := c.r.Spec.Description
	if description == nil && c.origin != nil && c.origin.description != "" {
		description = &c.origin.description
	}
	if description == nil || *description == "" {
		params["delete"] = "description"
	} else {
		params["description"] = *description
	}
	if c.unprotected {
		params["protection"] = "1"
	}
	if p := c.r.Spec.Protection; p != nil {
		params["protection"] = "0"
		if *p {
			params["protection"] = "1"
		}
	}
	return c.s.set(ctx, c.node, c.vmid, params)
}

// recognise notes the VM's identity while the stamp still proves that it is ours: after a commit whose answer is lost
// nothing else does.
func (c *creation) recognise(ctx context.Context) error {
	if !c.identity.IsZero() {
		return nil
	}
	config, err := c.s.api.CurrentConfig(ctx, c.node, c.vmid)
	if err != nil {
		return err
	}
	if !c.stamp.proves(c.vmid, config.Values) {
		return c.unmarked()
	}
	c.identity = identityOf(config.Values)
	return nil
}
