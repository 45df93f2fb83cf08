package plan_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// The law of imports. A configuration that describes an object as it is plans no change right after the import, the power
// state included. Neither does one that says nothing of the power.

// importRow is an object and the configuration of it.
type importRow struct {
	name, address string
	who           rig.Identity
	config        flat
}

// importShare is the part of the rows that `make test` plays.
const importShare = 47

// untold are the attributes of a VM that no server tells: only the provider has them.
func untold() []string {
	all := []string{"cloud_init_password_wo"}
	for at, rule := range model.Rules() {
		if rule.OnlyInState {
			all = append(all, at)
		}
	}
	return all
}

// untoldOfOthers are those of the other resources.
func untoldOfOthers() []string {
	return []string{"timeouts", "url", "source_file", "checksum", "compression", "verify_certificates", "file_name", "on_destroy", "kind"}
}

// onlyRecords reports whether a change is of attributes that no server tells. An image needs one of them in its
// configuration, which says where it came from.
func onlyRecords(c *terraformtest.Change) bool {
	for _, line := range terraformtest.Differences(c.Prior, c.Planned) {
		if name := line[:strings.IndexAny(line, ".[:")]; !slices.Contains(untoldOfOthers(), name) {
			return false
		}
	}
	return c.Action == terraformtest.Update
}

// told is a configuration without what no server tells.
func (f flat) told(hidden []string) flat {
	g := maps.Clone(f)
	maps.DeleteFunc(g, func(at string, _ cty.Value) bool {
		return slices.ContainsFunc(hidden, func(name string) bool {
			return pattern(at) == name || strings.HasPrefix(pattern(at), name+".")
		})
	})
	return g
}

// importRows are those of each attribute of each resource, before and after its change.
func importRows(t *testing.T) (all []importRow) {
	t.Helper()
	changes := oneChanges(t)
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		if changes[path].beside.has("clone") || strings.HasPrefix(path, "clone.") || strings.HasPrefix(path, "restore.") { // no configuration says what it has
			continue
		}
		before, after := changes[path].configs(0)
		for when, f := range map[string]flat{"before": before, "after": after} {
			if path == "firewall.rules" && f["firewall.rules"].LengthInt() == 0 {
				continue // a VM without a firewall has none
			}
			all = append(all, importRow{name: path + ", " + when, address: driftAddress, config: f})
		}
	}
	for typ, of := range otherResources(t) {
		for what, c := range of.changes {
			name, _, _ := strings.Cut(what, ", ")
			before := maps.Clone(of.base)
			maps.Copy(before, c.beside)
			before[name] = c.from
			after := maps.Clone(before)
			after[name] = c.to
			for when, f := range map[string]flat{"before": before, "after": after} {
				maps.DeleteFunc(f, func(_ string, v cty.Value) bool { return v == cty.NilVal })
				all = append(all, importRow{name: typ + "." + what + ", " + when, address: typ + ".it", who: of.who, config: f})
			}
		}
	}
	slices.SortFunc(all, func(a, b importRow) int { return strings.Compare(a.name, b.name) })
	return all
}

// importID is what an import asks for.
func importID(s *terraformtest.Session, address string) string {
	text := func(at string) string {
		i, err := s.Instance(address)
		if err != nil {
			return ""
		}
		return terraformtest.Text(i.Value, at)
	}
	switch typ, _, _ := strings.Cut(address, "."); typ {
	case "proxmox_vm", "proxmox_disk":
		return text("vmid")
	case "proxmox_vm_snapshot":
		return text("vmid") + "/" + text("name")
	case "proxmox_ha_rule":
		return text("rule")
	}
	return text("node") + "/" + text("volume")
}

// unimportable are the resources that have no import.
func unimportable(typ string) bool { return typ == "proxmox_cloud_init_iso" }

