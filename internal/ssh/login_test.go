package ssh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
)

// TestSSHLoginShellThatPrints: text of the login shell's start-up files is neither taken for a volume's path nor for
// the words of a command; where it breaks SFTP, the error names it.
func TestSSHLoginShellThatPrints(t *testing.T) {
	for _, banner := range []string{"Welcome to pve1\n", "/etc/motd\n", "no line break", "\n", "/dev/zvol/a\n/dev/zvol/b\n"} {
		srv := newServer(t, func(_, line string) reply {
			if line == "qm unlock 100" {
				return reply{status: 2, stderr: "no such VM\n"}
			}
			return reply{stdout: "/dev/zvol/rpool/a\n"}
		})
		srv.banner, srv.files = banner, true
		shell := srv.shell(nil)
		if path, err := shell.VolumePath(t.Context(), "pve1", "a:vm-100-disk-0"); err != nil || path != "/dev/zvol/rpool/a" {
			t.Errorf("%q: path %q, %v", banner, path, err)
		}
		if err := shell.Unlock(t.Context(), "pve1", 100); err == nil || !strings.HasSuffix(err.Error(), "exit status 2: no such VM") {
			t.Errorf("%q: %v", banner, err)
		}
		for _, user := range []string{"root", "terraform"} {
			_, err := srv.shell(func(c *Config) { c.Username = user }).ReadFile(t.Context(), "pve1", "/x")
			if err == nil || !strings.Contains(err.Error(), "the login shell prints text: ") {
				t.Errorf("%s, %q: %v", user, banner, err)
			}
		}
	}
}

// TestSSHStrangeLoginShell: a login shell that runs no sh is named as the cause.
func TestSSHStrangeLoginShell(t *testing.T) {
	srv := newServer(t, always(reply{stdout: "Only git here.\n"}))
	srv.strange = true
	if path, err := srv.shell(nil).VolumePath(t.Context(), "pve1", "a:vm-100-disk-0"); err == nil || path != "" ||
		!strings.Contains(err.Error(), `the login shell did not run it: it printed "Only git here."`) {
		t.Errorf("%q, %v", path, err)
	}
}

// TestSSHPathIsOneLine: a path is one line that begins with "/".
func TestSSHPathIsOneLine(t *testing.T) {
	for _, out := range []string{"", "rbd:a/b\n", "/a\n/b\n", "iscsi://x/y\n"} {
		path, err := newServer(t, always(reply{stdout: out})).shell(nil).VolumePath(t.Context(), "pve1", "a:vm-100-disk-0")
		if err == nil || path != "" || !strings.Contains(err.Error(), "pvesm names no file and no device for it") {
			t.Errorf("%q: %q, %v", out, path, err)
		}
	}
}

// TestSSHFrame: a frame is found behind any text, and only as a line of its own.
func TestSSHFrame(t *testing.T) {
	for output, want := range map[string]string{
		"\n" + begun + "\nout\n":                             "out\n",
		"Welcome\n" + begun + "\n":                           "",
		"+ sh -c echo " + begun + " x\n\n" + begun + "\nout": "out",
	} {
		if own, framed := unframed(output); own != want || !framed {
			t.Errorf("%q: %q, %t", output, own, framed)
		}
	}
	for _, output := range []string{"", "out", begun + " x\n"} {
		if own, framed := unframed(output); own != output || framed {
			t.Errorf("%q: %q, %t", output, own, framed)
		}
	}
	if line, err := framed("pve1", "qm unlock 100"); err != nil || strings.Count(line, "'") != 2 ||
		strings.ContainsAny(line, "\\!\n") ||
		!slices.Equal(strings.Fields(line)[len(strings.Fields(line))-3:], []string{"qm", "unlock", "100"}) {
		t.Errorf("a login shell could read %s otherwise", line)
	}
}

