package tfvm

import (
	"errors"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// request is what is waited for, nil if nothing is.
func (w *waitForModel) request() *guest.Wait {
	if w == nil || !value(w.Agent) && !value(w.IPv4) && !value(w.IPv6) {
		return nil
	}
	return &guest.Wait{Agent: value(w.Agent), IPv4: value(w.IPv4), IPv6: value(w.IPv6),
		Timeout: tfkit.Duration(w.Timeout, 0), Warn: value(w.OnTimeout) == "warn"}
}

// isWaiting reports whether an operation has done its work, and the guest only did not get as far as it was waited for.
func isWaiting(err error) bool {
	var failed *guest.WaitError
	return errors.As(err, &failed)
}

// namedAfterWaiting gives such an attempt its name.
func namedAfterWaiting(a tfkit.Attempt, err error) tfkit.Attempt {
	if isWaiting(err) {
		a.Verb = "finish waiting for"
	}
	return a
}

// explainTaint adds what Terraform makes of a create that only did not wait to the end.
func explainTaint(err error) error {
	if !isWaiting(err) {
		return err
	}
	return fmt.Errorf("%w\n\nThe VM is in state. Terraform takes every create with an error for failed and marks the VM as tainted, "+
		"so that the next apply replaces it; \"terraform untaint\" of this resource's address keeps it as it is", err)
}
