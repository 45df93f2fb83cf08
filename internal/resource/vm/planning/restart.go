package planning

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// restart tells before a running VM is restarted, where the plan can know it. The options that PVE takes from a running
// guest depend on its hotplug setting and its devices, so not every restart is foreseen; PVE decides.
type restart struct{ *Planning }

// warn tells first of the devices that the guest loses, for a moment or for good. It asks the server only about a VM
// that a change would restart, or may, since it is not known yet.
func (p restart) warn(ctx context.Context) {
	unknown := plan.Unknowns(p.Config.Raw)
	before, after := p.keeping(ctx, unknown)
	p.warnReplugged(unknown, before, after)
	options, open := p.options(before, after), p.mayWait(unknown, before)
	if len(options)+len(open) == 0 || p.Plan.EndsStopped() {
		return
	}
	options, is := p.certain(ctx, options, after)
	if !is.Running || len(options)+len(open) == 0 {
		return
	}
	what, will, keeps, takes, changes := strings.Join(options, ", "), "will", "keeps", "takes", "changes"
	first, last := "", resets(options, before, after)
	if len(options) > 1 {
		takes = "take"
	}
	switch also := strings.Join(open, ", "); {
	case len(options) == 0:
		what, will, keeps, takes, changes = also, "may", "may keep", "may take", "may change"
		first = fmt.Sprintf("%s %s not known yet, and may stay the same. ", also, are(open))
	case len(open) > 0:
		last = fmt.Sprintf(" So it may be with %s, which %s not known yet.", also, are(open)) + last
	}
	policy := model.Value(p.Plan.RebootPolicy)
	if policy != "never" && model.Value(p.Prior.Status) == "stopped" {
		p.diags.AddAttributeWarning(path.Root("power_state"), fmt.Sprintf("%s %s running with the old values",
			p.Prior.Thing(), keeps), fmt.Sprintf("%sThe refresh has found it off, and it runs by now. %s %s effect at its next "+
			"stop and start. This apply leaves it running; the next plan shows the restart.%s", first, what, takes, last))
		return
	}
	if policy == "never" {
		p.diags.AddAttributeWarning(path.Root("reboot_policy"), fmt.Sprintf("%s %s running with the old values",
			p.Prior.Thing(), keeps), fmt.Sprintf("%s%s %s effect at the next stop and start of the VM, which reboot_policy = "+
			"\"never\" leaves to you.%s", first, what, takes, last))
		return
	}
	p.restarts = len(options) > 0
	disobedient := "a guest that does not obey keeps running, and the apply fails"
	switch {
	case !p.Config.At("reboot_policy").IsKnown():
		disobedient = "reboot_policy is not known yet, and a guest that does not obey is cut off if that is \"force\""
	case policy == "force":
		disobedient = "a guest that does not obey is cut off"
	}
	p.diags.AddWarning(fmt.Sprintf("%s %s be restarted", p.Prior.Thing(), will),
		fmt.Sprintf("%sPVE %s %s on a running VM at its restart only. The apply asks the guest to restart then; %s. Set "+
			"reboot_policy = \"never\" to leave it running.%s%s", first, changes, what, disobedient, last,
			p.beside(options, is)))
}

// resets names the options among those that wait for a restart which go back to PVE's default, with it: the plan shows
// no value for them.
func resets(options []string, before, after vm.Spec) (said string) {
	had, has := vm.Encode(before), vm.Encode(after)
	for _, option := range options {
		if a, _ := vm.AttributeOf(option); a.Default != "" && had[option] != "" && has[option] == "" {
			said += fmt.Sprintf(" %s goes back to PVE's default, %s.", a.Path, a.Default)
		}
	}
	return said
}

// keeping is the VM before and after the change if every value that is not known yet stays as it is.
func (p restart) keeping(ctx context.Context, unknown []string) (before, after vm.Spec) {
	was, is := p.before, p.after
	if len(unknown) > 0 {
		essence, diags := p.Essence(ctx, plan.Keep(p.Value, p.State, unknown), p.State)
		p.diags.Append(diags...)
		was, is = model.Normalized(p.Prior, essence, p.private.Managed)
	}
	return was.Spec(false), is.Spec(false)
}

