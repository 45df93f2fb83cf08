package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// HasVolume reports whether a volume is on its storage, as it is listed. PVE leaves volumes that the identity may not
// see out of a listing, in silence, so one that could be hidden counts as there.
func (g *Guard) HasVolume(ctx context.Context, node, volume string) (listed pve.Volume, there bool, err error) {
	vmid, _ := volid.Owner(volume)
	volumes, err := g.api.Storage(node, volid.Storage(volume)).Content(ctx, "images", vmid)
	if err != nil {
		return listed, false, err
	}
	if at := slices.IndexFunc(volumes, func(v pve.Volume) bool { return v.ID == volume }); at >= 0 {
		return volumes[at], true, nil
	}
	b := guest.OwnBaseline(node, vmid, []string{volume})
	err = b.CheckVisible(ctx, g.guests)
	return listed, len(b.Unlisted) > 0, err
}

// Neighbor is another guest that runs with a volume of a VM, or is suspended to disk with it: it goes on with what its
// memory has of the volume when it is resumed, as if nothing had been written since.
type Neighbor struct {
	VMID      int
	Volume    string
	As        string        // how it names the volume
	Uptime    time.Duration // zero: not known
	Suspended bool          // to disk

	told string
}

// Neighbors are the guests that run with volumes of a VM, or are suspended to disk with them, as far as this identity
// sees them. The error says which were not seen.
func Neighbors(ctx context.Context, g *Guard, node string, vmid int, volumes []string) (all []Neighbor, err error) {
	if len(volumes) == 0 {
		return nil, nil
	}
	scope, err := g.Scope(ctx, nil, node, volumes)
	if err != nil {
		return nil, err
	}
	readings, unseen := readEach(ctx, g, scope)
	for _, volume := range volumes {
		for _, use := range readings {
			for _, user := range use.UsersOn(node, volume, vmid) {
				if !user.Attached || user.Unclear {
					continue
				}
				n := Neighbor{VMID: user.Guest.VMID, Volume: volume, As: user.As, told: user.String()}
				switch runs, err := n.look(ctx, g, user.Guest); {
				case err != nil:
					unseen = append(unseen, fmt.Errorf("see whether %s runs: %w", user, err))
				case runs || n.Suspended:
					all = append(all, n)
				}
			}
		}
	}
	return all, errors.Join(unseen...)
}

// CheckRunning makes sure, as far as this identity sees the guests, that none that runs uses volumes of a VM that is to
// be started, but the known ones. An *InUseError names those that do; any other error says which guests were not seen.
func CheckRunning(ctx context.Context, g *Guard, node string, vmid int, volumes []string,
	known func(Neighbor) bool) error {
	all, unseen := Neighbors(ctx, g, node, vmid, volumes)
	return cmp.Or(Unknown(all, known), unseen)
}

// Writers are the guests that run with a volume which another VM holds for them. PVE asks that VM alone whether it
// runs, and mirrors the disk only where it does. It is off, so PVE would copy the disk under the writes of the others
// (qemu-server API2/Qemu.pm, $import_from_volid and clone_vm). For another volume no guest is read. A guest that cannot
// be read is none of them.
func Writers(ctx context.Context, g *Guard, node, volume string) ([]Neighbor, error) {
	vmid, _ := volid.Owner(volume)
	resources, _, err := g.api.Listing().Recent(ctx)
	holder, listed := resources.Guest(vmid)
	if err != nil || !listed || holder.Type != "qemu" || holder.Template {
		return nil, ctx.Err()
	}
	config, err := g.guests.SourceConfig(ctx, holder.Node, vmid)
	if err != nil || !volid.Same(vm.HeldVolume(vmid, config), volume) {
		return nil, ctx.Err()
	}
	all, _ := Neighbors(ctx, g, node, vmid, []string{volume})
	return slices.DeleteFunc(all, func(n Neighbor) bool { return n.Suspended }), ctx.Err()
}

// NotWhileItRuns says what to do about Writers.
const NotWhileItRuns = "PVE would copy the disk while it is written, and the copy could be torn. Stop that guest, or " +
	"detach the disk from it, and apply again. Where the same apply does that, let this VM depend on that one " +
	"(depends_on). Where it removes that guest, apply that removal first"

// CheckCopies refuses copies of volumes that have Writers, right before they are made. It has the volumes by slots.
func CheckCopies(ctx context.Context, g *Guard, node string, copies map[string]string) error {
	for _, slot := range slices.Sorted(maps.Keys(copies)) {
		if err := CheckCopy(ctx, g, node, guest.ImportPath(slot), copies[slot]); err != nil {
			return err
		}
	}
	return nil
}

