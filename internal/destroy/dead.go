package destroy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// RemoveDead removes the VM that a dead create of this provider has left: the one that bears its mark, with the
// volumes of its VMID that it names. Others are not the create's: a volume that is allocated since stays, and the VM
// does if it is given a disk. A locked VM is removed under the old mark, since PVE changes nothing of it. taken: the
// VMID had a third party's VM by then, which was not touched.
func (d *Destroyer) RemoveDead(ctx context.Context, u guard.Unowned) (taken bool, err error) {
	node, vmid := u.Listed.Node, u.Listed.VMID
	if adopted := Adopted(vmid, u.Config); len(adopted) > 0 { // by a rescan: a create attaches no volume as unused
		return false, errAdopted(vmid, adopted)
	}
	b, err := d.guests.BaselineOf(ctx, u.Resources, node, vmid, u.Config)
	if err != nil {
		return false, err
	}
	mark := u.Mark
	if u.Config["lock"] == "" {
		if mark, err = d.TakeOver(ctx, u); err != nil {
			return false, err
		}
	}
	own := disksOf(vmid, u.Config)
	r := d.newRemoval(Target{VMID: vmid, Nodes: []string{node}, Baseline: b, Tasks: &request.Tasks{},
		Protected: u.Config["protection"] == "1" && InheritsProtection(ctx, d.api.Reader(), u.Resources, u.Mark),
		HalfMade:  NewHalfMade("", nil), Made: NewMade(node, own.Known, nil, nil), InState: &own,
		InUse: snapshotSince, Mark: mark, Pool: u.Listed.Pool, Managed: u.Listed.HAState != ""}, policy{})
	if err = r.run(ctx); err == nil && r.view.inUse != "" {
		err = errors.New(inUseNote(vmid, r.view).Text)
	}
	return r.taken, err
}

// disksOf are the disks of a VM that is in no state, as a configuration has them.
func disksOf(vmid int, config map[string]string) Disks {
	d := Disks{Known: guest.OwnVolumes(vmid, config), Sizes: map[string]int64{}}
	for _, slot := range vm.Slots(config) {
		d.Sizes[guest.VolumeOf(config[slot])] = sizeIn(slot, config[slot])
	}
	return d
}

// InheritsProtection reports whether the protection of a marked VM is that of the VM which it is a clone of. Before its
// commit no create sets any.
func InheritsProtection(ctx context.Context, api pve.Reader, resources pve.Resources, mark ownership.Mark) bool {
	source, listed := resources.Guest(mark.Source)
	if mark.By != "qmclone" || !listed {
		return false
	}
	config, err := api.QEMU(source.Node, source.VMID).Config(ctx)
	return err == nil && config.Values["protection"] == "1"
}

// Unmade are the disks in slots of a marked VM that no task of its create says it has made, by the logs of those tasks
// (ownership.Verdict.Work). A copy tells which slots it fills, every other task which volumes it has made.
func Unmade(ctx context.Context, api pve.Reader, work []string, vmid int, config map[string]string) ([]string,
	error) {
	rest := maps.Clone(config)
	maps.DeleteFunc(rest, func(option, value string) bool {
		return !vm.IsSlot(option) || volid.IsCloudInit(guest.VolumeOf(value)) // generated from the VM's own options
	})
	for _, upid := range work {
		if len(guest.OwnVolumes(vmid, rest)) == 0 {
			break
		}
		log, err := api.Tasks().Log(ctx, pve.UPID(upid), makerLines)
		if err != nil {
			return nil, fmt.Errorf("look which volumes task %s has made: %w", upid, err)
		}
		made, _ := task.VolumesMade(log)
		filled := filledBy(pve.UPID(upid), log)
		maps.DeleteFunc(rest, func(option, value string) bool {
			isIt := func(volume string) bool { return volid.Same(volume, guest.VolumeOf(value)) }
			return slices.Contains(filled, option) || slices.ContainsFunc(made, isIt)
		})
	}
	return guest.OwnVolumes(vmid, rest), nil
}

// filledBy are the slots that a task says it fills with copies. The lines of an import name the slot of its source.
func filledBy(upid pve.UPID, log []string) []string {
	if typ := upid.Type(); typ != "qmclone" && typ != "qmmove" {
		return nil
	}
	return task.SlotsFilled(log)
}

