package handle

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func qemuRoutes() Routes {
	r := Routes{
		"GET /nodes/{node}/qemu":                         qemuList,
		"POST /nodes/{node}/qemu":                        qemuCreate,
		"GET /nodes/{node}/qemu/{vmid}":                  qemuIndex,
		"DELETE /nodes/{node}/qemu/{vmid}":               qemuDestroy,
		"GET /nodes/{node}/qemu/{vmid}/config":           configGet,
		"PUT /nodes/{node}/qemu/{vmid}/config":           configPut,
		"POST /nodes/{node}/qemu/{vmid}/config":          configPost,
		"GET /nodes/{node}/qemu/{vmid}/pending":          configPending,
		"PUT /nodes/{node}/qemu/{vmid}/unlink":           configUnlink,
		"POST /nodes/{node}/qemu/{vmid}/clone":           qemuClone,
		"PUT /nodes/{node}/qemu/{vmid}/resize":           qemuResize,
		"POST /nodes/{node}/qemu/{vmid}/move_disk":       qemuMoveDisk,
		"POST /nodes/{node}/qemu/{vmid}/template":        qemuTemplate,
		"GET /nodes/{node}/qemu/{vmid}/feature":          qemuFeature,
		"GET /nodes/{node}/qemu/{vmid}/migrate":          migrateCheck,
		"POST /nodes/{node}/qemu/{vmid}/migrate":         migrate,
		"GET /nodes/{node}/qemu/{vmid}/cloudinit":        cloudinitPending,
		"PUT /nodes/{node}/qemu/{vmid}/cloudinit":        cloudinitUpdate,
		"GET /nodes/{node}/qemu/{vmid}/cloudinit/dump":   cloudinitDump,
		"GET /nodes/{node}/qemu/{vmid}/status":           statusIndex,
		"GET /nodes/{node}/qemu/{vmid}/status/current":   statusCurrent,
		"POST /nodes/{node}/qemu/{vmid}/status/start":    qemuStart,
		"POST /nodes/{node}/qemu/{vmid}/status/stop":     qemuStop,
		"POST /nodes/{node}/qemu/{vmid}/status/shutdown": qemuShutdown,
		"POST /nodes/{node}/qemu/{vmid}/status/reboot":   qemuReboot,
		"POST /nodes/{node}/qemu/{vmid}/status/reset":    qemuReset,
		"POST /nodes/{node}/qemu/{vmid}/status/suspend":  qemuSuspend,
		"POST /nodes/{node}/qemu/{vmid}/status/resume":   qemuResume,
	}
	maps.Copy(r, Routes{})
	return r
}

func (r *Request) node() string { return r.Params["node"] }

func (r *Request) vmid() int {
	n, _ := strconv.Atoi(r.Params["vmid"]) // the schema lets only VMIDs through
	return n
}

func (r *Request) flag(name string) bool { return r.Params[name] == "1" }

// guest reads the configuration of the VM that the path names (guest-common AbstractConfig.pm load_config).
func (r *Request) guest() (*state.Guest, error) { return loadGuest(r.W, r.node(), r.vmid()) }

func loadGuest(w *state.World, node string, vmid int) (*state.Guest, error) {
	g := w.Guests[vmid]
	if g == nil || g.Type != "qemu" || g.Node != node {
		return nil, Die("Configuration file 'nodes/%s/qemu-server/%d.conf' does not exist", node, vmid)
	}
	return g, nil
}

// findGuest is the other way to miss a VM: the check whether it runs (PVE::QemuServer::check_running) finds no file.
func findGuest(w *state.World, node string, vmid int) (*state.Guest, error) {
	g, err := loadGuest(w, node, vmid)
	if err != nil {
		return nil, Die("unable to find configuration file for VM %d on node '%s'", vmid, node)
	}
	return g, nil
}

// checkLock is AbstractConfig.pm's check_lock.
func checkLock(g *state.Guest) error {
	if lock := g.Lock(); lock != "" {
		return Die("VM is locked (%s)", lock)
	}
	return nil
}

// skiplock answers whether locks are to be ignored, which only the user root@pam with a ticket may ask for.
func (r *Request) skiplock() (bool, error) {
	if r.flag("skiplock") && !r.Auth.IsRoot() {
		return false, Invalid("skiplock", "Only root may use this option.")
	}
	return r.flag("skiplock"), nil
}

// lockGuest takes the lock of a VM's configuration file.
func (r *Request) lockGuest(timeout time.Duration) (release func(), err error) {
	return r.Server.Flock(r.W, r.node(), GuestLock(r.vmid()), false, timeout)
}

// lockGuest takes the lock of a VM's configuration file and logs the wait for it, if there is one (pve-common Tools.pm,
// lock_file_full: only where the first flock with LOCK_NB fails).
func (w *Worker) lockGuest(vmid int, shared bool, timeout time.Duration) (release func(), err error) {
	release, blocked, err := w.Server.flock(w.Task.Node, GuestLock(vmid), shared, timeout)
	switch {
	case err != nil:
		w.Logf("trying to acquire lock...")
	case blocked:
		w.Logf("trying to acquire lock... OK")
	}
	return release, err
}

// task forks a worker for the VM of the path.
func (r *Request) task(typ string, work func(w *Worker) error) string {
	return r.taskFor(typ, strconv.Itoa(r.vmid()), work)
}

// taskFor forks a worker. An error other than a plain die carries its status in the task's text, as a stringified
// PVE::Exception does.
func (r *Request) taskFor(typ, id string, work func(w *Worker) error) string {
	return r.Fork(r.node(), typ, id, func(w *Worker) error { return perlText(work(w)) })
}

func perlText(err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Status == 500 {
		return err
	}
	text := fmt.Sprintf("%d %s", e.Status, e.Message)
	for k, v := range e.Errors {
		text += fmt.Sprintf("\n%s: %s", k, strings.TrimRight(v, "\n"))
	}
	return errors.New(text)
}

// text is what a Perl handler sees of an error in $@: the bare message of a die.
func text(err error) string { return flatten(perlText(err)) }

func qemuIndex(*Request) (any, error) {
	return subdirs("config", "cloudinit", "pending", "status", "unlink", "vncproxy", "termproxy", "migrate", "resize", "move",
		"rrd", "rrddata", "monitor", "agent", "snapshot", "spiceproxy", "sendkey", "firewall", "mtunnel", "remote_migrate"), nil
}

func statusIndex(*Request) (any, error) {
	return subdirs("current", "start", "stop", "reset", "shutdown", "suspend", "reboot"), nil
}

func subdirs(names ...string) []any {
	list := make([]any, 0, len(names))
	for _, n := range names {
		list = append(list, map[string]any{"subdir": n})
	}
	return list
}
