package planning

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	planned "github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/run"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// oldest is the first PVE release that the provider works with.
const oldest = 8

// serverCheck compares a plan with the server.
type serverCheck struct{ *Planning }

// checkServer holds the plan against the server, as far as its values are known. Only what changes is asked about, so a
// plan without such changes makes no request.
func (p serverCheck) checkServer(ctx context.Context) {
	if p.Machines == nil || p.left {
		return
	}
	if p.Session.Known() {
		p.refuseNoBridge()
		restrictionCheck(p).checkRestrictions(ctx)
	}
	request := p.request()
	// The node is the server's to choose while the source or the configured node is not known.
	chosen := p.Config.At("node").IsKnown() && p.Config.At("nodes").IsFullyKnown()
	request.NodeOpen = !chosen
	source, isPlanned := p.plannedSource()
	if !p.sourceKnown() || p.Creating() && isPlanned {
		if p.Creating() && source.Spec != nil {
			request.Copy = &preflight.Copy{VMID: source.VMID, Pool: source.Pool, Clone: *request.Clone, From: *source.Spec,
				To: request.Planned}
		}
		request.Clone, request.Whole, request.Planned, chosen = nil, false, vm.Spec{}, false
	}
	if !p.Config.At("restore").IsFullyKnown() {
		request.Restore, request.Planned = nil, vm.Spec{}
	}
	if p.Creating() {
		p.Run.NotePlanned(p.planned())
	}
	version := p.askVersion(ctx)
	found := p.Machines.Check(ctx, request)
	p.refuseOldServer(version())
	if !chosen {
		found.Refused = slices.DeleteFunc(found.Refused,
			func(problem *guest.FieldError) bool { return problem.Path == "node" })
	}
	attempt := p.Plan.Attempt(p.Session.Identity(), "check", nil)
	p.Diags.Append(kit.Verdicts(attempt, found.Refused, found.Doubtful)...)
}

// planned is the new VM for the plans of its clones.
func (p serverCheck) planned() run.PlannedVM {
	vm := run.PlannedVM{VMID: int(model.Value(p.Plan.VMID)), Name: model.Value(p.Plan.Name), Tags: p.Plan.AllTags(),
		Pool: model.Value(p.Plan.Pool)}
	if p.Config.Raw.IsFullyKnown() && !p.Plan.Copies() {
		vm.Spec = new(p.Plan.Spec(false))
	}
	return vm
}

// plannedSource is the source of the clone if the same plan makes it, so that it cannot be there yet.
func (p serverCheck) plannedSource() (source run.PlannedVM, ok bool) {
	c := model.Value(p.Plan.Clone)
	return p.Run.Planned(run.PlannedVM{VMID: int(model.Value(c.VMID)), Name: model.Value(c.Name), Tags: c.Tags})
}

// sourceKnown reports whether the configuration says which VM is cloned, if any.
func (p serverCheck) sourceKnown() bool {
	return !slices.ContainsFunc([]string{"vmid", "name", "tags", "node"}, func(selector string) bool {
		return !p.Config.At("clone." + selector).IsFullyKnown()
	})
}

// sourceOpen reports whether a clone of a VM may be another one in the apply than it seems to be now.
func (p serverCheck) sourceOpen(vmid int) bool {
	seen := p.Run.Seen(vmid)
	return p.Plan.Clone.Snapshot != nil && seen.Snapped || !p.Config.At("clone").IsFullyKnown() || seen.Changing
}

