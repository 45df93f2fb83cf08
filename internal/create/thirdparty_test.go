package create

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// TestThirdPartyTakesTheIDOfANewVM: a third party removes the VM that was just made and puts its own in the place,
// before it is to be grown, migrated, started, made a template or put under HA. None of that is done to the new VM.
func TestThirdPartyTakesTheIDOfANewVM(t *testing.T) {
	image := "local:import/disk.qcow2"
	for name, change := range map[string]func(r *Request){
		"start":    func(r *Request) { r.Start = true },
		"template": func(r *Request) { r.Spec.Template = to(true) },
		"HA":       func(r *Request) { r.HA = &guest.HA{State: to("started")} },
		"firewall": func(r *Request) { r.Firewall = &firewall.Settings{Enabled: to(true)} },
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
		b.sim.MarkThirdParties()
		made := fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/tasks/{upid}/status"}
		b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Delete, VMID: 100, Before: made},
			{Act: thirdparty.TakeID, VMID: 100, Before: made}})
		created, err := b.Create(t.Context(), r)
		if reports := b.sim.Reports(); len(reports) != 2 || !reports[1].Done {
			t.Fatalf("%s: the third party did %d things: %s", name, len(reports), reports[0].Why)
		} else if err == nil || created.Guest.VMID != 0 || !bytes.Equal(reports[1].Is, b.sim.ThirdParties()) {
			t.Errorf("%s: %v; the third party's was\n%s\nand is\n%s", name, err, reports[1].Is, b.sim.ThirdParties())
		}
	}
}

// TestOthersChangeACloneMeanwhile: a clone is configured as it was read, and a third party's change meanwhile is
// read, too, and kept.
func TestOthersChangeACloneMeanwhile(t *testing.T) {
	b, r := newBench(t, token), ofTemplate()
	r.Spec.CPU.Cores = to(int64(4))
	change := fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}
	b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Rename, VMID: 100, Name: "renamed", Before: change}})
	created, err := b.Create(t.Context(), r)
	if config := b.vms()[created.Guest.VMID]; err != nil || config["cores"] != "4" || config["name"] != "renamed" {
		t.Errorf("%v: %v", err, config)
	}
}

