package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// maxOutput is the number of bytes that are kept of a command's output.
const maxOutput = 8 << 20

// stopGrace is the time that a cancelled command has after SIGTERM, before its session is closed.
const stopGrace = 2 * time.Second

// Run runs one command on a node and returns its standard output. Every argument is quoted, so it reaches the command
// unchanged. It may change anything, so no operation that only reads may call it. The end of ctx ends the command with
// SIGTERM. The error is an *Error. A command that may have been started is never started again: its effect is for the
// caller to look up (Error.Kind).
func (s *Shell) Run(ctx context.Context, node string, args ...string) (string, error) {
	op := "run a command"
	if len(args) > 0 {
		op = "run " + args[0]
	}
	if err := refuseWhereReading(ctx, op, node); err != nil {
		return "", err
	}
	return s.run(ctx, op, node, args...)
}

// run does the same for an operation op.
func (s *Shell) run(ctx context.Context, op, node string, args ...string) (string, error) {
	failed := &Error{Op: op, Node: node, ExitStatus: -1}
	if s.cfg.Username != "root" && len(args) > 0 {
		args = append([]string{"sudo", "-n", "--"}, args...)
	}
	line, err := quote(args)
	if err != nil {
		failed.Err = err
		return "", failed
	}
	whole, err := framed(node, line)
	if err != nil {
		failed.Err = err
		return "", failed
	}
	n, release, err := s.seat(ctx, node)
	if err != nil {
		failed.Err = err
		return "", failed
	}
	defer release()
	begin := time.Now()
	ctx, ran := oplog.Run(ctx, node, op)
	end := s.attempts(ctx, n, whole)
	ran(end.err == nil && end.status == 0)
	failed.Err, failed.ExitStatus, failed.Stderr = end.err, end.status, tidy(end.stderr)
	if end.started {
		failed.Command = line
	}
	s.trace(ctx, "SSH command", map[string]string{"node": node, "command": line, "exit_status": strconv.Itoa(end.status),
		"stderr": failed.Stderr, "duration_ms": strconv.FormatInt(time.Since(begin).Milliseconds(), 10)})
	if end.err != nil || end.status != 0 {
		return end.stdout, failed
	}
	return end.stdout, nil
}

// outcome is how an attempt to run a command ended.
type outcome struct {
	stdout, stderr string
	status         int  // -1: not known
	started        bool // the command may have been started
	begun          bool // the host has said that it has the node's name
	lost           bool // the connection is of no more use
	err            error
}

// attempts runs the command. If the connection turns out to be dead before the command is started, a new one takes its
// place.
func (s *Shell) attempts(ctx context.Context, n *node, line string) outcome {
	for attempt := 1; ; attempt++ {
		c, err := n.connection(ctx)
		if err != nil {
			return outcome{status: -1, err: err}
		}
		end := outcome{status: -1}
		if s.cfg.Certificate != nil {
			end.lost, end.err = n.confirm(ctx, c)
		}
		if end.err == nil {
			end = s.attempt(ctx, c, line)
		}
		if end.begun && s.cfg.Certificate == nil {
			c.isNode.Store(true)
		}
		if end.lost {
			n.drop(c)
		}
		if !end.lost || attempt == 2 || ctx.Err() != nil || end.started {
			return end
		}
		s.trace(ctx, "SSH connection lost", map[string]string{"node": n.name, "error": end.err.Error()})
	}
}

func (s *Shell) attempt(ctx context.Context, c *connection, line string) outcome {
	session, lost, err := s.openSession(ctx, c)
	if err != nil {
		return outcome{status: -1, lost: lost, err: err}
	}
	if err := oplog.Checked(ctx); err != nil {
		_ = session.Close() // nothing was run in it
		return outcome{status: -1, err: err}
	}
	done := make(chan outcome, 1)
	go func() { done <- runSession(session, c, line) }()
	select {
	case end := <-done:
		return end
	case <-ctx.Done():
	}
	// Without a terminal sshd does not end a command whose session is closed: ask first.
	_ = session.Signal(ssh.SIGTERM) // lost if the connection is dead
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	end := outcome{status: -1, started: true}
	select {
	case end = <-done:
	case <-grace.C:
		_ = session.Close() // likewise
	}
	if end.err == nil && end.status == 0 {
		return end // it was faster than the signal
	}
	end.err = fmt.Errorf("interrupted: %w", context.Cause(ctx))
	return end
}

// openSession opens a session. A connection whose peer has vanished does not answer at all. lost: the connection is of
// no more use. A caller that gives up does not take the connection from the others.
func (s *Shell) openSession(ctx context.Context, c *connection) (session *ssh.Session, lost bool, err error) {
	type answer struct {
		session *ssh.Session
		err     error
	}
	opened := make(chan answer)
	gone := make(chan struct{})
	defer close(gone)
	go func() {
		session, err := c.client.NewSession()
		select {
		case opened <- answer{session, err}:
		case <-gone:
			if err == nil {
				_ = session.Close() // its caller has gone
			}
		}
	}()
	timeout := time.NewTimer(s.cfg.Timeout)
	defer timeout.Stop()
	select {
	case got := <-opened:
		var refused *ssh.OpenChannelError // the server is alive and refuses
		return got.session, got.err != nil && !errors.As(got.err, &refused), got.err
	case <-timeout.C:
		return nil, true, fmt.Errorf("the node did not open an SSH session within %s", s.cfg.Timeout)
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
}

// runSession runs the command to its end and closes the session. Another host than the node runs nothing.
func runSession(session *ssh.Session, c *connection, line string) outcome {
	stdout, stderr := &tail{}, &tail{}
	session.Stdout, session.Stderr = stdout, stderr
	err := session.Run(line)
	_ = session.Close() // most likely closed by the peer already
	end := outcome{status: -1, started: true}
	end.stdout, end.begun = unframed(stdout.kept.String())
	end.stderr, _ = unframed(stderr.kept.String())
	var exit *ssh.ExitError
	switch {
	case err == nil:
		end.status = 0
	case errors.As(err, &exit) && exit.Signal() != "":
		end.err = fmt.Errorf("the command was killed by SIG%s", exit.Signal())
	case errors.As(err, &exit):
		end.status = exit.ExitStatus()
	default:
		end.lost, end.err = true, fmt.Errorf("%w: %w", errLost, err)
	}
	if host, refused := refusedBy(stdout.kept.String()); refused && !end.begun {
		end.started, end.status, end.stdout, end.err = false, -1, "", c.to.isOther(host)
	}
	switch {
	case end.err != nil:
	case stdout.cut:
		end.err = fmt.Errorf("the command printed more than %d bytes", maxOutput)
	case !end.begun && end.status == 0:
		end.err = fmt.Errorf("the login shell did not run it: it printed %q", tidy(end.stdout))
	}
	return end
}

// tail keeps the end of its input: at least half of maxOutput bytes, if there are as many.
type tail struct {
	kept bytes.Buffer // not embedded: its ReadFrom would go past Write
	cut  bool
}

// Write keeps p and forgets the older half once there is too much.
func (t *tail) Write(p []byte) (int, error) {
	if t.kept.Len()+len(p) > maxOutput {
		t.kept.Next(max(t.kept.Len()+len(p)-maxOutput/2, 0))
		t.cut = true
	}
	return t.kept.Write(p)
}
