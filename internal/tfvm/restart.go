package tfvm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// due are the options in state that wait for a restart of the running VM, as far as the configuration manages them and its
// policy is to restart: an earlier apply could not do it.
func due(prior, plan model, managed tfplan.Managed) []string {
	if value(plan.RebootPolicy) == "never" || value(prior.Status) != "running" || plan.endsOff() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(prior.PendingChanges), func(option string) bool {
		at, ok := prior.attributePath(option)
		return !ok || !manages(managed, at)
	})
}

// endsOff reports whether the guest is to be off after the apply: what waits for its restart is in force then.
func (m *model) endsOff() bool {
	return value(m.PowerState) == string(provision.Stopped) || m.HA.stops()
}

// manages tells whether the configuration has set an attribute, one below it or one above it.
func manages(managed tfplan.Managed, at string) bool {
	for path := range managed {
		if path == at || strings.HasPrefix(path, at+".") || strings.HasPrefix(at, path+".") {
			return true
		}
	}
	return false
}

// restarts warns before the running VM is restarted, where the plan can know it. What PVE takes from a running guest
// depends on its hotplug setting and its devices, so not every restart is foreseen; PVE decides.
func restarts(prior, plan model, managed tfplan.Managed) diag.Diagnostics {
	var diags diag.Diagnostics
	policy := value(plan.RebootPolicy)
	if value(prior.Status) != "running" || plan.endsOff() {
		return diags
	}
	before, after := alike(prior, plan, managed)
	options := vm.NeedsRestart(before.spec(false), after.spec(false))
	options = append(options, due(prior, plan, managed)...)
	if len(options) == 0 {
		return diags
	}
	slices.Sort(options)
	what := strings.Join(slices.Compact(options), ", ")
	if policy == "never" {
		diags.AddAttributeWarning(path.Root("reboot_policy"), prior.thing()+" keeps running with the old values",
			fmt.Sprintf("%s takes effect at the next stop and start of the VM, which reboot_policy = \"never\" leaves to you.", what))
		return diags
	}
	forced := "a guest that does not obey keeps running, and the apply fails"
	if policy == "force" {
		forced = "a guest that does not obey is cut off"
	}
	diags.AddWarning(prior.thing()+" will be restarted",
		fmt.Sprintf("PVE changes %s on a running VM at its restart only. The apply asks the guest to restart; %s. Set reboot_policy = \"never\" to leave it running.", what, forced))
	return diags
}
