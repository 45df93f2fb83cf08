package plan_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// The law of unknown values. A value of a configuration may come from another resource: it is not known in the plan, and
// in the apply it turns out to be what it was, another value, or null. Then one plan and one apply without an error
// lead there, and the plan after them is empty. A value that no plan accepts when it is known may be refused in the
// apply, in the same words, and never as a broken promise of the plan.

// unknownRow is one value that is not known in the plan of a VM.
type unknownRow struct {
	name   string
	before flat // what was applied; nil: the VM is made
	open   flat // the configuration of the plan
	known  flat // the same in the apply

	address    string       // of a resource that is no VM
	who        rig.Identity // "": root
	noEndpoint bool         // the provider's endpoint is not known in the plan either
	endpoint   string       // in the apply
}

// of is the address of the row's resource.
func (r unknownRow) of() string { return cmp.Or(r.address, driftAddress) }

// place gives a configuration the VMID of the row, if it has one of its own.
func (r unknownRow) place(f flat, vmid int) flat {
	if r.address == "" || strings.HasPrefix(r.address, "proxmox_disk.") {
		return f.at(vmid)
	}
	return f
}

// unknownShare is the part of the rows that `make test` plays.
const unknownShare = 80

// afterNull is the row of a value that was null before; some cannot be.
const afterNull = "a value after null"

// TestLawUnknowns holds every attribute of a VM to the law, and every group, map and list as a whole.
func TestLawUnknowns(t *testing.T) {
	t.Parallel()
	rows := unknownRows(t, oneChanges(t))
	outcomes := carryOutRows(t, rows, unknownShare)
	t.Logf("proxmox_vm: %d rows; of this share %d hold, %d more are refused as the known value is, and %d begin with null where that is refused",
		len(rows), outcomes[holds], outcomes[refusedToo], outcomes[noBeginning])
	if len(rows) < 1500 {
		t.Errorf("%d rows of proxmox_vm, want at least 1500", len(rows))
	}
}

// carryOutRows tries one in so many rows, and counts the outcomes.
func carryOutRows(t *testing.T, rows []unknownRow, part int) map[outcome]int {
	t.Helper()
	outcomes := map[outcome]int{}
	for _, is := range play(t, rows, func(number int, r unknownRow) bool { return share.Plays(number, part, r.name) }, worldOfOthers(t),
		func(w *rig.World, number int, r unknownRow) outcome {
			is, err := r.try(t.Context(), w, 10000+4*number)
			if err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
			return is
		}) {
		outcomes[is]++
	}
	return outcomes
}

// worldOfOthers opens clusters with the objects that attributes of other resources name.
func worldOfOthers(t *testing.T) func() *rig.World {
	return func() *rig.World {
		t.Helper()
		w := driftWorld(t, "pve1", "pve2")
		w.Change(addOthers)
		w.Change(addHolder)
		return w
	}
}

