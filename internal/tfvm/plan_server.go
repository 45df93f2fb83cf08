package tfvm

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// oldest is the first PVE release that the provider works with.
const oldest = 8

// checkServer holds the plan against the server, as far as its values are known. Only what changes is asked about, so a plan
// without such changes makes no request.
func (p *planning) checkServer(ctx context.Context) {
	if p.r.machines == nil {
		return
	}
	p.refuseNoBridge()
	p.checkRestrictions(ctx)
	request := p.request()
	// The node is the server's to choose while the source or the configured node is not known.
	chosen := p.config.at("node").IsKnown() && p.config.at("nodes").IsFullyKnown()
	if !p.sourceKnown() || p.creating() && p.sourcePlanned() {
		request.Clone, request.Whole, request.Planned, chosen = nil, false, vm.Spec{}, false
	}
	if !p.config.at("restore").IsFullyKnown() {
		request.Restore, request.Planned = nil, vm.Spec{}
	}
	if p.creating() {
		p.r.run.notePlanned(plannedVM{VMID: int(value(p.plan.VMID)), Name: value(p.plan.Name), Tags: p.plan.Tags})
	}
	version := p.askVersion(ctx)
	found := p.r.machines.Check(ctx, request)
	p.refuseOldServer(version())
	if !chosen {
		found.Refused = slices.DeleteFunc(found.Refused, func(problem *guest.FieldError) bool { return problem.Path == "node" })
	}
	attempt := p.r.attempt("plan", &p.plan, nil)
	p.diags.Append(tfkit.Verdicts(attempt, found.Refused, found.Doubtful)...)
}

// sourcePlanned reports whether the source of the clone is made by the same plan, so that it cannot be there yet.
func (p *planning) sourcePlanned() bool {
	c := p.plan.Clone
	return c != nil && p.r.run.isPlanned(plannedVM{VMID: int(value(c.VMID)), Name: value(c.Name), Tags: c.Tags})
}

// sourceKnown reports whether the configuration says which VM is cloned, if any.
func (p *planning) sourceKnown() bool {
	for _, selector := range []string{"vmid", "name", "tags", "node"} {
		if !p.config.at("clone." + selector).IsFullyKnown() {
			return false
		}
	}
	return true
}

// request is what the server can be asked about the plan.
func (p *planning) request() preflight.Request {
	plan, prior, creating := p.plan, p.prior, p.creating()
	q := preflight.Request{Creating: creating, Node: value(plan.Node), Nodes: plan.Nodes,
		Storages: map[string]string{}, Bridges: map[string]string{}, Needs: p.needs(), Formats: p.formats(), CPUs: p.startedCPUs(),
		Orphans: value(plan.OnOrphanedVolumes) == "destroy", Who: p.who(), Acting: p.r.run.acts(),
		Whole: p.config.raw.IsFullyKnown(), Started: p.isStarted() && !p.runs(), Running: p.runs()}
	p.describe(&q)
	if differ(prior.Node, plan.Node) { // everything is asked of the node that it goes to
		q.Moving = &preflight.Moving{From: *prior.Node}
		prior = model{Pool: prior.Pool, CDROMs: prior.CDROMs, Options: vm.Options{VMStateStorage: prior.VMStateStorage}}
	}
	if creating {
		q.Adopts = volumesOf(plan.adopts())
		q.VMID, q.Name, q.Clone = int(value(plan.VMID)), value(plan.Name), plan.Clone.request()
		if p.private.Replaces == q.VMID || p.r.run.wasRefreshed(q.VMID) {
			q.VMID = 0 // ours: it is replaced
		}
		if plan.Clone != nil {
			addChanged(q.Storages, "clone.storage", nil, plan.Clone.Storage)
		}
		if q.Restore = plan.Restore.request(); q.Restore != nil {
			addChanged(q.Storages, "restore.storage", nil, plan.Restore.Storage)
		}
	}
	if value(plan.Pool) != value(prior.Pool) {
		q.Pool = value(plan.Pool)
	}
	plan.addChangedDisks(q, prior)
	for slot, n := range plan.Networks {
		addChanged(q.Bridges, "networks."+slot+".bridge", prior.Networks[slot].Bridge, n.Bridge)
	}
	addChanged(q.Storages, "import_working_storage", prior.ImportStorage, plan.ImportStorage)
	before := prior.specialStorages()
	for at, storage := range plan.specialStorages() {
		addChanged(q.Storages, at, before[at], storage)
	}
	return q
}

