package world

import (
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

func nodeAxes() []Axis {
	return []Axis{
		{
			Name: "clocks 5 s apart", Sets: "`clock_ahead_seconds`: 5 on the first node, -5 on the second",
			Means: "An event that one node dates before another's may have come after it.", Declare: skew(5 * time.Second),
		},
		{
			Name: "clocks 3 min apart", Sets: "`clock_ahead_seconds`: 180 on the first node, -180 on the second",
			Means: "Nodes without time synchronization differ by more than a lease.", Declare: skew(3 * time.Minute),
		},
		{
			Name: "node away", Sets: "`offline` for the second node",
			Means: "Its guests, tasks and volumes cannot be looked at.",
			Declare: func(w *state.World) {
				w.Nodes["pve2"].Online = false
			},
		},
		{
			Name: "listing lag", Sets: "the first node's pvestatd reports nothing",
			Means: "The cluster's listing knows neither the names nor the states of its guests.",
			Declare: func(w *state.World) {
				w.Nodes["pve1"].Silent = true
			},
		},
		{
			Name: "rotated task logs", Sets: "actor: the index of tasks is rotated",
			Means: "Tasks that have ended are in no list any more.", Acts: []thirdparty.Order{{Act: thirdparty.RotateLogs}},
		},
	}
}

// skew sets the clocks of the nodes apart.
func skew(d time.Duration) func(*state.World) {
	return func(w *state.World) { w.Nodes["pve1"].ClockAhead, w.Nodes["pve2"].ClockAhead = d, -d }
}
