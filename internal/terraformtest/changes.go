package terraformtest

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
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
	CreateFirst     bool     // a replacement with create_before_destroy
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

type planOptions struct {
	destroy, noRefresh bool
	replace            []string
}

// ToDestroy plans the destruction of everything in state.
func ToDestroy() PlanOption { return func(o *planOptions) { o.destroy = true } }

// WithoutRefresh plans from the state as it is.
func WithoutRefresh() PlanOption { return func(o *planOptions) { o.noRefresh = true } }

// Replacing replaces objects that a plan would keep or change: terraform plan -replace.
func Replacing(addresses ...string) PlanOption {
	return func(o *planOptions) { o.replace = append(o.replace, addresses...) }
}

// Differences lists the leaves that differ between two values of one type, as lines "path: old -> new".
func Differences(a, b cty.Value) []string {
	la, lb := leaves(a), leaves(b)
	var lines []string
	for path, v := range la {
		if w, ok := lb[path]; ok && w != v {
			lines = append(lines, path+": "+v+" -> "+w)
		} else if !ok {
			lines = append(lines, path+": "+v+" -> (gone)")
		}
	}
	for path, w := range lb {
		if _, ok := la[path]; !ok {
			lines = append(lines, path+": (absent) -> "+w)
		}
	}
	sort.Strings(lines)
	return lines
}

// leaves maps paths to printed values; sets count as leaves.
func leaves(v cty.Value) map[string]string {
	out := map[string]string{}
	if v == cty.NilVal {
		return out
	}
	_ = cty.Walk(v, func(p cty.Path, v cty.Value) (bool, error) {
		inner := !v.IsNull() && v.IsKnown() && !v.Type().IsPrimitiveType() && !v.Type().IsSetType()
		if inner && v.LengthInt() > 0 {
			return true, nil
		}
		out[objchange.PathString(p)] = objchange.ShowValue(v)
		return false, nil
	})
	return out
}
