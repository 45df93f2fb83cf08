package handle

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// restoring is one restore from an archive, to a free id or over a guest (qemu-server API2/Qemu.pm, create_vm with archive;
// QemuServer.pm, restore_vma_archive).
type restoring struct {
	process
	override map[string]string
	backup   *state.Backup
	// fromServer: the archive is on a Proxmox Backup Server.
	fromServer bool
	done       bool // the data is there
}

// restore is POST /nodes/{node}/qemu with archive.
func (r *Request) restore(conf map[string]string) (any, error) {
	vmid, archive := r.vmid(), r.Params["archive"]
	if err := r.checkRestore(conf, archive); err != nil {
		return nil, err
	}
	volume, err := r.backupVolume(archive)
	prefix := fmt.Sprintf("unable to restore VM %d - ", vmid)
	g, locked := r.lockForRestore(prefix)
	if locked != nil {
		return nil, locked
	}
	upid := r.task("qmrestore", func(w *Worker) error {
		x := &restoring{process: process{r, w}, override: conf}
		problem := err
		if problem == nil {
			x.backup, x.fromServer = volume.Backup, volume.Format == "pbs-vm"
			problem = x.run(prefix)
		}
		if problem != nil {
			x.giveUp()
			return problem
		}
		if r.flag("start") {
			w.Logf("Execute autostart")
			start := r.on(r.node(), vmid)
			w.Fork(r.node(), "qmstart", strconv.Itoa(vmid), func(w *Worker) error { return perlText(start.startWorker(w, false)) })
		}
		return nil
	})
	g.LockCause = upid
	return upid, nil
}

func (r *Request) checkRestore(conf map[string]string, archive string) error {
	vmid, pool := r.vmid(), r.Params["pool"]
	if pool != "" {
		if err := r.CheckPool(pool); err != nil {
			return err
		}
	}
	if s := r.Params["storage"]; s != "" {
		if err := r.Check("/storage/"+s, "Datastore.AllocateSpace"); err != nil {
			return err
		}
	}
	over := r.flag("force") && r.W.Guests[vmid] != nil && r.checkVM(vmid, "", "VM.Backup") == nil
	if r.checkVM(vmid, pool, "VM.Allocate") != nil && !over {
		return &Error{Status: 403, Message: "Permission check failed"}
	}
	for _, opt := range slices.Sorted(maps.Keys(conf)) {
		if isDrive(opt) {
			return Invalid(opt, "option conflicts with option 'archive'")
		}
	}
	if err := r.volumeAccess(vmid, archive); err != nil {
		return err
	}
	clampUnits(r.W.Nodes[r.node()], conf)
	if err := r.checkOptions(vmid, pool, slices.Collect(maps.Keys(conf))); err != nil {
		return err
	}
	if err := r.checkDevices(vmid, pool, conf, "set"); err != nil {
		return err
	}
	return r.checkBridges(conf)
}

// lockForRestore is create_and_lock_config, which with force takes a guest of the node that is there.
func (r *Request) lockForRestore(prefix string) (*state.Guest, error) {
	old := r.W.Guests[r.vmid()]
	if old == nil || !r.flag("force") {
		return r.createAndLock(prefix)
	}
	release, err := r.lockGuest(CreateLockTimeout)
	if err != nil {
		return nil, Die("%s%s", prefix, text(err))
	}
	defer release()
	if old.Type != "qemu" || old.Node != r.node() { // the check is skipped, but the file system refuses a second file
		return nil, Die("%sunable to open file '/etc/pve/nodes/%s/qemu-server/%d.conf.tmp.%d' - File exists", prefix, r.node(), r.vmid(),
			r.Server.forks)
	}
	if err := checkLock(old); err != nil {
		return nil, Die("%s%s", prefix, text(err))
	}
	old.SetLock("create", "api")
	return old, nil
}

func (x *restoring) run(prefix string) error {
	g, err := x.guest()
	if err != nil {
		return err
	}
	if g.Config["protection"] == "1" {
		return Die("%sprotection mode enabled", strings.TrimSuffix(prefix, " ")+" ")
	}
	if g.Running != nil {
		return Die("%svm is running", prefix)
	}
	release, err := x.worker.lockGuest(g.VMID, false, WorkerLockTimeout)
	if err != nil {
		return err
	}
	defer release()
	if err := x.checkBridges(x.backup.Config); err != nil {
		return err
	}
	devices, err := x.devices()
	if err != nil {
		return err
	}
	if x.backup.Firewall != nil {
		x.W.Firewall[g.VMID] = x.backup.Firewall.Clone()
	}
	x.cleanUpOld(g, devices)
	x.empty(g)
	volumes, err := x.allocate(devices)
	if err == nil {
		err = x.worker.Checkpoint()
	}
	if err != nil {
		x.destroyVolumes(g.Node, volumes)
		return err
	}
	x.write(g, volumes)
	x.rescan(g)
	if p := x.W.Pools[x.Params["pool"]]; p != nil {
		p.Guests = append(p.Guests, g.VMID)
	}
	return nil
}