// unknownRows are the rows of a VM: of each attribute that a change is known of, and of all that it stands in.
func unknownRows(t *testing.T, changes map[string]oneChange) []unknownRow {
	t.Helper()
	exempt := noChange()
	for _, path := range attributes(t) {
		if _, ok := changes[path]; !ok && exempt[path] == "" {
			t.Errorf("%s has no example value", path)
		}
	}
	var all []unknownRow
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		c := changes[path]
		all = append(all, c.unknown(path, c.path)...)
		if list := c.from; list != cty.NilVal && list.CanIterateElements() && list.LengthInt() > 0 && c.to != cty.NilVal {
			all = append(all, c.unknownElement(path)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(beyondOneChange())) {
		c := beyondOneChange()[name]
		all = append(all, c.unknown(name, c.path)...)
	}
	for _, group := range groups(t) {
		if c, at, ok := changeIn(changes, group); ok {
			all = append(all, c.unknown(group, at)...)
		} else {
			t.Errorf("nothing in %s changes", group)
		}
	}
	return all
}

// beyondOneChange are changes in other circumstances: of a running guest, away from the node, and those that PVE refuses.
func beyondOneChange() map[string]oneChange {
	text, none := cty.StringVal, cty.NilVal
	running := flat{"power_state": text("running"), "disks.scsi0.storage": text("local-zfs"), "disks.scsi0.size": text("4G")}
	with := func(f flat) flat {
		g := maps.Clone(running)
		maps.Copy(g, f)
		return g
	}
	return map[string]oneChange{
		"nodes, elsewhere":        {path: "nodes", from: cty.ListVal(texts("pve1")), to: cty.ListVal(texts("pve2")), beside: flat{"node": none, "disks.scsi0.storage": text("local-zfs")}},
		"storage, running":        {path: "disks.scsi0.storage", from: text("local-zfs"), to: text("local-lvm"), beside: running},
		"another volume":          {path: "disks.scsi0.imported_disk.volume", from: text("local-lvm:vm-8001-disk-0"), to: text("local:8002/vm-8002-disk-0.qcow2")},
		"size, running":           {path: "disks.scsi0.size", from: text("4G"), to: text("6G"), beside: running},
		"cores, running":          {path: "cpu.cores", from: cty.NumberIntVal(1), to: cty.NumberIntVal(2), beside: running},
		"description, running":    {path: "description", from: text("a"), to: text("b"), beside: running},
		"bridge, running":         {path: "networks.net0.bridge", from: text("vmbr0"), to: text("vmbr1"), beside: running},
		"cloud_init, running":     {path: "cloud_init.storage", from: text("local-zfs"), to: text("local-lvm"), beside: running},
		"protection, with drives": {path: "protection", from: cty.True, to: cty.False, beside: with(flat{"bios": text("ovmf"), "efi_disk.storage": text("local-zfs"), "efi_disk.type": text("4m")})},
		"pool, running":           {path: "pool", from: text("web"), to: none, beside: running},
		"machine of Windows":      {path: "machine", from: text("q35"), to: text("pc"), beside: flat{"ostype": text("win11")}},
		"Windows with a machine":  {path: "ostype", from: text("win11"), to: text("win10"), beside: flat{"machine": text("q35")}},
		"Windows":                 {path: "ostype", from: text("win11"), to: text("l26")},
		"no Windows":              {path: "ostype", from: text("l26"), to: text("win11")},
	}
}

// unknown are the rows of the value at a place of a change: the attribute itself, or all that it stands in.
func (c oneChange) unknown(name, at string) []unknownRow {
	before, after := c.configs(0)
	without := before.with(at, cty.NullVal(cty.DynamicPseudoType))
	if c.to == cty.NilVal {
		after = before.with(c.path, cty.NullVal(cty.DynamicPseudoType))
	}
	var all []unknownRow
	add := func(what string, before, known flat) {
		all = append(all, unknownRow{name: name + ": " + what, before: before, open: known.with(at, cty.DynamicVal), known: known})
	}
	add("made with a value", nil, before)
	add("made with null", nil, without)
	add("the same", before, before)
	add("another", before, after)
	add("null", before, without)
	add(afterNull, without, before)
	if at == "vmid" {
		return all
	}
	for what, known := range map[string]flat{"the same": before, "another": after, "null": without} {
		elsewhere := maps.Clone(known)
		elsewhere["vmid"] = cty.NumberIntVal(1)
		add(what+" in a replacement", before, elsewhere)
	}
	slices.SortFunc(all, func(a, b unknownRow) int { return strings.Compare(a.name, b.name) })
	return all
}

// unknownElement are the rows of a list with an element that is not known.
func (c oneChange) unknownElement(name string) []unknownRow {
	before, after := c.configs(0)
	hide := func(known flat) flat {
		elements := known[c.path].AsValueSlice()
		elements[0] = cty.DynamicVal
		return known.with(c.path, cty.TupleVal(elements))
	}
	all := []unknownRow{{name: name + ": made with an element", open: hide(before), known: before}, {name: name + ": the same element", before: before, open: hide(before), known: before}}
	if v, ok := after[c.path]; ok && v.LengthInt() > 0 {
		all = append(all, unknownRow{name: name + ": another element", before: before, open: hide(after), known: after})
	}
	return all
}

// with is a configuration with another value at a place, in which nothing else stands then.
func (f flat) with(at string, v cty.Value) flat {
	g := maps.Clone(f)
	g.drop(at)
	g[at] = v
	return g
}

// groups are the nested objects, the maps of them and the objects in those, with "*" for slots.
func groups(t *testing.T) []string {
	t.Helper()
	var response resource.SchemaResponse
	vm.New(nil).Schema(t.Context(), resource.SchemaRequest{}, &response)
	var all []string
	var walk func(prefix string, level map[string]schema.Attribute)
	walk = func(prefix string, level map[string]schema.Attribute) {
		for name, a := range level {
			if !a.IsOptional() && !a.IsRequired() {
				continue
			}
			switch nested := a.(type) {
			case schema.SingleNestedAttribute:
				all = append(all, prefix+name)
				walk(prefix+name+".", nested.Attributes)
			case schema.MapNestedAttribute:
				all = append(all, prefix+name, prefix+name+".*")
				walk(prefix+name+".*.", nested.NestedObject.Attributes)
			}
		}
	}
	walk("", response.Schema.Attributes)
	all = slices.DeleteFunc(all, func(at string) bool { return at == "restore" || at == "disks.*.imported_disk" }) // law_unknowns_between_test.go
	slices.Sort(all)
	return all
}

// changeIn is a change inside of a group that stays there, and the place of the group in it.
func changeIn(changes map[string]oneChange, group string) (c oneChange, at string, ok bool) {
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		c = changes[path]
		if !strings.HasPrefix(path, group+".") || c.want == refusedChange || c.from == cty.NilVal || c.to == cty.NilVal {
			continue
		}
		return c, strings.Join(strings.Split(c.path, ".")[:strings.Count(group, ".")+1], "."), true
	}
	return oneChange{}, "", false
}

