package action_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// orphanWorld is a cluster with orphans, left by a program that knows nothing of this provider.
type orphanWorld struct {
	*testing.T
	w   *rig.World
	api *pve.Client
	s   *terraformtest.Session
}

func newOrphanWorld(t *testing.T, id rig.Identity, options ...pvesim.Options) *orphanWorld {
	t.Helper()
	a := &orphanWorld{T: t, w: rig.NewWorld(t, options...)}
	var err error
	a.api, err = pve.New(pve.Config{Endpoint: a.w.Sim.Endpoint(), CACertificate: a.w.Sim.CAPEM(), DialContext: a.w.Sim.DialContext,
		Clock: clock.Client{Cluster: a.w.Sim.World().Clock}, APIToken: a.w.Sim.Credentials().RootToken})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.api.Close)
	a.s = a.w.Session(t, id, "")
	return a
}

// make makes a VM under the next free id.
func (a *orphanWorld) make(options string) (vmid int) {
	a.Helper()
	var err error
	if vmid, err = a.api.Cluster().NextID(a.Context()); err != nil {
		a.Fatal(err)
	}
	parsed, err := url.ParseQuery(options)
	if err != nil {
		a.Fatal(err)
	}
	params := pve.Params{"vmid": strconv.Itoa(vmid)}
	for name, values := range parsed {
		params[name] = values[0]
	}
	upid, err := a.api.Node("pve1").CreateVM(a.Context(), params)
	if err == nil {
		_, err = a.api.Tasks().Wait(a.Context(), upid)
	}
	if err != nil {
		a.Fatal(err)
	}
	return vmid
}

// listed is what proxmox_orphans lists, by id.
func (a *orphanWorld) listed() map[string]terraformtest.Value {
	a.Helper()
	v, err := a.s.ReadDataSource(a.Context(), "proxmox_orphans", "")
	if err != nil {
		a.Fatal(err)
	}
	all := map[string]terraformtest.Value{}
	for it := terraformtest.At(v, "orphans").ElementIterator(); it.Next(); {
		_, o := it.Element()
		all[terraformtest.Text(o, "id")] = o
	}
	return all
}

// remove invokes the action for an item as it is listed.
func (a *orphanWorld) remove(o terraformtest.Value, more string, between func()) (string, error) {
	config := more
	for _, name := range []string{"kind", "id", "node", "since"} {
		if text := terraformtest.Text(o, name); text != "" {
			config += fmt.Sprintf("\n%s = %q", name, text)
		}
	}
	return rig.Invoke(a.T, a.s, "proxmox_orphan_delete", config, between)
}

const likely = "accept = \"likely\""

