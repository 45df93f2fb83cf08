// Package disk makes, grows and removes disks that outlive the VMs which use them. Each is held by a VM of its own that
// is never started, and that other packages create, change and remove like any other.
package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// Disks are those of one cluster.
type Disks struct {
	api     *pve.Client
	jobs    *request.Runner
	guests  *guest.Guests
	remover *destroy.Destroyer
	creator *create.Creator
	changer *update.Changer
	// storages, and contents of them, are as the refreshes of a run share them.
	storages request.Recent[pve.Resource]
	contents request.Recent[[]pve.Volume]

	mu     sync.Mutex
	failed map[int]*guest.Proof // of creates that left something, as refreshes of this run have read them, by VMID
	seen   map[int]*seen        // by VMID
}

// seen is what a run has seen of a disk in state.
type seen struct {
	ref   guest.Ref // as the last refresh has read it
	is    Disk
	shown bool // Terraform has shown its state to a plan, so it is not tainted
	named bool // a plan has named what goes with it, should it be tainted
}

// contentsLife is long enough for the refresh of some hundred disks, which says what was true when it began.
const contentsLife = time.Minute

// New makes Disks.
func New(jobs *request.Runner, guests *guest.Guests, remover *destroy.Destroyer, creator *create.Creator,
	changer *update.Changer) *Disks {
	return &Disks{api: jobs.API, jobs: jobs, guests: guests, remover: remover, creator: creator, changer: changer,
		storages: request.Recent[pve.Resource]{Life: contentsLife},
		contents: request.Recent[[]pve.Volume]{Life: contentsLife}, failed: map[int]*guest.Proof{},
		seen: map[int]*seen{}}
}

// Wanted is a disk as it is configured.
type Wanted struct {
	Node, Storage, Format string // "": the only node; the storage's format
	Size                  int64  // bytes
	Name, Description     string
	Pool                  string
}

// Disk is a disk as the server has it.
type Disk struct {
	VMID     int // of the VM that holds it
	Node     string
	Identity guest.Identity
	// Volume is "" where that VM does not have it any more.
	Volume, Format    string
	Size              int64 // bytes
	Name, Description string
	Pool              string
	// Marked: the description says that the VM holds a disk. Without that no further VM is given it.
	Marked bool
	// Leftover is the proof for a disk whose VM bears the mark of a create instead (guest.Leftover).
	Leftover *guest.Proof
	// Protected: PVE refuses to remove that VM.
	Protected bool
	// BackedUp: a backup of that VM has the disk, too.
	BackedUp bool
}

// Storage is the storage of the disk.
func (d Disk) Storage() string { return volid.Storage(d.Volume) }

// memory of the VM that holds a disk, in MiB: the least that PVE takes (qemu-server QemuServer/Memory.pm).
const memory = 16

// Spec is the VM that holds a disk. Backups leave the disk out: to back up a VM that is off PVE starts a QEMU on its
// disks, unless none is to be backed up (qemu-server VZDump/QemuServer.pm enforce_vm_running_for_backup, "backup
// contains no disks"). Without a boot device nothing boots from it where a third party starts the VM.
func (w Wanted) Spec(volume string) vm.Spec {
	backup := false
	d := vm.Disk{Storage: w.Storage, Volume: volume, DiskOptions: vm.DiskOptions{Backup: &backup}}
	if w.Size > 0 {
		d.Size = &w.Size
	}
	if w.Format != "" {
		d.Format = &w.Format
	}
	least, protected, description := int64(memory), true, vm.HolderDescription(w.Description)
	s := vm.Spec{Options: vm.Options{Description: &description, Protection: &protected, BootOrder: []string{}},
		Memory: vm.Memory{Size: &least}, Disks: map[string]vm.Disk{vm.HolderSlot: d}}
	if w.Name != "" {
		s.Name = &w.Name
	}
	return s
}

