package ssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
)

// fileServer is an sshd with SFTP on a directory of this machine.
func fileServer(t *testing.T) (*server, string) {
	t.Helper()
	srv := newServer(t, always(reply{}))
	srv.files = true
	return srv, t.TempDir()
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestFiles(t *testing.T) {
	srv, dir := fileServer(t)
	shell, ctx, name := srv.shell(nil), t.Context(), filepath.Join(dir, "it's $(a) file")
	if _, err := shell.ReadFile(ctx, "pve1", name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	one, two := []byte("one"), bytes.Repeat([]byte("two"), 100_000)
	if err := shell.CreateFile(ctx, "pve1", name, one, 0o750); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o750 {
		t.Errorf("%v, %v", info, err)
	}
	if err := shell.CreateFile(ctx, "pve1", name, two, 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made over another: %v", err)
	}
	var changed *ChangedError
	if err := shell.ReplaceFile(ctx, "pve1", name, SHA256Of(two), two, 0o600, 0); !errors.As(err, &changed) ||
		changed.SHA256 != SHA256Of(one) {
		t.Errorf("replaced another: %v", err)
	}
	if err := shell.RemoveFile(ctx, "pve1", name, SHA256Of(two)); !errors.As(err, &changed) {
		t.Errorf("removed another: %v", err)
	}
	if data, err := shell.ReadFile(ctx, "pve1", name); err != nil || string(data) != "one" {
		t.Errorf("%q, %v", data, err)
	}
	if err := shell.ReplaceFile(ctx, "pve1", name, SHA256Of(one), two, 0o600, 0); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(name); err != nil || !bytes.Equal(data, two) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if names := namesIn(t, dir); !slices.Equal(names, []string{filepath.Base(name)}) {
		t.Errorf("the directory has %q", names)
	}
	for range 2 { // and when it is gone
		if err := shell.RemoveFile(ctx, "pve1", name, SHA256Of(two)); err != nil {
			t.Error(err)
		}
	}
	if err := shell.ReplaceFile(ctx, "pve1", name, SHA256Of(two), one, 0o600, 0); err != nil {
		t.Errorf("replaced a file that is gone: %v", err)
	}
	if logins, commands := srv.seen(); logins != 1 || len(commands) != 0 {
		t.Errorf("%d logins, commands %q", logins, commands)
	}
}

// TestSSHSnippetIsPrivateFromItsFirstByte looks at the directory before each answer of the server, whose umask makes
// files that all users may read: no user but the owner may ever read a byte.
func TestSSHSnippetIsPrivateFromItsFirstByte(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o700} {
		srv, dir := fileServer(t)
		name, empty, full := filepath.Join(dir, "a"), 0, 0
		srv.onFile = func() bool {
			for _, file := range namesIn(t, dir) {
				info, err := os.Lstat(filepath.Join(dir, file))
				switch {
				case err != nil:
				case info.Size() == 0:
					empty++
				case info.Mode() != mode:
					t.Errorf("%s is %s when it has %d bytes", file, info.Mode(), info.Size())
				default:
					full++
				}
			}
			return false
		}
		shell := srv.shell(nil)
		if err := shell.CreateFile(t.Context(), "pve1", name, []byte("secret"), mode); err != nil {
			t.Fatal(err)
		}
		if err := shell.ReplaceFile(t.Context(), "pve1", name, SHA256Of([]byte("secret")), []byte("other"), mode, 0); err != nil {
			t.Fatal(err)
		}
		if empty == 0 || full == 0 {
			t.Errorf("a file was seen %d times empty, %d times not", empty, full)
		}
	}
}

// TestSSHFollowsNoLink plants a symbolic link to another file at the name of a snippet, and at its temporary name: the
// other file is neither read nor written nor removed, its mode stays, and so does the link.
func TestSSHFollowsNoLink(t *testing.T) {
	srv, dir := fileServer(t)
	other, name, shell, ctx := filepath.Join(dir, "other"), filepath.Join(dir, "a"), srv.shell(nil), t.Context()
	if err := errors.Join(os.WriteFile(other, []byte("theirs"), 0o640), os.Symlink(other, name)); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"read":   func() error { _, err := shell.ReadFile(ctx, "pve1", name); return err },
		"create": func() error { return shell.CreateFile(ctx, "pve1", name, []byte("x"), 0o600) },
		"replace": func() error {
			return shell.ReplaceFile(ctx, "pve1", name, SHA256Of([]byte("theirs")), []byte("x"), 0o600, 0)
		},
		"remove": func() error { return shell.RemoveFile(ctx, "pve1", name, SHA256Of([]byte("theirs"))) },
		"temporary name": func() error {
			return shell.transfer(ctx, "write", "pve1", func(c *sftp.Client) error { return write(c, name, []byte("x"), 0o600) })
		},
	} {
		if err := do(); err == nil || what == "create" && !errors.Is(err, fs.ErrExist) ||
			what != "create" && what != "temporary name" && !strings.Contains(err.Error(), "not a regular file (L") {
			t.Errorf("%s: %v", what, err)
		}
		data, err := os.ReadFile(other)
		info, statErr := os.Stat(other)
		if target, linkErr := os.Readlink(name); errors.Join(err, statErr, linkErr) != nil || string(data) != "theirs" ||
			info.Mode() != 0o640 || target != other {
			t.Fatalf("%s: the other file has %q, %v; %v, %v, %v", what, data, info, err, statErr, linkErr)
		}
		if names := namesIn(t, dir); len(names) != 2 {
			t.Errorf("%s: the directory has %q", what, names)
		}
	}
}

