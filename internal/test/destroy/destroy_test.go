package destroy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// mustBeUntouched checks that a refused destroy changed nothing: no request that writes was sent, and the VM is in state.
func mustBeUntouched(t *testing.T, w *rig.World, s *terraformtest.Session) {
	t.Helper()
	for _, op := range w.Sim.Ops() {
		if op.Method != http.MethodGet && op.Path != "/access/ticket" && op.Status < 400 {
			t.Errorf("sent: %s %s", op.Method, op.Path)
		}
	}
	w.MustBeClean(t)
	if !slices.Contains(s.Addresses(), "proxmox_vm.x") {
		t.Error("dropped from state")
	}
	if offs := w.Sim.PowerOffs(); len(offs) > 0 {
		t.Errorf("switched off: %v", offs)
	}
}

// TestDestroyRefusals: what speaks against a destroy is found before anything is touched, and the error says the way out.
func TestDestroyRefusals(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		lines string
		spoil func(w *state.World)
		says  []string
	}{
		{"protected", "", func(w *state.World) { w.Guests[400].Config["protection"] = "1" },
			[]string{"is protected", "protection = false"}},
		{"paused", "", func(w *state.World) { w.Guests[400].Running.QMPStatus = "paused" },
			[]string{"VM 400 is paused", "qm resume 400", `power_off = "force"`}},
		{"replicated, purge off", "on_destroy = { purge = false }", func(w *state.World) {
			w.Replication["400-0"] = &state.ReplicationJob{ID: "400-0", Guest: 400, Target: "pve2"}
		}, []string{"400-0", "pve2", "pvesr delete 400-0", "on_destroy.purge = true"}},
		{"under HA, purge off", "on_destroy = { purge = false }", func(w *state.World) {
			w.HA["vm:400"] = &state.HAResource{SID: "vm:400", State: "started"}
		}, []string{"HA resource vm:400", "ha-manager remove vm:400", "on_destroy.purge = true"}},
		{"under HA that it may not change", "", func(w *state.World) {
			w.HA["vm:400"] = &state.HAResource{SID: "vm:400", State: "started"}
		}, []string{"under HA", "Sys.Console", `power_off = "force"`}},
		{"storage away", "", func(w *state.World) { w.Storages["local"].Offline = true },
			[]string{"storage local", "not touched", "bring the storage back"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, s := rig.Applied(t, rig.TokenNoSSH, rig.DestroyBlock(c.lines))
			w.Change(c.spoil)
			w.Sim.Advance(20 * time.Second)
			w.Mark()
			w.Sim.ResetOps()
			rig.MustSay(t, s.Destroy(t.Context()), c.says...)
			mustBeUntouched(t, w, s)
		})
	}
}

const templateToo = `
resource "proxmox_vm" "x" {
  name     = "template-2"
  vmid     = 9400
  node     = "pve1"
  template = true
  disks    = { scsi0 = { storage = %q, size = "1G" } }
}
`

const linkedClone = `
resource "proxmox_vm" "clone" {
  name       = "web-1"
  vmid       = 401
  node       = "pve1"
  clone      = { vmid = 9400, full = false }
  depends_on = [proxmox_vm.x]
}
`

// TestDestroyOfATemplateInUse: a template with linked clones is refused, and they are named, wherever the storage knows of
// them; with the clones gone it goes.
func TestDestroyOfATemplateInUse(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"local-zfs", "local", "shared-nfs"} {
		for _, who := range []rig.Identity{rig.TokenNoSSH, rig.TokenNoAllocate} {
			t.Run(fmt.Sprint(storage, " ", who), func(t *testing.T) {
				t.Parallel()
				template := fmt.Sprintf(templateToo, storage)
				w := rig.NewWorld(t)
				s := w.Session(t, who, template+linkedClone)
				if err := s.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.Sim.Advance(20 * time.Second)
				w.Mark()
				s.Forget("proxmox_vm.clone")
				w.Reconfigure(t, s, who, template)
				w.Sim.ResetOps()
				rig.MustSay(t, s.Destroy(t.Context()), "Template 9400 has linked clones", "VM 401", "web-1", "Nothing was touched")
				mustBeUntouched(t, w, s)
			})
		}
	}
}

