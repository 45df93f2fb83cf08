package ssh

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// TestLawReadOnlySSH: nothing that changes a node runs there within an operation that only reads; what reads does.
func TestLawReadOnlySSH(t *testing.T) {
	srv, dir := fileServer(t)
	shell, file := srv.shell(nil), filepath.Join(dir, "there")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := func(_ string, err error) error { return err }
	changes := map[string]func(context.Context) error{
		"Run":    func(ctx context.Context) error { return text(shell.Run(ctx, "pve1", "touch", "x")) },
		"Unlock": func(ctx context.Context) error { return shell.Unlock(ctx, "pve1", 100) },
		"SetVM": func(ctx context.Context) error {
			return text(shell.SetVM(ctx, "pve1", 100, map[string]string{"cores": "2"}, ""))
		},
		"FreeVolume": func(ctx context.Context) error { return shell.FreeVolume(ctx, "pve1", "local:iso/x.iso") },
		"CreateFile": func(ctx context.Context) error {
			return shell.CreateFile(ctx, "pve1", filepath.Join(dir, "new"), nil, 0o600)
		},
		"ReplaceFile": func(ctx context.Context) error {
			return shell.ReplaceFile(ctx, "pve1", file, SHA256Of([]byte("text")), nil, 0o600, 0)
		},
		"RemoveFile": func(ctx context.Context) error { return shell.RemoveFile(ctx, "pve1", file, SHA256Of([]byte("text"))) },
	}
	reads := map[string]func(context.Context) error{
		"VolumePath": func(ctx context.Context) error { return text(shell.VolumePath(ctx, "pve1", "local:iso/x.iso")) },
		"ReadFile":   func(ctx context.Context) error { _, err := shell.ReadFile(ctx, "pve1", file); return err },
	}
	for _, name := range []string{"plan", "read", "import", "validate", "list"} {
		ctx, operation := oplog.Begin(t.Context(), oplog.Config{Name: name, Type: "proxmox_vm"})
		for what, change := range changes {
			var refused *Error
			if err := change(ctx); !errors.As(err, &refused) || refused.Command != "" {
				t.Errorf("%s in %s: %v", what, name, err)
			}
		}
		if logins, commands := srv.seen(); logins > 0 && name == "plan" || len(commands) > 0 {
			t.Errorf("%s: %d logins, %q", name, logins, commands)
		}
		if sum := operation.Close("ok"); sum.Refused == "" {
			t.Errorf("%s: the summary does not name the refused command", name)
		}
	}
	if names := namesIn(t, dir); !slices.Equal(names, []string{"there"}) {
		t.Errorf("the node has %q", names)
	}
	ctx, operation := oplog.Begin(t.Context(), oplog.Config{Name: "plan", Type: "proxmox_vm"})
	defer operation.Close("ok")
	if err := reads["ReadFile"](ctx); err != nil {
		t.Error(err)
	}
	_ = reads["VolumePath"](ctx) // this server knows no volume
	if _, commands := srv.seen(); !slices.ContainsFunc(commands, func(line string) bool { return strings.Contains(line, "pvesm path") }) {
		t.Errorf("a plan could not ask for a path: %q", commands)
	}
	ctx, operation = oplog.Begin(t.Context(), oplog.Config{Name: "create", Type: "proxmox_vm"})
	defer operation.Close("ok")
	if err := changes["CreateFile"](ctx); err != nil || !slices.Contains(namesIn(t, dir), "new") {
		t.Errorf("a create makes no file: %v", err)
	}
}
