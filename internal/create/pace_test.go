package create

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestPace holds how long creates take on a server whose tasks last 200 ms and which serves three requests at a time
// for 50 ms each, on a clock that moves when all have said their word: what `make bench` measures, without Terraform
// and without the machine. With CREATE_TRACE set it prints each request with when it came and when it was answered.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		what     string
		n        int
		r        Request
		most     time.Duration
		requests int
	}{
		{"create", 1, plain(), 750 * time.Millisecond, 10},
		{"create", 10, plain(), 1300 * time.Millisecond, 54}, // in which order ten come to the server is not decided here
		{"clone", 1, cloned(), 1150 * time.Millisecond, 15},
		{"clone", 10, cloned(), 2000 * time.Millisecond, 90},
	} {
		t.Run(fmt.Sprintf("%s %d", c.what, c.n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: 50 * time.Millisecond, Workers: 3,
					TaskTime: 200 * time.Millisecond}, token)
				b.sim.ResetOps()
				begin := time.Now()
				var all sync.WaitGroup
				for i := range c.n {
					all.Go(func() {
						r := c.r
						name := fmt.Sprintf("vm-%d", i)
						r.Spec.Name = &name
						if _, err := b.Create(t.Context(), r); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				took, requests := time.Since(begin), len(b.sim.Ops())
				t.Logf("%s of %d: %d ms, %d requests", c.what, c.n, took.Milliseconds(), requests)
				if os.Getenv("CREATE_TRACE") != "" {
					for _, op := range b.sim.Ops() {
						t.Logf("%5d %5d ms  %-6s %s (%d)", op.Came.Sub(begin).Milliseconds(), op.Left.Sub(begin).Milliseconds(),
							op.Method, op.Path, op.VMID)
					}
				}
				if took > c.most || requests > c.requests {
					t.Errorf("at most %d ms and %d requests", c.most.Milliseconds(), c.requests)
				}
			})
		})
	}
}

func plain() Request {
	size := int64(8 << 30)
	return Request{Node: "pve1", Start: true, Spec: vm.Spec{Disks: map[string]vm.Disk{"scsi0": {Storage: "local-lvm",
		Size: &size}}}}
}

func cloned() Request {
	size, full, cores, user := int64(4<<30), true, int64(2), "ops"
	r := Request{Node: "pve1", Start: true, Clone: &guest.Clone{VMID: 9000, Full: &full}}
	r.Spec.Disks = map[string]vm.Disk{"scsi0": {Size: &size}}
	r.Spec.CPU.Cores = &cores
	r.Spec.CloudInit.User = &user
	return r
}
