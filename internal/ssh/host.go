// Package ssh does as root on a node, over SSH, what PVE's API allows to no one else: it removes a lock, frees a volume
// without the privilege, reads a volume's checksum, and writes snippets. It keeps one connection per node, opened when
// it is first needed.
//
// Host keys are always verified; there is no way to switch that off. A host key belongs to an address, and the address
// may be another host's, so nothing is run on a host that does not have the node's name, or not the certificate that
// the API has for the node.
package ssh

import (
	"context"
	"errors"
	"net"
	"time"
)

// DefaultPort is the port of sshd if none is configured.
const DefaultPort = 22

// DefaultTimeout bounds a connection attempt, and the opening of a session, if Config.Timeout is zero.
const DefaultTimeout = 15 * time.Second

// DefaultKeepAlive is the interval of keep-alive requests if Config.KeepAlive is zero.
const DefaultKeepAlive = 30 * time.Second

// SudoRule is the sudo rule of a user other than root, word for word as the documentation has it: each command that
// this package runs, and no other.
const SudoRule = "terraform ALL=(root) NOPASSWD: /usr/sbin/qm set *, /usr/sbin/qm unlock *, /usr/sbin/pvesm free *, " +
	"/usr/sbin/pvesm path *, /usr/bin/sha256sum -- *, " + sftpServer

// Config holds the ways to reach the nodes. Username, host keys and a way to authenticate are needed; everything else
// has a default.
type Config struct {
	// Username logs in on the nodes. "" = root. Any other user runs every command through "sudo -n" and so needs
	// SudoRule.
	Username string
	// PrivateKeyPEM is an unencrypted private key, PEM or OpenSSH format. An encrypted one belongs in an agent.
	PrivateKeyPEM []byte
	// UseAgent offers the keys of the SSH agent at AgentSocket ("" = $SSH_AUTH_SOCK), after PrivateKeyPEM.
	UseAgent    bool
	AgentSocket string
	// Port is the port of the nodes' sshd, 1 to 65535. 0 = DefaultPort.
	Port int
	// KnownHosts is the content of a known_hosts file. A node may stand in it under its address or under its name
	// (PVE's own cluster file uses names).
	KnownHosts []byte
	// HostKeyFingerprint is one or more fingerprints as ssh-keygen -l prints them ("SHA256:…"), separated by commas or
	// spaces. A host whose key has one of them is accepted even if KnownHosts does not list it.
	HostKeyFingerprint string
	// Nodes gives addresses by node name, which is the first label of the host's own name. A node that is missing is
	// looked up with Resolve.
	Nodes map[string]Address
	// Bastion is a host to jump through, or nil.
	Bastion *Bastion
	// Resolve finds the address of a node that Nodes does not list, usually by asking the API. Nil: the node's name is
	// its address.
	Resolve func(ctx context.Context, node string) (host string, err error)
	// Certificate says the SHA-256 of a node's certificate as PVE's API has it, "AB:CD:…". A host with the node's name
	// and another certificate runs nothing. seen is the one that the host shows: an answer from before serves if it is
	// the same. Nil, or "": the name decides alone. An error: nothing is run.
	Certificate func(ctx context.Context, node, seen string) (fingerprint string, err error)
	// Dial opens network connections. Nil: the operating system's.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Timeout bounds one connection attempt including login. Zero: DefaultTimeout. Commands have no limit but the
	// caller's context.
	Timeout time.Duration
	// KeepAlive is the interval at which an open connection is checked. A connection without an answer within Timeout is
	// closed, which ends the commands that wait on it. Zero: DefaultKeepAlive.
	KeepAlive time.Duration
	// Trace is called for each connection and command, never with a key. Nil: no trace.
	Trace func(ctx context.Context, msg string, fields map[string]string)
}

// Address is the address of a node's sshd.
type Address struct {
	Host string // name or IP address, without brackets; "" = the node's name or Resolve
	Port int    // 0 = Config.Port
}

// Bastion is a host that forwards connections to the nodes (ssh -J). Its host key is verified like a node's.
type Bastion struct {
	Host     string // name or IP address, required
	Port     int    // 0 = DefaultPort
	Username string // "" = Config.Username
	// PrivateKeyPEM is the key for the bastion. Nil: the same authentication as for the nodes.
	PrivateKeyPEM []byte
}

// ErrClosed is the cause of every failure after Close.
var ErrClosed = errors.New("the SSH connections are closed")
