// Package console has the ways to a guest that is watched: tickets for its console, and its QEMU's monitor.
package console

import (
	"cmp"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/access"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Routes are the ways to a guest's console, and to the monitor of its QEMU.
func Routes() engine.Routes {
	const base = "/nodes/{node}/qemu/{vmid}"
	return engine.Routes{
		"POST " + base + "/vncproxy":   vncProxy,
		"POST " + base + "/termproxy":  termProxy,
		"POST " + base + "/spiceproxy": spiceProxy,
		"POST " + base + "/monitor":    monitor,
	}
}

const (
	firstPort = 5900             // Tools.pm, next_vnc_port
	patience  = 10 * time.Second // how long a proxy waits for a client
)

// vncProxy answers a ticket for the console, and the port on which a task of its own waits for a client. None ever
// comes: what is behind the port is not simulated.
func vncProxy(r *engine.Request) (any, error) {
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	port := nextPort(r)
	ticket := ticketFor(r, port)
	out := map[string]any{"user": r.Auth.ID, "port": strconv.Itoa(port), "upid": wait(r), "cert": certificate()}
	serial := strings.HasPrefix(vgaType(g), "serial")
	if r.Flag("generate-password") || r.Flag("websocket") || !serial {
		password := r.W.UUID()[:8]
		out["password"], ticket = password, password+":"+ticket
	}
	out["ticket"] = ticket
	return out, nil
}

// termProxy is the same for a serial console. Without its program the port never gets ready.
func termProxy(r *engine.Request) (any, error) {
	if _, err := guest.Load(r); err != nil {
		return nil, err
	}
	port := nextPort(r)
	if slices.Contains(r.W.Nodes[r.Node()].Lacks, program) {
		fail(r, port)
		return nil, perl.Die("Timeout while waiting for port '%d' to get ready!", port)
	}
	upid := wait(r)
	return map[string]any{"user": r.Auth.ID, "ticket": ticketFor(r, port), "port": strconv.Itoa(port), "upid": upid}, nil
}

// spiceProxy is the configuration of a remote viewer (access-control AccessControl.pm, remote_viewer_config).
func spiceProxy(r *engine.Request) (any, error) {
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	if err := power.CheckRunning(r); err != nil {
		return nil, err
	}
	if kind := vgaType(g); !strings.HasPrefix(kind, "qxl") {
		return nil, perl.Die("no spice port")
	}
	title := "VM " + strconv.Itoa(g.VMID)
	if g.Config["name"] != "" {
		title += " - " + g.Config["name"]
	}
	const port = 61000
	proxy := cmp.Or(r.Params["proxy"], r.Node())
	return map[string]any{
		"secure-attention": "Ctrl+Alt+Ins", "toggle-fullscreen": "Shift+F11", "release-cursor": "Ctrl+Alt+R", "type": "spice",
		"title": title, "proxy": "http://" + proxy + ":3128", "tls-port": port, "password": r.W.UUID(),
		"host":         access.NewTicket(r.Engine, "pvespiceproxy", fmt.Sprintf("%d:%s:%d", g.VMID, r.Node(), port)),
		"host-subject": "OU=PVE Cluster Node,O=Proxmox Virtual Environment,CN=" + r.Node(),
		"ca":           strings.ReplaceAll(certificate(), "\n", `\n`), "delete-this-file": 1,
	}, nil
}

func vgaType(g *state.Guest) string {
	return cmp.Or(perl.Subvalue(g.Config["vga"], "type", true), "std")
}

// nextPort is the lowest that no proxy of the node waits on.
func nextPort(r *engine.Request) int {
	port := firstPort
	for _, w := range r.Engine.Workers {
		if w.Task.Type == "vncproxy" && w.Task.Node == r.Node() {
			port++
		}
	}
	return port
}

func ticketFor(r *engine.Request, port int) string {
	return access.NewTicket(r.Engine, "PVEVNC", fmt.Sprintf("%s:/vms/%d:%d", r.Auth.ID, r.VMID(), port))
}

// wait begins the task that waits for a client in vain, beside the request.
func wait(r *engine.Request) string {
	w := r.Engine.NewWorker(r.Node(), "vncproxy", strconv.Itoa(r.VMID()), r.Auth)
	w.Beside(func(w *engine.Worker) error {
		w.Wait(patience)
		return perl.Die("connection timed out")
	})
	return w.Task.UPID
}

// program is what serves a serial console.
const program = "termproxy"

// fail is the task on a node that lacks the program.
func fail(r *engine.Request, port int) {
	w := r.Engine.NewWorker(r.Node(), "vncproxy", strconv.Itoa(r.VMID()), r.Auth)
	w.Start(func(*engine.Worker) error {
		command := fmt.Sprintf("/usr/bin/%s %d --path /vms/%d --perm VM.Console --vncticket-endpoint --verify-port "+
			"--ticket-fd 6 -- /usr/sbin/qm terminal %d -escape 0", program, port, r.VMID(), r.VMID())
		return perl.Die("command '%s' failed: open3: exec of %s failed: No such file or directory at "+
			"/usr/share/perl5/PVE/Tools.pm line 527.", command, command)
	})
}

// certificate stands for that of the cluster's authority: no client gets as far as to verify anything by it.
func certificate() string {
	sum := sha256.Sum256([]byte("authority of the cluster"))
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sum[:]}))
}

// monitor executes a command of QEMU's human monitor. An error is part of the answer (qemu-server API2/Qemu.pm,
// monitor).
func monitor(r *engine.Request) (any, error) {
	command := strings.Fields(r.Params["command"])
	reads := len(command) > 0 && (command[0] == "info" || command[0] == "help" && len(command) == 1)
	if !reads {
		if err := r.Check("/", "Sys.Modify"); err != nil {
			return nil, err
		}
	}
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	if g.Running == nil {
		return fmt.Sprintf("ERROR: VM %d not running\n", g.VMID), nil
	}
	switch strings.Join(command, " ") {
	case "info version":
		return r.W.QEMUVersion() + " (pve-qemu-kvm_" + r.W.QEMUVersion() + ")\r\n", nil
	case "info status":
		return "VM status: " + g.Running.QMPStatus + "\r\n", nil
	case "info name":
		return cmp.Or(g.Config["name"], "vm"+strconv.Itoa(g.VMID)) + "\r\n", nil
	case "info uuid":
		return perl.Subvalue(g.Config["smbios1"], "uuid", false) + "\r\n", nil
	}
	return "unknown command: '" + r.Params["command"] + "'\r\n", nil
}
