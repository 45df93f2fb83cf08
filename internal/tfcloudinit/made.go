package tfcloudinit

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// noted is which files the resource has put onto storages.
const noted tfkit.Note[[]madeFile] = "made"

// madeFile is a remove.MadeFile with its node, which that leaves to its resource.
type madeFile struct {
	Node string          `json:"node"`
	File remove.MadeFile `json:"file"`
}

func readMade(ctx context.Context, private tfkit.PrivateReader) (made []remove.MadeFile, diags diag.Diagnostics) {
	all, diags := noted.Read(ctx, private)
	for _, n := range all {
		n.File.Node = n.Node
		made = append(made, n.File)
	}
	return made, diags
}

func noteMade(ctx context.Context, private tfkit.PrivateWriter, made []remove.MadeFile) diag.Diagnostics {
	all := []madeFile{}
	for _, f := range made {
		all = append(all, madeFile{Node: f.Node, File: f})
	}
	return noted.Write(ctx, private, all)
}
