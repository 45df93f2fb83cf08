// Package container has what a client can read of containers.
package container

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/cluster"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/snapshot"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Routes are what can be read of a container. Nothing can be done to one.
func Routes() engine.Routes {
	const base = "/nodes/{node}/lxc/{vmid}"
	return engine.Routes{
		"GET " + base:              lxcIndex,
		"GET " + base + "/config":  lxcConfig,
		"GET " + base + "/pending": lxcPending,
		"GET " + base + "/status": engine.SubdirIndex("subdir", "current", "start", "stop", "shutdown",
			"migrate"),
		"GET " + base + "/status/current":             lxcStatus,
		"GET " + base + "/snapshot":                   lxcSnapshots,
		"GET " + base + "/snapshot/{snapname}/config": lxcSnapshotConfig,
	}
}

func lxcIndex(r *engine.Request) (any, error) {
	if _, err := container(r); err != nil {
		return nil, err
	}
	return engine.Subdirs("config", "pending", "status", "vncproxy", "termproxy", "vncwebsocket", "spiceproxy", "migrate",
		"clone", "rrd", "rrddata",
		"firewall", "snapshot", "resize", "interfaces"), nil
}

// container reads the configuration of the container that the path names (pve-container LXC/Config.pm).
func container(r *engine.Request) (*state.Guest, error) {
	g := r.W.Guests[r.VMID()]
	if g == nil || g.Type != "lxc" || g.Node != r.Node() {
		return nil, perl.Die("Configuration file 'nodes/%s/lxc/%d.conf' does not exist", r.Node(), r.VMID())
	}
	return g, nil
}

// containerNumbers are the options of a container that are integers or booleans.
func containerNumbers(opt string) bool {
	return slices.Contains([]string{"console", "cores", "cpuunits", "debug", "memory", "onboot", "protection", "swap",
		"template", "tty",
		"unprivileged", "snaptime"}, opt)
}

func typedContainer(conf map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range conf {
		out[k] = v
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && containerNumbers(k) {
			out[k] = n
		}
	}
	return out
}

// lxcConfig is GET config: the pending values are merged in unless the current ones are asked for.
func lxcConfig(r *engine.Request) (any, error) {
	g, err := container(r)
	if err != nil {
		return nil, err
	}
	conf := maps.Clone(g.Config)
	if name := r.Params["snapshot"]; name != "" {
		if conf = g.Snaps[name]; conf == nil {
			return nil, perl.Die("snapshot '%s' does not exist", name)
		}
	} else if !r.Flag("current") {
		maps.Copy(conf, g.Pending)
		for k := range g.Deletes {
			delete(conf, k)
		}
	}
	out := typedContainer(conf)
	withRaw(out)
	out["digest"] = g.Digest()
	return out, nil
}

// withRaw puts the raw lines of a container into one list (pve-container LXC/Config.pm parse_pct_config).
func withRaw(conf map[string]any) {
	var raw [][2]any
	for _, key := range slices.Sorted(maps.Keys(conf)) {
		if strings.HasPrefix(key, "lxc.") {
			raw = append(raw, [2]any{key, conf[key]})
			delete(conf, key)
		}
	}
	if raw != nil {
		conf["lxc"] = raw
	}
}

func lxcPending(r *engine.Request) (any, error) {
	g, err := container(r)
	if err != nil {
		return nil, err
	}
	current, pending := typedContainer(g.Config), typedContainer(g.Pending)
	current["digest"] = g.Digest()
	withRaw(current)
	delete(current, "lxc") // pve-guest-common GuestHelpers.pm config_with_pending_array
	return config.PendingList(current, pending, g.Deletes), nil
}

func lxcStatus(r *engine.Request) (any, error) {
	g, err := container(r)
	if err != nil {
		return nil, err
	}
	row := cluster.ContainerRow(g)
	row["ha"] = map[string]any{"managed": 0}
	if h := r.W.HA["ct:"+strconv.Itoa(g.VMID)]; h != nil && h.State != "ignored" {
		row["ha"] = map[string]any{"managed": 1, "state": h.State, "group": nil}
	}
	return row, nil
}

func lxcSnapshots(r *engine.Request) (any, error) {
	g, err := container(r)
	if err != nil {
		return nil, err
	}
	return snapshot.List(g), nil
}

func lxcSnapshotConfig(r *engine.Request) (any, error) {
	g, err := container(r)
	if err != nil {
		return nil, err
	}
	snap := g.Snaps[r.Params["snapname"]]
	if snap == nil {
		return nil, perl.Die("snapshot '%s' does not exist", r.Params["snapname"])
	}
	out := typedContainer(snap)
	withRaw(out)
	return out, nil
}
