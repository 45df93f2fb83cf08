package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
)

// commands are Terraform's for an operation. A plan that is not empty has another exit status than 0.
var commands = map[string][]string{
	opStart:       {"validate", "-no-color"},
	opPlan:        {"plan", "-no-color", "-detailed-exitcode"},
	opRefresh:     {"apply", "-no-color", "-refresh-only", "-auto-approve"},
	opApply:       {"apply", "-no-color", "-auto-approve"},
	opCreate:      {"apply", "-no-color", "-auto-approve"},
	opSlowCreate:  {"apply", "-no-color", "-auto-approve"},
	opSlowClone:   {"apply", "-no-color", "-auto-approve"},
	opSlowUpdate:  {"apply", "-no-color", "-auto-approve"},
	opSlowNothing: {"apply", "-no-color", "-auto-approve"},
	opOffline:     {"apply", "-no-color", "-refresh-only", "-auto-approve"},
	opSlowDestroy: {"destroy", "-no-color", "-auto-approve"},
}

// bench is one run of the program.
type bench struct {
	terraform *terraform
	sides     []*side
	progress  io.Writer
	runs      int
	explain   bool // print where the time went
	rows      rows
}

// cluster starts a simulated cluster on the real clock. Its template 9000 has no protection: bpg's provider cannot clone one that has.
func cluster(o pvesim.Options) (*pvesim.Sim, error) {
	o.RealNetwork, o.Clock = true, clock.Real{}
	sim, err := pvesim.New(o)
	if err != nil {
		return nil, err
	}
	w := sim.World()
	w.Lock()
	defer w.Unlock()
	delete(w.Guests[9000].Config, "protection")
	return sim, nil
}

// quickPart measures CPU and memory on a server that answers at once.
func (b *bench) quickPart(ctx context.Context, o options) error {
	for _, n := range o.unchanged {
		for range b.runs {
			for _, s := range b.sides {
				if err := b.unchangedVMs(ctx, s, n); err != nil {
					return err
				}
			}
		}
	}
	for _, n := range o.offline {
		for range b.runs {
			for _, s := range b.sides {
				if err := b.refreshWithoutNode(ctx, s, n); err != nil {
					return err
				}
			}
		}
	}
	for _, n := range o.created {
		for range b.runs {
			for _, s := range b.sides {
				if err := b.createdVMs(ctx, s, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) unchangedVMs(ctx context.Context, s *side, n int) error {
	sim, err := cluster(pvesim.Options{})
	if err != nil {
		return err
	}
	defer sim.Close()
	if err := b.populate(ctx, sim, s, n); err != nil {
		return err
	}
	for _, op := range []string{opStart, opPlan, opRefresh, opApply} {
		if err := b.measure(ctx, sim, s, op, n); err != nil {
			return err
		}
	}
	return s.forget()
}

// populate brings n VMs into the cluster and into the side's state.
func (b *bench) populate(ctx context.Context, sim *pvesim.Sim, s *side, n int) error {
	first := 1
	if s.who == whoFloor {
		first = n // cheap, and no VM from which others could be made
	}
	if err := s.configure(sim, first, 0); err != nil {
		return err
	}
	if _, err := b.terraform.run(ctx, s, commands[opCreate]...); err != nil {
		return err
	}
	if err := s.multiply(sim, n); err != nil {
		return err
	}
	return s.configure(sim, n, 0)
}

func (b *bench) createdVMs(ctx context.Context, s *side, n int) error {
	sim, err := cluster(pvesim.Options{})
	if err != nil {
		return err
	}
	defer sim.Close()
	if err := s.configure(sim, n, 0); err != nil {
		return err
	}
	if err := b.measure(ctx, sim, s, opCreate, n); err != nil {
		return err
	}
	return s.forget()
}

// measure runs an operation and notes what it took.
func (b *bench) measure(ctx context.Context, sim *pvesim.Sim, s *side, op string, n int) error {
	sim.ResetOps()
	begin := time.Now()
	c, err := b.terraform.run(ctx, s, commands[op]...)
	if err != nil {
		return err
	}
	if b.explain && s.who == whoProvider {
		explain(b.progress, fmt.Sprintf("%s of %d", op, n), sim, begin, c.Wall)
	}
	share := sharesOf(sim, begin, c.Wall)
	m := measured{cost: c, Server: share.asking + share.tasks}
	m.count(sim.Ops())
	b.note(op, n, s.who, m)
	return nil
}

func (b *bench) note(op string, n int, who string, m measured) {
	fmt.Fprintf(b.progress, "%s of %d, %s: %.1f s\n", op, n, who, m.Wall.Seconds())
	b.rows.add(op, n, who, m)
}

// count takes the requests in, apart those that only ask whether a task has ended.
func (m *measured) count(ops []pvesim.Op) {
	for _, op := range ops {
		if isPoll(op) {
			m.Polls++
		} else {
			m.Requests++
		}
	}
}

// slowPart measures requests and time on a server that is as slow as a real one.
func (b *bench) slowPart(ctx context.Context, counts []int) error {
	if len(counts) == 0 {
		return nil
	}
	sim, err := cluster(pvesim.Options{Latency: slowRequest, Workers: slowWorkers, TaskTime: slowTask})
	if err != nil {
		return err
	}
	defer sim.Close()
	empty := sim.Snapshot()
	for _, n := range counts {
		for range b.runs {
			if err := b.slowBare(ctx, sim, n); err != nil {
				return fmt.Errorf("%s: %w", whoBare, err)
			}
			for _, s := range b.sides {
				if err := sim.Load(empty); err != nil {
					return err
				}
				if err := b.slowVMs(ctx, sim, s, n); err != nil {
					return err
				}
			}
			if err := sim.Load(empty); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) slowVMs(ctx context.Context, sim *pvesim.Sim, s *side, n int) error {
	if s.provider {
		defer s.unwrap()()
	}
	for _, step := range []struct {
		op            string
		plain, clones int
	}{{opSlowNothing, 0, 0}, {opSlowCreate, n, 0}, {opSlowUpdate, n, 0}, {opSlowDestroy, n, 0}, {opSlowClone, 0, n}} {
		if step.op == opSlowUpdate {
			s.generation++
		}
		if err := s.configure(sim, step.plain, step.clones); err != nil {
			return err
		}
		if err := b.measure(ctx, sim, s, step.op, n); err != nil {
			return err
		}
	}
	return s.forget()
}

// slowBare lets the bare client do the same. Its clones go with the next load.
func (b *bench) slowBare(ctx context.Context, sim *pvesim.Sim, n int) error {
	c, err := newBareClient(sim)
	if err != nil {
		return err
	}
	defer c.http.CloseIdleConnections()
	for _, step := range []struct {
		op string
		do func(ctx context.Context, n int) error
	}{{opSlowCreate, c.createAll}, {opSlowUpdate, c.updateAll}, {opSlowDestroy, c.destroyAll}, {opSlowClone, c.cloneAll}} {
		sim.ResetOps()
		begin := time.Now()
		if err := step.do(ctx, n); err != nil {
			return err
		}
		wall := time.Since(begin)
		share := sharesOf(sim, begin, wall)
		m := measured{cost: cost{Wall: wall}, Server: share.asking + share.tasks}
		m.count(sim.Ops())
		b.rows.add(step.op, n, whoLimit, limit(step.op, n))
		b.note(step.op, n, whoBare, m)
	}
	return nil
}
