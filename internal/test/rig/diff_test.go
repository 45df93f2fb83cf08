package rig

import (
	"slices"
	"testing"
)

func TestSnapshotDiff(t *testing.T) {
	const before = `{"guests":[{"vmid":100,"config":{"name":"a","cores":"1"}}],"volumes":[{"storage":"s","node":"n","name":"vm-1"}],"pools":[{"id":"web","guests":[100]}],"ha_rules":{"apart":{"resources":"vm:100"},"gone":{}}}`
	const after = `{"guests":[{"vmid":100,"config":{"name":"b","memory":"1"}},{"vmid":101,"config":{}}],"volumes":[],"pools":[{"id":"web","guests":[100,101]}],"ha_rules":{"apart":{"resources":"vm:101"}}}`
	got := SnapshotDiff([]byte(before), []byte(after))
	want := []string{
		`changed: guest 100: config.cores (was "1") is gone, config.memory is new: "1", config.name "a" -> "b"`,
		`changed: ha_rule apart: resources "vm:100" -> "vm:101"`,
		`changed: pool web: guests "[100]" -> "[100,101]"`,
		`gone: ha_rule gone`,
		`gone: volume s n vm-1`,
		`new: guest 101`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := SnapshotDiff([]byte(before), []byte(before)); got != nil {
		t.Errorf("the same snapshot differs from itself: %q", got)
	}
	if got := SnapshotDiff([]byte(before), []byte("{")); len(got) != 1 {
		t.Errorf("a broken snapshot: %q", got)
	}
}