// TestThirdPartyPlantsAVolume: the worker of a create is killed, and a third party puts a volume under its id
// meanwhile. The create's objects are taken back; the third party's is named and left alone, and it is not said that
// nothing is left.
func TestThirdPartyPlantsAVolume(t *testing.T) {
	full := true
	for name, c := range map[string]struct {
		r       Request
		storage string
	}{
		"disk, of another size": {onZFS(), "local-zfs"},
		"linked clone":          {Request{Node: "pve1", Clone: &guest.Clone{VMID: 9000}}, "local-zfs"},
		"full clone on a thin storage": {Request{Node: "pve1",
			Clone: &guest.Clone{VMID: 9000, Full: &full, Storage: "local-lvm"}}, "local-lvm"},
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
		b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Plant, VMID: 100, Storage: c.storage,
			Before: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/tasks/{upid}/status"}}})
		created, err := b.Create(t.Context(), c.r)
		if reports := b.sim.Reports(); len(reports) != 1 || !reports[0].Done {
			t.Fatalf("%s: the third party did nothing", name)
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
		if err == nil || len(b.vms()) != 0 || len(created.Left) != 0 || len(his) != 1 || !created.Doubt ||
			!strings.Contains(said, his[0]) {
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

// TestHalfMadeUnderAConfiguredID: the id that is wanted is taken by a VM that a third party is making, or has left. No
// command is given that would destroy it.
func TestHalfMadeUnderAConfiguredID(t *testing.T) {
	for name, c := range map[string]struct {
		act  thirdparty.Act
		dead bool
	}{"a task makes it": {act: thirdparty.MakeID}, "its task has died": {dead: true}} {
		b, r := newBench(t, token), onZFS()
		r.VMID = 900
		if c.dead {
			b.change(func(w *state.World) {
				w.Guests[900] = &state.Guest{VMID: 900, Type: "qemu", Node: "pve1", LockCause: "state",
					Config: map[string]string{"lock": "create"}}
			})
		} else if d := b.sim.ThirdParty(thirdparty.Order{Act: c.act, VMID: 900}); !d.Done {
			t.Fatalf("%s: %s", name, d.Why)
		}
		_, err := b.Create(t.Context(), r)
		if err == nil || !strings.Contains(err.Error(), "half-made") || strings.Contains(err.Error(), "qm destroy") ||
			strings.Contains(err.Error(), "proxmox_orphan_delete") != c.dead {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheNodeIsAwayForAWhile: the node on which a VM is being made is away for a while. The VM's objects on it are
// removed when it is back, or named where this identity may not remove them.
func TestTheNodeIsAwayForAWhile(t *testing.T) {
	for _, act := range []thirdparty.Act{thirdparty.NodeCrash, thirdparty.NodeOffline} {
		for name, who := range map[string]func(*pve.Config, pvesim.Credentials){"token": token, "ticket": ticket} {
			b, r := newBench(t, who), onZFS()
			b.sim.SetTaskTime(3 * time.Second)
			b.sim.SetThirdParties([]thirdparty.Order{{Act: act, Node: "pve1", ForMS: 200_000,
				Before: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/tasks/{upid}/status"}}})
			created, err := b.Create(t.Context(), r)
			left := len(b.vms())
			if d := b.sim.Reports(); len(d) == 0 || !d[0].Done || err == nil {
				t.Fatalf("%s, %s: %v, %v", act, name, d, err)
			}
			if left > 0 && (len(created.Left) == 0 || created.Guest.VMID != 100) || name == "ticket" && left > 0 {
				t.Errorf("%s, %s: the cluster has %v, and it is said: %+v, %v", act, name, b.vms(), created.Left, err)
			}
		}
	}
}

// TestThirdPartyDescribesAClone: the description of a clone was its only mark. It is not said that the clone is
// another user's.
func TestThirdPartyDescribesAClone(t *testing.T) {
	b := newBench(t, ticket)
	b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Describe, VMID: 100,
		Before: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/tasks/{upid}/status"}}})
	created, err := b.Create(t.Context(), ofTemplate())
	said := ""
	for _, w := range created.Warnings {
		said += w.Detail
	}
	if err == nil || !created.Doubt || !strings.Contains(said, "changed or replaced") ||
		strings.Contains(said, "belongs to another user") || strings.Contains(said, "another user has the VMID") {
		t.Errorf("%v; doubt %v, warnings %s", err, created.Doubt, said)
	}
}

// TestThirdPartyBeginsWhereWeEnded: the worker of a create is killed, and when the rollback has removed its leftover
// a third party makes a VM under the id, which looks the same at first. It is left alone, and no command is given
// that would destroy it.
func TestThirdPartyBeginsWhereWeEnded(t *testing.T) {
	done := 0
	for _, path := range []string{"/cluster/resources", "/nodes/{node}/storage/{storage}/content"} {
		for nth := 1; nth < 12; nth++ {
			b, r := newBench(t, ticket), onZFS()
			r.VMID = 100
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu"},
				Phase: fault.KillTask}})
			b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.MakeID, VMID: 100,
				Before: fault.Match{Method: http.MethodGet, Path: path, Nth: nth}}})
			created, err := b.Create(t.Context(), r)
			reports := b.sim.Reports()
			if len(reports) == 0 || !reports[0].Done || reports[0].Seq < 5 { // it is not free yet, or we have not begun
				continue
			}
			done++
			if err == nil || b.vms()[100]["lock"] != "create" || len(created.Left) > 0 &&
				strings.Contains(created.Left[0].Command, "qm destroy") {
				t.Errorf("%s #%d: the cluster has %v, left %+v: %v", path, nth, b.vms(), created.Left, err)
			}
		}
	}
	if done == 0 {
		t.Error("no third party came")
	}
}

// TestThirdPartyTakesTheIDOfAMarkedVM: once our rollback has marked what a killed task has left, a half-made VM that
// looks as that did is another's, and no command is printed that would destroy it.
func TestThirdPartyTakesTheIDOfAMarkedVM(t *testing.T) {
	const path = "/nodes/{node}/qemu/{vmid}/config"
	done := 0
	for nth := 1; nth < 8; nth++ {
		b, r := newBench(t, ticket), onZFS()
		r.VMID = 100
		b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu"},
			Phase: fault.KillTask}})
		before := fault.Match{Method: http.MethodGet, Path: path, Nth: nth}
		b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Delete, VMID: 100, Before: before},
			{Act: thirdparty.MakeID, VMID: 100, Before: before}})
		created, err := b.Create(t.Context(), r)
		reports, marked := b.sim.Reports(), 0
		for _, op := range b.sim.Ops() {
			if op.Method == http.MethodPut && op.Path == path && marked == 0 {
				marked = op.Seq
			}
		}
		if len(reports) < 2 || !reports[1].Done || marked == 0 || reports[1].Seq <= marked {
			continue
		}
		done++
		if err == nil || b.vms()[100]["lock"] != "create" {
			t.Errorf("#%d: the cluster has %v: %v", nth, b.vms(), err)
		}
		for _, left := range created.Left {
			if strings.Contains(left.Command, "qm destroy") {
				t.Errorf("#%d: %s, while a third party is making VM 100", nth, left.Command)
			}
		}
	}
	if done == 0 {
		t.Error("no third party came")
	}
}

