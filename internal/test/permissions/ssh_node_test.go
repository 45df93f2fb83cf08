package permissions_test

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestSSHOfEachNode: in the simulated cluster the address of a node leads to that node, in memory and on a real network.
func TestSSHOfEachNode(t *testing.T) {
	t.Parallel()
	for _, real := range []bool{false, true} {
		w := rig.NewWorld(t, pvesim.Options{RealNetwork: real, Nodes: []string{"pve1", "pve2", "pve3"}})
		nodes := map[string]ssh.Address{}
		for _, entry := range w.Sim.SSHAddresses() {
			name, address, _ := strings.Cut(entry, "=")
			host, port, err := net.SplitHostPort(address)
			rig.Must(t, err)
			number, err := strconv.Atoi(port)
			rig.Must(t, err)
			nodes[name] = ssh.Address{Host: host, Port: number}
		}
		nodes["pve4"] = nodes["pve1"]
		shell, err := ssh.New(ssh.Config{PrivateKeyPEM: w.Sim.SSHPrivateKeyPEM(), KnownHosts: w.Sim.SSHKnownHosts(),
			Dial: w.Sim.SSHDial, Nodes: nodes})
		rig.Must(t, err)
		for _, name := range []string{"pve1", "pve2", "pve3"} {
			rig.Must(t, shell.Reach(t.Context(), name))
		}
		rig.MustSay(t, shell.Reach(t.Context(), "pve4"), "is host pve1 (uname -n), not node pve4")
		rig.Must(t, shell.Close())
	}
}
