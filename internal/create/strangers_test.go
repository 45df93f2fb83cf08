package create

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/stranger"
)

// TestAStrangerTakesTheIDOfANewVM: a stranger removes the VM that was just made and puts his own in its place, before it is to be
// grown, migrated, started, made a template or put under HA. That is not done to his.
func TestAStrangerTakesTheIDOfANewVM(t *testing.T) {
	image := "local:import/disk.qcow2"
	for name, change := range map[string]func(r *Request){
		"start":    func(r *Request) { r.Start = true },
		"template": func(r *Request) { r.Spec.Template = to(true) },
		"HA":       func(r *Request) { r.HA = &guest.HA{State: to("started")} },
		"firewall": func(r *Request) { r.Firewall = &guest.Firewall{Enabled: to(true)} },
		"grow": func(r *Request) {
			d := r.Spec.Disks["scsi0"]
			d.ImportFrom, d.Size = &image, to(int64(64<<30))
			r.Spec.Disks["scsi0"] = d
		},
		"migrate": func(r *Request) { *r = ofTemplate(); r.Node = "pve2" },
	} {
		b, r := newBench(t, ticket), onZFS()
		change(&r)
		b.change(func(w *state.World) { delete(w.Guests[9000].Config, "protection") })
		b.sim.MarkStrangers()
		made := fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/tasks/{upid}/status"}
		b.sim.SetStrangers([]stranger.Order{{Act: stranger.Delete, VMID: 100, Before: made}, {Act: stranger.TakeID, VMID: 100, Before: made}})
		created, err := b.Create(t.Context(), r)
		if deeds := b.sim.Deeds(); len(deeds) != 2 || !deeds[1].Done {
			t.Fatalf("%s: the stranger did %d things: %s", name, len(deeds), deeds[0].Why)
		} else if err == nil || created.Guest.VMID != 0 || !bytes.Equal(deeds[1].Is, b.sim.Strangers()) {
			t.Errorf("%s: %v; what is the stranger's was\n%s\nand is\n%s", name, err, deeds[1].Is, b.sim.Strangers())
		}
	}
}

// TestOthersChangeACloneMeanwhile: a clone is configured as it was read, and what somebody else changes meanwhile is read, too, and kept.
func TestOthersChangeACloneMeanwhile(t *testing.T) {
	b, r := newBench(t, token), ofTemplate()
	r.Spec.CPU.Cores = to(int64(4))
	change := fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}
	b.sim.SetStrangers([]stranger.Order{{Act: stranger.Rename, VMID: 100, Name: "renamed", Before: change}})
	created, err := b.Create(t.Context(), r)
	if config := b.vms()[created.Guest.VMID]; err != nil || config["cores"] != "4" || config["name"] != "renamed" {
		t.Errorf("%v: %v", err, config)
	}
}

