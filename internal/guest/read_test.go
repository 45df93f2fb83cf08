package guest

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestReadAsksForWhatMayDiffer: a listing and a configuration, and no more where the listing confirms what state knows.
func TestReadAsksForWhatMayDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*world)
		ref     func(*Ref)
		status  string
		asks    []string
	}{
		"as in state": {status: "stopped", asks: []string{listPath, pendingPath}},
		"started since": {happens: func(w *world) { w.run(time.Minute) }, status: "running",
			asks: []string{listPath, pendingPath, "/status/current"}},
		"with what stands beside it": {ref: func(r *Ref) { r.Firewall, r.HA = true, true }, status: "stopped",
			asks: []string{listPath, pendingPath, "/firewall/options", "/firewall/rules", "/cluster/ha/resources/{sid}"}},
		"with an agent": {happens: func(w *world) {
			w.vm(func(g *state.Guest) {
				g.Config["agent"], g.Config["net0"] = "1", "virtio=BC:24:11:00:00:01,bridge=vmbr0"
			})
			w.run(time.Minute)
		}, ref: func(r *Ref) { r.Status = "running" }, status: "running",
			asks: []string{listPath, pendingPath, "/agent/network-get-interfaces"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, ref := newWorld(t, nil), Ref{}
			w.sim.Advance(20 * time.Second)
			if c.happens != nil {
				c.happens(w)
			}
			if ref = w.ref(); c.ref != nil {
				c.ref(&ref)
			}
			w.sim.ResetOps()
			g, seen, err := w.s.Read(t.Context(), ref)
			if err != nil || seen != Found || g.Status != c.status || *g.Spec.Name != "web" || g.Identity.UUID != theUUID {
				t.Errorf("seen %d, %v: %+v", seen, err, g)
			}
			if (g.Firewall != nil) != ref.Firewall {
				t.Errorf("firewall %+v", g.Firewall)
			}
			if g.Interfaces == nil != (len(g.NICs()) == 0) || len(g.Addresses()) != len(g.NICs()) {
				t.Errorf("%v has the addresses %v", g.NICs(), g.Addresses())
			}
			w.mustHaveAsked(name, c.asks...)
		})
	}
}

// TestReadJudges: whose VM it is that has the id, by identity, or by the proof of a create that failed.
func TestReadJudges(t *testing.T) {
	mark := aMark()
	proof := &Proof{VMID: theVM, Cluster: mark.Cluster, Saga: mark.Saga}
	half := func(g *state.Guest) { g.SetLock("create", "state") }
	for name, c := range map[string]struct {
		happens  func(*state.Guest)
		ref      func(*Ref)
		seen     Presence
		identity string // of the VM that was read; "" if none was, or it is not proven
		says     string
	}{
		"ours": {seen: Found, identity: theUUID},
		"another": {happens: func(g *state.Guest) { g.Config["smbios1"] = "uuid=99999999-2222-3333-4444-000000000400" },
			seen: Found, says: "is not the VM in state"},
		"state knows no identity": {ref: func(r *Ref) { r.Identity = Identity{} }, seen: Found, identity: theUUID},
		"our failed create's": {happens: func(g *state.Guest) { g.Config["description"] = mark.String() },
			ref: func(r *Ref) { r.Identity, r.Proof = Identity{}, proof }, seen: Found, identity: theUUID},
		"another user's since our failed create": {ref: func(r *Ref) { r.Identity, r.Proof = Identity{}, proof }, seen: Gone},
		"half made, by whom cannot be told":      {happens: half, ref: func(r *Ref) { r.Identity, r.Proof = Identity{}, proof }, seen: Found},
		"half destroyed": {happens: func(g *state.Guest) { g.Config = map[string]string{}; g.SetLock("destroyed", "state") },
			seen: Found, says: "half destroyed"},
		"restored over itself, from a file": {happens: func(g *state.Guest) { g.Config = map[string]string{"memory": "128"} },
			seen: Found, says: "is being restored from a backup, or such a restore has failed:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			if c.happens != nil {
				w.vm(c.happens)
			}
			ref := w.ref()
			if c.ref != nil {
				c.ref(&ref)
			}
			g, seen, err := w.s.Read(t.Context(), ref)
			if seen != c.seen || g.Identity.UUID != c.identity || (err != nil) != (c.says != "") || g.Placeholder {
				t.Errorf("seen %d, %v: %+v", seen, err, g)
			}
			mustSay(t, name, err, c.says)
		})
	}
	w := newWorld(t, map[string]string{"description": mark.String(), "unused0": "local-zfs:vm-400-disk-0"})
	if g, seen, err := w.s.Read(t.Context(), w.ref()); err != nil || seen != Found || !g.Placeholder || g.Spec.Name != nil {
		t.Errorf("the empty VM under which a volume is taken away: seen %d, %v: %+v", seen, err, g)
	}
}

