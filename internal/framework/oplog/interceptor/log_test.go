package interceptor

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-log/tflogtest"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// TestSubsystemsHaveLevels: the environment quietens one part of the provider and leaves the others as they are.
func TestSubsystemsHaveLevels(t *testing.T) {
	t.Setenv("TF_LOG_PROVIDER_PROXMOX_PVE", "INFO")
	var out bytes.Buffer
	ctx := WithSubsystems(tflogtest.RootLogger(t.Context(), &out))
	for _, name := range append(oplog.Subsystems(), "") {
		for _, level := range []slog.Level{oplog.LevelTrace, slog.LevelDebug, slog.LevelInfo, slog.LevelError} {
			Log(ctx, name, level, level.String()+" of "+name+".", map[string]string{"is": "there"})
		}
	}
	for _, want := range []string{"DEBUG-4 of .", "DEBUG of tx.", "DEBUG-4 of ssh.", "INFO of pve.", "ERROR of .",
		`"@module":"provider.ssh"`, `"is":"there"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if text := out.String(); strings.Contains(text, "DEBUG of pve.") || strings.Contains(text, "DEBUG-4 of pve.") ||
		strings.Contains(text, "warning") {
		t.Error(text)
	}
}

// TestMask: a secret is in no line of any part, be it in the message or in a field.
func TestMask(t *testing.T) {
	var out bytes.Buffer
	ctx := Mask(WithSubsystems(tflogtest.RootLogger(t.Context(), &out)), "hunter-2")
	for _, name := range append(oplog.Subsystems(), "") {
		for _, level := range []slog.Level{oplog.LevelTrace, slog.LevelDebug, slog.LevelInfo} {
			Log(ctx, name, level, "he said hunter-2", map[string]string{"error": "no user hunter-2 here"})
		}
	}
	if text := out.String(); strings.Contains(text, "hunter-2") || strings.Count(text, "he said") != 12 {
		t.Error(text)
	}
}
