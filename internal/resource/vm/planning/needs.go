package planning

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// requirements are the objects and privileges that the apply of a plan needs.
type requirements struct{ *Planning }

// needs are the things that the plan names and the state does not, so that they are asked for.
func (p requirements) needs() []preflight.Need {
	var all []preflight.Need
	add := func(at string, kind preflight.Kind, was, is *string) {
		if is != nil && *is != "" && model.Value(was) != *is {
			all = append(all, preflight.Need{Path: at, Kind: kind, Value: *is, Off: !p.IsStarted()})
		}
	}
	prior, plan := p.Prior, p.Plan
	all = append(all, p.sources()...)
	for _, slot := range model.SortedSlots(plan.CDROMs) {
		if file := plan.CDROMs[slot].File; strings.Contains(model.Value(file), ":iso/") {
			add("cdroms."+slot+".file", preflight.Medium, prior.CDROMs[slot].File, file)
		}
	}
	if cpu := model.Value(plan.CPU).Type; !vm.IsCommonCPU(model.Value(cpu)) {
		add("cpu.type", preflight.CPUType, model.Value(prior.CPU).Type, cpu)
	}
	if p.IsStarted() {
		add("machine", preflight.Machine, prior.Machine, plan.Machine)
	}
	for _, slot := range model.SortedSlots(plan.PCI) {
		add("pci."+slot+".mapping", preflight.PCIMapping, prior.PCI[slot].Mapping, plan.PCI[slot].Mapping)
	}
	for _, slot := range model.SortedSlots(plan.USB) {
		add("usb."+slot+".mapping", preflight.USBMapping, prior.USB[slot].Mapping, plan.USB[slot].Mapping)
	}
	for _, slot := range model.SortedSlots(plan.VirtioFS) {
		add("virtiofs."+slot+".dirid", preflight.DirMapping, prior.VirtioFS[slot].DirID, plan.VirtioFS[slot].DirID)
	}
	was, is := prior.Custom(), plan.Custom()
	add("cloud_init.custom.user", preflight.Snippet, was.User, is.User)
	add("cloud_init.custom.network", preflight.Snippet, was.Network, is.Network)
	add("cloud_init.custom.meta", preflight.Snippet, was.Meta, is.Meta)
	add("cloud_init.custom.vendor", preflight.Snippet, was.Vendor, is.Vendor)
	add("hookscript", preflight.Snippet, prior.HookScript, plan.HookScript)
	add("ha.group", preflight.HAGroup, model.Value(prior.HA).Group, model.Value(plan.HA).Group)
	return append(all, p.firewallNeeds()...)
}

// sources are the volumes that new disks are made of.
func (p requirements) sources() []preflight.Need {
	var all []preflight.Need
	add := func(at string, source, volume, was, size *string) {
		if source == nil || volume != nil || model.Value(was) == *source {
			return
		}
		bytes, _ := property.ParseSize(model.Value(size)) // none is 0
		owner, _ := volid.Owner(*source)                  // likewise
		all = append(all, preflight.Need{Path: at + ".import_from", Kind: preflight.KindOfSource(*source), Value: *source,
			Size: bytes, Loose: p.Run.Seen(owner).Changing, Work: model.Value(p.Plan.ImportStorage)})
	}
	for _, slot := range model.SortedSlots(p.Plan.Disks) {
		if was, d := p.Prior.Disks[slot], p.Plan.Disks[slot]; was.Volume == nil {
			add("disks."+slot, d.ImportFrom, d.Volume, was.ImportFrom, d.Size)
		}
	}
	if is := p.Plan.EFIDisk; is != nil && p.Prior.EFIDisk == nil {
		add("efi_disk", is.ImportFrom, is.Volume, nil, nil)
	}
	if is := p.Plan.TPMState; is != nil && p.Prior.TPMState == nil {
		add("tpm_state", is.ImportFrom, is.Volume, nil, nil)
	}
	return all
}

