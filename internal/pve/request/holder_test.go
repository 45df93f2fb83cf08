package request

import (
	"fmt"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestLastTaskOfNodesWithSkewedClocks: the task that took a lock is the last one of its kind by the age of each, which
// every node tells by its own clock. A lock whose last task ended in order is never taken for a dead task's, however far
// the clocks of the nodes are apart.
func TestLastTaskOfNodesWithSkewedClocks(t *testing.T) {
	const killed, well = "unexpected status", "OK"
	type task struct {
		node   string
		ago    time.Duration
		status string
	}
	for name, c := range map[string]struct {
		tasks []task
		blind bool   // no node tells its time
		died  string // the node of the dead task, "" for none
		fails bool
	}{
		"none":                        {},
		"one, killed":                 {tasks: []task{{"pve1", time.Hour, killed}}, died: "pve1"},
		"one, killed elsewhere":       {tasks: []task{{"pve2", time.Hour, killed}}, died: "pve2"},
		"one, well":                   {tasks: []task{{"pve2", time.Hour, well}}},
		"killed, then well elsewhere": {tasks: []task{{"pve1", time.Minute, killed}, {"pve2", 30 * time.Second, well}}},
		"well, then killed elsewhere": {tasks: []task{{"pve1", time.Minute, well}, {"pve2", 30 * time.Second, killed}}, died: "pve2"},
		"killed, then killed":         {tasks: []task{{"pve2", time.Minute, killed}, {"pve1", 30 * time.Second, killed}}, died: "pve1"},
		"killed and well at once":     {tasks: []task{{"pve1", time.Minute, killed}, {"pve2", time.Minute, well}}},
		"killed twice at once":        {tasks: []task{{"pve1", time.Minute, killed}, {"pve2", time.Minute, killed}}, died: "pve1 or pve2"},
		"killed, then well there": {tasks: []task{{"pve1", time.Hour, well}, {"pve2", time.Minute, killed},
			{"pve2", 30 * time.Second, well}}},
		"two, and no node tells its time": {tasks: []task{{"pve1", time.Minute, well}, {"pve2", time.Second, killed}}, blind: true, fails: true},
		"one, and no node tells its time": {tasks: []task{{"pve1", time.Minute, killed}}, blind: true, died: "pve1"},
	} {
		for _, ahead := range []time.Duration{0, 5 * time.Second, 3 * time.Minute, time.Hour} {
			for _, first := range []string{"pve1", "pve2"} {
				t.Run(fmt.Sprintf("%s, %s ahead by %s", name, first, ahead), func(t *testing.T) {
					w := newWorldOf(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
					world := w.sim.World()
					world.Lock()
					world.Nodes[first].ClockAhead = ahead
					for n, tk := range c.tasks {
						start := world.Clock.Now().Add(world.Nodes[tk.node].ClockAhead - tk.ago)
						upid := fmt.Sprintf("UPID:%s:%08X:00000001:%08X:qmigrate:8000:root@pam:", tk.node, n+1, start.Unix())
						world.Tasks[upid] = &state.Task{UPID: upid, Node: tk.node, Type: "qmigrate", ID: "8000", User: "root@pam", Start: start,
							End: start.Add(time.Second), ExitStatus: tk.status}
					}
					world.Unlock()
					if c.blind {
						w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/time"}, Phase: fault.Before, Status: 500, Times: -1}})
					}
					dead, err := w.Died(t.Context(), Holder{Node: "pve1", VMID: 8000, Lock: "migrate"}, "pve1", "pve2")
					switch got := dead.UPID.Node(); {
					case (err != nil) != c.fails:
						t.Errorf("error %v", err)
					case got != c.died && (c.died != "pve1 or pve2" || got == ""):
						t.Errorf("the dead task is one of %q: %s", got, dead.UPID)
					}
				})
			}
		}
	}
}
