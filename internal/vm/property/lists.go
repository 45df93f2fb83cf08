package property

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// SplitList splits one of PVE's lists (pve-common Tools.pm split_list): commas, semicolons and white space separate.
func SplitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(",; \t\r\n\x00", r) })
}

// JoinSpace prints a list with a space between its elements.
func JoinSpace(l []string) string { return strings.Join(l, " ") }

// ParseDescription reads a description as PVE reads it back; see TrimDescription.
func ParseDescription(s string) (string, bool) { return TrimDescription(s), true }

// TrimDescription drops what PVE strips from the end when it reads the description back, by Perl's \s, and the only
// text that is false to Perl, which it does not write (qemu-server QemuServer.pm parse_vm_config, write_vm_config).
func TrimDescription(s string) string {
	if s = strings.TrimRightFunc(s, unicode.IsSpace); s == "0" {
		return ""
	}
	return s
}

// NormalTags reads a tag list: sorted, unique. Their case stands: whether PVE lower-cases them when it stores them is
// the datacenter's tag style (pve-guest-common, GuestHelpers.pm get_unique_tags).
func NormalTags(s string) []string {
	tags := SplitList(s)
	slices.Sort(tags)
	return slices.Compact(tags)
}

// ShowTags prints a tag list in the order of NormalTags.
func ShowTags(tags []string) string {
	return strings.Join(NormalTags(strings.Join(tags, ";")), ";")
}

// ParseFlags reads a list of CPU flags, sorted.
func ParseFlags(s string) []string {
	flags := SplitList(s)
	slices.Sort(flags)
	return slices.Compact(flags)
}

// ShowFlags is the inverse of ParseFlags.
func ShowFlags(flags []string) string { return strings.Join(ParseFlags(strings.Join(flags, ";")), ";") }

// ParseTrunks sorts VLAN ids and ranges by their first number.
func ParseTrunks(s string) []string {
	trunks := SplitList(s)
	slices.SortFunc(trunks, func(a, b string) int {
		return cmp.Or(cmp.Compare(leadingNumber(a), leadingNumber(b)), cmp.Compare(a, b))
	})
	return slices.Compact(trunks)
}

func leadingNumber(s string) int {
	first, _, _ := strings.Cut(s, "-")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}

// ShowTrunks is the inverse of ParseTrunks.
func ShowTrunks(trunks []string) string {
	return strings.Join(ParseTrunks(strings.Join(trunks, ";")), ";")
}
