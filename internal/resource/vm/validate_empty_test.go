package vm

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/validation"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestValidateWarnsOfEmptyObjects: of memory = { dedicated = 4096 } Terraform leaves an empty object.
func TestValidateWarnsOfEmptyObjects(t *testing.T) {
	v := model.SchemaValues()
	config := plain()
	config.Memory, config.Agent = &vm.Memory{}, &vm.Agent{Enabled: new(true)}
	c := &validation.Validation{Configuration: model.Configuration{Raw: rawOf(t, v, config)}}
	c.EmptyObjects()
	if c.Diags.HasError() || len(c.Diags) != 1 || !strings.HasPrefix(c.Diags[0].Summary(), "memory is configured and says nothing") {
		t.Errorf("%v", c.Diags)
	}
}