// try makes the object and imports it.
func (r importRow) try(ctx context.Context, w *rig.World, vmid int) (made bool, err error) {
	defer func() {
		w.Change(func(world *state.World) {
			for id := range world.Guests {
				if id < 8000 || id > 9999 {
					forget(world, id)
				}
			}
			if r.address != driftAddress {
				forgetOthers(world)
			}
		})
		w.ResetCalls()
	}()
	who, config := r.who, r.config
	if who == "" {
		who = rig.RootTicket
	}
	if r.address == driftAddress || strings.HasPrefix(r.address, "proxmox_disk.") {
		config = config.at(vmid)
	}
	session := func(config flat) (*terraformtest.Session, error) {
		s := w.NewSession()
		s.TrustPlans = true
		if err := s.Configure(w.ProviderBlock(who)); err != nil {
			return nil, err
		}
		err := s.SetResource(r.address, config.tree())
		return s, err
	}
	s, err := session(config)
	if err != nil {
		return false, err
	}
	if err := s.Run(ctx); err != nil { // TestOneChange and the law of unknowns hold those that PVE refuses
		return false, nil
	}
	id := importID(s, r.address)
	if r.address == driftAddress {
		config = config.told(untold())
	} else if !strings.HasPrefix(r.address, "proxmox_image.") {
		config = config.told(untoldOfOthers())
	}
	other, err := session(config)
	if err != nil {
		return true, err
	}
	if err := other.Import(ctx, r.address, id); err != nil {
		return true, err
	}
	return true, r.plansNothing(ctx, other, config)
}

// plansNothing wants the configuration to be no change, with the power state and without it.
func (r importRow) plansNothing(ctx context.Context, s *terraformtest.Session, config flat) error {
	all := []flat{config}
	if r.address == driftAddress {
		power := "stopped"
		if status := s.Attr(r.address, "status"); status.AsString() == "running" {
			power = "running"
		}
		without := maps.Clone(config)
		delete(without, "power_state")
		all = append(all, without)
		if !config.has("ha") && !config.isTrue("template") {
			all = append(all, config.with("power_state", cty.StringVal(power)))
		}
	}
	for _, config := range all {
		if err := s.SetResource(r.address, config.tree()); err != nil {
			return err
		}
		pl, err := s.Plan(ctx)
		if err != nil {
			return err
		}
		for _, c := range pl.Changes {
			if strings.HasPrefix(r.address, "proxmox_image.") && onlyRecords(c) {
				c.Action = terraformtest.NoOp
			}
		}
		if !pl.Empty() {
			return fmt.Errorf("right after the import it plans\n%s\nof\n%s", pl, config)
		}
	}
	return nil
}

// TestLawImport: the rows are every attribute of every resource that can be imported, with two values.
func TestLawImport(t *testing.T) {
	t.Parallel()
	rows := slices.DeleteFunc(importRows(t), func(r importRow) bool {
		typ, _, _ := strings.Cut(r.address, ".")
		return unimportable(typ)
	})
	drawn := func(number int, r importRow) bool { return share.Plays(number, importShare, r.name) }
	open := func() *rig.World {
		w := worldOfOthers(t)()
		w.Change(forgetOthers)
		return w
	}
	outcomes := play(t, rows, drawn, open, func(w *rig.World, number int, r importRow) bool {
		is, err := r.try(t.Context(), w, 10000+4*number)
		if err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		return is
	})
	played, made := len(outcomes), count(outcomes, true)
	t.Logf("%d rows; of this share of %d, %d objects could be made and were imported", len(rows), played, made)
	if len(rows) < 400 {
		t.Errorf("%d rows, want at least 400", len(rows))
	}
	if share.IsWhole() && !share.IsPicked() && made < len(rows)*9/10 {
		t.Errorf("only %d objects could be made", made)
	}
}

// TestImportOfEmptyMaps: for Terraform a map that is empty in the configuration is not the absent one of the VM. The first apply writes it
// into the state, without a request that changes anything.
func TestImportOfEmptyMaps(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	const made = "vmid = 700\nnode = \"pve1\"\nname = \"it\"\n"
	rig.Must(t, w.Session(t, rig.TokenNoSSH, rig.VMBlock(made)).Run(t.Context()))
	s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(made+"pci = {}\nusb = {}\ndisks = {}\nnetworks = {}\n"))
	rig.Must(t, s.Import(t.Context(), "proxmox_vm.x", "700"))
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	want := []string{"disks: null -> {}", "networks: null -> {}", "pci: null -> {}", "usb: null -> {}"}
	if got := terraformtest.Differences(pl.Changes[0].Prior, pl.Changes[0].Planned); !slices.Equal(got, want) {
		t.Errorf("the first plan has %q", got)
	}
	w.ResetCalls()
	rig.Must(t, s.Apply(t.Context(), pl))
	for _, op := range w.Sim.Ops() {
		if op.Method != http.MethodGet {
			t.Errorf("the apply sends %s %s", op.Method, op.Path)
		}
	}
	rig.Must(t, s.Converge(t.Context()))
}
