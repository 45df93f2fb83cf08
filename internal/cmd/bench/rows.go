package main

import (
	"cmp"
	"slices"
	"time"
)

// measured is one run of an operation.
type measured struct {
	cost
	Server   time.Duration // in which a request was under way, or a task ran
	Requests int           // at the simulator, without polls
	Polls    int           // requests that ask whether a task has ended
}

// key names a row.
type key struct {
	op  string
	vms int
	who string
}

// row is what was measured of one operation on one number of VMs by one of the sides.
type row struct {
	key
	runs []measured
}

// rows are in the order in which they were first measured.
type rows []row

func (r *rows) add(op string, vms int, who string, m measured) {
	k := key{op, vms, who}
	i := slices.IndexFunc(*r, func(other row) bool { return other.key == k })
	if i < 0 {
		i = len(*r)
		*r = append(*r, row{key: k})
	}
	(*r)[i].runs = append((*r)[i].runs, m)
}

// find gives the medians of a row; ok is false if it was not measured.
func (r rows) find(op string, vms int, who string) (m measured, ok bool) {
	for _, row := range r {
		if row.key == (key{op, vms, who}) {
			return row.median(), true
		}
	}
	return m, false
}

// median is that of each figure by itself.
func (r row) median() measured {
	return measured{
		cost: cost{
			Provider: usage{
				CPU: middle(r.runs, func(m measured) time.Duration { return m.Provider.CPU }),
				RSS: middle(r.runs, func(m measured) int64 { return m.Provider.RSS }),
			},
			Terraform: usage{
				CPU: middle(r.runs, func(m measured) time.Duration { return m.Terraform.CPU }),
				RSS: middle(r.runs, func(m measured) int64 { return m.Terraform.RSS }),
			},
			Wall: middle(r.runs, func(m measured) time.Duration { return m.Wall }),
		},
		Server:   middle(r.runs, func(m measured) time.Duration { return m.Server }),
		Requests: middle(r.runs, func(m measured) int { return m.Requests }),
		Polls:    middle(r.runs, func(m measured) int { return m.Polls }),
	}
}

// middle is the median of a figure, the lower one of two.
func middle[T cmp.Ordered](runs []measured, figure func(measured) T) T {
	var all []T
	for _, m := range runs {
		all = append(all, figure(m))
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// both is the CPU of Terraform and provider together.
func (c cost) both() time.Duration { return c.Provider.CPU + c.Terraform.CPU }
