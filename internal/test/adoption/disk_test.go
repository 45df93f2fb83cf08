package adoption_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestAdoptWhatALostConfigurationLeft: the configuration of VM 200 is gone and its datasets are there. It cannot be imported, a create
// reports them and touches nothing, and the two ways out work: they are destroyed, or the disk becomes that of the new VM.
func TestAdoptWhatALostConfigurationLeft(t *testing.T) {
	t.Parallel()
	ctx, fresh := t.Context(), rig.Adopting(`{ storage = "local-zfs", size = "4G" }`, "")
	w := rig.DisksWithoutVM(t, "vm-200-disk-0", "vm-200-cloudinit")
	s := w.Session(t, rig.TokenNoSSH, fresh)
	rig.MustRefuse(t, s.Import(ctx, "proxmox_vm.x", "200"), []string{"vm-200-disk-0", "vm-200-cloudinit", "imported_disk", "on_orphaned_volumes"})
	rig.MustRefuse(t, s.Run(ctx), []string{"vm-200-disk-0", "vm-200-cloudinit", "imported_disk", "on_orphaned_volumes"})
	w.MustBeClean(t)

	w.Reconfigure(t, s, rig.TokenNoSSH, rig.Adopting(rig.AdoptedDisk, ""))
	rig.MustRefuse(t, s.Run(ctx), []string{"vm-200-cloudinit"}) // nothing says what is to become of that one
	w.MustBeClean(t)
	w.Reconfigure(t, s, rig.TokenNoSSH, rig.Adopting(rig.AdoptedDisk, `on_orphaned_volumes = "destroy"`))
	if err := s.Converge(ctx); err != nil {
		t.Fatal(err)
	}
	guest := rig.GuestOf(w, 200)
	if !strings.HasPrefix(guest.Config["scsi0"], "local-zfs:vm-200-disk-0") || guest.Config["boot"] != "order=scsi0;net0" || guest.Running == nil {
		t.Errorf("the VM is %v, running %t", guest.Config, guest.Running != nil)
	}
	if data := rig.DataOf(w, "vm-200-disk-0"); data != "data of vm-200-disk-0" {
		t.Errorf("the disk holds %q", data)
	}
	if data := rig.DataOf(w, "vm-200-cloudinit"); data != "" {
		t.Errorf("the other leftover holds %q", data)
	}
	for read, want := range map[string]string{"size": `"4G"`, "format": `"raw"`, "volume": `"local-zfs:vm-200-disk-0"`} {
		if is := terraformtest.ShowValue(s.Attr("proxmox_vm.x", "disks.scsi0."+read)); is != want {
			t.Errorf("the %s is %s, want %s", read, is, want)
		}
	}

	w = rig.DisksWithoutVM(t, "vm-200-disk-0", "vm-200-cloudinit")
	s = w.Session(t, rig.TokenNoSSH, rig.Adopting(`{ storage = "local-zfs", size = "4G" }`, `on_orphaned_volumes = "destroy"`))
	if err := s.Converge(ctx); err != nil {
		t.Fatal(err)
	}
	if data := rig.DataOf(w, "vm-200-disk-0"); strings.HasPrefix(data, "data of") {
		t.Errorf("the new disk holds %q", data)
	}
	if err := s.Destroy(ctx); err != nil {
		t.Error(err)
	}
}

// TestAdoptMigratedDisk: a disk that a migration has brought, of which there is no image, becomes the disk of a VM: grown, verified by
// its checksum, and not where that is another.
func TestAdoptMigratedDisk(t *testing.T) {
	t.Parallel()
	w := rig.DisksWithoutVM(t, "vm-200-disk-7")
	disk := func(sum string) string {
		return `{ size = "8G", iothread = true, imported_disk = { volume = "local-zfs:vm-200-disk-7", sha256 = "` + sum + `", source = "migration" } }`
	}
	s := w.Session(t, rig.TokenSSH, rig.Adopting(disk(strings.Repeat("0", 64)), ""))
	rig.MustRefuse(t, s.Run(t.Context()), []string{"does not hold what it should", "sha256"})
	w.MustBeClean(t)
	right := fmt.Sprintf("%x", sha256.Sum256([]byte("data of vm-200-disk-7")))
	w.Reconfigure(t, s, rig.TokenNoSSH, rig.Adopting(disk(right), ""))
	rig.MustRefuse(t, s.Run(t.Context()), []string{"ssh", "sha256"})
	w.MustBeClean(t)
	w.Reconfigure(t, s, rig.TokenSSH, rig.Adopting(disk(right), "scsihw = \"virtio-scsi-single\""))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if has := rig.GuestOf(w, 200).Config["scsi0"]; !strings.Contains(has, "vm-200-disk-7") || !strings.Contains(has, "size=8G") || !strings.Contains(has, "iothread=1") {
		t.Errorf("scsi0: %s", has)
	}
	if data := rig.DataOf(w, "vm-200-disk-7"); data != "data of vm-200-disk-7" {
		t.Errorf("the disk holds %q", data)
	}
	// A second one comes later, for the VM that is there by then; and one that another VM uses does not come at all.
	w.Change(func(world *state.World) {
		for _, name := range []string{"vm-200-disk-8", "vm-200-disk-9"} {
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: name, Content: "images", VMID: 200, Format: "raw", Size: 1 << 30, Data: name})
		}
		world.Guests[8000].Config["scsi5"] = "local-zfs:vm-200-disk-9,size=1G"
	})
	both := strings.Replace(rig.Adopting(disk(right), "scsihw = \"virtio-scsi-single\""), "scsi0 =", "scsi1 = { imported_disk = { volume = \"local-zfs:vm-200-disk-8\" } }\n scsi0 =", 1)
	w.Reconfigure(t, s, rig.TokenSSH, both)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Reconfigure(t, s, rig.TokenSSH, strings.Replace(both, "scsi1 =", "scsi2 = { imported_disk = { volume = \"local-zfs:vm-200-disk-9\" } }\n scsi1 =", 1))
	rig.MustRefuse(t, s.Run(t.Context()), []string{"vm-200-disk-9", "8000"})
	if has := rig.GuestOf(w, 200).Config["scsi2"]; has != "" {
		t.Errorf("scsi2: %s", has)
	}
}

