package tfkit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// afterFailure says what a failed transaction left, and what to do about it.
func afterFailure(a Attempt, failed *tx.Error) string {
	switch {
	case a.Kept:
		return "What was made so far stays on the server, since on_failure is \"keep\". " +
			"The VM is in state and tainted: the next apply replaces it."
	case len(failed.Left)+len(failed.Undo) == 0:
		return "Everything that had been made was removed again: nothing is left on the server, " +
			"and nothing is in state. The next apply starts anew."
	}
	var text strings.Builder
	for i, err := range failed.Undo {
		if i == 0 {
			text.WriteString("The rollback met errors:\n")
		}
		fmt.Fprintf(&text, "  %v\n", err)
	}
	text.WriteString(ListResidues(failed.Left))
	text.WriteString("The VM is in state and tainted. \"terraform destroy\" and the next apply try again to remove what is left.")
	return text.String()
}

// ListResidues names each leftover with the reason and the command that removes it; "" for none.
func ListResidues(left []tx.Residue) string {
	if len(left) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("Left on the server:\n")
	for i, r := range left {
		fmt.Fprintf(&text, "  %d. %s", i+1, r.What)
		if r.Node != "" && !strings.Contains(r.What, r.Node) {
			fmt.Fprintf(&text, " on %s", r.Node)
		}
		if r.Reason != "" {
			fmt.Fprintf(&text, " (%s)", r.Reason)
		}
		text.WriteString("\n")
		if r.Command != "" {
			fmt.Fprintf(&text, "     as root on %s: %s\n", r.Node, r.Command)
		}
	}
	return text.String()
}

// Warn turns the warnings of an operation that succeeded into diagnostics.
func Warn(warnings []guest.Warning) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, w := range warnings {
		diags.AddWarning(w.Summary, w.Detail)
	}
	return diags
}

// Refuse turns what the server would certainly refuse of a plan into errors on the attributes.
func Refuse(a Attempt, problems []*guest.FieldError) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, p := range problems {
		if where, ok := a.attribute(p.Path); ok {
			diags.AddAttributeError(where, p.Summary, a.explain(p))
		} else {
			diags.AddError(p.Summary, a.explain(p))
		}
	}
	return diags
}

// Doubt turns what the server may refuse of a plan into warnings on the attributes.
func Doubt(a Attempt, problems []*guest.FieldError) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, p := range problems {
		if where, ok := a.attribute(p.Path); ok {
			diags.AddAttributeWarning(where, p.Summary, a.explain(p))
		} else {
			diags.AddWarning(p.Summary, a.explain(p))
		}
	}
	return diags
}

func (a Attempt) explain(p *guest.FieldError) string {
	parts := []string{strings.TrimSuffix(p.Detail, ".") + "."}
	if p.Err != nil {
		parts = append(append(parts, "PVE says: "+p.Err.Error()), a.hints(p.Err)...)
	}
	return strings.Join(parts, "\n\n")
}

// NotRefreshed is the warning of a refresh that could not find out what is true; the state stays as it is.
func NotRefreshed(a Attempt, err error) diag.Diagnostics {
	var diags diag.Diagnostics
	detail := "The server cannot tell now, so the state was left as it is."
	if err != nil {
		detail += "\n\n" + a.plain(err).detail("", "")
	}
	diags.AddWarning(a.Thing+" was not refreshed", detail)
	return diags
}

// Leftovers is the error of a destroy that failed: why, and what is left with its commands.
func Leftovers(a Attempt, err error, left []tx.Residue) diag.Diagnostics {
	after := ""
	if len(left) > 0 {
		after = ListResidues(left) + "They are remembered: the resource stays in state, and the next destroy tries again."
	}
	if cause := withoutResidues(err); cause != nil {
		return a.diagnose(cause, "", after)
	}
	var diags diag.Diagnostics
	if after != "" {
		diags.AddError(a.summary()+" completely", after)
	}
	return diags
}

// withoutResidues is the cause of a LeftError without the list of what is left, which is told once.
func withoutResidues(err error) error {
	var left *tx.LeftError
	if errors.As(err, &left) {
		return left.Err
	}
	return err
}
