package terraformtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// Action is the kind of change that a plan makes to an object.
type Action string

// The actions of a plan.
const (
	NoOp    Action = "no-op"
	Create  Action = "create"
	Update  Action = "update"
	Replace Action = "replace"
	Delete  Action = "delete"
	Read    Action = "read" // a data source that is read during the apply
)

// Change is a plan's change of one object.
type Change struct {
	Address, Type   string
	Action          Action
	Prior           cty.Value
	Config          cty.Value
	Planned         cty.Value
	PlannedPrivate  []byte
	RequiresReplace []string // attribute paths
	Diagnostics     Diagnostics

	block string
	plan  planned
}

// Plan is the outcome of a plan: the changes, and the refreshed state that an apply starts from.
type Plan struct {
	Changes     []*Change // sorted by address
	Diagnostics Diagnostics

	state   map[string]*instance
	data    map[string]cty.Value // data sources that were read: an apply does not read them again
	destroy bool
}

// Empty says whether nothing would be changed.
func (p *Plan) Empty() bool {
	return !slices.ContainsFunc(p.Changes, func(c *Change) bool { return c.Action != NoOp && c.Action != Read })
}

// Change gives the change of an address, nil if the plan has none.
func (p *Plan) Change(address string) *Change {
	for _, c := range p.Changes {
		if c.Address == address {
			return c
		}
	}
	return nil
}

// String prints the changes with the attributes that differ.
func (p *Plan) String() string {
	var b strings.Builder
	for _, c := range p.Changes {
		if c.Action == NoOp {
			continue
		}
		fmt.Fprintf(&b, "%s %s\n", c.Action, c.Address)
		if c.Action == Update || c.Action == Replace {
			for _, line := range Differences(c.Prior, c.Planned) {
				fmt.Fprintf(&b, "  %s\n", line)
			}
		}
	}
	if b.Len() == 0 {
		return "no changes\n"
	}
	return b.String()
}

// PlanOption changes the behaviour of a plan.
type PlanOption func(*planOptions)

type planOptions struct{ destroy, noRefresh bool }

// ToDestroy plans the destruction of everything in state.
func ToDestroy() PlanOption { return func(o *planOptions) { o.destroy = true } }

// WithoutRefresh plans from the state as it is.
func WithoutRefresh() PlanOption { return func(o *planOptions) { o.noRefresh = true } }
