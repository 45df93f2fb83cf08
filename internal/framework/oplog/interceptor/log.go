package interceptor

import (
	"context"
	"log/slog"

	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

type progressKey struct{}

// WithProgress returns a context whose Inform also calls tell: a user waits for the action and sees the line.
func WithProgress(ctx context.Context, tell func(msg string)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// Inform writes a line to Terraform's log at level INFO. It is the Log of package request, which reports what an
// operation waits for.
func Inform(ctx context.Context, msg string, fields map[string]string) {
	if tell, ok := ctx.Value(progressKey{}).(func(string)); ok {
		tell(msg)
	}
	Log(ctx, "", slog.LevelInfo, msg, fields)
}

// logVariable is the environment variable from which terraform-plugin-go reads the level of the provider's own log.
// Those of the subsystems append their name: TF_LOG_PROVIDER_PROXMOX_PVE.
const logVariable = "TF_LOG_PROVIDER_PROXMOX"

// WithSubsystems returns a context with a log of its own for each subsystem. Each has the level of the provider, unless
// the environment gives another.
func WithSubsystems(ctx context.Context) context.Context {
	for _, name := range oplog.Subsystems() {
		ctx = tflog.NewSubsystem(ctx, name, tflog.WithLevelFromEnv(logVariable, name), tflog.WithRootFields())
	}
	return ctx
}

// Mask returns a context that keeps a secret out of every line of the log, even if a server repeats it.
func Mask(ctx context.Context, secret string) context.Context {
	ctx = tflog.MaskMessageStrings(tflog.MaskAllFieldValuesStrings(ctx, secret), secret)
	for _, name := range oplog.Subsystems() {
		ctx = tflog.SubsystemMaskMessageStrings(tflog.SubsystemMaskAllFieldValuesStrings(ctx, name, secret), name, secret)
	}
	return ctx
}

// Trace returns a function that writes lines of a subsystem at level DEBUG. Its callers pass no secrets.
func Trace(subsystem string) func(ctx context.Context, msg string, fields map[string]string) {
	return func(ctx context.Context, msg string, fields map[string]string) {
		Log(ctx, subsystem, slog.LevelDebug, msg, fields)
	}
}

// Log writes a line to Terraform's log; subsystem "" is the provider itself.
func Log(ctx context.Context, subsystem string, level slog.Level, msg string, fields map[string]string) {
	values := make(map[string]any, len(fields))
	for name, value := range fields {
		values[name] = value
	}
	own := subsystem == ""
	switch {
	case own && level >= slog.LevelError:
		tflog.Error(ctx, msg, values)
	case own && level >= slog.LevelInfo:
		tflog.Info(ctx, msg, values)
	case own && level >= slog.LevelDebug:
		tflog.Debug(ctx, msg, values)
	case own:
		tflog.Trace(ctx, msg, values)
	case level >= slog.LevelInfo:
		tflog.SubsystemInfo(ctx, subsystem, msg, values)
	case level >= slog.LevelDebug:
		tflog.SubsystemDebug(ctx, subsystem, msg, values)
	default:
		tflog.SubsystemTrace(ctx, subsystem, msg, values)
	}
}
