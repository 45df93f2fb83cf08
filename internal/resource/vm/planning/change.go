package planning

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
)

// change is what a plan does to a value of the state. A value that another resource gives is not known before the
// apply: it may be the one in state, and it may be another. The plan's promises must hold either way, since
// Terraform stops an apply whose second plan breaks a promise of the first.
type change int

const (
	same  change = iota // the value stays
	other               // the value changes
	open                // the value is not known yet
)

// delta compares the state with the plan so far, at dotted paths.
type delta struct{ before, after tftypes.Value }

func (p *Planning) delta() delta { return delta{p.State, p.Value} }

// change compares the values.
func (d delta) change(at string) change {
	steps := strings.Split(at, ".")
	was, is := plan.At(d.before, steps...), plan.At(d.after, steps...)
	switch {
	case !is.IsKnown(), isSequence(is) && !is.IsFullyKnown():
		return open
	case was.IsNull() && is.IsNull() || was.Equal(is):
		return same
	}
	return other
}

func isSequence(v tftypes.Value) bool {
	return v.Type().Is(tftypes.List{}) || v.Type().Is(tftypes.Set{})
}

// swaps is change for a value in the place of another one: what was not there before is not swapped, nor is what goes.
func (d delta) swaps(at string) change {
	if !d.stays(at) {
		return same
	}
	return d.change(at)
}

// stays reports whether there is a value in state, and in the plan as far as that is known.
func (d delta) stays(at string) bool { return d.was(at) && !d.goes(at) }

// goes reports whether a value in state is known to have none in the plan.
func (d delta) goes(at string) bool {
	is := plan.At(d.after, strings.Split(at, ".")...)
	return d.was(at) && is.IsKnown() && is.IsNull()
}

func (d delta) was(at string) bool { return !plan.At(d.before, strings.Split(at, ".")...).IsNull() }
