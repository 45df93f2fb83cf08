package main

import "slices"

// target is a limit that the project has set itself for a figure.
type target struct {
	what  string
	ops   []string
	vms   []int // nil: any number
	limit float64
	unit  string
	// figure is of the provider, in a table that may lack what it is to be compared with.
	figure func(r rows, op string, vms int, ours measured) (float64, bool)
}

const mib = 1 << 20

var targets = []target{
	{what: "CPU of the provider", ops: []string{opStart}, limit: 150, unit: "ms", figure: providerMilliseconds},
	{what: "CPU of the provider per VM", ops: []string{opPlan}, vms: []int{100, 1000}, limit: 8, unit: "ms",
		figure: func(r rows, op string, vms int, ours measured) (float64, bool) {
			total, ok := providerMilliseconds(r, op, vms, ours)
			return total / float64(vms), ok
		}},
	{what: "peak memory of the provider", ops: []string{opPlan, opRefresh, opApply}, vms: []int{1000}, limit: 150, unit: "MiB",
		figure: func(_ rows, _ string, _ int, ours measured) (float64, bool) {
			return float64(ours.Provider.RSS) / mib, ours.Provider.RSS > 0
		}},
	{what: "CPU of both, of bpg's", ops: []string{opPlan, opRefresh, opApply, opCreate}, limit: 0.6, unit: "x",
		figure: func(r rows, op string, vms int, ours measured) (float64, bool) {
			peer, ok := r.find(op, vms, whoPeer)
			return ours.both().Seconds() / peer.both().Seconds(), ok
		}},
	{what: "CPU of both, of that for 100", ops: []string{opPlan}, vms: []int{1000}, limit: 10.5, unit: "x",
		figure: func(r rows, op string, _ int, ours measured) (float64, bool) {
			tenth, ok := r.find(op, 100, whoProvider)
			return ours.both().Seconds() / tenth.both().Seconds(), ok
		}},
	{what: "requests", ops: []string{opPlan}, vms: []int{1000}, limit: 1001, figure: allRequests},
	{what: "requests besides polls", ops: []string{opSlowCreate}, vms: []int{1}, limit: 12,
		figure: func(_ rows, _ string, _ int, ours measured) (float64, bool) { return float64(ours.Requests), true }},
	{what: "requests", ops: []string{opSlowClone}, vms: []int{1}, limit: 25, figure: allRequests},
	{what: "wall time, of the bare client's", ops: slowOps, vms: []int{1}, limit: 1.25, unit: "x", figure: ofBare},
	{what: "wall time, of the bare client's", ops: slowOps, vms: []int{10, 50, 100}, limit: 1.10, unit: "x", figure: ofBare},
	{what: "time with the server, of the bare client's", ops: slowOps, vms: []int{1}, limit: 1.25, unit: "x", figure: serverOfBare},
	{what: "time with the server, of the bare client's", ops: slowOps, vms: []int{10, 50, 100}, limit: 1.10, unit: "x", figure: serverOfBare},
	{what: "requests, more than VMs", ops: []string{opRefresh, opOffline}, vms: []int{1000}, limit: 3,
		figure: func(r rows, op string, vms int, ours measured) (float64, bool) {
			return float64(ours.Requests + ours.Polls - vms), true
		}},
}

var slowOps = []string{opSlowCreate, opSlowUpdate, opSlowClone, opSlowDestroy}

func providerMilliseconds(_ rows, _ string, _ int, ours measured) (float64, bool) {
	return ours.Provider.CPU.Seconds() * 1000, true
}

func allRequests(_ rows, _ string, _ int, ours measured) (float64, bool) {
	return float64(ours.Requests + ours.Polls), true
}

// ofBare compares wall times. The time of the same command with as many terraform_data resources is Terraform's own (to
// start, to read the configuration, to write the state) and left out.
func ofBare(r rows, op string, vms int, ours measured) (float64, bool) {
	return r.ofBare(op, vms, ours)
}

// serverOfBare compares the time in which a request was under way or a task ran: it does not depend on how fast this machine starts
// Terraform and the provider, which happens four times for an apply.
func serverOfBare(r rows, op string, vms int, ours measured) (float64, bool) {
	bare, ok := r.find(op, vms, whoBare)
	return ours.Server.Seconds() / bare.Server.Seconds(), ok && bare.Server > 0
}

func (r rows) ofBare(op string, vms int, m measured) (float64, bool) {
	bare, ok := r.find(op, vms, whoBare)
	floor, also := r.find(op, vms, whoFloor)
	return (m.Wall - floor.Wall).Seconds() / bare.Wall.Seconds(), ok && also
}

// verdict is a target with its measurement.
type verdict struct {
	target
	value float64
}

func (v verdict) ok() bool { return v.value <= v.limit }

// verdicts are those on an operation on a number of VMs.
func (r rows) verdicts(op string, vms int) (all []verdict) {
	ours, ok := r.find(op, vms, whoProvider)
	if !ok {
		return nil
	}
	for _, t := range targets {
		if !slices.Contains(t.ops, op) || t.vms != nil && !slices.Contains(t.vms, vms) {
			continue
		}
		if value, ok := t.figure(r, op, vms, ours); ok {
			all = append(all, verdict{t, value})
		}
	}
	return all
}
