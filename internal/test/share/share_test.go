package share

import (
	"slices"
	"testing"
)

// TestPlays: without a variable the share of `make test` is played, and the variables ask for more, or for less.
func TestPlays(t *testing.T) {
	names := []string{"a create", "a clone", "an update", "a destroy"}
	for what, c := range map[string]struct {
		share, only string
		want        []string
		whole       bool
		count       int
	}{
		"make test":         {"", "", []string{"a create", "an update"}, false, 3},
		"every row":         {"1", "", names, true, 100},
		"one in three":      {"3", "", []string{"a create", "a destroy"}, false, 33},
		"by name":           {"", "clone|destroy", []string{"a clone", "a destroy"}, true, 100},
		"a share of a name": {"3", "clone|destroy", []string{"a destroy"}, false, 33},
	} {
		t.Run(what, func(t *testing.T) {
			t.Setenv(all, c.share)
			t.Setenv(only, c.only)
			t.Setenv(cases, "")
			var played []string
			for n, name := range names {
				if Plays(n, 2, name) {
					played = append(played, name)
				}
			}
			if !slices.Equal(played, c.want) || IsWhole() != c.whole || Count(3, 100) != c.count {
				t.Errorf("plays %q, want %q; whole %v, %d drawn", played, c.want, IsWhole(), Count(3, 100))
			}
		})
	}
}

// TestPicksCase: CASE picks the cases of a scene, and all of those.
func TestPicksCase(t *testing.T) {
	t.Setenv(all, "")
	t.Setenv(only, "")
	t.Setenv(cases, "migrate|become")
	if PicksCase("rescan") || !PicksCase("become another") || Of(7) != 1 || !IsWhole() {
		t.Errorf("a share of one in %d", Of(7))
	}
}

// TestMisspelledShare: a share that is no number stops the run; it is not taken for that of `make test`.
func TestMisspelledShare(t *testing.T) {
	t.Setenv(all, "yes")
	defer func() {
		if recover() == nil {
			t.Error("SHARE=yes was taken")
		}
	}()
	Of(7)
}
