package planning

import (
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// foretellNewVM plans what the create makes of the values that only the server gives: nothing waits for a restart, the
// guest runs if the create starts it, and it has no addresses if no agent is asked for them.
func (p *Planning) foretellNewVM() {
	set := func(name string, v tftypes.Value) { p.Value = plan.Replace(p.Value, name, v) }
	pending := plan.At(p.Value, "pending_changes").Type()
	set("pending_changes", tftypes.NewValue(pending, []tftypes.Value{}))
	if slot := "cloud_init.slot"; p.Config.IsSet("cloud_init") && p.Config.IsNull(slot) && !p.Config.Copies() {
		inside := model.ObjectOf(plan.At(p.Value, "cloud_init"))
		inside["slot"] = model.Text(vm.DefaultCloudInitSlot)
		set("cloud_init", tftypes.NewValue(plan.At(p.Value, "cloud_init").Type(), inside))
	}
	if !p.Config.At("power_state").IsKnown() || !p.Config.At("template").IsKnown() || !p.Config.IsNull("ha") {
		return // HA starts and stops guests by itself
	}
	status := guest.Stopped
	if p.Plan.StartsWhenMade() {
		status = guest.Running
	}
	set("status", model.Text(string(status)))
	known := p.Config.At("wait_for").IsFullyKnown() && p.Config.At("agent").IsKnown() &&
		p.Config.At("agent.enabled").IsKnown()
	if known && (status == guest.Stopped || p.Plan.AwaitedByCreate(p.Config) == nil) {
		for _, name := range []string{"addresses", "ipv4_address", "ipv6_address"} {
			set(name, tftypes.NewValue(plan.At(p.Value, name).Type(), nil))
		}
	}
}
