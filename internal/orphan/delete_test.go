package orphan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestOrphanDeleteOnOneOfSeveralNodes: each node has a storage of that name for itself, and volumes of one id on two of
// them are left over. Without a node it is not known which one is meant.
func TestOrphanDeleteOnOneOfSeveralNodes(t *testing.T) {
	t.Parallel()
	const id = "local:777/vm-777-disk-0.raw"
	for name, c := range map[string]struct {
		on   []string
		node string
		left []string
		says string
	}{
		"no node":            {on: []string{"pve1", "pve2"}, left: []string{"pve1", "pve2"}, says: id + " is on the nodes pve1, pve2"},
		"a node":             {on: []string{"pve1", "pve2"}, node: "pve2", left: []string{"pve1"}},
		"there is one":       {on: []string{"pve2"}},
		"it is on the other": {on: []string{"pve2"}, node: "pve1", left: []string{"pve2"}},
	} {
		r := newRig(t)
		r.change(func(w *state.World) {
			for _, node := range c.on {
				v := &state.Volume{Storage: "local", Node: node, Name: "777/vm-777-disk-0.raw", VMID: 777, Content: "images",
					Format: "raw", Size: 1 << 30, Data: "of " + node}
				w.Put(v)
				v.Created = w.Clock.Now().Add(-48 * time.Hour)
			}
		})
		_, err := NewDeleter(r.s, destroy.New(r.s.jobs, r.s.guests, nil)).Delete(t.Context(),
			Named{Kind: Volume, ID: id, Node: c.node}, Certain, Options{})
		var left []string
		r.change(func(w *state.World) {
			for _, v := range w.Volumes {
				if v.VMID == 777 {
					left = append(left, v.Node)
				}
			}
		})
		slices.Sort(left)
		if !slices.Equal(left, c.left) || (err == nil) != (c.says == "") || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: left on %v: %v", name, left, err)
		}
	}
}
