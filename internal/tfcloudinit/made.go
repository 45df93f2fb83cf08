package tfcloudinit

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// keyMade is the key of private state under which stands which files the resource has put onto storages.
const keyMade = "made"

// madeFile is a remove.MadeFile with its node, which that leaves to its resource.
type madeFile struct {
	Node string          `json:"node"`
	File remove.MadeFile `json:"file"`
}

type keyReader interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

type keyWriter interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

func readMade(ctx context.Context, private keyReader) ([]remove.MadeFile, diag.Diagnostics) {
	raw, diags := private.GetKey(ctx, keyMade)
	if len(raw) == 0 {
		return nil, diags
	}
	var noted []madeFile
	if err := json.Unmarshal(raw, &noted); err != nil {
		diags.AddError("Private state is damaged", "The provider cannot read which files it made: "+err.Error())
	}
	var all []remove.MadeFile
	for _, n := range noted {
		n.File.Node = n.Node
		all = append(all, n.File)
	}
	return all, diags
}

func noteMade(ctx context.Context, private keyWriter, made []remove.MadeFile) diag.Diagnostics {
	noted := []madeFile{}
	for _, f := range made {
		noted = append(noted, madeFile{Node: f.Node, File: f})
	}
	raw, err := json.Marshal(noted)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Cannot note which file was made", err.Error())}
	}
	return private.SetKey(ctx, keyMade, raw)
}
