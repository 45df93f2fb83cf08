// Package config reads and changes configurations of virtual machines: pending changes, hot-plug, permissions of
// options.
package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// configTypes are the schema types of the options of a VM.
func configTypes(e *engine.Engine) map[string]*schema.Param {
	route, _, known := e.Config.Schema.Route("PUT", "/nodes/x/qemu/100/config")
	if !known {
		return nil
	}
	return route.Params
}

// optionExists reports whether an option can be set or deleted at all (QemuServer.pm option_exists).
func optionExists(e *engine.Engine, opt string) bool {
	switch opt {
	case "node", "vmid", "digest", "skiplock", "delete", "revert", "force", "background_delay", "import-working-storage",
		"cdrom":
		return false
	case "vmstate", "runningmachine", "runningcpu", "meta", "parent", "snaptime":
		return true
	}
	return configTypes(e)[opt] != nil
}

// JSONConfig types values as PVE answers them: integers and booleans are numbers, all the rest strings. memory is a
// string since it is a property string.
func JSONConfig(e *engine.Engine, conf map[string]string) map[string]any {
	types := configTypes(e)
	out := make(map[string]any, len(conf))
	for k, v := range conf {
		p := types[k]
		number := p != nil && (p.Type == "integer" || p.Type == "boolean") || k == "snaptime" || k == "memory" &&
			!e.World.Has(state.MemoryIsText)
		if n, err := strconv.ParseInt(v, 10, 64); number && err == nil {
			out[k] = n
			continue
		}
		out[k] = v
	}
	return out
}

const masked = "**********"

// Mask hides the password as every read does (API2/Qemu.pm).
func Mask(conf map[string]string) map[string]string {
	if _, ok := conf["cipassword"]; ok {
		conf = maps.Clone(conf)
		conf["cipassword"] = masked
	}
	return conf
}

// Get is GET config.
func Get(r *engine.Request) (any, error) {
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	if name := r.Params["snapshot"]; name != "" {
		snap, ok := g.Snaps[name]
		if !ok {
			return nil, perl.Die("snapshot '%s' does not exist", name)
		}
		out := JSONConfig(r.Engine, Mask(snap))
		out["digest"] = g.Digest()
		return out, nil
	}
	conf := maps.Clone(g.Config)
	if !r.Flag("current") {
		maps.Copy(conf, g.Pending)
		for k := range g.Deletes {
			delete(conf, k)
		}
	}
	out := JSONConfig(r.Engine, Mask(conf))
	out["digest"] = g.Digest()
	return out, nil
}

// Pending is GET pending: each option with its current and its pending value.
func Pending(r *engine.Request) (any, error) {
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	current := JSONConfig(r.Engine, Mask(g.Config))
	current["digest"] = g.Digest()
	pending := JSONConfig(r.Engine, Mask(g.Pending))
	if _, ok := pending["cipassword"]; ok {
		pending["cipassword"] = masked + " " // differs from the current value's mask, so that a change is seen
	}
	return PendingList(current, pending, g.Deletes), nil
}

