package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// restoring is one restore from an archive, to a free id or over a guest (qemu-server API2/Qemu.pm, create_vm with
// archive; QemuServer.pm, restore_vma_archive).
type restoring struct {
	engine.Process
	override map[string]string
	backup   *state.Backup
	// fromServer: the archive is on a Proxmox Backup Server.
	fromServer bool
	done       bool // the data is there
}

// restore is POST /nodes/{node}/qemu with archive.
func restore(r *engine.Request, conf map[string]string) (any, error) {
	vmid, archive := r.VMID(), r.Params["archive"]
	if archive == "-" {
		return nil, perl.Die("pipe requires cli environment")
	}
	if err := checkRestore(r, conf, archive); err != nil {
		return nil, err
	}
	volume, err := backupVolume(r, archive)
	if err != nil { // before anything is made (API2/Qemu.pm, $classify_restore_archive)
		return nil, err
	}
	prefix := fmt.Sprintf("unable to restore VM %d - ", vmid)
	g, locked := lockForRestore(r, prefix)
	if locked != nil {
		return nil, locked
	}
	upid := guest.Fork(r, "qmrestore", func(w *engine.Worker) error {
		x := &restoring{Process: engine.Process{Request: r, Worker: w}, override: conf}
		x.backup, x.fromServer = volume.Backup, volume.Format == "pbs-vm"
		if problem := x.run(prefix); problem != nil {
			x.giveUp()
			return problem
		}
		if r.Flag("start") {
			w.Logf("Execute autostart")
			start := r.On(r.Node(), vmid)
			w.Fork(r.Node(), "qmstart", strconv.Itoa(vmid),
				func(w *engine.Worker) error { return perl.Stringify(power.StartWorker(start, w, false)) })
		}
		return nil
	})
	g.LockCause = upid
	return upid, nil
}

func checkRestore(r *engine.Request, conf map[string]string, archive string) error {
	vmid, pool := r.VMID(), r.Params["pool"]
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
	over := r.Flag("force") && r.W.Guests[vmid] != nil && drive.CheckVM(r, vmid, "", "VM.Backup") == nil
	if drive.CheckVM(r, vmid, pool, "VM.Allocate") != nil && !over {
		return &perl.Error{Status: 403, Message: "Permission check failed"}
	}
	for _, opt := range slices.Sorted(maps.Keys(conf)) {
		if drive.IsDrive(opt) {
			return perl.Invalid(opt, "option conflicts with option 'archive'")
		}
	}
	if err := drive.VolumeAccess(r, vmid, archive); err != nil {
		return err
	}
	config.ClampUnits(r.W.Nodes[r.Node()], conf)
	if err := config.CheckOptions(r, vmid, pool, slices.Collect(maps.Keys(conf))); err != nil {
		return err
	}
	if err := config.CheckDevices(r, vmid, pool, conf, "set"); err != nil {
		return err
	}
	return config.CheckBridges(r, conf)
}

// lockForRestore is create_and_lock_config, which with force takes a guest of the node that is there.
func lockForRestore(r *engine.Request, prefix string) (*state.Guest, error) {
	old := r.W.Guests[r.VMID()]
	if old == nil || !r.Flag("force") {
		return createAndLock(r, prefix)
	}
	release, err := guest.Lock(r, engine.CreateLockTimeout)
	if err != nil {
		return nil, perl.Die("%s%s", prefix, perl.Message(err))
	}
	defer release()
	if old.Type != "qemu" || old.Node != r.Node() { // the check is skipped, but the file system refuses a second file
		return nil, perl.Die("%sunable to open file '/etc/pve/nodes/%s/qemu-server/%d.conf.tmp.%d' - File exists", prefix,
			r.Node(), r.VMID(),
			r.Engine.Forks)
	}
	if err := guest.CheckLock(old); err != nil {
		return nil, perl.Die("%s%s", prefix, perl.Message(err))
	}
	old.SetLock("create", "api")
	return old, nil
}

