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
	if err := checkBackup(r); err != nil {
		return nil, err
	}
	ids, err := backupGuests(r)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 && r.Params["all"] != "1" {
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
		return backupAll(engine.Process{Request: r, Worker: w}, ids, storage)
	}), nil
}

// checkBackup refuses what does not go together, and what only root may say (assert_param_permission_vzdump and
// verify_vzdump_parameters).
func checkBackup(r *engine.Request) error {
	p := r.Params
	for _, k := range []string{"dumpdir", "script", "tmpdir"} {
		if p[k] != "" && !r.Auth.IsRoot() {
			return perl.Invalid(k, "Only root may set this option.")
		}
	}
	for _, k := range []string{"all", "exclude", "pool"} {
		if p["vmid"] != "" && p[k] != "" && p[k] != "0" {
			return perl.Invalid(k, "option conflicts with option 'vmid'")
		}
	}
	if f := p["fleecing"]; perl.Subvalue(f, "enabled", true) == "1" && perl.Subvalue(f, "storage", false) == "" {
		return perl.Invalid("fleecing", "invalid format - 'storage' parameter is required when 'enabled' is set\n")
	}
	if p["vmid"] == "" && p["all"] != "1" && p["exclude"] == "" && p["pool"] == "" && p["stop"] != "1" {
		return perl.Invalid("vmid", "property is missing")
	}
	return nil
}