// formats are the formats of disks that are new, or go to another storage or format.
func (p requirements) formats() []preflight.Format {
	var all []preflight.Format
	for _, slot := range model.SortedSlots(p.Plan.Disks) {
		was, is := p.Prior.Disks[slot], p.Plan.Disks[slot]
		format := p.Config.Text("disks." + slot + ".format")
		_, existed := p.Prior.Disks[slot]
		if isVMDK := strings.HasSuffix(model.Value(is.ImportFrom), ".vmdk"); isVMDK && !existed && is.Storage != nil &&
			is.Size != nil && (format == "" || format == "vmdk") {
			all = append(all, preflight.Format{Path: "disks." + slot + ".format", Storage: *is.Storage, Format: "vmdk",
				Grows: true})
			continue
		}
		if format != "" && is.Storage != nil && (model.Value(was.Storage) != *is.Storage ||
			model.Value(was.Format) != format) {
			all = append(all, preflight.Format{Path: "disks." + slot + ".format", Storage: *is.Storage, Format: format})
		}
	}
	return all
}

// startedCPUs are the CPUs that a VM is started with where the plan changes them, 0 where it does not or that is not
// known.
func (p requirements) startedCPUs() int64 {
	is, was := p.Plan.CPU, p.Prior.CPU
	if is == nil || is.Cores == nil && is.Sockets == nil || !p.IsStarted() {
		return 0
	}
	count := func(of *vm.CPU) int64 {
		c := model.Value(of) // none is one core
		return max(model.Value(c.Cores), 1) * max(model.Value(c.Sockets), 1)
	}
	if !p.Creating() && count(was) == count(is) {
		return 0
	}
	return count(is)
}

// firewallNeeds are the security groups, aliases and IP sets that rules name and none did before. One without a scope
// may be the own one of a VM that is there, or of the source of a copy.
func (p requirements) firewallNeeds() []preflight.Need {
	seen := map[string]bool{}
	var all []preflight.Need
	note := func(rules []firewall.Rule, add bool) {
		for _, rule := range rules {
			names, kind := slices.Concat(p.firewallRefs(rule.Source), p.firewallRefs(rule.Dest)), preflight.FirewallRef
			if model.Value(rule.Type) == "group" {
				names, kind = []string{model.Value(rule.Action)}, preflight.SecurityGroup
			}
			if macro := model.Value(rule.Macro); macro != "" && !seen[macro] {
				if seen[macro] = true; add {
					all = append(all, preflight.Need{Path: "firewall.rules", Kind: preflight.FirewallMacro, Value: macro})
				}
			}
			for _, name := range names {
				if key := string(kind) + " " + name; name != "" && !seen[key] {
					seen[key] = true
					if value := strings.Replace(name, "dc/", "", 1); add {
						own := kind == preflight.FirewallRef && value == name && p.Plan.Copies()
						all = append(all, preflight.Need{Path: "firewall.rules", Kind: kind, Value: value, Own: own})
					}
				}
			}
		}
	}
	note(model.Value(p.Prior.Firewall).Rules, false)
	note(model.Value(p.Plan.Firewall).Rules, true)
	return all
}

// firewallRefs are the aliases and IP sets in a source or a destination of a rule that a plan can look for.
func (p requirements) firewallRefs(addresses *string) []string {
	named := regexp.MustCompile(`^\+?(dc/)?[A-Za-z][A-Za-z0-9_-]+$`)
	var all []string
	for _, one := range strings.Split(model.Value(addresses), ",") {
		one = strings.TrimSpace(one)
		_, err := netip.ParseAddr(one)
		scoped := strings.Contains(one, "dc/")
		if err == nil || !named.MatchString(one) || !scoped && !p.Creating() ||
			strings.HasPrefix(one, "+ipfilter-") {
			continue
		}
		all = append(all, one)
	}
	return slices.Compact(all)
}
