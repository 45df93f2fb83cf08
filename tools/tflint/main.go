// Command tflint-ruleset-proxmox is the rules of `terraform-provider-proxmox lint` as a plugin of TFLint.
//
// It is a module of its own, so that the provider does not depend on TFLint's SDK.
package main

import (
	"github.com/terraform-linters/tflint-plugin-sdk/plugin"
	"github.com/terraform-linters/tflint-plugin-sdk/tflint"
)

// version is set by the linker.
var version = "0.0.1"

func main() {
	plugin.Serve(&plugin.ServeOpts{RuleSet: ruleset()})
}

func ruleset() *tflint.BuiltinRuleSet {
	return &tflint.BuiltinRuleSet{Name: "proxmox", Version: version, Rules: []tflint.Rule{unknownKey(), deprecatedKey()}}
}
