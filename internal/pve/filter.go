package pve

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Filter says which VMs of a listing are meant: those that fit everything that is set.
type Filter struct {
	// Name may hold * and ?, which no name of a guest has.
	Name, Node, Pool, Tag, Status string
	Template                      *bool
}

// VMs are the VMs of the listing that are meant, templates included, sorted by VMID. caseSensitive says that the datacenter takes
// "Web" and "web" for two tags.
func (rs Resources) VMs(f Filter, caseSensitive bool) []Resource {
	all := rs.filter(func(r Resource) bool { return r.Type == "qemu" && f.fits(r, caseSensitive) })
	slices.SortFunc(all, func(a, b Resource) int { return cmp.Compare(a.VMID, b.VMID) })
	return all
}

// Untold are the VMs of which the listing does not tell whether they are meant, and which VMs leaves out: of those that nobody has reported
// since their node is away, or for the first seconds, PVE knows neither the name nor whether they are templates (pve-manager API2Tools.pm,
// extract_vm_stats).
func (rs Resources) Untold(f Filter, caseSensitive bool) []Resource {
	meant := rs.VMs(f, caseSensitive)
	f.Name, f.Template = "", nil
	return slices.DeleteFunc(rs.VMs(f, caseSensitive), func(r Resource) bool {
		return r.Status != "unknown" || slices.ContainsFunc(meant, func(m Resource) bool { return m.VMID == r.VMID })
	})
}

func (f Filter) fits(r Resource, caseSensitive bool) bool {
	isOrAny := func(want, is string) bool { return want == "" || want == is }
	named, err := path.Match(f.Name, r.Name)
	return (f.Name == "" || err == nil && named) && isOrAny(f.Node, r.Node) && isOrAny(f.Pool, r.Pool) && isOrAny(f.Status, r.Status) &&
		(f.Template == nil || *f.Template == r.Template) && (f.Tag == "" || r.hasTag(f.Tag, caseSensitive))
}

func (r Resource) hasTag(tag string, caseSensitive bool) bool {
	return slices.ContainsFunc(r.TagList(), func(has string) bool {
		return has == tag || !caseSensitive && strings.EqualFold(has, tag)
	})
}

// TagList is the guest's tags, sorted; PVE separates them by semicolons, commas or spaces (pve-common ParseUtils.pm split_list).
func (r Resource) TagList() []string {
	tags := strings.FieldsFunc(r.Tags, func(c rune) bool { return strings.ContainsRune(";, ", c) })
	slices.Sort(tags)
	return tags
}
