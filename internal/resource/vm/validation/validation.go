// Package validation checks the configuration of a VM without a server.
package validation

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// Validation gathers what is wrong with a configuration.
type Validation struct {
	model.Configuration
	Borrowed map[string]bool // volumes that another VM holds for this one
	// Written is the configuration where a plan is validated, which has values from elsewhere, too.
	Written *model.Configuration
	Diags   diag.Diagnostics
}

// Invalid is the summary of each error about a configuration.
const Invalid = "Invalid configuration"

// Refuse adds an error at the attribute with this dotted path.
func (c *Validation) Refuse(dotted, format string, args ...string) {
	if c.Written != nil && c.Written.IsNull(dotted) {
		format += " The configuration does not set " + dotted + ": the VM has it from its source, from another tool, or by " +
			"default."
	}
	at, _ := model.Locator{}.Attribute(dotted)
	c.Diags.AddAttributeError(at, Invalid, Fill(format, args))
}

// Fill puts texts into the places of a format. They may hold a "%".
func Fill(format string, args []string) string {
	for _, arg := range args {
		format = strings.Replace(format, "%s", arg, 1)
	}
	return format
}

// List prints names for a message.
func List(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