// Create makes a whole disk, or nothing: create.Created says what an error means.
func (d *Disks) Create(ctx context.Context, w Wanted, r create.Request) (Disk, create.Created, error) {
	r.Node, r.Spec, r.Pool = w.Node, w.Spec(""), w.Pool
	made, err := d.creator.Create(ctx, r)
	return of(made.Guest, w.Pool), made, err
}

// of is the disk that a VM holds.
func of(g guest.Guest, pool string) Disk {
	is := g.Spec.Disks[vm.HolderSlot]
	d := Disk{VMID: g.VMID, Node: g.Node, Identity: g.Identity, Pool: cmp.Or(g.Pool, pool), Leftover: g.Leftover}
	if owner, ok := volid.Owner(is.Volume); ok && owner == g.VMID {
		d.Volume, d.Format, d.Size = is.Volume, volid.Format(is.Volume), is.Bytes()
		d.BackedUp = is.Backup == nil || *is.Backup
	}
	if g.Spec.Name != nil {
		d.Name = *g.Spec.Name
	}
	d.Protected = g.Spec.Protection != nil && *g.Spec.Protection
	if text := g.Spec.Description; text != nil {
		d.Description, d.Marked = vm.HolderText(*text)
	}
	return d
}

// Read reads a disk in state. Gone and Unknown are as in guest.Guests.Read.
func (d *Disks) Read(ctx context.Context, ref guest.Ref) (Disk, guest.Presence, error) {
	ref.Status = string(guest.Stopped) // as a VM that holds a disk is; where the listing says so it need not be asked
	found, seen, err := d.guests.Read(ctx, ref)
	if err != nil || seen != guest.Found || found.Placeholder {
		return Disk{}, seen, err
	}
	held := of(found, "")
	if held.Marked && held.Volume != "" {
		d.remover.NoteHeld(held.Node, held.Volume)
	}
	return d.measuredBy(ctx, held, d.listed), seen, nil
}

// measured is a disk with the size that its storage knows. A VM that has it attached may have grown it, which the
// configuration of the holder does not show. If the storage does not tell, the size is that of the configuration.
func (d *Disks) measured(ctx context.Context, held Disk) Disk {
	return d.measuredBy(ctx, held, func(ctx context.Context, held Disk) ([]pve.Volume, error) {
		return d.guests.Volumes(ctx, held.Node, held.Storage(), held.VMID)
	})
}

// listed are the volumes of a disk's storage, read once for the refreshes of a run. Of a storage of files PVE would
// look into every image, other guests' too (pve-storage Plugin.pm list_images); there each disk is asked about by
// itself.
func (d *Disks) listed(ctx context.Context, held Disk) ([]pve.Volume, error) {
	at, err := d.storages.Get(ctx, d.jobs.Clock, held.Node+"/"+held.Storage(),
		func(ctx context.Context) (pve.Resource, error) {
			resources, _, err := d.api.Listing().Recent(ctx)
			at, _ := resources.Storage(held.Node, held.Storage())
			return at, err
		})
	if err != nil {
		return nil, err
	}
	if !guest.ListsAtOnce(at) {
		return d.guests.Volumes(ctx, held.Node, held.Storage(), held.VMID)
	}
	key := held.Storage()
	if !at.Shared {
		key += " on " + held.Node
	}
	return d.contents.Get(ctx, d.jobs.Clock, key, func(ctx context.Context) ([]pve.Volume, error) {
		return d.api.Storage(held.Node, held.Storage()).Content(ctx, "images", 0)
	})
}

func (d *Disks) measuredBy(ctx context.Context, held Disk,
	list func(context.Context, Disk) ([]pve.Volume, error)) Disk {
	if held.Volume == "" {
		return held
	}
	content, err := list(ctx, held)
	for _, v := range content {
		if err == nil && v.ID == held.Volume && v.Size > held.Size {
			held.Size = v.Size
		}
	}
	return held
}

