package handle

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func agentRoutes() Routes {
	const base = "/nodes/{node}/qemu/{vmid}/agent"
	return Routes{
		"GET " + base:                             agentIndex,
		"POST " + base + "/ping":                  agentCommand(func(*Request, *state.Guest) any { return map[string]any{} }),
		"GET " + base + "/network-get-interfaces": agentCommand(agentInterfaces),
		"GET " + base + "/get-osinfo":             agentCommand(agentOSInfo),
		"GET " + base + "/get-host-name":          agentCommand(agentHostName),
		"GET " + base + "/info":                   agentCommand(agentInfo),
	}
}

// agentPing is how long PVE waits for the agent's answer to a ping (QemuServer/Agent.pm, qga_check_running).
const agentPing = 3 * time.Second

func agentIndex(*Request) (any, error) {
	names := strings.Fields(`exec exec-status file-read file-write fsfreeze-freeze fsfreeze-status fsfreeze-thaw fstrim get-fsinfo
		get-host-name get-memory-block-info get-memory-blocks get-osinfo get-time get-timezone get-users get-vcpus info
		network-get-interfaces ping set-user-password shutdown suspend-disk suspend-hybrid suspend-ram`)
	list := make([]any, 0, len(names))
	for _, n := range names {
		list = append(list, map[string]any{"name": n})
	}
	return list, nil
}

func agentEnabled(value string) bool {
	return slices.Contains([]string{"1", "yes", "on", "true"}, strings.ToLower(subvalue(value, "enabled", true)))
}

// agentCommand does what qemu-server's agent API does before any command: is one configured, does the guest run, does the
// agent answer a ping within 3 s (API2/Qemu/Agent.pm, QemuServer/Agent.pm).
func agentCommand(answer func(*Request, *state.Guest) any) Func {
	return func(r *Request) (any, error) {
		g, err := r.guest()
		if err != nil {
			return nil, err
		}
		if g.Config["agent"] == "" {
			return nil, Die("No QEMU guest agent configured")
		}
		if g.Running == nil {
			return nil, Die("VM %d is not running", g.VMID)
		}
		if !r.agentAnswers(g) {
			r.Wait(agentPing)
			if g.Running == nil || !r.agentAnswers(g) {
				return nil, Die("QEMU guest agent is not running")
			}
		}
		return map[string]any{"result": answer(r, g)}, nil
	}
}

func (r *Request) agentAnswers(g *state.Guest) bool {
	if !agentEnabled(g.Running.Booted["agent"]) || g.Running.QMPStatus != "running" {
		return false
	}
	if g.Agent == nil {
		return true
	}
	ready := g.Running.StartedAt.Add(time.Duration(g.Agent.DelaySeconds) * time.Second)
	return !g.Agent.Silent && !r.W.Clock.Now().Before(ready)
}

func agentOSInfo(*Request, *state.Guest) any {
	return map[string]any{
		"name": "Debian GNU/Linux", "kernel-version": "#1 SMP Debian", "id": "debian", "version-id": "12",
		"kernel-release": "6.1.0-13-amd64", "machine": "x86_64", "version": "12 (bookworm)", "pretty-name": "Debian GNU/Linux 12 (bookworm)",
	}
}

func agentHostName(_ *Request, g *state.Guest) any {
	host, _, _ := strings.Cut(g.Config["name"], ".")
	return map[string]any{"host-name": host}
}

func agentInfo(*Request, *state.Guest) any {
	return map[string]any{"version": "7.2.0", "supported_commands": []any{
		map[string]any{"name": "guest-ping", "enabled": true, "success-response": true},
		map[string]any{"name": "guest-network-get-interfaces", "enabled": true, "success-response": true},
	}}
}

// agentInterfaces answers with the interfaces of the script, else with lo and every NIC of the booted machine. A NIC has
// the address of its ipconfigN, else one from 10.0.0.0/24 made from the VMID.
func agentInterfaces(r *Request, g *state.Guest) any {
	if g.Agent != nil && len(g.Agent.Interfaces) > 0 {
		list := []any{}
		for _, i := range g.Agent.Interfaces {
			mac := i.MAC
			if n := r.Server.parseNet(r.W, i.Name, g.Running.Booted[i.Name]); mac == "" && n != nil {
				mac = strings.ToLower(n["macaddr"])
			}
			list = append(list, networkInterface(i.Name, mac, i.Addresses))
		}
		return list
	}
	list := []any{networkInterface("lo", "00:00:00:00:00:00", []string{"127.0.0.1/8", "::1/128"})}
	for n := range 32 {
		opt := fmt.Sprintf("net%d", n)
		if g.Running.Booted[opt] == "" {
			continue
		}
		net := r.Server.parseNet(r.W, opt, g.Running.Booted[opt])
		if net == nil || net["link_down"] == "1" {
			continue
		}
		address := fmt.Sprintf("10.0.0.%d/24", 2+(g.VMID+31*n)%250)
		if ip := subvalue(g.Running.Booted[fmt.Sprintf("ipconfig%d", n)], "ip", false); strings.Contains(ip, "/") {
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
			"rx-bytes": 0, "rx-dropped": 0, "rx-errs": 0, "rx-packets": 0, "tx-bytes": 0, "tx-dropped": 0, "tx-errs": 0, "tx-packets": 0,
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
		addresses = append(addresses, map[string]any{"ip-address": c[:strings.IndexByte(c, '/')], "ip-address-type": kind, "prefix": p.Bits()})
	}
	if addresses != nil {
		out["ip-addresses"] = addresses
	}
	return out
}