// TestReplacedTemplateWithAnothersClone: Terraform destroys the clones of a template before the template. Where one is left that no plan
// of the run destroys, the plan of a clone names it; its own clones are none, nor is one of a template that stays.
func TestReplacedTemplateWithAnothersClone(t *testing.T) {
	t.Parallel()
	const told = "Template 500 is replaced, and has other linked clones"
	config := func(vmid int, full bool, memory int) string {
		return fmt.Sprintf(`resource "proxmox_vm" "t" {
  name = "tpl"
  vmid = %d
  template = true
  node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
}
resource "proxmox_vm" "web" {
  name = "web"
  vmid = 600
  clone = { vmid = proxmox_vm.t.vmid, full = %t }
  memory = { size = %d }
  power_state = "stopped"
}
`, vmid, full, memory)
	}
	for name, c := range map[string]struct {
		full, theirs bool
		vmid, memory int
		warns        bool
	}{
		"another's":                {full: true, theirs: true, vmid: 501, memory: 512, warns: true},
		"another's beside its own": {theirs: true, vmid: 501, memory: 512, warns: true},
		"its own":                  {vmid: 501, memory: 512},
		"its own full one":         {full: true, vmid: 501, memory: 512},
		"of one that stays":        {theirs: true, vmid: 500, memory: 768},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, config(500, c.full, 512))
			rig.Must(t, s.Converge(t.Context()))
			if c.theirs {
				w.Change(func(world *state.World) {
					const disk = "base-500-disk-0/vm-777-disk-0"
					world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: disk, Content: "images", VMID: 777, Format: "raw",
						Parent: "base-500-disk-0", Size: 1 << 30})
					world.Guests[777] = &state.Guest{VMID: 777, Type: "qemu", Node: "pve1",
						Config: map[string]string{"name": "theirs", "memory": "512", "scsi0": "local-zfs:" + disk + ",size=1G"}}
				})
			}
			w.Sim.Advance(20 * time.Second)
			w.Reconfigure(t, s, rig.TokenNoSSH, config(c.vmid, c.full, c.memory))
			_, err := s.Plan(t.Context())
			rig.Must(t, err)
			said := s.Diagnostics().String()
			if strings.Contains(said, told) != c.warns || strings.Contains(said, "VM 777, theirs (local-zfs:") != c.warns ||
				strings.Contains(said, "VM 600, web (") {
				t.Errorf("the plan says %s", said)
			}
		})
	}
}

// TestDestroyOfASuspendedVM: a guest that was suspended to disk is destroyed as it is, with its saved memory, and
// with that of a snapshot.
func TestDestroyOfASuspendedVM(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.DestroyBlock(""))
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		g := world.Guests[400]
		g.Running = nil
		put := func(name string) string {
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: name, VMID: 400, Content: "images", Format: "raw", Size: 1 << 30})
			return "local-zfs:" + name
		}
		g.Config["vmstate"] = put("vm-400-state-suspend")
		g.SetLock("suspended", "state")
		g.Snaps = map[string]map[string]string{"one": {"vmstate": put("vm-400-state-one"), "snaptime": "1"}}
		g.Config["parent"] = "one"
	})
	w.Sim.Advance(20 * time.Second)
	if err := s.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	w.MustBeClean(t)
	rig.MustNotDropPower(t, w, state.PowerShutdown)
}

