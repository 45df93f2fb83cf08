package schema

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// verifier checks a value of a named format. Its error is PVE's text without the line break at the end.
type verifier func(value string) error

// verifiers are the checks of named formats, by id. Sources: pve-common JSONSchema.pm unless said otherwise.
func verifiers() map[string]verifier {
	const node = `[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?`
	const realm = `[A-Za-z][A-Za-z0-9.\-_]+`
	const name = `[A-Za-z0-9.\-_]+`
	v := map[string]verifier{
		"string":             func(string) error { return nil },
		"urlencoded":         match(`[-%a-zA-Z0-9_.!~*'()]*`, "invalid urlencoded string: %s"),
		"pve-configid":       match(`(?i:[a-z][a-z0-9_-]+)`, "invalid configuration ID '%s'"),
		"pve-storage-id":     match(`(?i:[a-z][a-z0-9\-_.]*[a-z0-9])`, "storage ID '%s' contains illegal characters"),
		"pve-bridge-id":      match(`[-_.\w]+`, "invalid bridge ID '%s'"),
		"pve-vmid":           match(`[1-9][0-9]{2,8}`, "value does not look like a valid VM ID"),
		"pve-node":           match(node, "value does not look like a valid node name"),
		"dns-name":           match(`(?:`+node+`\.)*`+node, "value does not look like a valid DNS name"),
		"mac-addr":           match(`(?i:[a-f0-9][02468ace](?::[a-f0-9]{2}){5})`, "value does not look like a valid unicast MAC address"),
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
		"pve-poolid":  poolID,
		"pve-userid":  userID,
		"pve-priv":    privilege,
		// pve-ha-manager HA/Tools.pm
		"pve-ha-resource-id":       match(`[a-z]+:\S+`, "value does not look like a valid ha resource id"),
		"pve-ha-resource-or-vm-id": match(`(?:[a-z]+:\S+|\d+)`, "value does not look like a valid ha resource id"),
		// pve-storage Storage/Plugin.pm
		"pve-storage-path":    matchPrefix(`/[^;()]+`, "value does not look like a valid absolute path"),
		"pve-storage-vgname":  match(`(?i:[a-z0-9][a-z0-9\-_.]*[a-z0-9])`, "lvm name '%s' contains illegal characters"),
		"pve-storage-options": match(`\S+`, "invalid options '%s'"),
		"pve-storage-content": match(`(?:backup|images|import|iso|none|rootdir|snippets|vztmpl)`, "invalid content type '%s'"),
	}
	addressVerifiers(v)
	vmVerifiers(v)
	return v
}