// mayWait are the attributes, among those that are not known yet, of which PVE may leave a change to the next start.
func (p restart) mayWait(unknown []string, before vm.Spec) []string {
	return slices.DeleteFunc(unknown, func(at string) bool { return !vm.MayNeedRestart(at, before) })
}

// beside names the changes by others that a restart brings in force too: PVE cannot restart for some changes only. A
// boot order may be one that PVE has written itself, without a device that leaves. It also names the disks that wait to
// be replaced in slots of the plan: an earlier apply may have set that, or a third party, whose disk the state has.
func (p restart) beside(options []string, is preflight.InForce) (said string) {
	var theirs, replaced []string
	foreign, after := p.private.Foreign(p.Prior), p.after.Spec(false)
	disks, sets := after.EveryDisk(), vm.Diff(p.before.Spec(false), after).Set
	for _, option := range p.Prior.PendingChanges {
		line := option
		if becomes := is.Removed[option]; becomes != "" {
			line += ": " + becomes
		}
		switch gets := disks[option].Volume; {
		case line != option && gets != "": // what would take the disk in force away is taken back
			if gets != is.Spec.EveryDisk()[option].Volume {
				replaced = append(replaced, line)
			}
		case sets[option] != "" || slices.Contains(options, option) || option == "boot":
		case slices.Contains(foreign, option):
			theirs = append(theirs, line)
		}
	}
	if len(replaced) > 0 {
		said = " The restart puts another disk in the place of one: " + strings.Join(replaced, "; ") + "."
	}
	if len(theirs) > 0 {
		said += " The restart also brings in force changes by others that wait: " + strings.Join(theirs, "; ") + "."
	}
	return said
}

// warnOfLostDisks names the disks that a waiting change of their slots takes from the VM with this apply, where another
// disk has the slot by the state, or a third party has it removed. PVE carries out all that waits at the stop of the
// guest, and with the first request to a VM that is off, or its start (qemu-server QemuServer.pm vm_stop_cleanup,
// vm_start_nolock, API2/Qemu.pm update_vm_api).
func (p restart) warnOfLostDisks(ctx context.Context) {
	isKnown := p.Machines != nil && p.Prior.Node != nil && p.Prior.VMID != nil
	if !isKnown || p.Run.Acts() || !slices.ContainsFunc(p.Prior.PendingChanges, vm.IsSlot) {
		return
	}
	before, after := p.before.Spec(false), p.after.Spec(false)
	writes := p.isStarted() || p.Plan.HA.Starts() || !vm.Diff(before, after).Empty()
	is, err := p.volumes.inForce(ctx)
	if err != nil {
		return
	}
	is.Removed = maps.Clone(is.Removed)
	maps.DeleteFunc(is.Removed, func(slot, _ string) bool { return p.warnOfLeaving(slot, is) || p.warnOfBoth(slot, is) })
	p.warnNotYet(is, before, vm.Diff(before, after))
	if is.Running && !p.Plan.EndsStopped() || !is.Running && !writes {
		return
	}
	when := "with the first request to the VM, which is off, or with its start"
	if is.Running {
		when = "at the stop of the guest"
	}
	has, known, gets := vm.Encode(is.Spec), vm.Encode(before), vm.Encode(after)
	for _, slot := range slices.Sorted(maps.Keys(is.Removed)) {
		loses := known[slot] != "" && guest.VolumeOf(gets[slot]) != guest.VolumeOf(has[slot])
		if gets[slot] == "" {
			loses = slices.Contains(p.private.Foreign(p.Prior), slot)
		}
		if !loses {
			continue
		}
		keep := shell.Or(shell.VM("qm set {vmid} --revert {}", int(*p.Prior.VMID), slot), shell.ByHand)
		p.diags.AddAttributeWarning(p.attributeOf(slot), slot+" of "+p.Prior.Thing()+" loses a disk",
			fmt.Sprintf("A change of the slot waits, and PVE carries it out %s: %s. To keep that disk in %s, take the change "+
				"back before this apply: %s on node %s.", when, is.Removed[slot], slot, keep, *p.Prior.Node))
	}
}

