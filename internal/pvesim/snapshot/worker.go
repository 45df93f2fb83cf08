package snapshot

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// notInSnapshot are the keys of a configuration that a snapshot has not (AbstractConfig.pm, __snapshot_copy_config).
func notInSnapshot(k string) bool {
	return drive.HasIndex(k, "unused") || slices.Contains([]string{"snapstate", "snaptime", "vmstate", "lock", "digest",
		"description"}, k)
}

// snapshotting is one snapshot to take (AbstractConfig.pm, snapshot_create).
type snapshotting struct {
	engine.Process
	g    *state.Guest
	name string
	done []string // drives whose volumes have it
}

// prepare writes the section and the lock.
func (s *snapshotting) prepare() error {
	g, snap := s.g, map[string]string{}
	if s.Flag("vmstate") && g.Running != nil {
		v, err := config.StateVolume(s.Process, g, s.name, "")
		if err != nil {
			return err
		}
		snap["vmstate"] = v.Volid()
		snap["runningmachine"] = config.RunningMachine(s.Engine, s.W, g)
		snap["runningcpu"] = config.RunningCPU(g.Config)
	}
	for k, v := range g.Config {
		if !notInSnapshot(k) {
			snap[k] = v
		}
	}
	snap["snapstate"], snap["snaptime"] = "prepare", strconv.FormatInt(s.W.Clock.Now().Unix(), 10)
	if d := config.Description(s.Params["description"]); d != "" {
		snap["description"] = d
	}
	if g.Snaps == nil {
		g.Snaps = map[string]map[string]string{}
	}
	for _, other := range g.Snaps {
		if other["parent"] == s.name {
			delete(other, "parent")
		}
	}
	g.Snaps[s.name] = snap
	g.SetLock("snapshot", s.Worker.Task.UPID)
	return nil
}

func (s *snapshotting) take() error {
	snap := s.g.Snaps[s.name]
	if snap["vmstate"] != "" {
		config.SaveState(s.Process, snap["vmstate"])
	}
	opts, volids := drive.DisksOf(s.Engine, snap)
	for _, opt := range opts {
		s.Logf("snapshotting 'drive-%s' (%s)", opt, volids[opt])
		if err := snapshotVolume(s.Process, s.g, opt, volids[opt], s.name); err != nil {
			return err
		}
		s.done = append(s.done, opt)
	}
	return s.Worker.Checkpoint()
}

// run takes the snapshot; a failure is undone as well as that goes, and its text has a line break too many.
func (s *snapshotting) run() error {
	if err := s.prepare(); err != nil {
		return err
	}
	if err := s.take(); err != nil {
		s.Logf("snapshot create failed: starting cleanup")
		d := &unsnapshotting{Process: s.Process, g: s.g, name: s.name, force: true, only: s.done, fromCreate: true}
		if undone := d.remove(); undone != nil {
			s.Logf("%s", perl.Message(undone))
		}
		return errors.New(perl.Message(err) + " ")
	}
	delete(s.g.Snaps[s.name], "snapstate")
	s.g.Config["parent"] = s.name
	s.g.SetLock("", "")
	return nil
}

// unsnapshotting is one snapshot to remove (AbstractConfig.pm, snapshot_delete).
type unsnapshotting struct {
	engine.Process
	g          *state.Guest
	name       string
	force      bool
	fromCreate bool     // the clean-up of a create: the lock is there, and only some volumes have the snapshot
	only       []string // these
}

func (u *unsnapshotting) remove() error {
	g := u.g
	snap := g.Snaps[u.name]
	parent := snap["parent"]
	if !u.fromCreate {
		if err := guest.CheckLock(g); err != nil {
			return err
		}
		if g.IsTemplate() {
			return perl.Die("you can't delete a snapshot if vm is a template")
		}
		g.SetLock("snapshot-delete", u.Worker.Task.UPID)
	}
	snap["snapstate"] = "delete"
	unused, err := u.removeVolumes(snap)
	if err != nil {
		g.LockCause = "failure" // PVE leaves the lock and snapstate delete behind
		return err
	}
	reparent(g, u.name, parent)
	delete(g.Snaps, u.name)
	g.SetLock("", "")
	for _, volid := range unused {
		config.AddUnused(g.Config, volid)
	}
	config.Write(u.Engine, g)
	return nil
}