// PendingList is GET pending: every option with its current value, the one that waits, and whether it is to go.
func PendingList(current, pending map[string]any, deletes map[string]int) []any {
	keys := slices.Collect(maps.Keys(current))
	for k := range pending {
		if _, both := current[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	list := make([]any, 0, len(keys))
	for _, k := range keys {
		item := map[string]any{"key": k}
		if v, ok := current[k]; ok {
			item["value"] = v
		}
		if v, ok := pending[k]; ok {
			item["pending"] = v
		}
		if n := deletes[k]; n != 0 {
			item["delete"] = n
		}
		list = append(list, item)
	}
	return list
}

// Write brings a configuration into the form in which the file is written and read back: no unusedN for a volume
// that is in use, smp as sockets, values as their lines hold them, no trailing white space in the description
// (QemuServer.pm write_vm_config, parse_vm_config).
func Write(e *engine.Engine, g *state.Guest) {
	for i, conf := range []map[string]string{g.Config, g.Pending} {
		if v, ok := conf["smp"]; ok {
			conf["sockets"] = v
			delete(conf, "smp")
		}
		if d, ok := conf["description"]; ok {
			// Of a text that is only line breaks no line is written. A blank one and "0" are, and put an end to that before.
			onlyBreaks := strings.Trim(d, "\n") == ""
			switch d = Description(d); {
			case d != "":
				conf["description"] = d
			case i == 1 && !onlyBreaks:
				conf["description"] = " "
			default:
				delete(conf, "description")
			}
		}
		for k, v := range conf {
			if k != "description" {
				conf[k] = asLine(e, k, v)
			}
		}
	}
	inUse := map[string]bool{}
	for _, conf := range []map[string]string{g.Config, g.Pending} {
		for k, v := range conf {
			if !drive.IsDrive(k) {
				continue
			}
			if d := drive.Parse(e, k, v); d != nil {
				inUse[d.File()] = true
			}
		}
	}
	for k, v := range g.Config {
		if drive.HasIndex(k, "unused") && inUse[v] {
			delete(g.Config, k)
		}
	}
}

// Description is a description as it is read back: the file has no lines for one that is false to Perl, and the white
// space at the end goes (QemuServer.pm write_vm_config, parse_vm_config).
func Description(text string) string {
	if text = strings.TrimRightFunc(text, unicode.IsSpace); text == "0" { // Perl's \s, in decoded text
		return ""
	}
	return text
}

// AddUnused notes a volume under the lowest free unusedN (AbstractConfig.pm add_unused_volume).
func AddUnused(conf map[string]string, volid string) {
	free := ""
	for n := 255; n >= 0; n-- {
		key := fmt.Sprintf("unused%d", n)
		if conf[key] == volid {
			return
		}
		if _, taken := conf[key]; !taken {
			free = key
		}
	}
	if free != "" {
		conf[free] = volid
	}
}

// CheckSSHKeys is what ssh-keygen says of each line (pve-common Tools.pm validate_ssh_public_keys).
func CheckSSHKeys(encoded string) error {
	decoded, err := url.PathUnescape(encoded)
	if err != nil {
		return perl.Die("SSH public key validation error")
	}
	kinds := []string{"ssh-ed25519", "ssh-rsa", "ssh-dss", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384",
		"ecdsa-sha2-nistp521",
		"sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"}
	found := false
	for _, line := range strings.Split(decoded, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		at := slices.IndexFunc(fields, func(f string) bool { return slices.Contains(kinds, f) })
		if at < 0 || at+1 >= len(fields) || !strings.HasPrefix(fields[at+1], "AAAA") {
			return perl.Die("SSH public key validation error")
		}
		found = true
	}
	if !found {
		return perl.Die("SSH public key validation error")
	}
	return nil
}

// ClampUnits is the write-time clamp of cpuunits, by the node's control groups (pve-common CGroup.pm,
// clamp_cpu_shares).
func ClampUnits(node *state.Node, params map[string]string) {
	n, err := strconv.Atoi(params["cpuunits"])
	switch {
	case err != nil:
	case node != nil && node.CGroupV1:
		params["cpuunits"] = strconv.Itoa(max(n, 2))
	default:
		params["cpuunits"] = strconv.Itoa(min(n, 10000))
	}
}

// UniqueTags is what an update makes of tags: lower case unless the datacenter's tag-style tells cases apart, each
// once, sorted, joined by ";" (guest-common GuestHelpers.pm get_unique_tags).
func UniqueTags(r *engine.Request, value string) string {
	if !r.W.CaseSensitiveTags {
		value = strings.ToLower(value)
	}
	list := strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(",; \t\n", c) })
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ";")
}

// CheckTags holds a change of tags to the datacenter's policy, which binds all without Sys.Modify on /
// (pve-guest-common GuestHelpers.pm, assert_tag_permissions).
func CheckTags(r *engine.Request, before, after string) error {
	if r.Check("/", "Sys.Modify") == nil {
		return nil
	}
	policy, old, next := state.TagPolicyOf(r.W), perl.ListItems(before), perl.ListItems(after)
	for _, tag := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(old), next...)))) {
		if slices.Contains(old, tag) != slices.Contains(next, tag) && !policy.Allows(r.W, tag) {
			return perl.Die("'Sys.Modify' required on '/' for modifying tag '%s'", tag)
		}
	}
	return nil
}

// NewSMBIOS is smbios1 with another uuid.
func NewSMBIOS(w *state.World, value string) string {
	parts := []string{"uuid=" + w.UUID()}
	for _, part := range strings.Split(value, ",") {
		if part != "" && !strings.HasPrefix(part, "uuid=") {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// ResolveCDROM turns the alias cdrom into ide2.
func ResolveCDROM(conf map[string]string) {
	v, ok := conf["cdrom"]
	if !ok {
		return
	}
	delete(conf, "cdrom")
	if !strings.Contains(v, "media=") {
		v += ",media=cdrom"
	}
	conf["ide2"] = v
}

// KeepMoved notes the old volume as unused; a cloud-init volume is destroyed, or the move fails (QemuConfig.pm,
// add_unused_volume).
func KeepMoved(p engine.Process, g *state.Guest, old string) error {
	if strings.Contains(old, "-cloudinit") {
		p.Logf("found unused cloudinit disk '%s', removing it", old)
		return volume.Free(p, g.Node, old)
	}
	AddUnused(g.Config, old)
	return nil
}
