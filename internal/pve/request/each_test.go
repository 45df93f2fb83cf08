package request

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	pvefault "github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestLookBeforeEachTry: a change waits for a lock, or its answer is lost. The look that permits it comes before each
// try, and nothing is sent that it does not permit. A lost answer stays part of the error: the change may be made.
func TestLookBeforeEachTry(t *testing.T) {
	refusal := errors.New("another guest has it")
	locked := fault.Rule{Phase: fault.Before, Status: 500, Reason: "VM is locked (backup)"}
	for name, c := range map[string]struct {
		method, value string
		rule          fault.Rule
		lost          bool
	}{
		"a lock":                 {http.MethodPut, "local-zfs:vm-8000-disk-7", locked, false},
		"a lock, before a task":  {http.MethodPost, "local-zfs:1", locked, false},
		"an answer that is lost": {http.MethodPut, "local-zfs:vm-8000-disk-7", fault.Rule{Phase: fault.Before, Status: 596}, true},
	} {
		for permitted := range 2 {
			t.Run(name, func(t *testing.T) {
				w, looks := newWorld(t), 0
				c.rule.Match = fault.Match{Method: c.method}
				w.sim.SetFaults([]fault.Rule{c.rule})
				w.sim.ResetOps()
				_, err := w.Apply(t.Context(), &Tasks{}, "pve1", 8000, vm.Change{Set: map[string]string{"scsi1": c.value}},
					Bound{Each: func(send func(context.Context) error) func(context.Context) error {
						return func(ctx context.Context) error {
							if looks++; looks > permitted {
								return refusal
							}
							return send(ctx)
						}
					}})
				want := []string{c.method + " /config scsi1=" + c.value}[:permitted]
				if diff := cmp.Diff(want, w.writes("scsi1"), cmpopts.EquateEmpty()); diff != "" {
					t.Error(diff)
				}
				if mayBe := c.lost && permitted > 0; !errors.Is(err, refusal) || pvefault.Has(err, pve.Ambiguous) != mayBe {
					t.Errorf("%d permitted: %v", permitted, err)
				}
			})
		}
	}
}
