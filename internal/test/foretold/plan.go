package foretold

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// Lost are the facts that a cluster has no more after the apply of a plan, but for what goes with a VM as a matter of course, in the order of
// their names. off are the power-offs meanwhile.
func (f Facts) Lost(after Facts, off []state.PowerOff, pl *terraformtest.Plan) (lost []Fact) {
	gone := goneBy(pl)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		_, there := after[name]
		wentOff := slices.ContainsFunc(off, func(o state.PowerOff) bool { return name == fmt.Sprintf("the power of VM %d", o.VMID) })
		if (!there || wentOff) && !f[name].goesWith(gone) {
			lost = append(lost, f[name])
		}
	}
	return lost
}

// goneBy are the VMs that a plan removes or replaces. Their own options, power and disks go with them; what other users have given them is
// named.
func goneBy(pl *terraformtest.Plan) map[string]terraformtest.Action {
	gone := map[string]terraformtest.Action{}
	for _, c := range pl.Changes {
		isGone := c.Action == terraformtest.Delete || c.Action == terraformtest.Replace
		if isGone && c.Prior.Type().HasAttribute("vmid") && c.Type != "proxmox_vm_snapshot" {
			gone["VM "+objchange.ShowValue(c.Prior.GetAttr("vmid"))] = c.Action
		}
	}
	return gone
}

// IsNamed reports whether a line of a plan has all the words of one of the phrases.
func (f Fact) IsNamed(lines []string) bool {
	return slices.ContainsFunc(f.phrases, func(p phrase) bool {
		return slices.ContainsFunc(lines, func(line string) bool {
			return !slices.ContainsFunc(p, func(word string) bool { return !strings.Contains(line, word) })
		})
	})
}

// Lines are a plan's lines: its changes, the values of objects that it removes, and its diagnostics.
func Lines(pl *terraformtest.Plan) []string {
	lines := strings.Split(pl.String()+pl.Diagnostics.String(), "\n")
	for _, c := range pl.Changes {
		if c.Action != terraformtest.Delete && c.Action != terraformtest.Replace {
			continue
		}
		for _, line := range terraformtest.Differences(c.Prior, cty.NullVal(c.Prior.Type())) {
			lines = append(lines, c.Address+" "+line)
		}
	}
	return lines
}
