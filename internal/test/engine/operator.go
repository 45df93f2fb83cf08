package engine

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
)

// A command, alone or with the node before or behind it.
const (
	quoted = "`((?:qm|pvesm|ha-manager|pvesh|zfs|grep|rm) [^`]+)`"
	listed = "as root on ([a-z0-9]+): ([^\n]+)"
	onNode = "(?: (?:as root )?on node ([a-z0-9]+))?"
)

// Printed are the commands that the user is told to run as root, with the node if it is said.
var Printed = regexp.MustCompile("(?:" + quoted + "|" + listed + ")" + onNode)

// Operator is root on every node.
func Operator(t *testing.T, sim *pvesim.Sim) *ssh.Shell {
	t.Helper()
	_, port, _ := strings.Cut(sim.SSHAddress(), ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	shell, err := ssh.New(ssh.Config{Username: "root", PrivateKeyPEM: sim.SSHPrivateKeyPEM(), KnownHosts: sim.SSHKnownHosts(),
		Nodes: map[string]ssh.Address{"pve1": {Host: "pve1", Port: number}, "pve2": {Host: "pve2", Port: number}}, Dial: sim.SSHDial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shell.Close() })
	return shell
}
