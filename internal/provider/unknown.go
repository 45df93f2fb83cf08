package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// knownDefaults are the defaults of a block of which something is not known yet. The apply says the other errors in
// the block, since all of it is known then.
func knownDefaults(ctx context.Context, config tfsdk.Config) kit.Defaults {
	raw := config.Raw
	for _, group := range []string{"ssh", "vmid_range"} { // their parts are required
		raw = plan.Replace(raw, group, tftypes.NewValue(plan.At(raw, group).Type(), nil))
	}
	var known arguments
	config.Raw = plan.Known(raw)
	if config.Get(ctx, &known).HasError() {
		return kit.Defaults{}
	}
	settled, _ := settle(known) // an error in the environment, too
	defaults := defaultsOf(settled)
	for _, name := range []string{"node", "storage", "bridge", "pool", "tags"} {
		if !plan.At(raw, "default_"+name).IsFullyKnown() {
			if defaults.Unknown == nil {
				defaults.Unknown = map[string]bool{}
			}
			defaults.Unknown[name] = true
		}
	}
	return defaults
}