// TestAdoptIsRefusedInThePlan: the disks that a new VM cannot adopt.
func TestAdoptIsRefusedInThePlan(t *testing.T) {
	t.Parallel()
	w := rig.DisksWithoutVM(t, "vm-200-disk-0")
	whole := rig.Adopting(rig.AdoptedDisk, "")
	for what, c := range map[string]struct {
		config string
		words  []string
	}{
		"no vmid":         {strings.Replace(whole, "vmid = 200", "", 1), []string{"carries the id 200", "vmid = 200"}},
		"another vmid":    {strings.Replace(whole, "vmid = 200", "vmid = 201", 1), []string{"carries the id 200", "import_from"}},
		"a clone":         {rig.Adopting(rig.AdoptedDisk, "clone = { vmid = 9000 }"), []string{"from its source"}},
		"a template":      {rig.Adopting(rig.AdoptedDisk, "template = true"), []string{"template"}},
		"an image":        {rig.Adopting(`{ imported_disk = { volume = "local:import/x.qcow2" } }`, ""), []string{"import_from"}},
		"two sources":     {rig.Adopting(`{ import_from = "local:import/x.qcow2", imported_disk = { volume = "local-zfs:vm-200-disk-0" } }`, ""), []string{"imported_disk or import_from"}},
		"no source":       {rig.Adopting(`{ storage = "local-zfs" }`, ""), []string{"needs a size"}},
		"another storage": {rig.Adopting(`{ storage = "local-lvm", imported_disk = { volume = "local-zfs:vm-200-disk-0" } }`, ""), []string{"not there"}},
	} {
		s := w.Session(t, rig.TokenNoSSH, c.config)
		_, err := s.Plan(t.Context())
		if err == nil {
			t.Errorf("%s is planned", what)
			continue
		}
		rig.MustRefuse(t, err, c.words)
	}
	s := w.Session(t, rig.TokenNoSSH, rig.Adopting(`{ imported_disk = { volume = "local-zfs:vm-200-disk-3" } }`, ""))
	rig.MustRefuse(t, s.Run(t.Context()), []string{"local-zfs:vm-200-disk-3 is not there", "vm-200-disk-0"})
	w.MustBeClean(t)
}

// TestAdoptNeverLosesTheVolume: whichever request of a create fails, before or after it has had its effect or in its task, the volume
// that was there before it is there with its data; and a VM that stays although its create failed is kept, and not replaced.
func TestAdoptNeverLosesTheVolume(t *testing.T) {
	t.Parallel()
	config := rig.Adopting(rig.AdoptedDisk, "")
	run := func(rules ...fault.Rule) (*rig.World, *terraformtest.Session, error) {
		w := rig.DisksWithoutVM(t, "vm-200-disk-0")
		s := w.Session(t, rig.TokenNoSSH, config)
		s.TrustPlans = true
		pl, err := s.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.Sim.ResetOps()
		w.Sim.SetFaults(rules)
		err = s.Apply(t.Context(), pl)
		return w, s, err
	}
	clean, _, err := run()
	if err != nil {
		t.Fatal(err)
	}
	tried, failed := 0, 0
	for n, op := range clean.Sim.Ops() {
		if op.Method == http.MethodGet {
			continue
		}
		for _, phase := range []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask} {
			same := 0
			for _, before := range clean.Sim.Ops()[:n+1] {
				if before.Method == op.Method && before.Path == op.Path {
					same++
				}
			}
			tried++
			w, s, err := run(fault.Rule{Match: fault.Match{Method: op.Method, Path: op.Path, Nth: same}, Phase: phase})
			what := fmt.Sprintf("%s %s (%d) fails %s", op.Method, op.Path, same, phase)
			if data := rig.DataOf(w, "vm-200-disk-0"); data != "data of vm-200-disk-0" {
				t.Errorf("%s: the volume holds %q\n%v", what, data, err)
			}
			if err == nil {
				continue
			}
			failed++
			w.Sim.SetFaults(nil)
			if len(s.Addresses()) == 0 {
				if w.MustBeClean(t); t.Failed() {
					t.Errorf("%s: %v", what, err)
				}
			}
			_ = s.Run(t.Context()) // whatever the next apply does of itself
			if data := rig.DataOf(w, "vm-200-disk-0"); data != "data of vm-200-disk-0" {
				t.Errorf("after %s the next apply has destroyed the volume", what)
			}
		}
	}
	if t.Logf("%d requests failed, %d applies with them", tried, failed); failed < 4 {
		t.Error("too few")
	}
}
