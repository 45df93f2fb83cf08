package vm

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// TestRebaseLaw: a change that is sent has the server's value of each part that the plan leaves as it was, whatever a
// third party has made of it meanwhile, and the plan's value of each part that it changes.
func TestRebaseLaw(t *testing.T) {
	kept, changed := map[string]int{}, map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		prior := genSpec(t)
		planned, server := withVolumesOf(prior, Merge(prior, genSpec(t))), withVolumesOf(prior, Merge(prior, genSpec(t)))
		printed := []map[string]string{Encode(prior), Encode(planned), Encode(server)}
		before, after := Rebase(server, prior, planned)
		for i, s := range []Spec{prior, planned, server} {
			if d := cmp.Diff(printed[i], Encode(s)); d != "" {
				t.Fatalf("Rebase changed its arguments:\n%s", d)
			}
		}
		was, is, has := printed[0], printed[1], printed[2]
		for key, sent := range Diff(WithRest(before, server), after).Set {
			if isDisk := IsSlot(key); was[key] == "" || is[key] == "" || has[key] == "" || !hasParts(key) ||
				isDisk && !sameVolume(prior, planned, server, key) {
				continue
			}
			from, to := partsOf(key, was[key]), partsOf(key, is[key])
			theirs, now := partsOf(key, has[key]), partsOf(key, sent)
			parts := maps.Clone(from)
			maps.Copy(parts, theirs)
			for part := range parts {
				wants, counter := to[part], changed
				if from[part] == to[part] || !isModelled(key, part) { // Diff keeps the server's Rest
					wants, counter = theirs[part], kept
				}
				switch {
				case to["base64"]+from["base64"]+theirs["base64"] != "": // how the texts of smbios1 are spelt
					continue
				case IsSlot(key) && part == "size": // a disk grows by a request of its own
					continue
				case key == "machine" && part == "first": // a version that PVE has pinned stays
					continue
				case part == "gw" && from["ip"] != to["ip"], part == "gw6" && from["ip6"] != to["ip6"]: // it belongs to the address
					wants = to[part]
				}
				if now[part] != wants {
					t.Fatalf("%s: %q was planned as %q, and the server has %q; %q is sent, with another %s", key, was[key], is[key],
						has[key], sent, part)
				}
				if from[part] != theirs[part] || from[part] != to[part] {
					counter[strings.TrimRight(key, "0123456789")]++
				}
			}
		}
	})
	t.Logf("parts that others changed: %v; parts that the plan changed: %v", kept, changed)
	for _, key := range []string{"net", "cpu", "vga", "agent", "ipconfig", "scsi"} {
		if kept[key] == 0 || changed[key] == 0 {
			t.Errorf("no part of %s was both changed by the plan and kept for others", key)
		}
	}
}

func hasParts(key string) bool {
	if f, ok := familyOf(key); ok {
		return f.keys != nil
	}
	return IsSlot(key) || optionsByKey()[key].rows != nil
}

func isModelled(key, part string) bool {
	keys := diskFormat().keys
	if f, ok := familyOf(key); ok {
		keys = f.keys
	} else if !IsSlot(key) {
		keys = optionsByKey()[key].keys
	}
	return part == "first" || slices.Contains(keys(), part)
}

func partsOf(key, value string) map[string]string {
	if strings.HasPrefix(key, "net") {
		n, _ := decodeNIC(value)
		parts := nicFormat().showAll(&n)
		parts["model"] = n.Model
		return parts
	}
	parts, _ := property.Parse(value, "first")
	return parts
}

// withVolumesOf gives the disks of s the volumes that prior has in their slots.
func withVolumesOf(prior, s Spec) Spec {
	s.Disks = maps.Clone(s.Disks)
	for slot, d := range s.Disks {
		if was, ok := prior.Disks[slot]; ok {
			d.Storage, d.Volume, d.Format, d.ImportFrom = was.Storage, was.Volume, was.Format, was.ImportFrom
			s.Disks[slot] = d
		}
	}
	return s
}

func sameVolume(prior, planned, server Spec, slot string) bool {
	volume := prior.Disks[slot].Volume
	return volume != "" && planned.Disks[slot].Volume == volume && server.Disks[slot].Volume == volume
}
