package plan_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// oddShare: one row in so many is the share of `make test`.
const oddShare = 149

// oddRow is one attribute with one odd value, in a new object or in one that had another value.
type oddRow struct {
	leafAttribute
	what   string
	value  cty.Value
	update bool
}

func (r oddRow) String() string {
	way := "create"
	if r.update {
		way = "update"
	}
	return fmt.Sprintf("%s %s, %s, %s", r.typ, r.path, r.what, way)
}

// oddLaw is what the rows share.
type oddLaw struct {
	changes      map[string]oneChange
	files, image string
}

// TestLawOddStrings: an odd value of an attribute is refused in the plan, on that attribute, or it is applied and the plan
// after it is empty.
func TestLawOddStrings(t *testing.T) {
	t.Parallel()
	l := &oddLaw{changes: oneChanges(t), image: "plain"}
	l.files = rig.ServeFiles(t, map[string][]byte{"/plain.qcow2": rig.QCOW2(l.image)})
	l.image = string(rig.QCOW2(l.image))
	rows, started := oddRows(t), time.Now()
	drawn := func(number int, r oddRow) bool { return share.Plays(number, oddShare, r.String()) }
	open := func() *rig.World {
		w := worldOfOthers(t)()
		w.Change(func(world *state.World) {
			for _, sid := range []string{"vm:8000", "vm:9000"} {
				world.HA[sid] = &state.HAResource{SID: sid, State: "ignored"}
			}
			world.Put(state.WebBackup("pve1"))
		})
		return w
	}
	outcomes := play(t, rows, drawn, open, func(w *rig.World, n int, r oddRow) bool {
		said, err := l.try(t.Context(), w, r, 20000+n)
		if err != nil {
			t.Errorf("%s: %v", r, err)
		}
		return said
	})
	tried, refused := len(outcomes), count(outcomes, true)
	t.Logf("%d rows of %d: %d refused, %d applied, %s", tried, len(rows), refused, tried-refused, time.Since(started).Round(time.Second))
	if len(rows) < 600 || refused == 0 || refused == tried {
		t.Errorf("%d rows, %d refused of %d", len(rows), refused, tried)
	}
}

func oddRows(t *testing.T) (rows []oddRow) {
	t.Helper()
	for _, a := range leafAttributes(t) {
		values := a.oddValues()
		for _, what := range slices.Sorted(maps.Keys(values)) {
			rows = append(rows, oddRow{a, what, values[what], false}, oddRow{a, what, values[what], true})
		}
	}
	return rows
}

// try reports whether the plan refused the value.
func (l *oddLaw) try(ctx context.Context, w *rig.World, row oddRow, vmid int) (refused bool, err error) {
	base, path, plain := l.oddBase(row.leafAttribute, vmid)
	id := rig.RootTicket
	if row.typ == "proxmox_snippet" {
		id = rig.TokenSSH
	}
	s := w.NewSession()
	s.TrustPlans = true
	if err := s.Configure(w.ProviderBlock(id)); err != nil {
		return false, err
	}
	address := row.typ + ".it"
	defer w.Change(func(world *state.World) { l.forget(world, vmid) })
	if row.update {
		if err := s.SetResource(address, base.tree()); err != nil {
			return false, err
		}
		if err := s.Run(ctx); err != nil && plain != cty.NilVal {
			return false, fmt.Errorf("with a plain value: %w\n%s", err, base)
		}
	}
	odd := base.withOdd(path, row.value)
	if err := s.SetResource(address, odd.tree()); err != nil {
		return false, err
	}
	pl, err := s.Plan(ctx)
	if err != nil {
		return true, isClear(s.Diagnostics(), path)
	}
	if err := s.Apply(ctx, pl); err != nil {
		if why := leftToServer(row); why != "" && strings.Contains(err.Error(), why) {
			return true, nil
		}
		return false, fmt.Errorf("refused in the apply only: %w", err)
	}
	if pl, err = s.Plan(ctx); err != nil {
		return false, fmt.Errorf("plan after the apply: %w", err)
	}
	if !pl.Empty() {
		return false, fmt.Errorf("the plan after the apply is not empty:\n%s", pl)
	}
	return false, nil
}

// leftToServer is what PVE says to a value that only it knows to be wrong: the names in the node's /etc/services, and the
// VMs that are there by the time of the apply. "" for all others.
func leftToServer(row oddRow) string {
	switch {
	case strings.HasSuffix(row.path, "port") && row.what == "comma":
		return "invalid port 'a'"
	case row.typ == "proxmox_vm_snapshot" && row.path == "vmid":
		return "There is no VM"
	}
	return ""
}

// forget takes out of the world what a row has made.
func (l *oddLaw) forget(world *state.World, vmid int) {
	forget(world, vmid)
	clear(world.HARules)
	for id := range world.Guests {
		if id != 8000 && id != 8001 && id != 9000 {
			forget(world, id)
		}
	}
	for key, v := range world.Volumes {
		if v.Data == l.image || strings.Contains(key.Name, "odd") || v.Content == "iso" && strings.Contains(key.Name, "odd") {
			delete(world.Volumes, key)
		}
	}
	if g := world.Guests[8000]; g != nil {
		maps.DeleteFunc(g.Snaps, func(name string, _ map[string]string) bool { return name != "before" })
		g.Config["parent"] = "before"
	}
}

var ofTheProvider = regexp.MustCompile(`Value Conversion Error|error in the provider|bug in the provider|cannot store|big\.Float|value\.|tftypes`)

// isClear wants each error to be about the attribute, and one that a user can obey.
func isClear(said terraformtest.Diagnostics, path string) error {
	at := attributePath(path)
	var wrong []error
	for _, d := range said.Errors() {
		switch {
		case d.Violation, ofTheProvider.MatchString(d.Summary + d.Detail):
			wrong = append(wrong, fmt.Errorf("an error of the provider: %s", d))
		case d.Attribute != at && !strings.HasPrefix(d.Attribute, at+"["):
			wrong = append(wrong, fmt.Errorf("refused on %q, want %q: %s", d.Attribute, at, d))
		case d.Detail == "":
			wrong = append(wrong, fmt.Errorf("no reason: %s", d))
		}
	}
	return errors.Join(wrong...)
}

// attributePath is a path as Terraform writes it.
func attributePath(path string) string {
	steps, out := strings.Split(path, "."), ""
	for n, step := range steps {
		switch {
		case step == "#":
			out += "[0]"
		case n > 0 && isSlotOf(strings.Join(steps[:n], ".")):
			out += fmt.Sprintf("[%q]", step)
		case n > 0:
			out += "." + step
		default:
			out = step
		}
	}
	return out
}

func isSlotOf(family string) bool { _, ok := deviceSlots()[family]; return ok }