// TestSSHOtherHost gives node pve1 the address of pve2: nothing runs there, nothing is read, written or removed, and the
// error says which host it is and what to do. A corrected address works.
func TestSSHOtherHost(t *testing.T) {
	data := []byte("text")
	uses := map[string]func(context.Context, *Shell, string) error{
		"Run": func(ctx context.Context, s *Shell, _ string) error {
			_, err := s.Run(ctx, "pve1", "reboot")
			return err
		},
		"Unlock": func(ctx context.Context, s *Shell, _ string) error { return s.Unlock(ctx, "pve1", 100) },
		"FreeVolume": func(ctx context.Context, s *Shell, _ string) error {
			return s.FreeVolume(ctx, "pve1", "a:vm-100-disk-0")
		},
		"SetVM": func(ctx context.Context, s *Shell, _ string) error {
			_, err := s.SetVM(ctx, "pve1", 100, map[string]string{"cores": "2"}, "")
			return err
		},
		"VolumePath": func(ctx context.Context, s *Shell, _ string) error {
			_, err := s.VolumePath(ctx, "pve1", "a:vm-100-disk-0")
			return err
		},
		"SHA256": func(ctx context.Context, s *Shell, _ string) error {
			_, err := s.SHA256(ctx, "pve1", "a:vm-100-disk-0")
			return err
		},
		"ReadFile": func(ctx context.Context, s *Shell, dir string) error {
			_, err := s.ReadFile(ctx, "pve1", filepath.Join(dir, "there"))
			return err
		},
		"CreateFile": func(ctx context.Context, s *Shell, dir string) error {
			return s.CreateFile(ctx, "pve1", filepath.Join(dir, "new"), data, 0o600)
		},
		"ReplaceFile": func(ctx context.Context, s *Shell, dir string) error {
			return s.ReplaceFile(ctx, "pve1", filepath.Join(dir, "there"), SHA256Of(data), []byte("other"), 0o600, 0)
		},
		"RemoveFile": func(ctx context.Context, s *Shell, dir string) error {
			return s.RemoveFile(ctx, "pve1", filepath.Join(dir, "there"), SHA256Of(data))
		},
		"Reach": func(ctx context.Context, s *Shell, _ string) error { return s.Reach(ctx, "pve1") },
		"Hold": func(ctx context.Context, s *Shell, _ string) error {
			return s.Hold(ctx, "pve1", func(ctx context.Context) error { return s.Unlock(ctx, "pve1", 100) })
		},
	}
	for method := range reflect.TypeFor[*Shell]().Methods() {
		if uses[method.Name] == nil && method.Name != "Close" {
			t.Errorf("%s is not tried", method.Name)
		}
	}
	for name, do := range uses {
		for _, user := range []string{"root", "terraform"} {
			srv, dir := fileServer(t)
			srv.hostname = "pve2"
			if err := os.WriteFile(filepath.Join(dir, "there"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			address := Address{Host: "192.0.2.12", Port: 2222}
			shell := srv.shell(func(c *Config) { c.Username, c.Nodes = user, map[string]Address{"pve1": address} })
			for range 2 {
				err := do(t.Context(), shell, dir)
				for _, want := range []string{"192.0.2.12:2222 is host pve2 (uname -n), not node pve1. Nothing was run there. ",
					`Correct ssh.nodes["pve1"].address in the provider`} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s as %s does not say %q: %v", name, user, want, err)
					}
				}
				var failed *Error
				if errors.As(err, &failed) && (failed.Command != "" || failed.ExitStatus != -1 || failed.Kind() != fault.Unknown) {
					t.Errorf("%s: %#v", name, failed)
				}
			}
			_, ran := srv.seen()
			text, err := os.ReadFile(filepath.Join(dir, "there"))
			if len(ran) > 0 || err != nil || string(text) != "text" || len(namesIn(t, dir)) != 1 {
				t.Errorf("%s as %s: ran %q; the directory has %q, the file %q, %v", name, user, ran, namesIn(t, dir), text, err)
			}
		}
	}
}

// TestSSHUnconfiguredOtherHost: where the address is not configured, the error says where to do that.
func TestSSHUnconfiguredOtherHost(t *testing.T) {
	srv := newServer(t, always(reply{}))
	srv.hostname = "gate"
	err := srv.shell(nil).Unlock(t.Context(), "pve1", 100)
	const want = `unlock VM 100 on node pve1: pve1:22 is host gate (uname -n), not node pve1. Nothing was run there. ` +
		`Set ssh.nodes["pve1"].address in the provider, or PROXMOX_VE_SSH_NODES=pve1=ADDRESS`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// TestSSHAsksOncePerConnection: a command asks the host for its name itself, and needs no round trip for that. SFTP and
// Reach ask once for each connection, unless a command has run over it.
func TestSSHAsksOncePerConnection(t *testing.T) {
	srv, dir := fileServer(t)
	shell, file := srv.shell(nil), filepath.Join(dir, "a")
	expect := func(step string, asked int, commands int) {
		t.Helper()
		_, ran := srv.seen()
		srv.mu.Lock()
		defer srv.mu.Unlock()
		if srv.asked != asked || len(ran) != commands {
			t.Errorf("after %s: asked %d times, ran %q", step, srv.asked, ran)
		}
	}
	run := func(step string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	run("command", shell.Unlock(t.Context(), "pve1", 100))
	run("command", shell.Unlock(t.Context(), "pve1", 100))
	expect("commands", 0, 2)
	run("reach", shell.Reach(t.Context(), "pve1"))
	run("create", shell.CreateFile(t.Context(), "pve1", file, []byte("text"), 0o600))
	expect("a file after commands", 0, 2)
	srv.kill()
	var group sync.WaitGroup
	for i := range 4 * maxSessions {
		group.Go(func() {
			if err := shell.Reach(t.Context(), "pve1"); err != nil {
				t.Errorf("reach: %v", err)
			}
			if err := shell.CreateFile(t.Context(), "pve1", fmt.Sprint(file, i), nil, 0o600); err != nil {
				t.Errorf("create: %v", err)
			}
		})
	}
	group.Wait()
	if logins, _ := srv.seen(); logins != 2 {
		t.Errorf("%d logins", logins)
	}
	expect("many at once over a new connection", 1, 2)
}
