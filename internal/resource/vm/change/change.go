// Package change derives the consequences of a change of a VM: the values of its plan, the refusals and the warnings.
// It sends no request, and knows no other plan of the run: it is handed the few facts of the server that it needs.
package change

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// Change is a VM before and after: its state, its configuration and its plan, side by side. The plan of a VM that is
// not there yet is one, too.
type Change struct {
	model.Values
	Config  model.Configuration // as it is written
	State   tftypes.Value       // before; null for a VM that is to be made
	Prior   model.Model         // the state
	Private model.PrivateState
	Value   tftypes.Value // what is planned
	Plan    model.Model   // the same, as far as it is known

	Attached  map[string]string         // volumes by the slot that gets them
	Forgotten []string                  // devices that leave the state and stay on the server
	Doubtful  []string                  // values that stay since nothing tells any more whether they were configured
	Lost      map[string]model.LostDisk // by slot, as the refresh has found
	Before    model.Model               // the state without what is no difference to the server
	After     model.Model               // the plan, likewise
	Acting    bool                      // the apply has begun
	Restarts  bool                      // the apply restarts the VM, as far as the plan can know
	Facts     Facts                     // nil: the server cannot be asked
	Diags     diag.Diagnostics
}

// Facts are what only the server can tell of the VM. They are asked for where a change calls for them.
type Facts interface {
	// InForce tells whether the guest runs and, where something waits for its restart, with which values.
	InForce(ctx context.Context) (preflight.InForce, error)
	IsShared(ctx context.Context, storage string) (bool, error)
	// LooseSize is the size of a volume that is on its storage and in no configuration of the VM.
	LooseSize(ctx context.Context, volume string) (size int64, isLoose bool)
	Firewall(ctx context.Context) (*firewall.Settings, error)
}

// Creating reports whether the VM is to be made.
func (p *Change) Creating() bool { return p.State.IsNull() }

// Refuse is the error of a change that cannot be made.
func (p *Change) Refuse(at path.Path, why string) {
	p.Diags.AddAttributeError(at, "Cannot change "+p.Prior.Thing(), why)
}

// Managed reports whether the configuration of the last create or update set an attribute.
func (p *Change) Managed(at string) bool { return p.Private.Managed[at] }

// Attaches reports whether a volume goes to another slot.
func (p *Change) Attaches(volume string) bool {
	return volume != "" && slices.Contains(slices.Collect(maps.Values(p.Attached)), volume)
}

// MayDestroyRemoved reports whether removed_disks is "destroy", or not known yet.
func (p *Change) MayDestroyRemoved() bool {
	return !p.Config.At("removed_disks").IsKnown() || model.Value(p.Plan.RemovedDisks) == "destroy"
}

// Leaves reports whether it is known that a disk in state leaves the VM.
func (p *Change) Leaves(slot string) bool {
	_, stays := p.Plan.Disks[slot]
	return !stays && p.Config.At("disks").IsKnown() && p.Managed("disks."+slot)
}

// Runs reports whether the VM runs, and goes on running as far as the plan says.
func (p *Change) Runs() bool {
	return model.Value(p.Prior.Status) == "running" && model.Value(p.Plan.PowerState) != string(guest.Stopped)
}

// IsStarted reports whether the apply starts the VM, or may restart it.
func (p *Change) IsStarted() bool {
	if p.Creating() {
		return p.Plan.StartsWhenMade()
	}
	return p.Runs() || model.Value(p.Plan.PowerState) == string(guest.Running)
}

// Comparison is what a plan does to a value of the state. A value that another resource gives is not known before the
// apply: it may be the one in state, and it may be another. The plan's promises must hold either way, since
// Terraform stops an apply whose second plan breaks a promise of the first.
type Comparison int

const (
	Same  Comparison = iota // the value stays
	Other                   // the value changes
	Open                    // the value is not known yet
)

// Compare compares the state with the plan so far, at a dotted path.
func (p *Change) Compare(at string) Comparison {
	steps := strings.Split(at, ".")
	was, is := plan.At(p.State, steps...), plan.At(p.Value, steps...)
	switch {
	case !is.IsKnown(), (is.Type().Is(tftypes.List{}) || is.Type().Is(tftypes.Set{})) && !is.IsFullyKnown():
		return Open
	case was.IsNull() && is.IsNull() || was.Equal(is):
		return Same
	}
	return Other
}

// Swaps is Compare for a value in the place of another one: what was not there before is not swapped, nor is what goes.
func (p *Change) Swaps(at string) Comparison {
	if !p.Stays(at) {
		return Same
	}
	return p.Compare(at)
}

// Stays reports whether there is a value in state, and in the plan as far as that is known.
func (p *Change) Stays(at string) bool { return p.Was(at) && !p.Goes(at) }

// Goes reports whether a value in state is known to have none in the plan.
func (p *Change) Goes(at string) bool {
	is := plan.At(p.Value, strings.Split(at, ".")...)
	return p.Was(at) && is.IsKnown() && is.IsNull()
}

// Was reports whether there is a value in state.
func (p *Change) Was(at string) bool { return !plan.At(p.State, strings.Split(at, ".")...).IsNull() }
