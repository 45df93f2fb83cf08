package tfvm

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// needs are the things that the plan names and the state does not, so that they are asked for.
func (p *planning) needs() []preflight.Need {
	var all []preflight.Need
	add := func(at string, kind preflight.Kind, was, is *string) {
		if is != nil && *is != "" && value(was) != *is {
			all = append(all, preflight.Need{Path: at, Kind: kind, Value: *is})
		}
	}
	prior, plan := p.prior, p.plan
	all = append(all, p.sources()...)
	for _, slot := range sortedSlots(plan.CDROMs) {
		if file := plan.CDROMs[slot].File; strings.Contains(value(file), ":iso/") {
			add("cdroms."+slot+".file", preflight.Medium, prior.CDROMs[slot].File, file)
		}
	}
	if is := plan.CPU; is != nil {
		var was *string
		if prior.CPU != nil {
			was = prior.CPU.Type
		}
		if !vm.IsCommonCPU(value(is.Type)) {
			add("cpu.type", preflight.CPUType, was, is.Type)
		}
	}
	if p.isStarted() {
		add("machine", preflight.Machine, prior.Machine, plan.Machine)
	}
	for _, slot := range sortedSlots(plan.PCI) {
		add("pci."+slot+".mapping", preflight.PCIMapping, prior.PCI[slot].Mapping, plan.PCI[slot].Mapping)
	}
	for _, slot := range sortedSlots(plan.USB) {
		add("usb."+slot+".mapping", preflight.USBMapping, prior.USB[slot].Mapping, plan.USB[slot].Mapping)
	}
	for _, slot := range sortedSlots(plan.VirtioFS) {
		add("virtiofs."+slot+".dirid", preflight.DirMapping, prior.VirtioFS[slot].DirID, plan.VirtioFS[slot].DirID)
	}
	was, is := prior.custom(), plan.custom()
	add("cloud_init.custom.user", preflight.Snippet, was.User, is.User)
	add("cloud_init.custom.network", preflight.Snippet, was.Network, is.Network)
	add("cloud_init.custom.meta", preflight.Snippet, was.Meta, is.Meta)
	add("cloud_init.custom.vendor", preflight.Snippet, was.Vendor, is.Vendor)
	add("hookscript", preflight.Snippet, prior.HookScript, plan.HookScript)
	if plan.HA != nil {
		var was *string
		if prior.HA != nil {
			was = prior.HA.Group
		}
		add("ha.group", preflight.HAGroup, was, plan.HA.Group)
	}
	return append(all, p.firewallNeeds()...)
}

// sources are the volumes that new disks are made of.
func (p *planning) sources() []preflight.Need {
	var all []preflight.Need
	add := func(at string, source, volume, was, size *string) {
		if source == nil || volume != nil || value(was) == *source {
			return
		}
		bytes, _ := vm.ParseSize(value(size)) // none is 0
		all = append(all, preflight.Need{Path: at + ".import_from", Kind: preflight.KindOfSource(*source), Value: *source, Size: bytes,
			Work: value(p.plan.ImportStorage)})
	}
	for _, slot := range sortedSlots(p.plan.Disks) {
		if was, d := p.prior.Disks[slot], p.plan.Disks[slot]; was.Volume == nil {
			add("disks."+slot, d.ImportFrom, d.Volume, was.ImportFrom, d.Size)
		}
	}
	if is := p.plan.EFIDisk; is != nil && p.prior.EFIDisk == nil {
		add("efi_disk", is.ImportFrom, is.Volume, nil, nil)
	}
	if is := p.plan.TPMState; is != nil && p.prior.TPMState == nil {
		add("tpm_state", is.ImportFrom, is.Volume, nil, nil)
	}
	return all
}

// formats are the formats of disks that are new, or go to another storage or format.
func (p *planning) formats() []preflight.Format {
	var all []preflight.Format
	for _, slot := range sortedSlots(p.plan.Disks) {
		was, is := p.prior.Disks[slot], p.plan.Disks[slot]
		format := p.config.text("disks." + slot + ".format")
		if format != "" && is.Storage != nil && (value(was.Storage) != *is.Storage || value(was.Format) != format) {
			all = append(all, preflight.Format{Path: "disks." + slot + ".format", Storage: *is.Storage, Format: format})
		}
	}
	return all
}

// isStarted reports whether the apply starts the VM, or may restart it.
func (p *planning) isStarted() bool {
	if p.creating() {
		return p.plan.startsWhenMade()
	}
	return p.runs() || value(p.plan.PowerState) == string(guest.Running)
}

// startedCPUs are the CPUs that a VM is started with where the plan changes them, 0 where it does not or that is not known.
func (p *planning) startedCPUs() int64 {
	is, was := p.plan.CPU, p.prior.CPU
	if is == nil || is.Cores == nil && is.Sockets == nil || !p.isStarted() {
		return 0
	}
	count := func(c *vm.CPU) int64 {
		if c == nil {
			return 1
		}
		return max(value(c.Cores), 1) * max(value(c.Sockets), 1)
	}
	if !p.creating() && count(was) == count(is) {
		return 0
	}
	return count(is)
}

// custom is the cloud-init data of the configuration's own.
func (m *model) custom() vm.CustomData {
	if m.CloudInit == nil || m.CloudInit.Custom == nil {
		return vm.CustomData{}
	}
	return *m.CloudInit.Custom
}

// firewallNeeds are the security groups, aliases and IP sets that rules name and none did before. One without a scope may be the VM's
// own, unless the VM is made from scratch.
func (p *planning) firewallNeeds() []preflight.Need {
	seen := map[string]bool{}
	var all []preflight.Need
	note := func(rules []guest.FirewallRule, add bool) {
		for _, rule := range rules {
			names, kind := slices.Concat(p.datacenterRefs(rule.Source), p.datacenterRefs(rule.Dest)), preflight.FirewallRef
			if value(rule.Type) == "group" {
				names, kind = []string{value(rule.Action)}, preflight.SecurityGroup
			}
			for _, name := range names {
				if key := string(kind) + " " + name; name != "" && !seen[key] {
					seen[key] = true
					if add {
						all = append(all, preflight.Need{Path: "firewall.rules", Kind: kind, Value: name})
					}
				}
			}
		}
	}
	if p.prior.Firewall != nil {
		note(p.prior.Firewall.Rules, false)
	}
	if p.plan.Firewall != nil {
		note(p.plan.Firewall.Rules, true)
	}
	return all
}

// datacenterRefs are the aliases and IP sets of the datacenter in a source or a destination of a rule.
func (p *planning) datacenterRefs(addresses *string) []string {
	named := regexp.MustCompile(`^\+?(dc/)?[A-Za-z][A-Za-z0-9_-]+$`)
	var all []string
	for _, one := range strings.Split(value(addresses), ",") {
		one = strings.TrimSpace(one)
		_, err := netip.ParseAddr(one)
		scoped := strings.Contains(one, "dc/")
		if err == nil || !named.MatchString(one) || !scoped && (!p.creating() || p.plan.copies()) || strings.HasPrefix(one, "+ipfilter-") {
			continue
		}
		all = append(all, strings.Replace(one, "dc/", "", 1))
	}
	return slices.Compact(all)
}
