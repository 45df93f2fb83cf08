package vm

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	tflist "github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// reading notes how many VMs are read, and how many at once; the higher the VMID the sooner it is read.
type reading struct {
	now, most, all atomic.Int64
}

func (r *reading) result(ctx context.Context, of pve.Resource) tflist.ListResult {
	r.all.Add(1)
	for now := r.now.Add(1); now > r.most.Load(); {
		r.most.Store(now)
	}
	defer r.now.Add(-1)
	select {
	case <-time.After(time.Duration(1000-of.VMID) * time.Second):
	case <-ctx.Done():
	}
	if of.Lock != "" {
		return tflist.ListResult{}
	}
	return tflist.ListResult{DisplayName: fmt.Sprint(of.VMID), Identity: &tfsdk.ResourceIdentity{}}
}

// TestQueryReadsSeveralAtOnce: VMs are read ten at a time and come in order; no more are read than the limit and the reader want, what is
// left out does not count, and when the list ends nothing is at work.
func TestQueryReadsSeveralAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit, stop, interrupt int
		out                    []int
		found, read, most      int
		err                    bool
	}{
		"all":                   {found: 30, read: 30, most: 10},
		"more than there are":   {limit: 100, found: 30, read: 30, most: 10},
		"few":                   {limit: 3, found: 3, read: 3, most: 3},
		"some are left out":     {limit: 3, out: []int{100, 102}, found: 3, read: 5, most: 3},
		"all are left out":      {limit: 1, out: []int{100, 101, 102, 103, 104}, found: 1, read: 6, most: 1},
		"the reader has enough": {stop: 4, found: 4, read: 13, most: 10},
		"an interrupt":          {interrupt: 4, found: 4, read: 14, most: 10, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var meant []pve.Resource
				for vmid := 100; vmid < 130; vmid++ {
					r := pve.Resource{VMID: vmid}
					if slices.Contains(c.out, vmid) {
						r.Lock = "create"
					}
					meant = append(meant, r)
				}
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				var r reading
				var found []string
				failed := false
				for one := range resultsOf(ctx, kit.Attempt{Verb: "list", Thing: "VMs"}, meant, c.limit, r.result) {
					if failed = failed || one.Diagnostics.HasError(); one.Identity != nil {
						found = append(found, one.DisplayName)
					}
					if len(found) == c.interrupt && c.interrupt > 0 {
						interrupt()
					}
					if len(found) == c.stop && c.stop > 0 {
						break
					}
				}
				if r.now.Load() != 0 {
					t.Errorf("%d are still read", r.now.Load())
				}
				if len(found) != c.found || !slices.IsSorted(found) || failed != c.err || int(r.all.Load()) != c.read || int(r.most.Load()) != c.most {
					t.Errorf("found %v, failed %t, read %d, %d at once", found, failed, r.all.Load(), r.most.Load())
				}
			})
		})
	}
}
