// Package agent answers for the QEMU guest agent.
package agent

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/statistics"
)

// Base is the path below which the commands of the agent are.
const Base = "/nodes/{node}/qemu/{vmid}/agent"

// Routes are the commands of the guest agent.
func Routes() engine.Routes {
	routes := engine.Routes{
		"GET " + Base: agentIndex,
		"POST " + Base: func(r *engine.Request) (any, error) { // the old way to name a command
			return agentCommand(Table()[r.Params["command"]])(r)
		},
		"POST " + Base + "/exec":              agentExec,
		"GET " + Base + "/exec-status":        agentExecStatus,
		"GET " + Base + "/file-read":          agentFile,
		"POST " + Base + "/file-write":        agentFile,
		"POST " + Base + "/set-user-password": agentCommand(nothing),
	}
	for command, answer := range Table() {
		method := "POST "
		if strings.HasPrefix(command, "get-") || command == "info" || command == "network-get-interfaces" {
			method = "GET "
		}
		routes[method+Base+"/"+command] = agentCommand(answer)
	}
	return routes
}

// agentAnswer is what a guest's agent says to a command.
type agentAnswer func(*engine.Request, *state.Guest) any

// Table are the commands without parameters (API2/Qemu/Agent.pm). The guest is a small Debian, as the recorded one was.
func Table() map[string]agentAnswer {
	constant := func(v any) agentAnswer { return func(*engine.Request, *state.Guest) any { return v } }
	return map[string]agentAnswer{
		"ping": nothing, "fstrim": constant(map[string]any{"paths": []any{}}), "shutdown": agentPower(state.PowerShutdown),
		"suspend-disk": nothing, "suspend-hybrid": nothing, "suspend-ram": nothing,
		"fsfreeze-status": constant("thawed"), "fsfreeze-freeze": constant(1), "fsfreeze-thaw": constant(1),
		"get-fsinfo": agentFilesystems, "get-host-name": agentHostName, "get-memory-block-info": constant([]any{}),
		"get-memory-blocks": constant([]any{}), "get-osinfo": agentOSInfo, "get-users": constant([]any{}),
		"get-vcpus": agentProcessors,
		"get-timezone": constant(map[string]any{"offset": 0,
			"zone": "UTC"}), "info": agentInfo, "network-get-interfaces": agentInterfaces,
		"get-time": func(r *engine.Request, _ *state.Guest) any { return r.W.Clock.Now().UnixNano() },
	}
}

func nothing(*engine.Request, *state.Guest) any { return map[string]any{} }

// agentPower lets the guest's operating system end, which no task of PVE's causes.
func agentPower(kind state.PowerKind) agentAnswer {
	return func(r *engine.Request, g *state.Guest) any {
		if !slices.Contains(g.Ignores, "shutdown") {
			r.Engine.After(time.Duration(g.ShutdownSeconds)*time.Second, func() {
				if g.Running != nil {
					r.Engine.Lose(g, kind, nil)
				}
			})
		}
		return map[string]any{}
	}
}

func agentFilesystems(_ *engine.Request, g *state.Guest) any {
	size := max(statistics.BootDiskSize(g.Running.Booted), 1<<30)
	return []any{map[string]any{"name": "sda1", "type": "ext4", "mountpoint": "/", "disk": []any{}, "total-bytes": size,
		"used-bytes": size / 2}}
}

func agentProcessors(_ *engine.Request, g *state.Guest) any {
	list := []any{}
	for n := range statistics.Sample(g).Cpus {
		list = append(list, map[string]any{"logical-id": n, "online": true, "can-offline": n > 0})
	}
	return list
}

// agentExec starts a program in the guest. There is none, so that it has ended at once, well, and said nothing.
func agentExec(r *engine.Request) (any, error) {
	if r.Params["command"] == "" && r.Params["input-data"] == "" {
		return nil, perl.Die("command or input-data (or both) required")
	}
	_, err := agentCommand(nothing)(r)
	if err != nil {
		return nil, err
	}
	g := r.W.Guests[r.VMID()]
	g.Running.Programs++
	return map[string]any{"pid": 999 + g.Running.Programs}, nil
}

func agentExecStatus(r *engine.Request) (any, error) {
	if _, err := agentCommand(nothing)(r); err != nil {
		return nil, err
	}
	pid := perl.Number(r.Params["pid"])
	if n := r.W.Guests[r.VMID()].Running.Programs; pid < 1000 || pid >= 1000+n {
		return nil, perl.Die("Agent error: PID %d does not exist", pid)
	}
	return map[string]any{"exited": 1, "exitcode": 0}, nil
}

// agentFile reads or writes a file; the guest has none, and none can be made.
func agentFile(r *engine.Request) (any, error) {
	if _, err := agentCommand(nothing)(r); err != nil {
		return nil, err
	}
	mode := "r"
	if r.Method == http.MethodPost {
		mode = "wb"
	}
	return nil, perl.Die("Agent error: failed to open file '%s' (mode: '%s'): No such file or directory", r.Params["file"],
		mode)
}

// Ping is how long PVE waits for the agent's answer to a ping (QemuServer/Agent.pm, qga_check_running).
const Ping = 3 * time.Second

func agentIndex(*engine.Request) (any, error) {
	names := strings.Fields(`exec exec-status file-read file-write fsfreeze-freeze fsfreeze-status fsfreeze-thaw fstrim
		get-fsinfo
		get-host-name get-memory-block-info get-memory-blocks get-osinfo get-time get-timezone get-users get-vcpus info
		network-get-interfaces ping set-user-password shutdown suspend-disk suspend-hybrid suspend-ram`)
	list := make([]any, 0, len(names))
	for _, n := range names {
		list = append(list, map[string]any{"name": n})
	}
	return list, nil
}

