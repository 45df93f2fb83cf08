package handle

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func firewallRoutes() Routes {
	const base = "/nodes/{node}/qemu/{vmid}/firewall"
	return Routes{
		"GET " + base:                     firewallIndex,
		"GET " + base + "/options":        firewallOptions,
		"PUT " + base + "/options":        firewallSetOptions,
		"GET " + base + "/rules":          firewallRules,
		"POST " + base + "/rules":         firewallAddRule,
		"GET " + base + "/rules/{pos}":    firewallRule,
		"PUT " + base + "/rules/{pos}":    firewallSetRule,
		"DELETE " + base + "/rules/{pos}": firewallDeleteRule,
	}
}

func firewallIndex(*Request) (any, error) {
	list := []any{}
	for _, n := range []string{"rules", "aliases", "ipset", "refs", "options"} {
		list = append(list, map[string]any{"name": n})
	}
	return list, nil
}

// firewallFile reads the VM's firewall configuration. A file may outlive its VM, and a VM may have none.
func (r *Request) firewallFile() *state.FirewallFile {
	if f := r.W.Firewall[r.vmid()]; f != nil {
		return f
	}
	return &state.FirewallFile{}
}

// writableFirewall is the file to change, made if there is none; the VM itself must exist. digest is that of what is to be changed,
// nil where PVE takes one and compares it with nothing.
func (r *Request) writableFirewall(digest func(*state.FirewallFile) string) (*state.FirewallFile, error) {
	if _, err := r.guest(); err != nil {
		return nil, err
	}
	if err := r.Server.lockFirewall(r.vmid()); err != nil {
		return nil, err
	}
	if want := r.Params["digest"]; want != "" && digest != nil && want != digest(r.firewallFile()) {
		return nil, Die("detected modified configuration - file changed by other user? Try again.")
	}
	f := r.firewallFile()
	if f.Options == nil {
		f.Options = map[string]string{}
	}
	r.W.Firewall[r.vmid()] = f
	return f, nil
}

// optionsDigest and rulesDigest are made of the options alone, or of the rules alone, whatever else the file has and whose it is
// (pve-firewall Firewall.pm copy_opject_with_digest, copy_list_with_digest).
func optionsDigest(f *state.FirewallFile) string { return objectsDigest(f.Options) }

func rulesDigest(f *state.FirewallFile) string { return objectsDigest(f.Rules...) }

func objectsDigest(objects ...map[string]string) string {
	sum := sha1.New()
	for _, object := range objects {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			_, _ = fmt.Fprintf(sum, "%s:%s\n", name, object[name]) // never fails
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// firewallDigest is the SHA1 of the file's text, for aliases and sets; that of an empty file if there is none.
func firewallDigest(f *state.FirewallFile) string {
	var text []byte
	if len(f.Options)+len(f.Rules)+len(f.Aliases)+len(f.IPSets) > 0 {
		text, _ = json.Marshal(f) // strings and lists of them only
	}
	sum := sha1.Sum(text)
	return hex.EncodeToString(sum[:])
}

func isNumber(value string) (int, bool) {
	n, err := strconv.Atoi(value)
	return n, err == nil
}

func typed(values map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range values {
		if n, ok := isNumber(v); ok && slices.Contains([]string{"enable", "dhcp", "ipfilter", "macfilter", "ndp", "radv", "pos"}, k) {
			out[k] = n
			continue
		}
		out[k] = v
	}
	return out
}

// firewallOptions reads the file, whether there is a guest or not (pve-firewall API2/Firewall/VM.pm get_options).
func firewallOptions(r *Request) (any, error) {
	f := r.firewallFile()
	out := typed(f.Options)
	out["digest"] = optionsDigest(f)
	return out, nil
}

func (r *Request) bodyParams() map[string]string {
	p := maps.Clone(r.Params)
	for _, k := range []string{"node", "vmid", "digest", "pos", "delete", "moveto"} {
		delete(p, k)
	}
	return p
}

func firewallSetOptions(r *Request) (any, error) {
	f, err := r.writableFirewall(optionsDigest)
	if err != nil {
		return nil, err
	}
	for _, k := range splitList(r.Params["delete"]) {
		delete(f.Options, k)
	}
	maps.Copy(f.Options, r.bodyParams())
	return nil, nil
}
