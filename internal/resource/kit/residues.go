package kit

import (
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// ListResidues names each leftover with its reason and the command that removes it; "" for none.
func ListResidues(left []saga.Residue) string {
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
			fmt.Fprintf(&text, " (%s)", strings.ReplaceAll(r.Reason, "\n", "; ")) // several errors are a line each
		}
		text.WriteString("\n")
		switch {
		case r.Command != "":
			fmt.Fprintf(&text, "     as root on %s: %s\n", r.Node, r.Command)
		case !shell.IsPlain(r.ID):
			fmt.Fprintf(&text, "     %s\n", shell.ByHand)
		}
	}
	return text.String()
}

// whatStays tells of the VM that a failed create has left, and the next step; "" if it leaves none by itself.
func (a Attempt) whatStays() string {
	if a.Stays == "" {
		return ""
	}
	return a.Stays + ".\nThe VM is in state and tainted: the next apply would replace it. Before that, \"terraform " +
		"untaint\" of this resource's address keeps it, and the apply then does what is missing."
}

// afterFailure describes the leftovers of a failed saga, and the next step.
func (a Attempt) afterFailure(failed *saga.Error) string {
	switch {
	case a.Stays != "":
		return a.whatStays()
	case a.Kept:
		return "What was made so far stays on the server, since on_failure is \"keep\". The VM is in state and tainted: " +
			"the next apply replaces it."
	case len(failed.Left)+len(failed.Undo) == 0 && a.Doubt:
		return "Everything that was found and certainly belongs to this create was removed again. A warning names the " +
			"objects that could not be checked, and nothing is in state. The next apply starts again."
	case len(failed.Left)+len(failed.Undo) == 0:
		return "Everything that had been made was removed again: nothing is left on the server, and nothing is in state. " +
			"The next apply starts again."
	}
	var text strings.Builder
	for i, err := range failed.Undo {
		if i == 0 {
			text.WriteString("The rollback met errors:\n")
		}
		fmt.Fprintf(&text, "  %v\n", err)
	}
	text.WriteString(ListResidues(failed.Left))
	if a.Stateless {
		return text.String() + "Nothing is in state. The next apply starts again."
	}
	text.WriteString("The VM is in state and tainted. \"terraform destroy\" and the next apply try again to remove what " +
		"is left.")
	return text.String()
}
