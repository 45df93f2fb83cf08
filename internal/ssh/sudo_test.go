package ssh

import (
	"context"
	"io/fs"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// sudoParts are the parts of the rule, as a command line has them: "qm unlock *".
func sudoParts(t *testing.T) []string {
	t.Helper()
	_, list, found := strings.Cut(SudoRule, "NOPASSWD: ")
	if !found {
		t.Fatalf("the rule is %q", SudoRule)
	}
	parts := strings.Split(list, ", ")
	for i, part := range parts {
		if !strings.HasPrefix(part, "/usr/") {
			t.Errorf("sudo takes no command without its path: %s", part)
		}
		program, arguments, _ := strings.Cut(part, " ")
		if program != sftpServer { // the others are found by sudo's secure_path
			program = path.Base(program)
		}
		parts[i] = strings.TrimSpace(program + " " + arguments)
	}
	return parts
}

// TestSudoRuleNamesEveryCommand has a user other than root do everything: the rule allows each command, and no other.
// Each document has the rule word for word.
func TestSudoRuleNamesEveryCommand(t *testing.T) {
	type use func(context.Context, *Shell) error
	uses := map[string]use{
		"Unlock":     func(ctx context.Context, s *Shell) error { return s.Unlock(ctx, "pve1", 100) },
		"FreeVolume": func(ctx context.Context, s *Shell) error { return s.FreeVolume(ctx, "pve1", "a:vm-100-disk-0") },
		"SetVM": func(ctx context.Context, s *Shell) error {
			_, err := s.SetVM(ctx, "pve1", 100, map[string]string{"scsi0": "a:0,import-from=/iso/a.img"}, "ab12")
			return err
		},
		"VolumePath": func(ctx context.Context, s *Shell) error { _, err := s.VolumePath(ctx, "pve1", "a:b"); return err },
		"SHA256":     func(ctx context.Context, s *Shell) error { _, err := s.SHA256(ctx, "pve1", "a:b"); return err },
		"ReadFile":   func(ctx context.Context, s *Shell) error { _, err := s.ReadFile(ctx, "pve1", "/x/y"); return err },
		"CreateFile": func(ctx context.Context, s *Shell) error {
			return s.CreateFile(ctx, "pve1", "/x/y", nil, fs.FileMode(0o600))
		},
		"ReplaceFile": func(ctx context.Context, s *Shell) error {
			return s.ReplaceFile(ctx, "pve1", "/x/y", "", nil, fs.FileMode(0o600), 0)
		},
		"RemoveFile": func(ctx context.Context, s *Shell) error { return s.RemoveFile(ctx, "pve1", "/x/y", "") },
		"Hold":       nil, // which runs what it is given
		"Reach":      nil, // which runs no command
		"Run":        nil, // which tests alone call
		"Close":      nil,
	}
	for method := range reflect.TypeFor[*Shell]().Methods() {
		if _, known := uses[method.Name]; !known {
			t.Errorf("%s is not tried", method.Name)
		}
	}
	parts, used := sudoParts(t), map[string]bool{}
	for name, do := range uses {
		if do == nil {
			continue
		}
		srv := newServer(t, always(reply{stdout: "/dev/zvol/a\n"}))
		srv.files = true
		_ = do(t.Context(), srv.shell(func(c *Config) { c.Username = "terraform" })) // the command counts, not its answer
		_, commands := srv.seen()
		if len(commands) == 0 {
			t.Errorf("%s runs nothing", name)
		}
		for _, line := range commands {
			line, bySudo := strings.CutPrefix(line, "sudo -n -- ")
			i := slices.IndexFunc(parts, func(part string) bool {
				start, more := strings.CutSuffix(part, "*")
				return line == part || more && strings.HasPrefix(line, start)
			})
			if !bySudo || i < 0 {
				t.Errorf("%s runs %q, which the rule does not allow", name, line)
				continue
			}
			used[parts[i]] = true
		}
	}
	for _, part := range parts {
		if !used[part] {
			t.Errorf("the rule allows %s, which is never run", part)
		}
	}
	for _, page := range []string{"README.md", "templates/guides/permissions.md.tmpl", "docs/guides/permissions.md", "docs/index.md"} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), SudoRule) || strings.Count(string(text), "NOPASSWD") != 1 {
			t.Errorf("%s does not have the rule once, as it is: %s", page, SudoRule)
		}
	}
}
