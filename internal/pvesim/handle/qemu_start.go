package handle

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func qemuStart(r *Request) (any, error) {
	for _, k := range []string{"stateuri", "skiplock", "migratedfrom", "migration_type", "migration_network", "targetstorage", "force-cpu"} {
		if v := r.Params[k]; v != "" && v != "0" && !r.Auth.IsRoot() { // API2/Qemu.pm, vm_start
			return nil, Invalid(k, "Only root may use this option.")
		}
	}
	if r.Params["targetstorage"] != "" && r.Params["migratedfrom"] == "" {
		return nil, Invalid("targetstorage", "targetstorage can only by used with migratedfrom.")
	}
	skiplock := r.flag("skiplock")
	if r.managed() != nil {
		return r.askManager("hastart", "Requesting HA start for VM "+itoa(r.vmid()), func(h *state.HAResource) error {
			h.State = "started"
			return nil
		}), nil
	}
	return r.task("qmstart", func(w *Worker) error { return r.startWorker(w, skiplock) }), nil
}

func (r *Request) startWorker(w *Worker, skiplock bool) error {
	release, err := w.lockGuest(r.vmid(), false, LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	g, err := r.guest()
	if err != nil {
		return err
	}
	if g.IsTemplate() {
		return Die("you can't start a vm if it's a template")
	}
	if g.Lock() == "backup" && g.Running != nil {
		g.Running.QMPStatus = "running"
		return nil
	}
	if err := checkLock(g); err != nil && !skiplock && g.Lock() != "suspended" {
		return err
	}
	if g.Running != nil {
		return Die("VM %d already running", g.VMID)
	}
	return process{r, w}.boot(g)
}

// boot is vm_start_nolock: pending changes, cloud-init image, volumes, then the process.
func (p process) boot(g *state.Guest) error {
	if len(g.Pending)+len(g.Deletes) > 0 {
		p.applyPending(g, map[string]string{})
	}
	if err := p.buildCloudinit(g); err != nil {
		return err
	}
	if err := p.startChecks(g); err != nil {
		return err
	}
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		if !isDrive(opt) {
			continue
		}
		d := p.Server.parseDrive(opt, g.Config[opt])
		if d == nil || d.file() == "none" || d.file() == "cdrom" {
			continue
		}
		if _, err := p.activate(g.Node, d.file()); err != nil {
			return err
		}
	}
	if err := p.launch(g); err != nil {
		return err
	}
	now := p.W.Clock.Now()
	p.Server.forks++
	g.Running = &state.Running{QMPStatus: "running", PID: p.Server.forks, StartedAt: now, Booted: maps.Clone(g.Config)}
	if err := p.worker.Checkpoint(); err != nil {
		if g.Running != nil && g.Running.StartedAt.Equal(now) {
			g.Running = nil // PVE ends a QEMU whose start failed
		}
		return err
	}
	g.StatusAt = p.W.Clock.Now()
	p.resume(g)
	return nil
}

// launch fails where QEMU would: no bridge, no memory.
func (p process) launch(g *state.Guest) error {
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		if !hasIndex(opt, "net") {
			continue
		}
		n := p.Server.parseNet(p.W, opt, g.Config[opt])
		if err := p.checkInterface(g.Node, n["bridge"]); err != nil {
			p.logf("bridge '%s' does not exist", n["bridge"])
			p.logf("kvm: -netdev type=tap,id=%s,ifname=tap%di%s,script=/usr/libexec/qemu-server/pve-bridge,"+
				"downscript=/usr/libexec/qemu-server/pve-bridgedown: network script /usr/libexec/qemu-server/pve-bridge failed with status 512",
				opt, g.VMID, strings.TrimPrefix(opt, "net"))
			return Die("start failed: QEMU exited with code 1")
		}
	}
	if g.Config["bios"] == "ovmf" && g.Config["efidisk0"] == "" {
		p.worker.Warnf("no efidisk configured! Using temporary efivars disk.")
	}
	sockets, cores := max(1, number(g.Config["sockets"])), max(1, number(g.Config["cores"]))
	if vcpus := number(g.Config["vcpus"]); vcpus > sockets*cores {
		p.logf("kvm: Invalid CPU topology: maxcpus must be equal to or greater than smp: sockets (%d) * dies (1) * modules (1) * cores (%d) * "+
			"threads (1) == maxcpus (%d) < smp_cpus (%d)",
			sockets, cores, sockets*cores, vcpus)
		return Die("start failed: QEMU exited with code 1")
	}
	if int64(memoryOf(g.Config))<<20 > p.W.Nodes[g.Node].Memory {
		p.logf("kvm: cannot set up guest memory 'pc.ram': Cannot allocate memory")
		return Die("start failed: QEMU exited with code 1")
	}
	return nil
}

// resume drops the state that a suspended guest was saved in.
func (p process) resume(g *state.Guest) {
	if g.Lock() != "suspended" {
		return
	}
	if volid := g.Config["vmstate"]; volid != "" {
		if err := p.free(g.Node, volid); err != nil {
			p.logf("%s", text(err))
		}
	}
	delete(g.Config, "vmstate")
	delete(g.Config, "runningmachine")
	g.SetLock("", "")
}