// TakeOver puts a mark of this run in the place of a dead run's, bound to the configuration that was judged. A run that
// is not dead after all learns of it before it does anything else, and of two runs that find the leftover one takes it.
// A run that holds the VM's file over SSH, where no task shows it, is not dead (qemu-server API2/Qemu.pm,
// update_vm_api locks, and then compares the digest). The error wraps guard.ErrChanged if the VM is not as it was.
func (d *Destroyer) TakeOver(ctx context.Context, u guard.Unowned) (ownership.Mark, error) {
	node, vmid := u.Listed.Node, u.Listed.VMID
	mark, fresh := u.Mark, d.guests.NewMark(u.Mark.Cluster, vmid)
	mark.Saga, mark.Process, mark.Renewed = fresh.Saga, fresh.Process, 0
	mark = d.guests.Sign(mark)
	params := pve.Params{"description": mark.String()}
	was := request.Bound{Digest: u.Digest, Again: func(ctx context.Context, _ map[string]string) (string, error) {
		now, err := d.api.QEMU(node, vmid).Config(ctx)
		if err == nil && now.Digest != u.Digest && !mark.Proves(vmid, now.Values) {
			err = guard.Changed(vmid, node)
		}
		return now.Digest, err
	}}
	set := d.jobs.Set
	if !u.Gone {
		set = d.jobs.SetNow
	}
	err := set(ctx, node, vmid, params, was)
	if pve.IsKind(err, pve.DigestMismatch) || pve.IsKind(err, pve.NotFound) || !u.Gone && fault.Contended(err) {
		err = errors.Join(guard.Changed(vmid, node), err)
	}
	return mark, err
}

// RemoveHalfMade removes what a killed task has left: a half-made VM, or a half-destroyed one. It is unlocked and
// removed only while it is as it was judged, and while nothing else shows that a third party has taken it over.
func (d *Destroyer) RemoveHalfMade(ctx context.Context, tasks *request.Tasks, u guard.Unowned) error {
	node, vmid := u.Listed.Node, u.Listed.VMID
	defer d.guests.Occupy(vmid)()
	now, err := d.api.QEMU(node, vmid).Config(ctx)
	if err != nil {
		return err
	}
	if now.Digest == "" || now.Digest != u.Digest {
		return guard.Changed(vmid, node)
	}
	tasks.Add(u.Dead)
	r := d.newRemoval(Target{VMID: vmid, Nodes: []string{node}, Tasks: tasks, Pool: u.Listed.Pool,
		Baseline: guest.OwnBaseline(node, vmid, guest.OwnVolumes(vmid, now.Values)), HalfMade: NewHalfMade(u.Digest,
			[]pve.UPID{u.Dead}),
		Protected: true, Owns: likeHalfMade(now.Values), Exactly: true,
		Mark: d.guests.NewMark(guest.ClusterName(u.Resources), vmid)},
		policy{})
	r.ha.purge = true
	err = r.run(ctx)
	if err == nil && r.taken { // no success here: the VM that was named was not removed
		return guard.Changed(vmid, node)
	}
	return err
}

// likeHalfMade recognizes without its lock what a killed clone has left, which is all but complete: it is as it was,
// except for what its removal changes. It is nil for a VM that says next to nothing; that one is known by its digest
// only.
func likeHalfMade(halfMade map[string]string) func(map[string]string) bool {
	whole := func(config map[string]string) map[string]string {
		config = maps.Clone(config)
		maps.DeleteFunc(config, func(option, _ string) bool {
			return option == "lock" || option == "protection" || option == "digest" || vm.IsUnused(option)
		})
		return config
	}
	left := whole(halfMade)
	if left["meta"] == "" {
		return nil
	}
	return func(config map[string]string) bool { return maps.Equal(whole(config), left) }
}

// unproven are the disks in slots that the create does not fill by itself, since a task tells of those that it has
// made, and those that are not the first ones in the others.
func (m *Made) unproven(vmid int, config map[string]string) []string {
	if m == nil || m.slots == nil {
		return nil
	}
	return disksIn(vmid, config, func(slot, _ string) bool { return m.isUnproven(slot, config[slot]) })
}

func (m *Made) isUnproven(slot, value string) bool {
	_, fills := m.slots[slot]
	return !fills || m.isExchanged(slot, guest.VolumeOf(value)) || m.isResized(slot, value)
}

// noteCopied takes the disks in further slots that a clone says it has filled for its copies, and returns them: the
// task reads its source itself, which may have got them after the create had read it (qemu-server API2/Qemu.pm
// clone_vm).
func (m *Made) noteCopied(log []string, config map[string]string) (volumes []string) {
	if m == nil || m.slots == nil {
		return nil
	}
	for _, name := range task.SlotsFilled(log) {
		if _, fills := m.slots[name]; !fills {
			m.slots[name] = slot{first: guest.VolumeOf(config[name])}
			volumes = append(volumes, m.slots[name].first)
		}
	}
	return volumes
}

// disksIn are the disks of a VM in those slots.
func disksIn(vmid int, config map[string]string, are func(slot, volume string) bool) []string {
	var all []string
	for _, slot := range vm.Slots(config) {
		if volume := guest.VolumeOf(config[slot]); isDiskOf(vmid, config, slot) && are(slot, volume) {
			all = append(all, volume)
		}
	}
	return all
}

// unknownDisks are the disks in slots of an uncommitted VM that are not known to be its own: state knows them by name
// and size, and a create the slots that it fills.
func unknownDisks(r *removal, config map[string]string) []string {
	all := r.Made.unproven(r.VMID, config)
	if r.InState != nil {
		all = disksIn(r.VMID, config, func(slot, volume string) bool {
			return !r.InState.knows(volume) || !vm.FitsSize(sizeIn(slot, config[slot]), r.InState.Sizes[volume])
		})
	}
	return slices.DeleteFunc(all, func(volume string) bool { return r.of(volume).own })
}

