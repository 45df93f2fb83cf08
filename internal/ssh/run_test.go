package ssh

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
)

func rsaSigner(t *testing.T) ssh.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// TestOneConnection: many commands at once share one connection, and no more run at a time than sshd allows.
func TestOneConnection(t *testing.T) {
	var now, most atomic.Int32
	srv := newServer(t, func(_, line string) reply {
		running := now.Add(1)
		for old := most.Load(); running > old && !most.CompareAndSwap(old, running); old = most.Load() {
		}
		time.Sleep(time.Millisecond)
		now.Add(-1)
		return reply{stdout: line}
	})
	shell := srv.shell(nil)
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			word := fmt.Sprint("n", i)
			if out, err := shell.Run(t.Context(), "pve1", word); err != nil || out != word {
				t.Errorf("%s: %q, %v", word, out, err)
			}
		})
	}
	group.Wait()
	if logins, commands := srv.seen(); logins != 1 || len(commands) != 40 || most.Load() > maxSessions {
		t.Errorf("%d logins, %d commands, %d at once", logins, len(commands), most.Load())
	}
}

// TestHoldWaitsForItsTurn: while as many commands run as sshd allows, Hold waits. Then what it calls runs at once, though
// all other sessions are taken again, and on another node it waits like any other command.
func TestHoldWaitsForItsTurn(t *testing.T) {
	started := make(chan struct{}, 2*maxSessions)
	srv := newServer(t, func(_, line string) reply {
		return reply{block: strings.HasPrefix(line, "import"), started: started}
	})
	shell := srv.shell(func(c *Config) { c.KnownHosts = srv.knownAs("pve1", "pve2") })
	var imports []context.CancelFunc
	var group sync.WaitGroup
	defer group.Wait()
	begin := func() {
		ctx, cancel := context.WithCancel(t.Context())
		imports = append(imports, cancel)
		group.Go(func() { _, _ = shell.Run(ctx, "pve1", "import") })
		<-started
	}
	for range maxSessions {
		begin()
	}
	defer func() {
		for _, cancel := range imports {
			cancel()
		}
	}()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	called := false
	err := shell.Hold(short, "pve1", func(context.Context) error { called = true; return nil })
	if called || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("beside %d imports it was called: %t, %v", maxSessions, called, err)
	}
	imports[0]()
	err = shell.Hold(t.Context(), "pve1", func(ctx context.Context) error {
		brief, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if _, err := shell.Run(context.WithoutCancel(t.Context()), "pve2", "x"); err != nil { // its own turn
			t.Error(err)
		}
		if _, err := shell.Run(brief, "pve1", "x"); err != nil {
			t.Errorf("it waits for its own session: %v", err)
		}
		other, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer stop()
		if _, err := shell.Run(other, "pve1", "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("another command has taken the session: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLateCommandIsNotRun: what a command was decided by is out of date once the node is reached, or once a dead
// connection is replaced. Then nothing is run there.
func TestLateCommandIsNotRun(t *testing.T) {
	errLate := errors.New("too late")
	for name, reconnects := range map[string]bool{"the first connection": false, "another connection": true} {
		for what, do := range map[string]func(context.Context, *Shell, string) error{
			"unlock": func(ctx context.Context, s *Shell, _ string) error { return s.Unlock(ctx, "pve1", 100) },
			"free": func(ctx context.Context, s *Shell, _ string) error {
				return s.FreeVolume(ctx, "pve1", "a:vm-100-disk-0")
			},
			"remove": func(ctx context.Context, s *Shell, file string) error {
				return s.RemoveFile(ctx, "pve1", file, SHA256Of([]byte("text")))
			},
		} {
			srv, dir := fileServer(t)
			file, late := filepath.Join(dir, "there"), false
			if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
				t.Fatal(err)
			}
			armed := !reconnects
			shell := srv.shell(func(c *Config) {
				c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					late = armed
					return srv.dial(ctx, network, addr)
				}
			})
			if reconnects {
				if err := shell.Reach(t.Context(), "pve1"); err != nil {
					t.Fatal(err)
				}
				armed = true
				srv.kill()
			}
			ctx := oplog.WithCheck(t.Context(), func() error {
				if late {
					return errLate
				}
				return nil
			})
			err := do(ctx, shell, file)
			_, commands := srv.seen()
			if _, gone := os.Stat(file); !errors.Is(err, errLate) || len(commands) > 0 || gone != nil {
				t.Errorf("%s over %s: %v; ran %q; the file: %v", what, name, err, commands, gone)
			}
		}
	}
}

// TestReconnect: a connection that died while nothing ran is replaced without an error.
func TestReconnect(t *testing.T) {
	srv := newServer(t, always(reply{stdout: "x"}))
	shell := srv.shell(nil)
	for round := 1; round <= 3; round++ {
		if _, err := shell.Run(t.Context(), "pve1", "x"); err != nil {
			t.Fatal(err)
		}
		if logins, commands := srv.seen(); logins != round || len(commands) != round {
			t.Fatalf("round %d: %d logins, %d commands", round, logins, len(commands))
		}
		srv.kill()
	}
}

// TestSSHRunsNothingTwice loses the connection in the middle of each command: it is run once, and the error says that
// its effect is unknown.
func TestSSHRunsNothingTwice(t *testing.T) {
	for name, do := range map[string]func(context.Context, *Shell) error{
		"unlock": func(ctx context.Context, s *Shell) error { return s.Unlock(ctx, "pve1", 100) },
		"free":   func(ctx context.Context, s *Shell) error { return s.FreeVolume(ctx, "pve1", "a:vm-100-disk-0") },
		"set": func(ctx context.Context, s *Shell) error {
			_, err := s.SetVM(ctx, "pve1", 100, map[string]string{"scsi0": "a:0,import-from=/iso/a.img"}, "ab12")
			return err
		},
		"path": func(ctx context.Context, s *Shell) error { _, err := s.VolumePath(ctx, "pve1", "a:vm-1"); return err },
		"sum":  func(ctx context.Context, s *Shell) error { _, err := s.SHA256(ctx, "pve1", "a:vm-1"); return err },
		"run":  func(ctx context.Context, s *Shell) error { _, err := s.Run(ctx, "pve1", "x"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t, func(_, line string) reply {
				return reply{cut: name != "sum" || !strings.HasPrefix(line, "pvesm path"), stdout: "/a\n"}
			})
			err := do(t.Context(), srv.shell(nil))
			var failed *Error
			if !errors.As(err, &failed) || failed.ExitStatus != -1 || failed.Command == "" || !errors.Is(err, errLost) ||
				!fault.IsKind(err, fault.Ambiguous) {
				t.Errorf("got %#v", err)
			}
			seen := map[string]int{}
			_, commands := srv.seen()
			for _, line := range commands {
				seen[line]++
			}
			if len(seen) != len(commands) || len(commands) == 0 {
				t.Errorf("the node was given %q", commands)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprint("deaf=", deaf), func(t *testing.T) {
			signalled, started := make(chan ssh.Signal, 1), make(chan struct{}, 1)
			var calls atomic.Int32
			srv := newServer(t, func(string, string) reply {
				if calls.Add(1) > 1 {
					return reply{}
				}
				return reply{block: true, deaf: deaf, signalled: signalled, started: started}
			})
			shell := srv.shell(nil)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-started; cancel() }()
			begin := time.Now()
			err := shell.Unlock(ctx, "pve1", 100)
			if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "interrupted") {
				t.Errorf("got %v", err)
			}
			if took := time.Since(begin); !deaf && took > stopGrace {
				t.Errorf("an obedient command took %s", took)
			}
			if signal := <-signalled; signal != ssh.SIGTERM {
				t.Errorf("the command was sent %s", signal)
			}
			if err = shell.Unlock(t.Context(), "pve1", 100); err != nil {
				t.Errorf("after a cancel: %v", err)
			}
			if logins, _ := srv.seen(); logins != 1 {
				t.Errorf("a cancel cost the connection: %d logins", logins)
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	srv := newServer(t, always(reply{}))
	shell := srv.shell(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := shell.Unlock(ctx, "pve1", 100); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, commands := srv.seen(); len(commands) != 0 {
		t.Errorf("the node was given %q", commands)
	}
}

// TestMuteConnection: a connection that accepts no session any more is given up after the timeout and replaced.
func TestMuteConnection(t *testing.T) {
	srv := newServer(t, always(reply{}))
	srv.mute = true
	shell := srv.shell(func(c *Config) { c.Timeout = time.Second })
	err := shell.Unlock(t.Context(), "pve1", 100)
	if err == nil || !strings.Contains(err.Error(), "did not open an SSH session within 1s") {
		t.Errorf("got %v", err)
	}
	srv.mu.Lock()
	srv.mute = false
	srv.mu.Unlock()
	if err = shell.Unlock(t.Context(), "pve1", 100); err != nil {
		t.Error(err)
	}
}

func TestClose(t *testing.T) {
	started := make(chan struct{}, 1)
	srv := newServer(t, always(reply{block: true, started: started}))
	shell := srv.shell(nil)
	ended := make(chan error, 1)
	go func() { _, err := shell.Run(t.Context(), "pve1", "x"); ended <- err }()
	<-started
	if err := shell.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a command survived the close")
	}
	if err := shell.Unlock(t.Context(), "pve1", 100); !errors.Is(err, ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
	if err := shell.Close(); err != nil {
		t.Errorf("a second close: %v", err)
	}
}

// TestTrace: commands can be followed, keys cannot be read.
func TestTrace(t *testing.T) {
	srv := newServer(t, always(reply{status: 3, stderr: "why"}))
	var lines []string
	shell := srv.shell(func(c *Config) {
		c.Trace = func(_ context.Context, msg string, fields map[string]string) {
			lines = append(lines, fmt.Sprint(msg, fields))
		}
	})
	if err := shell.Unlock(t.Context(), "pve1", 100); err == nil {
		t.Error("status 3 is no error")
	}
	all := strings.Join(lines, "\n")
	for _, want := range []string{"SSH connected", "address:pve1:22", "command:qm unlock 100", "exit_status:3",
		"stderr:why"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
	if strings.Contains(all, "PRIVATE KEY") {
		t.Errorf("the key is in\n%s", all)
	}
}
