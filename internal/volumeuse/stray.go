package volumeuse

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Stray is the use of a volume that carries the id of a VM which holds disks for others, and is not the one that this
// VM holds. A third party has moved that VM, or its disk, from under the guest: PVE looks for no other users, and a
// bulk migration takes along every VM of its node that is off (pve-manager 9.2.11 API2/Nodes.pm create_migrate_worker).
// So what the VM holds may be an old copy.
type Stray struct{ User }

// String names the guest and the volume that it has.
func (s Stray) String() string {
	plain := s.User
	plain.Unclear, plain.alias = false, false
	return fmt.Sprintf("%s has %s", plain, s.As)
}

// StrayError says that a volume may be an old copy of one that guests have.
type StrayError struct {
	Node, Volume string // Node is that of the VM that holds it, "" if it does not matter
	Strays       []Stray
}

// Error names the guests and both volumes.
func (e *StrayError) Error() string {
	var all []string
	for _, s := range e.Strays {
		all = append(all, s.String())
	}
	return fmt.Sprintf("%s, of which %s may be an old copy", strings.Join(all, "; "), e.Volume)
}

// carrierKey is the place in an index of volumes with the id of a guest that other guests use. It is no name of a
// volume.
func carrierKey(owner int) string { return "/" + strconv.Itoa(owner) }

// Strays are the guests that have another volume with the id of a holder than the one that it holds, and those that
// have one of that name on a node to which the held volume does not belong. scope is the only node that reaches the
// held volume, "" if there are several.
func (s *Use) Strays(volume, scope string) []Stray {
	var all []Stray
	for _, user := range s.named(carrierKey(ownerOf(volume))) {
		if s.places.CompareVolumes(volume, user.As) == Apart || scope != "" && user.Guest.Node != scope {
			all = append(all, Stray{user})
		}
	}
	return all
}

// Carriers are the guests of the whole cluster that have a volume with the id of a VM which holds a volume, by a
// fresh look; strays are those of them that have another than that one. It is an error if this identity may not see all
// guests.
func (l *Loans) Carriers(ctx context.Context, node, volume string) (users []User, strays []Stray, err error) {
	scope, err := l.scope(ctx, node, volume)
	if err != nil {
		return nil, nil, err
	}
	use, err := l.use.Since(ctx, l.use.Ask(), "")
	if err == nil {
		use, err = l.use.Confirm(ctx, use, ownerOf(volume), volume)
	}
	if err == nil && use.Unseen != nil {
		err = use.Unseen
	}
	if err != nil {
		return nil, nil, fmt.Errorf("look who uses %s: %w", volume, err)
	}
	strays = use.Strays(volume, scope)
	users = slices.DeleteFunc(use.UsersOf(volume, ownerOf(volume)), func(u User) bool {
		return slices.ContainsFunc(strays, func(s Stray) bool { return s.User.same(u) })
	})
	return users, strays, nil
}

func (u User) same(other User) bool {
	return u.Guest.VMID == other.Guest.VMID && u.Where == other.Where && u.As == other.As
}

// suspects are the guests whose use of volumes like one, or with the same id, a reading may refuse.
func (s *Use) suspects(volume string, vmid int) []pve.Resource {
	var all []pve.Resource
	for _, user := range append(s.UsersOf(volume, vmid), s.Namesakes(volume)...) {
		if user.Guest.VMID != vmid {
			all = append(all, user.Guest)
		}
	}
	for _, stray := range s.Strays(volume, "") {
		all = append(all, stray.Guest)
	}
	return all
}
