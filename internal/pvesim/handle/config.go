package handle

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// configTypes are the schema types of the options of a VM.
func (s *Server) configTypes() map[string]*schema.Param {
	route, _, known := s.schema.Route("PUT", "/nodes/x/qemu/100/config")
	if !known {
		return nil
	}
	return route.Params
}

// optionExists reports whether an option can be set or deleted at all (QemuServer.pm option_exists).
func (s *Server) optionExists(opt string) bool {
	switch opt {
	case "node", "vmid", "digest", "skiplock", "delete", "revert", "force", "background_delay", "import-working-storage", "cdrom":
		return false
	case "vmstate", "runningmachine", "runningcpu", "meta", "parent", "snaptime":
		return true
	}
	return s.configTypes()[opt] != nil
}

// jsonConfig types values as PVE answers them: integers and booleans are numbers, all the rest strings. memory is a
// string since it is a property string.
func (s *Server) jsonConfig(conf map[string]string) map[string]any {
	types := s.configTypes()
	out := make(map[string]any, len(conf))
	for k, v := range conf {
		p := types[k]
		number := p != nil && (p.Type == "integer" || p.Type == "boolean") || k == "snaptime" || k == "memory" && !s.world.Has(state.MemoryIsText)
		if n, err := strconv.ParseInt(v, 10, 64); number && err == nil {
			out[k] = n
			continue
		}
		out[k] = v
	}
	return out
}

const masked = "**********"

// mask hides the password as every read does (API2/Qemu.pm).
func mask(conf map[string]string) map[string]string {
	if _, ok := conf["cipassword"]; ok {
		conf = maps.Clone(conf)
		conf["cipassword"] = masked
	}
	return conf
}

func configGet(r *Request) (any, error) {
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
	if name := r.Params["snapshot"]; name != "" {
		snap, ok := g.Snaps[name]
		if !ok {
			return nil, Die("snapshot '%s' does not exist", name)
		}
		out := r.Server.jsonConfig(mask(snap))
		out["digest"] = g.Digest()
		return out, nil
	}
	conf := maps.Clone(g.Config)
	if !r.flag("current") {
		maps.Copy(conf, g.Pending)
		for k := range g.Deletes {
			delete(conf, k)
		}
	}
	out := r.Server.jsonConfig(mask(conf))
	out["digest"] = g.Digest()
	return out, nil
}

func configPending(r *Request) (any, error) {
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
	current := r.Server.jsonConfig(mask(g.Config))
	current["digest"] = g.Digest()
	pending := r.Server.jsonConfig(mask(g.Pending))
	if _, ok := pending["cipassword"]; ok {
		pending["cipassword"] = masked + " " // differs from the current value's mask, so that a change is seen
	}
	return pendingList(current, pending, g.Deletes), nil
}

// pendingList is GET pending: every option with its current value, the one that waits, and whether it is to go.
func pendingList(current, pending map[string]any, deletes map[string]int) []any {
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

// writeConfig brings a configuration into the form in which the file is written and read back: no unusedN for a volume
// that is in use, smp as sockets, empty values as one space, no trailing white space in the description
// (QemuServer.pm write_vm_config, parse_vm_config).
func (s *Server) writeConfig(g *state.Guest) {
	for _, conf := range []map[string]string{g.Config, g.Pending} {
		if v, ok := conf["smp"]; ok {
			conf["sockets"] = v
			delete(conf, "smp")
		}
		if d, ok := conf["description"]; ok {
			if d = strings.TrimRightFunc(d, unicode.IsSpace); d == "" || d == "0" { // \s, and what is false, of Perl
				delete(conf, "description")
			} else {
				conf["description"] = d
			}
		}
		for k, v := range conf {
			if v == "" {
				conf[k] = " "
			}
		}
	}
	inUse := map[string]bool{}
	for _, conf := range []map[string]string{g.Config, g.Pending} {
		for k, v := range conf {
			if !isDrive(k) {
				continue
			}
			if d := s.parseDrive(k, v); d != nil && !d.isCDROM() {
				inUse[d.file()] = true
			}
		}
	}
	for k, v := range g.Config {
		if hasIndex(k, "unused") && inUse[v] {
			delete(g.Config, k)
		}
	}
}

// addUnused notes a volume under the lowest free unusedN (AbstractConfig.pm add_unused_volume).
func addUnused(g *state.Guest, volid string) {
	free := ""
	for n := 255; n >= 0; n-- {
		key := fmt.Sprintf("unused%d", n)
		if g.Config[key] == volid {
			return
		}
		if _, taken := g.Config[key]; !taken {
			free = key
		}
	}
	if free != "" {
		g.Config[free] = volid
	}
}

// checkSSHKeys is what ssh-keygen says of each line (pve-common Tools.pm validate_ssh_public_keys).
func checkSSHKeys(encoded string) error {
	decoded, err := url.PathUnescape(encoded)
	if err != nil {
		return Die("SSH public key validation error")
	}
	kinds := []string{"ssh-ed25519", "ssh-rsa", "ssh-dss", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
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
			return Die("SSH public key validation error")
		}
		found = true
	}
	if !found {
		return Die("SSH public key validation error")
	}
	return nil
}

// clampUnits is the write-time clamp of cpuunits, by the node's control groups (pve-common CGroup.pm, clamp_cpu_shares).
func clampUnits(node *state.Node, params map[string]string) {
	n, err := strconv.Atoi(params["cpuunits"])
	switch {
	case err != nil:
	case node != nil && node.CGroupV1:
		params["cpuunits"] = strconv.Itoa(max(n, 2))
	default:
		params["cpuunits"] = strconv.Itoa(min(n, 10000))
	}
}

// uniqueTags is what an update makes of tags: lower case unless the datacenter's tag-style tells cases apart, each once,
// sorted, joined by ";" (guest-common GuestHelpers.pm get_unique_tags).
func (r *Request) uniqueTags(value string) string {
	if !r.W.CaseSensitiveTags {
		value = strings.ToLower(value)
	}
	list := strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(",; \t\n", c) })
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ";")
}

// splitList cuts a PVE list: comma, semicolon, white space or NUL (pve-common Tools.pm split_list).
func splitList(s string) []string {
	return strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune(",; \t\n\x00", c) })
}
