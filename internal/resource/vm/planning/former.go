package planning

import (
	"fmt"
	"slices"
	"strings"
)

// warnFormer tells, at the move of a VM, what its former configuration had set and this one does not name. A key that
// is misspelt inside an object looks like that, since Terraform drops it.
func (p warnings) warnFormer() {
	if p.private.Former == nil {
		return
	}
	var lines []string
	for _, s := range p.private.Former.Settings {
		if !p.Config.IsNull(s.Ours) || !p.isDeviceConfigured(s.Ours) {
			continue
		}
		line := fmt.Sprintf("  %s, here %s", s.Theirs, s.Ours)
		if s.Value != "" {
			line = fmt.Sprintf("  %s = %s, here %s", s.Theirs, s.Value, s.Ours)
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return
	}
	p.diags.AddWarning("The configuration of "+p.Prior.Thing()+" leaves out what its former one had set",
		fmt.Sprintf("The %s had these set, and the configuration names none of them:\n%s\nThe VM keeps its values, but "+
			"Terraform does not enforce them, and a new VM of the same configuration is made without them. If the "+
			"configuration seems to have one, its key is misspelt: Terraform drops an unknown key inside { } without a word. "+
			"\"terraform-provider-proxmox lint\" finds it. The first apply ends this warning.",
			p.private.Former.From, strings.Join(lines, "\n")))
}

// isDeviceConfigured reports whether the configuration names the device that an attribute belongs to. Other warnings
// tell of devices that it leaves out.
func (p warnings) isDeviceConfigured(at string) bool {
	steps := strings.Split(at, ".")
	families := []string{"disks", "cdroms", "networks", "pci", "usb", "serial", "virtiofs"}
	return !slices.Contains(families, steps[0]) || p.Config.IsSet(strings.Join(steps[:2], "."))
}
