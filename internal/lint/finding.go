package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nearest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/otherstate"
)

// Finding is a key that the provider does not know, or that should not be used.
type Finding struct {
	Range      hcl.Range // of the key
	Address    string    // the block: proxmox_vm.web
	Path       string    // the key in the block: networks.net0.vlan_id
	Key        string
	Deprecated string // what the schema says of it; "" for an unknown key
	Suggestion string // the name that was probably meant, or ""
}

// Message is one line about a finding, without its place.
func (f Finding) Message() string {
	if f.Deprecated != "" {
		return fmt.Sprintf("%s: %s is deprecated: %s", f.Address, f.Path, f.Deprecated)
	}
	text := fmt.Sprintf("%s: %s: proxmox has no such key here, so Terraform drops it", f.Address, f.Path)
	if !strings.Contains(f.Path, ".") {
		text = fmt.Sprintf("%s: %s: proxmox has no such argument", f.Address, f.Path)
	}
	if f.Suggestion != "" {
		text += fmt.Sprintf("; did you mean %q?", f.Suggestion)
	}
	return text
}

// key compares one key with the object that it is in, and returns the shape of its value, nil for an unknown key.
func (c *checker) key(name string, at hcl.Range, via []reach, in *shape, where site) *shape {
	known, ok := in.attributes[name]
	if ok {
		c.known[at] = true
	}
	if name == "//" || ok && known.deprecated == "" { // JSON has no other comments
		return known.shape
	}
	path := append(slices.Clone(where.path), name)
	f := Finding{Range: at, Address: where.address, Path: strings.Join(path, "."), Key: name, Deprecated: known.deprecated}
	if !ok {
		f.Suggestion = nearest.To(name, slices.Collect(maps.Keys(in.attributes)))
		if _, ok := in.attributes[otherstate.Renamed(strings.Join(where.form, "."), name)]; ok {
			f.Suggestion = otherstate.Renamed(strings.Join(where.form, "."), name)
		}
	}
	made := candidate{Finding: f, key: at}
	for _, r := range via {
		made.via = append(made.via, reach{r.root, append(slices.Clone(r.path), name)})
	}
	c.found = append(c.found, made)
	return known.shape
}

// findings returns the candidates that hold, in the order of the files, each once.
func (c *checker) findings(uses map[*module]*uses) []Finding {
	var all []Finding
	seen := map[hcl.Range]bool{}
	for _, one := range c.found { // one key may be reached in several ways
		if seen[one.key] || one.Deprecated == "" && c.known[one.key] || c.isReadElsewhere(one, uses) {
			continue
		}
		seen[one.key] = true
		delete(c.unjudged, one.key)
		all = append(all, one.Finding)
	}
	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Range.Filename, b.Range.Filename), cmp.Compare(a.Range.Start.Byte, b.Range.Start.Byte))
	})
	return all
}
