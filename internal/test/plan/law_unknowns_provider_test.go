package plan_test

import (
	"fmt"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// blockOf is a provider block with a variable of its name for each argument.
func blockOf(arguments ...string) string {
	block, variables := "", ""
	for _, name := range arguments {
		block += fmt.Sprintf("  %[1]s = var.%[1]s\n", name)
		variables += fmt.Sprintf("variable %q {}\n", name)
	}
	return "provider \"proxmox\" {\n" + block + "}\n" + variables
}

// login are the arguments that lead to a cluster as root.
func login(w *rig.World) flat {
	c := w.Sim.Credentials()
	return flat{"endpoint": cty.StringVal(w.Sim.Endpoint()), "username": cty.StringVal(c.RootUsername),
		"password": cty.StringVal(c.RootPassword), "ca_certificate": cty.StringVal(w.Sim.CAPEM())}
}

// configured sets the variables of a provider block.
func configured(s *terraformtest.Session, arguments []string, values flat) {
	tree := values.tree()
	for _, name := range arguments {
		v, ok := tree[name]
		if !ok {
			v = cty.NullVal(cty.DynamicPseudoType)
		}
		s.SetVariable(name, v)
	}
}

// TestDefaultsOfAPartlyUnknownProvider: a plan with an endpoint that is not known yet keeps the defaults that are known.
// Neither is the VM refused for the lack of a storage, nor does the apply find another plan.
func TestDefaultsOfAPartlyUnknownProvider(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	arguments := []string{"endpoint", "username", "password", "ca_certificate", "default_node", "default_storage", "default_bridge",
		"default_pool", "default_tags"}
	known := login(w)
	for name, value := range map[string]string{"node": "pve1", "storage": "local-zfs", "bridge": "vmbr1", "pool": "web"} {
		known["default_"+name] = cty.StringVal(value)
	}
	known["default_tags"] = cty.SetVal(texts("site"))
	s := w.NewSession()
	rig.Must(t, s.Configure(blockOf(arguments...), `resource "proxmox_vm" "it" {
  name     = "it"
  disks    = { scsi0 = { size = "4G" } }
  networks = { net0 = {} }
  efi_disk = {}
  cloud_init = { storage = "local-zfs" }
}`))
	configured(s, arguments, known.with("endpoint", cty.DynamicVal))
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	planned := pl.Change("proxmox_vm.it").Planned
	for path, want := range map[string]string{"node": "pve1", "disks.scsi0.storage": "local-zfs", "networks.net0.bridge": "vmbr1",
		"efi_disk.storage": "local-zfs", "pool": "web"} {
		if got := terraformtest.Text(planned, path); got != want {
			t.Errorf("%s is planned as %q, want %q", path, got, want)
		}
	}
	if tags := terraformtest.At(planned, "tags_all"); !tags.RawEquals(known["default_tags"]) {
		t.Errorf("tags_all is planned as %#v", tags)
	}
	configured(s, arguments, known)
	rig.Must(t, s.Apply(t.Context(), pl))
	if pl, err = s.Plan(t.Context()); err != nil || !pl.Empty() {
		t.Errorf("the plan after the apply: %v\n%v", err, pl)
	}
}

// TestUnknownDefaultOfAProvider: a default that is not known yet leaves unknown what it may become.
func TestUnknownDefaultOfAProvider(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ to, path string }{"node": {"pve1", "node"}, "storage": {"local-zfs", "disks.scsi0.storage"},
		"bridge": {"vmbr1", "networks.net0.bridge"}, "pool": {"web", "pool"}, "tags": {"site", "tags_all"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1"}})
			arguments := []string{"endpoint", "username", "password", "ca_certificate", "default_" + name, "default_node"}
			if name == "node" {
				arguments = arguments[:5]
			}
			known := login(w)
			known["default_node"], known["default_"+name] = cty.StringVal("pve1"), cty.StringVal(c.to)
			if name == "tags" {
				known["default_tags"] = cty.SetVal(texts(c.to))
			}
			storage := `storage = "local-lvm", `
			if name == "storage" {
				storage = ""
			}
			s := w.NewSession()
			rig.Must(t, s.Configure(blockOf(arguments...), `resource "proxmox_vm" "it" {
  disks    = { scsi0 = { `+storage+`size = "4G" } }
  networks = { net0 = {} }
}`))
			configured(s, arguments, known.with("default_"+name, cty.DynamicVal))
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			if planned := terraformtest.At(pl.Change("proxmox_vm.it").Planned, c.path); planned.IsKnown() {
				t.Errorf("%s is planned as %#v", c.path, planned)
			}
			configured(s, arguments, known)
			rig.Must(t, s.Apply(t.Context(), pl))
		})
	}
}

// TestUnknownChangeOfADisk: node and format of a proxmox_disk that are not known yet are a change in the plan, and the
// apply makes it. An id that is not known yet is no refusal.
func TestUnknownChangeOfADisk(t *testing.T) {
	t.Parallel()
	const disk = `variable "it" {}
resource "proxmox_disk" "it" {
  vmid    = 300
  size    = "1G"
  %s
}`
	for name, c := range map[string]struct {
		rest    string
		was, is cty.Value
	}{
		"node":   {"storage = \"local-zfs\"\n  node = var.it", cty.StringVal("pve1"), cty.StringVal("pve2")},
		"format": {"storage = \"local\"\n  node = \"pve1\"\n  format = var.it", cty.StringVal("raw"), cty.StringVal("qcow2")},
		"vmid":   {"storage = \"local\"\n  node = \"pve1\"\n  vmid = var.it", cty.NumberIntVal(301), cty.NumberIntVal(301)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
			config := fmt.Sprintf(disk, c.rest)
			if name == "vmid" {
				config = fmt.Sprintf("variable \"it\" {}\nresource \"proxmox_disk\" \"it\" {\n  size = \"1G\"\n  %s\n}", c.rest)
			}
			s := w.NewSession()
			rig.Must(t, s.Configure(w.ProviderBlock(rig.RootTicket), config))
			s.SetVariable("it", c.was)
			rig.Must(t, s.Converge(t.Context()))
			s.SetVariable("it", cty.DynamicVal)
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			if change := pl.Change("proxmox_disk.it"); change.Action != terraformtest.Update {
				t.Errorf("planned as %s", change.Action)
			}
			s.SetVariable("it", c.is)
			rig.Must(t, s.Apply(t.Context(), pl))
			if got := s.Attr("proxmox_disk.it", name); !got.RawEquals(c.is) {
				t.Errorf("%s is %#v after the apply", name, got)
			}
			if pl, err = s.Plan(t.Context()); err != nil || !pl.Empty() {
				t.Errorf("the plan after the apply: %v\n%v", err, pl)
			}
		})
	}
}
