package model

import (
	"errors"
	"fmt"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// Request is what is waited for, nil if nothing is.
func (w *WaitFor) Request() *guest.Wait {
	if w == nil || !Value(w.Agent) && !Value(w.IPv4) && !Value(w.IPv6) {
		return nil
	}
	return &guest.Wait{Agent: Value(w.Agent), IPv4: Value(w.IPv4), IPv6: Value(w.IPv6),
		Timeout: kit.Duration(w.Timeout, 0), Warn: w.warns()}
}

func (w *WaitFor) warns() bool { return w == nil || Value(w.OnTimeout) != "fail" }

// patience is how long a create waits for an address that nothing asks for.
const patience = 2 * time.Minute

// AwaitedByCreate is what a create waits for: what wait_for names. If it names nothing, that is an address, as long as
// the configuration itself switches the agent on: a template may have the option for an image without an agent.
func (m *Model) AwaitedByCreate(c Configuration) *guest.Wait {
	w := m.WaitFor
	if asked := w.Request(); asked != nil {
		return asked
	}
	if w != nil && (w.Agent != nil || w.IPv4 != nil || w.IPv6 != nil) || !c.IsTrue("agent.enabled") ||
		!m.StartsWhenMade() {
		return nil
	}
	wait := &guest.Wait{ByDefault: true, Timeout: patience, Warn: w.warns()}
	if w != nil {
		wait.Timeout = kit.Duration(w.Timeout, patience)
	}
	return wait
}

// IsWaiting reports whether an operation has done its work, and the guest only did not get as far as it was waited for.
func IsWaiting(err error) bool {
	var failed *guest.WaitError
	return errors.As(err, &failed)
}

// NamedAfterWaiting gives such an attempt its name.
func NamedAfterWaiting(a kit.Attempt, err error) kit.Attempt {
	if IsWaiting(err) {
		a.Verb = "finish waiting for"
	}
	return a
}

// ExplainTaint adds what Terraform makes of a create that only did not wait to the end.
func ExplainTaint(err error) error {
	if !IsWaiting(err) {
		return err
	}
	return fmt.Errorf("%w\n\nThe VM is in state. Terraform takes every create with an error for failed and marks the "+
		"VM as tainted, so that the next apply replaces it; \"terraform untaint\" of this resource's address keeps it as "+
		"it is", err)
}
