package create

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// orphan puts a volume into the cluster that carries an id and that no VM owns.
func (b bench) orphan(storage string, vmid int) {
	b.change(func(w *state.World) {
		name := fmt.Sprintf("vm-%d-disk-7", vmid)
		w.Put(&state.Volume{Storage: storage, Node: "pve1", Name: name, VMID: vmid, Content: "images", Format: "raw",
			Size: 1 << 30, Data: "old"})
	})
}

// orphans are the volumes that no VM owns.
func (b bench) orphans(vmid int) (ids []string) {
	b.change(func(w *state.World) {
		for _, v := range w.Volumes {
			if v.VMID == vmid && v.Data == "old" {
				ids = append(ids, v.Volid())
			}
		}
	})
	slices.Sort(ids)
	return ids
}

// TestConfiguredIDWithOrphans: volumes that carry a configured id are named and left alone, or destroyed, on all
// storages, where the user says so. Those on storages that the create does not write to are in no create's way.
func TestConfiguredIDWithOrphans(t *testing.T) {
	for _, c := range []struct {
		name    string
		storage string
		orphans OnOrphans
		refused bool
		left    int
	}{
		{"refused", "local-zfs", FailOnOrphans, true, 1},
		{"destroyed", "local-zfs", DestroyOrphans, false, 0},
		{"destroyed elsewhere", "local-lvm", DestroyOrphans, false, 0},
		{"in no create's way", "local-lvm", FailOnOrphans, false, 1},
	} {
		b := newBench(t, ticket)
		b.orphan(c.storage, 150)
		r := onZFS()
		r.VMID, r.OnOrphans = 150, c.orphans
		created, err := b.Create(t.Context(), r)
		var field *guest.FieldError
		if refused := errors.As(err, &field) && field.Path == "vmid" &&
			strings.Contains(err.Error(), "vm-150-disk-7"); refused != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
		if (created.Guest.VMID == 150) == c.refused || (len(b.vms()) == 1) == c.refused {
			t.Errorf("%s: %+v, %v; the cluster has %v", c.name, created, err, b.vms())
		}
		if left := b.orphans(150); len(left) != c.left {
			t.Errorf("%s: left %v", c.name, left)
		}
	}
}

// TestOrphansThatSomebodyUses: a volume with the id that another VM has as its disk is no orphan to destroy.
func TestOrphansThatSomebodyUses(t *testing.T) {
	b := newBench(t, ticket)
	b.orphan("local-zfs", 150)
	b.change(func(w *state.World) { w.Guests[8000].Config["scsi5"] = "local-zfs:vm-150-disk-7,size=1G" })
	r := onZFS()
	r.VMID, r.OnOrphans = 150, DestroyOrphans
	var field *guest.FieldError
	if _, err := b.Create(t.Context(), r); !errors.As(err, &field) || field.Path != "on_orphaned_volumes" {
		t.Errorf("got %v", err)
	}
	if len(b.orphans(150)) != 1 || len(b.vms()) != 0 {
		t.Errorf("the volume is gone, or a VM was made: %v", b.vms())
	}
}

// TestOrphansGoAndSettingsStay: what an administrator has set for the configured id ahead of its VM outlives the volumes
// that are destroyed for it.
func TestOrphansGoAndSettingsStay(t *testing.T) {
	b := newBench(t, ticket)
	b.orphan("local-zfs", 150)
	entry := state.ACLEntry{Path: "/vms/150", Subject: "alice@pve", Role: "PVEVMUser", Propagate: true}
	b.change(func(w *state.World) {
		w.ACL = append(w.ACL, entry)
		w.Firewall[150] = &state.FirewallFile{Options: map[string]string{"enable": "1"}}
	})
	r := onZFS()
	r.VMID, r.OnOrphans = 150, DestroyOrphans
	created, err := b.Create(t.Context(), r)
	b.change(func(w *state.World) {
		if err != nil || created.Guest.VMID != 150 || !slices.Contains(w.ACL, entry) || w.Firewall[150] == nil {
			t.Errorf("VM %d, permissions %v, firewall %v: %v", created.Guest.VMID, w.ACL, w.Firewall[150], err)
		}
	})
	if left := b.orphans(150); len(left) > 1 { // the new VM's own disk
		t.Errorf("left %v", left)
	}
}

// TestLostFirstAnswers: the request that makes the VM took effect and no answer came, or none and it did not. Never are
// there two.
func TestLostFirstAnswers(t *testing.T) {
	for name, r := range map[string]Request{"create": onZFS(), "clone": ofTemplate(),
		"clone to another node": {Node: "pve2", Clone: ofTemplate().Clone}} {
		path := "/nodes/{node}/qemu"
		if r.Clone != nil {
			path = "/nodes/{node}/qemu/{vmid}/clone"
		}
		for _, phase := range []fault.Phase{fault.After, fault.Task, fault.Rival} {
			b := newBench(t, ticket)
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: path}, Phase: phase}})
			created, err := b.Create(t.Context(), r)
			ours := 0
			for id, config := range b.vms() {
				if config["name"] != "rival" {
					ours++
				}
				if strings.Contains(config["description"], "Terraform is creating") {
					t.Errorf("%s, %s: VM %d is half made: %v", name, phase, id, config)
				}
			}
			if want := map[bool]int{true: 1, false: 0}[err == nil]; ours != want || (created.Guest.VMID != 0) != (err == nil) {
				t.Errorf("%s, %s: %d VMs, %+v, %v", name, phase, ours, created.Guest.VMID, err)
			}
			if (err == nil) != (phase == fault.After) {
				t.Errorf("%s, %s: %v", name, phase, err)
			}
		}
	}
}

// TestOrphansAreNamedOnTheirNode: a clone to another node looks on two, and the refusal names the one that has them.
func TestOrphansAreNamedOnTheirNode(t *testing.T) {
	b := newBench(t, ticket)
	b.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve2", Name: "vm-150-disk-7", VMID: 150, Content: "images", Format: "raw",
			Size: 1 << 30})
	})
	_, err := b.Create(t.Context(), Request{VMID: 150, Node: "pve2", Clone: ofTemplate().Clone})
	if err == nil || !strings.Contains(err.Error(), "no VM owns: local-zfs:vm-150-disk-7 on node pve2.") {
		t.Errorf("said: %v", err)
	}
}
