package tfvm

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// validation gathers what is wrong with a configuration.
type validation struct {
	configuration
	borrowed map[string]bool // volumes that another VM holds for this one
	diags    diag.Diagnostics
}

const invalid = "Invalid configuration"

func (c *validation) refuse(dotted, format string, args ...string) {
	at, _ := locator{}.Attribute(dotted)
	c.diags.AddAttributeError(at, invalid, fill(format, args))
}

// fill puts texts into the places of a format. They may hold a "%".
func fill(format string, args []string) string {
	for _, arg := range args {
		format = strings.Replace(format, "%s", arg, 1)
	}
	return format
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
