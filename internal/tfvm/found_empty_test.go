package tfvm

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestFound22ObjectsThatSayNothing: of memory = { dedicated = 4096 } Terraform leaves an empty object.
func TestFound22ObjectsThatSayNothing(t *testing.T) {
	v := newValues(t.Context())
	config := plain()
	config.Memory, config.Agent = &vm.Memory{}, &vm.Agent{Enabled: new(true)}
	c := &validation{configuration: configuration{rawOf(t, v, config)}}
	c.emptyObjects()
	if c.diags.HasError() || len(c.diags) != 1 || !strings.HasPrefix(c.diags[0].Summary(), "memory is configured and says nothing") {
		t.Errorf("%v", c.diags)
	}
}
