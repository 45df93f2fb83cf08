package ssh

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
)

// errLost means that a connection ended before the answer arrived.
var errLost = errors.New("the connection was lost in the middle of it: it may have had its effect, or be still at work")

// Error is an operation that failed on a node.
type Error struct {
	Op         string // the attempted operation: "unlock VM 100"
	Node       string
	Command    string // the command line, as sent. "": the node was not reached.
	ExitStatus int    // that of the command. -1: unknown, or the command did not run.
	Stderr     string // the command's stderr, trimmed; long output keeps its end
	Err        error  // why there is no exit status; nil if there is one
}

// Error names the operation, the node and the command's answer.
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

// Unwrap returns the cause of a failure that is not the command's own.
func (e *Error) Unwrap() error { return e.Err }

// Kind is fault.Ambiguous for a lost answer: the caller looks for the effect, and proves its right again before a
// second try.
func (e *Error) Kind() fault.Kind {
	if errors.Is(e.Err, errLost) {
		return fault.Ambiguous
	}
	return fault.Unknown
}

// noVolume matches the messages of storage tools about a missing volume. Most plugins succeed then (dir warns, zfspool
// and lvmthin look first); LVM and RBD pass on the messages of lvremove and rbd (pve-storage LVMPlugin.pm,
// RBDPlugin.pm).
var noVolume = regexp.MustCompile(`dataset does not exist|disk image '[^']*' does not exist|` +
	`Failed to find logical volume|rbd error: .*No such file or directory`)

func isNoVolume(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.ExitStatus > 0 && noVolume.MatchString(failed.Stderr)
}

// tidy trims a command's output for an error text and keeps the end of a long one, which has the cause.
func tidy(output string) string {
	const most = 2000
	output = strings.TrimSpace(output)
	if len(output) > most {
		output = "…" + strings.ToValidUTF8(output[len(output)-most:], "")
	}
	return output
}