// empty puts a configuration in the old one's place that stands there while the data is read. For an archive in a file it has no lock
// (restore_vma_archive), for one on a backup server it has (restore_proxmox_backup_archive).
func (x *restoring) empty(g *state.Guest) {
	cause := g.LockCause
	g.Config, g.Snaps, g.Pending, g.Deletes, g.LockCause = map[string]string{"memory": "128"}, nil, nil, nil, ""
	if x.fromServer {
		g.SetLock("create", cause)
	}
	x.Server.writeConfig(g)
}

// destroyVolumes takes back what was made (restore_destroy_volumes).
func (x *restoring) destroyVolumes(node string, volumes map[string]string) {
	for _, opt := range slices.Sorted(maps.Keys(volumes)) {
		volid := volumes[opt]
		if x.worker.CleanupFails() {
			x.logf("unable to cleanup '%s' - unable to free volume", volid)
			continue
		}
		if err := x.free(node, volid); err != nil {
			x.logf("unable to cleanup '%s' - %s", volid, text(err))
			continue
		}
		x.logf("temporary volume '%s' successfully removed", volid)
	}
}

// devices are the volumes to make: of every drive in the archive, and the cloud-init image.
func (x *restoring) devices() (map[string]state.BackupDrive, error) {
	out := maps.Clone(x.backup.Drives)
	if out == nil {
		out = map[string]state.BackupDrive{}
	}
	for _, opt := range driveNames(x.backup.Config) {
		if d := x.Server.parseDrive(opt, x.backup.Config[opt]); d != nil && d.isCloudinit() {
			id, name, _ := state.SplitVolid(d.file())
			out[opt] = state.BackupDrive{Storage: id, Format: fileFormat(name), Size: cloudinitSize}
		}
	}
	for _, opt := range slices.Sorted(maps.Keys(out)) {
		d := out[opt]
		if to := x.Params["storage"]; to != "" {
			d.Storage = to
		}
		s, err := x.W.StorageConfig(d.Storage)
		if err != nil {
			return nil, err
		}
		if !s.Has("images") {
			return nil, Die("Content type 'images' is not available on storage '%s'", s.ID)
		}
		if err := x.Check("/storage/"+s.ID, "Datastore.AllocateSpace"); err != nil {
			return nil, err
		}
		if !slices.Contains(s.Formats(), d.Format) {
			d.Format = s.Formats()[0]
		}
		out[opt] = d
	}
	return out, nil
}

// cleanUpOld frees the drives that the archive replaces, and what belonged to the snapshots.
func (x *restoring) cleanUpOld(g *state.Guest, devices map[string]state.BackupDrive) {
	warn := func(err error) {
		if err != nil {
			x.logf("%s", text(err))
		}
	}
	var kept []string
	for _, opt := range driveNames(g.Config) {
		d := x.Server.parseDrive(opt, g.Config[opt])
		if d == nil || d.isMedia() || !owns(x.W, g.VMID, d.file()) {
			continue
		}
		if _, ok := devices[opt]; ok {
			warn(x.free(g.Node, d.file()))
			continue
		}
		kept = append(kept, d.file())
	}
	for _, name := range slices.Sorted(maps.Keys(g.Snaps)) {
		if volid := g.Snaps[name]["vmstate"]; volid != "" {
			warn(x.free(g.Node, volid))
		}
		for _, volid := range kept {
			warn(x.dropVolumeSnapshot(g, volid, name))
		}
	}
}

func (x *restoring) allocate(devices map[string]state.BackupDrive) (map[string]string, error) {
	volumes := map[string]string{}
	for _, opt := range slices.Sorted(maps.Keys(devices)) {
		d, name := devices[opt], ""
		image := x.Server.parseDrive(opt, x.backup.Config[opt]).isCloudinit()
		if image {
			name = fmt.Sprintf("vm-%d-cloudinit", x.vmid())
			if x.W.Storages[d.Storage].IsDir() {
				name += "." + d.Format
			}
		}
		v, err := x.alloc(x.node(), d.Storage, x.vmid(), name, d.Format, d.Size)
		if err != nil {
			return volumes, err
		}
		x.formatted(x.W.Storages[d.Storage], v)
		x.logf("new volume ID is '%s'", v.Volid())
		v.Data = d.Data
		volumes[opt] = v.Volid()
	}
	x.done = true
	return volumes, nil
}

