package vm

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// splitList splits one of PVE's lists (pve-common Tools.pm split_list): commas, semicolons and white space separate.
func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(",; \t\r\n\x00", r) })
}

func joinSpace(l []string) string { return strings.Join(l, " ") }

func parseDescription(s string) (string, bool) { return TrimDescription(s), true }

// TrimDescription drops what PVE strips from the end when it reads the description back, by Perl's \s, and the only text that is false
// to Perl, which it does not write (qemu-server QemuServer.pm parse_vm_config, write_vm_config).
func TrimDescription(s string) string {
	if s = strings.TrimRightFunc(s, unicode.IsSpace); s == "0" {
		return ""
	}
	return s
}

// normalTags reads a tag list: sorted, unique. Their case stands: whether PVE lower-cases them when it stores them is the
// datacenter's tag style (pve-guest-common, GuestHelpers.pm get_unique_tags).
func normalTags(s string) []string {
	tags := splitList(s)
	slices.Sort(tags)
	return slices.Compact(tags)
}

func showTags(tags []string) string {
	return strings.Join(normalTags(strings.Join(tags, ";")), ";")
}

func parseFlags(s string) []string {
	flags := splitList(s)
	slices.Sort(flags)
	return slices.Compact(flags)
}

func showFlags(flags []string) string { return strings.Join(parseFlags(strings.Join(flags, ";")), ";") }

// parseTrunks sorts VLAN ids and ranges by their first number.
func parseTrunks(s string) []string {
	trunks := splitList(s)
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

func showTrunks(trunks []string) string {
	return strings.Join(parseTrunks(strings.Join(trunks, ";")), ";")
}

// parseMemory reads the plain number of PVE up to 8.0 and the property string of later versions.
func parseMemory(s string) (int64, bool) { return parseInteger(strings.TrimPrefix(s, "current=")) }
