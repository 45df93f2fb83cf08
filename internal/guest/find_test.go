package guest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

const pendingPath, listPath, nextIDPath = "/pending", "/cluster/resources", "/cluster/nextid"

// TestFind: wherever the VM is, and whatever has become of it, with as few requests as tell it.
func TestFind(t *testing.T) {
	moved := func(w *world) { w.vm(func(g *state.Guest) { g.Node = "pve2" }) }
	removed := func(w *world) { w.change(func(all *state.World) { delete(all.Guests, theVM) }) }
	fails := func(w *world, rule fault.Rule) {
		rule.Match, rule.Phase = fault.Match{Path: "/nodes/{node}/qemu/{vmid}/pending"}, fault.Before
		w.sim.SetFaults([]fault.Rule{rule})
	}
	refused := func(w *world) { fails(w, fault.Rule{Status: 403, Reason: "Permission check failed"}) }
	for name, c := range map[string]struct {
		happens func(*world)
		listed  bool   // Find is given a listing
		at      string // the node that the state has, if another
		node    string
		seen    Presence
		kind    pve.Kind
		says    []string
		asks    []string
	}{
		"where state has it":  {node: "pve1", seen: Found, asks: []string{pendingPath}},
		"moved":               {happens: moved, node: "pve2", seen: Found, asks: []string{pendingPath, listPath, pendingPath}},
		"moved, as is listed": {happens: moved, listed: true, node: "pve2", seen: Found, asks: []string{pendingPath}},
		"gone": {happens: removed, seen: Gone, kind: pve.NotFound, says: []string{"read VM 400 on node pve1"},
			asks: []string{pendingPath, listPath}},
		"gone, as is listed": {happens: removed, listed: true, seen: Gone, kind: pve.NotFound, asks: []string{pendingPath, listPath}},
		"gone, or on a dead node": {happens: func(w *world) { removed(w); w.sim.SetNode("pve2", false) }, seen: Unknown,
			says: []string{"node pve2 is offline and may have it"}, asks: []string{pendingPath, listPath}},
		"a container by now": {happens: func(w *world) {
			w.vm(func(g *state.Guest) { g.Type, g.Config = "lxc", map[string]string{"hostname": "theirs"} })
		}, seen: Found, says: []string{"VM 400 on node pve1 is not the VM in state", "uuid " + theUUID}, asks: []string{pendingPath, listPath}},
		"refused": {happens: refused, seen: Unknown, kind: pve.Denied, asks: []string{pendingPath, nextIDPath}},
		"gone from the pool that gave the right to read it": {happens: func(w *world) { removed(w); refused(w) },
			seen: Gone, kind: pve.Denied, asks: []string{pendingPath, nextIDPath, listPath}},
		"not in this cluster, which has no such node": {happens: func(w *world) { removed(w); refused(w) }, at: "elsewhere",
			seen: Unknown, says: []string{"and no node elsewhere"}, asks: []string{pendingPath, nextIDPath, listPath}},
		"not in this cluster, which knows no way to such a node": {happens: removed, at: "elsewhere",
			seen: Unknown, says: []string{"the nodes pve1, pve2, and no node elsewhere"}, asks: []string{pendingPath, listPath, listPath}},
		"a server that fails": {happens: func(w *world) { fails(w, fault.Rule{Times: -1, Reason: "out of order"}) }, seen: Unknown,
			says: []string{"read VM 400 on node pve1", "out of order"},
			asks: []string{pendingPath, pendingPath, pendingPath}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			if c.happens != nil {
				c.happens(w)
			}
			var listed pve.Resources
			if c.listed {
				listed = w.resources()
			}
			w.sim.ResetOps()
			ref := w.ref()
			if c.at != "" {
				ref.Node = c.at
			}
			at, seen, err := w.s.Find(t.Context(), ref, listed)
			if at.Node != c.node || seen != c.seen || (err != nil) != (c.node == "") {
				t.Errorf("on %q, seen %d, %v", at.Node, seen, err)
			}
			if read := at.Config.Current()["name"] == "web"; read != (c.node != "") {
				t.Errorf("configuration %v", at.Config.Current())
			}
			if c.kind != 0 && !pve.IsKind(err, c.kind) {
				t.Errorf("%v is not of kind %s", err, c.kind)
			}
			if c.listed && c.node != "" && at.Listed.Node != c.node {
				t.Errorf("what is listed is not told: %+v", at.Listed)
			}
			mustSay(t, name, err, c.says...)
			w.mustHaveAsked(name, c.asks...)
		})
	}
}

