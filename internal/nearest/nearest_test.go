package nearest

import "testing"

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"tag", "tag", 0},
		{"", "tag", 3},
		{"tag", "tags", 1},
		{"birdge", "bridge", 1},
		{"bride", "bridge", 1},
		{"vlan_id", "tag", 6},
		{"größe", "grösse", 2},
	} {
		if got, back := Distance(c.a, c.b), Distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q: %d and %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}

func TestTo(t *testing.T) {
	t.Parallel()
	names := []string{"bridge", "tag", "trunks", "local", "local-zfs", "vmbr0", "vmbr1"}
	for word, want := range map[string]string{
		"birdge": "bridge", "tga": "tag", "vlan_id": "", "loacl-zfs": "local-zfs", "vmbr2": "vmbr0", "": "", "x": "",
	} {
		if got := To(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

// TestHintIsNoOtherNumber: a misspelt name is named; another node, bridge or storage of the same series is not.
func TestHintIsNoOtherNumber(t *testing.T) {
	t.Parallel()
	names := []string{"pve1", "pve2", "vmbr0", "local-zfs"}
	for word, want := range map[string]string{
		"local-zsf": `Did you mean "local-zfs"? `, "vbmr0": `Did you mean "vmbr0"? `, "pev1": `Did you mean "pve1"? `,
		"pve9": "", "vmbr10": "", "ceph": "",
	} {
		if got := Hint(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
