package guest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOwnFence: what a configuration named is ours, on its storages and nowhere else.
func TestOwnFence(t *testing.T) {
	f := OwnFence("pve1", 100, []string{"bb:vm-100-disk-0", "aa:vm-100-disk-0"})
	if diff := cmp.Diff([]string{"aa", "bb"}, f.Storages); diff != "" {
		t.Error(diff)
	}
	if !f.ours("aa:vm-100-disk-0") || f.ours("aa:vm-100-disk-1") {
		t.Error("ownership goes by name")
	}
	f.Storages, f.Blind = []string{"bb"}, map[string]error{"aa": nil}
	if f.Own([]string{"aa:vm-100-disk-2"}); len(f.Storages) != 1 || !f.ours("aa:vm-100-disk-2") {
		t.Errorf("a storage that could not be looked at is looked at again: %v", f.Storages)
	}
}
