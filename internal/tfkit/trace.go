package tfkit

import (
	"context"
	"log/slog"

	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
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
	Log(ctx, "", slog.LevelInfo, msg, fields)
}

// logVariable is the environment variable that terraform-plugin-go reads the level of the provider's own lines from; those of its
// parts are called after it: TF_LOG_PROVIDER_PROXMOX_PVE.
const logVariable = "TF_LOG_PROVIDER_PROXMOX"

// WithSubsystems gives the parts of the provider that have a log of their own one. Until the environment says otherwise each has the
// level of the provider.
func WithSubsystems(ctx context.Context) context.Context {
	for _, name := range account.Subsystems() {
		ctx = tflog.NewSubsystem(ctx, name, tflog.WithLevelFromEnv(logVariable, name), tflog.WithRootFields())
	}
	return ctx
}

// Mask keeps a secret out of every line that is written with the context, should somebody repeat it.
func Mask(ctx context.Context, secret string) context.Context {
	ctx = tflog.MaskMessageStrings(tflog.MaskAllFieldValuesStrings(ctx, secret), secret)
	for _, name := range account.Subsystems() {
		ctx = tflog.SubsystemMaskMessageStrings(tflog.SubsystemMaskAllFieldValuesStrings(ctx, name, secret), name, secret)
	}
	return ctx
}

// TracePVE writes a line about a request, which it is given without secrets.
func TracePVE(ctx context.Context, msg string, fields map[string]string) {
	Log(ctx, account.PVE, slog.LevelDebug, msg, fields)
}

// TraceSSH writes a line about a connection to a node, or a command there.
func TraceSSH(ctx context.Context, msg string, fields map[string]string) {
	Log(ctx, account.SSH, slog.LevelDebug, msg, fields)
}

// Log writes a line to Terraform's log, to that of a part of the provider where one is named.
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
