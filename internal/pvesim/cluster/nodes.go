package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/statistics"
)

// NodeRoutes are the routes of nodes.
func NodeRoutes() engine.Routes {
	return engine.Routes{
		"GET /nodes": listNodes,
		"GET /nodes/{node}": engine.SubdirIndex("name", strings.Fields(`aplinfo apt capabilities ceph certificates config
			disks dns firewall hardware
			hosts journal lxc migrateall netstat network qemu query-url-metadata replication report rrd rrddata scan services
			spiceshell startall status stopall storage subscription suspendall syslog tasks termproxy time version vncshell
			vzdump wakeonlan sdn`)...),
		"GET /nodes/{node}/status": nodeStatus,
		"GET /nodes/{node}/version": func(r *engine.Request) (any, error) {
			return version(r.W, r.Params["node"]), nil
		},
		"GET /nodes/{node}/network":               listNetwork,
		"GET /nodes/{node}/config":                func(*engine.Request) (any, error) { return map[string]any{}, nil },
		"GET /nodes/{node}/lxc":                   listContainers,
		"GET /nodes/{node}/time":                  nodeTime,
		"GET /nodes/{node}/hardware/pci":          engine.EmptyList,
		"GET /nodes/{node}/hardware/usb":          engine.EmptyList,
		"GET /nodes/{node}/aplinfo":               engine.EmptyList,
		"GET /nodes/{node}/capabilities/qemu/cpu": listCPUModels,
		"GET /nodes/{node}/capabilities":          engine.SubdirIndex("name", "qemu"),
	}
}

const nodeUptime = 86400 // seconds that a node had been up when its cluster was made

func listNodes(r *engine.Request) (any, error) {
	list := []any{}
	for _, name := range engine.NodeNames(r.W) {
		list = append(list, nodeRow(r, name, true))
	}
	return list, nil
}

// nodeRow is a node in a list; its figures need Sys.Audit (API2Tools.pm, extract_node_stats).
func nodeRow(r *engine.Request, name string, fingerprint bool) map[string]any {
	n := r.W.Nodes[name]
	row := map[string]any{"id": "node/" + name, "node": name, "type": "node", "status": "offline"}
	if fingerprint {
		row["ssl_fingerprint"] = n.Fingerprint()
	}
	if !n.Online {
		return row
	}
	row["status"], row["level"] = "online", ""
	if n.Silent {
		row["status"] = "unknown"
	}
	managed := len(r.W.HA) > 0 || n.Maintenance                // else no manager is active, and there is no status of its
	if !fingerprint && managed && r.W.Has(state.NodeHAState) { // every user that may list the cluster sees it
		row["hastate"] = NodeHAState(n)
	}
	if n.Silent || r.Check("/nodes/"+name, "Sys.Audit") != nil {
		return row
	}
	used, total := rootDisk(r.W, n)
	row["cpu"], row["maxcpu"], row["mem"], row["maxmem"] = 0.02, n.CPUs, n.Memory/8, n.Memory
	row["disk"], row["maxdisk"], row["uptime"] = used, total, nodeUptime
	if !fingerprint {
		row["cgroup-mode"] = 2
		if n.CGroupV1 {
			row["cgroup-mode"] = 1
		}
	}
	return row
}

// NodeHAState is how the HA manager calls a node (pve-ha-manager NodeStatus.pm).
func NodeHAState(n *state.Node) string {
	switch {
	case !n.Online:
		return "unknown"
	case n.Maintenance:
		return "maintenance"
	}
	return "online"
}

// rootDisk is the fill of the root file system, which "local" lies on.
func rootDisk(w *state.World, n *state.Node) (used, total int64) {
	if s := w.Storages["local"]; s != nil && !s.Shared {
		return 4<<30 + w.Used(n.Name, s), s.Total
	}
	return 4 << 30, 100 << 30
}

