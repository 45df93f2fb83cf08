package tfkit

import (
	"context"

	"github.com/hashicorp/terraform-plugin-log/tflog"
)

// Trace writes a line to Terraform's log at TRACE. It has the form that packages pve and host ask for; they take the
// secrets out before they call it.
func Trace(ctx context.Context, msg string, fields map[string]string) {
	for name, value := range fields {
		ctx = tflog.SetField(ctx, name, value)
	}
	tflog.Trace(ctx, msg)
}
