package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// fingerprintForm matches a fingerprint of ssh-keygen -l: the unpadded base64 of a SHA-256 sum.
var fingerprintForm = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)

// hostKeys decides which host keys are trusted.
type hostKeys struct {
	known        ssh.HostKeyCallback // nil if there are no known hosts
	authorities  bool                // known_hosts names certificate authorities
	fingerprints []string
}

func newHostKeys(content []byte, fingerprints string) (*hostKeys, error) {
	keys := &hostKeys{}
	for _, f := range strings.FieldsFunc(fingerprints, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		f = strings.TrimRight(f, "=")
		if !fingerprintForm.MatchString(f) {
			return nil, errors.New("a host key fingerprint is not of the form SHA256:… that ssh-keygen -l prints")
		}
		keys.fingerprints = append(keys.fingerprints, f)
	}
	if len(content) == 0 {
		return keys, nil
	}
	known, err := parseKnownHosts(content)
	if err != nil {
		return nil, err
	}
	keys.known = known
	keys.authorities = bytes.Contains(content, []byte("@cert-authority"))
	return keys, nil
}

// parseKnownHosts writes a temporary file, which is gone when it returns: package knownhosts, which knows hashed names,
// revoked keys and certificate authorities, reads nothing else.
func parseKnownHosts(content []byte) (callback ssh.HostKeyCallback, err error) {
	file, err := os.CreateTemp("", "known_hosts")
	if err != nil {
		return nil, fmt.Errorf("read known_hosts: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read known_hosts: %w", err)
	}
	callback, err = knownhosts.New(file.Name())
	if err != nil {
		text := strings.ReplaceAll(err.Error(), file.Name()+":", "line ")
		return nil, fmt.Errorf("read known_hosts: %s", strings.TrimPrefix(text, "knownhosts: "))
	}
	return callback, nil
}

// target is one host to connect to: its name in messages, and what known_hosts may list it under.
type target struct {
	what  string // "node pve1" or "bastion gate.example.org"
	alias string // the node's name, or "" for a bastion
	addr  string // host:port
	hint  string // what to do if it is the wrong one, as the end of a message
	// remedy is the same as a sentence, for a host that is reached and is not the node
	remedy string
}

// isOther is the error of a host that answers at the address and is not the node.
func (t target) isOther(host string) error {
	if host == "" {
		return fmt.Errorf("%s did not say its name (uname -n), so it may not be %s. Nothing was run there. %s", t.addr,
			t.what, t.remedy)
	}
	return fmt.Errorf("%s is host %s (uname -n), not %s. Nothing was run there. %s", t.addr, host, t.what, t.remedy)
}

// verify is the host key callback for t.
func (h *hostKeys) verify(t target) ssh.HostKeyCallback {
	return func(_ string, remote net.Addr, key ssh.PublicKey) error {
		seen := ssh.FingerprintSHA256(key)
		err := h.lookup(t, remote, key)
		var mismatch *knownhosts.KeyError
		var revoked *knownhosts.RevokedError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &revoked): // also where its fingerprint is configured
			return fmt.Errorf("the host key of %s (%s), %s %s, is marked as revoked in known_hosts", t.what, t.addr, key.Type(),
				seen)
		case slices.Contains(h.fingerprints, seen):
			return nil
		case errors.As(err, &mismatch) && len(mismatch.Want) > 0:
			return fmt.Errorf("the host key of %s (%s) is %s %s, but known_hosts has %s: either the host was installed again, "+
				"or an attacker is in between; compare with ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub on the host itself",
				t.what, t.addr, key.Type(), seen, fingerprintsOf(mismatch.Want))
		case errors.As(err, &mismatch):
			return fmt.Errorf("the host key of %s (%s) is not known: it is %s %s; if ssh-keygen -lf "+
				"/etc/ssh/ssh_host_*_key.pub "+
				"on the host itself shows the same, add it to known_hosts or configure this fingerprint", t.what, t.addr,
				key.Type(), seen)
		default:
			return fmt.Errorf("verify the host key of %s (%s), %s %s: %w", t.what, t.addr, key.Type(), seen, err)
		}
	}
}

// lookup asks known_hosts for the address, then for the name. A different key under the address is final: the name is
// only asked for hosts whose address is not listed.
func (h *hostKeys) lookup(t target, remote net.Addr, key ssh.PublicKey) error {
	if h.known == nil {
		return &knownhosts.KeyError{}
	}
	err := h.known(t.addr, addressOf(t.addr, remote), key)
	var mismatch *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	final := err == nil || errors.As(err, &revoked) || errors.As(err, &mismatch) && len(mismatch.Want) > 0
	if t.alias == "" || final {
		return err
	}
	name := net.JoinHostPort(t.alias, "22") // an alias stands in known_hosts without a port, whatever the port is
	return h.known(name, addressOf(name, remote), key)
}

// addressOf stands in for a remote address that package knownhosts cannot read, such as that of a connection through a
// bastion.
func addressOf(addr string, remote net.Addr) net.Addr {
	if _, _, err := net.SplitHostPort(remote.String()); err == nil {
		return remote
	}
	return textAddr(addr)
}

type textAddr string

func (textAddr) Network() string  { return "tcp" }
func (t textAddr) String() string { return string(t) }

func fingerprintsOf(keys []knownhosts.KnownKey) string {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = key.Key.Type() + " " + ssh.FingerprintSHA256(key.Key)
	}
	return strings.Join(texts, ", ")
}

// algorithms lists the host key algorithms to ask t for: only those that known_hosts has keys for if it lists the host,
// since a server that offered another of its keys would be refused. Otherwise it lists the usual ones in OpenSSH's
// order of preference, whose first key is the one that users see and write down.
func (h *hostKeys) algorithms(t target) []string {
	preferred := []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
	if h.authorities {
		certificates := []string{ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01,
			ssh.CertAlgoECDSA521v01, ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01}
		return append(certificates, preferred...)
	}
	var listed *knownhosts.KeyError
	if len(h.fingerprints) > 0 || !errors.As(h.lookup(t, textAddr(t.addr), noKey{}), &listed) || len(listed.Want) == 0 {
		return preferred
	}
	return slices.DeleteFunc(preferred, func(algorithm string) bool {
		return !slices.ContainsFunc(listed.Want, func(key knownhosts.KnownKey) bool {
			kind := key.Key.Type()
			return kind == algorithm || kind == ssh.KeyAlgoRSA && strings.HasPrefix(algorithm, "rsa-")
		})
	})
}

// noKey is a key that no host has; looking it up tells which keys known_hosts lists.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return nil }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("not a key") }
