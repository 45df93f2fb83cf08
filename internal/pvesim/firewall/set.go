package firewall

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// firewallAnswer are an object's values with the digest that PVE adds to whatever it reads from the file.
func firewallAnswer(f *state.FirewallFile, values map[string]string) map[string]any {
	out := map[string]any{"digest": firewallDigest(f)}
	for k, v := range values {
		out[k] = v
	}
	for _, k := range []string{"nomatch", "ipversion"} {
		if n, ok := perl.ParseNumber(values[k]); ok {
			out[k] = n
		}
	}
	return out
}

// firewallRefs are the names that a rule may use as its source or destination (pve-firewall Firewall/Helpers.pm,
// collect_refs): the cluster's, and a guest's own.
func firewallRefs(r *engine.Request) (any, error) {
	list := []any{}
	collect := func(f *state.FirewallFile, scope string) {
		add := func(typ, name, ref, comment string) {
			if want := r.Params["type"]; want != "" && want != typ {
				return
			}
			row := map[string]any{"type": typ, "name": name, "ref": ref, "scope": scope}
			if comment != "" {
				row["comment"] = comment
			}
			list = append(list, row)
		}
		for _, name := range slices.Sorted(maps.Keys(f.IPSets)) {
			add("ipset", name, "+"+name, f.IPSets[name].Comment)
		}
		for _, name := range slices.Sorted(maps.Keys(f.Aliases)) {
			add("alias", name, name, f.Aliases[name]["comment"])
		}
	}
	collect(clusterFirewall(r.W), "dc")
	if placeOf(r).vmid != 0 {
		collect(firewallFile(r), "guest")
	}
	return list, nil
}

func listAliases(r *engine.Request) (any, error) {
	f := firewallFile(r)
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(f.Aliases)) {
		list = append(list, firewallAnswer(f, f.Aliases[name]))
	}
	return list, nil
}

// aliasValues are an alias as it is sent: an update replaces all of it (API2/Firewall/Aliases.pm).
func aliasValues(r *engine.Request, name string) map[string]string {
	v := map[string]string{"name": name, "cidr": cleanCIDR(r.Params["cidr"]), "ipversion": "4"}
	if strings.Contains(v["cidr"], ":") {
		v["ipversion"] = "6"
	}
	if c := r.Params["comment"]; c != "" {
		v["comment"] = c
	}
	return v
}

func createAlias(r *engine.Request) (any, error) {
	f, err := writableFirewall(r, firewallDigest)
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(r.Params["name"])
	if f.Aliases[name] != nil {
		return nil, perl.Invalid("name", "alias '"+r.Params["name"]+"' already exists")
	}
	if f.Aliases == nil {
		f.Aliases = map[string]map[string]string{}
	}
	f.Aliases[name] = aliasValues(r, r.Params["name"])
	return nil, nil
}

func readAlias(r *engine.Request) (any, error) {
	f := firewallFile(r)
	a := f.Aliases[strings.ToLower(r.Params["name"])]
	if a == nil {
		return nil, perl.Invalid("name", "no such alias")
	}
	out := firewallAnswer(f, a)
	delete(out, "digest")
	return out, nil
}

func updateAlias(r *engine.Request) (any, error) {
	f, err := writableFirewall(r, firewallDigest)
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(r.Params["name"])
	if f.Aliases[name] == nil {
		return nil, perl.Invalid("name", "no such alias")
	}
	values := aliasValues(r, r.Params["name"])
	if to := strings.ToLower(r.Params["rename"]); to != "" && to != name {
		if f.Aliases[to] != nil {
			return nil, perl.Invalid("name", "alias '"+r.Params["rename"]+"' already exists")
		}
		delete(f.Aliases, name)
		name, values["name"] = to, r.Params["rename"]
	}
	f.Aliases[name] = values
	return nil, nil
}

func deleteAlias(r *engine.Request) (any, error) {
	f, err := writableFirewall(r, firewallDigest)
	if err != nil {
		return nil, err
	}
	delete(f.Aliases, strings.ToLower(r.Params["name"]))
	return nil, nil
}

// cleanCIDR clears the bits behind the prefix, and drops a prefix that is the whole address (Firewall.pm, clean_cidr
// and parse_ip_or_cidr). Names of aliases stay.
func cleanCIDR(cidr string) string {
	p, err := netip.ParsePrefix(cidr)
	switch {
	case err != nil:
		return cidr
	case p.IsSingleIP():
		return p.Addr().String()
	}
	return p.Masked().String()
}

func listIPSets(r *engine.Request) (any, error) {
	f := firewallFile(r)
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(f.IPSets)) {
		values := map[string]string{"name": name}
		if c := f.IPSets[name].Comment; c != "" {
			values["comment"] = c
		}
		list = append(list, firewallAnswer(f, values))
	}
	return list, nil
}