// request is what the server can be asked about the plan.
func (p serverCheck) request() preflight.Request {
	plan, prior, creating := p.Plan, p.Prior, p.Creating()
	needed := requirements(p)
	q := preflight.Request{Creating: creating, Node: model.Value(plan.Node), Nodes: plan.Nodes,
		Storages: map[string]string{}, Bridges: map[string]string{}, Needs: needed.needs(), Formats: needed.formats(),
		CPUs:    needed.startedCPUs(),
		Orphans: p.mayDestroyOrphans(), Who: p.who(), Acting: p.Acting,
		Whole: p.Config.Raw.IsFullyKnown(), Started: p.IsStarted() && !p.Runs(), Running: p.Runs(),
		Changes: func(vmid int) bool { return p.Run.Seen(vmid).Changing }}
	p.describe(&q)
	if model.Differ(prior.Node, plan.Node) { // everything is asked of the node that it goes to
		q.Moving = &preflight.Moving{From: *prior.Node, Attached: p.Attached, ByHA: plan.StaysUnderHA(prior)}
		prior = model.Model{Pool: prior.Pool, CDROMs: prior.CDROMs, Options: vm.Options{VMStateStorage: prior.VMStateStorage}}
	}
	if creating {
		q.Adopts = model.VolumesOf(plan.Adopts())
		q.VMID, q.Name, q.Clone = int(model.Value(plan.VMID)), model.Value(plan.Name), plan.Clone.Request()
		if p.Private.Replaces == q.VMID || p.Run.Seen(q.VMID).InState {
			// Ours: it is replaced. With it go the permissions on its id (qemu-server API2/Qemu.pm, destroy_vm).
			if p.Run.Seen(q.VMID).Gone {
				q.Gone = q.VMID
			}
			q.VMID, q.ID = 0, 0
		}
		q.OtherID = p.Private.Replaces != 0 && !p.Acting
		if plan.Clone != nil {
			q.SourceOpen = p.sourceOpen
			addChanged(q.Storages, "clone.storage", nil, plan.Clone.Storage)
		}
		if q.Restore = plan.Restore.Request(); q.Restore != nil {
			q.Leaves = p.leaves
			addChanged(q.Storages, "restore.storage", nil, plan.Restore.Storage)
		}
	}
	if model.Value(plan.Pool) != model.Value(prior.Pool) {
		q.Pool = model.Value(plan.Pool)
	}
	for slot, d := range plan.Disks {
		addChanged(q.Storages, "disks."+slot+".storage", prior.Disks[slot].Storage, d.Storage)
	}
	for slot, n := range plan.Networks {
		addChanged(q.Bridges, "networks."+slot+".bridge", prior.Networks[slot].Bridge, n.Bridge)
	}
	addChanged(q.Storages, "import_working_storage", prior.ImportStorage, plan.ImportStorage)
	before := prior.SpecialStorages()
	for at, storage := range plan.SpecialStorages() {
		addChanged(q.Storages, at, before[at], storage)
	}
	return q
}

// leaves reports whether the new VM takes the place of one with this id. A tainted VM is known by its vmid or its name.
func (p serverCheck) leaves(vmid int) bool {
	shown, isShown := p.Run.ShownAs(run.KeyOf(p.Private))
	open := p.Run.NotShown()[vmid]
	return p.Private.Replaces == vmid || isShown && int(shown.VMID) == vmid ||
		int(model.Value(p.Plan.VMID)) == vmid && p.Run.Seen(vmid).InState ||
		open != nil && p.Plan.Name != nil && open.Name == *p.Plan.Name
}

// mayDestroyOrphans reports whether on_orphaned_volumes is "destroy", or follows from something that is not known yet.
func (p serverCheck) mayDestroyOrphans() bool {
	return model.Value(p.Plan.OnOrphanedVolumes) == "destroy" || !p.Config.At("on_orphaned_volumes").IsKnown()
}

// warnUnnamedOrphans tells that a create may destroy volumes which this plan cannot name, since their id or node is not
// known yet.
func (p serverCheck) warnUnnamedOrphans() {
	known := p.Config.At("vmid").IsKnown() && p.Config.At("node").IsKnown() && p.Config.At("nodes").IsFullyKnown()
	if !p.Creating() || p.Acting || !p.mayDestroyOrphans() || known {
		return
	}
	p.Diags.AddAttributeWarning(path.Root("on_orphaned_volumes"), "The volumes that will be destroyed are not known yet",
		"The vmid or the node follows from something else that this apply makes. Where this option is \"destroy\", all "+
			"volumes that carry that id on that node, and that no VM owns, are destroyed with their data before the VM is "+
			"made, and no plan names them. To see them first, make the other objects with -target, and plan again.")
}

