package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// transfer is one use of SFTP, as request is one command.
type transfer struct {
	op, node string
	// again: it may be done twice.
	again bool
}

// sftpServer is the path of OpenSSH's server on Debian. A user other than root runs it by sudo.
const sftpServer = "/usr/lib/openssh/sftp-server"

// transfer opens SFTP on the node's one connection, for one use. The error is an *Error, or wraps one.
func (s *Shell) transfer(ctx context.Context, t transfer, use func(*sftp.Client) error) (err error) {
	n, release, err := s.seat(ctx, t.node)
	if err != nil {
		return &Error{Op: t.op, Node: t.node, ExitStatus: -1, Err: err}
	}
	defer release()
	ctx, ran := oplog.Run(ctx, t.node, t.op)
	defer func() { ran(err == nil) }()
	for attempt := 1; ; attempt++ {
		c, err := n.connection(ctx)
		if err != nil {
			return &Error{Op: t.op, Node: t.node, ExitStatus: -1, Err: err}
		}
		began, lost, err := s.transferOver(ctx, c, use)
		s.trace(ctx, "SFTP", map[string]string{"node": t.node, "operation": t.op, "attempt": strconv.Itoa(attempt),
			"error": textOf(err)})
		if err == nil {
			return nil
		}
		if lost {
			n.drop(c)
		}
		if !lost || attempt == 2 || ctx.Err() != nil || began && !t.again {
			return &Error{Op: t.op, Node: t.node, ExitStatus: -1, Err: err}
		}
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// transferOver uses SFTP over a connection. began: it may have had an effect; lost: the connection is of no more use.
func (s *Shell) transferOver(ctx context.Context, c *connection, use func(*sftp.Client) error) (began, lost bool,
	err error) {
	session, lost, err := s.openSession(ctx, c)
	if err != nil {
		return false, lost, err
	}
	defer func() { _ = session.Close() }() // most likely closed by the peer already
	// Neither the start of SFTP nor its requests know a context; closing the session ends them.
	stop := context.AfterFunc(ctx, func() { _ = session.Close() })
	defer stop()
	client, err := s.startSFTP(session)
	if err == nil {
		began = true
		err = use(client) // the client's requests end with the session
	}
	if ctx.Err() != nil && err != nil {
		return began, false, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	if errors.Is(err, sftp.ErrSSHFxConnectionLost) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return began, true, errors.Join(errTransferLost, err)
	}
	return began, false, wordsOf(err)
}

var errTransferLost = errors.New("the connection was lost in the middle of it")

// wordsOf adds the likely reasons to a refusal without a reason: version 3 of SFTP has one code for most of them.
func wordsOf(err error) error {
	var status *sftp.StatusError
	if errors.As(err, &status) && strings.Contains(status.Error(), `"Failure"`) {
		return fmt.Errorf("%w: SFTP gives no reason; it may be a full or a read-only file system", err)
	}
	return err
}

// startSFTP starts SFTP in a session: the subsystem, or for a user other than root its program by sudo.
func (s *Shell) startSFTP(session *ssh.Session) (*sftp.Client, error) {
	in, err := session.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := session.StdoutPipe()
	if err != nil {
		return nil, err
	}
	said := &tail{}
	if s.cfg.Username == "root" {
		err = session.RequestSubsystem("sftp")
	} else {
		session.Stderr = said
		err = session.Start("sudo -n -- " + sftpServer)
	}
	if err != nil {
		return nil, fmt.Errorf("start SFTP: %w", err)
	}
	client, err := sftp.NewClientPipe(out, in)
	if err != nil && s.cfg.Username != "root" {
		_ = session.Wait() // until its whole output is here
		if words := tidy(said.kept.String()); words != "" {
			err = fmt.Errorf("sudo -n -- %s: %s", sftpServer, words)
		}
	}
	return client, err
}
