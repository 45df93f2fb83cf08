package acctest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

const scratch = `
resource "proxmox_vm" "scratch" {
  node        = "pve1"
  vmid        = 201
  name        = "scratch"
  description = "made from scratch"
  tags        = ["one", "two"]
  pool        = "web"
  ostype      = "l26"
  scsihw      = "virtio-scsi-single"
  machine     = "q35"
  bios        = "ovmf"
  cpu         = { type = "host", cores = 2 }
  memory      = { size = 2048 }
  boot_order  = ["scsi0", "net0"]
  disks = {
    scsi0 = { storage = "local-zfs", size = "4G", discard = true, ssd = true }
    scsi1 = { storage = "local-lvm", size = "8G" }
  }
  cdroms     = { ide0 = { file = "local:iso/debian.iso" } }
  efi_disk   = { storage = "local-zfs", type = "4m", pre_enrolled_keys = true }
  networks   = { net0 = { model = "virtio", bridge = "vmbr0", firewall = true } }
  cloud_init = {
    storage   = "local-zfs"
    user      = "ops"
    addresses = { net0 = { ipv4 = "10.0.0.5/24", gateway4 = "10.0.0.1" } }
  }
}
`

const clone = `
resource "proxmox_vm" "clone" {
  node     = "pve1"
  vmid     = 202
  name     = "clone"
  clone    = { vmid = 9000, full = true }
  protection = false # the template's is inherited otherwise
  memory   = { size = 4096 }
  disks    = { scsi0 = { size = "10G" } }
  networks = { net0 = { model = "virtio", bridge = "vmbr0" } }
  cloud_init = {
    user      = "ops"
    addresses = { net0 = { ipv4 = "10.0.0.6/24", gateway4 = "10.0.0.1" } }
  }
}
`

// TestEveryIdentityConverges: create, empty plan, destroy, nothing left, with each kind of credentials.
func TestEveryIdentityConverges(t *testing.T) {
	t.Parallel()
	for _, id := range Identities() {
		for name, config := range map[string]string{"scratch": scratch, "clone": clone} {
			t.Run(string(id)+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx, w := t.Context(), NewWorld(t)
				s := w.Session(t, id, config)
				must(t, s.Converge(ctx))
				if got := drive.ShowValue(s.Attr("proxmox_vm."+name, "status")); got != `"running"` {
					t.Errorf("status %s", got)
				}
				must(t, s.Refresh(ctx))
				pl, err := s.Plan(ctx)
				must(t, err)
				if !pl.Empty() {
					t.Errorf("plan after a refresh: %s", pl)
				}
				must(t, s.Destroy(ctx))
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
			w := NewWorld(t)
			s := w.Session(t, TokenNoSSH, existing)
			must(t, s.Import(ctx, "proxmox_vm.it", id))
			pl, err := s.Plan(ctx)
			must(t, err)
			if !pl.Empty() {
				t.Errorf("plan after the import: %s", pl)
			}
			if got := drive.ShowValue(s.Attr("proxmox_vm.it", "id")); got != `"8000"` {
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
			w := NewWorld(t)
			w.Change(func(world *state.World) {
				world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-4711-disk-0", Content: "images", VMID: 4711, Format: "raw", Size: 1 << 30})
				if name == "half-made" {
					world.Guests[8000].SetLock("create", "state")
				}
			})
			w.Mark()
			s := w.Session(t, TokenSSH, existing)
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
	ctx, w := t.Context(), NewWorld(t, pvesim.Options{Nodes: []string{"alpha", "beta"}})
	s := w.Session(t, TokenNoSSH, "")
	v, err := s.ReadDataSource(ctx, "proxmox_node", `name = "beta"`)
	must(t, err)
	if got := drive.ShowValue(drive.At(v, "online")); got != "true" {
		t.Errorf("online %s in %s", got, drive.ShowValue(v))
	}
	v, err = s.ReadDataSource(ctx, "proxmox_nodes", ``)
	must(t, err)
	if text := drive.ShowValue(v); !strings.Contains(text, `"alpha"`) || !strings.Contains(text, `"beta"`) {
		t.Errorf("nodes: %s", text)
	}
	if _, err := s.ReadDataSource(ctx, "proxmox_node", `name = "gamma"`); err == nil || !strings.Contains(err.Error(), "gamma") {
		t.Errorf("an unknown node: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