// Enabled reports whether the value of the option agent switches it on.
func Enabled(value string) bool {
	return slices.Contains([]string{"1", "yes", "on", "true"}, strings.ToLower(perl.Subvalue(value, "enabled", true)))
}

// agentCommand does what qemu-server's agent API does before any command: is one configured, does the guest run, does
// the agent answer a ping within 3 s (API2/Qemu/Agent.pm, QemuServer/Agent.pm).
func agentCommand(answer agentAnswer) engine.Func {
	return func(r *engine.Request) (any, error) {
		g, err := guest.Load(r)
		if err != nil {
			return nil, err
		}
		if g.Config["agent"] == "" {
			return nil, perl.Die("No QEMU guest agent configured")
		}
		if g.Running == nil {
			return nil, perl.Die("VM %d is not running", g.VMID)
		}
		if !Answers(r, g) {
			r.Wait(Ping)
			if g.Running == nil || !Answers(r, g) {
				return nil, perl.Die("QEMU guest agent is not running")
			}
		}
		return map[string]any{"result": answer(r, g)}, nil
	}
}

// Answers reports whether the agent answers a ping now.
func Answers(r *engine.Request, g *state.Guest) bool {
	if !Enabled(g.Running.Booted["agent"]) || g.Running.QMPStatus != "running" {
		return false
	}
	if g.Agent == nil {
		return true
	}
	ready := g.Running.StartedAt.Add(time.Duration(g.Agent.DelaySeconds) * time.Second)
	return !g.Agent.Silent && !r.W.Clock.Now().Before(ready)
}

func agentOSInfo(*engine.Request, *state.Guest) any {
	return map[string]any{
		"name": "Debian GNU/Linux", "kernel-version": "#1 SMP Debian", "id": "debian", "version-id": "12",
		"kernel-release": "6.1.0-13-amd64", "machine": "x86_64", "version": "12 (bookworm)",
		"pretty-name": "Debian GNU/Linux 12 (bookworm)",
	}
}

func agentHostName(_ *engine.Request, g *state.Guest) any {
	host, _, _ := strings.Cut(g.Config["name"], ".")
	if host == "" {
		host = "vm" + strconv.Itoa(g.VMID)
	}
	return map[string]any{"host-name": host}
}

func agentInfo(*engine.Request, *state.Guest) any {
	list := []any{}
	for _, name := range strings.Fields(`ping sync sync-delimited info network-get-interfaces get-osinfo get-host-name
		get-timezone get-users
		get-time get-vcpus get-fsinfo get-memory-blocks get-memory-block-info fsfreeze-status fsfreeze-freeze fsfreeze-thaw
		fstrim shutdown
		suspend-ram set-user-password exec exec-status file-open file-read file-write file-close`) {
		list = append(list, map[string]any{"name": "guest-" + name, "enabled": true, "success-response": name != "shutdown"})
	}
	return map[string]any{"version": "7.2.0", "supported_commands": list}
}

// agentInterfaces answers with the interfaces of the script, else with lo and every NIC of the booted machine. A NIC
// has the address of its ipconfigN, else one from 10.0.0.0/24 made from the VMID.
func agentInterfaces(r *engine.Request, g *state.Guest) any {
	if g.Agent != nil && len(g.Agent.Interfaces) > 0 {
		list := []any{}
		for _, i := range g.Agent.Interfaces {
			mac := i.MAC
			if n := drive.ParseNet(r.Engine, r.W, i.Name, g.Running.Booted[i.Name]); mac == "" && n != nil {
				mac = strings.ToLower(n["macaddr"])
			}
			row := networkInterface(i.Name, mac, i.Addresses)
			if i.NoStatistics {
				delete(row, "statistics")
			}
			list = append(list, row)
		}
		return list
	}
	list := []any{networkInterface("lo", "00:00:00:00:00:00", []string{"127.0.0.1/8", "::1/128"})}
	for n := range 32 {
		opt := fmt.Sprintf("net%d", n)
		if g.Running.Booted[opt] == "" {
			continue
		}
		net := drive.ParseNet(r.Engine, r.W, opt, g.Running.Booted[opt])
		if net == nil || net["link_down"] == "1" {
			continue
		}
		address := fmt.Sprintf("10.0.0.%d/24", 2+(g.VMID+31*n)%250)
		if ip := perl.Subvalue(g.Running.Booted[fmt.Sprintf("ipconfig%d", n)], "ip", false); strings.Contains(ip, "/") {
			address = ip
		}
		list = append(list, networkInterface(fmt.Sprintf("eth%d", n), strings.ToLower(net["macaddr"]), []string{address}))
	}
	return list
}

func networkInterface(name, mac string, cidrs []string) map[string]any {
	out := map[string]any{
		"name": name, "hardware-address": mac,
		"statistics": map[string]any{
			"rx-bytes": 0, "rx-dropped": 0, "rx-errs": 0, "rx-packets": 0, "tx-bytes": 0, "tx-dropped": 0, "tx-errs": 0,
			"tx-packets": 0,
		},
	}
	var addresses []any
	for _, c := range cidrs {
		p, err := netip.ParsePrefix(c)
		if err != nil {
			continue
		}
		kind := "ipv4"
		if p.Addr().Is6() {
			kind = "ipv6"
		}
		addresses = append(addresses, map[string]any{"ip-address": c[:strings.IndexByte(c, '/')], "ip-address-type": kind,
			"prefix": p.Bits()})
	}
	if addresses != nil {
		out["ip-addresses"] = addresses
	}
	return out
}
