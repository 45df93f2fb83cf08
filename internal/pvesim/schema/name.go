package schema

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

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
		return die("invalid calendar event '%s' - unable to parse calendar event - event is empty\n", value)
	}
	return nil
}

// poolID: pools nest up to three levels.
func poolID(name verifier) verifier {
	return func(value string) error {
		parts := strings.Split(strings.TrimRight(value, "/"), "/")
		if len(parts) > 3 {
			return fmt.Errorf("pool name '%s' nested too deeply (max levels = 3)", value)
		}
		return name(value)
	}
}

// userID is name@realm of 3 to 64 characters.
func userID(name verifier) verifier {
	return func(value string) error {
		switch n := utf8.RuneCountInString(value); {
		case n < 3:
			return fmt.Errorf("user name '%s' is too short", value)
		case n > 64:
			return fmt.Errorf("user name '%s' is too long (%d > 64)", value, n)
		}
		return name(value)
	}
}

// dirOverride is content=path, the path of less than 1023 bytes and its parts of less than 255, without "..".
func dirOverride(form, content verifier) verifier {
	return func(value string) error {
		kind, path, _ := strings.Cut(value, "=")
		good := form(value) == nil && content(kind) == nil && len(path) < 1023
		for _, part := range strings.Split(path, "/") {
			good = good && len(part) < 255
		}
		if !good {
			return fmt.Errorf("invalid override '%s'", value)
		}
		return nil
	}
}

// privilege knows the privileges of a release: VM.GuestAgent.* and VM.Replicate came and VM.Monitor went with 9.0
// (AccessControl.pm, $privgroups).
func privilege(version string) verifier {
	known := strings.Fields(`Datastore.Allocate Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit
		Group.Allocate Mapping.Audit Mapping.Modify Mapping.Use Permissions.Modify Pool.Allocate Pool.Audit
		Realm.Allocate Realm.AllocateUser SDN.Allocate SDN.Audit SDN.Use Sys.AccessNetwork Sys.Audit Sys.Console
		Sys.Incoming Sys.Modify Sys.PowerMgmt Sys.Syslog User.Modify VM.Allocate VM.Audit VM.Backup VM.Clone
		VM.Config.CDROM VM.Config.CPU VM.Config.Cloudinit VM.Config.Disk VM.Config.HWType VM.Config.Memory
		VM.Config.Network VM.Config.Options VM.Console VM.Migrate VM.PowerMgmt VM.Snapshot VM.Snapshot.Rollback`)
	if splitMonitor().Has(version) {
		known = append(known, "VM.GuestAgent.Audit", "VM.GuestAgent.FileRead", "VM.GuestAgent.FileSystemMgmt",
			"VM.GuestAgent.FileWrite", "VM.GuestAgent.Unrestricted", "VM.Replicate")
	} else {
		known = append(known, "VM.Monitor")
	}
	return func(value string) error {
		if !contains(known, value) {
			return fmt.Errorf("invalid privilege '%s'", value)
		}
		return nil
	}
}
