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

// TestDeadTaskOfALock: a killed task has left the lock only if it names the guest, and if no later task shows that the guest was
// without a lock by then.
func TestDeadTaskOfALock(t *testing.T) {
	type task struct {
		typ, id, status string
		ago             time.Duration
	}
	dead := func(typ, id string) task { return task{typ, id, "unexpected status", time.Hour} }
	later := func(typ, status string) task { return task{typ, "8000", status, time.Minute} }
	for name, c := range map[string]struct {
		lock  string
		tasks []task
		died  bool
	}{
		"a backup of it":                      {"backup", []task{dead("vzdump", "8000")}, true},
		"of many guests":                      {"backup", []task{dead("vzdump", "")}, false},
		"of another guest":                    {"backup", []task{dead("vzdump", "8001")}, false},
		"of it, then one of many":             {"backup", []task{dead("vzdump", "8000"), {"vzdump", "", "OK", time.Minute}}, false},
		"of it, started before":               {"backup", []task{dead("vzdump", "8000"), {"qmstart", "8000", "OK", 2 * time.Hour}}, true},
		"of it, started later":                {"backup", []task{dead("vzdump", "8000"), later("qmstart", "OK")}, false},
		"of it, later start refused":          {"backup", []task{dead("vzdump", "8000"), later("qmstart", "VM is locked (backup)")}, true},
		"of it, later stopped":                {"backup", []task{dead("vzdump", "8000"), later("qmstop", "OK")}, true},
		"of it, later shut down by a backup":  {"backup", []task{dead("vzdump", "8000"), later("qmshutdown", "OK")}, true},
		"of it, made later":                   {"backup", []task{dead("vzdump", "8000"), later("qmcreate", "WARNINGS: 1")}, false},
		"of it, a clone was destroyed later":  {"backup", []task{dead("vzdump", "8000"), later("qmdestroy", "OK")}, false},
		"of it, later snapshot":               {"backup", []task{dead("vzdump", "8000"), later("qmsnapshot", "OK")}, false},
		"a migration, then another ended":     {"migrate", []task{dead("qmigrate", "8000"), later("qmigrate", "OK")}, false},
		"a snapshot, then a removal ended":    {"snapshot", []task{dead("qmsnapshot", "8000"), later("qmdelsnapshot", "OK")}, false},
		"a clone, whose task has another id":  {"clone", []task{dead("qmclone", "9000")}, true},
		"a clone, the guest has lived since":  {"clone", []task{dead("qmclone", "9000"), later("qmconfig", "OK")}, false},
		"a lock that no known kind sets":      {"other", []task{dead("vzdump", "8000")}, false},
		"a create, after a destroy of the id": {"create", []task{{"qmdestroy", "8000", "OK", 2 * time.Hour}, dead("qmcreate", "8000")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, pvesim.Options{Nodes: []string{"pve1"}})
			world := w.sim.World()
			world.Lock()
			for n, tk := range c.tasks {
				start := world.Clock.Now().Add(-tk.ago)
				upid := fmt.Sprintf("UPID:pve1:%08X:00000001:%08X:%s:%s:root@pam:", n+1, start.Unix(), tk.typ, tk.id)
				world.Tasks[upid] = &state.Task{UPID: upid, Node: "pve1", Type: tk.typ, ID: tk.id, User: "root@pam", Start: start,
					End: start.Add(time.Second), ExitStatus: tk.status}
			}
			world.Unlock()
			dead, err := w.Died(t.Context(), Holder{Node: "pve1", VMID: 8000, Lock: c.lock}, "pve1")
			if err != nil || (dead.UPID != "") != c.died {
				t.Errorf("the dead task is %q, error %v", dead.UPID, err)
			}
		})
	}
}
