package kit

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// Imported notes of an object that it was imported, and that no apply has changed it since.
const Imported Note[bool] = "imported"

// ForgetImport takes the note back, with the first apply that changes the object.
func ForgetImport(ctx context.Context, from PrivateReader, to PrivateWriter) diag.Diagnostics {
	noted, diags := Imported.Read(ctx, from)
	if noted {
		diags.Append(Imported.Write(ctx, to, false)...)
	}
	return diags
}

// RefuseImported refuses to replace an object that has the note. wants is what the configuration is of.
func RefuseImported(ctx context.Context, private PrivateReader, thing, wants string) diag.Diagnostics {
	noted, diags := Imported.Read(ctx, private)
	if noted {
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
		"`terraform state rm ADDRESS`, which leaves the object alone. To replace it all the same, run `terraform taint "+
		"ADDRESS`, and plan again.", wants))
}
