// Package share says which rows of a law or a sweep a run plays. `make test` plays a share of each, always the same
// rows; `make test-full` plays all of them. Three variables ask for something else:
//
//	SHARE=1      every row
//	SHARE=N      one row in N
//	ONLY=regexp  every row whose name, or whose scene's name, matches
//	CASE=regexp  of a scene, every case whose name matches
package share

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// The variables.
const all, only, cases = "SHARE", "ONLY", "CASE"

// Of returns the share that a sweep plays: one row in so many. usual is that of `make test`.
func Of(usual int) int {
	switch text := os.Getenv(all); {
	case text != "":
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			panic(fmt.Sprintf("%s=%s: want 1 for every row, N for one row in N", all, text))
		}
		return n
	case IsPicked():
		return 1
	}
	return usual
}

// IsWhole reports whether every row is played, of those that are picked.
func IsWhole() bool { return Of(0) == 1 }

// IsPicked reports whether rows are picked by their names.
func IsPicked() bool { return os.Getenv(only)+os.Getenv(cases) != "" }

// Count is how many rows a sweep draws that has no end: usual ones in `make test`, whole ones in `make test-full`.
func Count(usual, whole int) int {
	if n := Of(0); n > 0 {
		return max(1, whole/n)
	}
	return usual
}

// Plays reports whether a row, by its number and its name, is one of the share.
func Plays(number, usual int, name string) bool { return number%Of(usual) == 0 && Picks(name) }

// Rows are the entries of a table that a run plays, in the order of their names.
func Rows[V any](table map[string]V, usual int) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for n, name := range slices.Sorted(maps.Keys(table)) {
			if Plays(n, usual, name) && !yield(name, table[name]) {
				return
			}
		}
	}
}

// InWhole leaves a test to `make test-full`, which asks for every row. Another test of `make test` has its subject in
// process; this one adds the programs around it.
func InWhole(t testing.TB) {
	t.Helper()
	if !IsWhole() {
		t.Skip("left to make test-full; SHARE=1 plays it")
	}
}

// Picks reports whether a name, of a row or a scene, is asked for. Every name is, unless ONLY is set.
func Picks(name string) bool { return matches(only, name) }

// PicksCase reports whether the name of a scene's case is asked for. Every name is, unless CASE is set.
func PicksCase(name string) bool { return matches(cases, name) }

func matches(variable, name string) bool {
	text := os.Getenv(variable)
	return text == "" || regexp.MustCompile(text).MatchString(name)
}