// TestFindEnds: one that is always where it was not looked for is looked for three times; an interrupt ends the
// search at once.
func TestFindEnds(t *testing.T) {
	w := newWorld(t, nil)
	node := map[string]string{"pve1": "pve2", "pve2": "pve1"}
	w.vm(func(g *state.Guest) { g.Node = "pve2" })
	hop := func() { w.vm(func(g *state.Guest) { g.Node = node[g.Node] }) }
	api, err := pve.New(pve.Config{Endpoint: w.sim.Endpoint(), CACertificate: w.sim.CAPEM(), DialTLSContext: w.sim.DialTLSContext, Clock: w.s.clock,
		APIToken: w.sim.Credentials().Token, Trace: func(_ context.Context, message string, fields map[string]string) {
			if message == "PVE request" && fields["path"] == "/cluster/resources" {
				hop()
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	w.s.api = api
	w.sim.ResetOps()
	if at, seen, err := w.s.Find(t.Context(), w.ref(), nil); seen != Unknown || at.Node != "" {
		t.Errorf("on %q, seen %d, %v", at.Node, seen, err)
	} else {
		mustSay(t, "always elsewhere", err, "VM 400 is moving from node to node")
	}
	if n := len(w.asked()); n != 6 {
		t.Errorf("%d requests, want 6: %q", n, w.asked())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.sim.ResetOps()
	if _, seen, err := w.s.Find(ctx, w.ref(), nil); seen != Unknown || !errors.Is(err, context.Canceled) || len(w.asked()) != 0 {
		t.Errorf("interrupted: seen %d, %v, after %q", seen, err, w.asked())
	}
}

// TestFindUnlocked: it waits for the holder of the VM's lock, follows the VM to another node, and never gives another
// VM.
func TestFindUnlocked(t *testing.T) {
	w := newWorld(t, nil)
	w.sim.HoldLock(theVM, "backup", time.Minute, "root@pam")
	before := w.s.clock.Now()
	at, err := w.s.FindUnlocked(t.Context(), w.ref())
	if waited := w.s.clock.Now().Sub(before); err != nil || at.Node != "pve1" || at.Config.Current()["lock"] != "" || waited < time.Minute {
		t.Errorf("%v after %s; lock %q", err, waited, at.Config.Current()["lock"])
	}
	w.vm(func(g *state.Guest) { g.SetLock("suspended", "state") })
	w.sim.ResetOps()
	if at, err = w.s.FindUnlocked(t.Context(), w.ref()); err != nil || at.Config.Current()["lock"] != "suspended" {
		t.Errorf("a suspended guest is waited for: %v", err)
	}
	w.mustHaveAsked("suspended", pendingPath)
	w.vm(func(g *state.Guest) {
		g.SetLock("", "")
		g.Config = maps.Clone(g.Config)
		g.Config["smbios1"] = "uuid=99999999-2222-3333-4444-000000000400"
	})
	var another *IdentityError
	_, err = w.s.FindUnlocked(t.Context(), w.ref())
	if !errors.As(err, &another) || another.Server.UUID[:4] != "9999" || another.State.UUID != theUUID {
		t.Errorf("another VM: %v", err)
	}
	w.vm(func(g *state.Guest) {
		g.Config = map[string]string{}
		g.SetLock("destroyed", "state")
	})
	_, err = w.s.FindUnlocked(t.Context(), w.ref())
	mustSay(t, "a half-destroyed VM", err, "VM 400 on node pve1 is half destroyed", "It was not touched",
		"`qm unlock 400 && qm destroy 400 --purge`")
}

// TestHoldings: what is in which slot, now or after the next restart, and how large what is detached is, from one
// listing of each storage that matters.
func TestHoldings(t *testing.T) {
	w := newWorld(t, map[string]string{"scsi0": "local-zfs:vm-400-disk-0,size=1G", "unused0": "local-zfs:vm-400-disk-1",
		"unused1": "local-lvm:vm-400-disk-2"})
	w.vm(func(g *state.Guest) { g.Pending = map[string]string{"scsi1": "local-zfs:vm-400-disk-3,size=1G"} })
	w.change(func(all *state.World) { w.volume(all, "local-zfs", "vm-400-disk-3") })
	w.sim.ResetOps()
	sized := []string{"local-zfs:vm-400-disk-1", "local-zfs:vm-400-disk-0", "local-zfs:vm-400-disk-9"}
	named := slices.Concat(sized, []string{"local-zfs:vm-400-disk-2", "/dev/sdb"})
	w.change(func(all *state.World) { w.volume(all, "local-zfs", "vm-400-disk-2") })
	held, err := w.s.Holdings(t.Context(), w.ref(), sized, named)
	if err != nil {
		t.Fatal(err)
	}
	want := Holdings{Slots: map[string]string{"scsi0": "local-zfs:vm-400-disk-0", "scsi1": "local-zfs:vm-400-disk-3"},
		Unused: map[string]int64{"local-zfs:vm-400-disk-1": 1 << 30, "local-lvm:vm-400-disk-2": 0},
		Loose:  map[string]int64{"local-zfs:vm-400-disk-2": 1 << 30}}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	w.mustHaveAsked("one storage", pendingPath, "/content")
	if held.SlotOf("local-zfs:vm-400-disk-3") != "scsi1" || held.SlotOf("local-zfs:vm-400-disk-1") != "" {
		t.Error("the slot of a volume")
	}
	w.change(func(all *state.World) { delete(all.Guests, theVM) })
	if _, err := w.s.Holdings(t.Context(), w.ref(), nil, nil); !pve.IsKind(err, pve.NotFound) {
		t.Errorf("of a VM that is gone: %v", err)
	}
}

// TestSnapshotConfigs: in the order of the names; one that cannot be read is an error.
func TestSnapshotConfigs(t *testing.T) {
	w := newWorld(t, nil)
	w.vm(func(g *state.Guest) {
		g.Snaps = map[string]map[string]string{"older": {"name": "first", "snaptime": "1"}, "newer": {"name": "second", "snaptime": "2"}}
	})
	all, err := w.s.SnapshotConfigs(t.Context(), "pve1", theVM, []string{"newer", "older"})
	if err != nil || len(all) != 2 || all[0]["name"] != "second" || all[1]["name"] != "first" {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := w.s.SnapshotConfigs(t.Context(), "pve1", theVM, []string{"older", "missing"}); err == nil {
		t.Error("a snapshot that is not there is passed over")
	}
}
