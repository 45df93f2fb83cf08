package storage_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

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
