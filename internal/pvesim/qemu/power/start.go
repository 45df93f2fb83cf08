package power

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// Start is POST status/start.
func Start(r *engine.Request) (any, error) {
	for _, k := range []string{"stateuri", "skiplock", "migratedfrom", "migration_type", "migration_network",
		"targetstorage", "force-cpu"} {
		if v := r.Params[k]; v != "" && v != "0" && !r.Auth.IsRoot() { // API2/Qemu.pm, vm_start
			return nil, perl.Invalid(k, "Only root may use this option.")
		}
	}
	if r.Params["targetstorage"] != "" && r.Params["migratedfrom"] == "" {
		return nil, perl.Invalid("targetstorage", "targetstorage can only by used with migratedfrom.")
	}
	skiplock := r.Flag("skiplock")
	if Managed(r) != nil {
		return AskManager(r, "hastart", "Requesting HA start for VM "+strconv.Itoa(r.VMID()),
			func(_ *engine.Worker, h *state.HAResource) error {
				h.State = "started"
				return nil
			}), nil
	}
	return guest.Fork(r, "qmstart", func(w *engine.Worker) error { return StartWorker(r, w, skiplock) }), nil
}

// StartWorker is the work of a start task, for the guest of the request.
func StartWorker(r *engine.Request, w *engine.Worker, skiplock bool) error {
	release, err := guest.LockInTask(w, r.VMID(), false, engine.LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	g, err := guest.Load(r)
	if err != nil {
		return err
	}
	if g.IsTemplate() {
		return perl.Die("you can't start a vm if it's a template")
	}
	if g.Lock() == "backup" && g.Running != nil {
		g.Running.QMPStatus = "running"
		return nil
	}
	if err := guest.CheckLock(g); err != nil && !skiplock && g.Lock() != "suspended" {
		return err
	}
	if g.Running != nil {
		return perl.Die("VM %d already running", g.VMID)
	}
	return Boot(engine.Process{Request: r, Worker: w}, g)
}

// resumes reports whether a start brings back the memory of a guest that was suspended to disk, also if its lock was
// taken away (qemu-server QemuServer.pm vm_start).
func resumes(g *state.Guest) bool { return g.Lock() == "suspended" || g.Config["vmstate"] != "" }

// Boot is vm_start_nolock: pending changes unless it resumes, cloud-init image, volumes, then the process.
func Boot(p engine.Process, g *state.Guest) error {
	if len(g.Pending)+len(g.Deletes) > 0 && !resumes(g) {
		config.ApplyPending(p, g, map[string]string{})
	}
	if err := config.BuildCloudinit(p, g); err != nil {
		return err
	}
	if script := g.Config["hookscript"]; script != "" { // GuestHelpers.pm, exec_hookscript with stop_on_error
		if err := config.CheckHookscript(p.W, g.Node, script); err != nil {
			return perl.Die("hookscript error for %d on pre-start: %s", g.VMID, perl.Message(err))
		}
	}
	if err := startChecks(p, g); err != nil {
		return err
	}
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		if !drive.IsDrive(opt) {
			continue
		}
		d := drive.Parse(p.Engine, opt, g.Config[opt])
		if d == nil || d.File() == "none" || d.File() == "cdrom" {
			continue
		}
		if _, err := volume.Activate(p, g.Node, d.File()); err != nil {
			return err
		}
	}
	if err := Launch(p, g); err != nil {
		return err
	}
	now := p.W.Clock.Now()
	p.Engine.Forks++
	g.Running = &state.Running{QMPStatus: "running", PID: p.Engine.Forks, StartedAt: now, Booted: maps.Clone(g.Config),
		BootsFrom: drive.BootsFrom(p.Engine, g.Config)}
	if err := p.Worker.Checkpoint(); err != nil {
		if g.Running != nil && g.Running.StartedAt.Equal(now) {
			g.Running = nil // PVE ends a QEMU whose start failed
		}
		return err
	}
	g.StatusAt = p.W.Clock.Now()
	resume(p, g)
	return nil
}

// Launch fails where QEMU would: no bridge, no memory.
func Launch(p engine.Process, g *state.Guest) error {
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		if !drive.HasIndex(opt, "net") {
			continue
		}
		n := drive.ParseNet(p.Engine, p.W, opt, g.Config[opt])
		if err := config.CheckMTU(p, g.Node, opt, n); err != nil {
			return err
		}
		if err := config.CheckInterface(p, g.Node, n); err != nil {
			if why := perl.Message(err); strings.HasPrefix(why, "interface ") {
				p.Logf("bridge '%s' does not exist", n["bridge"])
			} else {
				p.Logf("%s", strings.TrimSpace(why))
			}
			p.Logf("kvm: -netdev type=tap,id=%s,ifname=tap%di%s,script=/usr/libexec/qemu-server/pve-bridge,"+
				"downscript=/usr/libexec/qemu-server/pve-bridgedown: network script /usr/libexec/qemu-server/pve-bridge failed "+
				"with status 512",
				opt, g.VMID, strings.TrimPrefix(opt, "net"))
			return perl.Die("start failed: QEMU exited with code 1")
		}
	}
	if g.Config["bios"] == "ovmf" && g.Config["efidisk0"] == "" {
		p.Worker.Warnf("no efidisk configured! Using temporary efivars disk.")
	}
	sockets, cores := max(1, perl.Number(g.Config["sockets"])), max(1, perl.Number(g.Config["cores"]))
	if vcpus := perl.Number(g.Config["vcpus"]); vcpus > sockets*cores {
		p.Logf("kvm: Invalid CPU topology: maxcpus must be equal to or greater than smp: sockets (%d) * dies (1) * modules "+
			"(1) * cores (%d) * threads (1) == maxcpus (%d) < smp_cpus (%d)",
			sockets, cores, sockets*cores, vcpus)
		return perl.Die("start failed: QEMU exited with code 1")
	}
	if g.Config["kvm"] == "0" && perl.Subvalue(g.Config["cpu"], "cputype", true) == "host" {
		p.Logf("kvm: CPU model 'host' requires KVM or HVF")
		return perl.Die("start failed: QEMU exited with code 1")
	}
	if int64(memoryOf(g.Config))<<20 > p.W.Nodes[g.Node].Memory {
		p.Logf("kvm: cannot set up guest memory 'pc.ram': Cannot allocate memory")
		return perl.Die("start failed: QEMU exited with code 1")
	}
	return nil
}

// resume drops the state that a suspended guest was saved in.
func resume(p engine.Process, g *state.Guest) {
	if !resumes(g) {
		return
	}
	if volid := g.Config["vmstate"]; volid != "" {
		if err := volume.Free(p, g.Node, volid); err != nil {
			p.Logf("%s", perl.Message(err))
		}
	}
	delete(g.Config, "vmstate")
	delete(g.Config, "runningmachine")
	g.SetLock("", "")
}
