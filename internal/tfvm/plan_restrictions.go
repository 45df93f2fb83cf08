package tfvm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// restriction is who may set an attribute, and which server knows it.
type restriction struct {
	at string // dotted path of the attribute, "*" for every slot

	root   bool              // only root@pam with a password (qemu-server API2/Qemu.pm check_vm_modify_config_perm)
	unless string            // the one value that everybody may set
	only   func(string) bool // the values that are root's; nil: all

	major, minor int // first PVE release that has it; 0: all that the provider works with
	removed      int // first PVE release that no longer has it; 0: none

	privilege string // needed on the object
	object    string // "%s" is the value

	instead string // what to do instead
}

// restrictions are all attributes that not every identity may set or not every server has. The privileges VM.Config.* are
// not among them: the server names them itself before it does anything.
func restrictions() []restriction {
	const (
		qm      = "leave the attribute out and set the option on the node with qm set"
		mapping = "use the attribute mapping: root makes a resource mapping of the datacenter once, and Mapping.Use on it is enough then"
	)
	return []restriction{
		{at: "cpu.affinity", root: true, instead: qm},
		{at: "memory.hugepages", root: true, instead: qm},
		{at: "memory.keephugepages", root: true, instead: qm},
		{at: "hookscript", root: true, instead: qm},
		{at: "args", root: true, instead: qm},
		{at: "arch", root: true, instead: "leave the attribute out: the VM has the architecture of the node then"},
		{at: "vmgenid", root: true, instead: "leave the attribute out: PVE gives every VM a generation id"},
		{at: "spice_enhancements", root: true, instead: qm},
		{at: "ivshmem", root: true, instead: qm},
		{at: "amd_sev", root: true, major: 8, minor: 3, instead: qm},
		{at: "intel_tdx", root: true, major: 9, minor: 1, instead: qm},
		{at: "parallel.*", root: true, instead: qm},
		{at: "serial.*.device", root: true, unless: "socket", instead: "use device = \"socket\", or " + qm},
		{at: "usb.*.host", root: true, unless: "spice", instead: mapping},
		{at: "pci.*.host", root: true, instead: mapping},
		{at: "pci.*.romfile", root: true, instead: qm},

		{at: "disks.*.volume", root: true, only: vm.IsDevice, instead: "attach the device on the node with qm set and leave the slot out"},

		{at: "vga.clipboard", major: 8, minor: 1},
		{at: "machine_options.viommu", major: 8, minor: 2},
		{at: "disks.*.vendor", major: 8, minor: 2},
		{at: "disks.*.product", major: 8, minor: 2},
		{at: "machine_options.enable_s3", major: 8, minor: 4},
		{at: "machine_options.enable_s4", major: 8, minor: 4},
		{at: "efi_disk.ms_cert", major: 8, minor: 4},
		{at: "virtiofs.*", major: 8, minor: 4},
		{at: "machine_options.aw_bits", major: 9, minor: 1},
		{at: "memory.allow_ksm", major: 9, minor: 1},
		{at: "cpu.guest_phys_bits", major: 9, minor: 1},
		{at: "pci.*.driver", major: 9, minor: 1},
		{at: "cpu.level", major: 9, minor: 2},
		{at: "networks.*.host_tunnel", major: 9, minor: 2},

		{at: "ha.failback", major: 9},
		{at: "ha.group", removed: 9, instead: "use an HA rule of the datacenter, which names the VM and its nodes"},

		{at: "ha", privilege: "Sys.Console", object: "/", instead: "leave ha out and manage HA elsewhere"},
		{at: "startup", privilege: "Sys.Modify", object: "/", instead: "leave startup out: it changes what the node does, not only the VM"},
		{at: "pci.*.mapping", privilege: "Mapping.Use", object: "/mapping/pci/%s"},
		{at: "usb.*.mapping", privilege: "Mapping.Use", object: "/mapping/usb/%s"},
		{at: "virtiofs.*.dirid", privilege: "Mapping.Use", object: "/mapping/dir/%s"},
	}
}

// checkRestrictions refuses what this identity may not set and what this server does not have, as far as it changes.
func (p *planning) checkRestrictions(ctx context.Context) {
	if !p.r.Session.Known() {
		return
	}
	for _, rule := range restrictions() {
		for _, dotted := range expand(rule.at, p.value, p.state) {
			if is, was, ok := p.changedValue(dotted); ok {
				p.checkRestriction(ctx, rule, dotted, is, was)
			}
		}
	}
}

