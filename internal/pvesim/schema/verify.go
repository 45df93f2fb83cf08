package schema

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// verifier checks a value of a named format. Its error is PVE's text without the line break at the end.
type verifier func(value string) error

// verifiers are the checks of named formats, by id. Sources: pve-common JSONSchema.pm unless said otherwise.
func verifiers(version string) map[string]verifier {
	const mailbox = `[\w+\-~]+(?:\.[\w+\-~]+)*`
	const node = `[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?`
	const realm = `[A-Za-z][A-Za-z0-9.\-_]+`
	const name = `[A-Za-z0-9.\-_]+`
	v := map[string]verifier{
		"email": match(mailbox+`@[a-zA-Z0-9\-]+(?:\.[a-zA-Z0-9\-]+)*`,
			"value does not look like a valid email address"),
		"string":         func(string) error { return nil },
		"urlencoded":     match(`[-%a-zA-Z0-9_.!~*'()]*`, "invalid urlencoded string: %s"),
		"pve-configid":   match(`(?i:[a-z][a-z0-9_-]+)`, "invalid configuration ID '%s'"),
		"pve-storage-id": match(`(?i:[a-z][a-z0-9\-_.]*[a-z0-9])`, "storage ID '%s' contains illegal characters"),
		"pve-bridge-id":  match(`[-_.\w]+`, "invalid bridge ID '%s'"),
		"pve-vmid":       match(`[1-9][0-9]{2,8}`, "value does not look like a valid VM ID"),
		"pve-node":       match(node, "value does not look like a valid node name"),
		"dns-name":       match(`(?:`+node+`\.)*`+node, "value does not look like a valid DNS name"),
		"mac-prefix": match(`(?i:[a-f0-9][02468ace](?::[a-f0-9]{2}){0,2}:?)`,
			"value is not a valid unicast MAC address prefix"),
		"mac-addr": match(`(?i:[a-f0-9][02468ace](?::[a-f0-9]{2}){5})`,
			"value does not look like a valid unicast MAC address"),
		"pve-iface":          match(`(?i:[a-z][a-z0-9_]{1,20}(?:[:.]\d+)?)`, "invalid network interface name '%s'"),
		"pve-tag":            match(`(?i:[a-z0-9_][a-z0-9_\-+.]*)`, "invalid characters in tag"),
		"ldap-simple-attr":   match(`[a-zA-Z0-9]+`, "value '%s' does not look like a simple ldap attribute name"),
		"pve-volume-id":      volumeID,
		"pve-calendar-event": calendarEvent,
		"pve-task-status-type": match(`(?i:ok|error|warning|unknown)`,
			"invalid status '%s'"),
		// access-control AccessControl.pm, Auth/Plugin.pm
		"pve-groupid": match(name, "group name '%s' contains invalid characters"),
		"pve-roleid":  match(name, "role name '%s' contains invalid characters"),
		"pve-realm":   match(realm, "value does not look like a valid realm"),
		"pve-tokenid": match(`[^\s:/]+@`+realm+`!`+realm, "value '%s' does not look like a valid token ID"),
		"pve-poolid":  poolID(match(name+`(?:/`+name+`){0,2}`, "pool name '%s' contains invalid characters")),
		"pve-userid":  userID(match(`[^\s:/]+@`+realm, "value '%s' does not look like a valid user name")),
		"pve-priv":    privilege(version),
		// pve-ha-manager HA/Tools.pm
		"pve-ha-resource-id":       match(`[a-z]+:\S+`, "value does not look like a valid ha resource id"),
		"pve-ha-resource-or-vm-id": match(`(?:[a-z]+:\S+|\d+)`, "value does not look like a valid ha resource id"),
		// pve-storage Storage/Plugin.pm
		"pve-storage-path":    matchPrefix(`/[^;()]+`, "value does not look like a valid absolute path"),
		"pve-storage-vgname":  match(`(?i:[a-z0-9][a-z0-9\-_.]*[a-z0-9])`, "lvm name '%s' contains illegal characters"),
		"pve-storage-options": match(`\S+`, "invalid options '%s'"),
		"pve-storage-content": match(`(?:backup|images|import|iso|none|rootdir|snippets|vztmpl)`,
			"invalid content type '%s'"),
	}
	v["pve-dir-override"] = dirOverride(match(`[a-z]+=[^.]*(?:\.?[^.]+)+`, ""), v["pve-storage-content"])
	addressVerifiers(v)
	vmVerifiers(v)
	return v
}

// vmVerifiers are those of VM options: qemu-server QemuServer.pm, QemuServer/Drive.pm, QemuServer/CPUConfig.pm.
func vmVerifiers(v map[string]verifier) {
	v["disk-size"] = func(value string) error {
		if _, ok := ParseSize(value); !ok {
			return fmt.Errorf("value does not look like a valid disk size: %s", value)
		}
		return nil
	}
	v["pve-volume-id-or-absolute-path"] = func(value string) error {
		if strings.HasPrefix(value, "/") {
			return nil
		}
		return volumeID(value)
	}
	v["pve-volume-id-or-qm-path"] = func(value string) error {
		if value == "none" || value == "cdrom" {
			return nil
		}
		return v["pve-volume-id-or-absolute-path"](value)
	}
	v["pve-qm-bootdisk"] = func(value string) error {
		if !isDrive(value) {
			return fmt.Errorf("invalid boot disk '%s'", value)
		}
		return nil
	}
	v["pve-qm-bootdev"] = bootDevice
	v["pve-hotplug-features"] = hotplug
	v["pve-startup-order"] = startup
	v["pve-cpuset"] = cpuset
	v["pve-phys-bits"] = physBits
	v["storage-pair"] = idPair(v["pve-storage-id"])
	v["bridge-pair"] = idPair(v["pve-bridge-id"])
}

// match makes a verifier of a pattern; a %s in the text stands for the value.
func match(pattern, text string) verifier { return matchPrefix(pattern+`\n?$`, text) }

func matchPrefix(pattern, text string) verifier {
	re := regexp.MustCompile(`^` + pattern)
	return func(value string) error {
		if re.MatchString(value) {
			return nil
		}
		return errors.New(strings.Replace(text, "%s", value, 1))
	}
}

// or accepts what one of the verifiers accepts.
func or(text string, choices ...verifier) verifier {
	return func(value string) error {
		for _, one := range choices {
			if one(value) == nil {
				return nil
			}
		}
		return errors.New(text)
	}
}

func oneOf(words ...string) verifier {
	return func(value string) error {
		if contains(words, value) {
			return nil
		}
		return errors.New("no such word")
	}
}

// idPair is a map entry source:target, a lone target, or 1 for "as it is".
func idPair(id verifier) verifier {
	return func(value string) error {
		if value == "1" {
			return nil
		}
		source, target, isPair := strings.Cut(value, ":")
		parts := []string{source}
		if isPair {
			parts = append(parts, target)
		}
		for _, part := range parts {
			if err := id(part); err != nil {
				return die("entry '%s' contains invalid ID - %s\n\n", value, err)
			}
		}
		return nil
	}
}

// splitList is how PVE splits *-list values: at commas, semicolons and white space, or at NUL if there is one.
func splitList(value string) []string {
	if strings.Contains(value, "\x00") {
		return strings.Split(value, "\x00")
	}
	return strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(",; \t\n\r\f\v", c) })
}