// TestThirdPartyAfterALostAnswer: the answer to a change is lost, the VM is destroyed, and a third party takes its id
// before the change is sent again. The new VM is not changed.
func TestThirdPartyAfterALostAnswer(t *testing.T) {
	const path = "/nodes/{node}/qemu/{vmid}/config"
	for name, request := range map[string]func() Request{"the commit": onZFS, "a clone's options": ofTemplate} {
		for _, phase := range []fault.Phase{fault.Before, fault.After} {
			b, r := newBench(t, ticket), request()
			b.change(func(w *state.World) { delete(w.Guests[9000].Config, "protection") })
			b.sim.MarkThirdParties()
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: path}, Phase: phase,
				Status: map[fault.Phase]int{fault.Before: 596}[phase]}})
			again := fault.Match{Method: http.MethodPut, Path: path, Nth: 2}
			b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Delete, VMID: 100, Before: again},
				{Act: thirdparty.TakeID, VMID: 100, Before: again}})
			_, err := b.Create(t.Context(), r)
			if reports := b.sim.Reports(); len(reports) != 2 || !reports[1].Done {
				t.Fatalf("%s, %s: the third party did %d things", name, phase, len(reports))
			} else if err == nil || !bytes.Equal(reports[1].Is, b.sim.ThirdParties()) {
				t.Errorf("%s, %s: %v; the third party's was\n%s\nand is\n%s", name, phase, err, reports[1].Is,
					b.sim.ThirdParties())
			}
		}
	}
}

// TestThirdPartyImportsADiskOfAFormerName: the lock of a backup holds the roll-back up. An administrator destroys the VM,
// with its disks, and makes another of its id, to which a disk is being imported: no configuration names it yet (`qm
// disk import` has no task). It has a name that ours had, and stays.
func TestThirdPartyImportsADiskOfAFormerName(t *testing.T) {
	t.Parallel()
	for _, node := range []string{"pve1", "pve2"} {
		synctest.Test(t, func(t *testing.T) {
			b, done := failsToStart(t, "qmstart", func(w *state.World, g *state.Guest) { g.Config["lock"], g.LockCause = "backup", "state" })
			time.AfterFunc(40*time.Second, func() {
				b.change(func(w *state.World) {
					maps.DeleteFunc(w.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.VMID == 150 })
					w.Guests[150] = &state.Guest{VMID: 150, Type: "qemu", Node: node, Config: map[string]string{"memory": "512",
						"name": "theirs", "smbios1": "uuid=11111111-2222-3333-4444-000000000150"}}
				})
				b.theirs("pve1", "vm-150-disk-1", 5<<30)
			})
			created, err := b.Create(t.Context(), twoDisks())
			said := fmt.Sprint(created.Warnings)
			if err == nil || !*done || !b.hasTheirs() || !strings.Contains(said, "Ours had the volumes local-zfs:vm-150-disk-0, ") {
				t.Errorf("on %s: %v are there, left %+v, %s: %v", node, b.volumesOf(150), created.Left, said, err)
			}
		})
	}
}
