package lifecycle_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// withDefaults configures a session whose provider has defaults.
func withDefaults(t *testing.T, w *rig.World, s *terraformtest.Session, defaults, hcl string) {
	t.Helper()
	if err := s.Configure(strings.Replace(w.ProviderBlock(rig.TokenNoSSH), "endpoint =", defaults+"\n  endpoint =", 1), hcl); err != nil {
		t.Fatal(err)
	}
}

const sameTags = `default_tags = ["lab", "terraform"]
  `

const someDefaults = `default_node = "pve2"
  default_tags = ["lab", "terraform"]
  default_storage = "local-lvm"
  default_bridge = "vmbr1"
  default_pool = "web"`

// TestDefaultsOfTheProvider: what the configuration of a new VM leaves out is planned and made as if it were written; what it says wins.
func TestDefaultsOfTheProvider(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	s := w.NewSession()
	const body = `name = "x"
vmid = 400
cloud_init = { user = "ops" }
disks = { scsi0 = { size = "1G" }, scsi1 = { storage = "local-zfs", size = "1G" } }
networks = { net0 = {}, net1 = { bridge = "vmbr0" } }`
	withDefaults(t, w, s, someDefaults, rig.VMBlock(body))
	pl, err := s.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	planned := pl.Change("proxmox_vm.x").Planned
	for path, want := range map[string]string{"node": `"pve2"`, "pool": `"web"`, "disks.scsi0.storage": `"local-lvm"`, "disks.scsi1.storage": `"local-zfs"`,
		"networks.net0.bridge": `"vmbr1"`, "networks.net1.bridge": `"vmbr0"`, "cloud_init.storage": `"local-lvm"`} {
		if got := terraformtest.ShowValue(terraformtest.At(planned, path)); got != want {
			t.Errorf("%s is planned %s, want %s", path, got, want)
		}
	}
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	guest := rig.GuestOf(w, 400)
	for option, want := range map[string]string{"tags": "lab;terraform", "scsi0": "local-lvm:", "scsi1": "local-zfs:", "ide2": "local-lvm:"} {
		if has := guest.Config[option]; !strings.HasPrefix(has, want) {
			t.Errorf("%s is %q, want %q", option, has, want)
		}
	}
	if guest.Node != "pve2" || !strings.Contains(guest.Config["net0"], "bridge=vmbr1") {
		t.Errorf("on %s with %s", guest.Node, guest.Config["net0"])
	}

	// Other defaults, or none, except of tags (TestTagsAll), change no existing device; a new device takes the present default.
	withDefaults(t, w, s, sameTags+`default_storage = "local-zfs"`, rig.VMBlock(body))
	if pl, err := s.Plan(t.Context()); err != nil || !pl.Empty() {
		t.Errorf("with other defaults: %v\n%s", err, pl)
	}
	more := strings.Replace(body, "scsi1 =", "scsi2 = { size = \"1G\" }, scsi1 =", 1)
	withDefaults(t, w, s, sameTags+`default_storage = "local-zfs"`, rig.VMBlock(more))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if has := rig.GuestOf(w, 400).Config["scsi2"]; !strings.HasPrefix(has, "local-zfs:") {
		t.Errorf("the new disk is %q", has)
	}
	refuses := func(s *terraformtest.Session, attribute string) {
		t.Helper()
		_, err := s.Plan(t.Context())
		if errs := s.Diagnostics().Errors(); len(errs) != 1 || errs[0].Attribute != attribute || !strings.Contains(err.Error(), "needs a storage") {
			t.Errorf("want %s to need a storage: %v", attribute, err)
		}
	}
	withDefaults(t, w, s, sameTags, rig.VMBlock(body+"\ntpm_state = {}"))
	refuses(s, "tpm_state.storage")
	fresh := w.NewSession()
	withDefaults(t, w, fresh, "", rig.VMBlock("disks = { scsi0 = { size = \"1G\" } }"))
	refuses(fresh, `disks["scsi0"].storage`)
}