// warnNotYet tells of disks that the plan moves or grows while they wait for a restart of the guest, where none is to
// come: PVE would move or grow the disk that is in force until then (qemu-server API2/Qemu.pm move_vm_disk, resize_vm).
func (p restart) warnNotYet(is preflight.InForce, before vm.Spec, change vm.Change) {
	if !is.Running || p.restarts || p.Plan.EndsStopped() {
		return
	}
	shaped := map[string]string{}
	for _, m := range change.Moves {
		shaped[m.Slot] = "moved"
	}
	for _, g := range change.Grow {
		shaped[g.Slot] = "grown"
	}
	for _, slot := range slices.Sorted(maps.Keys(shaped)) {
		waits, has := before.Disks[slot].Volume, is.Spec.Disks[slot].Volume
		if waits == "" || waits == has {
			continue
		}
		p.diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot), fmt.Sprintf("%s of %s cannot be %s yet", slot,
			p.Prior.Thing(), shaped[slot]), fmt.Sprintf("%s waits for the next stop and start of the VM, which has %s in it "+
			"until then: the apply will be refused. Stop and start the VM first.", waits, cmp.Or(has, "nothing")))
	}
}

// warnUnclaimed tells of options that wait for a restart, where the plan has nothing to do. The configuration sets
// them, or has set them, and nothing tells whether an apply has sent them that was killed since, or a third party: no
// restart is made.
func (p restart) warnUnclaimed() {
	configured := func() plan.Managed { return p.Shape.Managed(p.Config.Raw) }
	waiting := p.private.Unclaimed(p.Prior, p.Plan, configured)
	if len(waiting) == 0 {
		return
	}
	command := shell.Or(shell.VM("qm reboot {vmid}", int(model.Value(p.Prior.VMID))), "a restart")
	p.diags.AddWarning(p.Prior.Thing()+" runs with earlier values of "+strings.Join(waiting, ", "),
		fmt.Sprintf("The configured ones wait for its next stop and start. No apply makes it, since nothing tells that one "+
			"has set them; %s on node %s does.", command, model.Value(p.Prior.Node)))
}

// warnOfCloudInit tells that a running guest reads changed cloud-init data at its next start only, where this apply
// restarts it for nothing else. The drive has them at once (update, regenerateCloudInit).
func (p restart) warnOfCloudInit(ctx context.Context) {
	had, has := p.Prior.CloudInit, p.Plan.CloudInit
	drive := had != nil && had.Volume != nil && has != nil && has.Storage != nil
	if !drive || !p.runs() || p.restarts || p.Plan.EndsStopped() || p.Run.Acts() {
		return
	}
	before, after := p.keeping(ctx, plan.Unknowns(p.Config.Raw))
	change, at := vm.Diff(before, after), "cloud_init"
	if !slices.ContainsFunc(slices.Concat(slices.Collect(maps.Keys(change.Set)), change.Delete), vm.IsCloudInit) {
		at = "cloud_init_password_wo_version" // no plan has the password itself
		version := plan.At(p.Value, at)
		if !version.IsFullyKnown() || version.Equal(plan.At(p.State, at)) {
			return
		}
	}
	p.diags.AddAttributeWarning(path.Root(at),
		p.Prior.Thing()+" reads its new cloud-init data at its next start",
		fmt.Sprintf("The apply writes them to the drive of the running guest and does not restart it. To have them in force "+
			"restart it when it suits: by the action proxmox_vm_power with action = \"reboot\", or by %s on node %s.",
			shell.Or(shell.VM("qm reboot {vmid}", int(model.Value(p.Prior.VMID))), "a restart"), model.Value(p.Prior.Node)))
}

// options are those that wait for a restart after the apply, if the VM runs and nothing is taken back.
func (p restart) options(before, after vm.Spec) []string {
	running := p.Prior
	running.Status = new("running")
	options := slices.Concat(vm.NeedsRestart(p.private.WithDrives(&p.Prior, before, after), after),
		model.PendingRestart(running, p.Plan, p.private))
	options = slices.DeleteFunc(options, func(option string) bool {
		return warnings(p).isAsPlanned(option) && !slices.Contains(p.Prior.PendingChanges, option)
	})
	slices.Sort(options)
	return slices.Compact(options)
}

