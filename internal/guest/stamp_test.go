package guest

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestStampProvesOnlyItsOwnVM(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster := rapid.StringMatching(`pve[0-9](,pve[0-9]){0,2}`).Draw(t, "cluster")
		vmid := rapid.IntRange(100, 999999999).Draw(t, "vmid")
		s := NewStamp(cluster, vmid, time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "deadline"), 0))
		s.Process = rapid.SampledFrom([]string{"", "host boot ns 1 2"}).Draw(t, "process")
		s.User = rapid.SampledFrom([]string{"", "terraform@pve"}).Draw(t, "user")
		s.Leased = rapid.Bool().Draw(t, "leased")
		if rapid.Bool().Draw(t, "restore") {
			s.Restore = time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "begun"), 0).UTC()
		}
		back, ok := ParseStamp(s.String())
		if !ok || back != s {
			t.Fatalf("%q reads back as %+v, %t", s.String(), back, ok)
		}
		// PVE strips trailing newlines, and a human may add one.
		config := map[string]string{"description": s.String() + "\n"}
		if !s.Proves(vmid, config) {
			t.Fatal("does not prove its own VM")
		}
		if s.Proves(vmid+1, config) {
			t.Fatal("proves a clone under another id")
		}
		other := NewStamp(cluster, vmid, s.Deadline)
		if other.Proves(vmid, config) {
			t.Fatal("proves another transaction's VM")
		}
		config["description"] = "mine\n" + s.String()
		if s.Proves(vmid, config) {
			t.Fatal("proves a description that only contains it")
		}
	})
}

func TestParseStampRefuses(t *testing.T) {
	good := NewStamp("pve1", 100, time.Unix(0, 0)).String()
	for _, text := range []string{"", "golden image", stampTitle, strings.Replace(good, "vmid: 100", "vmid: x", 1),
		strings.Replace(good, "deadline: ", "deadline: never ", 1), strings.Replace(good, "cluster", "Cluster", 1), good + "\nrestore: never", good + "\nmore",
		good + "\nuser: a\nprocess: b", strings.Replace(good, "deadline: ", "lease: 1", 1), good + "\nlease: 1970-01-01T00:00:00Z"} {
		if _, ok := ParseStamp(text); ok {
			t.Errorf("took %q for a stamp", text)
		}
	}
}
