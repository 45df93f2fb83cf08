package destroy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
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
	facts     map[place]fact
	slots     map[string]slot  // that the create fills without a task that tells; nil: any
	seen      map[string]seat  // the disks in slots that were known to be its own when the VM was seen last
	grown     map[string]int64 // by slot, the size to which the create grows its disk, in bytes
	left      string           // the node that the VM has left by a migration of the create, or may have
	wanted    []Wanted
	died      []string          // the types of its tasks that were killed
	read      map[pve.UPID]bool // tasks whose log was read
	commands  int               // how many of the failed commands were read
	corrected bool              // the log of the task that makes the VM was asked for the first disks
	unread    bool              // that log is there, and could not be read
}

// place is the name of a volume on a node.
type place struct{ node, volume string }

// fact is what is known of a name. PVE gives the lowest free one to the next disk (pve-storage Plugin.pm
// get_next_vm_diskname), so it proves nothing once it has come free.
type fact struct {
	proof
	size      int64     // in bytes, of a volume that state remembers; 0: not known
	createdAt time.Time // the same
	shown     int64     // the size that its slot has shown, in bytes; 0: none
	grown     int64     // to which the create grows it
}

// proof is how a volume is known to be the create's, the best last.
type proof int

const (
	unknown proof = iota
	freed         // it was, and PVE has freed it, or a look has shown its VM without it
	byGuess       // it is the only one that a killed task can have been making
	byLog
	byName // a configuration of its VM names it
)

// NewMade makes a Made from the volumes that a create is known to have made on a node, all that it asks for, and the
// slots that it fills without a task that tells; nil: a disk in any slot is its own.
func NewMade(node string, known []string, wanted []Wanted, unlogged []string) *Made {
	m := &Made{wanted: wanted, facts: map[place]fact{}, read: map[pve.UPID]bool{},
		grown: map[string]int64{}}
	if unlogged != nil {
		m.slots = map[string]slot{}
	}
	for _, name := range unlogged {
		m.slots[name] = slot{}
	}
	m.add(node, byName, known...)
	return m
}

// Want adds volumes that the create's next tasks are to make.
func (m *Made) Want(more []Wanted) { m.wanted = append(m.wanted, more...) }

// add adds volumes of a node.
func (m *Made) add(node string, by proof, volumes ...string) {
	for _, volume := range volumes {
		f := m.facts[place{node, volume}]
		f.proof = max(f.proof, by)
		m.facts[place{node, volume}] = f
	}
}

// end notes that names have come free.
func (m *Made) end(is func(at place) bool) {
	for at, f := range m.facts {
		if f.proof > freed && is(at) {
			m.facts[at] = fact{proof: freed}
		}
	}
}

// of is what is known of a volume of the baseline's node. One that the VM has had on another node only is a volume of
// the same name, unless the nodes share its storage. One that was there before the create is none of its own.
func (m *Made) of(b *guest.Baseline, volume string) fact {
	best := m.facts[place{b.Node, volume}]
	if _, was := b.Before[volume]; was {
		return fact{proof: freed}
	}
	for at, f := range m.facts {
		if at.volume == volume && f.proof > best.proof && isShared(b, volume) {
			best = f
		}
	}
	return best
}

// isKnown reports whether a volume of the baseline's node is known to be the create's.
func (m *Made) isKnown(b *guest.Baseline, volume string) bool { return m.of(b, volume).proof > freed }

// fits reports whether a listed volume can be that of the fact.
func (f fact) fits(v pve.Volume) bool {
	return hasSize(v, f.size) && (f.createdAt.IsZero() || f.createdAt.Equal(v.CreatedAt))
}

// Saw adds the volumes that a configuration of the create's VM on a node names in a slot, but for some. One that PVE
// has made an unused disk may be a third party's. Volumes that the whole configuration does not name any more were
// moved or freed, and those that it named on another node.
func (m *Made) Saw(node string, vmid int, config map[string]string, others ...string) {
	if m == nil {
		return
	}
	if m.left != "" && m.left != node { // the first look there shows the names that its disks have now
		for name, s := range m.slots {
			m.slots[name] = slot{moved: s.moved}
		}
		m.left = ""
	}
	for name, s := range m.slots {
		if s.first == "" && isDiskOf(vmid, config, name) {
			s.first, s.size = guest.VolumeOf(config[name]), sizeIn(name, config[name])
			m.slots[name] = s
		}
	}
	if !guest.HalfMade(config) { // PVE frees local disks where they were, when it migrates the VM
		m.end(func(at place) bool {
			return m.facts[at].proof == byName && (at.node != node || !guest.Uses(config, at.volume))
		})
	}
	m.endReused(node, vmid, config)
	adopted := slices.Concat(Adopted(vmid, config), m.unproven(vmid, config), others)
	m.add(node, byName, slices.DeleteFunc(guest.OwnVolumes(vmid, config),
		func(volume string) bool { return slices.Contains(adopted, volume) })...)
	m.follow(node, vmid, config, nil)
}

// isExchanged reports whether a slot has another disk than its first one.
func (m *Made) isExchanged(name, volume string) bool {
	first := m.slots[name].first
	return first != "" && !volid.Same(first, volume)
}

