package kit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
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
	// Shared: VMs refer to the object, so that the configuration of one may give it up in the same apply.
	Shared bool
	// Secrets are removed from messages of PVE that repeat them. The API client knows its own; these are those that it
	// never saw in clear text.
	Secrets []string
	// Kept: a failed create left its VM on purpose (on_failure = "keep").
	Kept bool
	// Stays is why a failed create left its VM although it was not told to keep it.
	Stays string
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
	return a.diagnose(err, "", a.whatStays())
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

// inWords returns an error with its origin: PVE's own words are marked as such, and all else is the provider's.
func inWords(err error) string {
	text, words := err.Error(), ""
	var answer *pve.Error
	var task *pve.TaskError
	for each := err; errors.As(each, &answer); each = answer.Err { // the words of a failed login are in its own error
		if answer.IsPVEs() {
			words = answer.Message
		}
	}
	if words == "" && errors.As(err, &task) {
		words = task.ExitStatus
	}
	if at := strings.LastIndex(text, words); words != "" && at >= 0 {
		return text[:at] + "PVE says: " + text[at:]
	}
	return "Because: " + inOurs(err)
}

// inOurs is the text of an error with its last full stop, unless it has words of PVE.
func inOurs(err error) string {
	var answer *pve.Error
	var task *pve.TaskError
	if errors.As(err, &answer) || errors.As(err, &task) {
		return err.Error()
	}
	return ended(err.Error())
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
	if !errors.As(err, &answer) || len(answer.Params) == 0 || answer.Foreign {
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
	c := cause{text: inOurs(err), hints: a.hints(err)}
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
