package destroy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Made tells the volumes that a create has made from those that others put under its VMID meanwhile. That a volume is
// outside the create's baseline proves nothing. A volume is the create's if
//   - a configuration of its VM has named it, but for Made.unproven, and its VM was not destroyed with it since;
//   - the log of a killed task of the create says that it was made, since nothing has cleaned up after that task;
//   - the log of a failed task says that it could not be freed;
//   - it is the only one of the rest that a killed task can have been making: most storages say nothing when they
//     begin a volume, and the task says it when the volume is filled.
//
// Other new volumes are named and left alone.
type Made struct {
	wanted     []Wanted
	known      map[string]places // by volume
	sizes      map[string]int64  // of those in state that are left, in bytes
	configured []string          // named by a configuration of the create's VM
	read       map[pve.UPID]bool // tasks whose log was read
	commands   int               // how many of the failed commands were read
	died       bool              // one of the tasks, or commands, was killed
	unlogged   []string          // the slots that the create fills without a task that tells; nil: any
	first      map[string]string // the first disk of each slot, by the first look or by the log of its task
	moved      []string          // the slots whose disks the create has moved, once that was seen to have ended well
	corrected  bool              // the log of the task that makes the VM was asked for them
}

// NewMade makes a Made from the volumes that a create is known to have made, all that it asks for, and the slots that
// it fills without a task that tells; nil: a disk in any slot is its own.
func NewMade(known []string, wanted []Wanted, unlogged []string) *Made {
	m := &Made{wanted: wanted, known: map[string]places{}, sizes: map[string]int64{}, read: map[pve.UPID]bool{},
		unlogged: unlogged, first: map[string]string{}}
	m.add("", known...)
	return m
}

// Want adds volumes that the create's next tasks are to make.
func (m *Made) Want(more []Wanted) { m.wanted = append(m.wanted, more...) }

// places are the nodes on which a volume is the create's; "": wherever one of its name is.
type places map[string]bool

// add adds volumes of a node, "" for any.
func (m *Made) add(node string, volumes ...string) {
	for _, volume := range volumes {
		if m.known[volume] == nil {
			m.known[volume] = places{}
		}
		m.known[volume][node] = true
	}
}

// forget forgets a volume of a node, "" for all.
func (m *Made) forget(node, volume string) {
	delete(m.known[volume], node)
	if delete(m.known[volume], ""); node == "" || len(m.known[volume]) == 0 {
		delete(m.known, volume)
	}
}

// Saw adds the volumes that a configuration of the create's VM on a node names in a slot, but for some. One that PVE
// has made an unused disk may be a third party's.
func (m *Made) Saw(node string, vmid int, config map[string]string, others ...string) {
	if m == nil {
		return
	}
	m.sawFirst(vmid, config)
	adopted := slices.Concat(Adopted(vmid, config), m.unproven(vmid, config), others)
	named := slices.DeleteFunc(guest.OwnVolumes(vmid, config),
		func(volume string) bool { return slices.Contains(adopted, volume) })
	m.addNamed(node, named)
}

// addNamed adds volumes that a configuration of the create's VM on a node names.
func (m *Made) addNamed(node string, volumes []string) {
	m.add(node, volumes...)
	m.configured = append(m.configured, volumes...)
}

// sawFirst remembers the first disk of each slot that the create fills without a task that tells.
func (m *Made) sawFirst(vmid int, config map[string]string) {
	for _, slot := range vm.Slots(config) {
		if m.first[slot] == "" && slices.Contains(m.unlogged, slot) && isDiskOf(vmid, config, slot) {
			m.first[slot] = guest.VolumeOf(config[slot])
		}
	}
}

// isExchanged reports whether a slot has another disk than its first one.
func (m *Made) isExchanged(slot, volume string) bool {
	return m.first[slot] != "" && !volid.Same(m.first[slot], volume)
}

// Moved notes that tasks have given the disks in some slots other names, or where none is said, in any slot: the next
// look shows them.
func (m *Made) Moved(slots ...string) {
	if m.corrected = true; len(slots) == 0 { // the log of the first task tells nothing of these
		clear(m.first)
	}
	for _, slot := range slots {
		delete(m.first, slot)
	}
	m.moved = append(m.moved, slots...)
}

