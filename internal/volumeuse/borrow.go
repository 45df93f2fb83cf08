package volumeuse

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// ErrNotHeld is why a volume may not be attached to a VM whose id it does not carry: no VM holds it for others.
var ErrNotHeld = errors.New("no proxmox_disk holds it")

// ElsewhereError says that a volume cannot be attached on Node: the VM whose id it carries is on another one, and each
// of the two nodes has a storage of its own by that name.
type ElsewhereError struct {
	Volume   string
	VMID     int
	On, Node string
}

// Error names the volume, its node and the other one.
func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("%s is a volume of VM %d on node %s, and %s of node %s is another storage", e.Volume, e.VMID, e.On,
		volid.Storage(e.Volume), e.Node)
}

// BorrowedError says that a held volume, or a device of a node, is attached to a guest already. PVE attaches it anyway,
// and starts both (qemu-server API2/Qemu.pm create_disks, QemuServer.pm vm_start): two guests on one volume destroy its
// content.
type BorrowedError struct {
	Volume string
	Users  []string
}

// Error names the volume and the guests.
func (b *BorrowedError) Error() string {
	return fmt.Sprintf("%s has %s", strings.Join(b.Users, "; "), b.Volume)
}

// Borrow is nil where a VM may attach a volume that another VM holds: that one is there for nothing else and is off,
// and no other guest has the volume, in force, pending or in a snapshot. Another volume with that id, which this VM may
// have itself, is a StrayError. runs says that the holder runs.
func (s *Use) Borrow(volume string, vmid int, runs bool) error {
	owner, _ := volid.Owner(volume)
	holder, there := s.Of(owner)
	held := vm.HeldVolume(owner, holder.Config.Current())
	switch {
	case !there:
		return fmt.Errorf("%w: VM %d, whose id it carries, is not among the guests that can use it%s", ErrNotHeld, owner,
			s.on())
	case holder.Guest.Type != "qemu" || s.places.CompareVolumes(held, volume) != Same:
		return fmt.Errorf("%w: it is a disk of %s", ErrNotHeld, User{Guest: holder.Guest, Where: "its id"})
	case s.Doubt(volume, s.scope) != nil:
		return fmt.Errorf("whether another guest uses %s cannot be told: %w", volume, s.Doubt(volume, s.scope))
	case runs:
		return &BorrowedError{Volume: volume, Users: []string{fmt.Sprintf("VM %d, which holds it and should be off, runs "+
			"and", owner)}}
	}
	used := &BorrowedError{Volume: volume}
	for _, user := range s.UsersOf(volume, vmid) {
		if (user.Guest.VMID != owner || user.Where != vm.HolderSlot) && overlap(volume, user.As) {
			used.Users = append(used.Users, user.String())
		}
	}
	if len(used.Users) > 0 {
		return used
	}
	if strays := s.Strays(volume, ""); len(strays) > 0 {
		return &StrayError{Volume: volume, Strays: strays}
	}
	return nil
}

// passThrough is nil where a VM may get a device of its node: no other guest of the node has it. Only root@pam may pass
// one through (pve-storage Storage.pm check_volume_access), and no guest is hidden from that user.
func (s *Use) passThrough(node string, vmid int, device string) error {
	used := &BorrowedError{Volume: device}
	for _, user := range s.UsersOn(node, device, vmid) {
		used.Users = append(used.Users, user.String())
	}
	if len(used.Users) > 0 {
		return used
	}
	return nil
}

// Holder is the guest whose id a volume carries, with its state as the latest listing has it.
func (s *Use) Holder(volume string) (Reading, bool) {
	owner, _ := volid.Owner(volume)
	r, ok := s.Of(owner)
	if listed, there := s.Resources.Guest(owner); ok && there {
		r.Guest.Status = listed.Status
	}
	return r, ok
}

// ofHolder is a reading of a scope that tells of the guest which holds a volume: the latest of all guests, if by that
// one it is free, else one of that guest alone, by which no other uses it.
func (s *Reader) ofHolder(ctx context.Context, scope, volume string) (*Use, error) {
	s.mu.Lock()
	latest := s.latest[scope]
	s.mu.Unlock()
	if latest != nil && s.isYoung(scope) && latest.Borrow(volume, 0, false) == nil {
		return latest, nil
	}
	places, err := s.Places(ctx)
	if err != nil {
		return nil, err
	}
	made := &Use{scope: scope, places: places}
	made.begin(nil, false)
	if made.Resources, _, err = s.api.Listing().Recent(ctx); err != nil {
		return nil, err
	}
	if found, err := s.readHolder(ctx, made, volume); found || err != nil {
		return made, err
	}
	if made.Resources, err = s.api.Cluster().Resources(ctx); err == nil { // it is new, or has moved
		_, err = s.readHolder(ctx, made, volume)
	}
	return made, err
}

// readHolder reads the guest that holds a volume, if it is where the listing has it.
func (s *Reader) readHolder(ctx context.Context, made *Use, volume string) (found bool, err error) {
	owner, _ := volid.Owner(volume)
	holder, there := made.Resources.Guest(owner)
	if !there || made.scope != "" && holder.Node != made.scope {
		return false, nil
	}
	moved, err := s.readAll(ctx, made, []pve.Resource{holder})
	return !moved, err
}

// on says of which node the guests were read.
func (s *Use) on() string {
	if s.scope == "" {
		return ""
	}
	return " (its storage is that of node " + s.scope + ")"
}

// WhyNotBorrowed says for people why a volume cannot be attached, by the error of Borrow, or of a look that failed.
func WhyNotBorrowed(err error) string {
	var taken *BorrowedError
	var stray *StrayError
	switch {
	case errors.As(err, &stray):
		return "It is not exchanged for the other. If it is the one to keep, detach the other first, in an apply or a " +
			"command of its own; otherwise put that one back into the VM that holds it"
	case errors.Is(err, ErrNotHeld):
		return "A VM attaches volumes that carry its own id, and disks of proxmox_disk; import_from copies a volume of " +
			"another VM"
	case errors.As(err, &taken):
		return "Two guests on one disk destroy what is on it. Detach it there first, or delete the snapshot. If this apply " +
			"takes it from another VM, let this VM depend on that one (depends_on). If it is the VM that this one replaces, " +
			"leave create_before_destroy out: that VM lets go of the disk when it is destroyed, which comes after this create"
	}
	return "Whether another guest has it could not be looked at"
}