// TestActionsOrphansOfAControllerThatRetried: a controller made a VM, asked for its disk by an endpoint that PVE has not, noted nothing and
// started again, 66 times. All of them are listed, and nothing of any other user; the action removes them one by one, also the last one, which
// looks owned by then, and nothing else changes.
func TestActionsOrphansOfAControllerThatRetried(t *testing.T) {
	t.Parallel()
	a := newOrphanWorld(t, rig.TokenNoSSH)
	a.make("name=to-be-installed&net0=virtio,bridge=vmbr0") // alone of its name: owned
	a.make("name=db&scsi0=local-zfs:1&net0=virtio,bridge=vmbr0")
	a.w.Sim.Advance(time.Hour)
	if found := a.listed(); len(found) > 0 {
		t.Fatalf("there are none yet: %v", found)
	}
	before := string(a.w.Sim.Snapshot())
	var made []string
	for range 66 {
		made = append(made, strconv.Itoa(a.make("name=web&cores=2&memory=2048&net0=virtio,bridge=vmbr0")))
	}
	a.w.Sim.Advance(time.Hour)
	found := a.listed()
	ids := []string{}
	for id := range found {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if slices.Sort(made); !slices.Equal(ids, made) {
		t.Fatalf("listed are %v, made were %v", ids, made)
	}
	if _, err := a.remove(found[made[0]], "", nil); err == nil || !strings.Contains(err.Error(), `accept = "likely" removes it`) {
		t.Errorf("without accepting a likely orphan: %v", err)
	}
	for i, id := range made {
		if told, err := a.remove(found[id], likely, nil); err != nil || !strings.Contains(told, "VM "+id+" on node pve1 was removed") {
			t.Fatalf("%s: told %q, error %v", id, told, err)
		}
		if i%22 == 0 {
			if left := len(a.listed()); left != len(made)-1-i {
				t.Errorf("after %d there are %d", i+1, left)
			}
		}
	}
	if after := string(a.w.Sim.Snapshot()); after != before {
		t.Errorf("the cluster was\n%s\nand is\n%s", before, after)
	}
	if told, err := a.remove(found[made[0]], likely, nil); err != nil || !strings.Contains(told, "No guest has the id") {
		t.Errorf("once more: told %q, error %v", told, err)
	}
}

// leave fills the cluster with one item of each kind.
func (a *orphanWorld) leave() {
	a.Helper()
	a.w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: fault.KillTask}})
	if upid, err := a.api.Node("pve1").CreateVM(a.Context(), pve.Params{"vmid": "301", "scsi0": "local-zfs:1"}); err == nil {
		_, _ = a.api.Tasks().Wait(a.Context(), upid) // it is killed
	}
	a.w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/clone"}, Phase: fault.KillTask}})
	if upid, err := a.api.QEMU("pve1", 9000).Clone(a.Context(), pve.Params{"newid": "302", "full": "1"}); err == nil {
		_, _ = a.api.Tasks().Wait(a.Context(), upid)
	}
	a.w.Sim.SetFaults(nil)
	a.w.Change(func(world *state.World) {
		world.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-303-disk-0", VMID: 303, Content: "images", Format: "raw", Size: 1 << 30})
		world.HA["vm:305"] = &state.HAResource{SID: "vm:305", State: "ignored"}
		world.Pools["web"].Guests = append(world.Pools["web"].Guests, 306)
		world.ACL = append(world.ACL, state.ACLEntry{Path: "/vms/307", Subject: "auditor@pve", Role: "PVEAuditor"})
	})
	a.w.Sim.StaleLock(8000, "backup", "root@pam")
	a.w.Sim.Advance(2 * time.Hour)
}

// TestActionsOrphansOfEachKind: each identity removes an orphan of every kind, or is refused and told the privilege that it needs.
// A third party that takes the orphan on between the plan and the invocation, or right before the request, loses nothing.
func TestActionsOrphansOfEachKind(t *testing.T) {
	t.Parallel()
	unlocks := map[rig.Identity]bool{rig.RootTicket: true, rig.TokenSSH: true}
	for _, id := range rig.Identities() {
		t.Run(string(id), func(t *testing.T) {
			t.Parallel()
			a := newOrphanWorld(t, id)
			a.leave()
			found := a.listed()
			for item, kind := range map[string]string{"301": "half_made", "302": "half_made", "8000": "lock", "local-lvm:vm-303-disk-0": "volume",
				"vm:305": "ha_resource", "web/306": "pool_member", "/vms/307 auditor@pve PVEAuditor": "acl_entry"} {
				o, ok := found[item]
				if !ok || terraformtest.Text(o, "kind") != kind {
					t.Errorf("%s %s is not listed, but %v", kind, item, found)
					continue
				}
				says := ""
				switch {
				case (kind == "half_made" || kind == "lock") && !unlocks[id]:
					says = "No way to take a lock away"
				case kind == "ha_resource" && id != rig.RootTicket:
					says = "(/, Sys.Console)"
				case kind == "volume" && id == rig.TokenNoAllocate:
					says = "Datastore.Allocate"
				}
				told, err := a.remove(o, likely, nil)
				if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("%s: told %q, error %v", item, told, err)
				}
				if _, still := a.listed()[item]; still != (err != nil) {
					t.Errorf("%s is still listed: %t, error %v", item, still, err)
				}
			}
		})
	}
}

