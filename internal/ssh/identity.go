package ssh

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// showCertificate prints the fingerprint of the certificate that PVE's API has for the host that it runs on
// (pve-cluster Cluster.pm get_node_fingerprint; pve-manager Service/pveproxy.pm init serves the same one). Root reads
// the file. It is closed to other users (pmxcfs.c cfs_fuse_getattr), who ask pveproxy. That needs neither sudo nor a
// forwarded port. A host that is no node of PVE prints nothing.
const showCertificate = "for c in pveproxy-ssl pve-ssl; do " +
	"openssl x509 -noout -fingerprint -sha256 -in /etc/pve/local/$c.pem 2>/dev/null && exit; done; " +
	"timeout 10 openssl s_client -connect localhost:8006 </dev/null 2>/dev/null | " +
	"openssl x509 -noout -fingerprint -sha256 2>/dev/null; exit 0"

// shownForm matches the line of openssl, whose first word differs between its releases.
var shownForm = regexp.MustCompile(`Fingerprint=((?:[0-9A-F]{2}:){31}[0-9A-F]{2})\s`)

// confirmed returns the connection to the node once its host has proved that it is the node. A dead connection is
// replaced.
func (n *node) confirmed(ctx context.Context) (*connection, error) {
	for attempt := 1; ; attempt++ {
		c, err := n.connection(ctx)
		if err != nil {
			return nil, err
		}
		lost, err := n.confirm(ctx, c)
		if lost {
			n.drop(c)
		}
		if err == nil || !lost || attempt == 2 || ctx.Err() != nil {
			return c, err
		}
	}
}

// confirm has the host of a connection say its name, which is that of a node in many clusters, and compares its
// certificate with the one that the API has for the node. It does so once per connection: a command asks for the name
// again itself (frame), SFTP cannot. Where the two differ the certificate may have been renewed between the two
// answers, so both are asked again. Where one side has no certificate the name decides alone: a refusal would leave
// every roll-back undone there, for a host that is nearly always the right one. lost: the connection is of no more use.
func (n *node) confirm(ctx context.Context, c *connection) (lost bool, err error) {
	certificate := n.shell.cfg.Certificate
	for attempt := 1; !c.isNode.Load(); attempt++ {
		shown, lost, err := n.introduce(ctx, c)
		if err != nil {
			return lost, err
		}
		known := ""
		if shown != "" && certificate != nil {
			if known, err = certificate(ctx, n.name, shown); err != nil {
				return false, fmt.Errorf("compare the certificate of %s with the API's, before anything is run there: %w",
					c.to.what, cause(ctx, err))
			}
		}
		by := "certificate"
		if known == "" {
			by = "name"
		}
		n.shell.trace(ctx, "SSH host", map[string]string{"node": n.name, "address": c.to.addr, "known_by": by,
			"certificate": shown})
		switch {
		case known == "" || strings.EqualFold(known, shown):
			c.isNode.Store(true)
		case attempt == 2:
			return false, n.shell.isForeign(c.to, shown, known)
		default:
			c.introduced.Store(nil)
		}
	}
	return false, nil
}

// introduce asks the host of a connection for its name and its certificate, unless it has said them. One caller asks
// at a time, and takes no seat: sshd has a session for it (maxSessions).
func (n *node) introduce(ctx context.Context, c *connection) (certificate string, lost bool, err error) {
	if said := c.introduced.Load(); said != nil {
		return *said, false, nil
	}
	limit := 2 * n.shell.cfg.Timeout // to open the session may take half of it
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the host did not say its name within %s", limit))
	defer cancel()
	select {
	case n.dialing <- struct{}{}:
	case <-ctx.Done():
		return "", false, context.Cause(ctx)
	}
	defer func() { <-n.dialing }()
	if said := c.introduced.Load(); said != nil {
		return *said, false, nil
	}
	command := ""
	if n.shell.cfg.Certificate != nil {
		if command, err = quote([]string{"sh", "-c", showCertificate}); err != nil {
			return "", false, err
		}
	}
	line, err := framed(n.name, command)
	if err != nil {
		return "", false, err
	}
	end := n.shell.attempt(ctx, c, line)
	switch {
	case errors.Is(end.err, errLost): // without an effect
		return "", end.lost, fmt.Errorf("the connection was lost when %s was asked for its name", c.to.what)
	case end.err == nil && end.status != 0:
		end.err = fmt.Errorf("ask %s for its name: exit status %d: %s", c.to.what, end.status, tidy(end.stderr))
	}
	if end.err != nil {
		return "", end.lost, end.err
	}
	if shown := shownForm.FindStringSubmatch(end.stdout); shown != nil {
		certificate = shown[1]
	}
	c.introduced.Store(&certificate)
	return certificate, false, nil
}

// isForeign is the error of a host with the node's name that is not the API's node.
func (s *Shell) isForeign(to target, shown, known string) error {
	advice := to.remedy
	if s.cfg.Username != "root" {
		advice += ". If it is the right host, its pveproxy still serves an old certificate: run \"systemctl restart " +
			"pveproxy\" there"
	}
	return fmt.Errorf("%s is %s of another cluster: PVE's certificate there is %s, and that of the API's %s is %s "+
		"(SHA-256). Nothing was run there. %s", to.addr, to.what, brief(shown), to.what, brief(known), advice)
}

// brief is the beginning of a fingerprint, enough to find it in the list of a node's certificates.
func brief(fingerprint string) string {
	const enough = len("AB:CD:EF:01:23:45:67:89")
	if len(fingerprint) <= enough {
		return fingerprint
	}
	return fingerprint[:enough] + "…"
}
