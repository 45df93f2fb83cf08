package remove

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestFound11GoneFromThePool: an identity with privileges in a pool alone gets 403 for a VM that is gone, since it has left the pool.
// That the id is free proves that it is.
func TestFound11GoneFromThePool(t *testing.T) {
	r := newRig(t, asToken)
	ref := r.vm(300)
	id, _, _ := strings.Cut(r.sim.Credentials().Token, "=")
	user, _, _ := strings.Cut(id, "!")
	r.change(func(w *state.World) {
		for i := range w.ACL {
			if w.ACL[i].Subject == id || w.ACL[i].Subject == user {
				w.ACL[i].Path = "/pool/web"
			}
		}
	})
	if _, _, err := r.s.Delete(t.Context(), Request{Ref: ref}); err == nil {
		t.Error("what may not be seen was taken for gone")
	}
	r.change(func(w *state.World) { delete(w.Guests, 300) })
	if _, seen, err := r.s.guests.Read(t.Context(), ref); seen != guest.Gone || err != nil {
		t.Errorf("a refresh sees %d, %v", seen, err)
	}
	if left, _, err := r.s.Delete(t.Context(), Request{Ref: ref}); len(left) > 0 || err != nil {
		t.Errorf("its destroy: %v, %v", left, err)
	}
}

// TestFound05NoDate: without the server's clock the lease of a create is counted from this machine's.
func TestFound05NoDate(t *testing.T) {
	r := newRig(t, asToken) // has asked nothing yet, as if no answer had said the time
	if !r.s.api.ServerTime().IsZero() {
		t.Fatal("the server's time is known already")
	}
	if left := r.s.guests.Deadline(0).Sub(r.s.clock.Now()); left <= 0 {
		t.Errorf("the lease of a create that begins now is over since %s", -left)
	}
}
