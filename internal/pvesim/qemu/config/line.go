package config

import (
	"regexp"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
)

// blanks are Perl's \s in a file of bytes.
const blanks = " \t\n\r\f\v"

var (
	wholeLine   = regexp.MustCompile(`^\d+$`)
	decimalLine = regexp.MustCompile(`^\d+(\.\d+)?$`)
)

// CheckLines refuses values that no line of the configuration file can hold. The API lets them pass, and the writing
// dies (qemu-server QemuServer.pm write_vm_config, check_type). The description has lines of its own.
func CheckLines(e *engine.Engine, conf map[string]string) error {
	types := configTypes(e)
	for key, value := range conf {
		kind := types[key]
		if kind == nil || key == "description" {
			continue
		}
		why := ""
		switch {
		case strings.ContainsAny(value, "\n\r"):
			why = "property contains a line feed"
		case kind.Type == "integer" && !wholeLine.MatchString(value),
			kind.Type == "number" && !decimalLine.MatchString(value):
			why = "type check ('" + kind.Type + "') failed - got '" + value + "'"
		}
		if why != "" {
			return perl.Die("unable to parse value of '%s' - %s\n", key, why)
		}
	}
	return nil
}

// asLine is a value as it is read back from its line: without the white space around it, of which one character stays
// where there is nothing else (parse_vm_config), and, where the option has no format, without the double quotes around
// it, which go once when it is written and once when it is read (check_type).
func asLine(e *engine.Engine, key, value string) string {
	text := strings.Trim(value, blanks)
	if kind := configTypes(e)[key]; kind != nil && kind.Type == "string" && kind.Format == "" && kind.Properties == nil {
		for range 2 {
			if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
				text = strings.Trim(text[1:len(text)-1], blanks)
			}
		}
	}
	if text == "" {
		return " "
	}
	return text
}
