package handle

import (
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// containerRoutes show what a container has: no more of one is simulated.
func containerRoutes() Routes {
	const base = "/nodes/{node}/lxc/{vmid}"
	return Routes{
		"GET " + base + "/config":                     containerConfig,
		"GET " + base + "/pending":                    containerPending,
		"GET " + base + "/snapshot":                   containerSnapshots,
		"GET " + base + "/snapshot/{snapname}/config": containerSnapshotConfig,
	}
}

// container is the one that a request is about (pve-container LXC/Config.pm load_config).
func (r *Request) container() (*state.Guest, error) {
	g := r.W.Guests[r.vmid()]
	if g == nil || g.Type != "lxc" || g.Node != r.node() {
		return nil, Die("Configuration file 'nodes/%s/lxc/%s.conf' does not exist", r.node(), strconv.Itoa(r.vmid()))
	}
	return g, nil
}

func containerConfig(r *Request) (any, error) {
	g, err := r.container()
	if err != nil {
		return nil, err
	}
	return r.config(g), nil
}

func containerPending(r *Request) (any, error) {
	g, err := r.container()
	if err != nil {
		return nil, err
	}
	return r.pending(g), nil
}

func containerSnapshots(r *Request) (any, error) {
	g, err := r.container()
	if err != nil {
		return nil, err
	}
	return snapshotsOf(g), nil
}

func containerSnapshotConfig(r *Request) (any, error) {
	g, err := r.container()
	if err != nil {
		return nil, err
	}
	s, ok := g.Snaps[r.Params["snapname"]]
	if !ok {
		return nil, Die("snapshot '%s' does not exist", r.Params["snapname"])
	}
	return r.Server.jsonConfig(r.W.Profile, s), nil
}
