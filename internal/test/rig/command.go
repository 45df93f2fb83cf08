package rig

import (
	"regexp"
)

// A command, alone or with the node before or behind it.
const (
	quoted = "`((?:qm|pvesm|ha-manager|pvesh|zfs|grep|rm) [^`]+)`"
	listed = "as root on ([a-z0-9]+): ([^\n]+)"
	onNode = "(?: (?:as root )?on node ([a-z0-9]+))?"
)

// Printed are the commands that the user is told to run as root, with the node if it is said.
var Printed = regexp.MustCompile("(?:" + quoted + "|" + listed + ")" + onNode)
