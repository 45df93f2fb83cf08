package lifecycle_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestEveryIdentityConverges: create, empty plan, destroy, nothing left, with each kind of credentials.
func TestEveryIdentityConverges(t *testing.T) {
	t.Parallel()
	for _, id := range rig.Identities() {
		for name, config := range map[string]string{"scratch": rig.ScratchVM, "clone": rig.CloneVM} {
			t.Run(string(id)+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx, w := t.Context(), rig.NewWorld(t)
				s := w.Session(t, id, config)
				rig.Must(t, s.Converge(ctx))
				if got := terraformtest.ShowValue(s.Attr("proxmox_vm."+name, "status")); got != `"running"` {
					t.Errorf("status %s", got)
				}
				rig.Must(t, s.Refresh(ctx))
				pl, err := s.Plan(ctx)
				rig.Must(t, err)
				if !pl.Empty() {
					t.Errorf("plan after a refresh: %s", pl)
				}
				rig.Must(t, s.Destroy(ctx))
				w.MustBeClean(t)
			})
		}
	}
}

// TestImport: an import is followed by an empty plan and writes nothing; what cannot be imported is refused with the reason.
func TestImport(t *testing.T) {
	t.Parallel()
	const existing = `resource "proxmox_vm" "it" {
  node     = "pve1"
  name     = "existing"
  memory   = { size = 1024 }
  disks    = { scsi0 = { storage = "local-lvm", size = "4G" } }
  networks = { net0 = { model = "virtio", bridge = "vmbr0" } }
}`
	ctx := t.Context()
	for _, id := range []string{"pve1/8000", "8000"} {
		t.Run(id, func(t *testing.T) {
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, existing)
			rig.Must(t, s.Import(ctx, "proxmox_vm.it", id))
			pl, err := s.Plan(ctx)
			rig.Must(t, err)
			if !pl.Empty() {
				t.Errorf("plan after the import: %s", pl)
			}
			if got := terraformtest.ShowValue(s.Attr("proxmox_vm.it", "id")); got != `"8000"` {
				t.Errorf("id %s", got)
			}
			w.MustBeClean(t)
			for _, op := range w.Sim.Ops() {
				if op.Method != http.MethodGet {
					t.Errorf("an import wrote: %s %s", op.Method, op.Path)
				}
			}
		})
	}
	for name, c := range map[string]struct{ id, want string }{
		"nothing there":   {"pve1/4242", "4242"},
		"leftover volume": {"4711", "vm-4711-disk-0"},
		"container":       {"8100", "container"},
		"half-made":       {"8000", "create"},
		"wrong node":      {"pve2/8000", "pve1"},
		"no id":           {"web", "pve1/100"},
	} {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-4711-disk-0", Content: "images", VMID: 4711, Format: "raw", Size: 1 << 30})
				if name == "half-made" {
					world.Guests[8000].SetLock("create", "state")
				}
			})
			w.Mark()
			s := w.Session(t, rig.TokenSSH, existing)
			err := s.Import(ctx, "proxmox_vm.it", c.id)
			if err == nil || !strings.Contains(err.Error(), c.want) || len(s.Addresses()) != 0 {
				t.Errorf("state %v, error: %v", s.Addresses(), err)
			}
			w.MustBeClean(t)
		})
	}
}

// TestNodeDataSources reads what the server says of its nodes.
func TestNodeDataSources(t *testing.T) {
	t.Parallel()
	ctx, w := t.Context(), rig.NewWorld(t, pvesim.Options{Nodes: []string{"alpha", "beta"}})
	s := w.Session(t, rig.TokenNoSSH, "")
	v, err := s.ReadDataSource(ctx, "proxmox_node", `name = "beta"`)
	rig.Must(t, err)
	if got := terraformtest.ShowValue(terraformtest.At(v, "online")); got != "true" {
		t.Errorf("online %s in %s", got, terraformtest.ShowValue(v))
	}
	v, err = s.ReadDataSource(ctx, "proxmox_nodes", ``)
	rig.Must(t, err)
	if text := terraformtest.ShowValue(v); !strings.Contains(text, `"alpha"`) || !strings.Contains(text, `"beta"`) {
		t.Errorf("nodes: %s", text)
	}
	if _, err := s.ReadDataSource(ctx, "proxmox_node", `name = "gamma"`); err == nil || !strings.Contains(err.Error(), "gamma") {
		t.Errorf("an unknown node: %v", err)
	}
}

// TestUUIDOfAStoppedVMChanges: a VM that is off gets another uuid, and is known by it from then on.
func TestUUIDOfAStoppedVMChanges(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, rig.Stopped)
	const uuid = "0d4e83a9-947b-41d9-acb7-93796cdd896b"
	l.To(rig.Stopped + "smbios = { uuid = \"" + uuid + "\" }\n")
	if now := l.Attr("uuid"); !strings.Contains(now, uuid) {
		t.Errorf("the uuid in state is %s", now)
	}
	l.To(rig.Stopped + "smbios = { uuid = \"" + strings.ToUpper(strings.Replace(uuid, "0d", "1d", 1)) + "\" }\ndescription = \"x\"\n")
	rig.Must(t, l.Session.Destroy(t.Context()))
	l.GuestIsGone()
}

// TestReleaseOfTheNodeDecides: in the middle of an upgrade the plan judges an option by the release of the VM's node,
// not by that of the node which the endpoint names. Else the old VM would be destroyed for one that PVE refuses.
func TestReleaseOfTheNodeDecides(t *testing.T) {
	t.Parallel()
	const named, first, source = `node = "pve2"`, `nodes = ["pve2", "pve1"]`, `clone = { vmid = 9100 }`
	for name, c := range map[string]struct{ place, endpoint, node, refused string }{
		"the endpoint's is newer":    {named, "9.2", "8.4", "Node pve2 runs Proxmox VE 8.4"},
		"the node's is newer":        {named, "8.4", "9.2", ""},
		"that of the first is older": {first, "9.2", "8.4", "Node pve2 runs Proxmox VE 8.4"},
		"that of the first is newer": {first, "8.4", "9.2", ""},
		"the source's is older":      {source, "9.2", "8.4", "Node pve2 runs Proxmox VE 8.4"},
		"the source's is newer":      {source, "8.4", "9.2", ""},
	} {
		vm := func(memory string) string {
			return rig.VMBlock("name = \"x\"\nvmid = 400\nprotection = false\n" + c.place + "\nmemory = {" + memory + "}\n")
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(w *state.World) {
				w.Nodes["pve1"].Release, w.Nodes["pve2"].Release = c.endpoint, c.node
				w.Guests[9100] = &state.Guest{VMID: 9100, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "source", "memory": "512"}}
			})
			s := w.Session(t, rig.TokenNoSSH, vm("size = 512"))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, vm("size = 512, allow_ksm = false"))
			s.Taint(rig.VMAddress, true)
			pl, err := s.Plan(t.Context())
			if told := s.Diagnostics().String(); (err != nil) != (c.refused != "") || !strings.Contains(told, c.refused) {
				t.Fatalf("plan: %v\n%s", err, told)
			}
			if err == nil {
				rig.Must(t, s.Apply(t.Context(), pl))
			}
			w.Change(func(w *state.World) {
				if w.Guests[400] == nil {
					t.Error("the VM is gone")
				}
			})
		})
	}
}
