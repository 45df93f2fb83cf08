package change

import (
	"context"
	"errors"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// viewOf is a view of the VM as an update has it when it begins.
func (w *world) viewOf() *view {
	w.t.Helper()
	at, err := w.changer.guests.FindUnlocked(w.t.Context(), w.request().Ref)
	if err != nil {
		w.t.Fatal(err)
	}
	ref := guest.Ref{VMID: theVM, Node: at.Node, Identity: guest.IdentityOf(at.Config.Current())}
	w.sim.ResetOps()
	return newView(w.changer.jobs, w.changer.guests, ref, at.Node, at.Config)
}

// becomeAnother makes the VM another one, as when somebody destroyed it and made one that got the id.
func (w *world) becomeAnother() {
	w.alter(func(g *state.Guest) { g.Config["smbios1"] = "uuid=11111111-2222-3333-4444-555555555555" })
}

// TestViewReadsWhatIsStale: a configuration is read where something was sent since, and not otherwise.
func TestViewReadsWhatIsStale(t *testing.T) {
	w := newWorld(t, nil)
	v := w.viewOf()
	for range 2 {
		if _, err := v.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.sim.LastOp(); n != 0 {
		t.Errorf("%d requests for what is known", n)
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
		t.Errorf("%d requests, want the change and one look", n)
	}
}

// TestViewRefusesAnotherVM: what is read after a request is the VM in state, or an error.
func TestViewRefusesAnotherVM(t *testing.T) {
	w := newWorld(t, nil)
	v := w.viewOf()
	if err := v.Set(t.Context(), pve.Params{"description": "new"}); err != nil {
		t.Fatal(err)
	}
	w.becomeAnother()
	var another *guest.IdentityError
	if _, err := v.Fresh(t.Context()); !errors.As(err, &another) {
		t.Errorf("got %v", err)
	}
	w.sim.ResetOps()
	_, err := w.changer.guests.StartBy(t.Context(), v.Power, "pve1", theVM)
	if !errors.As(err, &another) || w.sent("/status/start") != 0 {
		t.Errorf("asked to start it: %v, %v", err, w.writes())
	}
}

// TestViewKnowsItsOwnNewIdentity: a uuid that this update writes is no sign of another VM.
func TestViewKnowsItsOwnNewIdentity(t *testing.T) {
	w := newWorld(t, nil)
	v := w.viewOf()
	const uuid = "11111111-2222-3333-4444-555555555555"
	config, err := v.Fresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := vm.Change{Set: map[string]string{"smbios1": "uuid=" + uuid}}
	v.next = identityAfter(config, c)
	if err := v.Apply(t.Context(), c, config); err != nil {
		t.Fatal(err)
	}
	if config, err = v.Fresh(t.Context()); err != nil || vm.UUID(config.Current()) != uuid {
		t.Errorf("%v, uuid %q", err, vm.UUID(config.Current()))
	}
}

// TestViewLooksBeforeEachTryOfPower: while a lock is waited for the id may get another VM.
func TestViewLooksBeforeEachTryOfPower(t *testing.T) {
	w := newWorld(t, nil)
	v := w.viewOf()
	tries := 0
	_, err := v.Power(t.Context(), job.Request{Type: "qmstart", Send: func(context.Context) (pve.UPID, error) {
		tries++
		w.becomeAnother()
		return "", &pve.Error{Status: 500, Kind: pve.Locked, Message: "VM is locked (backup)"}
	}})
	var another *guest.IdentityError
	if !errors.As(err, &another) || tries != 1 {
		t.Errorf("%d tries: %v", tries, err)
	}
}

// TestPowerMakesStale: a start or stop changes the configuration only where something waits for it.
func TestPowerMakesStale(t *testing.T) {
	w := newWorld(t, pve.Params{"cores": "1"})
	w.start()
	v := w.viewOf()
	nothing := func(context.Context) (pve.UPID, error) { return "", nil }
	if _, err := v.Power(t.Context(), job.Request{Send: nothing}); err != nil || v.stale {
		t.Errorf("%v, stale %v although nothing waits", err, v.stale)
	}
	if err := v.Set(t.Context(), pve.Params{"cores": "2"}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Power(t.Context(), job.Request{Send: nothing}); err != nil || !v.stale {
		t.Errorf("%v, stale %v although the cores wait", err, v.stale)
	}
}

// TestApplyBearsALock: a lock that came and went changes the digest and nothing else.
func TestApplyBearsALock(t *testing.T) {
	w := newWorld(t, nil)
	v := w.viewOf()
	config, err := v.Fresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := config
	other.Digest = "0000000000000000000000000000000000000000"
	if err := v.Apply(t.Context(), vm.Change{Set: map[string]string{"cores": "2"}}, other); err != nil {
		t.Errorf("nothing but the digest differs: %v", err)
	}
	w.alter(func(g *state.Guest) { g.Config["description"] = "somebody's" })
	if err := v.Apply(t.Context(), vm.Change{Set: map[string]string{"cores": "3"}}, other); !pve.IsKind(err, pve.DigestMismatch) {
		t.Errorf("somebody has changed it: %v", err)
	}
	if got := w.config()["cores"]; got != "2" {
		t.Errorf("cores are %s", got)
	}
}

// TestViewRemembersWhomItSaw: where state has no identity, the VM that the update began with is the one that it goes on with.
func TestViewRemembersWhomItSaw(t *testing.T) {
	w := newWorld(t, nil)
	r := w.request()
	at, err := w.changer.guests.FindUnlocked(t.Context(), r.Ref)
	if err != nil {
		t.Fatal(err)
	}
	v := newView(w.changer.jobs, w.changer.guests, guest.Ref{VMID: theVM, Node: "pve1"}, "pve1", at.Config)
	w.becomeAnother()
	v.Forget()
	var another *guest.IdentityError
	if _, err := v.Fresh(t.Context()); !errors.As(err, &another) {
		t.Errorf("got %v", err)
	}
}

// TestViewKnowsAnIdentityThatWaits: a uuid that an earlier update has left waiting comes with the restart.
func TestViewKnowsAnIdentityThatWaits(t *testing.T) {
	w := newWorld(t, nil)
	w.start()
	if err := w.api.UpdateConfig(t.Context(), "pve1", theVM, pve.Params{"smbios1": "uuid=11111111-2222-3333-4444-555555555555"}); err != nil {
		t.Fatal(err)
	}
	r := w.request()
	r.Due = []string{"smbios1"}
	g, _, err := w.update(r)
	if err != nil || g.Identity.UUID != "11111111-2222-3333-4444-555555555555" {
		t.Errorf("%v, %+v", err, g.Identity)
	}
}

// TestViewKnowsAnIdentityThatCame: a uuid that waited when state was written came with a restart by hand.
func TestViewKnowsAnIdentityThatCame(t *testing.T) {
	w := newWorld(t, nil)
	r := w.request()
	r.Planned.Description = new("new")
	w.becomeAnother()
	var another *guest.IdentityError
	if _, _, err := w.update(r); !errors.As(err, &another) || len(w.writes()) > 0 {
		t.Errorf("state knows of no other uuid: %v, %v", err, w.writes())
	}
	r.Ref.NextUUID = "11111111-2222-3333-4444-555555555555"
	g, _, err := w.update(r)
	if err != nil || g.Identity.UUID != r.Ref.NextUUID || w.config()["description"] != "new" {
		t.Errorf("%v, %+v", err, g.Identity)
	}
}
