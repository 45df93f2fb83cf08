package tfvm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// ValidateConfig refuses what no server could accept, with what is known of the configuration.
func (r *Resource) ValidateConfig(_ context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	c := &checker{config: req.Config.Raw}
	c.sources()
	c.disks()
	c.specialDisks()
	c.cloudInit()
	c.devices()
	c.memory()
	c.processors()
	c.groups()
	c.passedThrough()
	c.power()
	c.waiting()
	c.firewall()
	c.ha()
	resp.Diagnostics.Append(c.diags...)
}

// checker gathers what is wrong with a configuration.
type checker struct {
	config tftypes.Value
	diags  diag.Diagnostics
}

const invalid = "Invalid configuration"

// at is a configured value.
func (c *checker) at(dotted string) tftypes.Value {
	return tfplan.At(c.config, strings.Split(dotted, ".")...)
}

// missing reports whether a value is surely not configured.
func (c *checker) missing(dotted string) bool { return c.at(dotted).IsKnown() && c.at(dotted).IsNull() }

// set reports whether a value is surely configured.
func (c *checker) set(dotted string) bool { return c.at(dotted).IsKnown() && !c.at(dotted).IsNull() }

// says is a known text, or "".
func (c *checker) says(dotted string) string {
	if !c.set(dotted) {
		return ""
	}
	return stringOf(c.at(dotted))
}

// keys are the known keys of a map, sorted; ok is false when the map is not known.
func (c *checker) keys(dotted string) (keys []string, ok bool) {
	v := c.at(dotted)
	if !v.IsKnown() {
		return nil, false
	}
	elements := map[string]tftypes.Value{}
	if !v.IsNull() && v.As(&elements) != nil {
		return nil, false
	}
	return slices.Sorted(maps.Keys(elements)), true
}

func (c *checker) refuse(dotted, format string, args ...string) {
	text := format
	for _, arg := range args {
		text = strings.Replace(text, "%s", arg, 1)
	}
	at, _ := locator{}.Attribute(dotted)
	c.diags.AddAttributeError(at, invalid, text)
}

// sources sees to it that a clone has exactly one source, and that a linked clone is not asked for what it cannot do.
func (c *checker) sources() {
	if !c.set("clone") {
		return
	}
	var named []string
	open := false
	for _, selector := range []string{"vmid", "name", "tags"} {
		if c.set("clone." + selector) {
			named = append(named, selector)
		}
		open = open || !c.at("clone."+selector).IsKnown()
	}
	switch {
	case len(named) > 1:
		c.refuse("clone."+named[1], "A clone has exactly one source, but %s are set. Set one of vmid, name and tags.", strings.Join(named, " and "))
	case len(named) == 0 && !open:
		c.refuse("clone", "A clone needs a source: set one of vmid, name and tags.")
	}
	full := c.at("clone.full")
	if isFull := true; c.set("clone.full") && full.As(&isFull) == nil && !isFull {
		for _, option := range []string{"storage", "format"} {
			if c.set("clone." + option) {
				c.refuse("clone."+option, "A linked clone stays where its template is: %s is only for full = true.", option)
			}
		}
	}
}

// disks demands what a new disk cannot be made without. With clone the source may give it.
func (c *checker) disks() {
	slots, _ := c.keys("disks")
	for _, slot := range slots {
		at := "disks." + slot
		if c.missing("clone") {
			if c.missing(at+".storage") && c.missing(at+".volume") {
				c.refuse(at+".storage", "The disk %s needs a storage.", slot)
			}
			if c.missing(at+".size") && c.missing(at+".import_from") && c.missing(at+".volume") {
				c.refuse(at+".size", "The disk %s needs a size, or import_from to take it from an image.", slot)
			}
		}
		if c.set(at+".import_from") && c.missing(at+".storage") && !c.missing("clone") {
			c.refuse(at+".storage", "The disk %s needs a storage: import_from makes a new disk.", slot)
		}
		c.diskOptions(at, slot)
	}
	c.namedVolumes(slots)
}

// namedVolumes refuses a volume beside an image to copy, and one volume in two slots.
func (c *checker) namedVolumes(slots []string) {
	user := map[string]string{}
	for _, slot := range slots {
		at := "disks." + slot + ".volume"
		volume := c.says(at)
		if c.set(at) && c.set("disks."+slot+".import_from") {
			c.refuse(at, "The disk %s is either a volume that exists or a copy: set volume or import_from.", slot)
		}
		if other := user[volume]; volume != "" && other != "" {
			c.refuse(at, "The volume %s is named twice: for %s and here.", volume, other)
		}
		user[volume] = slot
	}
}

// firstVolumes refuses volumes for a VM that is not there yet.
func (c *checker) firstVolumes() {
	slots, _ := c.keys("disks")
	for _, slot := range slots {
		if c.set("disks." + slot + ".volume") {
			c.refuse("disks."+slot+".volume", newHasNone, c.says("disks."+slot+".volume"))
		}
	}
}

const newHasNone = "A VM that is to be made has no volumes, so it cannot have %s. Set storage and size, or import_from to copy a volume."

func (c *checker) specialDisks() {
	for _, group := range []string{"efi_disk", "tpm_state"} {
		if c.set(group) && c.missing(group+".storage") && c.missing("clone") {
			c.refuse(group+".storage", "%s needs a storage.", group)
		}
	}
	bios := c.at("bios")
	if c.set("efi_disk") && bios.IsKnown() && c.missing("clone") && c.says("bios") != "ovmf" {
		c.diags.AddAttributeWarning(path.Root("efi_disk"), "The EFI disk is not used",
			"Only the firmware ovmf uses it. Set bios = \"ovmf\", or leave efi_disk out.")
	}
}

