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

	since   since // the first server that has it; zero: all that the provider works with
	removed since // the first that no longer has it; zero: none

	privilege string // needed on the object
	object    string // "%s" is the value

	instead string // what to do instead
}

// since is from when on a server has something. A node is updated package by package, and says of pve-manager alone which it has: only
// one that is older than the pve-manager of the day on which the package came out is certain to lack it. Any other is asked.
type since struct {
	manager [3]int // pve-manager of that day
	release string // of Proxmox VE, that everybody has it in
	source  string // the package with its version; the place in its source, and the commit
}

func from(major, minor, patch int, release, source string) since {
	return since{[3]int{major, minor, patch}, release, source}
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
		{at: "amd_sev", root: true, instead: qm, since: from(8, 2, 8, "8.3", "qemu-server 8.2.7: QemuServer.pm, confdesc (5d7288a4)")},
		{at: "intel_tdx", root: true, instead: qm,
			since: from(9, 0, 11, "9.1", "qemu-server 9.0.25: QemuServer/CPUConfig.pm, tdx_fmt (db96e126)")},
		{at: "parallel.*", root: true, instead: qm},
		{at: "serial.*.device", root: true, unless: "socket", instead: "use device = \"socket\", or " + qm},
		{at: "usb.*.host", root: true, unless: "spice", instead: mapping},
		{at: "pci.*.host", root: true, instead: mapping},
		{at: "pci.*.romfile", root: true, instead: qm},

		{at: "disks.*.volume", root: true, only: vm.IsDevice, instead: "attach the device on the node with qm set and leave the slot out"},

		{at: "import_working_storage", since: from(8, 2, 8, "8.3", "qemu-server 8.2.7: API2/Qemu.pm, create_vm (95ae60c8)")},
		{at: "vga.clipboard", since: from(8, 0, 9, "8.1", "qemu-server 8.0.9: QemuServer.pm, vga_fmt (b62997a1)")},
		{at: "machine_options.viommu", since: from(8, 1, 10, "8.2", "qemu-server 8.1.2: QemuServer.pm, machine_fmt (2db4c272)")},
		{at: "disks.*.vendor", since: from(8, 1, 4, "8.2", "qemu-server 8.1.0: QemuServer/Drive.pm, scsi_fmt (d1feab4a)")},
		{at: "disks.*.product", since: from(8, 1, 4, "8.2", "qemu-server 8.1.0: QemuServer/Drive.pm, scsi_fmt (d1feab4a)")},
		{at: "machine_options.enable_s3", since: from(8, 3, 5, "8.4", "qemu-server 8.3.10: QemuServer/Machine.pm, machine_fmt (80ddee39)")},
		{at: "machine_options.enable_s4", since: from(8, 3, 5, "8.4", "qemu-server 8.3.10: QemuServer/Machine.pm, machine_fmt (80ddee39)")},
		{at: "efi_disk.ms_cert", since: from(8, 4, 17, "8.4", "qemu-server 8.4.6: QemuServer/Drive.pm, efidisk_fmt (733a8b7d)")},
		{at: "virtiofs.*", since: from(8, 3, 5, "8.4", "qemu-server 8.3.11: QemuServer/Virtiofs.pm (87b22e38)")},
		{at: "machine_options.aw_bits", since: from(9, 0, 9, "9.1", "qemu-server 9.0.21: QemuServer/Machine.pm, machine_fmt (dc52c006)")},
		{at: "memory.allow_ksm", since: from(9, 0, 12, "9.1", "qemu-server 9.0.27: QemuServer.pm, confdesc (ae91d137)")},
		{at: "cpu.guest_phys_bits", since: from(9, 0, 5, "9.1", "qemu-server 9.0.18: QemuServer/CPUConfig.pm, cpu_fmt (2f3c741b)")},
		{at: "pci.*.driver", since: from(9, 0, 11, "9.1", "qemu-server 9.0.25: QemuServer/PCI.pm, hostpci_fmt (aa47045f)")},
		{at: "cpu.level", since: from(9, 1, 15, "9.2", "qemu-server 9.1.14: QemuServer/CPUConfig.pm, cpu_fmt (82f0c412)")},
		{at: "networks.*.host_tunnel", since: from(9, 2, 3, "9.2", "qemu-server 9.1.18: QemuServer/Network.pm, net_fmt (c180ff75)")},

		{at: "ha.failback", since: from(9, 0, 0, "9.0", "pve-ha-manager 5.0.2: HA/Resources.pm, failback (5c528dd)")},
		{at: "ha.group", removed: from(9, 0, 0, "9", "pve-ha-manager 5.0.2: API2/HA/Groups.pm, index (0533db0, 1bc1db5)"),
			instead: "use an HA rule of the datacenter, which names the VM and its nodes"},

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
	if rule.since.release == "" && rule.removed.release == "" {
		return
	}
	api := p.r.Session.API
	v, err := api.Version(ctx)
	if err != nil || v.Major == 0 {
		return
	}
	if rule.since.release != "" && !v.AtLeast(rule.since.manager[:]...) {
		p.refuseRestricted(dotted, fmt.Sprintf("%s needs Proxmox VE %s or later", dotted, rule.since.release),
			fmt.Sprintf("The server at %s runs Proxmox VE %s, which does not have this option. Leave it out, or upgrade the server.",
				api.Endpoint(), v.Version))
	}
	if rule.removed.release != "" && v.AtLeast(rule.removed.manager[:]...) {
		p.refuseRestricted(dotted, fmt.Sprintf("Proxmox VE %s has no %s any more", rule.removed.release, dotted),
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
