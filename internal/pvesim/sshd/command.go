package sshd

import (
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// nodeAt is the node whose name or address a client has dialled, "" if there is none.
func (s *Server) nodeAt(local string) (found string) {
	host, _, err := net.SplitHostPort(local)
	if err != nil {
		host = local
	}
	s.cluster.Do(func(w *state.World) {
		for _, n := range nodes(w) {
			if host == n.Name || host == n.Address || strings.HasPrefix(host, n.Name+".") {
				found = n.Name
				return
			}
		}
	})
	return found
}

func (s *Server) online(node string) (online bool) {
	s.cluster.Do(func(w *state.World) { online = w.Nodes[node] != nil && w.Nodes[node].Online })
	return online
}

// openssl prints the fingerprint of the certificate of a node without one of its operator's (pveproxy-ssl.pem). Nothing
// else is simulated.
func (s *Server) openssl(node string, args []string, out, errs io.Writer) int {
	const own = "x509 -noout -fingerprint -sha256 -in /etc/pve/local/pve-ssl.pem"
	fingerprint := ""
	s.cluster.Do(func(w *state.World) {
		if n := w.Nodes[node]; n != nil {
			fingerprint = n.Fingerprint()
		}
	})
	if strings.Join(args, " ") != own || fingerprint == "" {
		_, _ = fmt.Fprintf(errs, "openssl %s: not simulated\n", strings.Join(args, " "))
		return 1
	}
	_, _ = fmt.Fprintln(out, "sha256 Fingerprint="+fingerprint)
	return 0
}

// uname prints what the node's kernel has for its name (coreutils uname). Other options are not simulated.
func (s *Server) uname(node string, args []string, out, errs io.Writer) int {
	if len(args) != 1 || args[0] != "-n" {
		_, _ = fmt.Fprintf(errs, "uname %s: not simulated\n", strings.Join(args, " "))
		return 1
	}
	name := node
	s.cluster.Do(func(w *state.World) {
		if n := w.Nodes[node]; n != nil && n.Hostname != "" {
			name = n.Hostname
		}
	})
	_, _ = fmt.Fprintln(out, name)
	return 0
}
