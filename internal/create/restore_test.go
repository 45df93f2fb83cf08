package create

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

const theArchive = "local:backup/vzdump-qemu-700-2026_01_01-00_00_00.vma.zst"

// backedUp puts a backup of VM 700 on the storage local of pve1.
func (b bench) backedUp(config map[string]string) {
	full := map[string]string{"name": "old", "memory": "1024", "description": "the old one", "onboot": "1",
		"vmgenid": "11111111-0000-0000-0000-000000000000",
		"scsi0":   "local-zfs:vm-700-disk-0,size=2G", "scsi1": "local-lvm:vm-700-disk-1,size=1G",
		"net0":    "virtio=BC:24:11:00:07:00,bridge=vmbr0",
		"smbios1": "uuid=11111111-2222-3333-4444-000000000700,manufacturer=ACME", "meta": "creation-qemu=9.0.0,ctime=7"}
	maps.Copy(full, config)
	b.change(func(w *state.World) {
		_, name, _ := strings.Cut(theArchive, ":")
		w.AllowRestores()
		w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: name, Content: "backup", VMID: 700, Format: "vma.zst",
			Size: 1 << 20,
			Backup: &state.Backup{VMID: 700, Config: full, Drives: map[string]state.BackupDrive{
				"scsi0": {Storage: "local-zfs", Format: "raw", Size: 2 << 30, Data: "root"},
				"scsi1": {Storage: "local-lvm", Format: "raw", Size: 1 << 30, Data: "data"}}}})
	})
}

// volumesOf are the volumes that carry an id, with their content.
func (b bench) volumesOf(vmid int) map[string]string {
	all := map[string]string{}
	b.change(func(w *state.World) {
		for _, v := range w.Volumes {
			if v.VMID == vmid && v.Content == "images" {
				all[v.Volid()] = v.Data
			}
		}
	})
	return all
}

func aRestore() Request {
	grown, on := int64(4<<30), true
	return Request{Node: "pve1", Start: true, Restore: &guest.Restore{Archive: theArchive},
		Spec: vm.Spec{Options: vm.Options{OnBoot: new(bool)}, Disks: map[string]vm.Disk{
			"scsi0": {Size: &grown, DiskOptions: vm.DiskOptions{Discard: &on}}, "scsi1": {Storage: "local-zfs"}}}}
}

// TestRestore: a create makes a VM of a backup, with the configured settings enforced and the rest as it was backed
// up, and an identity of its own.
func TestRestore(t *testing.T) {
	b := newBench(t, token)
	b.backedUp(nil)
	created, err := b.Create(t.Context(), aRestore())
	if err != nil || len(created.Warnings) > 0 {
		t.Fatal(err, created.Warnings)
	}
	config := b.vms()[created.Guest.VMID]
	for option, want := range map[string]string{"name": "old", "memory": "1024", "description": "the old one",
		"onboot": "0",
		"scsi0":  "local-zfs:vm-100-disk-0,discard=on,size=4G"} {
		if config[option] != want {
			t.Errorf("%s is %q, want %q", option, config[option], want)
		}
	}
	if !strings.HasPrefix(config["scsi1"], "local-zfs:vm-100-disk-") ||
		strings.Contains(config["net0"], "BC:24:11:00:07:00") ||
		!strings.Contains(config["smbios1"], "manufacturer=ACME") || strings.Contains(config["smbios1"], "000000000700") ||
		config["vmgenid"] == "11111111-0000-0000-0000-000000000000" || created.Guest.Status != "running" {
		t.Errorf("%v, %s", config, created.Guest.Status)
	}
	if !created.Guest.Identity.Proves(config) {
		t.Errorf("the identity is %v", created.Guest.Identity)
	}
	if data := slices.Sorted(maps.Values(b.volumesOf(100))); !slices.Equal(data, []string{"data", "root"}) {
		t.Errorf("the volumes hold %v", data)
	}
}

// TestRestoreOntoAShareWithTwoNames: PVE would make each restored disk an unused disk, too, by its other name, where the
// two have mount points of their own. Nothing is restored then.
func TestRestoreOntoAShareWithTwoNames(t *testing.T) {
	for mount, refused := range map[string]bool{"/mnt/pve/one": false, "/mnt/pve/two": true} {
		b := newBench(t, token)
		b.backedUp(nil)
		b.change(func(w *state.World) {
			one := &state.Storage{ID: "one", Type: "nfs", Shared: true, Path: "/mnt/pve/one", Export: "/srv", Total: 100 << 30,
				Content: []string{"images"}}
			two := *one
			two.ID, two.Path, two.Same = "two", mount, "one"
			w.Storages["one"], w.Storages["two"] = one, &two
		})
		r := aRestore()
		r.Restore.Storage = "one"
		_, err := b.Create(t.Context(), r)
		if refused != (err != nil && strings.Contains(err.Error(), "Storages one and two are one place")) || !refused && err != nil ||
			refused && len(b.volumesOf(100))+len(b.vms()) > 0 {
			t.Errorf("%s: %v, and there is %v", mount, err, b.volumesOf(100))
		}
	}
}

