package ssh

import (
	"errors"
	"regexp"
	"strings"
)

// plain matches a word that a POSIX shell takes unchanged at any place ("=" would make the first word an assignment).
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+:,./-]+$`)

// quote returns a command line that a POSIX shell splits into exactly args.
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
