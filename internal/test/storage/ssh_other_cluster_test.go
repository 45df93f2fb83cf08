package storage_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// otherCluster is one whose nodes have the names of w's, and all of w's volumes. The SSH of new sessions leads there.
func otherCluster(t *testing.T, w *rig.World) *rig.World {
	t.Helper()
	other := rig.NewWorld(t)
	w.Change(func(world *state.World) {
		other.Change(func(there *state.World) {
			for _, n := range there.Nodes {
				n.Certificate = "another cluster"
			}
			for _, v := range world.Volumes {
				twin := *v
				there.Put(&twin)
			}
		})
	})
	w.DialSSH = other.Sim.SSHDial
	other.Mark()
	return other
}

// misdirected is a session of w with the login of the other cluster.
func misdirected(t *testing.T, w, other *rig.World, from *terraformtest.Session, hcl string) *terraformtest.Session {
	t.Helper()
	s := w.NewSession()
	if from != nil {
		s.RestoreState(from.SaveState())
	}
	rig.Must(t, s.Configure(other.ProviderBlock(rig.TokenSSH), hcl))
	return s
}

func saysOtherCluster(node string) []string {
	return []string{node + ".pvesim.test:22 is node " + node + " of another cluster", "Nothing was run there",
		`ssh.nodes["` + node + `"].address`}
}

// TestSSHOtherClusterFreesNothing: another cluster has a pve1 too, with a volume of the same name.
func TestSSHOtherClusterFreesNothing(t *testing.T) {
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
	})
	other := otherCluster(t, w)
	err := misdirected(t, w, other, s, image).Destroy(t.Context())
	rig.MustSay(t, err, append(saysOtherCluster("pve1"), "Cannot destroy image local:import/debian")...)
	other.MustBeClean(t)
	w.DialSSH = nil
	w.Reconfigure(t, s, rig.TokenSSH, image)
	rig.Must(t, s.Destroy(t.Context()))
}

// TestSSHOtherClusterRunsNothing: neither a plan nor an apply gets through to it, by a command or by SFTP.
func TestSSHOtherClusterRunsNothing(t *testing.T) {
	t.Parallel()
	for name, hcl := range map[string]string{"a snippet": rig.SnippetBlock("#cloud-config\n"), "an ISO image": isoDisk} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			other := otherCluster(t, w)
			s := misdirected(t, w, other, nil, hcl)
			rig.MustSay(t, s.Run(t.Context()), saysOtherCluster("pve2")...)
			w.MustBeClean(t)
			other.MustBeClean(t)
			if ops := append(sshOps(w), sshOps(other)...); len(ops) > 0 {
				t.Errorf("a host ran %q", ops)
			}
		})
	}
}

// TestSSHCertificateRenewed: a node whose certificate is another one by the next run is that node. However many
// resources there are, a run of the provider lists the nodes once for that.
func TestSSHCertificateRenewed(t *testing.T) {
	t.Parallel()
	listed := func(count string) (times []int) {
		w := rig.NewWorld(t)
		hcl := strings.NewReplacer("{\n  node", "{\n  count = "+count+"\n  node", "web.yaml", "web-${count.index}.yaml").
			Replace(rig.SnippetBlock("#cloud-config\n"))
		s := w.Session(t, rig.TokenSSH, hcl)
		for _, step := range []func(context.Context) error{s.Converge, s.Destroy} {
			w.Sim.ResetOps()
			rig.Must(t, step(t.Context()))
			lists := 0
			for _, op := range w.Sim.Ops() {
				if op.Path == "/nodes" {
					lists++
				}
			}
			times = append(times, lists)
			w.Change(func(world *state.World) { world.Nodes["pve2"].Certificate = "of next year" })
			w.Mark()
			w.Reconfigure(t, s, rig.TokenSSH, hcl)
		}
		return times
	}
	one, five := listed("1"), listed("5")
	if !slices.Equal(one, five) || slices.Contains(five, 0) {
		t.Errorf("the nodes were listed %d times for one resource, %d for five", one, five)
	}
}

// TestOtherClustersObjectStays: two clusters have the same nodes, names and configurations, as a stage and its production. With the login of
// one and the state of the other, objects that have no identity of their own are neither changed nor removed, and a refresh says so. With the
// right login they go.
func TestOtherClustersObjectStays(t *testing.T) {
	t.Parallel()
	const file = "node = \"pve1\"\nstorage = \"local\"\nname = \"web.yaml\"\n"
	for typ, c := range map[string]struct {
		as          rig.Identity
		body, other string
	}{
		"proxmox_snippet": {rig.TokenSSH, file + "content = \"#cloud-config\\n\"", file + "content = \"#cloud-config\\n# more\\n\""},
		"proxmox_ha_rule": {rig.RootTicket, "rule = \"here\"\ntype = \"node-affinity\"\nresources = [\"vm:8000\"]\nnodes = { pve1 = 1 }",
			"rule = \"here\"\ntype = \"node-affinity\"\nresources = [\"vm:8000\"]\nnodes = { pve1 = 2 }"},
		"proxmox_cloud_init_iso": {as: rig.RootTicket, body: strings.Replace(file, "yaml", "iso", 1) + "user_data = \"#cloud-config\\n\""},
	} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			options := pvesim.Options{Profile: "9.2", RealNetwork: true} // certificates are part of the network
			stage, prod := rig.NewWorld(t, options), rig.NewWorld(t, options)
			hcl := func(body string) string {
				if body == "" {
					return ""
				}
				return "resource \"" + typ + "\" \"x\" {\n" + body + "\n}\n"
			}
			made := func(w *rig.World) *terraformtest.Session {
				w.Change(func(w *state.World) { w.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored"} })
				s := w.Session(t, c.as, hcl(c.body))
				rig.Must(t, s.Converge(t.Context()))
				return s
			}
			one := made(stage)
			prod.Sim.Advance(3600e9)
			made(prod)
			prod.Mark()
			wrong := func(body string) *terraformtest.Session {
				s := prod.NewSession()
				s.RestoreState(one.SaveState())
				rig.Must(t, s.Configure(prod.ProviderBlock(c.as), hcl(body)))
				return s
			}
			if typ != "proxmox_cloud_init_iso" {
				const refused = "may be another cluster's"
				s := wrong(c.body)
				pl, err := s.Plan(t.Context())
				rig.Must(t, err)
				if !pl.Empty() || !strings.Contains(fmt.Sprint(s.Diagnostics()), refused) {
					t.Errorf("the plan: %v\n%v", pl, s.Diagnostics())
				}
				_, err = wrong(c.other).Plan(t.Context())
				rig.MustSay(t, err, refused, "terraform state rm")
			}
			s := wrong("")
			pl, err := s.Plan(t.Context(), terraformtest.WithoutRefresh())
			if err == nil {
				err = s.Apply(t.Context(), pl)
			}
			if typ != "proxmox_cloud_init_iso" {
				rig.MustSay(t, err, "certificate authority", "Correct the endpoint")
			}
			for _, l := range prod.Leaks() {
				t.Errorf("production: %s", l)
			}
			rig.Must(t, one.Configure(stage.ProviderBlock(c.as), ""))
			rig.Must(t, one.Converge(t.Context()))
		})
	}
}
