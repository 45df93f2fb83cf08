package model

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
)

// TestUnproven: the note holds while nothing tells which VM is meant. Earlier versions wrote it also for an old VM that
// was read and has no identity, which an update may give it.
func TestUnproven(t *testing.T) {
	for name, c := range map[string]struct {
		private PrivateState
		want    bool
	}{
		"not noted":         {},
		"noted":             {PrivateState{Unproven: true}, true},
		"with its proof":    {PrivateState{Unproven: true, Proof: &guest.Proof{}}, false},
		"with its uuid":     {PrivateState{Unproven: true, Identity: guest.Identity{UUID: "u"}}, false},
		"known to be none":  {PrivateState{Unproven: true, Identity: guest.Identity{None: true}}, false},
		"none, not noted":   {PrivateState{Identity: guest.Identity{None: true}}, false},
		"its time, noted":   {PrivateState{Unproven: true, Identity: guest.Identity{CTime: "1"}}, false},
		"nothing was noted": {PrivateState{Lost: true}, false},
	} {
		if got := c.private.IsUnproven(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
