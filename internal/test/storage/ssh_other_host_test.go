package storage_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// misled configures a session whose ssh.nodes gives node the address of host.
func misled(t *testing.T, w *rig.World, s *terraformtest.Session, node, host, hcl string) {
	t.Helper()
	at := func(name string) string { return node + ` = { address = "` + name + `.pvesim.test"` }
	block := strings.Replace(w.ProviderBlock(rig.TokenSSH), at(node), at(host), 1)
	if block == w.ProviderBlock(rig.TokenSSH) {
		t.Fatalf("no address of %s in %s", node, block)
	}
	rig.Must(t, s.Configure(block, hcl))
}

// saysOther are the words of an error about pve1 or pve2, whose address is the other's.
func saysOther(node, host string) []string {
	return []string{"node " + node, host + ".pvesim.test:22", "is host " + host, "Nothing was run there",
		`ssh.nodes["` + node + `"].address`, "PROXMOX_VE_SSH_NODES=" + node + "=ADDRESS if it is from there"}
}

// TestSSHOtherHostFreesNothing: the address of pve1 is pve2's, whose local storage has a volume of the same name. It is
// a third party's, and stays.
func TestSSHOtherHostFreesNothing(t *testing.T) {
	t.Parallel()
	data := rig.QCOW2("one")
	url := rig.ServeFiles(t, map[string][]byte{"/debian.qcow2": data})
	image := rig.DownloadedImage(url+"/debian.qcow2", rig.SHA256(data))
	w, s := rig.Applied(t, rig.TokenSSH, image)
	w.Change(func(world *state.World) {
		for name, privileges := range world.Roles { // so that SSH alone can free it
			world.Roles[name] = slices.DeleteFunc(slices.Clone(privileges), func(p string) bool {
				return p == "Datastore.Allocate" && strings.HasPrefix(name, "Terraform")
			})
		}
		twins := 0
		for _, v := range world.Volumes {
			if v.Node == "pve1" && strings.HasPrefix(v.Name, "import/debian") {
				twin := *v
				twin.Node = "pve2"
				world.Put(&twin)
				twins++
			}
		}
		if twins != 1 {
			t.Errorf("%d images on pve1", twins)
		}
	})
	w.Mark()
	misled(t, w, s, "pve1", "pve2", image)
	rig.MustSay(t, s.Destroy(t.Context()), append(saysOther("pve1", "pve2"), "Cannot destroy image local:import/debian")...)
	w.MustBeClean(t)
	w.Reconfigure(t, s, rig.TokenSSH, image)
	rig.Must(t, s.Destroy(t.Context()))
	for _, line := range w.Leaks() {
		if strings.Contains(line, "pve2") {
			t.Errorf("on pve2: %s", line)
		}
	}
}

// TestSSHOtherHostInThePlan: a plan whose apply needs SSH is refused.
func TestSSHOtherHostInThePlan(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.NewSession()
	misled(t, w, s, "pve2", "pve1", isoDisk)
	_, err := s.Plan(t.Context())
	rig.MustSay(t, err, append(saysOther("pve2", "pve1"), "Node pve2 cannot be reached over SSH")...)
	w.MustBeClean(t)
	if ops := sshOps(w); len(ops) > 0 {
		t.Errorf("the host ran %q", ops)
	}
}

// TestSSHOtherHostSnippet: on the wrong host a snippet is neither looked at, nor written, nor changed, nor removed, not
// even one of the same name and content.
func TestSSHOtherHostSnippet(t *testing.T) {
	t.Parallel()
	const text, changed = "#cloud-config\n", "#cloud-config\nhostname: two\n"
	w := rig.NewWorld(t)
	s := w.NewSession()
	misled(t, w, s, "pve2", "pve1", rig.SnippetBlock(text))
	rig.MustSay(t, s.Run(t.Context()), saysOther("pve2", "pve1")...)
	w.MustBeClean(t)

	w.Reconfigure(t, s, rig.TokenSSH, rig.SnippetBlock(text))
	rig.Must(t, s.Run(t.Context()))
	w.Change(func(world *state.World) {
		world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "snippets/web.yaml", Content: "snippets",
			Format: "snippet", Size: int64(len(text)), Data: text})
	})
	w.Mark()
	w.Sim.ResetOps()
	misled(t, w, s, "pve2", "pve1", rig.SnippetBlock(changed))
	rig.MustSay(t, s.Run(t.Context()), saysOther("pve2", "pve1")...)
	w.MustBeClean(t)
	misled(t, w, s, "pve2", "pve1", rig.SnippetBlock(text))
	rig.MustSay(t, s.Destroy(t.Context()), saysOther("pve2", "pve1")...)
	w.MustBeClean(t)
	if ops := sshOps(w); len(ops) > 0 {
		t.Errorf("the host ran %q", ops)
	}

	w.Reconfigure(t, s, rig.TokenSSH, rig.SnippetBlock(text))
	rig.Must(t, s.Destroy(t.Context()))
	if snippetOn(w, "pve1") != text || snippetOn(w, "pve2") != "" {
		t.Errorf("pve1 has %q, pve2 %q", snippetOn(w, "pve1"), snippetOn(w, "pve2"))
	}
}

// TestSSHHostnameWithADomain: a node whose kernel has a name with a domain is that node.
func TestSSHHostnameWithADomain(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) { world.Nodes["pve2"].Hostname = "pve2.example.org" })
	w.Mark()
	s := w.Session(t, rig.TokenSSH, snippetWithVM("#cloud-config\n"))
	rig.Must(t, s.Converge(t.Context()))
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}

// sshOps are the commands and file operations that nodes have carried out.
func sshOps(w *rig.World) (ran []string) {
	for _, op := range w.Sim.Ops() {
		if op.Method == "SSH" {
			ran = append(ran, op.Node+": "+op.Path)
		}
	}
	return ran
}
