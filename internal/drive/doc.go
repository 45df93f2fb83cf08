// Package drive plays Terraform for a provider in the same process, without a Terraform binary: configurations in HCL, state,
// plans, applies, imports, and the rules to which Terraform's core holds a provider. It knows nothing of any one provider.
//
// A Session is a working directory; its methods are the commands. What it says about a provider is what Terraform would say:
// calibrate_test.go puts the same provider and the same configurations through real binaries and compares the verdicts.
package drive

import "github.com/zclconf/go-cty/cty"

// Value is what an attribute or an object holds.
type Value = cty.Value