// removeVolumes frees the memory and drops the snapshots of the volumes, one drive after the other out of the section,
// where its volume stays as unusedN (qemu-server QemuConfig.pm __snapshot_delete_remove_drive).
func (u *unsnapshotting) removeVolumes(snap map[string]string) (unused []string, err error) {
	if volid := snap["vmstate"]; volid != "" {
		if err := volume.Free(u.Process, u.g.Node, volid); err != nil {
			if !u.force {
				return nil, err
			}
			u.Logf("%s", perl.Message(err))
		}
		delete(snap, "vmstate")
	}
	if !u.fromCreate {
		if err := u.Worker.Checkpoint(); err != nil {
			return nil, err
		}
	}
	opts, volids := drive.DisksOf(u.Engine, snap)
	for _, opt := range opts {
		if u.name == "vzdump" && drive.Parse(u.Engine, opt, snap[opt])["backup"] != "1" {
			continue // the whole drive, of a container's backup (AbstractConfig.pm snapshot_delete)
		}
		if !u.fromCreate || slices.Contains(u.only, opt) {
			if err := DropVolumeSnapshot(u.Process, u.g, volids[opt], u.name); err != nil {
				if !u.force {
					return nil, err
				}
				u.Logf("%s", perl.Message(err))
			} else {
				unused = append(unused, volids[opt])
			}
		}
		if !u.force {
			delete(snap, opt)
			config.AddUnused(snap, volids[opt])
		}
	}
	return unused, nil
}

func reparent(g *state.Guest, name, parent string) {
	sections := append(slices.Collect(maps.Values(g.Snaps)), g.Config)
	for _, conf := range sections {
		if conf["parent"] != name {
			continue
		}
		if parent == "" {
			delete(conf, "parent")
		} else {
			conf["parent"] = parent
		}
	}
}

// rollingBack is one rollback (AbstractConfig.pm, snapshot_rollback).
type rollingBack struct {
	engine.Process
	g    *state.Guest
	name string
}

func (b *rollingBack) run() error {
	g, snap := b.g, b.g.Snaps[b.name]
	switch {
	case g.IsTemplate():
		return perl.Die("you can't rollback if vm is a template")
	case snap == nil:
		return perl.Die("snapshot '%s' does not exist", b.name)
	}
	opts, volids := drive.DisksOf(b.Engine, snap)
	for _, opt := range opts {
		if err := rollbackPossible(b.Process, g, volids[opt], b.name); err != nil {
			return err
		}
	}
	if snap["snapstate"] != "" {
		return perl.Die("unable to rollback to incomplete snapshot (snapstate = %s)", snap["snapstate"])
	}
	if err := guest.CheckLock(g); err != nil {
		return err
	}
	if g.Running != nil {
		b.Engine.Lose(g, state.PowerRollback, b.Worker.Task)
		b.Engine.Round("vm:" + strconv.Itoa(g.VMID)) // HA keeps it running (pve-ha-manager LRM.pm exec_resource_agent)
	}
	g.SetLock("rollback", b.Worker.Task.UPID)
	if err := b.Worker.Checkpoint(); err != nil {
		g.LockCause = "failure" // the lock stays
		return err
	}
	for _, opt := range opts {
		if err := rollbackVolume(b.Process, g, volids[opt], b.name); err != nil {
			g.LockCause = "failure"
			return err
		}
	}
	if err := b.freeCloudInit(snap); err != nil {
		g.LockCause = "failure"
		return err
	}
	b.apply(snap, volids)
	if snap["vmstate"] != "" || b.Flag("start") {
		return power.Boot(b.Process, g)
	}
	return nil
}

// freeCloudInit destroys a cloud-init drive that the snapshot has not, whichever id it carries (qemu-server
// QemuConfig.pm __snapshot_rollback_get_unused, add_unused_volume).
func (b *rollingBack) freeCloudInit(snap map[string]string) error {
	for _, opt := range drive.DriveNames(b.g.Config) {
		d := drive.Parse(b.Engine, opt, b.g.Config[opt])
		if d == nil || !d.IsCloudinit() || slices.ContainsFunc(drive.DriveNames(snap), func(at string) bool {
			has := drive.Parse(b.Engine, at, snap[at])
			return has != nil && !has.IsMedia() && has.File() == d.File()
		}) {
			continue
		}
		if err := volume.Free(b.Process, b.g.Node, d.File()); err != nil {
			return err
		}
	}
	return nil
}

// apply puts the section in the place of the configuration, whose description and unused volumes stay; a disk that the
// snapshot has not becomes unused.
func (b *rollingBack) apply(snap map[string]string, volids map[string]string) {
	g := b.g
	g.SetLock("", "")
	current, of := drive.DisksOf(b.Engine, g.Config)
	for _, opt := range current {
		if !slices.Contains(slices.Collect(maps.Values(volids)), of[opt]) {
			config.AddUnused(g.Config, of[opt])
		}
	}
	next := map[string]string{}
	for k, v := range g.Config {
		if drive.HasIndex(k, "unused") || k == "description" {
			next[k] = v
		}
	}
	for k, v := range snap {
		if !notInSnapshot(k) && k != "runningmachine" && k != "runningcpu" {
			next[k] = v
		}
	}
	if next["vmgenid"] != "" {
		next["vmgenid"] = b.W.UUID() // another generation
	}
	next["parent"] = b.name
	g.Config, g.Pending, g.Deletes = next, nil, nil
	g.StatusAt = b.W.Clock.Now()
	config.Write(b.Engine, g)
}