// TestAStrangerPlantsAVolume: the worker of a create is killed, and somebody puts a volume under its id meanwhile. What the create has
// made is taken back; his is named and left alone, and it is not said that nothing is left.
func TestAStrangerPlantsAVolume(t *testing.T) {
	full := true
	for name, c := range map[string]struct {
		r       Request
		storage string
	}{
		"disk, of another size":        {onZFS(), "local-zfs"},
		"linked clone":                 {Request{Node: "pve1", Clone: &guest.Clone{VMID: 9000}}, "local-zfs"},
		"full clone on a thin storage": {Request{Node: "pve1", Clone: &guest.Clone{VMID: 9000, Full: &full, Storage: "local-lvm"}}, "local-lvm"},
	} {
		b := newBench(t, ticket)
		before := b.volumes()
		c.r.VMID = 100
		path := "/nodes/{node}/qemu"
		if c.r.Clone != nil {
			path += "/{vmid}/clone"
		} else {
			d := c.r.Spec.Disks["scsi0"]
			d.Size = to(int64(3 << 30))
			c.r.Spec.Disks["scsi0"] = d
		}
		b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: path}, Phase: fault.KillTask}})
		b.sim.SetStrangers([]stranger.Order{{Act: stranger.Plant, VMID: 100, Storage: c.storage,
			Before: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/tasks/{upid}/status"}}})
		created, err := b.Create(t.Context(), c.r)
		if deeds := b.sim.Deeds(); len(deeds) != 1 || !deeds[0].Done {
			t.Fatalf("%s: the stranger did nothing", name)
		}
		var his []string
		for _, v := range b.volumes() {
			if !strings.Contains(strings.Join(before, "\n"), v) {
				his = append(his, v)
			}
		}
		said := ""
		for _, w := range created.Warnings {
			said += w.Detail
		}
		if err == nil || len(b.vms()) != 0 || len(created.Left) != 0 || len(his) != 1 || !created.Doubt || !strings.Contains(said, his[0]) {
			t.Errorf("%s: %v; left %+v, new are %v, doubt %v, warnings %s", name, err, created.Left, his, created.Doubt, said)
		}
	}
}

// volumes are all of the cluster.
func (b bench) volumes() (ids []string) {
	b.change(func(w *state.World) {
		for _, v := range w.Volumes {
			ids = append(ids, v.Volid())
		}
	})
	return ids
}

// TestHalfMadeUnderAConfiguredID: the id that is wanted is taken by a VM that a stranger is making. No command is given that would
// destroy it.
func TestHalfMadeUnderAConfiguredID(t *testing.T) {
	for name, c := range map[string]struct {
		act     stranger.Act
		dead    bool
		command bool
	}{"a task makes it": {act: stranger.MakeID}, "its task has died": {dead: true, command: true}} {
		b, r := newBench(t, token), onZFS()
		r.VMID = 900
		if c.dead {
			b.change(func(w *state.World) {
				w.Guests[900] = &state.Guest{VMID: 900, Type: "qemu", Node: "pve1", LockCause: "state", Config: map[string]string{"lock": "create"}}
			})
		} else if d := b.sim.Stranger(stranger.Order{Act: c.act, VMID: 900}); !d.Done {
			t.Fatalf("%s: %s", name, d.Why)
		}
		_, err := b.Create(t.Context(), r)
		if err == nil || !strings.Contains(err.Error(), "half-made") || strings.Contains(err.Error(), "qm destroy") != c.command {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheNodeIsAwayForAWhile: the node on which a VM is being made is away for a while. What it has of it when it is back is removed, or
// named where this identity may not.
func TestTheNodeIsAwayForAWhile(t *testing.T) {
	for _, act := range []stranger.Act{stranger.NodeCrash, stranger.NodeOffline} {
		for name, who := range map[string]func(*pve.Config, pvesim.Credentials){"token": token, "ticket": ticket} {
			b, r := newBench(t, who), onZFS()
			b.sim.SetTaskTime(3 * time.Second)
			b.sim.SetStrangers([]stranger.Order{{Act: act, Node: "pve1", ForMS: 20_000,
				Before: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/tasks/{upid}/status"}}})
			created, err := b.Create(t.Context(), r)
			left := len(b.vms())
			if d := b.sim.Deeds(); len(d) == 0 || !d[0].Done || err == nil {
				t.Fatalf("%s, %s: %v, %v", act, name, d, err)
			}
			if left > 0 && (len(created.Left) == 0 || created.Guest.VMID != 100) || name == "ticket" && left > 0 {
				t.Errorf("%s, %s: the cluster has %v, and it is said: %+v, %v", act, name, b.vms(), created.Left, err)
			}
		}
	}
}

// TestSomebodyDescribesAClone: the description of a clone was its only mark. It is not said that the clone is somebody else's.
func TestSomebodyDescribesAClone(t *testing.T) {
	b := newBench(t, ticket)
	b.sim.SetStrangers([]stranger.Order{{Act: stranger.Describe, VMID: 100,
		Before: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/tasks/{upid}/status"}}})
	created, err := b.Create(t.Context(), ofTemplate())
	said := ""
	for _, w := range created.Warnings {
		said += w.Detail
	}
	if err == nil || !created.Doubt || !strings.Contains(said, "changed or replaced") || strings.Contains(said, "somebody else's") {
		t.Errorf("%v; doubt %v, warnings %s", err, created.Doubt, said)
	}
}

// TestAStrangerBeginsWhereWeEnded: the worker of a create is killed, and when the rollback has removed what it left a stranger makes a VM
// under the id, which looks the same at first. It is left alone, and no command is given that would destroy it.
func TestAStrangerBeginsWhereWeEnded(t *testing.T) {
	done := 0
	for _, path := range []string{"/cluster/resources", "/nodes/{node}/storage/{storage}/content"} {
		for nth := 1; nth < 12; nth++ {
			b, r := newBench(t, ticket), onZFS()
			r.VMID = 100
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu"}, Phase: fault.KillTask}})
			b.sim.SetStrangers([]stranger.Order{{Act: stranger.MakeID, VMID: 100, Before: fault.Match{Method: http.MethodGet, Path: path, Nth: nth}}})
			created, err := b.Create(t.Context(), r)
			deeds := b.sim.Deeds()
			if len(deeds) == 0 || !deeds[0].Done || deeds[0].Seq < 5 { // it is not free yet, or we have not begun
				continue
			}
			done++
			if err == nil || b.vms()[100]["lock"] != "create" || len(created.Left) > 0 && strings.Contains(created.Left[0].Command, "qm destroy") {
				t.Errorf("%s #%d: the cluster has %v, left %+v: %v", path, nth, b.vms(), created.Left, err)
			}
		}
	}
	if done == 0 {
		t.Error("no stranger came")
	}
}

// TestAStrangerTakesTheIDOfAMarkedStub: once our rollback has marked what a killed task has left, a half-made VM that looks as that did
// is another's, and no command is printed that would destroy it.
func TestAStrangerTakesTheIDOfAMarkedStub(t *testing.T) {
	const path = "/nodes/{node}/qemu/{vmid}/config"
	done := 0
	for nth := 1; nth < 8; nth++ {
		b, r := newBench(t, ticket), onZFS()
		r.VMID = 100
		b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu"}, Phase: fault.KillTask}})
		before := fault.Match{Method: http.MethodGet, Path: path, Nth: nth}
		b.sim.SetStrangers([]stranger.Order{{Act: stranger.Delete, VMID: 100, Before: before}, {Act: stranger.MakeID, VMID: 100, Before: before}})
		created, err := b.Create(t.Context(), r)
		deeds, marked := b.sim.Deeds(), 0
		for _, op := range b.sim.Ops() {
			if op.Method == http.MethodPut && op.Path == path && marked == 0 {
				marked = op.Seq
			}
		}
		if len(deeds) < 2 || !deeds[1].Done || marked == 0 || deeds[1].Seq <= marked {
			continue
		}
		done++
		if err == nil || b.vms()[100]["lock"] != "create" {
			t.Errorf("#%d: the cluster has %v: %v", nth, b.vms(), err)
		}
		for _, left := range created.Left {
			if strings.Contains(left.Command, "qm destroy") {
				t.Errorf("#%d: %s, while somebody is making VM 100", nth, left.Command)
			}
		}
	}
	if done == 0 {
		t.Error("no stranger came")
	}
}

// TestAStrangerAfterALostAnswer: the answer to a change is lost, the VM is destroyed, and a stranger takes its id before the change is
// sent again. His VM is not changed.
func TestAStrangerAfterALostAnswer(t *testing.T) {
	const path = "/nodes/{node}/qemu/{vmid}/config"
	for name, request := range map[string]func() Request{"the commit": onZFS, "a clone's options": ofTemplate} {
		for _, phase := range []fault.Phase{fault.Before, fault.After} {
			b, r := newBench(t, ticket), request()
			b.change(func(w *state.World) { delete(w.Guests[9000].Config, "protection") })
			b.sim.MarkStrangers()
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: path}, Phase: phase,
				Status: map[fault.Phase]int{fault.Before: 596}[phase]}})
			again := fault.Match{Method: http.MethodPut, Path: path, Nth: 2}
			b.sim.SetStrangers([]stranger.Order{{Act: stranger.Delete, VMID: 100, Before: again}, {Act: stranger.TakeID, VMID: 100, Before: again}})
			_, err := b.Create(t.Context(), r)
			if deeds := b.sim.Deeds(); len(deeds) != 2 || !deeds[1].Done {
				t.Fatalf("%s, %s: the stranger did %d things", name, phase, len(deeds))
			} else if err == nil || !bytes.Equal(deeds[1].Is, b.sim.Strangers()) {
				t.Errorf("%s, %s: %v; what is the stranger's was\n%s\nand is\n%s", name, phase, err, deeds[1].Is, b.sim.Strangers())
			}
		}
	}
}
