package planning

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
)

// change is what a plan does to a value of the state. A value that another resource gives is not known before the apply:
// it may be the one in state, and it may be another. What the plan promises must hold either way, since Terraform stops
// an apply whose second plan breaks a promise of the first.
type change int

const (
	same  change = iota // the value stays
	other               // the value changes
	open                // the value is not known yet
)

// change compares state and plan at a dotted path.
func (p *Planning) change(at string) change {
	steps := strings.Split(at, ".")
	was, is := plan.At(p.State, steps...), plan.At(p.Value, steps...)
	switch {
	case !is.IsKnown(), isSequence(is) && !is.IsFullyKnown():
		return open
	case was.IsNull() && is.IsNull() || was.Equal(is):
		return same
	}
	return other
}

func isSequence(v tftypes.Value) bool { return v.Type().Is(tftypes.List{}) || v.Type().Is(tftypes.Set{}) }

// swaps is change for a value in the place of another one: what was not there before is not swapped, nor is what goes.
func (p *Planning) swaps(at string) change {
	if !p.stays(at) {
		return same
	}
	return p.change(at)
}

// stays reports whether there is a value in state, and in the plan as far as that is known.
func (p *Planning) stays(at string) bool { return p.was(at) && !p.goes(at) }

// goes reports whether a value in state is known to have none in the plan.
func (p *Planning) goes(at string) bool {
	is := plan.At(p.Value, strings.Split(at, ".")...)
	return p.was(at) && is.IsKnown() && is.IsNull()
}

func (p *Planning) was(at string) bool { return !plan.At(p.State, strings.Split(at, ".")...).IsNull() }