// refuseUnknown are the refusals of such disks, by volume. One that state knows from another slot or storage is not
// refused; one that a create has made is not in the end (checkAdopted).
func refuseUnknown(ctx context.Context, r *removal, f *facts) (map[string]error, error) {
	refused, config := map[string]error{}, f.config.Values
	all := unknownDisks(r, config)
	if len(all) == 0 {
		return nil, nil
	}
	if r.InState == nil {
		for _, volume := range all {
			refused[volume] = fmt.Errorf("VM %d was not removed: it has the disk %s, and no task of its create has made that. "+
				"A destroy of the VM would destroy it. Give it to another VM first (in PVE's interface: Hardware, Disk Action, "+
				"Reassign Owner), then destroy again", r.VMID, volume)
		}
		return refused, nil
	}
	resources, _, err := r.d.api.Listing().Recent(ctx)
	if err != nil {
		return nil, err
	}
	look := slotLook{Disks: *r.InState, d: r.d, vmid: r.VMID, node: f.node, resources: resources,
		configs: []map[string]string{config}, touched: "The VM was not removed"}
	for _, slot := range vm.Slots(config) {
		volume := guest.VolumeOf(config[slot])
		if !slices.Contains(all, volume) {
			continue
		}
		err := look.refuse(ctx, slot, config[slot])
		var why *guest.FieldError
		if err != nil && !errors.As(err, &why) {
			return nil, err
		}
		if err != nil {
			refused[volume] = err
		}
	}
	return refused, nil
}

// notMade are those of some disks that nothing shows to be the create's, neither its looks nor the logs of its tasks. A
// disk of a task that ended well was in a slot at first, where a refresh has seen it (InState).
func notMade(ctx context.Context, r *removal, f *facts, disks []string, inSlots map[string]error) ([]string, error) {
	made, here := cmp.Or(r.Made, NewMade("", nil, nil, nil)), r.Baseline
	if here.Node != f.node {
		here = &guest.Baseline{Node: f.node, Resources: here.Resources}
	}
	if err := made.readMigration(ctx, r.d.api.Reader(), f.node, r.VMID, f.config.Values); err != nil {
		return nil, err
	}
	disks = slices.DeleteFunc(disks, func(volume string) bool {
		known, listed := made.of(here, volume), r.of(volume).volume
		return known.proof > byGuess && (known.isIt(listed) || inSlots[volume] != nil && known.fits(listed))
	})
	var moves []string
	for _, upid := range r.Tasks.UPIDs {
		if len(disks) == 0 {
			break
		}
		log, err := r.d.api.Tasks().Log(ctx, upid, makerLines)
		if err != nil && !pve.IsKind(err, pve.NotFound) { // a log that PVE has removed proves nothing
			return nil, fmt.Errorf("look which volumes task %s has made: %w", upid, err)
		}
		says, _ := task.VolumesMade(log)
		var copied []string
		switch upid.Type() {
		case "qmmove":
			moves = append(moves, task.SlotsFilled(log)...)
		case "qmclone":
			says, copied = nil, made.noteCopied(log, f.config.Values)
		}
		disks = slices.DeleteFunc(disks, func(volume string) bool {
			isIt := func(one string) bool { return volid.Same(one, volume) } // a template's have another name
			counts := r.tasks.ended[upid] == killed || r.InState == nil && inSlots[volume] != nil
			isHere := upid.Node() == f.node || isShared(here, volume)
			isProven := counts && isHere && slices.ContainsFunc(says, isIt)
			return slices.Contains(copied, volume) ||
				isProven && !made.of(here, volume).isOther(r.of(volume).volume, inSlots[volume] != nil)
		})
	}
	return notMoved(ctx, r, f, disks, moves)
}

// notMoved are those of some disks that are not the first ones of their slots, moved since by a task of the create: its
// log tells of the slot (moves). The end of such a task was not seen, or the next look has shown the disk. Where the
// first one is still there, the slot has another.
func notMoved(ctx context.Context, r *removal, f *facts, volumes, moves []string) ([]string, error) {
	if r.Made == nil || r.InState != nil || len(volumes) == 0 {
		return volumes, nil
	}
	resources, _, err := r.d.api.Listing().Recent(ctx)
	if err != nil {
		return nil, err
	}
	first := map[string]string{}
	for name, s := range r.Made.slots {
		if s.first != "" {
			first[name] = s.first
		}
	}
	look := slotLook{Disks: Disks{Slots: first}, d: r.d, vmid: r.VMID, node: f.node, resources: resources,
		configs: []map[string]string{f.config.Values}}
	rest := slices.Clone(volumes)
	for _, slot := range moves {
		value := f.config.Values[slot]
		n := slices.Index(rest, guest.VolumeOf(value))
		if n < 0 || r.Made.slots[slot].moved {
			continue
		}
		moved, err := look.hasMoved(ctx, slot, value)
		if err != nil {
			return nil, err
		}
		if moved {
			rest = slices.Delete(rest, n, n+1)
		}
	}
	return rest, nil
}
