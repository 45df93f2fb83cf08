package kit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// Locator finds the place of an error in the configuration of a resource. Both methods return false if no attribute
// fits.
type Locator interface {
	// Parameter returns the attribute behind a parameter of PVE's API: "net0", "memory".
	Parameter(name string) (path.Path, bool)
	// Attribute returns the path of its dotted form: "disks.scsi0.storage".
	Attribute(dotted string) (path.Path, bool)
}

// Attempt describes an operation for the reader of its error.
type Attempt struct {
	Verb  string // create, read, update, destroy, import
	Thing string // "VM 101 on pve1"
	VMID  int    // the VM that it is about; 0 for none
	At    Locator
	// As is the identity of the provider on the server.
	As Identity
	// Secrets are removed from messages of PVE that repeat them. The API client knows its own; these are those that it
	// never saw in clear text.
	Secrets []string
	// Kept: a failed create left its VM on purpose (on_failure = "keep").
	Kept bool
	// Stateless: what a failed create leaves is named, and not kept in state.
	Stateless bool
	// Doubt: nothing is known to be left of a failed create, and yet not all could be looked at.
	Doubt bool
}

// Diagnose turns an error into diagnostics, one per cause, on the attribute of the cause. Each has PVE's words, the
// task and the end of its log, what was undone, the leftovers, and the command that removes them. A nil error gives
// none.
func Diagnose(a Attempt, err error) diag.Diagnostics {
	if err == nil {
		return nil
	}
	var failed *saga.Error
	if errors.As(err, &failed) {
		return a.diagnose(failed.Err, failed.Step, a.afterFailure(failed))
	}
	return a.diagnose(err, "", "")
}

// diagnose makes the diagnostics. The first one has the failed step and the text about its aftermath.
func (a Attempt) diagnose(err error, step, after string) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, each := range unjoin(err) {
		var failed *saga.StepError
		if errors.As(each, &failed) {
			diags = append(diags, a.diagnose(failed.Err, failed.Step, after)...)
			continue
		}
		if text, isTold := a.asFor(each); isTold && step == "" && after == "" {
			diags.AddError(a.summary()+": "+text, "")
			continue
		}
		for _, c := range a.causes(each) {
			detail := a.redact(c.detail(step, after))
			if len(c.path.Steps()) == 0 {
				diags.AddError(a.summary(), detail)
			} else {
				diags.AddAttributeError(c.path, a.summary(), detail)
			}
			step, after = "", "" // told once
		}
	}
	return diags
}

func (a Attempt) summary() string { return "Cannot " + a.Verb + " " + a.Thing }

// redact removes the secrets from a text.
func (a Attempt) redact(text string) string {
	for _, secret := range a.Secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "(redacted)")
		}
	}
	return text
}

// unjoin takes errors.Join apart.
func unjoin(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, each := range many.Unwrap() {
			all = append(all, unjoin(each)...)
		}
		return all
	}
	return []error{err}
}

// cause is one diagnostic in the making.
type cause struct {
	path  path.Path
	text  string // what happened, in PVE's words
	task  string // task and the end of its log
	hints []string
}

// inWords returns an error with its origin: an answer of PVE, or a conclusion of the provider.
func inWords(err error) string {
	var answer *pve.Error
	var task *pve.TaskError
	if errors.As(err, &answer) || errors.As(err, &task) {
		return "PVE says: " + err.Error()
	}
	return "Because: " + err.Error()
}

func (c cause) detail(step, after string) string {
	text := c.text
	if step != "" && !strings.Contains(text, step) {
		text = "Failed step: " + step + ".\n" + text
	}
	parts := []string{text}
	if c.task != "" {
		parts = append(parts, c.task)
	}
	if after != "" {
		parts = append(parts, after)
	}
	if len(c.hints) > 0 {
		parts = append(parts, strings.Join(c.hints, "\n"))
	}
	return strings.Join(parts, "\n\n")
}

// causes finds the attribute and the words. An answer with several refused parameters has several causes.
func (a Attempt) causes(err error) []cause {
	var field *guest.FieldError
	if errors.As(err, &field) {
		c := a.plain(err)
		c.text = field.Summary + "."
		if field.Detail != "" {
			c.text += "\n" + field.Detail + "."
			c.text = strings.ReplaceAll(c.text, "..", ".")
		}
		if field.Err != nil {
			c.text += "\n" + inWords(field.Err)
		}
		if at, ok := a.attribute(field.Path); ok {
			c.path = at
		}
		return []cause{c}
	}
	var answer *pve.Error
	if !errors.As(err, &answer) || len(answer.Params) == 0 {
		return []cause{a.plain(err)}
	}
	var all []cause
	for _, name := range slices.Sorted(maps.Keys(answer.Params)) {
		c := cause{hints: a.hints(err)}
		c.text = fmt.Sprintf("PVE refused to %s: %s: %s", answer.Op, name, answer.Params[name])
		if at, ok := a.parameter(name); ok {
			c.path = at
		}
		all = append(all, c)
	}
	return all
}

