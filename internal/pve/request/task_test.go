package request

import (
	"errors"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

func TestPatience(t *testing.T) {
	broken := &pve.Error{Kind: pve.Ambiguous, Err: errors.New("connection reset by peer")}
	if cut, slow := Patience(broken), Patience(&pve.Error{Kind: pve.Ambiguous, Status: 596}); cut >= slow {
		t.Errorf("%d lookups after a broken line, %d behind a timeout", cut, slow)
	}
}

// TestKnownTasksAnswerOneRequest: a search never gives a task that answered another request of this process.
func TestKnownTasksAnswerOneRequest(t *testing.T) {
	s := New(nil, nil)
	const upid = pve.UPID("UPID:pve1:00000001:00000001:00000001:qmclone:9000:root@pam:")
	if s.IsKnown(upid) {
		t.Error("known before it was seen")
	}
	if s.known(upid); !s.IsKnown(upid) {
		t.Error("not known")
	}
}
