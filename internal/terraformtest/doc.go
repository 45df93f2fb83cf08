// Package terraformtest plays Terraform for a provider in the same process, without a Terraform binary: configurations in HCL, state,
// plans, applies, imports, and the rules to which Terraform's core holds a provider. It knows nothing of any one provider.
//
// A Session is a working directory; its methods are the commands. Its verdicts on a provider are Terraform's:
// calibrate_test.go puts the same provider and the same configurations through real binaries and compares the verdicts.
package terraformtest

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// Value is the value of an attribute or an object.
type Value = cty.Value

// ShowValue prints a value as a person reads it, secrets included.
func ShowValue(v Value) string { return objchange.ShowValue(v) }
