package update

import (
	"errors"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// becomeAnother makes the VM another one, as when a third party destroyed it and made one that got the id.
func (w *world) becomeAnother() {
	w.alter(func(g *state.Guest) { g.Config["smbios1"] = "uuid=11111111-2222-3333-4444-555555555555" })
}

// TestViewKnowsAnIdentityThatWaits: a uuid that an earlier update has left waiting comes with the restart.
func TestViewKnowsAnIdentityThatWaits(t *testing.T) {
	w := newWorld(t, nil)
	w.start()
	if err := w.api.QEMU("pve1", theVM).UpdateConfig(t.Context(),
		pve.Params{"smbios1": "uuid=11111111-2222-3333-4444-555555555555"}); err != nil {
		t.Fatal(err)
	}
	r := w.request()
	config, err := w.api.QEMU("pve1", theVM).Pending(t.Context())
	w.must(err)
	r.Prior, r.Planned, r.Due = vm.Decode(config.Merged()), vm.Decode(config.Merged()), []string{"smbios1"}
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
