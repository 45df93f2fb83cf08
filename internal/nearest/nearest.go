// Package nearest finds the name that a misspelt one was meant to be.
package nearest

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// To returns the name among the given ones that is nearest to a word, or "" if none is near. Up to a third of the
// word may be wrong, one letter at least. Of equally near names the first in the alphabet is returned.
func To(word string, among []string) string {
	best, limit := "", max(1, len([]rune(word))/3)
	for _, name := range slices.Sorted(slices.Values(among)) {
		if d := Distance(word, name); d <= limit {
			best, limit = name, d-1
		}
	}
	return best
}

// Hint asks whether the nearest name was meant, as a sentence before others. It is "" if none is near.
func Hint(word string, among []string) string {
	if name := Meant(word, among); name != "" {
		return fmt.Sprintf("Did you mean %q? ", name)
	}
	return ""
}

// Meant returns the nearest name, as To does. Names that differ in digits only are not misspelt: pve1 is another node
// than pve2.
func Meant(word string, among []string) string {
	letters := func(name string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return -1
			}
			return r
		}, name)
	}
	others := slices.DeleteFunc(slices.Clone(among), func(name string) bool { return letters(name) == letters(word) })
	return To(word, others)
}

// Distance counts the letters to add, drop or replace, and the neighbours to swap, that make one word of another.
func Distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	rows := make([][]int, len(from)+1)
	for i := range rows {
		rows[i] = make([]int, len(to)+1)
		rows[i][0] = i
	}
	for j := range to {
		rows[0][j+1] = j + 1
	}
	for i := range from {
		for j := range to {
			cost := 1
			if from[i] == to[j] {
				cost = 0
			}
			d := min(rows[i][j+1]+1, rows[i+1][j]+1, rows[i][j]+cost)
			if i > 0 && j > 0 && from[i] == to[j-1] && from[i-1] == to[j] {
				d = min(d, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = d
		}
	}
	return rows[len(from)][len(to)]
}
