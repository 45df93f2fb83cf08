package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
)

// span is a time in which something went on, from the beginning of the command on.
type span struct{ from, to time.Duration }

// isPoll tells a request that only asks whether a task has ended.
func isPoll(op pvesim.Op) bool {
	return op.Method == http.MethodGet && (strings.HasPrefix(op.Path, "/nodes/{node}/tasks") || op.Path == "/cluster/tasks")
}

// share is what the time of a command went into.
type share struct {
	asking   time.Duration // a request was under way
	tasks    time.Duration // none was, but a task ran, or had just ended without being noticed yet
	nothing  time.Duration // neither: Terraform and the provider are started, and think
	starting time.Duration // of that, before the first request
}

// shares divides the time of a command among its requests and tasks.
func shares(wall time.Duration, requests, tasks []span) share {
	s := share{nothing: wall}
	var end time.Duration
	afterTask := false
	all := slices.SortedFunc(slices.Values(slices.Concat(requests, tasks)), func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i, one := range all {
		switch {
		case i == 0:
			s.starting = one.from
		case one.from > end && afterTask:
			s.tasks += one.from - end
		}
		if one.to > end {
			s.tasks += one.to - max(one.from, end)
			end, afterTask = one.to, slices.Contains(tasks, one)
		}
	}
	s.asking = covered(requests)
	s.nothing -= s.tasks
	s.tasks -= s.asking
	return s
}

// covered is how much time some spans have together.
func covered(spans []span) (total time.Duration) {
	var end time.Duration
	for _, s := range slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(a.from, b.from) }) {
		if s.to > end {
			total += s.to - max(s.from, end)
			end = s.to
		}
	}
	return total
}

// explain prints where the time of a command went: each request with when it came and when it was answered, and the sum.
func explain(out io.Writer, title string, sim *pvesim.Sim, begin time.Time, wall time.Duration) {
	fmt.Fprintf(out, "\n%s: where %d ms went\n", title, wall.Milliseconds())
	for _, op := range sim.Ops() {
		s := span{op.Came.Sub(begin), op.Left.Sub(begin)}
		about := ""
		if op.VMID != 0 {
			about = fmt.Sprintf("  (%d)", op.VMID)
		}
		fmt.Fprintf(out, "  %5d %5d ms  %-6s %s%s\n", s.from.Milliseconds(), s.to.Milliseconds(), op.Method, op.Path, about)
	}
	s := sharesOf(sim, begin, wall)
	fmt.Fprintf(out, "  %d ms with a request under way, %d ms with a task only, %d ms with neither (%d ms of it before the first request)\n",
		s.asking.Milliseconds(), s.tasks.Milliseconds(), s.nothing.Milliseconds(), s.starting.Milliseconds())
}

// sharesOf divides the time of a command that began then.
func sharesOf(sim *pvesim.Sim, begin time.Time, wall time.Duration) share {
	var requests []span
	for _, op := range sim.Ops() {
		requests = append(requests, span{op.Came.Sub(begin), op.Left.Sub(begin)})
	}
	return shares(wall, requests, tasksOf(sim, begin))
}

// tasksOf are the times of the tasks that began since.
func tasksOf(sim *pvesim.Sim, begin time.Time) (all []span) {
	w := sim.World()
	w.Lock()
	defer w.Unlock()
	for _, t := range w.Tasks {
		if !t.Start.Before(begin) && !t.Running {
			all = append(all, span{t.Start.Sub(begin), t.End.Sub(begin)})
		}
	}
	return all
}
