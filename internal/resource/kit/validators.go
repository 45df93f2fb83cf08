package kit

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

const dnsLabel = `([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)`

// The formats of PVE's names, from its JSON schema (pve-common JSONSchema.pm, pve-storage, qemu-server).
var (
	nodeName  = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`)
	storageID = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._-]*[a-zA-Z0-9]$`)
	dnsName   = regexp.MustCompile(`^` + dnsLabel + `(\.` + dnsLabel + `)*$`)
	tag       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)
	pool      = regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+){0,2}$`)
	size      = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?[KMGT]$`)
	volumeID  = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._-]*:\S+$`)
	// Names of other hypervisors' machines may have blanks (pve-storage Plugin.pm parse_volume_id accepts anything).
	importSource = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._-]*:[^\x00-\x20\x7f](?:[^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$`)
	// PVE takes 2 to 40 characters.
	hostPath     = regexp.MustCompile(`^/[^,\s]+$`)
	machineUUID  = regexp.MustCompile(`^[a-fA-F0-9]{8}(-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}$`)
	snapshotName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{1,39}$`)
)

// The range of VMIDs (pve-common JSONSchema.pm, pve-vmid).
const (
	MinVMID = 100
	MaxVMID = 999999999
)

// NodeName accepts the name of a cluster node.
func NodeName() validator.String {
	return stringvalidator.RegexMatches(nodeName, "must be the name of a node, such as \"pve1\"")
}

// UUID accepts the uuid of a machine, in any letters (qemu-server QemuServer.pm, $smbios1_fmt).
func UUID() validator.String { return stringvalidator.RegexMatches(machineUUID, "must be a UUID") }

// StorageID accepts the id of a storage.
func StorageID() validator.String {
	return stringvalidator.RegexMatches(storageID, "must be the id of a storage, such as \"local-zfs\", without a "+
		"volume behind it")
}

// Tag accepts one tag.
func Tag() validator.String {
	return stringvalidator.RegexMatches(tag, "must begin with a letter, a digit or \"_\", followed by these or \"-\", "+
		"\"+\", \".\"")
}

// PoolID accepts the name of a resource pool, up to three levels deep.
func PoolID() validator.String {
	return stringvalidator.RegexMatches(pool, "must be the name of a resource pool, such as \"web\" or \"prod/web\"")
}

// Size accepts a size with its unit: a whole number of bytes above zero that PVE can count.
func Size() validator.String {
	return Check{Want: "must be a number with one of the units K, M, G, T (powers of 1024), such as \"32G\"",
		Shows: true, Wrong: func(value string) string {
			if !size.MatchString(value) {
				return "It is no such number."
			}
			switch bytes, err := property.ParseSize(value); {
			case err != nil:
				return "It is not a whole number of bytes, or too large."
			case bytes == 0:
				return "It is nothing."
			}
			return ""
		}}
}

// VolumeID accepts the id of a volume.
func VolumeID() validator.String {
	return stringvalidator.RegexMatches(volumeID, "must be a volume id, such as \"local:import/ubuntu.qcow2\"")
}

// IsVolumeID reports whether a text is the id of a volume.
func IsVolumeID(value string) bool { return volumeID.MatchString(value) }

// ImportSource accepts the id of a volume to import, which may contain blanks.
func ImportSource() validator.String {
	return stringvalidator.RegexMatches(importSource, "must be a volume id, such as \"local:import/ubuntu.qcow2\"")
}

// HostPath accepts the path of a device or a file of a node.
func HostPath() validator.String {
	return stringvalidator.RegexMatches(hostPath, "must be an absolute path on the node, such as "+
		"\"/dev/disk/by-id/ata-DISK\"")
}

// SnapshotName accepts the name of a snapshot (pve-common JSONSchema.pm, pve-configid).
func SnapshotName() validator.String {
	return stringvalidator.RegexMatches(snapshotName, "must be the name of a snapshot: "+
		"2 to 40 letters, digits, \"_\" and \"-\", a letter first")
}

// Line accepts a text that is not empty and has no control characters: a line of PVE's files could not hold them.
func Line() Check {
	return Check{Want: "must be one line of text", Wrong: func(value string) string {
		switch {
		case value == "":
			return "It is empty."
		case strings.ContainsFunc(value, unicode.IsControl):
			return "It has a line break or another control character."
		}
		return ""
	}}
}

// ConfigLine accepts a text that PVE reads back from its configuration file as it was: the file has a line for each
// option, and loses blanks and double quotes around a value (qemu-server QemuServer.pm parse_vm_config, check_type).
func ConfigLine() validator.String {
	return Check{Want: "must be one line of text", Wrong: func(value string) string {
		switch {
		case Line().Wrong(value) != "":
			return Line().Wrong(value)
		case strings.TrimSpace(value) != value:
			return "PVE drops the white space at its beginning and its end."
		case len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"':
			return "PVE drops the double quotes around it."
		}
		return ""
	}}
}

// Printable accepts a text of several lines without NUL characters, which PVE cannot store.
func Printable() validator.String {
	return Check{Want: "must be text", Wrong: func(value string) string {
		if strings.ContainsRune(value, 0) {
			return "It has a NUL character."
		}
		return ""
	}}
}

// VMID accepts the id of a guest.
func VMID() validator.Int64 { return int64validator.Between(MinVMID, MaxVMID) }

// Check is a validator made of a function that returns the fault of a known string, or "".
type Check struct {
	Want  string // the requirement, for messages and the documentation
	Wrong func(value string) string
	// Shows: the value stands in the message. Only that of an attribute which can hold no secret, even by mistake.
	Shows bool
}

var _ validator.String = Check{}

// Description returns the requirement.
func (c Check) Description(context.Context) string { return c.Want }

// MarkdownDescription returns the requirement.
func (c Check) MarkdownDescription(context.Context) string { return c.Want }

// ValidateString refuses a value for which Wrong returns a fault. It shows no value by default. A text may hold a
// secret, such as the password of a URL or a private key in the place of the public one. Terraform shows the line
// of the configuration, without what is sensitive. Wrong may show parts that are no secret.
func (c Check) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	value := req.ConfigValue.ValueString()
	if wrong := c.Wrong(value); wrong != "" {
		shown := ""
		if c.Shows {
			shown = fmt.Sprintf(", got: %q", value)
		}
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid Attribute Value",
			fmt.Sprintf("Attribute %s %s%s. %s", req.Path, c.Want, shown, wrong))
	}
}

// Timestamp accepts a time in the form of RFC 3339.
func Timestamp() validator.String {
	return Check{Want: "must be a time, such as \"2026-01-31T12:00:00Z\"", Shows: true,
		Wrong: func(value string) string {
			if _, err := time.Parse(time.RFC3339, value); err != nil {
				return "It is no time in the form of RFC 3339."
			}
			return ""
		}}
}

// PositiveDuration accepts a duration above zero.
func PositiveDuration() validator.String {
	return Check{Want: "must be a duration, such as \"90s\" or \"5m\"", Shows: true, Wrong: func(value string) string {
		if d, err := time.ParseDuration(value); err != nil || d <= 0 {
			return "It is not a positive number with a unit s, m or h."
		}
		return ""
	}}
}

// DNSName accepts the name of a guest (pve-common JSONSchema.pm, dns-name).
func DNSName() validator.String {
	return stringvalidator.RegexMatches(dnsName, "must be a DNS name: "+
		"letters, digits and hyphens in parts of at most 63 characters, separated by dots")
}
