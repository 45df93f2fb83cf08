package server

import (
	"bytes"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// TestResetResetsEverything: whatever happened, a client finds the cluster as it was at the start.
func TestResetResetsEverything(t *testing.T) {
	g := newRig(t, func(c *engine.Config) {
		c.World.Volume("pve1", "local:import/disk.qcow2").Raw = []byte("of the start")
	})
	users, tokens, roles, entries := len(g.w.Users), len(g.w.Tokens), len(g.w.Roles), len(g.w.ACL)
	before := g.s.Snapshot()
	g.steps([]step{{"", "POST", "/qemu", "vmid=100", "OK"}})
	g.visit(thirdparty.Order{Act: thirdparty.Lock, VMID: 100})
	g.faults(fault.Rule{Phase: fault.Before, Times: -1})
	g.s.Do(func(w *state.World) {
		delete(w.Users, auth.RootUser)
		clear(w.Tokens)
		clear(w.Roles)
		w.ACL, w.CaseSensitiveTags, w.NextID.Lower = nil, true, 5000
		w.Mappings = append(w.Mappings, &state.Mapping{Kind: "pci", ID: "gpu"})
		w.HARound, w.HALog = 1, []string{"said"}
		w.HARules = map[string]map[string]string{"near": {"type": "node-affinity"}}
		w.PowerOffs = append(w.PowerOffs, state.PowerOff{VMID: 100})
	})
	g.s.HoldFirewall(200, 1e12)
	if err := g.s.Reset(); err != nil {
		t.Fatal(err)
	}
	w := g.w
	if !bytes.Equal(before, g.s.Snapshot()) {
		t.Errorf("the snapshot is\n%s", g.s.Snapshot())
	}
	if len(w.Users) != users || len(w.Tokens) != tokens || len(w.Roles) != roles || len(w.ACL) != entries ||
		w.Users[auth.RootUser] == nil {
		t.Errorf("%d users, %d tokens, %d roles, %d entries", len(w.Users), len(w.Tokens), len(w.Roles), len(w.ACL))
	}
	if w.CaseSensitiveTags || w.NextID.Lower != 0 || len(w.Mappings) != 0 || w.HARound != 0 ||
		len(w.HALog)+len(w.HARules)+len(w.PowerOffs)+len(w.Tasks) != 0 {
		t.Errorf("left: %v %v %v %v %v %v", w.CaseSensitiveTags, w.NextID, w.Mappings, w.HARound, w.HALog, w.HARules)
	}
	if raw := w.Volume("pve1", "local:import/disk.qcow2").Raw; string(raw) != "of the start" {
		t.Errorf("a file has %q", raw)
	}
	if len(g.s.Ops())+len(g.s.Faults().List())+len(g.s.ThirdParties().Reports())+len(w.ThirdParties.Guests)+
		len(g.s.Locks) != 0 {
		t.Error("operations, faults, third parties or locks are left")
	}
	if r := g.do("root@pam!tf", "GET", "/cluster/nextid", ""); r.status != 200 || r.body.Data != "100" {
		t.Errorf("next id: %d %s", r.status, r.text)
	}
}

// TestPoolRefusals are those of pve-manager's API2/Pool.pm.
func TestPoolRefusals(t *testing.T) {
	g := newRig(t, nil)
	for _, c := range []struct{ method, path, params, want string }{
		{"POST", "/pools", "poolid=front/shop", "create pool failed: parent 'front' of pool 'front/shop' does not exist"},
		{"POST", "/pools", "poolid=front", "OK"},
		{"POST", "/pools", "poolid=front/shop", "OK"},
		{"PUT", "/access/acl", "path=/pool/front/shop&roles=PVEAuditor&users=terraform@pve", "OK"},
		{"DELETE", "/pools", "poolid=front", "delete pool failed: pool 'front' is not empty (contains pool 'front/shop')"},
		{"PUT", "/pools", "poolid=front/shop&storage=local", "OK"},
		{"DELETE", "/pools", "poolid=front/shop",
			"delete pool failed: pool 'front/shop' is not empty (contains storage 'local')"},
		{"PUT", "/pools", "poolid=front/shop&storage=local&delete=1", "OK"},
		{"DELETE", "/pools", "poolid=front/shop", "OK"},
		{"DELETE", "/pools", "poolid=front", "OK"},
	} {
		if r := g.do("root@pam!tf", c.method, c.path, c.params); r.reason != c.want {
			t.Errorf("%s %s %s: %q, want %q", c.method, c.path, c.params, r.reason, c.want)
		}
	}
	for _, e := range g.w.ACL {
		if e.Path == "/pool/front/shop" {
			t.Error("the pool's access list outlived it")
		}
	}
}
