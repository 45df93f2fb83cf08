package plan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// richTemplate gives the cluster's template options of many kinds.
func richTemplate(g *state.Guest) {
	for option, value := range map[string]string{
		"cpu": "host,flags=+aes", "cores": "3", "sockets": "2", "memory": "1536", "balloon": "512", "agent": "1,fstrim_cloned_disks=1",
		"description": "golden image", "tags": "gold;linux", "onboot": "1", "startup": "order=3", "ostype": "l26", "vga": "serial0", "serial0": "socket",
		"vmgenid": "8d5d8a5e-1f6a-4b5e-9e2a-111111111111", "machine": "q35", "rng0": "source=/dev/urandom",
	} {
		g.Config[option] = value
	}
}

func clone(more ...string) string {
	return "resource \"proxmox_vm\" \"x\" {\n  vmid = 500\n  " + strings.Join(more, "\n  ") + "\n}\n"
}

// TestClonePlanOfRootsOptions: a template has options that only root may set. PVE copies them for every user who may clone,
// so the plan of a token does not refuse them, but for one that the configuration sets.
func TestClonePlanOfRootsOptions(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) { world.Guests[9000].Config["args"] = "-no-hpet" })
	s := w.Session(t, rig.TokenNoSSH, clone("clone = { vmid = 9000 }", "networks = { net0 = {} }", "protection = false"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := rig.GuestOf(w, 500).Config["args"]; got != "-no-hpet" {
		t.Errorf("the clone has args %q", got)
	}
	other := w.Session(t, rig.TokenNoSSH, strings.Replace(clone("clone = { vmid = 9000 }", "args = \"-no-reboot\""), "500", "501", 1))
	if _, err := other.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "Only root@pam may set args") {
		t.Errorf("args of the configuration: %v", err)
	}
}

// TestClonePlan: what the plan of a clone says is what the clone is after the apply and a refresh. The values that PVE
// makes for each clone are open, and nothing else.
func TestClonePlan(t *testing.T) {
	t.Parallel()
	const always = "addresses id ipv4_address ipv6_address node uuid smbios.uuid "
	for name, c := range map[string]struct{ hcl, open string }{
		"as it is":      {clone("clone = { vmid = 9000 }"), "cloud_init.format cloud_init.volume vmgenid"},
		"full":          {clone("clone = { vmid = 9000, full = true, storage = \"local-lvm\" }", "cpu = { cores = 1 }", "networks = { net0 = { bridge = \"vmbr0\" } }"), "cloud_init.format cloud_init.volume networks.net0.macaddr vmgenid"},
		"its disk":      {clone("clone = { vmid = 9000 }", "disks = { scsi0 = { size = \"16G\" } }", "tags = [\"a\"]"), "cloud_init.format cloud_init.volume disks.scsi0.format disks.scsi0.volume vmgenid"},
		"by name":       {clone("clone = { name = \"template\" }", "boot_order = [\"net0\"]"), "cloud_init.format cloud_init.volume vmgenid"},
		"by tags":       {clone("clone = { tags = [\"gold\"] }", "cloud_init = { user = \"me\" }"), "cloud_init.format cloud_init.volume vmgenid"},
		"a new device":  {clone("clone = { vmid = 9000 }", "networks = { net1 = { bridge = \"vmbr0\" } }", "usb = { usb0 = { host = \"spice\" } }"), "cloud_init.format cloud_init.volume networks.net1.macaddr networks.net1.model vmgenid"},
		"another node":  {clone("node = \"pve2\"", "clone = { vmid = 9000, full = true, storage = \"local-zfs\" }", "disks = { scsi0 = { size = \"8G\" } }"), "cloud_init.format cloud_init.volume disks.scsi0.format disks.scsi0.volume vmgenid"},
		"a snapshot":    {clone("clone = { vmid = 8000, snapshot = \"before\" }"), "vmgenid"},
		"another drive": {clone("clone = { vmid = 9000 }", "disks = { scsi1 = { storage = \"local-zfs\", size = \"1G\" } }", "cdroms = { ide0 = { file = \"none\" } }"), "boot_order cloud_init.format cloud_init.volume disks.scsi1.format disks.scsi1.volume vmgenid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				richTemplate(world.Guests[9000])
				old := maps.Clone(world.Guests[8000].Config)
				old["cores"], old["description"], old["agent"] = "7", "a snapshot's", "1"
				world.Guests[8000].Snaps = map[string]map[string]string{"before": old}
				world.Guests[8000].Config["parent"], world.Guests[8000].Config["cores"] = "before", "2"
			})
			s := w.Session(t, rig.RootTicket, c.hcl)
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			planned := pl.Changes[0].Planned
			open := always + c.open
			if strings.Contains(c.hcl, "node = ") {
				open = strings.Replace(open, " node ", " ", 1)
			}
			mustBeOpen(t, planned, open)
			rig.Must(t, s.Apply(t.Context(), pl))
			rig.Must(t, s.Refresh(t.Context()))
			i, err := s.Instance("proxmox_vm.x")
			rig.Must(t, err)
			mustKeepPromises(t, planned, i.Value)
			rig.Must(t, s.Converge(t.Context()))
		})
	}
}