// TestActionsOrphansTakenByThirdParties: a third party takes the item on between the plan and the invocation, or at any request of it. Nothing of theirs
// changes.
func TestActionsOrphansTakenByThirdParties(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, item, says string
		act              func(w *state.World)
	}{
		{"a container mounts the volume", "local-lvm:vm-303-disk-0", "is used by container 8100", func(w *state.World) {
			w.Guests[8100].Config["mp0"] = "local-lvm:vm-303-disk-0,mp=/data"
		}},
		{"a VM takes its id", "local-lvm:vm-303-disk-0", "VM 303 on node pve1 has the id 303, which stands in the name of volume local-lvm:vm-303-disk-0", func(w *state.World) {
			w.Guests[303] = &state.Guest{VMID: 303, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "his"}}
		}},
		{"another VM gets the id", "301", "301", func(w *state.World) {
			w.Guests[301] = &state.Guest{VMID: 301, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "his", "smbios1": "uuid=1"}}
		}},
		{"HA's guest comes", "vm:305", "so nothing that names it is left over", func(w *state.World) {
			w.Guests[305] = &state.Guest{VMID: 305, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "his"}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newOrphanWorld(t, rig.RootTicket)
			a.leave()
			o := a.listed()[c.item]
			var his string
			told, err := a.remove(o, likely, func() { a.w.Change(c.act); his = string(a.w.Sim.Snapshot()) })
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("told %q, error %v", told, err)
			}
			if now := string(a.w.Sim.Snapshot()); now != his {
				t.Errorf("the cluster was\n%s\nand is\n%s", his, now)
			}
		})
	}
}

// TestActionsOrphansUntilTheLastRequest: while an orphan is looked at for the last time, a third party takes it on, at each request of the
// invocation in turn. Nothing of theirs changes, and the error names their act. If they come too late there is nothing left to take on.
func TestActionsOrphansUntilTheLastRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		item string
		vmid int
		acts []thirdparty.Act
	}{
		{"local-lvm:vm-303-disk-0", 303, []thirdparty.Act{thirdparty.TakeID}},
		{"301", 301, []thirdparty.Act{thirdparty.Delete, thirdparty.Unlock}},
		{"302", 302, []thirdparty.Act{thirdparty.Describe, thirdparty.Unlock}},
		{"308", 308, []thirdparty.Act{thirdparty.Describe, thirdparty.Start, thirdparty.Delete}},
	} {
		for _, act := range c.acts {
			t.Run(c.item+" "+string(act), func(t *testing.T) {
				t.Parallel()
				first := newOrphanWorld(t, rig.RootTicket)
				first.leave()
				first.make("vmid=308&name=empty&net0=virtio,bridge=vmbr0&boot=order%3Dscsi0")
				first.w.Sim.Advance(time.Hour)
				o := first.listed()[c.item]
				world, tasks := first.w.Sim.Snapshot(), map[string]*state.Task{} // a removal's tasks would tell of another VM of the id
				first.w.Change(func(w *state.World) { tasks = maps.Clone(w.Tasks) })
				first.w.Sim.ResetOps()
				if _, err := first.remove(o, likely, nil); err != nil {
					t.Fatal(err)
				}
				requests := first.w.Sim.LastOp()
				done, late := 0, 0
				takesOn := act == thirdparty.Describe || act == thirdparty.Start
				for n := 1; n <= requests; n++ { // a locked VM goes only between two of ours
					if err := first.w.Sim.Load(world); err != nil {
						t.Fatal(err)
					}
					first.w.Change(func(w *state.World) { w.Tasks = maps.Clone(tasks) })
					first.w.Sim.ResetOps()
					first.w.Sim.MarkThirdParties(300, 301, 302, 303, 308)
					first.w.Sim.SetThirdParties([]thirdparty.Order{{Act: act, VMID: c.vmid, Before: fault.Match{Nth: n}}})
					told, err := first.remove(o, likely, nil)
					for _, report := range first.w.Sim.Reports() {
						if !report.Done {
							continue
						}
						done++
						if now := first.w.Sim.ThirdParties(); !bytes.Equal(now, report.Is) {
							t.Errorf("request %d: told %q, error %v; the third party's objects were\n%s\nand are\n%s", n, told, err, report.Is, now)
						}
						if !takesOn || !first.looked(c.vmid, report.Seq) || first.sent("", c.vmid, report.Seq+1) {
							continue
						}
						if late++; err == nil || !first.has(c.vmid) {
							t.Errorf("request %d: the third party had taken it on; told %q, error %v", n, told, err)
						}
					}
				}
				if done == 0 || takesOn && late == 0 {
					t.Errorf("third parties did %d things, %d of them between the look and the removal", done, late)
				}
			})
		}
	}
}