// Adopt reads a disk for import. It writes nothing.
func (d *Disks) Adopt(ctx context.Context, node string, vmid int) (Disk, error) {
	found, err := d.guests.Adopt(ctx, node, vmid)
	if err != nil {
		return Disk{}, err
	}
	held := of(found, "")
	if !held.Marked || held.Volume == "" {
		return Disk{}, fmt.Errorf("VM %d on node %s holds no disk for others: only what a proxmox_disk has made is taken "+
			"over, which is told by its description and its disk %s", vmid, found.Node, vm.HolderSlot)
	}
	return d.measured(ctx, held), nil
}

// NoteFailed notes what a create knew that left something, for the plans of this run.
func (d *Disks) NoteFailed(proof *guest.Proof) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed[proof.VMID] = proof
}

// Failed are the proofs that were noted, by VMID.
func (d *Disks) Failed() map[int]*guest.Proof {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.failed)
}

// note changes what the run has seen of a disk.
func (d *Disks) note(vmid int, change func(*seen)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[vmid] == nil {
		d.seen[vmid] = &seen{}
	}
	change(d.seen[vmid])
}

// NoteRefreshed notes a disk that was refreshed. Terraform plans it right after that.
func (d *Disks) NoteRefreshed(ref guest.Ref, is Disk) {
	d.note(ref.VMID, func(s *seen) { s.ref, s.is = ref, is })
}

// NoteShown notes that Terraform has shown the state of a disk to a plan, which it does of no tainted one.
func (d *Disks) NoteShown(vmid int) { d.note(vmid, func(s *seen) { s.shown = true }) }

// Unshown are the VMs of the refreshed disks that no plan was shown and of which nothing was named yet, by id. A new
// disk may replace one of them.
func (d *Disks) Unshown() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []int
	for vmid, s := range d.seen {
		if s.ref.VMID != 0 && !s.shown && !s.named {
			all = append(all, vmid)
		}
	}
	slices.Sort(all)
	return all
}

// UnshownTakes is what the destroy of one of them takes along. The next Unshown leaves it out.
func (d *Disks) UnshownTakes(ctx context.Context, vmid int) destroy.Along {
	var r destroy.Request
	d.note(vmid, func(s *seen) { s.named, r = true, removal(s.ref, s.is) })
	r.Replaced = r.Ref.Proof == nil // the leftover of a failed create goes only while nothing names it
	return d.remover.TakesAlong(ctx, r)
}

// TakesAlong is what the destroy of a disk takes along.
func (d *Disks) TakesAlong(ctx context.Context, ref guest.Ref, is Disk) destroy.Along {
	return d.remover.TakesAlong(ctx, removal(ref, is))
}

// removal is the destroy of a disk.
func removal(ref guest.Ref, was Disk) destroy.Request {
	r := destroy.Request{Ref: ref, Pool: was.Pool, Holder: true, GracefulOnly: true,
		Disks: destroy.Disks{Slots: map[string]string{}}} // the plan knows one disk at most
	if was.Volume != "" {
		r.Known, r.Slots[vm.HolderSlot] = []string{was.Volume}, was.Volume
		r.Sizes = map[string]int64{was.Volume: was.Size}
	} else if ref.Proof != nil {
		r.Slots = nil // no refresh has seen its disk
	}
	return r
}

// Delete destroys a disk that no guest uses, or what a create has left that failed. foretold is what its plan has
// named.
func (d *Disks) Delete(ctx context.Context, ref guest.Ref, was Disk, foretold destroy.Along) ([]saga.Residue,
	[]guest.Warning, error) {
	r := removal(ref, was)
	r.Foretold = foretold
	left, warnings, err := d.remover.Delete(ctx, r)
	if stray := (*volumeuse.StrayError)(nil); errors.As(err, &stray) {
		was.Node, was.Volume = stray.Node, stray.Volume // a third party may have moved it since the plan
		err = astray(was, "storage", stray.Strays)
	}
	return left, warnings, err
}
