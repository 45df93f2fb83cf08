package handle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// qemuCreate is POST /nodes/{node}/qemu (qemu-server API2/Qemu.pm create_vm).
func qemuCreate(r *Request) (any, error) {
	conf := maps.Clone(r.Params)
	for _, k := range []string{"node", "vmid", "pool", "storage", "start", "force", "unique", "bwlimit", "live-restore",
		"import-working-storage", "ha-managed", "archive"} {
		delete(conf, k)
	}
	if r.Params["archive"] != "" {
		return r.restore(conf)
	}
	for _, k := range []string{"force", "unique"} {
		if r.Params[k] != "" {
			return nil, Invalid(k, fmt.Sprintf("missing property - '%s' requires this property", k))
		}
	}
	vmid, pool := r.vmid(), r.Params["pool"]
	if err := r.checkCreate(conf); err != nil {
		return nil, err
	}
	for _, k := range slices.Sorted(maps.Keys(conf)) {
		if hasIndex(k, "net") {
			if n := r.Server.parseNet(r.W, k, conf[k]); n != nil {
				conf[k] = r.Server.printNet(k, n)
			}
		}
	}
	g, err := r.createAndLock(fmt.Sprintf("unable to create VM %d - ", vmid))
	if err != nil {
		return nil, err
	}
	upid := r.task("qmcreate", func(w *Worker) error {
		if err := r.createWorker(w, conf, pool); err != nil {
			if r.W.Guests[vmid] != nil && r.W.Guests[vmid].LockCause == w.Task.UPID {
				delete(r.W.Guests, vmid) // unlink
			}
			return err
		}
		if r.flag("ha-managed") {
			w.Logf("Add as HA resource")
			sid := "vm:" + strconv.Itoa(vmid)
			r.W.HA[sid] = &state.HAResource{SID: sid, State: map[bool]string{true: "started", false: "stopped"}[r.flag("start")]}
			r.Server.round(sid)
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

// checkCreate does the synchronous checks in PVE's order.
func (r *Request) checkCreate(conf map[string]string) error {
	vmid, pool := r.vmid(), r.Params["pool"]
	if keys, ok := conf["sshkeys"]; ok {
		if err := checkSSHKeys(keys); err != nil {
			return err
		}
	}
	clampUnits(r.W.Nodes[r.node()], conf)
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
	if r.checkVM(vmid, pool, "VM.Allocate") != nil {
		return &Error{Status: 403, Message: "Permission check failed"}
	}
	if r.W.Has(state.CreateStartNeedsPower) && r.flag("start") && r.checkVM(vmid, pool, "VM.PowerMgmt") != nil {
		return denied("/vms/" + strconv.Itoa(vmid) + ", VM.PowerMgmt")
	}
	if r.flag("ha-managed") {
		if err := r.Check("/", "Sys.Console"); err != nil {
			return err
		}
	}
	resolveCDROM(conf)
	if err := r.checkStorageAccess(vmid, conf, r.Params["storage"]); err != nil {
		return err
	}
	if err := r.checkOptions(vmid, pool, slices.Collect(maps.Keys(conf))); err != nil {
		return err
	}
	if err := r.checkDevices(vmid, pool, conf, "set"); err != nil {
		return err
	}
	if err := r.checkBridges(conf); err != nil {
		return err
	}
	return r.checkDrives(conf)
}

// resolveCDROM turns the alias cdrom into ide2.
func resolveCDROM(conf map[string]string) {
	v, ok := conf["cdrom"]
	if !ok {
		return
	}
	delete(conf, "cdrom")
	if !strings.Contains(v, "media=") {
		v += ",media=cdrom"
	}
	conf["ide2"] = v
}

// createAndLock writes the configuration that holds nothing but the lock (AbstractConfig.pm create_and_lock_config).
func (r *Request) createAndLock(prefix string) (*state.Guest, error) {
	release, err := r.lockGuest(CreateLockTimeout)
	if err != nil {
		return nil, Die("%s%s", prefix, text(err))
	}
	defer release()
	if old := r.W.Guests[r.vmid()]; old != nil {
		kind := "VM"
		if old.Type == "lxc" {
			kind = "CT"
		}
		return nil, Die("%s%s %d already exists on node '%s'", prefix, kind, r.vmid(), old.Node)
	}
	now := r.W.Clock.Now()
	g := &state.Guest{VMID: r.vmid(), Type: "qemu", Node: r.node(), Config: map[string]string{"lock": "create"}, CreatedAt: now, StatusAt: now}
	r.W.Guests[g.VMID] = g
	return g, nil
}

// createWorker allocates the disks and writes the configuration once, at the end.
func (r *Request) createWorker(w *Worker, conf map[string]string, pool string) error {
	vmid := r.vmid()
	release, err := w.lockGuest(vmid, false, WorkerLockTimeout)
	if err != nil {
		return err
	}
	defer release()
	fail := func(err error) error { return fmt.Errorf("unable to create VM %d - %s", vmid, text(err)) }
	conf["meta"] = fmt.Sprintf("creation-qemu=%s,ctime=%d", r.W.QEMUVersion(), r.W.Clock.Now().Unix())
	m := &diskMaker{process: process{r, w}, node: r.node(), vmid: vmid, conf: conf, fallback: r.Params["storage"], midway: w.Checkpoint}
	made, err := m.make(conf)
	if err != nil {
		return fail(err)
	}
	maps.Copy(conf, made)
	if err := r.fillDefaults(w, conf); err != nil {
		m.cleanUp(m.node, m.made)
		return fail(err)
	}
	if m.midway != nil { // a guest without drives
		if err := w.Checkpoint(); err != nil {
			return fail(err)
		}
	}
	g := r.W.Guests[vmid]
	if g == nil {
		return fail(errors.New("configuration file vanished"))
	}
	g.Config, g.LockCause = conf, ""
	r.Server.writeConfig(g)
	if pool != "" {
		if p := r.W.Pools[pool]; p != nil {
			p.Guests = append(p.Guests, vmid)
		} else {
			g.LockCause = w.Task.UPID // unlinked by the caller; the disks stay
			return fmt.Errorf("pool '%s' does not exist", pool)
		}
	}
	return nil
}

// fillDefaults adds what PVE generates for a new guest.
func (r *Request) fillDefaults(w *Worker, conf map[string]string) error {
	if conf["boot"] == "" {
		conf["boot"] = r.Server.defaultBoot(conf)
	}
	if conf["smbios1"] == "" {
		conf["smbios1"] = "uuid=" + r.W.UUID()
	}
	if v, ok := conf["vmgenid"]; (!ok || v == "1") && conf["arch"] != "aarch64" {
		conf["vmgenid"] = r.W.UUID()
	}
	if r.W.Has(state.CreateSortsTags) && conf["tags"] != "" { // earlier versions store a create's tags as they were sent
		conf["tags"] = r.uniqueTags(conf["tags"])
	}
	machine, err := process{r, w}.pinned(conf["machine"], conf["ostype"])
	if err == nil && machine != "" {
		conf["machine"] = machine
	}
	return err
}