// backupGuests are the guests that a request is about, as far as they are on the node; one that is nowhere is among
// them, and fails visibly later (PVE/VZDump.pm, get_included_guests).
func backupGuests(r *engine.Request) ([]int, error) {
	if pool := r.Params["pool"]; pool != "" {
		p := r.W.Pools[pool]
		if p == nil {
			return nil, perl.Die("pool '%s' does not exist", pool)
		}
		return allGuests(r, func(id int) bool { return slices.Contains(p.Guests, id) }), nil
	}
	if r.Params["all"] == "1" || r.Params["exclude"] != "" {
		return allGuests(r, func(int) bool { return true }), nil
	}
	var ids []int
	for _, word := range perl.ListItems(r.Params["vmid"]) {
		id := perl.Number(word)
		if err := r.Check("/vms/"+word, "VM.Backup"); err != nil {
			return nil, err
		}
		if g := r.W.Guests[id]; g == nil || g.Node == r.Node() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// allGuests are the virtual machines of the node that a job of many backs up: those that the identity may not back up
// are left out (PVE/VZDump.pm, get_included_guests and exec_backup).
func allGuests(r *engine.Request, wanted func(id int) bool) (ids []int) {
	excluded := perl.ListItems(r.Params["exclude"])
	for _, id := range slices.Sorted(maps.Keys(r.W.Guests)) {
		word := strconv.Itoa(id)
		if g := r.W.Guests[id]; g.Node == r.Node() && g.Type == "qemu" && wanted(id) && !slices.Contains(excluded, word) &&
			r.Check("/vms/"+word, "VM.Backup") == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// backupTarget finds the storage of a job, and the programs that a job takes (PVE/VZDump.pm, new).
func backupTarget(p engine.Process, storage string) (*state.Storage, error) {
	var problems []string
	s, err := p.W.StorageActive(p.Node(), storage)
	if err != nil {
		problems = append(problems, fmt.Sprintf("could not activate storage '%s': %s", storage, perl.Message(err)))
	}
	switch known := p.W.Storages[storage]; {
	case known == nil:
		problems = append(problems, fmt.Sprintf("could not get storage information for '%s': %s", storage, perl.Message(err)))
	case !known.Has("backup"):
		problems = append(problems, fmt.Sprintf("could not get storage information for '%s': can't use storage '%s' for "+
			"backups - wrong content type", storage, storage))
	}
	if len(problems) > 0 {
		return nil, perl.Die("%s", strings.Join(problems, " "))
	}
	if slices.Contains(p.W.Nodes[p.Node()].Lacks, "sendmail") {
		return nil, perl.Die("unable to find command 'sendmail'")
	}
	return s, nil
}

// backupLine is the job as the log names it (PVE::VZDump::Common, command_line).
func backupLine(p engine.Process) string {
	line := "vzdump"
	for _, id := range perl.ListItems(p.Params["vmid"]) {
		line += " " + id
	}
	for _, k := range slices.Sorted(maps.Keys(p.Params)) {
		if k != "vmid" && k != "quiet" && p.Params[k] != "" {
			line += " --" + k + " " + shellWord(p.Params[k])
		}
	}
	return line
}

// shellWord quotes what a shell would not take as it is (String::ShellQuote).
func shellWord(word string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("!%+,-./:@^_", c)
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func backupAll(p engine.Process, ids []int, storage string) error {
	s, err := backupTarget(p, storage)
	if err != nil {
		return err
	}
	p.Logf("INFO: starting new backup job: %s", backupLine(p))
	failed := false
	for _, id := range ids {
		begun := p.W.Clock.Now()
		if err := backup(p, id, s); err != nil {
			p.Logf("ERROR: Backup of VM %d failed - %s", id, perl.Message(err))
			p.Logf("INFO: Failed at %s", moment(p))
			failed = true
			continue
		}
		took := int(p.W.Clock.Now().Sub(begun).Seconds())
		p.Logf("INFO: Finished Backup of VM %d (%02d:%02d:%02d)", id, took/3600, took/60%60, took%60)
		p.Logf("INFO: Backup finished at %s", moment(p))
	}
	if failed {
		p.Logf("INFO: Backup job finished with errors")
		return perl.Die("job errors")
	}
	p.Logf("INFO: Backup job finished successfully")
	return nil
}

// moment is the time as the log has it.
func moment(p engine.Process) string {
	return state.NodeTime(p.W, p.Node()).UTC().Format("2006-01-02 15:04:05")
}

// backup locks the guest, copies its drives and takes the lock away again.
func backup(p engine.Process, id int, s *state.Storage) error {
	if p.W.Guests[id] == nil {
		return perl.Die("unable to find VM '%d'", id)
	}
	p.Logf("INFO: Starting Backup of VM %d (qemu)", id)
	p.Logf("INFO: Backup started at %s", moment(p))
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
	describeBackup(p, g)
	g.SetLock("backup", p.Worker.Task.UPID)
	release()
	b, err := archive(p.Engine, p.W, g)
	if err != nil {
		g.SetLock("", "")
		return err
	}
	v := newArchive(p, s, b)
	p.Logf("INFO: creating vzdump archive '%s'", s.VolumePath(v.Name))
	stop, err := openDisks(p, g, len(b.Drives))
	if err == nil {
		err = p.Worker.Checkpoint()
	}
	if stop(); err != nil {
		g.SetLock("", "")
		return err
	}
	p.W.Put(v)
	p.Logf("INFO: archive file size: %dKB", v.Size>>10)
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
		p.Logf("INFO: started backup task '%s'", p.W.UUID())
		return stop, nil
	}
	p.Logf("INFO: starting kvm to execute backup task")
	if err := power.Boot(p, g); err != nil {
		return stop, err
	}
	p.Logf("INFO: started backup task '%s'", p.W.UUID())
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

// describeBackup says in the log what goes into the archive and what does not (VZDump/QemuServer.pm, prepare).
func describeBackup(p engine.Process, g *state.Guest) {
	status, mode := "stopped", "stop"
	if g.Running != nil {
		if status, mode = "running", p.Params["mode"]; mode == "" {
			mode = "snapshot"
		}
	}
	p.Logf("INFO: status = %s", status)
	p.Logf("INFO: backup mode: %s", mode)
	p.Logf("INFO: ionice priority: 7")
	if name := g.Config["name"]; name != "" {
		p.Logf("INFO: VM Name: %s", name)
	}
	for _, opt := range drive.DriveNames(g.Config) {
		d := drive.Parse(p.Engine, opt, g.Config[opt])
		switch {
		case d == nil || d.IsCDROM():
		case d["backup"] == "0":
			p.Logf("INFO: exclude disk '%s' '%s' (backup=no)", opt, d.File())
		default:
			p.Logf("INFO: include disk '%s' '%s' %s", opt, d.File(), d["size"])
		}
	}
	for n := range 256 {
		if volid := g.Config[fmt.Sprintf("unused%d", n)]; volid != "" {
			p.Logf("INFO: skip unused drive '%s' (not included into backup)", volid)
		}
	}
	if len(g.Snaps) > 0 {
		p.Logf("INFO: snapshots found (not included into backup)")
	}
	if len(g.Pending)+len(g.Deletes) > 0 {
		p.Logf("INFO: pending configuration changes found (not included into backup)")
	}
}

// newArchive is an archive for a storage under the name of the moment, by a job's compression.
func newArchive(p engine.Process, s *state.Storage, b *state.Backup) *state.Volume {
	size := int64(10 << 10)
	for _, d := range b.Drives {
		size += d.Size / 4
	}
	format := "vma" + map[string]string{"1": ".lzo", "lzo": ".lzo", "gzip": ".gz", "zstd": ".zst"}[p.Params["compress"]]
	for at := p.W.Clock.Now().UTC(); ; at = at.Add(1e9) { // one a second
		name := fmt.Sprintf("backup/vzdump-qemu-%d-%s.%s", b.VMID, at.Format("2006_01_02-15_04_05"), format)
		key := s.Key(p.Node(), name)
		if p.W.Volumes[key] != nil {
			continue
		}
		return &state.Volume{Storage: s.ID, Node: key.Node, Name: name, Content: "backup", VMID: b.VMID, Format: format,
			Size: size, Backup: b, Notes: notesOf(p, b), Protected: p.Flag("protected")}
	}
}
