// Package property reads and prints PVE's property strings, lists, sizes and other values of options.
package property

import (
	"maps"
	"slices"
	"strings"
)

// Parse splits one of PVE's property strings ("a,key=b,…", pve-common JSONSchema.pm parse_property_string).
// A bare value belongs to defaultKey. It reports false for what PVE would refuse too: a duplicate key, an empty value,
// a bare value where no default key exists.
func Parse(value, defaultKey string) (map[string]string, bool) {
	out := map[string]string{}
	for part := range strings.SplitSeq(value, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, val, found := strings.Cut(part, "=")
		if !found {
			key, val = defaultKey, part
		}
		if _, twice := out[key]; twice || key == "" || val == "" {
			return nil, false
		}
		out[key] = val
	}
	return out, true
}

// Print is the inverse, in PVE's canonical order: the default key's value bare and first, then the others by
// name. A default value that would be misread bare (it contains "=" or is blank) is printed with its key.
func Print(properties map[string]string, defaultKey string) string {
	var parts []string
	if val, ok := properties[defaultKey]; ok && defaultKey != "" {
		if strings.Contains(val, "=") || strings.TrimSpace(val) == "" {
			val = defaultKey + "=" + val
		}
		parts = append(parts, val)
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if key != defaultKey || defaultKey == "" {
			parts = append(parts, key+"="+properties[key])
		}
	}
	return strings.Join(parts, ",")
}