// Moved notes that a task has moved the disk in a slot, and freed it where it was: the next look shows the new name.
// Where PVE could not free it the log of the task says so (readMaker).
func (m *Made) Moved(node, name, was string) {
	m.end(func(at place) bool { return at == place{node, was} })
	if _, fills := m.slots[name]; fills {
		m.slots[name] = slot{moved: true}
	}
}

// Migrated notes that the VM has left a node, or may have. PVE has freed the names of its disks there if the migration
// ended well (qemu-server QemuMigrate.pm phase3_cleanup). Where it did not the VM may still be there, with its disks.
func (m *Made) Migrated(from string, well bool) {
	m.corrected = true // the log of the first task tells nothing of the names that they have elsewhere
	m.left = from
	if well {
		m.end(func(at place) bool { return at.node == from })
	}
}

// Others are the disks in some slots of the create's VM that it is not known to have made: a third party has put them
// there, in place of its own or in a slot that only a later task of it fills. The log of such a task names its disk.
func (m *Made) Others(ctx context.Context, api pve.Reader, tasks []pve.UPID, node string,
	vmid int, config, slots map[string]string) ([]string, error) {
	if err := m.readMigration(ctx, api, node, vmid, config); err != nil {
		return nil, err
	}
	open := map[string]string{}
	for slot := range slots {
		volume := guest.VolumeOf(config[slot])
		isOpen := m.facts[place{node, volume}].proof <= freed && m.isUnproven(slot, config[slot])
		if isDiskOf(vmid, config, slot) && isOpen {
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
			maps.DeleteFunc(open, func(slot, value string) bool { return !m.isUnproven(slot, value) })
		case typ != "qmmove": // that names slots only: the first look shows the disks
			work = append(work, string(upid))
		}
	}
	others, err := Unmade(ctx, api, work, vmid, open)
	if err == nil {
		for _, volume := range guest.OwnVolumes(vmid, open) {
			switch {
			case slices.Contains(others, volume):
			case m.facts[place{node, volume}].proof == freed: // the log tells of the one before
				others = append(others, volume)
			default:
				m.add(node, byName, volume)
			}
		}
		m.follow(node, vmid, config, nil)
	}
	return others, err
}

// Correct has the log of the task that makes the VM say which disks were first in their slots, and how large: a third
// party may have exchanged or grown one before the first look. Where the log is gone the first look counts.
func (m *Made) Correct(ctx context.Context, api pve.Reader, tasks []pve.UPID) error {
	if m == nil || m.corrected || len(tasks) == 0 || tasks[0].Type() != "qmcreate" {
		return nil
	}
	log, err := api.Tasks().Log(ctx, tasks[0], makerLines)
	if err != nil && !pve.IsKind(err, pve.NotFound) {
		m.unread = true
		return fmt.Errorf("look which disks task %s has made: %w", tasks[0], err)
	}
	m.corrected, m.unread = true, false
	for name, value := range task.DrivesMade(log) {
		s, volume, size := m.slots[name], guest.VolumeOf(value), sizeIn(name, value)
		if m.isExchanged(name, volume) {
			m.end(func(at place) bool { return at.volume == s.first })
			m.slots[name] = slot{first: volume, size: size, moved: s.moved}
		} else if s.first != "" && size != 0 {
			s.size = size
			m.slots[name] = s
		}
	}
	return nil
}

// forgetNamed forgets what the VM has named, after a third party has destroyed it and its volumes with it.
func (m *Made) forgetNamed() {
	if m != nil {
		m.end(func(at place) bool { return m.facts[at].proof == byName })
	}
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
	m.end(func(at place) bool {
		isThere := at.node == d.task.Node() || isShared(b, at.volume)
		return isThere && guest.Uses(d.config, at.volume) && stayed[at.volume] == ""
	})
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
		log = ofSource(upid, log)
		died := how == killed && upid.Type() != "qmigrate" // whose copies noteCopies notes
		if m.read[upid] = isHere; !isHere {
			m.readMaker(log, died || how == volumesStay, shared, b)
			continue
		}
		if died {
			m.died = append(m.died, upid.Type())
		}
		m.readMaker(log, died || how == volumesStay, found, b)
		if how == killed && upid.Type() == "qmtemplate" {
			m.addRenamed(b.Node, found)
		}
	}
	for _, c := range e.tasks.Commands[m.commands:] {
		m.commands++
		if c.Died { // it makes what is left of the VM's disks
			m.died = append(m.died, "qmcreate")
		}
		m.readMaker(c.Log, c.Died, found, b)
	}
}

// readMaker reads one log. A name that has come free since is not that of the volume which it has made.
func (m *Made) readMaker(log []string, died bool, found []pve.Volume, b *guest.Baseline) {
	made := logged(log, found, b)
	for _, v := range found {
		if died && made[v.ID] && m.of(b, v.ID).proof != freed || tellsNotFreed(log, v.ID, made[v.ID]) {
			m.add(b.Node, byLog, v.ID)
		}
	}
}

// addRenamed adds the disks that a killed conversion to a template has renamed: PVE writes the configuration after each
// (qemu-server QemuServer.pm template_create), so one of a new name may be in none.
func (m *Made) addRenamed(node string, found []pve.Volume) {
	for _, v := range found {
		for was, f := range maps.Clone(m.facts) {
			isFormer := f.proof > freed && was.volume != v.ID && volid.Same(was.volume, v.ID)
			if isFormer && !slices.Contains(idsOf(found), was.volume) {
				m.add(node, byLog, v.ID)
			}
		}
	}
}
