// Package task reads what PVE writes about its tasks: their UPIDs and their logs.
package task

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// UPID identifies a task: UPID:node:pid:pstart:starttime:type:id:user: with the numbers in hexadecimal (pve-common
// UPID.pm).
type UPID string

// ParseUPID checks the form of s.
func ParseUPID(s string) (UPID, error) {
	u := UPID(s)
	if !u.Valid() {
		return "", fmt.Errorf("%.80q is not a UPID", s)
	}
	return u, nil
}

const upidParts = 9

func (u UPID) part(i int) string {
	parts := strings.Split(string(u), ":")
	if len(parts) != upidParts {
		return ""
	}
	return parts[i]
}

// Valid tells whether u has the form of a UPID. The id may be empty, the rest may not.
func (u UPID) Valid() bool {
	p := strings.Split(string(u), ":")
	if len(p) != upidParts || p[0] != "UPID" || p[1] == "" || p[5] == "" || p[7] == "" || p[8] != "" {
		return false
	}
	if strings.ContainsAny(string(u), " \t\r\n/") {
		return false
	}
	return isHex(p[2], 8, 8) && isHex(p[3], 8, 9) && isHex(p[4], 8, 8)
}

func isHex(s string, minLen, maxLen int) bool {
	_, err := strconv.ParseUint(s, 16, 64)
	return err == nil && len(s) >= minLen && len(s) <= maxLen
}

// Node is where the task runs.
func (u UPID) Node() string { return u.part(1) }

// Type is PVE's name of the work: qmcreate, qmclone, imgdel …
func (u UPID) Type() string { return u.part(5) }

// ID is what it works on, mostly a VMID; "<vmid>@<storage>" for imgdel; may be empty. A clone carries the source's
// VMID.
func (u UPID) ID() string { return u.part(6) }

// User is who started it: user@realm or user@realm!tokenid.
func (u UPID) User() string { return u.part(7) }

// Start is when it started, by the node's clock, to the second; the zero time for an invalid UPID.
func (u UPID) Start() time.Time {
	seconds, err := strconv.ParseInt(u.part(4), 16, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// Describe is the task in words, for errors.
func (u UPID) Describe() string {
	if !u.Valid() {
		return fmt.Sprintf("task %.80q", string(u))
	}
	what := u.Type()
	switch id := u.ID(); {
	case id == "":
	case strings.Trim(id, "0123456789") == "":
		what += " of VM " + id
	default:
		what += " of " + id
	}
	return "task " + what + " on node " + u.Node()
}
