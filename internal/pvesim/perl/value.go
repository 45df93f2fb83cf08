// Package perl has the conventions of the Perl code that answers: how it dies, and how it reads numbers, flags and
// lists from text.
package perl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Flag is a boolean in an answer: 1 or 0.
func Flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ListItems splits a *-list value (pve-common Tools.pm, split_list).
func ListItems(s string) []string {
	return strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune(",; \t\n\x00", c) })
}

// SplitList cuts a PVE list: comma, semicolon, white space or NUL (pve-common Tools.pm split_list).
func SplitList(s string) []string {
	return strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune(",; \t\n\x00", c) })
}

// Subvalue reads one key of a property string; the default key may stand bare.
func Subvalue(value, key string, isDefault bool) string {
	for _, part := range strings.Split(value, ",") {
		k, v, ok := strings.Cut(part, "=")
		switch {
		case ok && k == key:
			return v
		case !ok && isDefault:
			return part
		}
	}
	return ""
}

// Without is a list less one item.
func Without(list []string, item string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == item })
}

// HumanSize prints a size as PVE's copy logs do: one decimal, binary unit.
func HumanSize(size int64) string {
	value, unit := float64(size), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// ParseNumber reads a decimal integer, and reports whether the text is one.
func ParseNumber(value string) (int, bool) {
	n, err := strconv.Atoi(value)
	return n, err == nil
}

// Number reads a decimal integer; 0 if the text is none.
func Number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
