package vm

import (
	"maps"
	"slices"
	"strings"
)

// parseProperties splits one of PVE's property strings ("a,key=b,…", pve-common JSONSchema.pm parse_property_string).
// A bare value belongs to defaultKey. It reports false for what PVE would refuse too: a duplicate key, an empty value,
// a bare value where no default key exists.
func parseProperties(value, defaultKey string) (map[string]string, bool) {
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

// printProperties is the inverse, in PVE's canonical order: the default key's value bare and first, then the others by
// name. A default value that would be misread bare (it contains "=" or is blank) is printed with its key.
func printProperties(properties map[string]string, defaultKey string) string {
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

// parseBool reads a boolean as PVE does inside property strings (JSONSchema.pm parse_boolean).
func parseBool(s string) (bool, bool) {
	switch strings.ToLower(s) {
	case "1", "on", "yes", "true":
		return true, true
	case "0", "off", "no", "false":
		return false, true
	}
	return false, false
}

func showBool(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
