package plan_test

import (
	"context"
	"errors"
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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// The law of replacements. With create_before_destroy Terraform deposes the old object, and then plans the new one once
// more. It restores the old object where the create fails, but not where that plan does (terraform internal/terraform,
// node_resource_apply_instance.go, managedResourceExecute). So nothing that the server says may fail only in the plan within
// the apply: the create says it. Afterwards the old object or the new one is in state, and the next apply gets there.

// replacedObject is an object that is replaced while it exists.
type replacedObject struct {
	name, address string
	who           rig.Identity
	before, after string // what stands in its block
	renames       bool   // after replaces nothing by itself
	stuck         bool   // the new object cannot be made while the old one is there, as it was or as it is to be
	placed        bool   // the same, but only as it was
	seed          func(*state.World)
}

// wayToReplace is a way to have an object replaced.
type wayToReplace struct {
	name                                   string
	changed, replace, tainted, unfreshened bool
}

func waysToReplace() []wayToReplace {
	return []wayToReplace{
		{name: "changed", changed: true}, {name: "changed, -refresh=false", changed: true, unfreshened: true},
		{name: "-replace", replace: true}, {name: "-replace -refresh=false", replace: true, unfreshened: true},
		{name: "tainted", tainted: true}, {name: "tainted, -refresh=false", tainted: true, unfreshened: true},
	}
}

// failuresOfRequests are how a request of the apply fails.
func failuresOfRequests() map[string]fault.Rule {
	return map[string]fault.Rule{
		"500": {Phase: fault.Before, Status: http.StatusInternalServerError}, "403": {Phase: fault.Before, Status: http.StatusForbidden},
		"595": {Phase: fault.Before, Status: 595}, "lost": {Phase: fault.After},
	}
}

// replacementRow is what happens to the server between a plan and its apply.
type replacementRow struct {
	name  string
	rules []fault.Rule // in force as long as the apply
	// other is what a third party does before the apply; it returns what takes that back.
	other func(*state.World) (undo func())
}

// replacementLaw is the law in one cluster.
type replacementLaw struct {
	w    *rig.World
	base []byte
	put  func()
}

func newReplacementLaw(t *testing.T) *replacementLaw {
	t.Helper()
	l := &replacementLaw{w: driftWorld(t, "pve1", "pve2")}
	l.w.ExpectPowerOffs(state.PowerStop, state.PowerShutdown)
	l.w.Change(func(world *state.World) {
		addOthers(world)
		addHolder(world)
		for _, sid := range []string{"vm:8000", "vm:9000"} {
			world.HA[sid] = &state.HAResource{SID: sid, State: "ignored"}
		}
		l.put = world.Remember()
	})
	l.base = l.w.Sim.Snapshot()
	return l
}

// configure gives a session the block of an object.
func (o replacedObject) configure(w *rig.World, s *terraformtest.Session, body string) error {
	who := o.who
	if who == "" {
		who = rig.TokenNoSSH
	}
	typ, _, _ := strings.Cut(o.address, ".")
	return s.Configure(w.ProviderBlock(who), fmt.Sprintf("resource %q \"it\" {\n%s\nlifecycle {\n  create_before_destroy = true\n}\n}\n", typ, body))
}

// prepare makes the object.
func (l *replacementLaw) prepare(ctx context.Context, o replacedObject) (*stage, error) {
	if err := l.w.Sim.Load(l.base); err != nil {
		return nil, err
	}
	l.w.Change(func(world *state.World) {
		l.put()
		if o.seed != nil {
			o.seed(world)
		}
	})
	s := l.w.NewSession()
	if err := o.configure(l.w, s, o.before); err != nil {
		return nil, err
	}
	if err := s.Converge(ctx); err != nil {
		return nil, fmt.Errorf("before: %w", err)
	}
	l.w.Sim.Advance(20e9) // pvestatd has seen it
	at := &stage{s: s}
	l.w.Change(func(world *state.World) {
		restore, created := world.Remember(), map[state.VolumeKey]time.Time{}
		for key, v := range world.Volumes {
			created[key] = v.Created
		}
		at.remember = func() {
			restore()
			for key, v := range world.Volumes { // which no snapshot holds
				v.Created = created[key]
			}
		}
	})
	at.snapshot = l.w.Sim.Snapshot()
	return at, nil
}

// back puts cluster and state back.
func (l *replacementLaw) back(at *stage, o replacedObject) (*terraformtest.Session, error) {
	if err := l.w.Sim.Load(at.snapshot); err != nil {
		return nil, err
	}
	l.w.Change(func(*state.World) { at.remember() })
	s := l.w.NewSession()
	json, private := at.s.Raw(o.address)
	s.Put(o.address, json, private)
	return s, o.configure(l.w, s, o.before)
}

// replaces plans the replacement.
func (o replacedObject) replaces(ctx context.Context, w *rig.World, s *terraformtest.Session, how wayToReplace) (*terraformtest.Plan, error) {
	body := o.before
	if how.changed || o.renames {
		body = o.after
	}
	if err := o.configure(w, s, body); err != nil {
		return nil, err
	}
	var options []terraformtest.PlanOption
	if how.tainted {
		s.Taint(o.address, true)
	}
	if how.unfreshened {
		options = append(options, terraformtest.WithoutRefresh())
	}
	if how.replace {
		options = append(options, terraformtest.Replacing(o.address))
	}
	pl, err := s.Plan(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("the plan: %w", err)
	}
	if c := pl.Change(o.address); c == nil || c.Action != terraformtest.Replace || !c.CreateFirst {
		return nil, fmt.Errorf("it is not replaced:\n%s", pl)
	}
	return pl, nil
}

// questions are the reads of the plan of a replacement.
func (l *replacementLaw) questions(ctx context.Context, at *stage, o replacedObject) ([]string, error) {
	how := waysToReplace()[0]
	if o.renames || o.after == "" {
		how = wayToReplace{replace: true}
	}
	s, err := l.back(at, o)
	if err != nil {
		return nil, err
	}
	l.w.ResetCalls()
	if _, err := o.replaces(ctx, l.w, s, how); err != nil {
		return nil, err
	}
	var all []string
	for _, op := range l.w.Sim.Ops() {
		if op.Method != http.MethodGet && op.Method != "SSH" {
			continue
		}
		if line := op.Method + " " + op.Path; !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return all, nil
}

// row plays one row, and says how the law is broken.
func (l *replacementLaw) row(ctx context.Context, at *stage, o replacedObject, how wayToReplace, r replacementRow) error {
	s, err := l.back(at, o)
	if err != nil {
		return err
	}
	pl, err := o.replaces(ctx, l.w, s, how)
	if err != nil {
		return err
	}
	var repair func()
	l.w.Change(func(world *state.World) {
		if r.other != nil {
			repair = r.other(world)
		}
	})
	if r.other != nil {
		l.w.Sim.Advance(20e9) // pvestatd has seen it
	}
	l.w.Sim.SetFaults(r.rules)
	failed := s.Apply(ctx, pl)
	l.w.Sim.SetFaults(nil)
	deposed := false
	for _, d := range s.Diagnostics().Errors() {
		switch {
		case d.RPC != "PlanResourceChange":
		case how.tainted && strings.HasPrefix(o.name, "clone") && strings.Contains(d.String(), "inconsistent final plan"):
			deposed = true // the exception of docs/design/plan.md, "Clones"
		default:
			return fmt.Errorf("the plan within the apply fails: %s", d)
		}
	}
	if addresses := s.Addresses(); !deposed && !slices.Contains(addresses, o.address) {
		return fmt.Errorf("in state there is %v after %w", addresses, failed)
	}
	if r.other != nil {
		l.w.Change(func(*state.World) { repair() })
		l.w.Sim.Advance(20e9)
	}
	// A third party that has removed the image has made room for the new one.
	hasRoom := failed == nil && r.name == "the images are gone" && strings.HasPrefix(o.name, "proxmox_image")
	if (o.stuck || o.placed && how.tainted) && !hasRoom {
		return l.stays(ctx, s, at, o, failed)
	}
	if err := s.Converge(ctx); err != nil {
		return fmt.Errorf("the next apply: %w; the first said %w", err, failed)
	}
	if addresses := s.Addresses(); !slices.Equal(addresses, []string{o.address}) {
		return fmt.Errorf("after the next apply there is %v in state", addresses)
	}
	return nil
}

// stays wants the old object to be as it was, with its old configuration.
func (l *replacementLaw) stays(ctx context.Context, s *terraformtest.Session, at *stage, o replacedObject, failed error) error {
	if failed == nil {
		return errors.New("the new object was made beside the old one")
	}
	if err := o.configure(l.w, s, o.before); err != nil {
		return err
	}
	was, err := at.s.Instance(o.address)
	if err != nil {
		return err
	}
	is, err := s.Instance(o.address)
	if err != nil {
		return err
	}
	if !is.Value.RawEquals(was.Value) {
		return fmt.Errorf("it changed: %v", terraformtest.Differences(was.Value, is.Value))
	}
	if is.Tainted {
		return nil // as it was before
	}
	pl, err := s.Plan(ctx)
	if err != nil {
		return fmt.Errorf("with the old configuration: %w", err)
	}
	if !pl.Empty() {
		return fmt.Errorf("with the old configuration: %s", pl)
	}
	return nil
}

// TestLawReplacement: the rows are every way to replace an object of each resource, with each request that its plan makes
// failing in each way from the plan to the end of the apply, and with each change of the cluster in between.
func TestLawReplacement(t *testing.T) {
	t.Parallel()
	objects := replacedObjects(t)
	drawn := func(number int, name string) bool { return share.Plays(number, replacementShare, name) }
	rows, played := 0, 0
	for _, of := range play(t, objects, func(int, replacedObject) bool { return true },
		func() *replacementLaw { return newReplacementLaw(t) },
		func(l *replacementLaw, _ int, o replacedObject) [2]int {
			n, done := l.play(t, o, drawn)
			return [2]int{n, done}
		}) {
		rows, played = rows+of[0], played+of[1]
	}
	t.Logf("%d rows, of which this share are %d", rows, played)
	if rows < 800 {
		t.Errorf("%d rows, want at least 800", rows)
	}
}

// replacementShare is one in how many rows a short run plays.
const replacementShare = 160

// play plays the drawn rows of an object.
func (l *replacementLaw) play(t *testing.T, o replacedObject, drawn func(number int, name string) bool) (rows, played int) {
	at, err := l.prepare(t.Context(), o)
	if err != nil {
		t.Errorf("%s: %v", o.name, err)
		return 0, 0
	}
	asked, err := l.questions(t.Context(), at, o)
	if err != nil {
		t.Errorf("%s: %v", o.name, err)
		return 0, 0
	}
	for _, how := range waysToReplace() {
		if how.changed && (o.renames || o.after == "") {
			continue
		}
		for _, r := range rowsOf(asked) {
			rows++
			name := o.name + ", " + how.name + ": " + r.name
			if !drawn(rows+7*len(o.name), name) {
				continue
			}
			played++
			if err := l.row(t.Context(), at, o, how, r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	return rows, played
}
