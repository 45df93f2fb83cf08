package proxy

import (
	"bytes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// older is an answer as releases before http-server 5.2.0 gave it (2025-01): errors of the HTTP layer
// itself had no body, and a crash of the handler, such as of a JSON body that is none, was 501 (AnyEvent.pm).
func older(w *state.World, a *answer) *answer {
	if w.Has(state.ErrorsHaveBodies) || a.contentType != typePlain || !bytes.Equal(a.body, []byte(a.reason)) {
		return a
	}
	old := *a
	old.contentType, old.body = "", nil
	if old.status == 500 {
		old.status = 501
	}
	return &old
}