// createIPSet is POST ipset: a new set, or, with "rename", another name and comment for the set of that name.
func createIPSet(r *engine.Request) (any, error) {
	f, err := writableFirewall(r, firewallDigest)
	if err != nil {
		return nil, err
	}
	name, old := r.Params["name"], r.Params["rename"]
	set := &state.IPSet{}
	switch {
	case old != "" && f.IPSets[old] == nil:
		return nil, perl.Invalid("name", "IPSet '"+old+"' does not exist")
	case old != "" && old != name && f.IPSets[name] != nil:
		return nil, perl.Invalid("name", "IPSet '"+name+"' does already exist")
	case old == "" && f.IPSets[name] != nil:
		return nil, perl.Invalid("name", "IPSet '"+name+"' already exists")
	case old != "":
		set = f.IPSets[old]
		delete(f.IPSets, old)
	case f.IPSets == nil:
		f.IPSets = map[string]*state.IPSet{}
	}
	if c, ok := r.Params["comment"]; ok {
		set.Comment = c
	}
	f.IPSets[name] = set
	return nil, nil
}

// ipset finds the set of the path in a file that may be changed.
func ipset(r *engine.Request) (*state.FirewallFile, *state.IPSet, error) {
	f, err := writableFirewall(r, firewallDigest)
	if err != nil {
		return nil, nil, err
	}
	set := f.IPSets[r.Params["name"]]
	if set == nil {
		return nil, nil, perl.Die("no such IPSet '%s'", r.Params["name"])
	}
	return f, set, nil
}

func readIPSet(r *engine.Request) (any, error) {
	f := firewallFile(r)
	set := f.IPSets[r.Params["name"]]
	if set == nil {
		return nil, perl.Die("no such IPSet '%s'", r.Params["name"])
	}
	list := []any{}
	for _, e := range set.Entries {
		list = append(list, firewallAnswer(f, e))
	}
	return list, nil
}

func addToIPSet(r *engine.Request) (any, error) {
	f, set, err := ipset(r)
	if err != nil {
		return nil, err
	}
	cidr := cleanCIDR(r.Params["cidr"])
	if m := aliasName.FindStringSubmatch(cidr); len(m) > 1 && !hasAlias(r.W, f, m[1]) {
		return nil, perl.Die("no such alias '%s'", cidr)
	}
	if entryIndex(set, cidr) >= 0 {
		return nil, perl.Invalid("cidr", "address '"+cidr+"' already exists")
	}
	if strings.HasSuffix(cidr, "/0") {
		return nil, perl.Invalid("cidr", "a zero prefix is not allowed in ipset entries")
	}
	set.Entries = slices.Insert(set.Entries, 0, copyRule(map[string]string{"cidr": cidr}, entryValues(r)))
	return nil, nil
}

func entryIndex(set *state.IPSet, cidr string) int {
	return slices.IndexFunc(set.Entries, func(e map[string]string) bool { return e["cidr"] == cidr })
}

// entryValues are comment and nomatch as sent; empty ones and "0" are not stored.
func entryValues(r *engine.Request) map[string]string {
	v := map[string]string{"comment": r.Params["comment"], "nomatch": r.Params["nomatch"]}
	if v["nomatch"] == "0" {
		v["nomatch"] = ""
	}
	return v
}

func deleteIPSet(r *engine.Request) (any, error) {
	f, set, err := ipset(r)
	if err != nil {
		return nil, err
	}
	if len(set.Entries) > 0 && r.Params["force"] != "1" {
		return nil, perl.Die("IPSet '%s' is not empty", r.Params["name"])
	}
	delete(f.IPSets, r.Params["name"])
	return nil, nil
}

func readIPSetEntry(r *engine.Request) (any, error) {
	f := firewallFile(r)
	set := f.IPSets[r.Params["name"]]
	if set == nil {
		return nil, perl.Die("no such IPSet '%s'", r.Params["name"])
	}
	i := entryIndex(set, r.Params["cidr"])
	if i < 0 {
		return nil, perl.Invalid("cidr", "no such IP/Network")
	}
	return firewallAnswer(f, set.Entries[i]), nil
}

func updateIPSetEntry(r *engine.Request) (any, error) {
	_, set, err := ipset(r)
	if err != nil {
		return nil, err
	}
	i := entryIndex(set, r.Params["cidr"])
	if i < 0 {
		return nil, perl.Invalid("cidr", "no such IP/Network")
	}
	set.Entries[i] = copyRule(set.Entries[i], entryValues(r))
	return nil, nil
}

// deleteIPSetEntry is content with an entry that is not there.
func deleteIPSetEntry(r *engine.Request) (any, error) {
	_, set, err := ipset(r)
	if err != nil {
		return nil, err
	}
	if i := entryIndex(set, r.Params["cidr"]); i >= 0 {
		set.Entries = slices.Delete(set.Entries, i, i+1)
	}
	return nil, nil
}
