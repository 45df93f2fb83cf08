package kit

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// Imported notes of an object that it was imported. The number is that of the refreshes that the note outlives: the one
// of the import itself, and that of the plan after it, whose refresh `terraform import` does not share. A refresh
// counts where an apply stores its state, so the note is gone with the second apply, also where nothing was to be
// changed.
const Imported Note[int] = "imported_for"

// NoteImport notes that an object is imported now.
func NoteImport(ctx context.Context, to PrivateWriter) diag.Diagnostics {
	return Imported.Write(ctx, to, 3)
}

// AgeImport counts a refresh.
func AgeImport(ctx context.Context, from PrivateReader, to PrivateWriter) diag.Diagnostics {
	left, diags := Imported.Read(ctx, from)
	if left > 0 {
		diags.Append(Imported.Write(ctx, to, left-1)...)
	}
	return diags
}

// ForgetImport takes the note back, with the first apply that changes the object.
func ForgetImport(ctx context.Context, from PrivateReader, to PrivateWriter) diag.Diagnostics {
	left, diags := Imported.Read(ctx, from)
	if left > 0 {
		diags.Append(Imported.Write(ctx, to, 0)...)
	}
	return diags
}

// RefuseImported refuses to replace an object that has the note. wants is what the configuration is of.
func RefuseImported(ctx context.Context, private PrivateReader, thing, wants string) diag.Diagnostics {
	left, diags := Imported.Read(ctx, private)
	if left > 0 {
		diags.Append(NotReplaced(thing, wants))
	}
	return diags
}

// NotReplaced is the error of a plan that would replace an object no apply has changed since its import: the
// configuration is of another object, so most likely the id was wrong.
func NotReplaced(thing, wants string) diag.Diagnostic {
	if wants == thing {
		wants = "another one"
	}
	return diag.NewErrorDiagnostic(sentence(thing)+" was imported, and would be replaced", fmt.Sprintf("No apply has "+
		"changed it since, and the configuration is of %s. The apply would destroy what was imported, so the id of the "+
		"import is probably wrong. Nothing was changed. Correct the id. Where the state has the object already, first run "+
		"`terraform state rm ADDRESS`, which leaves the object alone. To replace it all the same, change "+
		"something of it in place first, or run `terraform taint ADDRESS`, and plan again. %s.", wants, ToDestroyAll))
}
