package pvesim

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// listenSSH listens for each node on a port of its own, so that a client reaches the node that it means.
func listenSSH(nodes []string, address string) (shells map[string]net.Listener, err error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("address %s: the port is no number", address)
	}
	shells = map[string]net.Listener{}
	for i, node := range nodes {
		at := 0
		if port != 0 {
			at = port + i
		}
		l, err := listen(net.JoinHostPort(host, strconv.Itoa(at)))
		if err != nil {
			closeAll(shells)
			return nil, fmt.Errorf("node %s: %w", node, err)
		}
		shells[node] = l
	}
	return shells, nil
}

func closeAll(shells map[string]net.Listener) {
	for _, l := range shells {
		_ = l.Close()
	}
}

// SSHAddress is host:port of the SSH server of the first node.
func (s *Sim) SSHAddress() string { return s.SSHAddressOf(firstNode(s.world)) }

// SSHAddressOf is host:port of the SSH server of a node, "" for a node that the cluster did not begin with. In memory
// there are no ports, and each name has an address.
func (s *Sim) SSHAddressOf(node string) string {
	if s.shellMem != nil {
		return node + ".pvesim.test:22"
	}
	if l := s.shells[node]; l != nil {
		return l.Addr().String()
	}
	return ""
}

// SSHAddresses are those of all nodes, "pve1=host:port", in the order of the nodes' names.
func (s *Sim) SSHAddresses() []string {
	var all []string
	for _, node := range slices.Sorted(maps.Keys(s.world.Nodes)) {
		if address := s.SSHAddressOf(node); address != "" {
			all = append(all, node+"="+address)
		}
	}
	return all
}

// SSHDial connects to the SSH server as DialContext does to the API. In memory the name or address in address says
// which node it is.
func (s *Sim) SSHDial(ctx context.Context, network, address string) (net.Conn, error) {
	return dial(ctx, s.shellMem, network, address, false)
}

// SSHPrivateKeyPEM is the private key that root's account accepts.
func (s *Sim) SSHPrivateKeyPEM() []byte { return s.ssh.PrivateKeyPEM() }

// SSHKnownHosts is a known_hosts file for the SSH servers of all nodes.
func (s *Sim) SSHKnownHosts() []byte {
	var addresses []string
	for _, node := range s.SSHAddresses() {
		_, address, _ := strings.Cut(node, "=")
		addresses = append(addresses, address)
	}
	return s.ssh.KnownHosts(addresses...)
}