// nodeStatus is GET /nodes/{node}/status (API2/Nodes.pm).
func nodeStatus(r *engine.Request) (any, error) {
	n := r.W.Nodes[r.Params["node"]]
	v := version(r.W, n.Name)
	used, total := rootDisk(r.W, n)
	release := state.PackageVersion(r.W, "proxmox-kernel") + "-pve"
	build := "#1 SMP PREEMPT_DYNAMIC PMX " + release
	data := map[string]any{
		"uptime": nodeUptime, "idle": 0, "wait": 0, "cpu": 0.02, "loadavg": []string{"0.10", "0.12", "0.09"},
		"kversion":   "Linux " + release + " " + build,
		"pveversion": fmt.Sprintf("pve-manager/%s/%s", v["version"], v["repoid"]),
		"cpuinfo": map[string]any{
			"model": "Simulated CPU", "sockets": 1, "cores": n.CPUs, "cpus": n.CPUs, "mhz": "2300.000", "user_hz": 100,
			"hvm": "1",
			"flags": "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov sse sse2 ht syscall nx lm aes avx avx2 " +
				"vmx hypervisor",
		},
		"memory": map[string]any{"total": n.Memory, "used": n.Memory / 8, "free": n.Memory - n.Memory/8},
		"swap":   map[string]any{"total": 0, "used": 0, "free": 0},
		"ksm":    map[string]any{"shared": 0},
		"rootfs": map[string]any{"total": total, "used": used, "avail": total - used, "free": total - used},
	}
	if r.W.Has(state.CurrentKernel) {
		data["current-kernel"] = map[string]any{"sysname": "Linux", "release": release, "version": build, "machine": "x86_64"}
		data["boot-info"] = map[string]any{"mode": "legacy-bios"} // with efi it has "secureboot" as well
	}
	if m, ok := data["memory"].(map[string]any); ok && r.W.Has(state.AvailableMemory) {
		m["available"] = n.Memory - n.Memory/8
	}
	return data, nil
}

// listNetwork is GET /nodes/{node}/network. Every caller sees the network cards, and of the bridges those that it may
// use or audit (API2/Network.pm).
func listNetwork(r *engine.Request) (any, error) {
	n := r.W.Nodes[r.Params["node"]]
	filter := r.Params["type"]
	list := []any{}
	first := 4
	if n.NoUplink {
		first = 3
	} else if filter == "" || filter == "eth" {
		list = append(list, map[string]any{
			"iface": "eno1", "type": "eth", "active": 1, "exists": 1, "method": "manual", "method6": "manual", "priority": 3,
			"families": []string{"inet"},
		})
	}
	for i, bridge := range n.Bridges {
		if filter != "" && !slices.Contains([]string{"bridge", "any_bridge", "any_local_bridge", "include_sdn"}, filter) {
			continue
		}
		if r.CheckAny("/sdn/zones/localnetwork/"+bridge, "SDN.Audit", "SDN.Use") != nil {
			continue
		}
		row := map[string]any{
			"iface": bridge, "type": "bridge", "active": 1, "autostart": 1, "method": "manual", "method6": "manual",
			"bridge_stp": "off", "bridge_fd": "0", "bridge_ports": "", "priority": first + i, "families": []string{"inet"},
		}
		if slices.Contains(n.VLANAware, bridge) {
			row["bridge_vlan_aware"], row["bridge_vids"] = 1, "2-4094"
		}
		if mtu := n.MTUs[bridge]; mtu > 0 {
			row["mtu"] = strconv.FormatInt(mtu, 10)
		}
		if n.HasUplink(bridge) {
			row["bridge_ports"] = fmt.Sprintf("eno%d", i+1)
		}
		if i == 0 && !n.NoUplink {
			row["method"] = "static"
			row["address"], row["netmask"], row["cidr"] = n.Address, "24", n.Address+"/24"
		}
		list = append(list, row)
	}
	return list, nil
}

func listContainers(r *engine.Request) (any, error) {
	list := []any{}
	for _, t := range guestsOn(r.W, r.Params["node"], "lxc") {
		if r.Check(fmt.Sprintf("/vms/%d", t.VMID), "VM.Audit") != nil {
			continue
		}
		row := ContainerRow(t)
		list = append(list, row)
	}
	return list, nil
}

// ContainerRow is a container in the list, and its status.
func ContainerRow(g *state.Guest) map[string]any {
	st := statistics.Sample(g)
	row := map[string]any{
		"vmid": g.VMID, "name": st.Name, "type": "lxc", "status": "stopped", "cpus": st.Cpus, "maxmem": st.Memory,
		"maxdisk": st.Disk, "maxswap": 0, "uptime": 0,
	}
	if st.Running {
		row["status"] = "running"
	}
	if lock := g.Config["lock"]; lock != "" {
		row["lock"] = lock
	}
	return row
}

// guestsOn are a node's guests of a type, by VMID.
func guestsOn(w *state.World, node, typ string) []*state.Guest {
	list := []*state.Guest{}
	for _, g := range w.Guests {
		if g.Node == node && g.Type == typ {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b *state.Guest) int { return a.VMID - b.VMID })
	return list
}

func nodeTime(r *engine.Request) (any, error) {
	now := state.NodeTime(r.W, r.Params["node"]).Unix()
	return map[string]any{"time": now, "localtime": now, "timezone": "UTC"}, nil
}