// TestReadHAWithoutRight: who has not asked for HA is told nothing of a refusal.
func TestReadHAWithoutRight(t *testing.T) {
	w := newWorld(t, nil)
	w.change(func(all *state.World) {
		all.HA["vm:400"] = &state.HAResource{State: "stopped"}
		for role, privs := range all.Roles {
			var kept []string
			for _, p := range privs {
				if p != "Sys.Audit" {
					kept = append(kept, p)
				}
			}
			all.Roles[role] = kept
		}
	})
	w.sim.Advance(20 * time.Second)
	if g, _, err := w.s.Read(t.Context(), w.ref()); err != nil || g.HA != nil {
		t.Errorf("%v, %+v", err, g.HA)
	}
	ref := w.ref()
	ref.HA = true
	if _, _, err := w.s.Read(t.Context(), ref); !pve.IsKind(err, pve.Denied) {
		t.Errorf("who has asked for it: %v", err)
	}
}

// TestFromConfig: what waits for a restart is merged; a size counts at once.
func TestFromConfig(t *testing.T) {
	w := newWorld(t, map[string]string{"scsi0": "local-zfs:vm-400-disk-0,size=1G"})
	w.run(time.Minute)
	w.vm(func(g *state.Guest) {
		g.Config["scsi0"] = "local-zfs:vm-400-disk-0,size=3G"
		g.Pending = map[string]string{"scsi0": "local-zfs:vm-400-disk-0,cache=writeback,size=1G", "memory": "1024"}
	})
	w.change(func(all *state.World) { all.Volume("pve1", "local-zfs:vm-400-disk-0").Size = 3 << 30 })
	g, err := w.s.ReadBack(t.Context(), "pve1", theVM)
	if err != nil || g.Status != "running" || *g.Spec.Memory.Size != 1024 {
		t.Errorf("%v: %+v", err, g)
	}
	if disk := g.Spec.Disks["scsi0"]; *disk.Size != 3<<30 || *disk.Cache != "writeback" {
		t.Errorf("disk of %d bytes, cache %s", *disk.Size, *disk.Cache)
	}
	if diff := cmp.Diff([]string{"memory", "scsi0"}, g.Pending); diff != "" {
		t.Error(diff)
	}
	if _, err := w.s.ReadBack(t.Context(), "pve2", theVM); !pve.IsKind(err, pve.NotFound) {
		t.Errorf("on the wrong node: %v", err)
	}
}