// TestRestoreOldMark: the mark of a create that comes back with a backup says nothing: it does not go into the new
// VM's description, and a restore of a third party that brings it back is not taken away by a create that wants the id.
func TestRestoreOldMark(t *testing.T) {
	b := newBench(t, token)
	old := b.markOf(100, aRestore(), deadProcess(t, b.Creator))
	b.backedUp(map[string]string{"description": old.String()})
	created, err := b.Create(t.Context(), aRestore())
	if config := b.vms()[100]; err != nil || created.Guest.VMID != 100 || config["description"] != "" {
		t.Fatalf("%v: VM %d has the description %q", err, created.Guest.VMID, config["description"])
	}
	b.change(func(w *state.World) { w.Guests[100].Config["description"] = old.String() })
	r := aRestore()
	r.VMID = 100
	if _, err := b.Create(t.Context(), r); err == nil || len(b.volumesOf(100)) != 2 {
		t.Errorf("%v, and the volumes are %v", err, b.volumesOf(100))
	}
}

// TestRestoreProtectedTemplate: a template's backup becomes a VM unless the configuration wants a template, and one of
// a protected VM is protected from the commit on, so that a failure before it can be taken back.
func TestRestoreProtectedTemplate(t *testing.T) {
	b := newBench(t, token)
	b.backedUp(map[string]string{"template": "1", "protection": "1"})
	r := aRestore()
	b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Task,
		Times: 9}})
	if created, err := b.Create(t.Context(), r); err == nil || created.Guest.VMID != 0 || len(b.vms()) > 0 ||
		len(b.volumesOf(100)) > 0 {
		t.Fatalf("%v: %v, %v", err, b.vms(), b.volumesOf(100))
	}
	b.sim.SetFaults(nil)
	created, err := b.Create(t.Context(), r)
	if config := b.vms()[created.Guest.VMID]; err != nil || config["template"] == "1" || config["protection"] != "1" {
		t.Errorf("%v, %v", err, config)
	}
	yes := true
	r.Spec.Template = &yes
	created, err = b.Create(t.Context(), r)
	if config := b.vms()[created.Guest.VMID]; err != nil || config["template"] != "1" {
		t.Errorf("%v, %v", err, config)
	}
}

// TestRestoreTakesNobodysVolume: what carries the id on any storage of the node, also on one that the restore does not
// write to, PVE would make a disk of the restored VM.
func TestRestoreTakesNobodysVolume(t *testing.T) {
	b := newBench(t, token)
	b.backedUp(nil)
	b.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local2", Node: "pve1", Name: "100/vm-100-disk-0.raw", VMID: 100, Content: "images",
			Format: "raw", Size: 1 << 30, Data: "theirs"})
	})
	created, err := b.Create(t.Context(), aRestore())
	if err != nil || created.Guest.VMID == 100 || b.volumesOf(100)["local2:100/vm-100-disk-0.raw"] != "theirs" {
		t.Errorf("VM %d, %v", created.Guest.VMID, err)
	}
	r := aRestore()
	r.VMID = 100
	if _, err := b.Create(t.Context(), r); err == nil || !strings.Contains(err.Error(), "local2:100/vm-100-disk-0.raw") {
		t.Errorf("with the id configured: %v", err)
	}
}

// TestRestoreKilled: what a run that was killed during its restore left is taken back by the next one, which awaits the
// end of the task first; but not once a third party has restored a backup of it, which brings the mark back.
func TestRestoreKilled(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(map[bool]string{false: "at work", true: "restored by a third party since"}[again], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { killedDuringTheRestore(t, again) })
		})
	}
}

