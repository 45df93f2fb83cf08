package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
)

// SnapshotDiff compares two snapshots of a simulated cluster and describes each added, removed and changed object: one line per
// guest, volume, pool and whatever else a snapshot holds.
func SnapshotDiff(before, after []byte) []string {
	if bytes.Equal(before, after) {
		return nil
	}
	a, errA := things(before)
	b, errB := things(after)
	if errA != nil || errB != nil {
		return []string{fmt.Sprintf("a snapshot is unreadable: %v %v", errA, errB)}
	}
	var lines []string
	for name, old := range a {
		if now, ok := b[name]; !ok {
			lines = append(lines, "gone: "+name)
		} else if detail := fieldDiff(old, now); detail != "" {
			lines = append(lines, "changed: "+name+": "+detail)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			lines = append(lines, "new: "+name)
		}
	}
	sort.Strings(lines)
	return lines
}

// things names every object of a snapshot, "volumes local-zfs pve1 vm-100-disk-0", and flattens its fields.
func things(snapshot []byte) (map[string]map[string]string, error) {
	var sections map[string]json.RawMessage
	if err := json.Unmarshal(snapshot, &sections); err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	for section, raw := range sections {
		objs, err := objects(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", section, err)
		}
		for _, fields := range objs {
			name := strings.TrimSuffix(section, "s")
			for _, key := range []string{"storage", "vmid", "id", "sid", "node", "name", "path", "subject", "role", "type", "user"} {
				if v := fields[key]; v != "" && (section != "guests" || key == "vmid") {
					name += " " + v
				}
			}
			for n := 2; out[name] != nil; n++ { // two tasks may be alike
				name = fmt.Sprintf("%s #%d", strings.SplitN(name, " #", 2)[0], n)
			}
			out[name] = fields
		}
	}
	return out, nil
}

// objects are those of a section, flattened: of a list, or of an object that has them by their ids.
func objects(section json.RawMessage) ([]map[string]string, error) {
	var list []json.RawMessage
	ids := map[int]string{}
	if trimmed := bytes.TrimSpace(section); len(trimmed) > 0 && trimmed[0] == '{' {
		var byID map[string]json.RawMessage
		if err := json.Unmarshal(section, &byID); err != nil {
			return nil, err
		}
		for id, raw := range byID {
			ids[len(list)] = id
			list = append(list, raw)
		}
	} else if err := json.Unmarshal(section, &list); err != nil {
		return nil, err
	}
	var all []map[string]string
	for n, raw := range list {
		fields := map[string]string{}
		if err := flatten("", raw, fields); err != nil {
			return nil, err
		}
		if id, ok := ids[n]; ok {
			fields["id"] = id
		}
		all = append(all, fields)
	}
	return all, nil
}

// flatten turns nested JSON into dotted keys.
func flatten(prefix string, raw json.RawMessage, into map[string]string) error {
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 || trimmed[0] != '{' {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			into[prefix] = s
		} else {
			into[prefix] = string(trimmed)
		}
		return nil
	}
	var obj map[string]json.RawMessage
	if err := json.Unmarshal(raw, &obj); err != nil {
		return err
	}
	for k, v := range obj {
		key := k
		if prefix != "" {
			key = prefix + "." + k
		}
		if err := flatten(key, v, into); err != nil {
			return err
		}
	}
	return nil
}

func fieldDiff(a, b map[string]string) string {
	var parts []string
	for k, old := range a {
		if now, ok := b[k]; !ok {
			parts = append(parts, fmt.Sprintf("%s (was %q) is gone", k, old))
		} else if now != old {
			parts = append(parts, fmt.Sprintf("%s %q -> %q", k, old, now))
		}
	}
	for k, now := range b {
		if _, ok := a[k]; !ok {
			parts = append(parts, fmt.Sprintf("%s is new: %q", k, now))
		}
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}
