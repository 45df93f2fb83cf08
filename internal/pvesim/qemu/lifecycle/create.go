package lifecycle

import (
	"errors"
	"fmt"
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

// Create is POST /nodes/{node}/qemu (qemu-server API2/Qemu.pm create_vm).
func Create(r *engine.Request) (any, error) {
	conf := maps.Clone(r.Params)
	for _, k := range []string{"node", "vmid", "pool", "storage", "start", "force", "unique", "bwlimit", "live-restore",
		"import-working-storage", "ha-managed", "archive"} {
		delete(conf, k)
	}
	if r.Params["archive"] != "" {
		return restore(r, conf)
	}
	for _, k := range []string{"force", "unique"} {
		if r.Params[k] != "" {
			return nil, perl.Invalid(k, fmt.Sprintf("missing property - '%s' requires this property", k))
		}
	}
	vmid, pool := r.VMID(), r.Params["pool"]
	if err := checkCreate(r, conf); err != nil {
		return nil, err
	}
	for _, k := range slices.Sorted(maps.Keys(conf)) {
		if drive.HasIndex(k, "net") {
			if n := drive.ParseNet(r.Engine, r.W, k, conf[k]); n != nil {
				conf[k] = drive.PrintNet(r.Engine, k, n)
			}
		}
	}
	g, err := createAndLock(r, fmt.Sprintf("unable to create VM %d - ", vmid))
	if err != nil {
		return nil, err
	}
	upid := guest.Fork(r, "qmcreate", func(w *engine.Worker) error {
		if err := createWorker(r, w, conf, pool); err != nil {
			switch g := r.W.Guests[vmid]; {
			case g != nil && w.LosesQuorum():
				w.Logf("failed to remove config file: Permission denied")
				if g.LockCause != "" {
					g.LockCause = "failure"
				}
			case g != nil && g.LockCause == w.Task.UPID:
				delete(r.W.Guests, vmid) // unlink
			}
			return err
		}
		if r.Flag("ha-managed") {
			w.Logf("Add as HA resource")
			sid := "vm:" + strconv.Itoa(vmid)
			r.W.HA[sid] = &state.HAResource{SID: sid, State: map[bool]string{true: "started", false: "stopped"}[r.Flag("start")]}
			r.Engine.Round(sid)
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

// checkCreate does the synchronous checks in PVE's order.
func checkCreate(r *engine.Request, conf map[string]string) error {
	vmid, pool := r.VMID(), r.Params["pool"]
	if keys, ok := conf["sshkeys"]; ok {
		if err := config.CheckSSHKeys(keys); err != nil {
			return err
		}
	}
	config.ClampUnits(r.W.Nodes[r.Node()], conf)
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
	if drive.CheckVM(r, vmid, pool, "VM.Allocate") != nil {
		return &perl.Error{Status: 403, Message: "Permission check failed"}
	}
	if r.W.Has(state.CreateStartNeedsPower) && r.Flag("start") && drive.CheckVM(r, vmid, pool, "VM.PowerMgmt") != nil {
		return perl.Denied("/vms/" + strconv.Itoa(vmid) + ", VM.PowerMgmt")
	}
	if r.Flag("ha-managed") {
		if err := r.Check("/", "Sys.Console"); err != nil {
			return err
		}
	}
	config.ResolveCDROM(conf)
	if err := drive.CheckStorageAccess(r, vmid, conf, r.Params["storage"]); err != nil {
		return err
	}
	if err := config.CheckOptions(r, vmid, pool, slices.Collect(maps.Keys(conf))); err != nil {
		return err
	}
	if err := config.CheckDevices(r, vmid, pool, conf, "set"); err != nil {
		return err
	}
	if err := config.CheckBridges(r, conf); err != nil {
		return err
	}
	if err := config.CheckCPUModel(r, conf["cpu"], ""); err != nil {
		return err
	}
	if r.W.Has(state.CreateChecksTags) && conf["tags"] != "" {
		// create_vm passes a reference for the old tags, so they are one tag that goes.
		if err := config.CheckTags(r, "HASH(0x5616b0c1d2e8)", conf["tags"]); err != nil {
			return err
		}
	}
	return drive.CheckDrives(r, conf)
}

// createAndLock writes the configuration that holds nothing but the lock (AbstractConfig.pm create_and_lock_config).
func createAndLock(r *engine.Request, prefix string) (*state.Guest, error) {
	release, err := guest.Lock(r, engine.CreateLockTimeout)
	if err != nil {
		return nil, perl.Die("%s%s", prefix, perl.Message(err))
	}
	defer release()
	if old := r.W.Guests[r.VMID()]; old != nil {
		kind := "VM"
		if old.Type == "lxc" {
			kind = "CT"
		}
		return nil, perl.Die("%s%s %d already exists on node '%s'", prefix, kind, r.VMID(), old.Node)
	}
	now := r.W.Clock.Now()
	g := &state.Guest{VMID: r.VMID(), Type: "qemu", Node: r.Node(), Config: map[string]string{"lock": "create"},
		CreatedAt: now, StatusAt: now}
	r.W.Guests[g.VMID] = g
	return g, nil
}

// createWorker allocates the disks and writes the configuration once, at the end.
func createWorker(r *engine.Request, w *engine.Worker, conf map[string]string, pool string) error {
	vmid := r.VMID()
	release, err := guest.LockInTask(w, vmid, false, engine.WorkerLockTimeout)
	if err != nil {
		return err
	}
	defer release()
	fail := func(err error) error { return fmt.Errorf("unable to create VM %d - %s", vmid, perl.Message(err)) }
	conf["meta"] = fmt.Sprintf("creation-qemu=%s,ctime=%d", r.W.QEMUVersion(), r.W.Clock.Now().Unix())
	m := &drive.Maker{Process: engine.Process{Request: r, Worker: w}, Node: r.Node(), Vmid: vmid, Conf: conf,
		Fallback: r.Params["storage"], Midway: w.Checkpoint}
	made, err := m.Make(conf)
	if err != nil {
		return fail(err)
	}
	maps.Copy(conf, made)
	err = config.CheckLines(r.Engine, conf)
	if err == nil {
		err = fillDefaults(r, w, conf)
	}
	if err != nil {
		volume.CleanUp(m.Process, m.Node, m.Made)
		return fail(err)
	}
	if m.Midway != nil { // a guest without drives
		if err := w.Checkpoint(); err != nil {
			return fail(err)
		}
	}
	g := r.W.Guests[vmid]
	if g == nil {
		return fail(errors.New("configuration file vanished"))
	}
	if w.LosesQuorum() && pool == "" { // else it is lost a moment later
		volume.CleanUp(m.Process, m.Node, m.Made)
		return fail(engine.ErrReadOnly(r.Node(), vmid))
	}
	g.Config, g.LockCause = conf, ""
	config.Write(r.Engine, g)
	if w.LosesQuorum() {
		return perl.Die("can't add VM %d to pool '%s': cfs-lock 'file-user_cfg' error: no quorum!", vmid, pool)
	}
	if err := r.AddToPool(vmid, pool); err != nil {
		g.LockCause = w.Task.UPID // unlinked by the caller; the disks stay
		return err
	}
	return nil
}

// fillDefaults adds what PVE generates for a new guest.
func fillDefaults(r *engine.Request, w *engine.Worker, conf map[string]string) error {
	if conf["boot"] == "" {
		conf["boot"] = drive.DefaultBoot(r.Engine, conf)
	}
	if err := config.CheckClipboard(conf["vga"]); err != nil {
		return err
	}
	if conf["smbios1"] == "" {
		conf["smbios1"] = "uuid=" + r.W.UUID()
	}
	if v, ok := conf["vmgenid"]; (!ok || v == "1") && conf["arch"] != "aarch64" {
		conf["vmgenid"] = r.W.UUID()
	}
	if r.W.Has(state.CreateSortsTags) && conf["tags"] != "" { // earlier versions store a create's tags as they were sent
		conf["tags"] = config.UniqueTags(r, conf["tags"])
	}
	machine, err := config.Pinned(engine.Process{Request: r, Worker: w}, conf["machine"], conf["ostype"])
	if err == nil && machine != "" {
		conf["machine"] = machine
	}
	return err
}