// certain asks whether the VM runs, and leaves out the options that get the values in force: PVE drops a pending value
// that equals the current one (pve-guest-common AbstractConfig.pm, cleanup_pending). An option that cannot be asked for
// is as the state has it.
func (p restart) certain(ctx context.Context, options []string, after vm.Spec) (left []string, is preflight.InForce) {
	is.Running = model.Value(p.Prior.Status) == "running"
	if p.Machines == nil || p.Prior.Node == nil || p.Prior.VMID == nil {
		return options, is
	}
	waiting := slices.ContainsFunc(options, func(o string) bool { return slices.Contains(p.Prior.PendingChanges, o) })
	if p.Run.Acts() && !waiting { // it is too late for a decision by this plan, and the update looks for itself
		return options, is
	}
	now, err := p.volumes.inForce(ctx)
	switch {
	case err != nil:
		return options, is
	case !now.Running || !waiting:
		return options, now
	}
	var back []string
	after = vm.KeepAddresses(now.Spec.Networks, p.before.Spec(false), after)
	has, planned, needs := vm.Encode(now.Spec), vm.Encode(after), vm.NeedsRestart(now.Spec, after)
	for _, option := range options {
		gets := p.volumes.attached[option]
		goesBack := gets != "" && gets == guest.VolumeOf(has[option]) && !slices.Contains(needs, option)
		waits, keeps := slices.Contains(p.Prior.PendingChanges, option), p.keepsLeaving(option, now) || goesBack
		switch {
		case waits && keeps && p.isOpen(option): // it stays, or the apply is refused
		case waits && (keeps || has[option] == planned[option]):
			back = append(back, option)
		default:
			left = append(left, option)
		}
	}
	if len(back) > 0 {
		p.diags.AddWarning("The apply takes back the pending change of "+strings.Join(back, ", ")+" of "+p.Prior.Thing(),
			"The VM runs with the planned value, and another one waits for its restart. PVE drops the waiting value, and "+
				"nothing is restarted for it.")
	}
	return left, now
}

// warnMigrationUnderHA tells of a migration that HA may undo: the node of a guest under HA is HA's to choose.
func (p warnings) warnMigrationUnderHA() {
	if model.Differ(p.Prior.Node, p.Plan.Node) && p.Prior.HA != nil && p.Plan.HA != nil {
		p.diags.AddAttributeWarning(path.Root("node"), p.Prior.Thing()+" is under HA",
			fmt.Sprintf("It is migrated to %s through the HA manager, which may move it elsewhere again: a group or a rule, "+
				"a failed node, a rebalance. Then the next plan migrates it back. Leave node out, or set nodes, to follow it "+
				"instead.", *p.Plan.Node))
	}
}

// warnStopByHA tells that HA will stop a running guest. Its manager stops it hard when its time is over (pve-ha-manager
// HA/Resources/PVEVM.pm shutdown). That is a minute, whatever shutdown_timeout says, unless PVE is asked to shut the
// guest down, which passes the request on (qemu-server API2/Qemu.pm vm_shutdown). An apply first takes the entry away
// that is not planned any more.
func (p warnings) warnStopByHA() {
	if p.Plan.IsStoppedByHA(p.Prior) {
		p.diags.AddAttributeWarning(path.Root("ha").AtName("state"), p.Prior.Thing()+" will be stopped by HA",
			fmt.Sprintf("ha.state = %q has HA's manager shut the guest down, and cut it off when it is not off after 60 s. "+
				"power_state = \"stopped\" beside it gives the guest its shutdown_timeout first.", *p.Plan.HA.State))
	}
	if p.Plan.IsShutDownByHA(p.Prior) {
		p.diags.AddAttributeWarning(path.Root("power_state"), p.Prior.Thing()+" will be stopped by HA",
			"It is under HA, and PVE passes the shutdown on to HA's manager. That cuts the guest off when it is not off within "+
				"shutdown_timeout, and sets the state of the HA entry to \"stopped\". To have only the guest itself end its work, "+
				"take the VM out of HA, or have HA ignore it, in an apply before this one.")
	}
	isKnown := p.Config.At("ha").IsKnown() && p.Config.At("ha.state").IsKnown()
	if !isKnown && model.Value(p.Prior.Status) == "running" && !p.Plan.EndsStopped() && !p.Prior.EndsStopped() {
		p.diags.AddAttributeWarning(path.Root("ha").AtName("state"), p.Prior.Thing()+" may be stopped by HA",
			"The state is not known yet. If it is \"stopped\" or \"disabled\", HA's manager shuts the guest down, and cuts it "+
				"off when it is not off after 60 s.")
	}
}
