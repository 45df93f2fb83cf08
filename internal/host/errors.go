package host

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// errLost is the cause when a connection ended before the command's exit status arrived: the command may or may not
// have been carried out.
var errLost = errors.New("the connection was lost before the command ended")

// Error is an operation that failed on a node.
type Error struct {
	Op         string // what was attempted: "unlock VM 100"
	Node       string
	Command    string // the command line, as sent; "" if the node was not reached
	ExitStatus int    // of the command; -1 if it is not known or the command did not run
	Stderr     string // what the command printed on stderr, trimmed; long output keeps its end
	Err        error  // why there is no exit status; nil if there is one
}

// Error says what was attempted, where, and what the command answered.
func (e *Error) Error() string {
	text := e.Op + " on node " + e.Node
	if e.Command != "" {
		text += ": " + e.Command
	}
	switch {
	case e.Err != nil:
		text += ": " + e.Err.Error()
	case e.Stderr == "":
		text += fmt.Sprintf(": exit status %d", e.ExitStatus)
	default:
		text += fmt.Sprintf(": exit status %d: %s", e.ExitStatus, e.Stderr)
	}
	return text
}

// Unwrap gives the cause of a failure that is not the command's own.
func (e *Error) Unwrap() error { return e.Err }

// noVolume is what the storage tools print of a volume that is not there. Most plugins succeed then (dir warns, zfspool
// and lvmthin look first); LVM and RBD pass on what lvremove and rbd say (pve-storage LVMPlugin.pm, RBDPlugin.pm).
var noVolume = regexp.MustCompile(`dataset does not exist|disk image '[^']*' does not exist|` +
	`Failed to find logical volume|rbd error: .*No such file or directory`)

func isNoVolume(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.ExitStatus > 0 && noVolume.MatchString(failed.Stderr)
}

// tidy trims a command's output for an error text and keeps the end of a long one, where the cause stands.
func tidy(output string) string {
	const most = 2000
	output = strings.TrimSpace(output)
	if len(output) > most {
		output = "…" + strings.ToValidUTF8(output[len(output)-most:], "")
	}
	return output
}
