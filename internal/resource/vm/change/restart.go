package change

import (
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
type restart struct{ *Change }

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
		p.Diags.AddAttributeWarning(path.Root("power_state"), fmt.Sprintf("%s %s running with the old values",
			p.Prior.Thing(), keeps), fmt.Sprintf("%sThe refresh has found it off, and it runs by now. %s %s effect at its next "+
			"stop and start. This apply leaves it running; the next plan shows the restart.%s", first, what, takes, last))
		return
	}
	if policy == "never" {
		p.Diags.AddAttributeWarning(path.Root("reboot_policy"), fmt.Sprintf("%s %s running with the old values",
			p.Prior.Thing(), keeps), fmt.Sprintf("%s%s %s effect at the next stop and start of the VM, which reboot_policy = "+
			"\"never\" leaves to you.%s", first, what, takes, last))
		return
	}
	p.Restarts = len(options) > 0
	disobedient := "a guest that does not obey keeps running, and the apply fails"
	switch {
	case !p.Config.At("reboot_policy").IsKnown():
		disobedient = "reboot_policy is not known yet, and a guest that does not obey is cut off if that is \"force\""
	case policy == "force":
		disobedient = "a guest that does not obey is cut off"
	}
	p.Diags.AddWarning(fmt.Sprintf("%s %s be restarted", p.Prior.Thing(), will),
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
	was, is := p.Before, p.After
	if len(unknown) > 0 {
		essence, diags := p.Essence(ctx, plan.Keep(p.Value, p.State, unknown), p.State, p.Private.Others)
		p.Diags.Append(diags...)
		was, is = model.Normalized(p.Prior, essence, p.Private.Managed)
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
	foreign, after := p.Private.Foreign(p.Prior), p.After.Spec(false)
	disks, sets := after.EveryDisk(), vm.Diff(p.Before.Spec(false), after).Set
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

// WarnUnclaimed tells of options that wait for a restart, where the plan has nothing to do. The configuration sets
// them, or has set them, and nothing tells whether an apply has sent them that was killed since, or a third party: no
// restart is made.
func (p *Change) WarnUnclaimed() {
	waiting := p.Private.Unclaimed(p.Prior, p.Plan, func() plan.Managed { return p.Shape.Managed(p.Config.Raw) })
	if len(waiting) == 0 {
		return
	}
	command := shell.Or(shell.VM("qm reboot {vmid}", int(model.Value(p.Prior.VMID))), "a restart")
	p.Diags.AddWarning(p.Prior.Thing()+" runs with earlier values of "+strings.Join(waiting, ", "),
		fmt.Sprintf("The configured ones wait for its next stop and start. No apply makes it, since nothing tells that one "+
			"has set them; %s on node %s does.", command, model.Value(p.Prior.Node)))
}

// options are those that wait for a restart after the apply, if the VM runs and nothing is taken back.
func (p restart) options(before, after vm.Spec) []string {
	running := p.Prior
	running.Status = new("running")
	options := slices.Concat(vm.NeedsRestart(p.Private.WithDrives(&p.Prior, before, after), after),
		model.PendingRestart(running, p.Plan, p.Private))
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
	if p.Facts == nil || p.Prior.Node == nil || p.Prior.VMID == nil {
		return options, is
	}
	waiting := slices.ContainsFunc(options, func(o string) bool { return slices.Contains(p.Prior.PendingChanges, o) })
	if p.Acting && !waiting { // it is too late for a decision by this plan, and the update looks for itself
		return options, is
	}
	now, err := p.Facts.InForce(ctx)
	switch {
	case err != nil:
		return options, is
	case !now.Running || !waiting:
		return options, now
	}
	var back []string
	after = vm.KeepAddresses(now.Spec.Networks, p.Before.Spec(false), after)
	has, planned, needs := vm.Encode(now.Spec), vm.Encode(after), vm.NeedsRestart(now.Spec, after)
	for _, option := range options {
		gets := p.Attached[option]
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
		p.Diags.AddWarning("The apply takes back the pending change of "+strings.Join(back, ", ")+" of "+p.Prior.Thing(),
			"The VM runs with the planned value, and another one waits for its restart. PVE drops the waiting value, and "+
				"nothing is restarted for it.")
	}
	return left, now
}

// warnReplugged tells of the devices that leave a running guest for good, or come back with other values, or may, since
// a value is not known yet.
func (p restart) warnReplugged(unknown []string, before, after vm.Spec) {
	if !p.Runs() {
		return
	}
	told, open := vm.Replugged(before, after), map[string][]string{}
	warn := func(slot, is, why string) {
		p.Diags.AddAttributeWarning(p.attributeOf(slot), fmt.Sprintf("%s of %s %s unplugged while the guest runs", slot,
			p.Prior.Thing(), is), why)
	}
	say := func(slot, is, first string) {
		warn(slot, is, first+"PVE takes it from the running guest, and plugs it in again with the new values. That cuts off "+
			"its use, and the guest may know it by another name then. Set power_state = \"stopped\" to change it while the VM "+
			"is off.")
	}
	for _, slot := range vm.Unplugged(before, after) {
		a, _ := vm.AttributeOf(slot)
		warn(slot, "is", "It leaves the configuration, and PVE takes it from the running guest at once."+
			howToStay(p.Plan, a.In(slot)))
	}
	for _, slot := range told {
		say(slot, "is", "")
	}
	for _, at := range unknown {
		for _, slot := range vm.MayReplug(at, before) {
			open[slot] = append(open[slot], at)
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(open)) {
		if !slices.Contains(told, slot) {
			say(slot, "may be", fmt.Sprintf("%s %s not known yet. If that changes the device: ",
				strings.Join(open[slot], ", "), are(open[slot])))
		}
	}
}

// are is the verb of attributes.
func are(paths []string) string {
	if len(paths) == 1 {
		return "is"
	}
	return "are"
}

// howToStay says how a device that leaves the configuration stays. Once one was configured, no configuration leaves it
// alone again, not even that which a clone has from its template.
func howToStay(plan model.Model, at string) string {
	if plan.Clone != nil {
		return " To keep it, write " + at + " again, also where the clone has it from its template."
	}
	return " To keep it, write " + at + " again."
}

// warnReadAtStart tells of options of a disk that a running guest has at its next start, of which PVE tells nothing. No
// update restarts the guest for them, since nothing would tell a later one that it has not.
func (p restart) warnReadAtStart(ctx context.Context) {
	if !p.Runs() || p.Acting {
		return
	}
	before, after := p.keeping(ctx, plan.Unknowns(p.Config.Raw))
	all := vm.ReadAtStart(before, after)
	for _, slot := range model.SortedSlots(all) {
		keys, said := all[slot], ""
		if slices.Contains(keys, "snapshot") {
			said = " QEMU discards the guest's writes to the disk at each stop from then on."
			if was := before.Disks[slot].Snapshot; was != nil && *was {
				said = " The guest runs with snapshot = true, so its writes to the disk since its start are lost when it stops."
			}
		}
		if said == "" && (p.Restarts || p.Plan.EndsStopped()) {
			continue
		}
		p.Diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot), fmt.Sprintf("%s of %s changes at the next start",
			slot, p.Prior.Thing()), fmt.Sprintf("QEMU reads %s at its start, and PVE does not report that the running guest "+
			"has another value. No apply restarts it for that; %s on node %s does.%s", strings.Join(keys, ", "),
			shell.Or(shell.VM("qm reboot {vmid}", int(model.Value(p.Prior.VMID))), "a restart"), model.Value(p.Prior.Node),
			said))
	}
}
