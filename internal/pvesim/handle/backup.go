package handle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func backupRoutes() Routes {
	return Routes{
		"POST /nodes/{node}/vzdump":              vzdump,
		"GET /nodes/{node}/vzdump/extractconfig": extractConfig,
	}
}

// vzdump is POST vzdump: a backup of some of the node's virtual machines (pve-manager API2/VZDump.pm, PVE/VZDump.pm; qemu-server
// VZDump/QemuServer.pm).
func vzdump(r *Request) (any, error) {
	var ids []int
	for _, word := range listItems(r.Params["vmid"]) {
		id := number(word)
		if err := r.Check("/vms/"+word, "VM.Backup"); err != nil {
			return nil, err
		}
		if g := r.W.Guests[id]; g == nil || g.Node == r.node() {
			ids = append(ids, id)
		}
	}
	switch {
	case r.Params["all"] == "1" || r.Params["pool"] != "":
		return nil, &Error{Status: 501, Message: "Method 'POST /nodes/{node}/vzdump' with all or pool not simulated"}
	case len(ids) == 0:
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
		task = itoa(ids[0])
	}
	return r.taskFor("vzdump", task, func(w *Worker) error { return process{r, w}.backupAll(ids, storage) }), nil
}

func (p process) backupAll(ids []int, storage string) error {
	if slices.Contains(p.W.Nodes[p.node()].Lacks, "sendmail") {
		return Die("unable to find command 'sendmail'")
	}
	s, err := p.W.StorageActive(p.node(), storage)
	if err != nil {
		return Die("could not activate storage '%s': %s", storage, text(err))
	}
	if !s.Has("backup") {
		return Die("could not get storage information for '%s': can't use storage '%s' for backups - wrong content type", storage, storage)
	}
	p.logf("INFO: starting new backup job: vzdump %s --storage %s", p.Params["vmid"], storage)
	failed := false
	for _, id := range ids {
		p.logf("INFO: Starting Backup of VM %d (qemu)", id)
		if err := p.backup(id, s); err != nil {
			p.logf("ERROR: Backup of VM %d failed - %s", id, text(err))
			failed = true
			continue
		}
		p.logf("INFO: Finished Backup of VM %d (00:00:01)", id)
	}
	if failed {
		return Die("job errors")
	}
	p.logf("INFO: Backup job finished successfully")
	return nil
}

// backup locks the guest, copies its drives and takes the lock away again.
func (p process) backup(id int, s *state.Storage) error {
	release, err := p.worker.lockGuest(id, false, LockTimeout)
	if err != nil {
		return err
	}
	g, err := loadGuest(p.W, p.node(), id)
	if err == nil {
		err = checkLock(g)
	}
	if err != nil {
		release()
		return err
	}
	g.SetLock("backup", p.worker.Task.UPID)
	release()
	if err := p.worker.Checkpoint(); err != nil {
		g.SetLock("", "")
		return err
	}
	b, err := p.Server.archive(p.W, g)
	if err != nil {
		g.SetLock("", "")
		return err
	}
	v := p.storeBackup(s, b)
	p.logf("INFO: creating vzdump archive '%s'", s.VolumePath(v.Name))
	if p.W.Guests[id] == g {
		g.SetLock("", "")
	}
	return nil
}

// archive is what a backup of the guest holds; drives with backup=0 are left out.
func (s *Server) archive(w *state.World, g *state.Guest) (*state.Backup, error) {
	b := &state.Backup{VMID: g.VMID, Config: map[string]string{}, Drives: map[string]state.BackupDrive{}, Firewall: w.Firewall[g.VMID].Clone()}
	for k, v := range g.Config {
		if k != "lock" && k != "parent" && !hasIndex(k, "unused") {
			b.Config[k] = v
		}
	}
	for _, opt := range driveNames(g.Config) {
		d := s.parseDrive(opt, g.Config[opt])
		if d == nil || d.isCDROM() || d["backup"] == "0" {
			continue
		}
		v := w.Volume(g.Node, d.file())
		if v == nil {
			return nil, Die("volume '%s' does not exist", d.file())
		}
		b.Drives[opt] = state.BackupDrive{Storage: v.Storage, Format: v.Format, Size: v.Size, Data: v.Data}
	}
	return b, nil
}

// storeBackup puts an archive on a storage, under the name of the moment.
func (p process) storeBackup(s *state.Storage, b *state.Backup) *state.Volume {
	size := int64(10 << 10)
	for _, d := range b.Drives {
		size += d.Size / 4
	}
	for at := p.W.Clock.Now().UTC(); ; at = at.Add(1e9) { // one a second
		name := fmt.Sprintf("backup/vzdump-qemu-%d-%s.vma.zst", b.VMID, at.Format("2006_01_02-15_04_05"))
		key := s.Key(p.node(), name)
		if p.W.Volumes[key] != nil {
			continue
		}
		v := &state.Volume{Storage: s.ID, Node: key.Node, Name: name, Content: "backup", VMID: b.VMID, Format: "vma.zst", Size: size, Backup: b}
		p.W.Put(v)
		return v
	}
}

// backupVolume finds an archive, as one who restores it does.
func (r *Request) backupVolume(volid string) (*state.Volume, error) {
	id, name, ok := state.SplitVolid(volid)
	if !ok {
		return nil, Die("unable to parse volume ID '%s'", volid)
	}
	s, err := r.W.StorageActive(r.node(), id)
	if err != nil {
		return nil, err
	}
	n, err := s.ParseName(name)
	if err != nil {
		return nil, err
	}
	if n.Content != "backup" {
		return nil, Die("unable to use volume %s - content type needs to be 'backup'", volid)
	}
	v := r.W.Volume(r.node(), volid)
	if v == nil || v.Backup == nil {
		return nil, Die("vma: reading file '%s' failed", s.VolumePath(name))
	}
	return v, nil
}

// extractConfig is GET vzdump/extractconfig: the configuration in an archive.
func extractConfig(r *Request) (any, error) {
	volid := r.Params["volume"]
	if err := r.volumeAccess(0, volid); err != nil {
		return nil, err
	}
	v, err := r.backupVolume(volid)
	if v != nil {
		err = r.Check(fmt.Sprintf("/vms/%d", v.Backup.VMID), "VM.Backup")
	}
	if err != nil {
		return nil, err
	}
	g := &state.Guest{Config: v.Backup.Config}
	lines := []string{strings.TrimRight(g.Text(), "\n")}
	for _, opt := range driveNames(v.Backup.Config) {
		if d, ok := v.Backup.Drives[opt]; ok {
			lines = append(lines, fmt.Sprintf("#qmdump#map:%s:drive-%s:%s:%s:", opt, opt, d.Storage, d.Format))
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}