// CheckCopy does so for one volume, which the attribute at the path names.
func CheckCopy(ctx context.Context, g *Guard, node, path, volume string) error {
	all, err := Writers(ctx, g, node, volume)
	if err != nil {
		return err
	}
	if err := Unknown(all, func(Neighbor) bool { return false }); err != nil {
		return &guest.FieldError{Path: path, Summary: volume + " cannot be copied while a guest runs with it",
			Detail: NotWhileItRuns, Err: err}
	}
	return nil
}

// Unknown is an *InUseError that names the neighbors that are not known.
func Unknown(all []Neighbor, known func(Neighbor) bool) error {
	used := &InUseError{}
	for _, n := range all {
		if known(n) || used.Volume != "" && used.Volume != n.Volume {
			continue
		}
		used.Volume, used.Users = n.Volume, append(used.Users, n.told)
	}
	if used.Volume == "" {
		return nil
	}
	return used
}

// readEach reads the guests of a scope or, where not all of the cluster can be read, those of each node by itself.
func readEach(ctx context.Context, g *Guard, scope string) (readings []*volumeuse.Use, unseen []error) {
	asked := g.use.Ask()
	use, err := g.use.Since(ctx, asked, scope)
	if err == nil {
		return []*volumeuse.Use{use}, nil
	}
	resources, listErr := g.api.Listing().Shared(ctx)
	if scope != "" || listErr != nil {
		return nil, []error{err}
	}
	for _, n := range resources.Nodes() {
		use, err := g.use.Since(ctx, asked, n.Node)
		if err != nil {
			unseen = append(unseen, err)
			continue
		}
		readings = append(readings, use)
	}
	return readings, unseen
}

// look reports whether the guest runs now; PVE's listing is some seconds old. It notes for how long, or that it is
// suspended to disk.
func (n *Neighbor) look(ctx context.Context, g *Guard, other pve.Resource) (bool, error) {
	if other.Type != "qemu" {
		return other.Status == string(guest.Running), nil
	}
	status, err := g.api.QEMU(other.Node, other.VMID).Status(ctx)
	if pve.IsKind(err, pve.NotFound) { // it is gone, or has moved away from its disk
		return false, nil
	}
	n.Uptime = time.Duration(status.Uptime) * time.Second
	if n.Suspended = !status.IsRunning() && status.Lock == request.Suspended; n.Suspended {
		n.told += ", which is suspended to disk"
	}
	return status.IsRunning(), err
}

// CheckMade makes sure that no other guest has got a disk of a VM that a create has made and not committed, as far as
// that can be told: an *InUseError. At the time alone no other guest had any of its disks, and a third party takes
// longer than UseLife to find and attach one. A guest that cannot be read does not stop the create. One on a node that
// is away, and that can have such a disk, is not waited for: that node would keep the whole cluster from making VMs.
func CheckMade(ctx context.Context, g *Guard, node string, mark ownership.Mark, alone time.Time) error {
	if pve.Elapsed(alone, g.clock.Now()) < UseLife {
		return nil
	}
	resources, _, err := g.api.Listing().Recent(ctx)
	if err != nil {
		return ctx.Err()
	}
	for _, n := range resources.Nodes() {
		away, err := g.api.Listing().IsAway(ctx, n.Node)
		if (away || err != nil) && !isOfNode(ctx, g, resources, node, mark.VMID) {
			return ctx.Err()
		}
	}
	err = g.CheckUncommitted(ctx, node, mark)
	if used := (*InUseError)(nil); errors.As(err, &used) {
		return err
	}
	return ctx.Err()
}

// isOfNode reports whether the guests of its node alone can have the disks of a VM.
func isOfNode(ctx context.Context, g *Guard, resources pve.Resources, node string, vmid int) bool {
	config, err := g.api.QEMU(node, vmid).Config(ctx)
	if err != nil {
		return false
	}
	scope, err := g.use.Scope(ctx, resources, node, guest.OwnVolumes(vmid, config.Values))
	return err == nil && scope == node
}

// proveOwn makes evidence for volumes of a VM in state, and refuses those that it may have by name alone.
func proveOwn(ctx context.Context, g *Guard, v InState, c Claim) (Evidence, error) {
	e, err := g.Prove(ctx, c)
	if err != nil || v.VolumesAt != "" || len(c.Volumes) == 0 {
		return e, err
	}
	astray, err := guest.Strays(ctx, g.guests, v.Ref, v.Node, e.Config())
	if err != nil {
		return Evidence{}, err
	}
	astray.Volumes = slices.DeleteFunc(astray.Volumes, func(volume string) bool {
		return !slices.Contains(c.Volumes, volume)
	})
	if len(astray.Volumes) == 0 {
		return e, nil
	}
	return Evidence{}, &guest.FieldError{Path: "node", Summary: fmt.Sprintf("VM %d may have disks of others", v.VMID),
		Detail: astray.Detail(v.VMID, v.Node, "They were left as they are")}
}