// Others are the disks in some slots of the create's VM that it is not known to have made: a third party has put them
// there, in place of its own or in a slot that only a later task of it fills. The log of such a task names its disk.
func (m *Made) Others(ctx context.Context, api pve.Reader, tasks []pve.UPID, node string,
	vmid int, config, slots map[string]string) ([]string, error) {
	open := map[string]string{}
	for slot := range slots {
		volume := guest.VolumeOf(config[slot])
		if isDiskOf(vmid, config, slot) && len(m.known[volume]) == 0 && m.isUnproven(slot, volume) {
			open[slot] = config[slot]
		}
	}
	var work []string
	for _, upid := range tasks {
		switch typ := upid.Type(); {
		case typ == "qmclone" && len(open) > 0:
			log, err := api.Tasks().Log(ctx, upid, makerLines)
			if err != nil {
				return nil, fmt.Errorf("look which slots task %s has filled: %w", upid, err)
			}
			m.noteCopied(log, config)
			maps.DeleteFunc(open, func(slot, value string) bool { return !m.isUnproven(slot, guest.VolumeOf(value)) })
		case typ != "qmmove": // that names slots only: the first look shows the disks
			work = append(work, string(upid))
		}
	}
	others, err := Unmade(ctx, api, work, vmid, open)
	if err == nil {
		isTheirs := func(volume string) bool { return slices.Contains(others, volume) }
		m.addNamed(node, slices.DeleteFunc(guest.OwnVolumes(vmid, open), isTheirs))
	}
	return others, err
}

