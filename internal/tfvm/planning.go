package tfvm

import (
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// planning is the plan of one VM in the making: what it is made from, and how far it is. Its three ways are create, update
// and destroy; their steps are in the files plan_*.go.
type planning struct {
	r *Resource
	values
	config  configuration // as it is written
	state   tftypes.Value // before; null for a VM that is to be made
	prior   model         // the state
	private privateState
	out     tfkit.PrivateWriter // where the next step of Terraform finds what this one notes

	volumes   *volumeNames  // what the volumes that the configuration names mean
	value     tftypes.Value // what is planned
	plan      model         // the same, as far as it is known
	changed   bool          // the plan differs from the state
	forgotten []string      // devices that leave the state and stay on the server
	doubtful  []string      // values that stay since nobody knows any more whether they were configured
	before    model         // the state without what is no difference to the server
	after     model         // the plan, likewise
	replace   path.Paths    // what cannot change in place
	diags     diag.Diagnostics
}

// creating reports whether the VM is to be made.
func (p *planning) creating() bool { return p.state.IsNull() }

// refuse is the error of a change that cannot be made.
func (p *planning) refuse(at path.Path, why string) {
	p.diags.AddAttributeError(at, "Cannot change "+p.prior.thing(), why)
}

// managed reports whether the configuration of the last create or update set an attribute.
func (p *planning) managed(at string) bool { return p.private.Managed[at] }

// volumeNames is what the volumes that a configuration names mean for a VM in state.
//
// A volume that the VM has, detached or in another slot that gives it up, is attached. A name that is not where the disk is
// any more, since the disk has moved to another storage, was converted or migrated, says where it was: it changes nothing.
type volumeNames struct {
	*planning
	attached map[string]string // volumes by the slot that gets them
	borrowed map[string]bool   // volumes that another VM holds for this one
	held     *guest.Holdings
	asked    bool
}