// at gives a configuration its VMID. A replacement gets the next one.
func (f flat) at(vmid int) flat {
	g := maps.Clone(f)
	switch v := g["vmid"]; {
	case v == cty.DynamicVal:
	case v == cty.NilVal:
	case v.RawEquals(cty.NumberIntVal(0)):
		g["vmid"] = cty.NumberIntVal(int64(vmid))
	default:
		g["vmid"] = cty.NumberIntVal(int64(vmid + 1))
	}
	return g
}

// outcome is what became of a row.
type outcome string

const (
	holds       outcome = "holds"
	refusedToo  outcome = "refused as the known value is"
	noBeginning outcome = "nothing to begin with"
	broken      outcome = "broken"
)

// try plans with the unknown value and applies with the known one.
func (r unknownRow) try(ctx context.Context, w *rig.World, vmid int) (outcome, error) {
	clear := func() {
		w.Change(func(world *state.World) {
			for id := range world.Guests {
				if id < 8000 || id > 9999 {
					forget(world, id)
				}
			}
			if r.address != "" {
				forgetOthers(world)
			}
		})
		w.ResetCalls()
	}
	defer clear()
	r.endpoint = w.Sim.Endpoint()
	s, err := r.begin(ctx, w, vmid)
	switch {
	case err != nil && strings.Contains(r.name, ": "+afterNull):
		return noBeginning, nil
	case err != nil:
		return broken, err
	}
	err = r.carryOut(ctx, s, r.place(r.open, vmid), r.place(r.known, vmid))
	if err == nil {
		return holds, nil
	}
	for _, d := range s.Diagnostics() {
		if d.Violation {
			return broken, fmt.Errorf("%w\n%s", err, r.known)
		}
	}
	r.noEndpoint = false
	clear() // the twin may attach the same volume
	twin, failed := r.begin(ctx, w, vmid+2)
	if failed != nil {
		return broken, failed
	}
	known := r.place(r.known, vmid+2)
	again := r.carryOut(ctx, twin, known, known)
	plain := strings.NewReplacer(strconv.Itoa(vmid+2), "ID", strconv.Itoa(vmid+3), "ID", strconv.Itoa(vmid), "ID", strconv.Itoa(vmid+1), "ID")
	mine, other := plain.Replace(errorsOf(s)), plain.Replace(errorsOf(twin))
	if strings.Contains(other, "none would be left") { // Terraform plans the create of a replacement without the state, in the apply too
		mine, other = attributesOf(s), attributesOf(twin)
	}
	if mine == "" || again == nil || mine != other {
		return broken, fmt.Errorf("%w\nand of the known value it is\n%w\n%s", err, again, r.known)
	}
	return refusedToo, nil
}

// errorsOf are the errors of the last operation.
func errorsOf(s *terraformtest.Session) string {
	var all []string
	for _, d := range s.Diagnostics().Errors() {
		all = append(all, d.Summary+" "+d.Attribute+" "+d.Detail)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// attributesOf are those that errors are on.
func attributesOf(s *terraformtest.Session) string {
	var all []string
	for _, d := range s.Diagnostics().Errors() {
		all = append(all, d.Attribute)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// begin is a session with the resource as it was before.
func (r unknownRow) begin(ctx context.Context, w *rig.World, vmid int) (*terraformtest.Session, error) {
	s := w.NewSession()
	if r.address != "" {
		w.Change(forgetOthers)
	}
	endpoint := fmt.Sprintf("endpoint = %q", r.endpoint)
	block := strings.Replace(w.ProviderBlock(cmp.Or(r.who, rig.RootTicket)), endpoint, "endpoint = var.endpoint", 1)
	s.SetString("endpoint", r.endpoint)
	if err := s.Configure(block, `variable "endpoint" {}`); err != nil || r.before == nil {
		return s, err
	}
	s.TrustPlans = true
	before := r.place(r.before, vmid)
	if err := s.SetResource(r.of(), before.tree()); err != nil {
		return nil, err
	}
	if err := s.Run(ctx); err != nil {
		return nil, fmt.Errorf("before: %w\n%s", err, r.before)
	}
	s.TrustPlans = false
	return s, nil
}

// carryOut plans one configuration and applies another, and wants the plan after that to be empty.
func (r unknownRow) carryOut(ctx context.Context, s *terraformtest.Session, open, known flat) error {
	if err := s.SetResource(r.of(), open.tree()); err != nil {
		return err
	}
	if r.noEndpoint {
		s.SetVariable("endpoint", cty.UnknownVal(cty.String))
	}
	pl, err := s.Plan(ctx)
	s.SetString("endpoint", r.endpoint)
	if err != nil {
		return err
	}
	if err := s.SetResource(r.of(), known.tree()); err != nil {
		return err
	}
	if err := s.Apply(ctx, pl); err != nil {
		return err
	}
	after, err := s.Plan(ctx)
	if err != nil {
		return fmt.Errorf("the plan after the apply: %w", err)
	}
	if !after.Empty() {
		return errors.New("the plan after the apply is not empty:\n" + after.String() + "it was planned:\n" + pl.String())
	}
	return nil
}
