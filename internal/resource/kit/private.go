package kit

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// PrivateReader reads the private state of a resource.
type PrivateReader interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

// PrivateWriter writes the private state of a resource.
type PrivateWriter interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// Unproven is the note that nothing in state tells any more which VM it means: a destroy without a refresh was handed
// neither an identity nor a proof. A VM that has the id is not to be taken for the one in state. It says nothing of a
// VM that was read and has no identity, which is noted (guest.Identity, None): earlier versions wrote it for such a
// one, too.
const Unproven Note[bool] = "unproven"

// Note is a key of a resource's private state, under which a value is kept as JSON.
type Note[T any] string

// Read returns the value; a missing one, or null, is the zero value.
func (n Note[T]) Read(ctx context.Context, from PrivateReader) (T, diag.Diagnostics) {
	var value T
	raw, diags := from.GetKey(ctx, string(n))
	if len(raw) == 0 {
		return value, diags
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		diags.AddError("Private state is damaged", "The provider cannot read what it noted under "+string(n)+": "+err.Error())
	}
	return value, diags
}

// Write stores a value.
func (n Note[T]) Write(ctx context.Context, to PrivateWriter, value T) diag.Diagnostics {
	raw, err := json.Marshal(value)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Private state cannot be written",
			"The provider cannot note what belongs under "+string(n)+": "+err.Error())}
	}
	return to.SetKey(ctx, string(n), raw)
}
