package cluster

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/statistics"
)

// StatisticsRoutes are the routes of the figures that pvestatd has collected.
func StatisticsRoutes() engine.Routes {
	return engine.Routes{
		"GET /nodes/{node}/rrddata":                   nodeFigures,
		"GET /nodes/{node}/qemu/{vmid}/rrddata":       guestFigures,
		"GET /nodes/{node}/storage/{storage}/rrddata": storageFigures,
	}
}

// rrdSteps are the seconds between two points by the length of time; there are rrdPoints of them (pve-cluster RRD.pm,
// create_rrd_data: those of 8.x).
var rrdSteps = map[string]int64{
	"hour": 60, "day": 1800, "week": 10800, "month": 43200, "year": 604800, "decade": 604800,
}

const rrdPoints = 70

// figures are the points of a time; those before since know nothing but when they are.
func figures(r *engine.Request, since int64, fill func(at int64, point map[string]any)) []any {
	step := rrdSteps[r.Params["timeframe"]]
	if step == 0 {
		step = rrdSteps["hour"]
	}
	end := r.W.Clock.Now().Unix() / step * step
	list := make([]any, 0, rrdPoints)
	for n := int64(rrdPoints - 1); n >= 0; n-- {
		at := end - n*step
		point := map[string]any{"time": at}
		if at >= since {
			fill(at, point)
		}
		list = append(list, point)
	}
	return list
}

func nodeFigures(r *engine.Request) (any, error) {
	n := r.W.Nodes[r.Node()]
	used, total := rootDisk(r.W, n)
	return figures(r, r.W.Clock.Now().Unix()-nodeUptime, func(_ int64, p map[string]any) {
		p["maxcpu"], p["cpu"], p["iowait"], p["loadavg"] = n.CPUs, 0.02, 0, 0.1
		p["memtotal"], p["memused"], p["swaptotal"], p["swapused"] = n.Memory, n.Memory/8, 0, 0
		p["roottotal"], p["rootused"], p["netin"], p["netout"] = total, used, 0, 0
	}), nil
}

func guestFigures(r *engine.Request) (any, error) {
	g := r.W.Guests[r.VMID()]
	if g == nil { // no data were ever collected
		return figures(r, r.W.Clock.Now().Unix()+1, nil), nil
	}
	st, since := statistics.Sample(g), int64(0)
	if !g.CreatedAt.IsZero() {
		since = g.CreatedAt.Unix()
	}
	if _, err := guest.Load(r); err != nil {
		since = r.W.Clock.Now().Unix() + 1
	}
	return figures(r, since, func(at int64, p map[string]any) {
		p["maxcpu"], p["maxmem"], p["maxdisk"], p["disk"] = st.Cpus, st.Memory, st.Disk, 0
		if g.Running != nil && !g.Running.StartedAt.IsZero() && at >= g.Running.StartedAt.Unix() {
			p["cpu"], p["mem"], p["netin"], p["netout"], p["diskread"], p["diskwrite"] = 0.01, st.Memory/2, 0, 0, 0, 0
		}
	}), nil
}

func storageFigures(r *engine.Request) (any, error) {
	s := r.W.Storages[r.Params["storage"]]
	since := int64(0)
	if s == nil || s.Disabled {
		s, since = &state.Storage{}, r.W.Clock.Now().Unix()+1
	}
	return figures(r, since, func(_ int64, p map[string]any) {
		p["total"], p["used"] = s.Total, r.W.Used(r.Node(), s)
	}), nil
}