// expand is a path with the slots that are in use for its "*".
func expand(at string, values ...tftypes.Value) []string {
	family, rest, starred := strings.Cut(at, ".*")
	if !starred {
		return []string{at}
	}
	slots := map[string]bool{}
	for _, v := range values {
		all := map[string]tftypes.Value{}
		if m := tfplan.At(v, family); m.IsKnown() && !m.IsNull() && m.As(&all) == nil {
			for slot := range all {
				slots[slot] = true
			}
		}
	}
	var paths []string
	for _, slot := range slices.SortedFunc(maps.Keys(slots), bySlot) {
		paths = append(paths, family+"."+slot+rest)
	}
	return paths
}

// changedValue gives a value in plan and state if the plan is known to change it on the server.
func (p *planning) changedValue(dotted string) (is, was tftypes.Value, ok bool) {
	steps := strings.Split(dotted, ".")
	is, was = tfplan.At(p.value, steps...), tfplan.At(p.state, steps...)
	switch {
	case !is.IsKnown(), is.IsNull() && was.IsNull(), is.Equal(was):
		return is, was, false
	case is.IsNull() && len(steps) > 1 && isBySlot(steps[0]) && tfplan.At(p.value, steps[:2]...).IsNull():
		return is, was, p.managed(steps[0] + "." + steps[1]) // else the slot is forgotten
	}
	return is, was, true
}

func (p *planning) checkRestriction(ctx context.Context, rule restriction, dotted string, is, was tftypes.Value) {
	identity := p.r.Session.API.Identity()
	if rule.root && !identity.IsRootTicket() && (!rule.everybodyMaySet(is) || !rule.everybodyMaySet(was)) {
		p.refuseRestricted(dotted, "Only root@pam may set "+dotted,
			fmt.Sprintf("PVE lets nobody but the user root@pam with a password change this option; the provider acts as %s. "+
				"Give the provider username = \"root@pam\" and a password, or %s.", identity.User, rule.instead))
	}
	if is.IsNull() {
		return
	}
	p.checkVersion(ctx, rule, dotted)
	if rule.privilege != "" && !identity.IsRootTicket() {
		p.checkPrivilege(ctx, rule, dotted, is)
	}
}

// everybodyMaySet reports whether a value is none of those that are root's.
func (r restriction) everybodyMaySet(v tftypes.Value) bool {
	return v.IsNull() || r.only != nil && !r.only(stringOf(v)) || r.unless != "" && strings.EqualFold(stringOf(v), r.unless)
}

// checkVersion refuses what the release of the server does not have. One that does not tell is left to refuse it itself.
func (p *planning) checkVersion(ctx context.Context, rule restriction, dotted string) {
	if rule.major == 0 && rule.removed == 0 {
		return
	}
	api := p.r.Session.API
	v, err := api.Version(ctx)
	if err != nil || v.Major == 0 {
		return
	}
	if rule.major > 0 && !v.AtLeast(rule.major, rule.minor) {
		p.refuseRestricted(dotted, fmt.Sprintf("%s needs Proxmox VE %d.%d or later", dotted, rule.major, rule.minor),
			fmt.Sprintf("The server at %s runs Proxmox VE %s, which does not have this option. Leave it out, or upgrade the server.",
				api.Endpoint(), v.Version))
	}
	if rule.removed > 0 && v.AtLeast(rule.removed, 0) {
		p.refuseRestricted(dotted, fmt.Sprintf("Proxmox VE %d has no %s any more", rule.removed, dotted),
			fmt.Sprintf("The server at %s runs Proxmox VE %s. Leave the attribute out, and %s.", api.Endpoint(), v.Version, rule.instead))
	}
}

// checkPrivilege asks whether the identity holds the privilege. A server that does not tell is left to refuse the change
// itself.
func (p *planning) checkPrivilege(ctx context.Context, rule restriction, dotted string, is tftypes.Value) {
	api := p.r.Session.API
	object := strings.Replace(rule.object, "%s", stringOf(is), 1)
	held, err := api.Permissions(ctx, object)
	if _, has := held[object][rule.privilege]; err != nil || has {
		return
	}
	text := fmt.Sprintf("It takes the privilege %s on %s; the provider acts as %s, which does not have it. Grant it",
		rule.privilege, object, api.Identity().User)
	if rule.instead != "" {
		text += ", or " + rule.instead
	}
	p.refuseRestricted(dotted, "No permission to set "+dotted, text+".")
}

func (p *planning) refuseRestricted(dotted, summary, detail string) {
	at, _ := p.plan.locator().Attribute(dotted)
	p.diags.AddAttributeError(at, summary, detail)
}