// describe notes the VM as it is and is to be.
func (p serverCheck) describe(q *preflight.Request) {
	plan, prior := p.Plan, p.Prior
	q.ID = int(cmp.Or(model.Value(prior.VMID), model.Value(plan.VMID)))
	q.Restarts, q.Agent = p.Restarts, p.failsWithoutAgent()
	q.Unknown = planned.Unknowns(p.Config.Raw)
	q.HA, q.Unheard = !reflect.DeepEqual(plan.HA, prior.HA), p.unheard
	is, was := plan.Firewall, prior.Firewall
	q.Firewall = is != nil && (len(is.Rules) > 0 || was != nil && len(was.Rules) > 0) && !reflect.DeepEqual(is, was) ||
		firewallOptionsDiffer(is, was)
	if p.Creating() {
		q.Planned = plan.Spec(plan.Copies())
		if p.Config.IsSet("cloud_init_password_wo") { // which no plan has
			q.Planned.CloudInit.PasswordHash = new("*")
		}
		for _, slot := range model.SortedSlots(plan.Disks) {
			if d := plan.Disks[slot]; d.Imported != nil {
				if q.Imported = append(q.Imported, slot); d.Volume == nil { // adopted, if it is not known yet which
					delete(q.Planned.Disks, slot)
				}
			}
		}
		return
	}
	q.Beside = p.Private.Beside()
	q.Prior, q.Planned = p.Private.WithDisks(&p.Prior, p.Before.Spec(false), p.After.Spec(false))
	q.Stopped = model.Value(prior.Status) == "running" && model.Value(plan.PowerState) == string(guest.Stopped) &&
		plan.HA == nil
	q.Started = q.Started && plan.HA == nil
	q.DestroyRemoved = model.Value(plan.RemovedDisks) == "destroy"
	q.SnapshotsGo = slices.Collect(maps.Keys(p.Run.SnapshotsGo(q.ID)))
	if model.Value(plan.Pool) != model.Value(prior.Pool) {
		q.LeftPool = model.Value(prior.Pool)
	}
}

// failsWithoutAgent reports whether the apply is to fail if the guest's agent does not answer.
func (p serverCheck) failsWithoutAgent() bool {
	wait := p.Plan.WaitFor.Request()
	if p.Creating() {
		wait = p.Plan.AwaitedByCreate(p.Config)
	}
	return wait != nil && !wait.Warn && model.Value(model.Value(p.Plan.Agent).Enabled) && p.IsStarted() &&
		(len(p.Plan.Networks) > 0 || !wait.ByDefault) // without a device no address is waited for
}

// firewallOptionsDiffer reports whether a plan sets other options of the firewall.
func firewallOptionsDiffer(is, was *firewall.Settings) bool {
	if is == nil {
		return false
	}
	options, before := *is, model.Value(was)
	options.Rules, before.Rules = nil, nil
	return !reflect.DeepEqual(options, before)
}

// checkDestroy asks for the privileges that it takes to remove the VM, alone or to replace it.
func (p serverCheck) checkDestroy(ctx context.Context) {
	if p.Machines == nil {
		return
	}
	prior := p.Prior
	d := prior.OnDestroy
	purges := d == nil || d.Purge == nil || *d.Purge // else the destroy is refused for the HA entry
	found := p.Machines.Check(ctx, preflight.Request{Removing: true, Node: model.Value(prior.Node),
		ID: int(model.Value(prior.VMID)), HA: prior.HA != nil && purges && !d.IsForced(),
		Who: "destroy " + p.who(), Stopped: model.Value(prior.Status) == "running",
		Forced: d.IsForced(), Acting: p.Acting})
	p.Diags.Append(kit.Verdicts(prior.Attempt(p.Session.Identity(), "destroy", nil), found.Refused, found.Doubtful)...)
}

// who tells the VM of this plan from the others of the run: Terraform tells no provider a resource's address.
func (p serverCheck) who() string {
	id := model.Value(p.Prior.VMID)
	if p.Creating() && p.Config.IsSet("vmid") {
		id = int64(p.Config.Number("vmid"))
	}
	if id != 0 {
		return fmt.Sprintf("VM %d", id)
	}
	if name := model.Value(p.Plan.Name); name != "" {
		return model.Value(p.Plan.Node) + " " + name
	}
	return ""
}