// correct has the log of the task that makes the VM say which disks were first in their slots: a third party may have
// exchanged one before the first look. Where the log cannot be read the first look counts.
func (m *Made) correct(ctx context.Context, api pve.Reader, tasks []pve.UPID) {
	if m == nil || m.corrected || len(tasks) == 0 || tasks[0].Type() != "qmcreate" {
		return
	}
	m.corrected = true
	log, err := api.Tasks().Log(ctx, tasks[0], makerLines)
	if err != nil {
		return
	}
	for slot, volume := range task.DisksMade(log) {
		if m.isExchanged(slot, volume) {
			m.forget("", m.first[slot])
			m.first[slot] = volume
		}
	}
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
	look := slotLook{Disks: Disks{Slots: r.Made.first}, d: r.d, vmid: r.VMID, node: f.node, resources: resources,
		configs: []map[string]string{f.config.Values}}
	rest := slices.Clone(volumes)
	for _, slot := range moves {
		value := f.config.Values[slot]
		n := slices.Index(rest, guest.VolumeOf(value))
		if n < 0 || slices.Contains(r.Made.moved, slot) {
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

// forgetNamed forgets those volumes, after a third party has destroyed the VM and its volumes with it.
func (m *Made) forgetNamed() {
	if m == nil {
		return
	}
	for _, volume := range m.configured {
		m.forget("", volume)
	}
	m.configured = nil
}

// isKnown reports whether a volume of the baseline's node is known to be the create's. One that the VM has had on
// another node only is a volume of the same name, unless the nodes share its storage.
func (m *Made) isKnown(b *guest.Baseline, volume string) bool {
	on := m.known[volume]
	return on[""] || on[b.Node] || len(on) > 0 && isShared(b, volume)
}

func isShared(b *guest.Baseline, volume string) bool {
	storage, _ := b.Resources.Storage(b.Node, volid.Storage(volume))
	return storage.Shared
}

// rest returns the volumes that nothing accounts for.
func (m *Made) rest(b *guest.Baseline, found []pve.Volume) []pve.Volume {
	return slices.DeleteFunc(slices.Clone(found), func(v pve.Volume) bool { return m.isKnown(b, v.ID) })
}

// readDestroyed forgets the volumes that PVE has destroyed together with our VM: a volume of such a name now belongs
// to a third party. It returns those that stayed by the log (couldNot), and why.
func (m *Made) readDestroyed(ctx context.Context, api *pve.Client, d deletion, found []pve.Volume,
	b *guest.Baseline) map[string]string {
	went := func(v pve.Volume) bool { return guest.Uses(d.config, v.ID) }
	if d.task == "" || m.read[d.task] || !slices.ContainsFunc(found, went) {
		return nil
	}
	log, err := api.Tasks().Log(ctx, d.task, logLines)
	if err != nil {
		return nil
	}
	m.read[d.task] = true
	stayed := notRemoved(log)
	for volume := range maps.Clone(m.known) {
		if guest.Uses(d.config, volume) && stayed[volume] == "" {
			node := d.task.Node()
			if isShared(b, volume) {
				node = ""
			}
			m.forget(node, volume)
		}
	}
	return stayed
}

// makerLines is more than a create of many disks says; a copy has a line for each percent, or each second.
const makerLines = 50_000

// readMakers reads what the logs of our tasks that have ended say of volumes. A task makes them on its own node, or on
// storages that the nodes share.
func (m *Made) readMakers(ctx context.Context, api *pve.Client, e endings, found []pve.Volume, b *guest.Baseline) {
	shared := slices.DeleteFunc(slices.Clone(found), func(v pve.Volume) bool { return !isShared(b, v.ID) })
	for _, upid := range e.tasks.UPIDs {
		how, ended := e.ended[upid]
		isHere := upid.Node() == b.Node
		if !ended || how == unknownEnd || upid.Type() == "qmdestroy" || m.read[upid] || !isHere && len(shared) == 0 {
			continue
		}
		log, err := api.Tasks().Log(ctx, upid, makerLines)
		if err != nil {
			continue // its volumes are not known to be ours
		}
		died := how == killed && upid.Type() != "qmigrate" // whose copies noteCopies notes
		if m.read[upid] = isHere; !isHere {
			m.readMaker(log, died, shared, b)
			continue
		}
		m.died = m.died || died
		m.readMaker(log, died, found, b)
		if how == killed && upid.Type() == "qmtemplate" {
			m.addRenamed(b.Node, found)
		}
	}
	for _, c := range e.tasks.Commands[m.commands:] {
		m.commands++
		m.died = m.died || c.Died
		m.readMaker(c.Log, c.Died, found, b)
	}
}

// readMaker reads one log.
func (m *Made) readMaker(log []string, died bool, found []pve.Volume, b *guest.Baseline) {
	made := logged(log, found, b)
	for _, v := range found {
		if died && made[v.ID] || tellsNotFreed(log, v.ID, made[v.ID]) {
			m.add(b.Node, v.ID)
		}
	}
}

// addRenamed adds the disks that a killed conversion to a template has renamed: PVE writes the configuration after each
// (qemu-server QemuServer.pm template_create), so one of a new name may be in none.
func (m *Made) addRenamed(node string, found []pve.Volume) {
	for _, v := range found {
		for was := range maps.Clone(m.known) {
			if was != v.ID && volid.Same(was, v.ID) && !slices.Contains(idsOf(found), was) {
				m.add(node, v.ID)
			}
		}
	}
}

// addUnderWay adds the volume that a killed task was just making, once: later that volume may be gone, and another's
// in its place.
func (m *Made) addUnderWay(b *guest.Baseline, found []pve.Volume) {
	if !m.died {
		return
	}
	open := slices.Clone(m.wanted) // the most specific first, so that no volume takes the place of another
	slices.SortStableFunc(open, func(a, b Wanted) int { return cmp.Compare(b.specificity(), a.specificity()) })
	m.wanted = nil
	fit := func(v pve.Volume) int { return slices.IndexFunc(open, func(w Wanted) bool { return w.fits(v) }) }
	for _, v := range found {
		if n := fit(v); n >= 0 && m.isKnown(b, v.ID) {
			open = slices.Delete(open, n, n+1)
		}
	}
	rest := slices.DeleteFunc(m.rest(b, found), func(v pve.Volume) bool { return fit(v) < 0 })
	if len(rest) == 1 {
		m.add(b.Node, rest[0].ID)
	}
}
