package tfimage

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// keyMade is the key of private state under which stands which file the resource has put there; null: none.
const keyMade = "made"

// made is the file in state, if it is known when it was made.
func (m model) made() *remove.MadeFile {
	created, err := time.Parse(time.RFC3339, m.Created.ValueString())
	if err != nil {
		return nil
	}
	return &remove.MadeFile{Volume: m.Volume.ValueString(), Size: m.Size.ValueInt64(), CreatedAt: created}
}

// replaced is the error of a destroy that found another file, or nil.
func replaced(err error) error {
	if other := (*remove.OtherFileError)(nil); errors.As(err, &other) {
		return other
	}
	return nil
}

type keyReader interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

type keyWriter interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

func readMade(ctx context.Context, private keyReader) (*remove.MadeFile, diag.Diagnostics) {
	raw, diags := private.GetKey(ctx, keyMade)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, diags
	}
	var made remove.MadeFile
	if err := json.Unmarshal(raw, &made); err != nil {
		diags.AddError("Private state is damaged", "The provider cannot read which file it made: "+err.Error())
		return nil, diags
	}
	return &made, diags
}

func noteMade(ctx context.Context, private keyWriter, made remove.MadeFile) diag.Diagnostics {
	raw, err := json.Marshal(made)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Cannot note which file was made", err.Error())}
	}
	return private.SetKey(ctx, keyMade, raw)
}
