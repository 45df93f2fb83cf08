package storage_test

import (
	"context"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestSourceInOVA: a disk of an OVA is unpacked on a storage of files for images: the OVA's own, or the one that the configuration names.
// Where neither is one, and where the server has no such parameter, the plan says so.
func TestSourceInOVA(t *testing.T) {
	t.Parallel()
	const from = `node = "pve1"
disks = { scsi0 = { storage = "local-zfs", import_from = "local:import/small.ova/disk1.vmdk", size = "1G" } }
`
	for name, c := range map[string]struct {
		profile, body, says string
	}{
		"its own storage is for import alone": {"8.4", from, "There is no room to unpack local:import/small.ova/disk1.vmdk"},
		"a storage of blocks":                 {"8.4", from + `import_working_storage = "local-zfs"`, "and local-zfs is none"},
		"a storage that is not there":         {"8.4", from + `import_working_storage = "nowhere"`, `Unknown storage "nowhere"`},
		"before 8.3":                          {"8.2", "node = \"pve1\"\nimport_working_storage = \"local2\"", "needs Proxmox VE 8.3 or later"},
		"a storage of files":                  {"8.4", from + `import_working_storage = "local2"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: c.profile})
			w.Change(addMatrixSources)
			w.Change(func(world *state.World) { world.Storages["local"].Content = []string{"iso", "snippets", "import"} })
			w.Mark()
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(c.body))
			if c.says != "" {
				_, err := s.Plan(t.Context())
				rig.MustSay(t, err, c.says)
				rig.OnlyReads(t, w.Sim.Ops())
				w.MustBeClean(t)
				return
			}
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.MustBeClean(t)
		})
	}
}

// TestSourceAdded: a disk that is added to a VM goes the same ways as one of a new VM, bound to the configuration that was looked at, and
// is refused in the plan where there is none. One whose import fails leaves the VM as it was.
func TestSourceAdded(t *testing.T) {
	t.Parallel()
	const before = `node = "pve1"
scsihw = "virtio-scsi-single"
boot_order = ["scsi0"]
disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
`
	after := strings.Replace(before, "disks = {", `disks = { scsi1 = { storage = "local2", import_from = "local:iso/cloud.img", size = "3G", ssd = true }, `, 1)
	for _, who := range []rig.Identity{rig.RootTicket, rig.TokenSSH, rig.TokenNoSSH} {
		t.Run(string(who), func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(addMatrixSources)
			s := w.Session(t, who, rig.VMBlock(before))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Reconfigure(t, s, who, rig.VMBlock(after))
			w.Sim.ResetOps()
			if who == rig.TokenNoSSH {
				_, err := s.Plan(t.Context())
				rig.MustSay(t, err, "local:iso/cloud.img is not for import", "ssh", "template", "pvesm set local --content")
				rig.OnlyReads(t, w.Sim.Ops())
				return
			}
			mustBeAsBefore(t, w, s, who)
			w.Sim.ResetOps()
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			commands := 0
			for _, op := range w.Sim.Ops() {
				if op.Method == "SSH" {
					commands++
					if !strings.Contains(op.Params["command"], "--digest ") {
						t.Errorf("bound to nothing: %v", op.Params)
					}
				}
			}
			if want := map[rig.Identity]int{rig.TokenSSH: 1}[who]; commands != want {
				t.Errorf("%d commands, want %d", commands, want)
			}
			w.Change(func(world *state.World) {
				v := world.Volume("pve1", strings.Split(world.Guests[100].Config["scsi1"], ",")[0])
				if v == nil || v.Data != "an image of another name" || v.Size != 3<<30 || !strings.Contains(world.Guests[100].Config["scsi1"], "ssd=1") {
					t.Errorf("scsi1 is %s, %+v", world.Guests[100].Config["scsi1"], v)
				}
			})
		})
	}
}

// mustBeAsBefore applies with a source that is there and cannot be read.
func mustBeAsBefore(t *testing.T, w *rig.World, s interface {
	Run(ctx context.Context) error
}, who rig.Identity) {
	t.Helper()
	set := func(data string) (was string) {
		w.Change(func(world *state.World) {
			v := world.Volume("pve1", "local:iso/cloud.img")
			was, v.Data = v.Data, data
		})
		return was
	}
	was := set("torn")
	w.Mark()
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "local:iso/cloud.img") && !strings.Contains(err.Error(), "copy failed") {
		t.Errorf("%s: an image that cannot be read: %v", who, err)
	}
	w.MustBeClean(t)
	set(was)
}

// TestSourceOnlyKnownInTheApply: an apply refuses a bad source that its plan did not know before it makes anything.
func TestSourceOnlyKnownInTheApply(t *testing.T) {
	t.Parallel()
	b := engine.NewCreateBench(t, engine.FaultIdentities()[2])
	b.Reset()
	_, err := b.Service.Create(t.Context(), engine.FromISO().Request)
	rig.MustSay(t, err, "local:iso/debian.iso is not for import", "ssh")
	rig.OnlyReads(t, b.Operations())
	if diff := engine.ContentDiff(b.Content(b.Base), b.Content(b.Sim.Snapshot())); diff != "" {
		t.Error(diff)
	}
}
