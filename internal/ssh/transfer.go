package ssh

import (
	"bufio"
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

// sftpServer is the path of OpenSSH's server on Debian. A user other than root runs it by sudo.
const sftpServer = "/usr/lib/openssh/sftp-server"

// transfer opens SFTP on the node's one connection, for one use, as run does for a command. The error is an *Error.
func (s *Shell) transfer(ctx context.Context, op, node string, use func(*sftp.Client) error) (err error) {
	n, release, err := s.seat(ctx, node)
	if err != nil {
		return &Error{Op: op, Node: node, ExitStatus: -1, Err: err}
	}
	defer release()
	ctx, ran := oplog.Run(ctx, node, op)
	defer func() { ran(err == nil) }()
	for attempt := 1; ; attempt++ {
		c, err := n.confirmed(ctx)
		if err != nil {
			return &Error{Op: op, Node: node, ExitStatus: -1, Err: err}
		}
		began, lost, err := s.transferOver(ctx, c, use)
		s.trace(ctx, "SFTP", map[string]string{"node": node, "operation": op, "attempt": strconv.Itoa(attempt),
			"error": textOf(err)})
		if err == nil {
			return nil
		}
		if lost {
			n.drop(c)
		}
		if !lost || attempt == 2 || ctx.Err() != nil || began {
			return &Error{Op: op, Node: node, ExitStatus: -1, Err: err}
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
		err = oplog.Checked(ctx)
	}
	if err == nil {
		began = true
		err = use(client) // the client's requests end with the session
	}
	if ctx.Err() != nil && err != nil {
		return began, false, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	lost = errors.Is(err, sftp.ErrSSHFxConnectionLost) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if began && lost {
		err = fmt.Errorf("%w: %w", errLost, err)
	}
	return began, lost, wordsOf(err)
}

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
	client, err := sftp.NewClientPipe(&packets{Reader: bufio.NewReader(out)}, in)
	if err != nil && s.cfg.Username != "root" {
		_ = session.Wait() // until its whole output is here
		if words := tidy(said.kept.String()); words != "" {
			err = fmt.Errorf("sudo -n -- %s: %s", sftpServer, words)
		}
	}
	return client, err
}

// packets is the output of an SFTP server, which the login shell starts and may print before. A packet begins with its
// length in four bytes, the first of them 0: none has 16 MiB. No text has that.
type packets struct {
	*bufio.Reader
	begun bool
}

// Read fails at the first packet if it is text.
func (p *packets) Read(into []byte) (int, error) {
	if !p.begun {
		first, err := p.Peek(1)
		if err == nil && first[0] != 0 {
			text, _ := p.Peek(p.Buffered()) // what has come
			return 0, fmt.Errorf("the login shell prints text: %q. Keep its start-up files (.bashrc) silent in a session "+
				"without a terminal", tidy(string(text)))
		}
		p.begun = true
	}
	return p.Reader.Read(into)
}