// TestDefaultsAndImportedVMs: no default makes a difference on a VM that was imported, or on what a clone has from its source.
func TestDefaultsAndImportedVMs(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	s := w.NewSession()
	withDefaults(t, w, s, someDefaults, rig.VMBlock(`disks = { scsi0 = { size = "4G" } }
networks = { net0 = {} }`))
	if err := s.Import(t.Context(), "proxmox_vm.x", "8000"); err != nil {
		t.Fatal(err)
	}
	if pl, err := s.Plan(t.Context()); err != nil || !pl.Empty() {
		t.Errorf("the import plans %v\n%s", err, pl)
	}
	clone := w.NewSession()
	w.Change(func(world *state.World) { delete(world.Guests[9000].Config, "protection") })
	withDefaults(t, w, clone, `default_storage = "local-lvm"
  default_bridge = "vmbr1"`, rig.VMBlock("vmid = 401\nclone = { vmid = 9000, full = true }\ndisks = { scsi0 = {} }\nnetworks = { net0 = {} }"))
	if err := clone.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if guest := rig.GuestOf(w, 401); !strings.HasPrefix(guest.Config["scsi0"], "local-zfs:") || !strings.Contains(guest.Config["net0"], "bridge=vmbr0") {
		t.Errorf("the clone has %s and %s", guest.Config["scsi0"], guest.Config["net0"])
	}
}

// TestTemplateMadeByHand: a third party makes the VM a template. No value that an apply has not changed replaces it, and
// it is not to be started; the VM whose template flag an apply has set is replaced as before.
func TestTemplateMadeByHand(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ first, then, refused string }{
		"false is kept":      {"template = false\n", "template = false\n", "template"},
		"the line goes":      {"template = false\n", "", "template"},
		"true is written":    {"template = false\n", "template = true\n", ""},
		"to be running":      {"", "power_state = \"running\"\n", "power_state"},
		"nothing is said":    {"", "", ""},
		"an apply made it":   {"template = true\n", "template = false\n", ""},
		"an apply confirmed": {"template = false\n", "template = true\ndescription = \"x\"\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, rig.OneDisk+"\n"+tt.first+rig.Stopped)
			l.Guest(func(_ *state.World, g *state.Guest) { g.Config["template"] = "1" })
			if tt.refused != "" {
				for range 2 {
					l.Refuses(rig.OneDisk+"\n"+tt.then, tt.refused, "third party")
				}
				return
			}
			plan := l.Plan(rig.OneDisk + "\n" + tt.then)
			if replaces := strings.Contains(plan.String(), "replace"); replaces != (name == "an apply made it") {
				t.Errorf("the plan:\n%s", plan)
			}
			if name == "an apply confirmed" {
				rig.Must(t, l.Session.Apply(t.Context(), plan))
				if plan := l.Plan(rig.OneDisk + "\ntemplate = false\n"); !strings.Contains(plan.String(), "replace") {
					t.Errorf("the plan after the apply:\n%s", plan)
				}
			}
		})
	}
}

// TestValueThatNoConfigurationCanSay: a third party has set a value that the schema refuses, and that a refresh leaves
// out of the state. The plans that follow are empty, and go also where an update of something else has failed.
func TestValueThatNoConfigurationCanSay(t *testing.T) {
	t.Parallel()
	const networks = "\nnetworks = { net0 = { bridge = \"vmbr0\" } }\n"
	for name, tt := range map[string]struct {
		body string
		set  map[string]string
	}{
		"an address without its device": {"cloud_init = { storage = \"local-zfs\" }\n", map[string]string{"ipconfig1": "ip=dhcp"}},
		"a display on a port by hand":   {"", map[string]string{"serial0": "socket", "vga": "serial0"}},
		"a display on no port":          {"", map[string]string{"vga": "serial3"}},
		"a burst without its limit":     {"", map[string]string{"scsi0": "local-zfs:vm-400-disk-0,size=1G,iops_max=20"}},
		"a line that is no key":         {"", map[string]string{"sshkeys": "%23%20comment"}},
	} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", an update fails: ", fails), func(t *testing.T) {
				t.Parallel()
				l := rig.NewVM(t, rig.OneDisk+networks+tt.body+rig.Stopped)
				l.Guest(func(_ *state.World, g *state.Guest) { maps.Copy(g.Config, tt.set) })
				body := rig.OneDisk + networks + tt.body + rig.Stopped + "\n"
				if fails {
					body += "description = \"x\"\n"
					body = strings.Replace(body, `size = "1G"`, `size = "1G", discard = true`, 1)
					plan := l.Plan(body)
					l.World.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT", Path: "/nodes/{node}/qemu/{vmid}/config"},
						Phase: fault.Before, Status: 403, Reason: "Permission check failed", Times: -1}})
					if err := l.Session.Apply(t.Context(), plan); err == nil {
						t.Fatal("the update did not fail")
					}
					l.World.Sim.SetFaults(nil)
					rig.Must(t, l.Session.Apply(t.Context(), l.Plan(body)))
				}
				for n := range 2 {
					plan := l.Plan(body)
					if !plan.Empty() {
						t.Errorf("plan %d:\n%s", n, plan)
					}
					rig.Must(t, l.Session.Apply(t.Context(), plan))
				}
			})
		}
	}
}