func (x *restoring) run(prefix string) error {
	g, err := guest.Load(x.Process.Request)
	if err != nil {
		return err
	}
	if g.Config["protection"] == "1" {
		return perl.Die("%sprotection mode enabled", strings.TrimSuffix(prefix, " ")+" ")
	}
	if g.Running != nil {
		return perl.Die("%svm is running", prefix)
	}
	release, err := guest.LockInTask(x.Worker, g.VMID, false, engine.WorkerLockTimeout)
	if err != nil {
		return err
	}
	defer release()
	if err := config.CheckBridges(x.Process.Request, x.backup.Config); err != nil {
		return err
	}
	if err := config.CheckMappings(x.Process.Request, x.backup.Config); err != nil {
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
		err = x.Worker.Checkpoint()
	}
	if err != nil {
		x.destroyVolumes(g.Node, volumes)
		return err
	}
	x.write(g, volumes)
	config.Rescan(x.Process, g)
	return x.AddToPool(g.VMID, x.Params["pool"])
}

func (x *restoring) allocate(devices map[string]state.BackupDrive) (map[string]string, error) {
	volumes := map[string]string{}
	for _, opt := range slices.Sorted(maps.Keys(devices)) {
		d, name := devices[opt], ""
		image := drive.Parse(x.Engine, opt, x.backup.Config[opt]).IsCloudinit()
		if image {
			name = fmt.Sprintf("vm-%d-cloudinit", x.VMID())
			if x.W.Storages[d.Storage].IsDir() {
				name += "." + d.Format
			}
		}
		v, err := volume.Alloc(x.Process, x.Node(), d.Storage, x.VMID(), name, d.Format, d.Size)
		if err != nil {
			return volumes, err
		}
		volume.Formatted(x.Process, x.W.Storages[d.Storage], v)
		x.Logf("new volume ID is '%s'", v.Volid())
		v.Data = d.Data
		volumes[opt] = v.Volid()
	}
	x.done = true
	return volumes, nil
}

// write makes the archive's configuration the guest's: description, name, uuid and creation time are those of the
// archive (restore_update_config_line).
func (x *restoring) write(g *state.Guest, volumes map[string]string) {
	conf, unique := map[string]string{}, x.Flag("unique")
	for k, v := range x.backup.Config {
		switch {
		case drive.IsDrive(k):
			d := drive.Parse(x.Engine, k, v)
			if d["backup"] == "0" {
				continue // becomes a comment
			}
			if volid, ok := volumes[k]; ok {
				delete(d, "format")
				d["file"] = volid
				v = drive.Print(x.Engine, k, d)
			}
		case k == "vmgenid" && v != "0":
			v = x.W.UUID()
		case k == "smbios1" && unique:
			v = config.NewSMBIOS(x.W, v)
		case drive.HasIndex(k, "net") && unique:
			n := drive.ParseNet(x.Engine, x.W, k, v)
			n["macaddr"] = x.W.MAC()
			v = drive.PrintNet(x.Engine, k, n)
		}
		conf[k] = v
	}
	maps.Copy(conf, x.override)
	g.Config, g.Pending, g.Deletes, g.Snaps, g.LockCause = conf, nil, nil, nil, ""
	g.StatusAt = x.W.Clock.Now()
	config.Write(x.Engine, g)
	if g.IsTemplate() {
		x.Logf("Convert to template.")
		x.convertRestored(g)
	}
}

// convertRestored turns the disks of a restored template into base images.
func (x *restoring) convertRestored(g *state.Guest) {
	for _, opt := range drive.DriveNames(g.Config) {
		d := drive.Parse(x.Engine, opt, g.Config[opt])
		if d == nil || d.IsCDROM() || !drive.VolumeHas(x.Process.Request, "template", d.File(), "") {
			continue
		}
		if v := x.W.Volume(g.Node, d.File()); v != nil {
			if _, err := x.W.CreateBase(v); err == nil {
				d["file"] = v.Volid()
				g.Config[opt] = drive.Print(x.Engine, opt, d)
			}
		}
	}
}

// giveUp takes the lock away and leaves the rest as it is.
func (x *restoring) giveUp() {
	if g, err := guest.Load(x.Process.Request); err == nil && g.Lock() == "create" {
		g.SetLock("", "")
	}
	if x.done {
		x.Logf("error after data was restored, VM disks should be OK but config may require adaptions. VM %d state is NOT "+
			"cleaned up.", x.VMID())
		return
	}
	x.Logf("error before or during data restore, some or all disks were not completely restored. VM %d state is NOT "+
		"cleaned up.", x.VMID())
}