// warnOfReplacement says what the server may say of the VM that takes the place of another one: of the plan of that VM,
// which Terraform asks for next, it shows errors alone.
func (p *Planning) warnOfReplacement(ctx context.Context) {
	next := *p
	next.State, next.Prior, next.Diags = tftypes.NewValue(p.State.Type(), nil), model.Model{}, nil
	next.Private.Replaces = int(model.Value(p.Prior.VMID))
	next.volumes, next.unheard = next.volumesOfNewVM(ctx), true
	if next.compute(ctx, next.volumes.withAttached(next.Config.Raw)); !next.Diags.HasError() {
		serverCheck{&next}.warnUnnamedOrphans()
		serverCheck{&next}.checkServer(ctx)
	}
	p.Diags.Append(next.Diags.Warnings()...)
}

// addChanged notes a value that is not in state yet.
func addChanged(all map[string]string, at string, was, is *string) {
	if is != nil && (was == nil || *was != *is) {
		all[at] = *is
	}
}

// refuseNoBridge refuses network devices without a bridge, which PVE gives to root@pam with a password only
// (qemu-server API2/Qemu.pm, check_vm_modify_config_perm).
func (p serverCheck) refuseNoBridge() {
	identity := p.Session.API.Identity()
	if identity.IsRootTicket() || identity.PlanOnly {
		return
	}
	for _, slot := range model.SortedSlots(p.Plan.Networks) {
		was, existed := p.Prior.Networks[slot]
		at := "networks." + slot + ".bridge"
		planned := (model.Configuration{Raw: p.Value}).At(at)
		if cloning(p).inherits(at) || existed && was.Bridge == nil || !planned.IsKnown() || !planned.IsNull() {
			continue
		}
		where, _ := p.Plan.Locator().Attribute(at)
		p.Diags.AddAttributeError(where, "Only root@pam may attach a network device to no bridge",
			fmt.Sprintf("PVE lets only the user root@pam with a password make a device without a bridge (\"no sdn vnet "+
				"ID specified\"); the provider acts as %s. Give %s a bridge, or give the provider username = \"root@pam\" and a "+
				"password.",
				identity.User, slot))
	}
}

// warnAsleep tells that the apply will refuse to change a guest that is suspended to disk. One that is only started
// goes on.
func (p serverCheck) warnAsleep() {
	vmid := int(model.Value(p.Prior.VMID))
	if p.Acting || !p.Run.Seen(vmid).Asleep {
		return
	}
	c := vm.Diff(p.Before.Spec(false), p.After.Spec(false))
	if c.Empty() && !model.Differ(p.Prior.Node, p.Plan.Node) {
		return
	}
	p.Diags.AddWarning(p.Prior.Thing()+" is suspended to disk", guest.Wake(vmid, model.Value(p.Prior.Node))+". Else the "+
		"apply changes nothing and fails.")
}

// askVersion asks for the server's version, which a create needs, while the rest is looked at. The function that it
// returns awaits the answer.
func (p serverCheck) askVersion(ctx context.Context) func() (pve.Version, error) {
	if !p.Creating() || !p.Session.Known() {
		return func() (pve.Version, error) { return pve.Version{}, nil }
	}
	type answer struct {
		version pve.Version
		err     error
	}
	answered := make(chan answer, 1)
	go func() {
		version, err := p.Session.API.Cluster().Version(ctx)
		answered <- answer{version, err}
	}()
	return func() (pve.Version, error) { a := <-answered; return a.version, a.err }
}

// refuseOldServer refuses servers that are too old. A fact that the server does not tell is left to the requests that
// need it.
func (p serverCheck) refuseOldServer(v pve.Version, err error) {
	if err == nil && v.Major > 0 && !v.AtLeast(oldest, 0) {
		p.Diags.AddError("This Proxmox VE is too old", fmt.Sprintf("The server at %s runs Proxmox VE %s; the provider "+
			"needs %d.0 or later.",
			p.Session.API.Endpoint(), v.Version, oldest))
	}
}