// TestClonePlanDrawn: so it is for drawn templates, VMs and snapshots, and drawn configurations of their clones.
// CLONEPLAN_SEED draws other ones, CLONEPLAN_ONLY repeats one that failed.
func TestClonePlanDrawn(t *testing.T) {
	t.Parallel()
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	seed, only, all := number("CLONEPLAN_SEED", 20261127), number("CLONEPLAN_ONLY", -1), share.Count(12, 500)
	t.Logf("CLONEPLAN_SEED=%d", seed)
	w, made := driftWorld(t, "pve1"), 0
	for n := range all {
		if only >= 0 && n != only {
			continue
		}
		r := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
		ok, err := cloneOneDrawn(t, w, r, n)
		if err != nil {
			t.Errorf("CLONEPLAN_SEED=%d CLONEPLAN_ONLY=%d: %v", seed, n, err)
		}
		if ok {
			made++
		}
	}
	if t.Logf("%d of %d clones were planned and made", made, all); only < 0 && made < all/2 {
		t.Errorf("only %d of %d drawn clones can be made", made, all)
	}
}

// cloneOneDrawn makes a drawn VM and a drawn clone of it, and compares the plan of the clone with the clone. A clone that the
// plan refuses, with a smaller disk, is no case.
func cloneOneDrawn(t *testing.T, w *rig.World, r *rand.Rand, n int) (bool, error) {
	t.Helper()
	source, template := drawFlat(r, 6*n+2), n%2 == 0
	source.drop("clone", "ha", "firewall", "wait_for", "protection", "vmgenid")
	source["vmid"], source["power_state"], source["template"] = cty.NumberIntVal(int64(1000+n)), cty.StringVal("stopped"), cty.BoolVal(template)
	source.repair()
	copied := drawFlat(r, 6*n+1)
	copied.drop("clone", "ha", "firewall", "wait_for", "protection", "template", "on_failure")
	maps.Copy(copied, flat{"clone.vmid": source["vmid"], "vmid": cty.NumberIntVal(int64(2000 + n))})
	if r.IntN(2) == 0 {
		copied["clone.full"], copied["clone.storage"] = cty.True, cty.StringVal("local")
	}
	copied.repair()
	made := func(config flat) (*terraformtest.Session, cty.Value, error) {
		s := w.NewSession()
		s.TrustPlans = true
		if err := s.Configure(w.ProviderBlock(rig.RootTicket)); err != nil {
			return s, cty.NilVal, err
		}
		if err := s.SetResource(driftAddress, config.tree()); err != nil {
			return s, cty.NilVal, err
		}
		pl, err := s.Plan(t.Context())
		if err != nil {
			return nil, cty.NilVal, nil //nolint:nilerr // refused
		}
		err = s.Apply(t.Context(), pl)
		if err != nil && (strings.Contains(err.Error(), "Linked clone feature is not supported") ||
			strings.Contains(err.Error(), "missing NUMA") || // PVE makes, or starts, no such clone
			strings.Contains(err.Error(), "total memory for NUMA nodes")) {
			return nil, cty.NilVal, nil
		}
		return s, pl.Changes[0].Planned, err
	}
	defer w.Change(func(world *state.World) {
		forget(world, 1000+n)
		forget(world, 2000+n)
	})
	if s, _, err := made(source); s == nil || err != nil {
		return false, err
	}
	s, planned, err := made(copied)
	if s == nil || err != nil {
		return false, err
	}
	if err := s.Refresh(t.Context()); err != nil {
		return false, err
	}
	i, err := s.Instance(driftAddress)
	if broken := terraformtest.BrokenPromises(planned, i.Value); len(broken) > 0 {
		err = fmt.Errorf("%s\nsource:\n%s\nclone:\n%s", strings.Join(broken, "\n"), source, copied)
	}
	return true, err
}

// timesRead counts the readings of a VM's configuration.
func timesRead(w *rig.World, vmid int) (n int) {
	for _, op := range w.Sim.Ops() {
		if op.Method == http.MethodGet && op.Path == "/nodes/{node}/qemu/{vmid}/config" && op.VMID == vmid {
			n++
		}
	}
	return n
}

