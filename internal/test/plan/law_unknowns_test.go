package plan_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
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
}

// unknownShare is the part of the rows that every run takes; UNKNOWNS=1 takes all, UNKNOWNS_ONLY those with a text in
// their name.
const unknownShare = 40

// drawn reports whether a row is one of this run.
func drawn(number int, name string) bool {
	if only := os.Getenv("UNKNOWNS_ONLY"); only != "" {
		return strings.Contains(name, only)
	}
	return os.Getenv("UNKNOWNS") != "" || number%unknownShare == 0
}

// TestLawUnknowns holds every attribute of a VM to the law, and every group, map and list as a whole.
func TestLawUnknowns(t *testing.T) {
	t.Parallel()
	rows := unknownRows(t)
	var mu sync.Mutex
	var workers sync.WaitGroup
	next, tried, refused := 0, 0, 0
	for range max(2, runtime.GOMAXPROCS(0)) {
		w := driftWorld(t, "pve1", "pve2")
		w.Change(addOthers)
		workers.Go(func() {
			for {
				mu.Lock()
				number := next
				next++
				mu.Unlock()
				if number >= len(rows) {
					return
				}
				if !drawn(number, rows[number].name) {
					continue
				}
				no, err := rows[number].try(t.Context(), w, 10000+4*number)
				if err != nil {
					t.Errorf("%s: %v", rows[number].name, err)
				}
				mu.Lock()
				tried++
				if no {
					refused++
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("proxmox_vm: %d rows, %d tried, %d of them end in a refusal that the known value has too", len(rows), tried, refused)
	if len(rows) < 1500 {
		t.Errorf("%d rows of proxmox_vm, want at least 1500", len(rows))
	}
}

// unknownRows are the rows of a VM: of each attribute that a change is known of, and of all that it stands in.
func unknownRows(t *testing.T) []unknownRow {
	t.Helper()
	changes := oneChanges(t)
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
	for _, group := range groups(t) {
		if c, at, ok := changeIn(changes, group); ok {
			all = append(all, c.unknown(group, at)...)
		} else {
			t.Errorf("nothing in %s changes", group)
		}
	}
	return all
}

// unknown are the rows of the value at a place of a change: the attribute itself, or all that it stands in.
func (c oneChange) unknown(name, at string) []unknownRow {
	before, after := c.configs(0)
	without := maps.Clone(before)
	without.drop(at)
	hide := func(known flat) flat {
		open := maps.Clone(known)
		open.drop(at)
		open[at] = cty.DynamicVal
		return open
	}
	var all []unknownRow
	add := func(what string, before, known flat) {
		all = append(all, unknownRow{name: name + ": " + what, before: before, open: hide(known), known: known})
	}
	add("made with a value", nil, before)
	add("made with null", nil, without)
	add("the same", before, before)
	add("another", before, after)
	add("null", before, without)
	add("a value after null", without, before)
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
		open, elements := maps.Clone(known), known[c.path].AsValueSlice()
		elements[0] = cty.DynamicVal
		open[c.path] = cty.TupleVal(elements)
		return open
	}
	all := []unknownRow{{name + ": made with an element", nil, hide(before), before}, {name + ": the same element", before, hide(before), before}}
	if v, ok := after[c.path]; ok && v.LengthInt() > 0 {
		all = append(all, unknownRow{name + ": another element", before, hide(after), after})
	}
	return all
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

// try plans with the unknown value and applies with the known one.
func (r unknownRow) try(ctx context.Context, w *rig.World, vmid int) (refused bool, err error) {
	defer func() {
		w.Change(func(world *state.World) {
			for id := range world.Guests {
				if id < 8000 || id > 9999 {
					forget(world, id)
				}
			}
		})
		w.ResetCalls()
	}()
	s, err := r.begin(ctx, w, vmid)
	if err != nil {
		return false, err
	}
	err = r.carryOut(ctx, s, r.open.at(vmid), r.known.at(vmid))
	if err == nil {
		return false, nil
	}
	for _, d := range s.Diagnostics() {
		if d.Violation {
			return false, fmt.Errorf("%w\n%s", err, r.known)
		}
	}
	twin, failed := r.begin(ctx, w, vmid+2)
	if failed != nil {
		return false, failed
	}
	known := r.known.at(vmid + 2)
	again := r.carryOut(ctx, twin, known, known)
	if again == nil {
		return false, fmt.Errorf("%w\nwhich is not said of the known value\n%s", err, r.known)
	}
	plain := strings.NewReplacer(strconv.Itoa(vmid+2), "ID", strconv.Itoa(vmid+3), "ID", strconv.Itoa(vmid), "ID", strconv.Itoa(vmid+1), "ID")
	if plain.Replace(again.Error()) != plain.Replace(err.Error()) {
		return false, fmt.Errorf("the apply says\n%w\nand of the known value it is\n%w\n%s", err, again, r.known)
	}
	return true, nil
}

// begin is a session with what was there before.
func (r unknownRow) begin(ctx context.Context, w *rig.World, vmid int) (*terraformtest.Session, error) {
	s := w.NewSession()
	if err := s.Configure(w.ProviderBlock(rig.RootTicket)); err != nil || r.before == nil {
		return s, err
	}
	s.TrustPlans = true
	if err := apply(ctx, s, r.before.at(vmid)); err != nil {
		return nil, fmt.Errorf("before: %w\n%s", err, r.before)
	}
	s.TrustPlans = false
	return s, nil
}

// carryOut plans one configuration and applies another, and wants the plan after that to be empty.
func (r unknownRow) carryOut(ctx context.Context, s *terraformtest.Session, open, known flat) error {
	if err := s.SetResource(driftAddress, open.tree()); err != nil {
		return err
	}
	pl, err := s.Plan(ctx)
	if err != nil {
		return err
	}
	if err := s.SetResource(driftAddress, known.tree()); err != nil {
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
