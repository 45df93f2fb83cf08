package acctest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// onlyReads fails a test if anything but reads was sent.
func onlyReads(t *testing.T, ops []pvesim.Op) {
	t.Helper()
	for _, op := range ops {
		if op.Method != http.MethodGet && op.Path != "/access/ticket" {
			t.Errorf("sent %s %s", op.Method, op.Path)
		}
	}
}

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
			w := acctest.NewWorld(t, pvesim.Options{Profile: c.profile})
			w.Change(addMatrixSources)
			w.Change(func(world *state.World) { world.Storages["local"].Content = []string{"iso", "snippets", "import"} })
			w.Mark()
			s := w.Session(t, acctest.TokenNoSSH, vmBlock(c.body))
			if c.says != "" {
				_, err := s.Plan(t.Context())
				mustSay(t, err, c.says)
				onlyReads(t, w.Sim.Ops())
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
	for _, who := range []acctest.Identity{acctest.RootTicket, acctest.TokenSSH, acctest.TokenNoSSH} {
		t.Run(string(who), func(t *testing.T) {
			t.Parallel()
			w := acctest.NewWorld(t)
			w.Change(addMatrixSources)
			s := w.Session(t, who, vmBlock(before))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Reconfigure(t, s, who, vmBlock(after))
			w.Sim.ResetOps()
			if who == acctest.TokenNoSSH {
				_, err := s.Plan(t.Context())
				mustSay(t, err, "local:iso/cloud.img is not for import", "ssh", "template", "pvesm set local --content")
				onlyReads(t, w.Sim.Ops())
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
			if want := map[acctest.Identity]int{acctest.TokenSSH: 1}[who]; commands != want {
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
func mustBeAsBefore(t *testing.T, w *acctest.World, s interface {
	Run(ctx context.Context) error
}, who acctest.Identity) {
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

// TestSourceOnlyKnownInTheApply: what a plan did not know is refused before anything is made.
func TestSourceOnlyKnownInTheApply(t *testing.T) {
	t.Parallel()
	b := newBench(t, sweepIdentities()[2])
	b.reset()
	_, err := b.svc.Create(t.Context(), fromISO().request)
	mustSay(t, err, "local:iso/debian.iso is not for import", "ssh")
	onlyReads(t, b.operations())
	if diff := sameWorld(b.world(b.base), b.world(b.sim.Snapshot())); diff != "" {
		t.Error(diff)
	}
}