// TestSSHTemporaryNames: no name can be guessed from an earlier one, and PVE lists none of them.
func TestSSHTemporaryNames(t *testing.T) {
	one, two := temporaryName("/s/a.yaml"), temporaryName("/s/a.yaml")
	if one == two || filepath.Dir(one) != "/s" || !strings.HasPrefix(filepath.Base(one), ".a.yaml.") {
		t.Errorf("%s, %s", one, two)
	}
}

// TestSSHRemovesNothingTwice: a removal whose answer was lost is not repeated by itself.
func TestSSHRemovesNothingTwice(t *testing.T) {
	for cut := int64(1); ; cut++ {
		srv, dir := fileServer(t)
		name, n := filepath.Join(dir, "a"), atomic.Int64{}
		if err := os.WriteFile(name, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		srv.onFile = func() bool { return n.Add(1) == cut }
		err := srv.shell(nil).RemoveFile(t.Context(), "pve1", name, SHA256Of([]byte("text")))
		if n.Load() < cut {
			if err != nil || cut < 5 {
				t.Errorf("%d requests, %v", n.Load(), err)
			}
			return
		}
		if logins, _ := srv.seen(); cut > 1 && (logins != 1 || !fault.IsKind(err, fault.Ambiguous)) {
			t.Errorf("cut at %d: %d logins, %v", cut, logins, err)
		}
	}
}

// TestFilesCutAnywhere cuts the connection at each request of a write: the file is whole or not there, as the error
// says, and nothing else is left.
func TestFilesCutAnywhere(t *testing.T) {
	for cut := int64(1); ; cut++ {
		srv, dir := fileServer(t)
		name, n := filepath.Join(dir, "a"), atomic.Int64{}
		srv.onFile = func() bool { return n.Add(1) == cut }
		err := srv.shell(nil).CreateFile(t.Context(), "pve1", name, []byte("text"), 0o600)
		data, readErr := os.ReadFile(name)
		if readErr == nil && string(data) != "text" || (readErr == nil) != (err == nil) {
			t.Errorf("cut at %d: the file has %q, %v after %v", cut, data, readErr, err)
		}
		if names := namesIn(t, dir); len(names) > 1 || len(names) == 1 && names[0] != "a" {
			t.Errorf("cut at %d: the directory has %q after %v", cut, names, err)
		}
		if n.Load() < cut {
			if err != nil || cut < 5 {
				t.Errorf("%d requests, %v", n.Load(), err)
			}
			return
		}
	}
}

// TestFilesCutBesideAnotherRun cuts the connection at each request of a write, while another run writes the same content
// under the same name. A write says that it made the file only if it did: else two runs would own one file.
func TestFilesCutBesideAnotherRun(t *testing.T) {
	for cut, untouched := int64(1), 0; ; cut++ {
		srv, dir := fileServer(t)
		name, n, theirs := filepath.Join(dir, "a"), atomic.Int64{}, false
		srv.onFile = func() bool {
			if n.Add(1) != cut {
				return false
			}
			_, err := os.Stat(name)
			if theirs = errors.Is(err, fs.ErrNotExist); theirs {
				err = os.WriteFile(name, []byte("text"), 0o600)
			}
			if err != nil {
				t.Error(err)
			}
			return true
		}
		err := srv.shell(nil).CreateFile(t.Context(), "pve1", name, []byte("text"), 0o600)
		if n.Load() < cut {
			if untouched < 3 {
				t.Errorf("the other run was first %d times", untouched)
			}
			return
		}
		if theirs == (err == nil) {
			t.Errorf("cut at %d: the file is of another run: %t, %v", cut, theirs, err)
		}
		if theirs {
			untouched++
		}
	}
}

// TestFilesInterrupted ends the caller's context at each request of a write: the file is whole or not there, and
// nothing else is left.
func TestFilesInterrupted(t *testing.T) {
	for at := int64(1); ; at++ {
		srv, dir := fileServer(t)
		name, n := filepath.Join(dir, "a"), atomic.Int64{}
		ctx, cancel := context.WithCancel(t.Context())
		srv.onFile = func() bool {
			if n.Add(1) == at {
				cancel()
			}
			return false
		}
		err := srv.shell(nil).CreateFile(ctx, "pve1", name, []byte("text"), 0o600)
		cancel()
		if data, readErr := os.ReadFile(name); readErr == nil && string(data) != "text" {
			t.Errorf("interrupted at %d: the file has %q", at, data)
		}
		names := namesIn(t, dir)
		if len(names) > 1 || len(names) == 1 && names[0] != "a" || err == nil && len(names) == 0 || err != nil &&
			!errors.Is(err, context.Canceled) {
			t.Errorf("interrupted at %d: the directory has %q after %v", at, names, err)
		}
		if n.Load() < at {
			return
		}
	}
}

// TestFilesByPathOfAVolume asks the node for the path.
func TestFilesByPathOfAVolume(t *testing.T) {
	srv := newServer(t, always(reply{stdout: "/mnt/pve/nfs/snippets/a.yaml\n"}))
	if path, err := srv.shell(nil).VolumePath(t.Context(), "pve1", "nfs:snippets/a.yaml"); err != nil ||
		path != "/mnt/pve/nfs/snippets/a.yaml" {
		t.Errorf("%q, %v", path, err)
	}
	if _, err := srv.shell(nil).VolumePath(t.Context(), "pve1", "-x"); err == nil {
		t.Error("an option is a volume")
	}
	if _, commands := srv.seen(); !slices.Equal(commands, []string{"pvesm path nfs:snippets/a.yaml"}) {
		t.Errorf("commands %q", commands)
	}
}

// TestFilesBySudo: a user who is not root has the program for it run by sudo, and hears what sudo says.
func TestFilesBySudo(t *testing.T) {
	srv, dir := fileServer(t)
	user := func(c *Config) { c.Username = "terraform" }
	if err := srv.shell(user).CreateFile(t.Context(), "pve1", filepath.Join(dir, "a"), []byte("x"), 0o600); err != nil {
		t.Error(err)
	}
	if _, commands := srv.seen(); !slices.Equal(commands, []string{"sudo -n -- /usr/lib/openssh/sftp-server"}) {
		t.Errorf("commands %q", commands)
	}
	srv = newServer(t, always(reply{status: 1, stderr: "sudo: a password is required\n"}))
	if _, err := srv.shell(user).ReadFile(t.Context(), "pve1", "/x"); err == nil || !strings.Contains(err.Error(),
		"sudo: a password is required") {
		t.Error(err)
	}
}

// TestKeepAlive: a connection whose node does not answer any more is closed, also in the middle of a command.
func TestKeepAlive(t *testing.T) {
	started := make(chan struct{}, 1)
	srv := newServer(t, always(reply{block: true, started: started}))
	srv.deaf = make(chan struct{})
	defer close(srv.deaf)
	shell := srv.shell(func(c *Config) { c.KeepAlive, c.Timeout = 20*time.Millisecond, time.Second })
	begin := time.Now()
	if _, err := shell.Run(t.Context(), "pve1", "x"); !errors.Is(err, errLost) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("it took %s", took)
	}
}

// transferFiles serves SFTP on this machine's files.
func (s *server) transferFiles(channel ssh.Channel) {
	var rwc io.ReadWriteCloser = channel
	if s.onFile != nil {
		rwc = &counted{channel, s}
	}
	if server, err := sftp.NewServer(rwc); err == nil {
		_ = server.Serve()
	}
	_ = channel.Close()
}

// counted tells of each request by the answer, and closes everything in its place where it is told to.
type counted struct {
	ssh.Channel
	srv *server
}

func (c *counted) Write(p []byte) (int, error) {
	if c.srv.onFile() {
		c.srv.kill()
		return 0, io.ErrClosedPipe
	}
	return c.Channel.Write(p)
}