// addressVerifiers are those of IP addresses and networks. IPorCIDR: pve-firewall Firewall.pm.
func addressVerifiers(v map[string]verifier) {
	v["ipv4"] = addr("value does not look like a valid IPv4 address", netip.Addr.Is4)
	v["ipv6"] = addr("value does not look like a valid IPv6 address", netip.Addr.Is6)
	v["ip"] = addr("value does not look like a valid IP address", netip.Addr.IsValid)
	v["CIDRv4"] = cidr("value does not look like a valid IPv4 CIDR network", netip.Addr.Is4)
	v["CIDRv6"] = cidr("value does not look like a valid IPv6 CIDR network", netip.Addr.Is6)
	v["CIDR"] = cidr("value does not look like a valid CIDR network", netip.Addr.IsValid)
	v["pve-ipv4-config"] = or("value does not look like a valid ipv4 network configuration", oneOf("dhcp", "manual"), v["CIDRv4"])
	v["pve-ipv6-config"] = or("value does not look like a valid ipv6 network configuration", oneOf("auto", "dhcp", "manual"), v["CIDRv6"])
	v["pve-storage-server"] = or("value does not look like a valid server name or IP address", v["ip"], v["dns-name"])
	v["IPorCIDR"] = or("value does not look like a valid IP address or CIDR network", v["ip"], anyPrefix)
	v["address"] = func(value string) error {
		if v["ip"](value) == nil || v["dns-name"](value) == nil {
			return nil
		}
		return fmt.Errorf("value does not look like a valid address: %s", value)
	}
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
func or(text string, any ...verifier) verifier {
	return func(value string) error {
		for _, one := range any {
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

// addr makes a verifier of addresses of one family.
func addr(text string, family func(netip.Addr) bool) verifier {
	return func(value string) error {
		if a, err := netip.ParseAddr(value); err != nil || a.Zone() != "" || !family(a) {
			return errors.New(text)
		}
		return nil
	}
}

// cidr asks for a prefix length of 8 or more, the host part may be set (10.0.0.5/24).
func cidr(text string, family func(netip.Addr) bool) verifier {
	return func(value string) error {
		address, length, ok := strings.Cut(value, "/")
		a, err := netip.ParseAddr(address)
		if !ok || err != nil || a.Zone() != "" || !family(a) || digits(length) != len(length) {
			return errors.New(text)
		}
		if n, err := strconv.Atoi(length); err != nil || n <= 7 || n > a.BitLen() {
			return errors.New(text)
		}
		return nil
	}
}

func anyPrefix(value string) error {
	_, err := netip.ParsePrefix(value)
	return err
}

// volumeID is <storage>:<volume>.
func volumeID(value string) error {
	storage, volume, ok := strings.Cut(value, ":")
	volume = strings.TrimSuffix(volume, "\n")
	if !ok || volume == "" || strings.Contains(volume, "\n") || !isStorageID(storage) {
		return fmt.Errorf("unable to parse volume ID '%s'", value)
	}
	return nil
}

func isStorageID(s string) bool {
	if len(s) < 2 || !isLetter(s[0]) || !isLetter(s[len(s)-1]) && digits(s[len(s)-1:]) == 0 {
		return false
	}
	for i := range len(s) {
		if !isLetter(s[i]) && digits(s[i:i+1]) == 0 && !strings.ContainsRune("-_.", rune(s[i])) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// calendarEvent knows only that an empty event is none; what a schedule means is not simulated.
func calendarEvent(value string) error {
	if strings.TrimSpace(value) == "" {
		return fmt.Errorf("invalid calendar event '%s' - unable to parse calendar event - event is empty\n", value)
	}
	return nil
}

func poolID(value string) error {
	parts := strings.Split(strings.TrimRight(value, "/"), "/")
	if len(parts) > 3 {
		return fmt.Errorf("pool name '%s' nested too deeply (max levels = 3)", value)
	}
	return match(`[A-Za-z0-9.\-_]+(?:/[A-Za-z0-9.\-_]+){0,2}`, "pool name '%s' contains invalid characters")(value)
}

func userID(value string) error {
	switch n := utf8.RuneCountInString(value); {
	case n < 3:
		return fmt.Errorf("user name '%s' is too short", value)
	case n > 64:
		return fmt.Errorf("user name '%s' is too long (%d > 64)", value, n)
	}
	return match(`[^\s:/]+@[A-Za-z][A-Za-z0-9.\-_]+`, "value '%s' does not look like a valid user name")(value)
}

// privilege knows the privileges of 8.4: VM.GuestAgent.* and VM.Replicate came and VM.Monitor went with 9.0.
func privilege(value string) error {
	known := strings.Fields(`Datastore.Allocate Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit
		Group.Allocate Mapping.Audit Mapping.Modify Mapping.Use Permissions.Modify Pool.Allocate Pool.Audit
		Realm.Allocate Realm.AllocateUser SDN.Allocate SDN.Audit SDN.Use Sys.AccessNetwork Sys.Audit Sys.Console
		Sys.Incoming Sys.Modify Sys.PowerMgmt Sys.Syslog User.Modify VM.Allocate VM.Audit VM.Backup VM.Clone
		VM.Config.CDROM VM.Config.CPU VM.Config.Cloudinit VM.Config.Disk VM.Config.HWType VM.Config.Memory
		VM.Config.Network VM.Config.Options VM.Console VM.Migrate VM.Monitor VM.PowerMgmt VM.Snapshot
		VM.Snapshot.Rollback`)
	if !contains(known, value) {
		return fmt.Errorf("invalid privilege '%s'", value)
	}
	return nil
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
				return fmt.Errorf("entry '%s' contains invalid ID - %w\n\n", value, err)
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