// write makes the archive's configuration the guest's: description, name, uuid and creation time are those of the archive
// (restore_update_config_line).
func (x *restoring) write(g *state.Guest, volumes map[string]string) {
	conf, unique := map[string]string{}, x.flag("unique")
	for k, v := range x.backup.Config {
		switch {
		case isDrive(k):
			d := x.Server.parseDrive(k, v)
			if d["backup"] == "0" {
				continue // becomes a comment
			}
			if volid, ok := volumes[k]; ok {
				delete(d, "format")
				d["file"] = volid
				v = x.Server.printDrive(k, d)
			}
		case k == "vmgenid" && v != "0":
			v = x.W.UUID()
		case k == "smbios1" && unique:
			v = newSMBIOS(x.W, v)
		case hasIndex(k, "net") && unique:
			n := x.Server.parseNet(x.W, k, v)
			n["macaddr"] = x.W.MAC()
			v = x.Server.printNet(k, n)
		}
		conf[k] = v
	}
	maps.Copy(conf, x.override)
	g.Config, g.Pending, g.Deletes, g.Snaps, g.LockCause = conf, nil, nil, nil, ""
	g.StatusAt = x.W.Clock.Now()
	x.Server.writeConfig(g)
	if g.IsTemplate() {
		x.logf("Convert to template.")
		x.convertRestored(g)
	}
}

// convertRestored turns the disks of a restored template into base images.
func (x *restoring) convertRestored(g *state.Guest) {
	for _, opt := range driveNames(g.Config) {
		d := x.Server.parseDrive(opt, g.Config[opt])
		if d == nil || d.isCDROM() || !x.volumeHas("template", d.file(), "") {
			continue
		}
		if v := x.W.Volume(g.Node, d.file()); v != nil {
			if _, err := x.W.CreateBase(v); err == nil {
				d["file"] = v.Volid()
				g.Config[opt] = x.Server.printDrive(opt, d)
			}
		}
	}
}

// rescan corrects sizes and makes every image that carries the id and is not referred to an unused volume (QemuServer.pm,
// rescan); a cloud-init image among them is destroyed.
func (x *restoring) rescan(g *state.Guest) {
	x.logf("rescan volumes...")
	used := map[string]bool{}
	for _, opt := range driveNames(g.Config) {
		d := x.Server.parseDrive(opt, g.Config[opt])
		if d == nil {
			continue
		}
		used[d.file()] = true
		v := x.W.Volume(g.Node, d.file())
		if v == nil || d.isCDROM() {
			continue
		}
		if size := schema.FormatSize(v.Size); d["size"] != size {
			x.logf("VM %d (%s): size of disk '%s' updated from %s to %s", g.VMID, opt, d.file(), d["size"], size)
			d["size"] = size
			g.Config[opt] = x.Server.printDrive(opt, d)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(x.W.Storages)) {
		s, err := x.W.StorageActive(g.Node, id)
		if err != nil || !s.Has("images") {
			continue
		}
		for _, v := range x.W.VolumesOn(g.Node, s) {
			image := v.Content == "images" || v.Content == "rootdir"
			if !image || v.VMID != g.VMID || used[v.Volid()] || strings.Contains(v.Name, fmt.Sprintf("vm-%d-state-", g.VMID)) {
				continue
			}
			if err := x.keepMoved(g, v.Volid()); err != nil {
				x.logf("%s", text(err))
			}
			x.logf("VM %d add unreferenced volume '%s' as '%s' to config", g.VMID, v.Volid(), slotOfUnused(g, v.Volid()))
		}
	}
	x.Server.writeConfig(g)
}

func slotOfUnused(g *state.Guest, volid string) string {
	for k, v := range g.Config {
		if hasIndex(k, "unused") && v == volid {
			return k
		}
	}
	return ""
}

// giveUp takes the lock away and leaves the rest as it is.
func (x *restoring) giveUp() {
	if g, err := x.guest(); err == nil && g.Lock() == "create" {
		g.SetLock("", "")
	}
	if x.done {
		x.logf("error after data was restored, VM disks should be OK but config may require adaptions. VM %d state is NOT cleaned up.", x.vmid())
		return
	}
	x.logf("error before or during data restore, some or all disks were not completely restored. VM %d state is NOT cleaned up.", x.vmid())
}