func (a Attempt) plain(err error) cause {
	c := cause{text: err.Error(), hints: a.hints(err)}
	var task *pve.TaskError
	if errors.As(err, &task) {
		c.task = "Task: " + string(task.UPID)
		if len(task.Log) > 0 {
			c.task += "\nThe end of its log:\n  " + strings.Join(task.Log, "\n  ")
		}
	}
	return c
}

func (a Attempt) attribute(dotted string) (path.Path, bool) {
	if a.At == nil || dotted == "" {
		return path.Empty(), false
	}
	return a.At.Attribute(dotted)
}

func (a Attempt) parameter(name string) (path.Path, bool) {
	if a.At == nil {
		return path.Empty(), false
	}
	return a.At.Parameter(name)
}

// hints returns the next steps that follow from the kind of an error.
func (a Attempt) hints(err error) []string {
	var all []string
	switch {
	case LoginRefused(err):
		who := "the provider"
		if a.As.Name != "" {
			who = a.As.Name
		}
		return []string{"The server refused the credentials of " + who + " (HTTP status 401). Next step: check the API " +
			"token, or user name and password, and whether they have expired or are disabled."}
	case errors.Is(err, context.DeadlineExceeded):
		all = append(all, "The time allowed for this operation is over. The timeouts attribute allows more.")
	case errors.Is(err, context.Canceled):
		all = append(all, "The operation was interrupted.")
	}
	var locked *request.LockedError
	if errors.As(err, &locked) { // it says itself what holds the lock and what to do
		return all
	}
	var identity *guest.IdentityError
	if errors.As(err, &identity) {
		return append(all, fmt.Sprintf("A third party removed the VM in state and made another one under the same id. It "+
			"was "+
			"not touched.\nTwo ways out. Either forget the old VM with \"terraform state rm\" of this resource's address: the "+
			"next apply makes a new one under a free vmid. Or do that and then adopt the VM that is there now, with "+
			"\"terraform import\" of the same address and the id %s/%d.",
			identity.Node, identity.VMID))
	}
	var task *pve.TaskError
	if errors.As(err, &task) && task.Killed() {
		return append(all, "The worker of the task ended without a message: it was killed, or the node went down.")
	}
	if fault.IsProtected(err) {
		return append(all, "Next step: set protection = false and apply, then make this change.")
	}
	if hint, ok := kindHint(pve.KindOf(err)); ok {
		all = append(all, hint)
	}
	return all
}

// LoginRefused reports whether the server did not accept the provider's credentials at all.
func LoginRefused(err error) bool {
	var answer *pve.Error
	return errors.As(err, &answer) && answer.Status == http.StatusUnauthorized
}

// Unreachable reports whether no server answered at all, not even one that cannot reach a node.
func Unreachable(err error) bool {
	var answer *pve.Error
	return errors.As(err, &answer) && answer.Status == 0 && answer.Kind == pve.Unavailable
}

func kindHint(kind pve.Kind) (string, bool) {
	switch kind {
	case pve.Denied:
		return "Next step: give the identity of the provider the privilege that PVE names, or use one that has it.", true
	case pve.Locked:
		return "Next step: wait for the task that holds the lock; a lock that no task holds is removed by \"qm unlock " +
			"<vmid>\" as root on the node.", true
	case pve.Unavailable:
		return "Next step: check that the node is up and that the endpoint is right, then apply again.", true
	case pve.Unhealthy:
		return "Next step: bring the node, the storage or the quorum back, then apply again.", true
	case pve.Capacity:
		return "Next step: make room, or choose another storage or node.", true
	case pve.Ambiguous:
		return "The answer of the server was lost, so the request may or may not have been carried out. Next step: run " +
			"Terraform again, which looks first.", true
	case pve.Leftover:
		return "Next step: find the owner of the volume. If it is not needed, remove it, or let on_orphaned_volumes = " +
			"\"destroy\" do it.", true
	case pve.DigestMismatch:
		return "A third party changed the configuration at the same time. Next step: apply again.", true
	default:
		return "", false
	}
}
