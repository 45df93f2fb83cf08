package ssh

import (
	"errors"
	"regexp"
	"strings"
)

// plain matches a word that a shell takes unchanged at any place ("=" would make the first word an assignment).
var plain = regexp.MustCompile(`^[A-Za-z0-9_@+:,./-]+$`)

// quote returns a command line that the login shell, be it a POSIX shell, fish or csh, splits into exactly args. Within
// single quotes fish reads \' and \\ as escapes, and csh replaces "!". These three characters are put outside of them,
// behind a backslash, where all shells agree. csh refuses a line break within quotes, and runs nothing.
func quote(args []string) (string, error) {
	if len(args) == 0 || args[0] == "" {
		return "", errors.New("no command given")
	}
	outside := strings.NewReplacer(`'`, `'\''`, `\`, `'\\'`, `!`, `'\!'`)
	words := make([]string, len(args))
	for i, arg := range args {
		switch {
		case strings.ContainsRune(arg, 0):
			return "", errors.New("a command argument contains a NUL byte")
		case plain.MatchString(arg):
			words[i] = arg
		default:
			words[i] = "'" + outside.Replace(arg) + "'"
		}
	}
	return strings.Join(words, " "), nil
}

// begun is the line that a command prints first to each of its outputs. Text before it is the login shell's, whose
// start-up files may print.
const begun = "terraform-provider-proxmox:begun"

// notRun begins the line that a host prints instead if it is not the node that is meant. Its own name follows.
const notRun = "terraform-provider-proxmox:not run on host "

// frame runs a command on one node only, whose name is its first argument: an address may be wrong, or another host's
// by now, and the host key is then the one of that address. A node's name is the first label of the host's (pve-common
// src/PVE/INotify.pm, nodename).
const frame = `sh -c 'set -- "$(uname -n)" "$@"; ` +
	`[ "${1%%.*}" = "$2" ] || { echo; echo "` + notRun + `$1"; exit 1; }; shift 2; ` +
	`echo; echo ` + begun + `; echo >&2; echo ` + begun + ` >&2; exec "$@"' sh `

// framed returns the line that has sh run a quoted command on a node, whatever the login shell is. Without a command it
// only asks whether the host is the node.
func framed(node, command string) (string, error) {
	if node == "" {
		return "", errors.New("no node given")
	}
	name, err := quote([]string{node})
	return strings.TrimSuffix(frame+name+" "+command, " "), err
}

// refusedBy returns the name of the host that did not run a command since it is not the node.
func refusedBy(output string) (host string, refused bool) {
	_, rest, refused := strings.Cut(output, "\n"+notRun)
	host, _, _ = strings.Cut(rest, "\n")
	return host, refused
}

// unframed returns what a command itself has printed. Without the frame, which means that the command was not begun,
// that is all.
func unframed(output string) (own string, framed bool) {
	if _, own, framed = strings.Cut(output, "\n"+begun+"\n"); framed {
		return own, true
	}
	return output, false
}
