package storage_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// network is one on which the nodes have the addresses that the cluster knows, and no names.
type network struct {
	*rig.World
	mu      sync.Mutex
	dialled []string
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialled = append(n.dialled, address)
	n.mu.Unlock()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	sim, port, err := net.SplitHostPort(n.Sim.SSHAddress())
	if err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(sim, ".")
	node := ""
	n.Change(func(world *state.World) {
		for name, at := range world.Nodes {
			if at.Address == host {
				node = name
			}
		}
	})
	if node == "" {
		return nil, errors.New("lookup " + host + ": no such host")
	}
	return n.Sim.SSHDial(ctx, kind, net.JoinHostPort(node+"."+domain, port))
}

// session configures a provider with a login for SSH and no address but those in ssh.
func (n *network) session(t *testing.T, id rig.Identity, ssh, hcl string) *terraformtest.Session {
	t.Helper()
	s := n.NewSession()
	login := "  ssh = {\n" + n.SSHLogin() + ssh + "  }\n}\n"
	rig.Must(t, s.Configure(strings.TrimSuffix(n.ProviderBlock(id), "}\n")+login, hcl))
	return s
}

func newNetwork(t *testing.T) *network {
	n := &network{World: rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}})}
	n.DialSSH = n.dial
	return n
}

const isoDisk = `resource "proxmox_vm" "x" {
  node  = "pve2"
  disks = { scsi0 = { storage = "local-zfs", import_from = "local:iso/debian.iso" } }
}
`

// TestSSHAddress: in a cluster the provider finds the nodes' addresses by itself.
func TestSSHAddress(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	s := n.session(t, rig.TokenNoSSH, "", snippetWithVM("#cloud-config\n"))
	rig.Must(t, s.Converge(t.Context()))
	if slices.ContainsFunc(n.dialled, func(at string) bool { return at != "192.0.2.12:22" }) || len(n.dialled) == 0 {
		t.Errorf("dialled %q", n.dialled)
	}
	rig.Must(t, s.Destroy(t.Context()))
}

// TestSSHAddressOfTheConfiguration: what the block says wins over what PVE says, for its nodes alone.
func TestSSHAddressOfTheConfiguration(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	s := n.session(t, rig.TokenNoSSH, "    nodes = { pve1 = { address = \"203.0.113.1\" } }\n", snippetWithVM("#cloud-config\n"))
	rig.Must(t, s.Converge(t.Context()))
	s = n.session(t, rig.TokenNoSSH, "    nodes = { pve2 = { address = \"203.0.113.2\" } }\n", isoDisk)
	_, err := s.Plan(t.Context())
	if err == nil || !strings.Contains(err.Error(), "(203.0.113.2:22)") || strings.Contains(err.Error(), "ssh.nodes") {
		t.Errorf("the plan says %v", err)
	}
}

// TestSSHAddressUnknown: where PVE does not say the address and the node's name leads nowhere, the plan of each resource
// whose apply needs SSH says so, on the attribute, with the way out. Nothing was written.
func TestSSHAddressUnknown(t *testing.T) {
	t.Parallel()
	for name, hcl := range map[string]string{"a snippet": rig.SnippetBlock("#cloud-config\n", `kind = "user-data"`), "an ISO image": isoDisk} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			n.Change(func(world *state.World) { world.Nodes["pve2"].Address = "" })
			n.Mark()
			s := n.session(t, rig.TokenNoSSH, "", hcl)
			_, err := s.Plan(t.Context())
			for _, want := range []string{"Node pve2 cannot be reached over SSH", "connect to node pve2 (pve2:22)", "no such host",
				"set ssh.nodes in the provider, or PROXMOX_VE_SSH_NODES=pve2=ADDRESS"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the plan does not say %q: %v", want, err)
				}
			}
			n.MustBeClean(t)
		})
	}
}

// TestSSHAddressWithoutAudit: without Sys.Audit on / the node's name is the address, and nothing more is needed.
func TestSSHAddressWithoutAudit(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.Change(func(world *state.World) {
		for name, privileges := range world.Roles {
			world.Roles[name] = slices.DeleteFunc(privileges, func(p string) bool { return p == "Sys.Audit" })
		}
		world.Nodes["pve2"].Address = "pve2" // a name that leads there
	})
	s := n.session(t, rig.TokenNoSSH, "", isoDisk)
	_, err := s.Plan(t.Context())
	if len(n.dialled) != 1 || n.dialled[0] != "pve2:22" {
		t.Errorf("dialled %q, %v", n.dialled, err)
	}
}
