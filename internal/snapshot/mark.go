package snapshot

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// markTitle opens the description of a snapshot that is not committed yet.
const markTitle = "Terraform is taking this snapshot. Do not touch it."

// mark is the whole description of a snapshot until the commit replaces it by the wanted one. It proves that a snapshot
// is ours after its task was killed, or after the answer to its request was lost.
type mark string

func newMark(vmid int) mark {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails, see crypto/rand
	return mark(fmt.Sprintf("%s\n\nvmid: %d\ntransaction: %s", markTitle, vmid, hex.EncodeToString(id)))
}

// isOn reports whether a description is this mark.
func (m mark) isOn(description string) bool { return strings.TrimRight(description, "\n") == string(m) }

// id is the part of a mark that is unique.
func (m mark) id() string { return string(m[strings.LastIndex(string(m), " ")+1:]) }

// isMarked reports whether a description is the mark of some run.
func isMarked(description string) bool { return strings.HasPrefix(description, markTitle) }

// moment says when a snapshot was taken.
func moment(taken int64) string { return time.Unix(taken, 0).UTC().Format(time.RFC3339) }
