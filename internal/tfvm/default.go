package tfvm

import (
	"maps"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
)

// withDefaults is the configuration with the provider's defaults where it says nothing about what is to be made: a VM that is not there
// yet, or a device that the VM does not have yet. What is there keeps what it has, whether a default, a person or another tool has
// given it, so a default never makes a difference on an imported VM, nor does a change of it anywhere. What a clone takes from its source
// is not touched either.
func (p *planning) withDefaults(config tftypes.Value) tftypes.Value {
	if p.r.Session == nil || p.r.Session.Defaults.IsZero() || config.IsNull() {
		return config
	}
	d, c := p.r.Session.Defaults, configuration{config}
	all := objectOf(config)
	if p.creating() {
		if c.isNull("nodes") {
			setNull(all, "node", d.Node)
		}
		setNull(all, "pool", d.Pool)
		if len(d.Tags) > 0 && c.isNull("tags") {
			all["tags"] = setOf(d.Tags)
		}
	}
	if p.creating() && c.copies() {
		return tftypes.NewValue(config.Type(), all)
	}
	all["disks"] = eachNew(all["disks"], tfplan.At(p.state, "disks"), func(disk map[string]tftypes.Value) {
		if imported := disk["imported_disk"]; imported.IsKnown() && imported.IsNull() {
			setNull(disk, "storage", d.Storage)
		}
	})
	all["networks"] = eachNew(all["networks"], tfplan.At(p.state, "networks"), func(nic map[string]tftypes.Value) {
		setNull(nic, "bridge", d.Bridge)
	})
	for _, group := range []string{"efi_disk", "tpm_state", "cloud_init"} {
		if tfplan.At(p.state, group).IsNull() && c.isSet(group) {
			inside := objectOf(all[group])
			setNull(inside, "storage", d.Storage)
			all[group] = tftypes.NewValue(all[group].Type(), inside)
		}
	}
	return tftypes.NewValue(config.Type(), all)
}

// objectOf is what is in an object, to be changed.
func objectOf(v tftypes.Value) map[string]tftypes.Value {
	values := map[string]tftypes.Value{}
	_ = v.As(&values)
	return maps.Clone(values)
}

// setNull gives a text where there is none.
func setNull(object map[string]tftypes.Value, name, value string) {
	if has := object[name]; value != "" && has.IsKnown() && has.IsNull() {
		object[name] = text(value)
	}
}

// eachNew changes the devices in a map that the state does not have.
func eachNew(devices, prior tftypes.Value, change func(device map[string]tftypes.Value)) tftypes.Value {
	if !devices.IsKnown() || devices.IsNull() {
		return devices
	}
	all, before := objectOf(devices), map[string]tftypes.Value{}
	if prior.IsKnown() && !prior.IsNull() {
		before = objectOf(prior)
	}
	for slot, v := range all {
		if _, has := before[slot]; has || !v.IsKnown() || v.IsNull() {
			continue
		}
		device := objectOf(v)
		change(device)
		all[slot] = tftypes.NewValue(v.Type(), device)
	}
	return tftypes.NewValue(devices.Type(), all)
}

func setOf(words []string) tftypes.Value {
	elements := make([]tftypes.Value, len(words))
	for i, word := range words {
		elements[i] = text(word)
	}
	return tftypes.NewValue(tftypes.Set{ElementType: tftypes.String}, elements)
}
