package schema

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
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

// privilege knows the privileges of a release.
func privilege(version string) verifier {
	return func(value string) error {
		if !release.HasPrivilege(version, value) {
			return fmt.Errorf("invalid privilege '%s'", value)
		}
		return nil
	}
}
