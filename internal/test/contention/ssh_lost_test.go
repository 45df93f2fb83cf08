package contention_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// lostIn are the ways in which a connection to a node dies in the first command of these words: before its effect, and after it.
func lostIn(words string) map[string]fault.Rule {
	command := fault.Match{Method: "SSH", Path: words, Nth: 1}
	return map[string]fault.Rule{"before": {Match: command, Phase: fault.Before, Status: 596}, "after": {Match: command, Phase: fault.After}}
}

// mustLookBetween counts the commands of these words. Between two of them the provider must read these paths.
func mustLookBetween(t *testing.T, ops []pvesim.Op, words string, looks ...string) (sent int) {
	t.Helper()
	var since []string
	for _, op := range ops {
		switch {
		case op.Method == http.MethodGet:
			since = append(since, op.Path)
		case op.Method == "SSH" && op.Path == words:
			for _, look := range looks {
				if sent > 0 && !slices.Contains(since, look) {
					t.Errorf("%s was sent again without a look at %s: only %v", words, look, since)
				}
			}
			sent++
			since = nil
		}
	}
	return sent
}

// TestSSHRunsNothingTwice loses the connection in each command that changes something. The effect is looked for; a second try is
// made after a new proof only, and never once the first had its effect.
func TestSSHRunsNothingTwice(t *testing.T) {
	t.Parallel()
	for when, lost := range lostIn("qm unlock") {
		t.Run("roll-back, "+when, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenSSH, rig.VMBlock("node = \"pve1\"\nvmid = 300\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }"))
			w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: fault.KillTask}, lost})
			if err := s.Run(t.Context()); err == nil {
				t.Error("the create was not killed")
			}
			sent := mustLookBetween(t, w.Sim.Ops(), "qm unlock", "/nodes/{node}/qemu/{vmid}/config", "/nodes/{node}/tasks")
			if want := map[string]int{"before": 2, "after": 1}[when]; sent != want {
				t.Errorf("it was unlocked %d times", sent)
			}
			w.MustBeClean(t)
		})
	}
	for when, lost := range lostIn("pvesm free") {
		t.Run("image, "+when, func(t *testing.T) {
			t.Parallel()
			data := rig.QCOW2("one")
			url := rig.ServeFiles(t, map[string][]byte{"/debian.qcow2": data})
			w, s := rig.Applied(t, rig.TokenSSH, rig.DownloadedImage(url+"/debian.qcow2", rig.SHA256(data)))
			w.Change(func(world *state.World) {
				for name, privileges := range world.Roles {
					world.Roles[name] = slices.DeleteFunc(slices.Clone(privileges), func(p string) bool { return p == "Datastore.Allocate" && strings.HasPrefix(name, "Terraform") })
				}
			})
			w.Sim.SetFaults([]fault.Rule{lost})
			err := s.Destroy(t.Context())
			if when == "before" {
				rig.MustSay(t, err, "pvesm free local:import/debian-", "may have had its effect", "run Terraform again, which looks first")
				if sent := mustLookBetween(t, w.Sim.Ops(), "pvesm free"); sent != 1 {
					t.Errorf("it was freed %d times", sent)
				}
				err = s.Destroy(t.Context())
			}
			rig.Must(t, err)
			sent := mustLookBetween(t, w.Sim.Ops(), "pvesm free", "/nodes/{node}/storage/{storage}/content")
			if want := map[string]int{"before": 2, "after": 1}[when]; sent != want {
				t.Errorf("it was freed %d times", sent)
			}
			w.MustBeClean(t)
		})
	}
	for when, lost := range lostIn("sftp remove") {
		t.Run("snippet, "+when, func(t *testing.T) {
			t.Parallel()
			w, s := rig.Applied(t, rig.TokenSSH, rig.SnippetBlock("#cloud-config\n"))
			w.Sim.ResetOps()
			w.Sim.SetFaults([]fault.Rule{lost})
			rig.Must(t, s.Destroy(t.Context()))
			sent := mustLookBetween(t, w.Sim.Ops(), "sftp remove", "/cluster/resources")
			if want := map[string]int{"before": 2, "after": 1}[when]; sent != want {
				t.Errorf("it was removed %d times", sent)
			}
			w.MustBeClean(t)
		})
	}
}

// TestSSHLoginShellThatPrints: a .bashrc that prints stands in the way of no command; a snippet cannot be written then, and the error
// names the cause.
func TestSSHLoginShellThatPrints(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) {
		for _, node := range world.Nodes {
			node.LoginText = "/etc/motd\nWelcome to a node\n"
		}
	})
	w.Mark()
	s := w.Session(t, rig.TokenSSH, rig.VMBlock("node = \"pve1\"\nvmid = 300\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }"))
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: fault.KillTask}})
	if err := s.Run(t.Context()); err == nil {
		t.Error("the create was not killed")
	}
	if sent := mustLookBetween(t, w.Sim.Ops(), "qm unlock"); sent != 1 {
		t.Errorf("it was unlocked %d times", sent)
	}
	w.MustBeClean(t)
	w.Reconfigure(t, s, rig.TokenSSH, rig.SnippetBlock("#cloud-config\n"))
	rig.MustSay(t, s.Run(t.Context()), "the login shell prints text", "Welcome to a node", ".bashrc")
	w.MustBeClean(t)
}
