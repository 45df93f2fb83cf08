package tfkit

import (
	"context"

	"github.com/hashicorp/terraform-plugin-log/tflog"
)

type progressKey struct{}

// withProgress has everything that is written by Inform told to a user too, who waits for an action.
func withProgress(ctx context.Context, tell func(msg string)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// Inform writes a line to Terraform's log at INFO: what is waited for. It has the form that package provision asks for.
func Inform(ctx context.Context, msg string, fields map[string]string) {
	if tell, ok := ctx.Value(progressKey{}).(func(string)); ok {
		tell(msg)
	}
	for name, value := range fields {
		ctx = tflog.SetField(ctx, name, value)
	}
	tflog.Info(ctx, msg)
}

// Trace writes a line to Terraform's log at TRACE. It has the form that packages pve and host ask for; they take the
// secrets out before they call it.
func Trace(ctx context.Context, msg string, fields map[string]string) {
	for name, value := range fields {
		ctx = tflog.SetField(ctx, name, value)
	}
	tflog.Trace(ctx, msg)
}
