package guest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

const otherUUID = "11111111-2222-3333-4444-555555555555"

// viewOf is a view of the VM as an operation has it when it begins, and the claim that it is bound to.
func (w *world) viewOf() (*View, *StateClaim) {
	w.t.Helper()
	at, err := w.s.FindUnlocked(w.t.Context(), w.ref())
	if err != nil {
		w.t.Fatal(err)
	}
	claim := &StateClaim{Ref: w.ref()}
	w.sim.ResetOps()
	return w.s.View(claim, at), claim
}

// becomeAnother replaces the VM, as when a third party destroys it and makes one that gets the VMID.
func (w *world) becomeAnother() {
	w.vm(func(g *state.Guest) { g.Config["smbios1"] = "uuid=" + otherUUID })
}

// configuration is that of the VM.
func (w *world) configuration() map[string]string {
	w.t.Helper()
	config, err := w.s.api.QEMU("pve1", theVM).Config(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return config.Values
}

// TestViewReadsWhatIsStale: Fresh reads the configuration after a request, and not otherwise.
func TestViewReadsWhatIsStale(t *testing.T) {
	w := newWorld(t, nil)
	v, _ := w.viewOf()
	for range 2 {
		if _, err := v.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.sim.LastOp(); n != 0 {
		t.Errorf("%d requests for a fresh configuration", n)
	}
	if err := v.Set(t.Context(), pve.Params{"description": "new"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		config, err := v.Fresh(t.Context())
		if err != nil || config.Current()["description"] != "new" {
			t.Errorf("%v, description %q", err, config.Current()["description"])
		}
	}
	if n := w.sim.LastOp(); n != 2 {
		t.Errorf("%d requests, want the change and one read", n)
	}
}

// TestViewRefusesAnotherVM: a read after a request returns the VM in state, or an error.
func TestViewRefusesAnotherVM(t *testing.T) {
	w := newWorld(t, nil)
	v, _ := w.viewOf()
	if err := v.Set(t.Context(), pve.Params{"description": "new"}); err != nil {
		t.Fatal(err)
	}
	w.becomeAnother()
	var another *IdentityError
	if _, err := v.Fresh(t.Context()); !errors.As(err, &another) {
		t.Errorf("got %v", err)
	}
	w.sim.ResetOps()
	_, _, err := w.s.StartBy(t.Context(), v.Power(nil), "pve1", theVM)
	if !errors.As(err, &another) || w.configuration()["lock"] != "" {
		t.Errorf("start of another VM: %v", err)
	}
	for _, asked := range w.asked() {
		if asked[:3] != "GET" {
			t.Errorf("sent %s to another VM", asked)
		}
	}
}

// TestViewKnowsItsOwnNewIdentity: a uuid that this very operation writes is no sign of another VM.
func TestViewKnowsItsOwnNewIdentity(t *testing.T) {
	w := newWorld(t, nil)
	v, claim := w.viewOf()
	config, err := v.Fresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claim.Next = &Identity{UUID: otherUUID, CTime: "1"}
	if err := v.Apply(t.Context(), vm.Change{Set: map[string]string{"smbios1": "uuid=" + otherUUID}}, config, nil); err != nil {
		t.Fatal(err)
	}
	if config, err = v.Fresh(t.Context()); err != nil || vm.UUID(config.Current()) != otherUUID {
		t.Errorf("%v, uuid %q", err, vm.UUID(config.Current()))
	}
}

// TestViewRemembersTheVMItBeganWith: if state has no identity, the view claims the VM that it began with.
func TestViewRemembersTheVMItBeganWith(t *testing.T) {
	w := newWorld(t, nil)
	at, err := w.s.FindUnlocked(t.Context(), w.ref())
	if err != nil {
		t.Fatal(err)
	}
	v := w.s.View(&StateClaim{Ref: Ref{VMID: theVM, Node: "pve1"}}, at)
	w.becomeAnother()
	var another *IdentityError
	if err := v.Guard(t.Context()); !errors.As(err, &another) {
		t.Errorf("got %v", err)
	}
}

// TestViewLooksBeforeEachTryOfPower: during the wait for a lock the VMID may get another VM.
func TestViewLooksBeforeEachTryOfPower(t *testing.T) {
	w := newWorld(t, nil)
	v, _ := w.viewOf()
	tries := 0
	_, err := v.Power(nil)(t.Context(), request.Request{Type: "qmstart", Send: func(context.Context) (pve.UPID, error) {
		tries++
		w.becomeAnother()
		return "", &pve.Error{Status: 500, Kind: pve.Locked, Message: "VM is locked (backup)"}
	}})
	var another *IdentityError
	if !errors.As(err, &another) || tries != 1 {
		t.Errorf("%d tries: %v", tries, err)
	}
}

// TestViewLooksAgainAfterATask: a read from before a shutdown, which takes its time, is no ground to act on.
func TestViewLooksAgainAfterATask(t *testing.T) {
	w := newWorld(t, nil)
	v, _ := w.viewOf()
	nothing := func(context.Context) (pve.UPID, error) { return "", nil }
	if _, err := v.Power(nil)(t.Context(), request.Request{Send: nothing}); err != nil {
		t.Fatal(err)
	}
	w.becomeAnother()
	sent := 0
	var another *IdentityError
	err := v.Contend(t.Context(), "", v.IsThere, func(context.Context) error { sent++; return nil })
	if !errors.As(err, &another) || sent > 0 {
		t.Errorf("sent %d: %v", sent, err)
	}
	if _, err = v.Power(nil)(t.Context(), request.Request{Send: nothing}); !errors.As(err, &another) {
		t.Errorf("power: %v", err)
	}
}

// TestViewIsStaleAfterPower: a start or stop changes the configuration only if a change waits for it.
func TestViewIsStaleAfterPower(t *testing.T) {
	w := newWorld(t, map[string]string{"cores": "1"})
	w.run(time.Hour)
	v, _ := w.viewOf()
	nothing := func(context.Context) (pve.UPID, error) { return "", nil }
	if _, err := v.Power(nil)(t.Context(), request.Request{Send: nothing}); err != nil || !v.IsFresh() {
		t.Errorf("%v, fresh %v although nothing waits", err, v.IsFresh())
	}
	if err := v.Set(t.Context(), pve.Params{"cores": "2"}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Power(nil)(t.Context(), request.Request{Send: nothing}); err != nil || v.IsFresh() {
		t.Errorf("%v, fresh %v although the cores wait", err, v.IsFresh())
	}
}

// TestApplyIgnoresALock: a lock that came and went changes the digest and nothing else.
func TestApplyIgnoresALock(t *testing.T) {
	w := newWorld(t, nil)
	v, _ := w.viewOf()
	config, err := v.Fresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := config
	other.Digest = "0000000000000000000000000000000000000000"
	if err := v.Apply(t.Context(), vm.Change{Set: map[string]string{"cores": "2"}}, other, nil); err != nil {
		t.Errorf("nothing but the digest differs: %v", err)
	}
	w.vm(func(g *state.Guest) { g.Config["description"] = "of a third party" })
	err = v.Apply(t.Context(), vm.Change{Set: map[string]string{"cores": "3"}}, other, nil)
	if !pve.IsKind(err, pve.DigestMismatch) {
		t.Errorf("a third party has changed it: %v", err)
	}
	if got := w.configuration()["cores"]; got != "2" {
		t.Errorf("cores are %s", got)
	}
}

// TestEditDecidesAgain: Edit decides with the configuration as it is when the write succeeds, and gives up in the end.
func TestEditDecidesAgain(t *testing.T) {
	const tries = 5 // request.Conflict
	for _, interferences := range []int{0, 1, 3, tries} {
		w := newWorld(t, map[string]string{"cores": "1"})
		v, _ := w.viewOf()
		decisions := 0
		err := v.Edit(t.Context(), func(_ context.Context, read pve.PendingConfig) (vm.Change, error) {
			if decisions++; decisions <= interferences {
				w.vm(func(g *state.Guest) { g.Config["cores"] += "0" })
			}
			return vm.Change{Set: map[string]string{"description": "cores " + read.Current()["cores"]}}, nil
		})
		got := w.configuration()
		if interferences == tries {
			if !pve.IsKind(err, pve.DigestMismatch) || decisions != tries || got["description"] != "" {
				t.Errorf("always changed: %d decisions, %v, %q", decisions, err, got["description"])
			}
			continue
		}
		if err != nil || decisions != interferences+1 || got["description"] != "cores "+got["cores"] {
			t.Errorf("changed %d times: %d decisions, %v, %q", interferences, decisions, err, got["description"])
		}
	}
}

// TestEditWaitsForALock: a lock changes the digest. Edit waits for its end before it decides again.
func TestEditWaitsForALock(t *testing.T) {
	w := newWorld(t, nil)
	v, _ := w.viewOf()
	w.sim.HoldLock(theVM, "backup", time.Minute, "root@pam")
	began, decisions := w.s.clock.Now(), 0
	err := v.Edit(t.Context(), func(context.Context, pve.PendingConfig) (vm.Change, error) {
		decisions++
		return vm.Change{Set: map[string]string{"description": "new"}}, nil
	})
	if err != nil || decisions != 2 || w.configuration()["description"] != "new" {
		t.Errorf("%d decisions, %v", decisions, err)
	}
	if waited := w.s.clock.Now().Sub(began); waited < 50*time.Second {
		t.Errorf("waited %s for a lock of one minute", waited)
	}
}

// TestEditSendsNothing: an empty change makes no request, and an error of decide ends the edit.
func TestEditSendsNothing(t *testing.T) {
	w := newWorld(t, nil)
	v, _ := w.viewOf()
	refused := errors.New("refused")
	for _, want := range []error{nil, refused} {
		err := v.Edit(t.Context(), func(context.Context, pve.PendingConfig) (vm.Change, error) { return vm.Change{}, want })
		if !errors.Is(err, want) || w.sim.LastOp() != 0 {
			t.Errorf("%v, %d requests", err, w.sim.LastOp())
		}
	}
}

// TestKnownMakesNoRequest: what PVE puts in force as it is sent is known without a read; other options are not.
func TestKnownMakesNoRequest(t *testing.T) {
	for option, reads := range map[string]uint64{"description": 0, "cores": 1} {
		w := newWorld(t, nil)
		v, _ := w.viewOf()
		config, err := v.Fresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Apply(t.Context(), vm.Change{Set: map[string]string{option: "7"}}, config, nil); err != nil {
			t.Fatal(err)
		}
		if config, err = v.Known(t.Context()); err != nil || config.Current()[option] != "7" {
			t.Errorf("%s: %v, %q", option, err, config.Current()[option])
		}
		if n := uint64(w.sim.LastOp()); n != 1+reads {
			t.Errorf("%s: %d requests", option, n)
		}
	}
}

// TestFollow: a VM that a third party moved is found on its new node; one that is gone is noted.
func TestFollow(t *testing.T) {
	w := newWorld(t, nil)
	v, claim := w.viewOf()
	w.vm(func(g *state.Guest) { g.Node = "pve2" })
	w.sim.Advance(20 * time.Second)
	if seen := v.Follow(t.Context(), claim.Ref, "pve1"); seen != Found || v.Node() != "pve2" || v.IsFresh() {
		t.Errorf("%v on node %s", seen, v.Node())
	}
	w.change(func(world *state.World) { delete(world.Guests, theVM) })
	w.sim.Advance(20 * time.Second)
	if seen := v.Follow(t.Context(), claim.Ref, "pve2"); seen != Gone || !v.Gone {
		t.Errorf("%v, gone %v", seen, v.Gone)
	}
}

// TestForetold: the result of a change is foretold only where all of it certainly waits, and where the status shows a
// process that is older than the change.
func TestForetold(t *testing.T) {
	for name, c := range map[string]struct {
		prior   map[string]string // what waits before the change
		change  vm.Change
		young   bool        // the process began after the change
		before  func(*View) // the status is asked for
		happens func(*state.Guest)
		want    map[string]string // the value after the next start; nil: nothing is foretold
	}{
		"set":               {change: vm.Change{Set: map[string]string{"cores": "2"}}, want: map[string]string{"cores": "2", "memory": "512"}},
		"deleted":           {change: vm.Change{Delete: []string{"memory"}}, want: map[string]string{"memory": ""}},
		"a younger process": {change: vm.Change{Set: map[string]string{"cores": "2"}}, young: true},
		"stopped":           {change: vm.Change{Set: map[string]string{"cores": "2"}}, happens: func(g *state.Guest) { g.Running = nil }},
		"in force at once":  {change: vm.Change{Set: map[string]string{"description": "x"}}},
		"a part of it":      {change: vm.Change{Set: map[string]string{"cores": "2", "description": "x"}}},
		"the identity":      {change: vm.Change{Set: map[string]string{"smbios1": "uuid=" + otherUUID}}},
		"others wait":       {prior: map[string]string{"sockets": "2"}, change: vm.Change{Set: map[string]string{"cores": "2"}}},
		"another request": {change: vm.Change{Set: map[string]string{"cores": "2"}}, before: func(v *View) {
			_ = v.Contend(t.Context(), "pve1", v.IsThere, func(context.Context) error { return nil })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.run(time.Minute)
			w.vm(func(g *state.Guest) { g.Pending = c.prior })
			v, _ := w.viewOf()
			read, err := v.Fresh(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Apply(t.Context(), c.change, read, nil); err != nil {
				t.Fatal(err)
			}
			w.vm(func(g *state.Guest) {
				if c.young {
					g.Running.StartedAt = w.sim.World().Clock.Now()
				}
				if c.happens != nil {
					c.happens(g)
				}
			})
			if c.before != nil {
				c.before(v)
			}
			status, err := v.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var config pve.PendingConfig
			ok := false
			if v.Written != nil {
				config, ok = v.Written.Foretold(status)
			}
			if ok != (c.want != nil) {
				t.Fatalf("foretold: %t", ok)
			}
			for option, value := range c.want {
				if got := config.Merged()[option]; got != value {
					t.Errorf("%s is foretold as %q, want %q", option, got, value)
				}
			}
			is, err := v.Fresh(t.Context())
			if ok && (err != nil || !maps.Equal(is.Merged(), config.Merged()) || !slices.Equal(is.Waiting(), config.Waiting())) {
				t.Errorf("%v: foretold %v, and it is %v", err, config.Entries, is.Entries)
			}
		})
	}
}