// describe notes the VM as it is and is to be.
func (p *planning) describe(q *preflight.Request) {
	plan, prior := p.plan, p.prior
	q.ID = int(cmp.Or(value(prior.VMID), value(plan.VMID)))
	is, was := plan.Firewall, prior.Firewall
	q.Firewall = is != nil && !reflect.DeepEqual(is, was) && (len(is.Rules) > 0 || was != nil && len(was.Rules) > 0)
	if p.creating() {
		q.Planned = plan.spec(plan.copies())
		for slot, d := range plan.Disks {
			if d.Imported != nil && d.Volume == nil { // adopted, if it is not known yet which
				delete(q.Planned.Disks, slot)
			}
		}
		return
	}
	q.Prior, q.Planned = p.before.spec(false), p.after.spec(false)
	q.Stopped = value(prior.Status) == "running" && value(plan.PowerState) == string(guest.Stopped) && plan.HA == nil
	q.Started = q.Started && plan.HA == nil
	if value(plan.Pool) != value(prior.Pool) {
		q.LeftPool = value(prior.Pool)
	}
}

// who tells the VM of this plan from the others of the run: Terraform tells no provider a resource's address.
func (p *planning) who() string {
	id := value(p.prior.VMID)
	if p.creating() && p.config.isSet("vmid") {
		id = int64(p.config.number("vmid"))
	}
	if id != 0 {
		return fmt.Sprintf("VM %d", id)
	}
	if name := value(p.plan.Name); name != "" {
		return value(p.plan.Node) + " " + name
	}
	return ""
}

// warnOfReplacement says what the server may say of the VM that takes the place of another one: of the plan of that VM, which Terraform
// asks for next, it shows errors alone.
func (p *planning) warnOfReplacement(ctx context.Context) {
	next := *p
	next.state, next.prior, next.diags = tftypes.NewValue(p.state.Type(), nil), model{}, nil
	next.volumes = next.volumesOfNewVM(ctx)
	if next.compute(ctx, next.volumes.withAttached(next.config.raw)); !next.diags.HasError() {
		next.checkServer(ctx)
	}
	p.diags.Append(next.diags.Warnings()...)
}

// addChangedDisks notes the storages of disks that are new or change them.
func (m *model) addChangedDisks(q preflight.Request, prior model) {
	for slot, d := range m.Disks {
		addChanged(q.Storages, "disks."+slot+".storage", prior.Disks[slot].Storage, d.Storage)
	}
}

// specialStorages are the storages outside disks.
func (m *model) specialStorages() map[string]*string {
	all := map[string]*string{"vmstatestorage": m.VMStateStorage}
	if m.EFIDisk != nil {
		all["efi_disk.storage"] = m.EFIDisk.Storage
	}
	if m.TPMState != nil {
		all["tpm_state.storage"] = m.TPMState.Storage
	}
	if m.CloudInit != nil {
		all["cloud_init.storage"] = m.CloudInit.Storage
	}
	return all
}

// addChanged notes a value that is not in state yet.
func addChanged(all map[string]string, at string, was, is *string) {
	if is != nil && (was == nil || *was != *is) {
		all[at] = *is
	}
}

// refuseNoBridge refuses network devices without a bridge, which PVE gives to root@pam with a password only (qemu-server
// API2/Qemu.pm, check_vm_modify_config_perm).
func (p *planning) refuseNoBridge() {
	session := p.r.Session
	if !session.Known() || session.API.Identity().IsRootTicket() {
		return
	}
	for _, slot := range sortedSlots(p.plan.Networks) {
		was, existed := p.prior.Networks[slot]
		at := "networks." + slot + ".bridge"
		if p.plan.Networks[slot].Bridge != nil || existed && was.Bridge == nil || !(configuration{p.value}).at(at).IsKnown() {
			continue
		}
		where, _ := p.plan.locator().Attribute(at)
		p.diags.AddAttributeError(where, "Only root@pam may attach a network device to no bridge",
			fmt.Sprintf("PVE lets nobody but the user root@pam with a password make a device without a bridge (\"no sdn vnet ID specified\"); "+
				"the provider acts as %s. Give %s a bridge, or give the provider username = \"root@pam\" and a password.",
				session.API.Identity().User, slot))
	}
}

// askVersion asks for the server's version, which a create needs, while the rest is looked at. The function that it returns awaits
// the answer.
func (p *planning) askVersion(ctx context.Context) func() (pve.Version, error) {
	if !p.creating() || !p.r.Session.Known() {
		return func() (pve.Version, error) { return pve.Version{}, nil }
	}
	answer := sync.OnceValues(func() (pve.Version, error) { return p.r.Session.API.Version(ctx) })
	go func() { _, _ = answer() }()
	return answer
}

// refuseOldServer refuses servers that are too old. What the server does not tell is left to the requests that need it.
func (p *planning) refuseOldServer(v pve.Version, err error) {
	if err == nil && v.Major > 0 && !v.AtLeast(oldest, 0) {
		p.diags.AddError("This Proxmox VE is too old", fmt.Sprintf("The server at %s runs Proxmox VE %s; the provider needs %d.0 or later.",
			p.r.Session.API.Endpoint(), v.Version, oldest))
	}
}
