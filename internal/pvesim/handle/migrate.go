package handle

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// localDisk is a volume of a guest on a storage that the nodes do not share.
type localDisk struct {
	option string // scsi0, unused0
	volume *state.Volume
	cdrom  bool
}

func (r *Request) localDisks(g *state.Guest) []localDisk {
	var list []localDisk
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		d := drive{"file": g.Config[opt]}
		switch {
		case isDrive(opt):
			d = r.Server.parseDrive(opt, g.Config[opt])
		case !hasIndex(opt, "unused") && opt != "vmstate":
			continue
		}
		if v := r.W.Volume(g.Node, d.file()); v != nil && v.Node != "" {
			list = append(list, localDisk{opt, v, d.isCDROM()})
		}
	}
	return list
}

// migrateCheck is GET migrate: the preconditions.
func migrateCheck(r *Request) (any, error) {
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
	if err := checkLock(g); err != nil {
		return nil, err
	}
	disks := []any{}
	for _, d := range r.localDisks(g) {
		disks = append(disks, map[string]any{
			"drivename": d.option, "volid": d.volume.Volid(), "size": d.volume.Size, "cdrom": boolean(d.cdrom), "replicate": 1, "shared": 0,
			"is_unused": boolean(hasIndex(d.option, "unused")), "is_attached": boolean(isDrive(d.option)), "is_vmstate": 0,
			"is_tpmstate": boolean(d.option == "tpmstate0"),
		})
	}
	allowed, refused := []string{}, map[string]any{}
	for _, name := range nodeNames(r.W) {
		if name == g.Node {
			continue
		}
		var missing []string
		for _, d := range r.localDisks(g) {
			if _, err := r.W.StorageEnabled(name, d.volume.Storage); err != nil && !slices.Contains(missing, d.volume.Storage) {
				missing = append(missing, d.volume.Storage)
			}
		}
		if len(missing) > 0 {
			refused[name] = map[string]any{"unavailable_storages": missing}
			continue
		}
		allowed = append(allowed, name)
	}
	return map[string]any{
		"running": boolean(g.Running != nil), "local_disks": disks, "local_resources": []any{}, "mapped-resources": []any{},
		"mapped-resource-info": map[string]any{}, "allowed_nodes": allowed, "not_allowed_nodes": refused,
	}, nil
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// migrate is POST migrate (qemu-server API2/Qemu.pm migrate_vm, QemuMigrate.pm).
func migrate(r *Request) (any, error) {
	target := r.Params["target"]
	if target == r.node() {
		return nil, Invalid("target", "target is local node.")
	}
	if r.W.Nodes[target] == nil {
		return nil, Die("no such cluster node '%s'", target)
	}
	for _, k := range []string{"force", "migration_type", "migration_network"} {
		if r.Params[k] != "" && !r.Auth.IsRoot() {
			return nil, Invalid(k, "Only root may use this option.")
		}
	}
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
	if err := checkLock(g); err != nil {
		return nil, err
	}
	if g.Running != nil && !r.flag("online") {
		return nil, Die("can't migrate running VM without --online")
	}
	if s := r.Params["targetstorage"]; s != "" && s != "1" {
		if err := r.Check("/vms/"+r.Params["vmid"], "VM.Config.Disk"); err != nil {
			return nil, err
		}
	}
	if ha := r.W.HA["vm:"+r.Params["vmid"]]; ha != nil && ha.State != "ignored" {
		return r.task("hamigrate", func(w *Worker) error {
			w.Logf("Requesting HA migration for VM %d to node %s", r.vmid(), target)
			w.Auth = Auth{ID: "root@pam", User: "root@pam"}
			w.Fork(r.node(), "qmigrate", strconv.Itoa(r.vmid()), func(w *Worker) error { return perlText(r.migrateWorker(w, target)) })
			return nil
		}), nil
	}
	return r.task("qmigrate", func(w *Worker) error { return r.migrateWorker(w, target) }), nil
}

func (r *Request) migrateWorker(w *Worker, target string) error {
	release, err := w.lockGuest(r.vmid(), false, LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	g, err := r.guest()
	if err != nil {
		return err
	}
	if err := checkLock(g); err != nil {
		return err
	}
	g.SetLock("migrate", w.Task.UPID)
	w.Logf("starting migration of VM %d to node '%s' (%s)", g.VMID, target, r.W.Nodes[target].Address)
	p := process{r, w}
	copies, err := p.copyAway(g, target)
	if err == nil {
		err = w.Checkpoint()
	}
	if err != nil {
		for _, c := range copies {
			p.cleanUp(target, []string{c.Volid()})
		}
		g.SetLock("", "")
		w.Logf("ERROR: migration aborted (duration 00:00:01): %s", text(err))
		return Die("migration aborted")
	}
	p.arrive(g, target, copies)
	w.Logf("migration finished successfully (duration 00:00:01)")
	return nil
}

// copyAway copies the local volumes of a guest to the target node; the answer is by option.
func (p process) copyAway(g *state.Guest, target string) (map[string]*state.Volume, error) {
	copies := map[string]*state.Volume{}
	if !p.W.Nodes[target].Online {
		return copies, Die("Can't connect to destination address using public key")
	}
	disks := p.localDisks(g)
	for _, d := range disks {
		_, name, _ := state.SplitVolid(d.volume.Volid())
		n, err := p.W.Storages[d.volume.Storage].ParseName(name)
		switch {
		case err != nil:
			return copies, err
		case n.Content == "iso":
			return copies, Die("Problem found while scanning volumes - can't migrate local cdrom '%s'", d.volume.Volid())
		case n.Base != "":
			return copies, Die("Problem found while scanning volumes - can't migrate '%s' as it's a clone of '%s'", d.volume.Volid(), n.Base)
		case n.IsBase && len(p.W.Children(d.volume)) > 0:
			return copies, Die("Problem found while scanning volumes - can't migrate '%s' - base has linked clones", d.volume.Volid())
		case g.Running != nil && !p.flag("with-local-disks") && !d.cdrom:
			return copies, Die("Problem found while scanning volumes - can't live migrate attached local disks without with-local-disks option")
		}
	}
	for _, d := range disks {
		storage := p.targetStorage(d.volume.Storage)
		w := p.W
		v, err := w.CopyTo(d.volume, target, storage)
		if err != nil {
			return copies, err
		}
		p.logf("copying local disk '%s' (%s)", d.option, d.volume.Volid())
		copies[d.option] = v
	}
	return copies, nil
}

// targetStorage applies targetstorage: one storage for all, or "from:to" pairs; "1" keeps the ids.
func (p process) targetStorage(storage string) string {
	to := p.Params["targetstorage"]
	if to == "" || to == "1" {
		return storage
	}
	fallback := storage
	for _, pair := range splitList(to) {
		from, into, ok := strings.Cut(pair, ":")
		switch {
		case !ok:
			fallback = pair
		case from == storage:
			return into
		}
	}
	return fallback
}

// arrive moves the configuration and lets the old volumes go.
func (p process) arrive(g *state.Guest, target string, copies map[string]*state.Volume) {
	for _, opt := range slices.Sorted(maps.Keys(copies)) {
		old := g.Config[opt]
		if isDrive(opt) {
			d := p.Server.parseDrive(opt, old)
			old = d.file()
			d["file"] = copies[opt].Volid()
			if d["size"] != "" {
				d["size"] = schema.FormatSize(copies[opt].Size)
			}
			g.Config[opt] = p.Server.printDrive(opt, d)
		} else {
			g.Config[opt] = copies[opt].Volid()
		}
		running := g.Running
		g.Running = nil // the process here has handed over
		if err := p.free(g.Node, old); err != nil {
			p.logf("%s", text(err))
		}
		g.Running = running
	}
	g.Node = target
	g.SetLock("", "")
	if g.Running != nil {
		g.Running.Booted = maps.Clone(g.Config)
	}
	g.StatusAt = p.W.Clock.Now()
}