// TestDestroyReadsEverySnapshot: a snapshot that cannot be read may name memory that nothing else names, so the VM is not removed
// until all of them were.
func TestDestroyReadsEverySnapshot(t *testing.T) {
	t.Parallel()
	w, s := rig.Applied(t, rig.TokenNoSSH, rig.DestroyBlock(""))
	w.Change(func(world *state.World) {
		g := world.Guests[400]
		g.Snaps = map[string]map[string]string{}
		for _, name := range []string{"one", "two"} {
			volume := "vm-400-state-" + name
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: volume, VMID: 400, Content: "images", Format: "raw", Size: 1 << 30})
			g.Snaps[name] = map[string]string{"vmstate": "local-zfs:" + volume, "snaptime": "1"}
		}
		g.Config["parent"] = "two"
	})
	read := fault.Match{Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/snapshot/{snapname}/config", Nth: 1}
	w.Sim.SetFaults([]fault.Rule{{Match: read, Phase: fault.Before, Status: 403, Reason: "no such luck"}})
	rig.MustSay(t, s.Destroy(t.Context()), "no such luck", "it was not removed")
	if rig.GuestOf(w, 400).VMID == 0 {
		t.Error("the VM is gone")
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := rig.TracesOf(w, 400); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

// TestDestroyOfAGuestThatIgnoresShutdown: with graceful_only it is an error with the ways out, and nothing is lost; the others cut the guest
// off, by default with a warning that says so.
func TestDestroyOfAGuestThatIgnoresShutdown(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"", `power_off = "force"`} {
		w, s := rig.Applied(t, rig.TokenNoSSH, rig.DestroyBlock(`on_destroy = { timeout = "20s", power_off = "graceful_only" }`))
		w.ExpectPowerOffs(state.PowerStop)
		w.Change(func(world *state.World) { world.Guests[400].Ignores = []string{"shutdown"} })
		w.Mark()
		rig.MustSay(t, s.Destroy(t.Context()), "did not shut down within 20s", "It runs on", `"force"`, "on_destroy.timeout")
		w.MustBeClean(t)
		rig.MustNotDropPower(t, w)

		w.Reconfigure(t, s, rig.TokenNoSSH, rig.DestroyBlock("on_destroy = {\n timeout = \"20s\"\n "+policy+"\n }"))
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if offs := w.Sim.PowerOffs(); len(offs) != 1 || offs[0].Kind != state.PowerStop {
			t.Errorf("%s: switched off: %v, want one hard stop", policy, offs)
		}
		mustBeGone(t, w, 400)
	}
}

// mustBeGone checks that nothing of a VM is left: no configuration, volume, pool membership, firewall, HA entry or job.
func mustBeGone(t *testing.T, w *rig.World, vmid int) {
	t.Helper()
	if left := rig.TracesOf(w, vmid); len(left) > 0 {
		t.Errorf("left of VM %d: %s", vmid, strings.Join(left, ", "))
	}
}

// references puts a VM into everything that can name it.
func references(w *state.World) {
	w.Replication["400-0"] = &state.ReplicationJob{ID: "400-0", Guest: 400, Target: "pve2"}
	w.Backups["nightly"] = &state.BackupJob{ID: "nightly", VMIDs: []int{400, 8000}, Storage: "local"}
	w.Firewall[400] = &state.FirewallFile{Options: map[string]string{"enable": "1"}}
}

// TestDestroyPurges: jobs, pool and firewall forget the VM. Replication leaves its copies, and they are named. With purge off
// the backup job keeps the id.
func TestDestroyPurges(t *testing.T) {
	t.Parallel()
	w, s := rig.Applied(t, rig.TokenNoSSH, rig.DestroyBlock(""))
	w.Change(func(world *state.World) {
		references(world)
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve2", Name: "vm-400-disk-0", VMID: 400, Content: "images", Format: "raw", Size: 1 << 30})
	})
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := rig.TracesOf(w, 400); !slices.Equal(got, []string{"local-zfs:vm-400-disk-0 on pve2"}) {
		t.Errorf("left: %v", got)
	}
	if said := fmt.Sprint(s.Diagnostics()); !strings.Contains(said, "pvesm free local-zfs:vm-400-disk-0") || !strings.Contains(said, "replication job 400-0") {
		t.Errorf("the copy is not named: %s", said)
	}

	w, s = rig.Applied(t, rig.TokenNoSSH, rig.DestroyBlock("on_destroy = { purge = false }"))
	w.Change(func(world *state.World) {
		references(world)
		delete(world.Replication, "400-0")
	})
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := rig.TracesOf(w, 400); !slices.Equal(got, []string{"backup job nightly"}) {
		t.Errorf("left: %v", got)
	}
}

// TestDestroyOfAGoneVM: a VM that a third party has destroyed is a success, without a refresh too.
func TestDestroyOfAGoneVM(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		w, s := rig.Applied(t, rig.TokenNoSSH, rig.DestroyBlock(""))
		w.Reconfigure(t, s, rig.TokenNoSSH, "")
		pl, err := s.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.Change(func(world *state.World) {
			delete(world.Guests, 400)
			world.Nodes["pve2"].Online = !away
		})
		w.Sim.Advance(20 * time.Second)
		err = s.Apply(t.Context(), pl)
		if away {
			rig.MustSay(t, err, "pve2", "offline")
		} else if err != nil {
			t.Error(err)
		}
		if kept := slices.Contains(s.Addresses(), "proxmox_vm.x"); kept != away {
			t.Errorf("node away: %t, in state: %t", away, kept)
		}
	}
}
