package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// dialer connects to the nodes of one cluster and logs in there.
type dialer struct {
	cfg     Config
	keys    *hostKeys
	signers []ssh.Signer // from PrivateKeyPEM
	bastion []ssh.Signer // from Bastion.PrivateKeyPEM
}

// connection is a login on a node, directly or through a bastion.
type connection struct {
	client *ssh.Client
	behind []io.Closer // closed after it: the bastion's connection
	to     target
	isNode atomic.Bool // the host has proved that it is the node
	// introduced is the certificate of a host that has said its name, "" if it has shown none
	introduced atomic.Pointer[string]
}

func (c *connection) close() error {
	errs := []error{closed(c.client.Close())}
	for _, behind := range c.behind {
		errs = append(errs, closed(behind.Close()))
	}
	return errors.Join(errs...)
}

// closed drops the error of a connection that was closed before.
func closed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// connect logs in on a node. It takes at most Config.Timeout.
func (d *dialer) connect(ctx context.Context, name string) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.cfg.Timeout,
		fmt.Errorf("no SSH connection within %s", d.cfg.Timeout))
	defer cancel()
	to, err := d.target(ctx, name)
	if err != nil {
		return nil, err
	}
	c := &connection{to: to}
	dial := d.cfg.Dial
	if b := d.cfg.Bastion; b != nil {
		via := target{what: "bastion " + b.Host, addr: net.JoinHostPort(b.Host, strconv.Itoa(firstPort(b.Port, DefaultPort)))}
		user, signers := b.Username, d.bastion
		if user == "" {
			user = d.cfg.Username
		}
		if len(signers) == 0 {
			signers = d.signers
		}
		client, err := d.login(ctx, via, dial, user, signers)
		if err != nil {
			return nil, err
		}
		c.behind = append(c.behind, client)
		dial = client.DialContext
	}
	if c.client, err = d.login(ctx, to, dial, d.cfg.Username, d.signers); err != nil {
		for _, behind := range c.behind {
			err = errors.Join(err, closed(behind.Close()))
		}
		return nil, err
	}
	d.keepAlive(c)
	d.trace(ctx, "SSH connected", map[string]string{"node": name, "address": to.addr, "user": d.cfg.Username,
		"server": string(c.client.ServerVersion())})
	return c, nil
}

// keepAlive sends a request to the node at intervals, until the connection ends. Firewalls forget idle connections, and
// a node that has lost its power does not report that.
func (d *dialer) keepAlive(c *connection) {
	ended := make(chan struct{})
	go func() {
		_ = c.client.Wait() // the users of the connection learn why it ended
		close(ended)
	}()
	go func() {
		ticker := time.NewTicker(d.cfg.KeepAlive)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ended:
				return
			}
			unanswered := time.AfterFunc(d.cfg.Timeout, func() { _ = c.close() }) // it is dead
			_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
			unanswered.Stop()
			if err != nil {
				_ = c.close() // likewise
				return
			}
		}
	}()
}

// login opens one SSH connection.
func (d *dialer) login(ctx context.Context, to target, dial func(context.Context, string, string) (net.Conn, error),
	user string, signers []ssh.Signer) (*ssh.Client, error) {
	auth, release, err := d.authMethods(ctx, signers)
	if err != nil {
		return nil, err
	}
	defer release()
	raw, err := dial(ctx, "tcp", to.addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s (%s) over SSH: %w%s", to.what, to.addr, cause(ctx, err), to.hint)
	}
	// The handshake knows no context; closing the connection ends it.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	var refused error // the key's verdict, which the package wraps without its type
	verify := d.keys.verify(to)
	conn, channels, requests, err := ssh.NewClientConn(raw, to.addr, &ssh.ClientConfig{
		User: user,
		Auth: auth,
		HostKeyCallback: func(hostname string, remote net.Addr, key ssh.PublicKey) error {
			refused = verify(hostname, remote, key)
			return refused
		},
		HostKeyAlgorithms: d.keys.algorithms(to),
	})
	if err == nil && !stop() { // ended between the handshake and here
		err = errors.Join(context.Cause(ctx), closed(conn.Close()))
	}
	if refused != nil {
		err = refused
	} else if err != nil {
		err = fmt.Errorf("log in to %s (%s) as %s over SSH: %w", to.what, to.addr, user, cause(ctx, err))
	}
	if err != nil {
		stop()
		_ = raw.Close() // most likely closed already
		return nil, err
	}
	return ssh.NewClient(conn, channels, requests), nil
}

// authMethods offers the configured keys, then those of the agent, as one method: servers count methods, and the
// library tries each name once. The agent's connection is needed until the login is over. The agent may wait for a
// touch or a password for as long as it likes, and its protocol knows no context; closing the connection ends that.
func (d *dialer) authMethods(ctx context.Context, signers []ssh.Signer) ([]ssh.AuthMethod, func(), error) {
	release := func() {}
	all := append([]ssh.Signer(nil), signers...)
	if d.cfg.UseAgent {
		socket, err := (&net.Dialer{}).DialContext(ctx, "unix", d.cfg.AgentSocket)
		if err != nil {
			return nil, nil, fmt.Errorf("connect to the SSH agent: %w", err)
		}
		stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
		release = func() {
			stop()
			_ = socket.Close()
		}
		keys, err := agent.NewClient(socket).Signers()
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("ask the SSH agent for its keys: %w", cause(ctx, err))
		}
		all = append(all, keys...)
	}
	if len(all) == 0 {
		release()
		return nil, nil, errors.New("the SSH agent holds no key, and no private key is configured")
	}
	return []ssh.AuthMethod{ssh.PublicKeys(all...)}, release, nil
}

// cause returns the reason for which ctx ended, instead of the connection error that followed from it.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// target finds the address of a node.
func (d *dialer) target(ctx context.Context, name string) (target, error) {
	address := d.cfg.Nodes[name]
	host, port := address.Host, firstPort(address.Port, d.cfg.Port, DefaultPort)
	if host == "" && d.cfg.Resolve != nil {
		var err error
		if host, err = d.cfg.Resolve(ctx, name); err != nil {
			return target{}, fmt.Errorf("find the address of node %s: %w", name, err)
		}
	}
	if host == "" {
		host = name
	}
	to := target{what: "node " + name, alias: name, addr: net.JoinHostPort(host, strconv.Itoa(port)),
		remedy: fmt.Sprintf("Correct ssh.nodes[%q].address in the provider, or PROXMOX_VE_SSH_NODES=%s=ADDRESS if it is "+
			"from there", name, name)}
	if address.Host == "" {
		to.remedy = fmt.Sprintf("Set ssh.nodes[%q].address in the provider, or PROXMOX_VE_SSH_NODES=%s=ADDRESS", name, name)
		to.hint = ". If that is not its address, set ssh.nodes in the provider, or PROXMOX_VE_SSH_NODES=" + name + "=ADDRESS"
	}
	return to, nil
}

func firstPort(ports ...int) int {
	for _, port := range ports {
		if port != 0 {
			return port
		}
	}
	return 0
}

func (d *dialer) trace(ctx context.Context, msg string, fields map[string]string) {
	if d.cfg.Trace != nil {
		d.cfg.Trace(ctx, msg, fields)
	}
}