func killedDuringTheRestore(t *testing.T, again bool) {
	b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
	b.backedUp(nil)
	b.sim.SetTaskTime(40 * time.Second)
	other := creatorOf(t, b.sim, token)
	r := named(aRestore(), "web")
	r.VMID = 100
	mark := b.markOf(100, r, deadProcess(t, b.Creator))
	params := pve.Params{"vmid": "100", "name": "web", "unique": "1", "archive": theArchive, "description": mark.String()}
	upid, err := other.api.Node("pve1").CreateVM(t.Context(), params)
	if err == nil && again {
		if _, err = other.api.Tasks().Wait(t.Context(), upid); err == nil {
			params["force"] = "1"
			other = creatorOf(t, b.sim, ticket)
			upid, err = other.api.Node("pve1").CreateVM(t.Context(), params)
		}
		if err == nil {
			_, err = other.api.Tasks().Wait(t.Context(), upid)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	created, err := b.Create(t.Context(), r)
	if again {
		if err == nil || !strings.Contains(err.Error(), "qmrestore") || len(b.volumesOf(100)) != 2 {
			t.Errorf("%v, the volumes are %v", err, b.volumesOf(100))
		}
		return
	}
	if err != nil || len(created.Warnings) != 1 || b.vms()[100]["description"] != "the old one" ||
		len(b.volumesOf(100)) != 2 {
		t.Errorf("%v, %v, the VM is %v, the volumes are %v", err, created.Warnings, b.vms()[100], b.volumesOf(100))
	}
}

// TestRestoreAdopts: a volume that comes under the id while the restore runs, and that PVE makes a disk of the
// restored VM, is not destroyed with it: the create fails, and names the objects that it cannot take back.
func TestRestoreAdopts(t *testing.T) {
	b := newBench(t, ticket)
	b.backedUp(nil)
	const theirs = "local2:100/vm-100-disk-0.raw"
	b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Plant, VMID: 100, Storage: "local2",
		Before: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu"}}})
	created, err := b.Create(t.Context(), aRestore())
	volumes := b.volumesOf(100)
	if reports := b.sim.Reports(); len(reports) != 1 || !reports[0].Done {
		t.Fatalf("%v", reports)
	}
	if err == nil || created.Guest.VMID != 100 || len(created.Left) == 0 || !strings.Contains(err.Error(), theirs) ||
		len(volumes) != 3 {
		t.Errorf("%v: %v is left, the volumes are %v", err, created.Left, volumes)
	}
}

// TestRestoreFails: PVE leaves a restore half made that failed or was killed; nothing of it is left.
func TestRestoreFails(t *testing.T) {
	for name, who := range map[string]func(*pve.Config, pvesim.Credentials){"token": token, "ticket": ticket} {
		for _, phase := range []fault.Phase{fault.Task, fault.KillTask, fault.Partial} {
			b := newBench(t, who)
			b.backedUp(nil)
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu"},
				Phase: phase}})
			created, err := b.Create(t.Context(), aRestore())
			if err == nil || created.Guest.VMID != 0 || len(created.Warnings) > 0 || len(b.vms()) > 0 ||
				len(b.volumesOf(100)) > 0 {
				t.Errorf("%s, %s: %v, %v: %v, %v", name, phase, err, created.Warnings, b.vms(), b.volumesOf(100))
			}
		}
	}
}

// TestRestoreLeavesTheVMOfAThirdParty: while our restore is killed a third party removes what it leaves, and begins to
// make a VM of his own under the id. That is not ours, though it is as bare.
func TestRestoreLeavesTheVMOfAThirdParty(t *testing.T) {
	b := newBench(t, ticket)
	b.backedUp(nil)
	b.sim.MarkThirdParties()
	ended := fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/tasks/{upid}/status"}
	b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu"},
		Phase: fault.KillTask}})
	b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Delete, VMID: 100, Before: ended},
		{Act: thirdparty.MakeID, VMID: 100, Before: ended}})
	r := aRestore()
	r.VMID = 100
	created, err := b.Create(t.Context(), r)
	if reports := b.sim.Reports(); len(reports) != 2 || !reports[1].Done {
		t.Fatalf("the third party did %v", reports)
	}
	if err == nil || created.Guest.VMID != 0 || len(created.Left) > 0 || b.vms()[100]["lock"] != "create" {
		t.Errorf("%v: left %v, VM 100 is %v", err, created.Left, b.vms()[100])
	}
}

// TestRestoreOnAFullStorage: the second of two disks finds no room, and nothing of the first is left.
func TestRestoreOnAFullStorage(t *testing.T) {
	b := newBench(t, token)
	b.backedUp(nil)
	if d := b.sim.ThirdParty(thirdparty.Order{Act: thirdparty.Fill, Storage: "local-lvm"}); !d.Done {
		t.Fatal(d.Why)
	}
	created, err := b.Create(t.Context(), aRestore())
	if err == nil || created.Guest.VMID != 0 || len(b.vms()) > 0 || len(b.volumesOf(100)) > 0 {
		t.Errorf("%v: %v, %v", err, b.vms(), b.volumesOf(100))
	}
}

// TestRestoreObeysNoRulesOfOthers: rules were left, or set ahead, for a free id. The backup has an interface with a
// firewall, and no firewall file: PVE leaves that of the id then (qemu-server QemuServer.pm, restore_vma_archive).
func TestRestoreObeysNoRulesOfOthers(t *testing.T) {
	guarded := map[string]string{"net0": "virtio=BC:24:11:00:07:00,bridge=vmbr0,firewall=1"}
	for name, c := range map[string]struct {
		has  map[string]string
		r    func() Request
		want int
	}{"as in the backup": {guarded, func() Request { return Request{Node: "pve1", Restore: &guest.Restore{Archive: theArchive}} }, 101},
		"configured too": {guarded, aRestore, 101},
		"no firewall":    {map[string]string{"net0": "virtio=BC:24:11:00:07:00,bridge=vmbr0"}, aRestore, 100}} {
		b := newBench(t, token)
		b.backedUp(c.has)
		b.change(func(w *state.World) {
			w.Firewall[100] = &state.FirewallFile{Options: map[string]string{"enable": "1", "policy_in": "ACCEPT"}}
		})
		if created, err := b.Create(t.Context(), c.r()); err != nil || created.Guest.VMID != c.want {
			t.Errorf("%s: VM %d: %v, said %v", name, created.Guest.VMID, err, created.Warnings)
		}
	}
}