// cloudInit ties addresses to network devices, and gateways to addresses.
func (c *checker) cloudInit() {
	if c.set("cloud_init") && c.missing("cloud_init.storage") && c.missing("clone") {
		c.refuse("cloud_init.storage", "cloud_init needs a storage for its drive.")
	}
	nics, known := c.keys("networks")
	known = known && c.set("networks")
	slots, _ := c.keys("cloud_init.addresses")
	for _, slot := range slots {
		at := "cloud_init.addresses." + slot
		if known && !slices.Contains(nics, slot) {
			c.refuse(at, "There is no network device %s: networks has %s.", slot, list(nics))
		}
		if c.set(at) && c.missing(at+".ipv4") && c.missing(at+".ipv6") && c.missing(at+".gateway4") && c.missing(at+".gateway6") {
			c.refuse(at, "The entry is empty: set ipv4 or ipv6, or leave %s out.", slot)
		}
		for _, family := range []string{"4", "6"} {
			address := c.says(at + ".ipv" + family)
			fixed := strings.Contains(address, "/")
			if c.set(at+".gateway"+family) && !fixed && c.at(at+".ipv"+family).IsKnown() {
				c.refuse(at+".gateway"+family, "A gateway needs a fixed address in ipv%s; with dhcp or auto the network gives it.", family)
			}
		}
	}
}

// devices refuses a slot that two devices share.
func (c *checker) devices() {
	user := map[string]string{}
	for _, group := range []string{"disks", "cdroms"} {
		slots, _ := c.keys(group)
		for _, slot := range slots {
			if other := user[slot]; other != "" {
				c.refuse(group+"."+slot, "The slot %s is used twice: in %s and here.", slot, other)
			}
			user[slot] = group
		}
	}
	slot := c.says("cloud_init.slot")
	if slot == "" && c.set("cloud_init.storage") && c.missing("cloud_init.slot") && c.missing("clone") {
		slot = vm.DefaultCloudInitSlot
	}
	if other := user[slot]; slot != "" && other != "" {
		c.refuse("cloud_init.slot", "The slot %s is used twice: in %s and for the cloud-init drive. Set cloud_init.slot to another one.", slot, other)
	}
}

// bootOrder refuses devices that a new VM does not have. A clone and an adopted VM may have more devices than the
// configuration names.
func (c *checker) bootOrder() {
	if !c.set("boot_order") || !c.at("boot_order").IsFullyKnown() || !c.missing("clone") {
		return
	}
	var exist []string
	for _, group := range []string{"disks", "cdroms", "networks"} {
		slots, ok := c.keys(group)
		if !ok {
			return
		}
		exist = append(exist, slots...)
	}
	switch {
	case !c.at("cloud_init").IsKnown() || !c.at("cloud_init.slot").IsKnown():
		return
	case c.says("cloud_init.slot") != "":
		exist = append(exist, c.says("cloud_init.slot"))
	case c.set("cloud_init"):
		exist = append(exist, vm.DefaultCloudInitSlot)
	}
	for _, device := range texts(c.at("boot_order")) {
		if !slices.Contains(exist, device) {
			c.refuse("boot_order", "There is no device %s: the configuration has %s.", device, list(exist))
		}
	}
}

func (c *checker) memory() {
	size, balloon := c.at("memory.size"), c.at("memory.balloon")
	if !c.set("memory.size") || !c.set("memory.balloon") {
		return
	}
	most, least := floatOf(size), floatOf(balloon)
	if least > most {
		c.refuse("memory.balloon", fmt.Sprintf("The balloon (%.0f MiB) is larger than the memory (%.0f MiB).", least, most))
	}
}

// power refuses a template that runs: PVE starts none.
func (c *checker) power() {
	if v, on := c.at("template"), false; c.set("template") && v.As(&on) == nil && on && c.says("power_state") == "running" {
		c.refuse("power_state", "A template cannot run. Leave power_state out, or set it to stopped.")
	}
}

const cpuNeedsType = "PVE takes flags and other details only together with a CPU model: set cpu.type too."

// hasDetails reports whether there is more than the type in PVE's option cpu.
func (c *cpuModel) hasDetails() bool {
	return len(c.Flags) > 0 || c.Hidden != nil || c.HVVendorID != nil || c.PhysBits != nil || c.GuestPhysBits != nil || c.Level != nil || c.ReportedModel != nil
}

// beginnings refuses what only a new VM that is no clone lacks: options that PVE knows only together with others.
func (c *checker) beginnings() {
	if !c.missing("clone") {
		return
	}
	details := c.set("cpu.flags") && len(texts(c.at("cpu.flags"))) > 0
	for _, key := range []string{"hidden", "hv_vendor_id", "phys_bits", "guest_phys_bits", "level", "reported_model"} {
		details = details || c.set("cpu."+key)
	}
	if details && c.missing("cpu.type") {
		c.refuse("cpu.type", cpuNeedsType)
	}
	for _, required := range []string{"efi_disk.type", "efi_disk.pre_enrolled_keys", "tpm_state.version"} {
		group, key, _ := strings.Cut(required, ".")
		if c.set(group+".import_from") && c.missing(required) {
			c.refuse(required, "PVE does not look into what is imported: %s needs %s to say what it is.", group, key)
		}
	}
	c.agentToWaitFor()
	if (c.set("agent.type") || c.set("agent.fstrim_cloned_disks") || c.set("agent.freeze_fs_on_backup")) && c.missing("agent.enabled") {
		c.refuse("agent.enabled", "PVE takes the agent's options only together with enabled: set it too.")
	}
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