// TestAdopt imports what it has really read, and says why not otherwise.
func TestAdopt(t *testing.T) {
	marked := func(change func(*ownership.Mark)) func(*world) {
		return func(w *world) {
			mark := aMark()
			change(&mark)
			w.describe(mark)
		}
	}
	for name, c := range map[string]struct {
		happens func(*world)
		node    string
		vmid    int
		says    []string
	}{
		"a VM":                    {},
		"on the node that it has": {node: "pve1"},
		"on another node":         {node: "pve2", says: []string{"VM 400 is on node pve1, not on pve2: import pve1/400"}},
		"a container":             {vmid: 8100, says: []string{"8100 is a container (container, node pve1), not a virtual machine"}},
		"on no node of the cluster": {happens: func(w *world) { w.change(func(all *state.World) { delete(all.Guests, theVM) }) },
			node: "pve9", says: []string{`Unknown node "pve9"`, "pve1, pve2"}},
		"none": {happens: func(w *world) {
			w.change(func(all *state.World) { delete(all.Guests, theVM); w.volume(all, "local-zfs", "vm-400-disk-7") })
		}, says: []string{"there is no VM 400 in the cluster", "VM.Audit", "left over: local-zfs:vm-400-disk-7 on node pve1"}},
		"none on that node": {vmid: 401, node: "pve2", says: []string{"there is no VM 401 on node pve2: it has no configuration there"}},
		"half made": {happens: func(w *world) { w.vm(func(g *state.Guest) { g.SetLock("create", "state") }) },
			says: []string{"is locked (create)", "No task is at work on it", "proxmox_orphan_delete"}},
		"that comes from another cluster": {happens: func(w *world) { // as a remote migration leaves it until its disks are there
			w.change(func(all *state.World) {
				const upid = "UPID:pve1:00001111:00002222:65000000:qmtunnel:400:root@pam:"
				all.Tasks[upid] = &state.Task{UPID: upid, Node: "pve1", Type: "qmtunnel", ID: "400", User: "root@pam", Running: true,
					Start: all.Clock.Now()}
				all.Guests[theVM].SetLock("create", upid)
			})
		}, says: []string{"is locked (create)", "Task UPID:pve1:00001111:00002222:65000000:qmtunnel:400:root@pam: is at work on it"}},
		"that this process is creating": {happens: marked(func(m *ownership.Mark) { m.Process = thisProcess() }),
			says: []string{"VM 400 on node pve1 is not complete: transaction 0123456789abcdef of this provider is creating it"}},
		"whose run has died here":          {happens: marked(func(m *ownership.Mark) { m.Process = ended(t) })},
		"whose run elsewhere has died":     {happens: marked(func(*ownership.Mark) {})},
		"that its create was told to keep": {happens: marked(func(m *ownership.Mark) { m.Kept, m.Process = true, thisProcess() })},
		"that bears another VM's mark":     {happens: marked(func(m *ownership.Mark) { m.VMID, m.Process = 401, thisProcess() })},
		"that runs":                        {happens: func(w *world) { w.vm(func(g *state.Guest) { g.Config["agent"] = "1" }); w.run(time.Minute) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			if c.happens != nil {
				c.happens(w)
			}
			if c.vmid == 0 {
				c.vmid = theVM
			}
			before := w.sim.Snapshot()
			g, err := w.s.Adopt(t.Context(), c.node, c.vmid)
			if (err != nil) != (c.says != nil) || err == nil && (g.Identity.UUID != theUUID || g.Node != "pve1" || g.Firewall == nil) {
				t.Errorf("%v: %+v", err, g)
			}
			if running := strings.HasSuffix(name, "runs"); err == nil && (g.Status == "running") != running || (g.Interfaces != nil) != running {
				t.Errorf("status %s, agent %v", g.Status, g.Interfaces)
			}
			mustSay(t, name, err, c.says...)
			if err != nil && strings.Contains(err.Error(), "qm destroy") { // it may be anybody's, and whole
				t.Errorf("a command destroys it: %v", err)
			}
			if !bytes.Equal(before, w.sim.Snapshot()) {
				t.Error("an import has changed something")
			}
		})
	}
}

// TestAdoptListed: one of many is not watched. Where only that would tell whether its create lives, the import is left to
// the user.
func TestAdoptListed(t *testing.T) {
	for name, c := range map[string]struct {
		process string // of the mark, "" for none
		kept    bool
		gone    bool
		says    string
	}{
		"complete":                {},
		"whose run has died here": {process: ended(t)},
		"of a run elsewhere":      {process: elsewhere, says: "VM 400 on node pve1 may not be complete"},
		"of this process":         {process: thisProcess(), says: "is not complete"},
		"that is kept":            {process: elsewhere, kept: true},
		"that has moved since":    {gone: true, says: "it has moved or was destroyed since the cluster was listed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			if c.process != "" {
				mark := aMark()
				mark.Process, mark.Kept = c.process, c.kept
				w.describe(mark)
			}
			listed, _ := w.resources().Guest(theVM)
			if c.gone {
				w.change(func(all *state.World) { delete(all.Guests, theVM) })
			}
			before, began := w.sim.Snapshot(), w.s.clock.Now()
			g, err := w.s.AdoptListed(t.Context(), listed)
			if (err != nil) != (c.says != "") || err == nil && (g.Identity.UUID != theUUID || g.IsUnfinished() != (c.process != "")) {
				t.Errorf("%v: %+v", err, g)
			}
			mustSay(t, name, err, c.says)
			if took := w.s.clock.Now().Sub(began); took > Lease/10 {
				t.Errorf("it took %s", took)
			}
			if !bytes.Equal(before, w.sim.Snapshot()) {
				t.Error("an import has changed something")
			}
		})
	}
}

// TestAskAgentNotesSilence: a silent agent is no error, and its earlier answer stands.
func TestAskAgentNotesSilence(t *testing.T) {
	w := newWorld(t, map[string]string{"agent": "1"})
	w.run(time.Minute)
	w.vm(func(g *state.Guest) { g.Agent = &state.Agent{Silent: true} })
	g := Guest{VMID: theVM, Node: "pve1", Interfaces: []agent.Interface{{Name: "eth0"}}}
	w.s.AskAgent(t.Context(), &g, agent.Memory{Enabled: true})
	if !g.Silent || len(g.Interfaces) != 1 {
		t.Errorf("%+v", g)
	}
}
