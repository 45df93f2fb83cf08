// Package lifecycle creates, restores, backs up and destroys virtual machines.
package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// BackupRoutes are the routes that make backups and look into them.
func BackupRoutes() engine.Routes {
	return engine.Routes{
		"POST /nodes/{node}/vzdump":              vzdump,
		"GET /nodes/{node}/vzdump/extractconfig": extractConfig,
	}
}

// vzdump is POST vzdump: a backup of some of the node's virtual machines (pve-manager API2/VZDump.pm, PVE/VZDump.pm;
// qemu-server VZDump/QemuServer.pm).
func vzdump(r *engine.Request) (any, error) {
	var ids []int
	if r.Params["all"] == "1" {
		ids = allGuests(r)
	}
	for _, word := range perl.ListItems(r.Params["vmid"]) {
		id := perl.Number(word)
		if err := r.Check("/vms/"+word, "VM.Backup"); err != nil {
			return nil, err
		}
		if g := r.W.Guests[id]; g == nil || g.Node == r.Node() {
			ids = append(ids, id)
		}
	}
	switch {
	case r.Params["pool"] != "":
		return nil, &perl.Error{Status: 501, Message: "Method 'POST /nodes/{node}/vzdump' with pool not simulated"}
	case len(ids) == 0 && r.Params["all"] != "1":
		return "OK", nil // they are elsewhere
	}
	storage := r.Params["storage"]
	if storage == "" {
		storage = "local"
	}
	if err := r.Check("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	task := ""
	if len(ids) == 1 {
		task = strconv.Itoa(ids[0])
	}
	return guest.ForkFor(r, "vzdump", task, func(w *engine.Worker) error {
		return backupAll(engine.Process{Request: r,
			Worker: w}, ids, storage)
	}), nil
}

// allGuests are the virtual machines of the node that a job of all backs up: those that the identity may not back up
// are left out (PVE/VZDump.pm, get_included_guests and exec_backup).
func allGuests(r *engine.Request) (ids []int) {
	excluded := perl.ListItems(r.Params["exclude"])
	for _, id := range slices.Sorted(maps.Keys(r.W.Guests)) {
		word := strconv.Itoa(id)
		if g := r.W.Guests[id]; g.Node == r.Node() && g.Type == "qemu" && !slices.Contains(excluded, word) &&
			r.Check("/vms/"+word, "VM.Backup") == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

func backupAll(p engine.Process, ids []int, storage string) error {
	if slices.Contains(p.W.Nodes[p.Node()].Lacks, "sendmail") {
		return perl.Die("unable to find command 'sendmail'")
	}
	s, err := p.W.StorageActive(p.Node(), storage)
	if err != nil {
		return perl.Die("could not activate storage '%s': %s", storage, perl.Message(err))
	}
	if !s.Has("backup") {
		return perl.Die("could not get storage information for '%s': can't use storage '%s' for backups - wrong content type",
			storage, storage)
	}
	p.Logf("INFO: starting new backup job: vzdump %s --storage %s", p.Params["vmid"], storage)
	failed := false
	for _, id := range ids {
		p.Logf("INFO: Starting Backup of VM %d (qemu)", id)
		if err := backup(p, id, s); err != nil {
			p.Logf("ERROR: Backup of VM %d failed - %s", id, perl.Message(err))
			failed = true
			continue
		}
		p.Logf("INFO: Finished Backup of VM %d (00:00:01)", id)
	}
	if failed {
		return perl.Die("job errors")
	}
	p.Logf("INFO: Backup job finished successfully")
	return nil
}

// backup locks the guest, copies its drives and takes the lock away again.
func backup(p engine.Process, id int, s *state.Storage) error {
	release, err := guest.LockInTask(p.Worker, id, false, engine.LockTimeout)
	if err != nil {
		return err
	}
	g, err := guest.LoadOn(p.W, p.Node(), id)
	if err == nil {
		err = guest.CheckLock(g)
	}
	if err != nil {
		release()
		return err
	}
	g.SetLock("backup", p.Worker.Task.UPID)
	release()
	b, err := archive(p.Engine, p.W, g)
	if err != nil {
		g.SetLock("", "")
		return err
	}
	stop, err := openDisks(p, g, len(b.Drives))
	if err == nil {
		err = p.Worker.Checkpoint()
	}
	if stop(); err != nil {
		g.SetLock("", "")
		return err
	}
	v := storeBackup(p, s, b)
	p.Logf("INFO: creating vzdump archive '%s'", s.VolumePath(v.Name))
	if p.W.Guests[id] == g {
		g.SetLock("", "")
	}
	return nil
}

// openDisks has the guest's disks opened for their backup: by its QEMU or, where it is off, by one that is started
// paused (VZDump/QemuServer.pm, enforce_vm_running_for_backup). Without disks none is started. stop ends that QEMU,
// unless a user has started the guest meanwhile (restore_vm_power_state).
func openDisks(p engine.Process, g *state.Guest, disks int) (stop func(), err error) {
	stop = func() {}
	switch {
	case disks == 0:
		p.Logf("INFO: backup contains no disks")
		return stop, nil
	case g.Running != nil:
		return stop, nil
	}
	p.Logf("INFO: starting kvm to execute backup task")
	if err := power.Boot(p, g); err != nil {
		return stop, err
	}
	g.Running.QMPStatus = "prelaunch"
	return func() {
		if g.Running != nil && g.Running.QMPStatus == "prelaunch" {
			p.Logf("INFO: stopping kvm after backup task")
			g.Running, g.StatusAt = nil, p.W.Clock.Now()
		}
	}, nil
}

// archive is what a backup of the guest holds; drives with backup=0 are left out.
func archive(e *engine.Engine, w *state.World, g *state.Guest) (*state.Backup, error) {
	b := &state.Backup{VMID: g.VMID, Config: map[string]string{}, Drives: map[string]state.BackupDrive{},
		Firewall: w.Firewall[g.VMID].Clone()}
	for k, v := range g.Config {
		if k != "lock" && k != "parent" && !drive.HasIndex(k, "unused") {
			b.Config[k] = v
		}
	}
	for _, opt := range drive.DriveNames(g.Config) {
		d := drive.Parse(e, opt, g.Config[opt])
		if d == nil || d.IsCDROM() || d["backup"] == "0" {
			continue
		}
		v := w.Volume(g.Node, d.File())
		if v == nil {
			return nil, perl.Die("volume '%s' does not exist", d.File())
		}
		b.Drives[opt] = state.BackupDrive{Storage: v.Storage, Format: v.Format, Size: v.Size, Data: v.Data}
	}
	return b, nil
}

// storeBackup puts an archive on a storage, under the name of the moment.
func storeBackup(p engine.Process, s *state.Storage, b *state.Backup) *state.Volume {
	size := int64(10 << 10)
	for _, d := range b.Drives {
		size += d.Size / 4
	}
	for at := p.W.Clock.Now().UTC(); ; at = at.Add(1e9) { // one a second
		name := fmt.Sprintf("backup/vzdump-qemu-%d-%s.vma.zst", b.VMID, at.Format("2006_01_02-15_04_05"))
		key := s.Key(p.Node(), name)
		if p.W.Volumes[key] != nil {
			continue
		}
		v := &state.Volume{Storage: s.ID, Node: key.Node, Name: name, Content: "backup", VMID: b.VMID, Format: "vma.zst",
			Size: size, Backup: b}
		p.W.Put(v)
		return v
	}
}

// backupVolume finds an archive, as one who restores it does.
func backupVolume(r *engine.Request, volid string) (*state.Volume, error) {
	id, name, ok := state.SplitVolid(volid)
	if !ok {
		return nil, perl.Die("unable to parse volume ID '%s'", volid)
	}
	s, err := r.W.StorageActive(r.Node(), id)
	if err != nil {
		return nil, err
	}
	n, err := s.ParseName(name)
	if err != nil {
		return nil, err
	}
	if n.Content != "backup" {
		return nil, perl.Die("unable to use volume %s - content type needs to be 'backup'", volid)
	}
	v := r.W.Volume(r.Node(), volid)
	if v == nil || v.Backup == nil {
		return nil, perl.Die("vma: reading file '%s' failed", s.VolumePath(name))
	}
	return v, nil
}

// extractConfig is GET vzdump/extractconfig: the configuration in an archive.
func extractConfig(r *engine.Request) (any, error) {
	volid := r.Params["volume"]
	if err := drive.VolumeAccess(r, 0, volid); err != nil {
		return nil, err
	}
	v, err := backupVolume(r, volid)
	if v != nil {
		err = r.Check(fmt.Sprintf("/vms/%d", v.Backup.VMID), "VM.Backup")
	}
	if err != nil {
		return nil, err
	}
	g := &state.Guest{Config: v.Backup.Config}
	lines := []string{strings.TrimRight(g.Text(), "\n")}
	for _, opt := range drive.DriveNames(v.Backup.Config) {
		if d, ok := v.Backup.Drives[opt]; ok {
			lines = append(lines, fmt.Sprintf("#qmdump#map:%s:drive-%s:%s:%s:", opt, opt, d.Storage, d.Format))
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}
