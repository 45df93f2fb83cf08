package planning

import (
	"context"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// noteAgain takes the present configuration for the former one, where Terraform has lost the notes about it. A value
// that is not configured may have been found by an import, so no update may remove it.
func (p *Planning) noteAgain(ctx context.Context) {
	p.private.Lost = p.private.Lost && !p.Value.IsNull() && !p.Prior.IsUnseen(p.private)
	if p.private.Lost {
		p.private.Managed = p.Shape.Managed(p.Config.Raw)
		p.diags.Append(p.out.SetKey(ctx, model.KeyManaged, p.private.Managed.JSON())...)
	}
}

// planNotes has Terraform keep the new notes, which it does of an update only.
func (p *Planning) planNotes() {
	if p.private.Lost {
		p.Value, p.changed = plan.Edit(p.Value, map[string]bool{"pending_changes": true}, nil), true
	}
}

// warnLost tells what the update leaves alone since nothing tells whether it was configured.
func (p *Planning) warnLost(forgotten []string) {
	text := "Terraform forgets what a provider has noted beside the state when the provider is killed during an update. " +
		"This apply notes again what is configured."
	if len(forgotten) > 0 {
		text += " Devices that are not configured, and of which it is not known whether they were: " +
			strings.Join(forgotten, ", ") +
			". They stay on the VM and leave the state. One that is to go must be in the configuration for one apply, and " +
			"out of it for the next."
	}
	if len(p.doubtful) > 0 {
		text += " Values of which the same is not known: " + strings.Join(p.doubtful, ", ") +
			". They stay as they are. Where one is to be another, say so in the configuration, or change it on the server."
	}
	p.diags.AddWarning("What the provider knew of "+p.Prior.Thing()+" is lost", text)
}