// looked reports whether a VM was looked at before a request. The guests are read at once, so an act before one of these
// reads may come before the answer of another, whatever their numbers say.
func (a *orphanWorld) looked(vmid, before int) bool {
	return a.sent("/pending", vmid, before) && !slices.ContainsFunc(a.w.Sim.Ops(), func(op pvesim.Op) bool {
		return strings.HasSuffix(op.Path, "/pending") && op.Seq >= before
	})
}

// sent reports whether a request about a VM was sent before another: one with that end, or "" for its deletion.
func (a *orphanWorld) sent(end string, vmid, before int) bool {
	return slices.ContainsFunc(a.w.Sim.Ops(), func(op pvesim.Op) bool {
		of := op.VMID == vmid && op.Seq < before
		return of && (end == "" && op.Method == http.MethodDelete || end != "" && strings.HasSuffix(op.Path, end))
	})
}

// trap does something when a word comes up in the provider's log for the nth time.
type trap struct {
	mu     sync.Mutex
	word   string
	nth    int
	spring func()
}

func (p *trap) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes.Contains(line, []byte(p.word)) {
		if p.nth--; p.nth == 0 {
			p.spring()
		}
	}
	return len(line), nil
}

// TestActionsOrphansAndAContainerInTheLastMoment: a container mounts the volume after it was judged, right before it is to be removed.
func TestActionsOrphansAndAContainerInTheLastMoment(t *testing.T) {
	t.Parallel()
	a := newOrphanWorld(t, rig.TokenNoSSH)
	a.leave()
	o := a.listed()["local-lvm:vm-303-disk-0"]
	sprung := false
	p := &trap{word: "/cluster/nextid", nth: 2} // the first is that of the look, the second that of the evidence
	p.spring = func() {
		sprung = true
		a.w.Change(func(w *state.World) { w.Guests[8100].Config["mp0"] = "local-lvm:vm-303-disk-0,mp=/data" })
		a.w.Mark()
	}
	a.w.LogTo(p)
	a.s = a.w.Session(t, rig.TokenNoSSH, "")
	told, err := a.remove(o, "", nil)
	if !sprung || err == nil || !strings.Contains(err.Error(), "is also used by container 8100") {
		t.Errorf("sprung %t, told %q, error %v", sprung, told, err)
	}
	a.w.MustBeClean(t)
}

func (a *orphanWorld) has(vmid int) (there bool) {
	a.w.Change(func(world *state.World) { there = world.Guests[vmid] != nil })
	return there
}

// TestHARulesSurviveAnOrphansRemoval: the guest of an entry without one may come back from a backup, and find the
// administrator's rules.
func TestHARulesSurviveAnOrphansRemoval(t *testing.T) {
	t.Parallel()
	a := newOrphanWorld(t, rig.RootTicket, pvesim.Options{Profile: "9.2"})
	rule := map[string]string{"type": "node-affinity", "resources": "vm:305", "nodes": "pve1"}
	a.w.Change(func(world *state.World) {
		world.HA["vm:305"] = &state.HAResource{SID: "vm:305", State: "ignored"}
		world.HARules = map[string]map[string]string{"licence": maps.Clone(rule)}
	})
	if _, err := a.remove(a.listed()["vm:305"], "", nil); err != nil {
		t.Fatal(err)
	}
	a.w.Change(func(world *state.World) {
		if world.HA["vm:305"] != nil || !maps.Equal(world.HARules["licence"], rule) {
			t.Errorf("entry %+v, rules %v", world.HA["vm:305"], world.HARules)
		}
	})
}
