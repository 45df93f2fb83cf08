package kit

import (
	"errors"
	"strings"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// Warn turns the warnings of an operation that succeeded into diagnostics.
func Warn(warnings []guest.Warning) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, w := range warnings {
		d := diag.Diagnostic(diag.NewWarningDiagnostic(w.Summary, ended(w.Detail)))
		if w.Path != "" {
			d = diag.WithPath(path.Root(w.Path), d)
		}
		diags.Append(d)
	}
	return diags
}

// ended is a text with its last full stop. A list at the end, such as that of a log or of commands, has none.
func ended(text string) string {
	last := text[strings.LastIndex(text, "\n")+1:]
	isOpen := strings.HasSuffix(last, ")") || strings.HasSuffix(last, "`") ||
		strings.TrimRightFunc(last, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) != last
	if isOpen && !strings.HasPrefix(last, " ") {
		text += "."
	}
	return text
}

// Verdicts turns the findings about a plan into diagnostics on their attributes: certain refusals into errors, possible
// ones into warnings.
func Verdicts(a Attempt, refused, doubtful []*guest.FieldError) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, p := range refused {
		if text, isTold := a.asFor(p.Err); isTold {
			diags.AddError("Cannot "+a.Verb+" "+a.Thing+": "+text, "")
			continue
		}
		diags.Append(a.on(p.Path, diag.NewErrorDiagnostic(p.Summary, a.explain(p))))
	}
	for _, p := range doubtful {
		diags.Append(a.on(p.Path, diag.NewWarningDiagnostic(p.Summary, a.explain(p))))
	}
	return diags
}

// on puts a diagnostic on its attribute, if there is one.
func (a Attempt) on(dotted string, d diag.Diagnostic) diag.Diagnostic {
	if where, ok := a.attribute(dotted); ok {
		return diag.WithPath(where, d)
	}
	return d
}

func (a Attempt) explain(p *guest.FieldError) string {
	parts := []string{strings.TrimSuffix(p.Detail, ".") + "."}
	if p.Err != nil {
		parts = append(append(parts, inWords(p.Err)), a.hints(p.Err)...)
	}
	return strings.Join(parts, "\n\n")
}

// NotRefreshed is the warning of a refresh that could not find out the truth; the state stays as it is.
func NotRefreshed(a Attempt, err error) diag.Diagnostics {
	var diags diag.Diagnostics
	detail := "The server cannot tell now, so the state was left as it is."
	if text, isTold := a.asFor(err); isTold { // one summary for all: Terraform shows the first, and counts the others
		diags.AddWarning("Not refreshed: "+text, a.Thing+". "+detail)
		return diags
	}
	if err != nil {
		detail += "\n\n" + a.plain(err).detail("", "")
	}
	diags.AddWarning(a.Thing+" was not refreshed", detail)
	return diags
}

// unproven says why nothing is done with a VM for which Unproven is noted, and the ways out.
const unproven = "Its state has no uuid, as after a create that failed, and the proof of whose it is was lost by a " +
	"destroy without a refresh (-refresh=false) or with a provider that was killed. Another run may have completed it " +
	"since, so no refresh, update or destroy touches it. \"terraform state rm\" makes this state forget it. If no " +
	"other state has it, an import takes it over then, or an apply completes it where the import says that it is not " +
	"complete."

// NotProven is the warning of a refresh for which Unproven is noted; the state stays as it is.
func NotProven(a Attempt) diag.Diagnostic {
	return diag.NewWarningDiagnostic(a.Thing+" was not refreshed", unproven)
}

// RefuseUnproven is the error of a plan that would change a VM for which Unproven is noted.
func RefuseUnproven(a Attempt) diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(path.Root("vmid"), "Cannot "+a.Verb+" "+a.Thing, "Nothing was changed. "+
		unproven)
}

// NotYetRefreshed is the warning of a refresh while the provider's configuration is unknown; the state stays as it is.
func NotYetRefreshed(a Attempt) diag.Diagnostic {
	return diag.NewWarningDiagnostic(a.Thing+" was not refreshed",
		"The provider's configuration depends on values that are not known yet, so the state was left as it is.")
}

// NotInCluster is the warning that an object in state is not on the server. It names no cluster: a node that is in none
// tells no name of one (pve-manager API2/Cluster.pm), so two hosts with equal node names look the same.
func NotInCluster(a Attempt, why string) diag.Diagnostic {
	return diag.NewWarningDiagnostic(a.Thing+" is not in this cluster",
		why+"If it was removed, an apply makes it again. If the endpoint is that of another cluster, whose nodes may have "+
			"the same names, correct it before you apply: else Terraform forgets the object, and makes another one there.")
}

// LeftOut is the warning that a list omits an existing object.
func LeftOut(a Attempt, err error) diag.Diagnostics {
	return diag.Diagnostics{diag.NewWarningDiagnostic(a.Thing+" was left out", a.redact(a.plain(err).detail("", "")))}
}

// Leftovers is the error of a failed destroy: its cause, and the leftovers with their commands.
func Leftovers(a Attempt, err error, left []saga.Residue) diag.Diagnostics {
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

// withoutResidues returns the cause of a LeftError without its list of leftovers, which is shown once.
func withoutResidues(err error) error {
	var left *saga.LeftError
	if errors.As(err, &left) {
		return left.Err
	}
	return err
}
