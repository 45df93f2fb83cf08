package host

import (
	"errors"
	"regexp"
	"strings"
)

// plain is a word that a POSIX shell takes as it is, wherever it stands ("=" would make the first word an assignment).
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+:,./-]+$`)

// quote makes a command line of which a POSIX shell makes exactly args again.
func quote(args []string) (string, error) {
	if len(args) == 0 || args[0] == "" {
		return "", errors.New("no command given")
	}
	words := make([]string, len(args))
	for i, arg := range args {
		switch {
		case strings.ContainsRune(arg, 0):
			return "", errors.New("a command argument contains a NUL byte")
		case plain.MatchString(arg):
			words[i] = arg
		default:
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " "), nil
}