// TestClonePlanReadsOnce: one reading of a template serves all plans of a run, also of one that takes long.
func TestClonePlanReadsOnce(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{Latency: 800 * time.Millisecond})
	s := w.Session(t, rig.TokenNoSSH, "resource \"proxmox_vm\" \"x\" {\n  count = 50\n  clone = { vmid = 9000 }\n  cpu = { cores = 2 }\n}\n")
	w.ResetCalls()
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	if n := timesRead(w, 9000); n != 1 {
		t.Errorf("50 plans read the template %d times", n)
	}
	for _, c := range pl.Changes {
		if memory := terraformtest.At(c.Planned, "memory.size"); !memory.IsKnown() {
			t.Fatalf("%s: what the template has is not planned", c.Address)
		}
	}
	w.ResetCalls()
	rig.Must(t, s.Apply(t.Context(), pl))
	t.Logf("50 creates read the template %d times", timesRead(w, 9000))
}

// TestClonePlanHidden: a template that cannot be read in the plan leaves everything open, and the apply makes the clone.
func TestClonePlanHidden(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, clone("clone = { vmid = 9000 }", "cpu = { cores = 2 }"))
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.Before, Status: 403, Reason: "no"}})
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	if memory := terraformtest.At(pl.Changes[0].Planned, "memory"); memory.IsKnown() {
		t.Errorf("memory is planned as %#v", memory)
	}
	w.Sim.SetFaults(nil)
	rig.Must(t, s.Apply(t.Context(), pl))
	rig.Must(t, s.Converge(t.Context()))
}

// TestClonePlanChangedTemplate: a create stops before its first write if the template is not what the plan says. Here it
// changes while the apply makes another clone first.
func TestClonePlanChangedTemplate(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{TaskTime: time.Minute})
	w.Change(func(world *state.World) { richTemplate(world.Guests[9000]) })
	s := w.Session(t, rig.TokenNoSSH, clone("clone = { vmid = 9000 }")+
		"resource \"proxmox_vm\" \"y\" {\n  vmid = 501\n  clone = { vmid = proxmox_vm.x.id == \"\" ? 1 : 9000 }\n  memory = { balloon = 0 }\n}\n")
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	start := fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/start"}
	w.Sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Describe, VMID: 9000, Before: start}, {Act: thirdparty.Rename, VMID: 9000, Name: "newer", Before: start}})
	err = s.Apply(t.Context(), pl)
	if err == nil {
		t.Fatal("the clone of another template was made")
	}
	rig.MustSayAll(t, err.Error(), "VM 9000 has changed since the plan", `description: planned "golden image", now "`, `name: planned "Copy-of-VM-template", now "Copy-of-VM-newer"`, "plan again")
	w.Change(func(world *state.World) {
		if world.Guests[501] != nil {
			t.Error("the second clone was made")
		}
	})
	rig.Must(t, s.Converge(t.Context()))
}

// TestClonePlanBetween: Terraform itself compares the plan with its repetition in the apply, in which the provider has seen
// the template once more, and makes nothing where it has changed.
func TestClonePlanBetween(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, clone("clone = { vmid = 9000 }"))
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	w.Change(func(world *state.World) { world.Guests[9000].Config["cores"] = "8" })
	w.Mark()
	if err = s.Apply(t.Context(), pl); err == nil {
		t.Fatal("the clone of another template was made")
	}
	rig.MustSayAll(t, err.Error(), "inconsistent final plan", "cpu.cores")
	w.MustBeClean(t)
	rig.Must(t, s.Converge(t.Context()))
}

// TestClonePlanOfATemplateThatIsGone: Terraform's errors about a saved plan do not name the template, so a warning does.
func TestClonePlanOfATemplateThatIsGone(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, clone("clone = { vmid = 9000, full = true }"))
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	w.Change(func(world *state.World) { delete(world.Guests, 9000) })
	if err = s.Apply(t.Context(), pl); err == nil {
		t.Fatal("the clone was made")
	}
	rig.MustSayAll(t, err.Error(), "inconsistent final plan")
	rig.MustSayAll(t, s.Diagnostics().String(), "The source of the clone could not be read", "9000", "plan again")
}

// TestClonePlanOfAManagedTemplate: a template that the same apply changes first leaves its clone open.
func TestClonePlanOfAManagedTemplate(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	hcl := func(description, more string) string {
		return "resource \"proxmox_vm\" \"golden\" {\n  node = \"pve1\"\n  vmid = 600\n  template = true\n  description = \"" + description + "\"\n}\n" + more
	}
	s := w.Session(t, rig.TokenNoSSH, hcl("v1", ""))
	rig.Must(t, s.Converge(t.Context()))
	copied := clone("clone = { vmid = proxmox_vm.golden.vmid }")
	w.Reconfigure(t, s, rig.TokenNoSSH, hcl("v2", copied))
	rig.Must(t, s.Converge(t.Context()))
	if text := s.Attr("proxmox_vm.x", "description"); text.AsString() != "v2" {
		t.Errorf("the clone has the description %#v", text)
	}
	rig.Must(t, s.Destroy(t.Context()))
	rig.Must(t, w.Session(t, rig.TokenNoSSH, hcl("v1", copied)).Converge(t.Context()))
}
