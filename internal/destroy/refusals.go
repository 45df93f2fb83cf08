package destroy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// refusals is the part of a destroy that asks what speaks against it.
type refusals struct{ *destruction }

// refuse finds what makes PVE refuse the destroy, or leave something behind, while nothing has been touched.
func (d refusals) refuse(ctx context.Context) error {
	if d.halfDestroyed {
		return nil
	}
	if err := d.unlinked(ctx); err != nil {
		return err
	}
	if err := d.unreferenced(ctx); err != nil {
		return err
	}
	if err := unadopted(d.destruction); err != nil {
		return err
	}
	if err := unforeseen(ctx, d.destruction, d.node, d.config, "Nothing was touched"); err != nil {
		return err
	}
	if err := unsaved(d.destruction, d.config.Current()); err != nil {
		return err
	}
	if err := d.unshared(ctx); err != nil {
		return err
	}
	if err := d.reachable(ctx); err != nil {
		return err
	}
	return forgetReused(ctx, d.destruction)
}

// unshared refuses to destroy a VM whose volumes another guest uses.
func (d refusals) unshared(ctx context.Context) error {
	vmid := d.r.Ref.VMID
	volumes := d.ownVolumes()
	if len(volumes) == 0 {
		return nil
	}
	scope, err := d.d.use.Scope(ctx, d.resources, d.node, volumes)
	if err != nil {
		return err
	}
	if !d.use.Answers(scope, d.d.clock.Now(), guard.UseLife) {
		if d.use, err = d.others(ctx, scope); err != nil {
			return fmt.Errorf("look whether another guest uses a volume of VM %d; it was not removed, nor was anything else "+
				"touched: %w", vmid, err)
		}
		d.seenAt = time.Time{} // that took its time; but it has read the VM last, too
		if seen, ok := d.use.Of(vmid); ok && seen.Guest.Node == d.node && seen.Config.Digest == d.config.Digest {
			d.seenAt = seen.At
		}
	}
	if d.use, err = d.d.use.Confirm(ctx, d.use, vmid, volumes...); err != nil {
		return fmt.Errorf("look whether another guest uses a volume of VM %d; it was not removed, nor was anything else "+
			"touched: %w", vmid, err)
	}
	held := guest.VolumeOf(d.config.Current()[vm.HolderSlot])
	if d.r.Holder && slices.Contains(volumes, held) {
		if strays := d.use.Strays(held, scope); len(strays) > 0 {
			return &volumeuse.StrayError{Node: d.node, Volume: held, Strays: strays}
		}
	}
	if err := guard.InUse(d.use, volumes, vmid); err != nil {
		var used *guard.InUseError
		if errors.As(err, &used) && used.Clones && d.config.Current()["template"] == "1" { // which the listing did not tell
			return linked(vmid, used.Users, nil)
		}
		return fmt.Errorf("VM %d was not touched: %w. Detach it there, or delete the snapshot, then destroy again", vmid, err)
	}
	for _, volume := range volumes {
		if doubt := d.use.Doubt(volume, scope); d.r.Holder && doubt != nil {
			return fmt.Errorf("VM %d was not touched: whether another guest uses its disk cannot be told: %w", vmid, doubt)
		}
	}
	return nil
}

// others reads the guests that can use the volumes of the VM. Of a VM that holds a disk all guests count: a third party
// may have moved it from under one of another node. Where they cannot all be read, as while a node is off, those that
// reach the volumes decide alone.
func (d *destruction) others(ctx context.Context, scope string) (*volumeuse.Use, error) {
	if d.r.Holder && scope != "" {
		if all, err := d.d.use.Since(ctx, d.asked, ""); err == nil {
			return all, nil
		}
	}
	return d.d.use.Since(ctx, d.asked, scope)
}

// unlinked refuses to destroy a VM whose volumes are the base of others: a template, or a VM with an image that was
// made a backing file by hand. Thin LVM does not record that, and its clones do not need their template (pve-storage
// LvmThinPlugin.pm).
func (d refusals) unlinked(ctx context.Context) error {
	current := d.config.Current()
	if current["template"] != "1" {
		if err := guard.CheckBases(ctx, d.d.Guard, d.node, d.ownVolumes()); err != nil {
			return fmt.Errorf("VM %d was not touched: %w. Move that one, then destroy again", d.r.Ref.VMID, err)
		}
		return nil
	}
	clones, err := d.d.linkedClones(ctx, d.resources, d.node, guest.OwnVolumes(d.r.Ref.VMID, current))
	if err != nil {
		return fmt.Errorf("%w; template %d was not touched", err, d.r.Ref.VMID)
	}
	if len(clones) == 0 {
		return nil
	}
	return linked(d.r.Ref.VMID, texts(clones), nil)
}

func guestName(resources pve.Resources, vmid int) string {
	guest, ok := resources.Guest(vmid)
	switch {
	case !ok:
		return fmt.Sprintf("VM %d, which is not listed", vmid)
	case guest.Name == "":
		return fmt.Sprintf("VM %d", vmid)
	}
	return fmt.Sprintf("VM %d, %s", vmid, guest.Name)
}

func linked(vmid int, clones []string, err error) error {
	return &guest.FieldError{Path: "template", Summary: fmt.Sprintf("Template %d has linked clones", vmid), Err: err,
		Detail: fmt.Sprintf("Their disks are based on its own: %s. Nothing was touched. Destroy these VMs first, or make "+
			"them independent by moving their disks to another storage, once they have no snapshots",
			strings.Join(clones, "; "))}
}

// unreferenced refuses, with on_destroy.purge = false, to destroy a VM that HA or replication names: PVE would refuse
// that after the guest was shut down (qemu-server API2/Qemu.pm destroy_vm). Otherwise it notes where replication has
// put copies. PVE leaves those: it drops the jobs alone (pve-guest-common ReplicationConfig.pm remove_vmid_jobs).
func (d refusals) unreferenced(ctx context.Context) error {
	vmid := d.r.Ref.VMID
	if d.r.Ref.Node != d.node && d.copied[d.r.Ref.Node] == "" {
		d.copied[d.r.Ref.Node] = wasThere
	}
	look := references{d.d, d.r, d.asked}
	d.purged = look.backupJobs(ctx) // this look may be a repeated one
	if !isCluster(d.resources) {
		return nil
	}
	var names []string
	jobs, err := look.replicationJobs(ctx)
	if err != nil && !pve.IsKind(err, pve.Denied) && !pve.IsKind(err, pve.Unsupported) {
		return fmt.Errorf("look whether VM %d is replicated; it was not touched: %w", vmid, err)
	}
	for _, job := range jobs {
		if job.VMID == vmid {
			names = append(names, fmt.Sprintf("replication job %s to node %s (%s)", job.ID, job.Target,
				shell.Or(shell.Command("pvesr delete {}", job.ID), shell.ByHand)))
			d.purged = append(d.purged, entryOf(job))
			d.copied[job.Target] = "replication job " + job.ID + " made them, and PVE drops the job but not its copies"
		}
	}
	listed, _ := d.resources.Guest(vmid)
	if !d.r.KeepReferences {
		if listed.HAState != "" {
			d.purged = append(d.purged, look.ha(ctx)...)
		}
		return nil
	}
	_, err = d.d.api.HA().Resource(ctx, vmid)
	if err == nil || listed.HAState != "" && !pve.IsKind(err, pve.NotFound) {
		names = append(names, fmt.Sprintf("HA resource vm:%d (`ha-manager remove vm:%d`)", vmid, vmid))
	}
	if len(names) == 0 {
		return nil
	}
	return named(vmid, names, nil)
}

// named is the refusal of on_destroy.purge = false.
func named(vmid int, names []string, err error) error {
	return &guest.FieldError{Path: "on_destroy.purge", Summary: fmt.Sprintf("VM %d is still named elsewhere", vmid),
		Err: err,
		Detail: fmt.Sprintf("PVE refuses to destroy it while HA or a replication job names it, and on_destroy.purge = "+
			"false leaves these: %s. "+
			"The VM was not removed. Remove them yourself, or set on_destroy.purge = true and apply, then destroy",
			strings.Join(names, "; "))}
}

// managedByOthers is why an uncommitted VM stays that HA or a replication job names: no request of the create has
// made that entry, and PVE removes the VM only together with it (qemu-server API2/Qemu.pm destroy_vm, purge).
func managedByOthers(vmid int, node string, err error) error {
	text := fmt.Sprintf("VM %d on node %s was not removed: HA or a replication job names it, and this create has made "+
		"no such entry. PVE would remove that together with the VM. Look at `ha-manager config` and `pvesr list`, and take "+
		"the VM out there first",
		vmid, node)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return errors.New(text)
}

// spares reports whether a third party has protected the VM before its create was committed.
func spares(r *removal, config map[string]string) bool {
	return config["protection"] == "1" && !r.committed && !r.Protected
}

// spare refuses to remove such a VM.
func spare(r *removal, f *facts) (outcome, error) {
	return nextPass, final{fmt.Errorf("VM %d on node %s is protected, and its create has not done that: another user "+
		"keeps it. It was not removed. Take its protection away (in PVE's interface: Options, Protection), then apply or "+
		"destroy again; or import it, to keep it", r.VMID, f.node)}
}

// reachable refuses to destroy a VM whose volumes PVE cannot remove now. PVE would log that, remove the configuration
// anyway and orphan the volumes (qemu-server QemuServer.pm, destroy_vm). Storages that the identity may not see
// are not judged.
func (d refusals) reachable(ctx context.Context) error {
	vmid, node := d.r.Ref.VMID, d.node
	volumes := d.ownVolumes()
	if len(volumes) == 0 {
		return nil
	}
	storages, err := d.storages(ctx, node)
	if err != nil {
		return fmt.Errorf("look whether the volumes of VM %d can be removed; it was not touched: %w", vmid, err)
	}
	for _, storage := range storages {
		for _, volume := range volumes {
			if volid.Storage(volume) != storage.ID || storage.Enabled && storage.Active {
				continue
			}
			state, back := "not available", "bring the storage back"
			if !storage.Enabled { // pve-storage Storage.pm storage_info does not tell the two apart
				state, back = "disabled", "enable the storage, or add the node to its `nodes`"
			}
			return fmt.Errorf("storage %s, which holds %s, is %s on node %s: PVE would remove VM %d and leave the volume "+
				"behind. The VM was not touched; %s, then destroy again", storage.ID, volume, state, node, vmid, back)
		}
	}
	isListed := func(volume string) bool {
		return slices.ContainsFunc(storages, func(s pve.Storage) bool { return s.ID == volid.Storage(volume) })
	}
	return onRemovedStorage(ctx, d.destruction, slices.DeleteFunc(volumes, isListed))
}

// refused explains PVE's refusal of a destroy that the look before could not foresee; nil if it is none.
func (r *removal) refused(ctx context.Context, err error) error {
	if !pve.IsKind(err, pve.Busy) {
		return nil
	}
	said := err.Error()
	switch {
	case strings.Contains(said, "still in use by linked clone"):
		return linked(r.VMID, r.d.basedOn(ctx, r.VMID), err)
	case !r.committed && (strings.Contains(said, "purge parameter not set") || strings.Contains(said,
		"There is a replication job")):
		return managedByOthers(r.VMID, r.Baseline.Node, err)
	case strings.Contains(said, "purge parameter not set"), strings.Contains(said, "There is a replication job"):
		return named(r.VMID, []string{"see what PVE says"}, err)
	}
	return nil
}

// basedOn looks in all readable configurations for volumes based on those of a template.
func (d *Destroyer) basedOn(ctx context.Context, vmid int) []string {
	var clones []string
	resources, err := d.api.Cluster().Resources(ctx)
	if err != nil {
		return []string{"which ones could not be told"}
	}
	for _, guest := range resources.Guests() {
		if guest.Type != "qemu" || guest.VMID == vmid {
			continue
		}
		config, err := d.api.QEMU(guest.Node, guest.VMID).Config(ctx)
		if err != nil {
			continue
		}
		for _, value := range config.Values {
			if strings.Contains(value, fmt.Sprintf("base-%d-disk-", vmid)) {
				clones = append(clones, fmt.Sprintf("VM %d, %s", guest.VMID, guest.Name))
				break
			}
		}
	}
	if len(clones) == 0 {
		return []string{"VMs that this identity may not see"}
	}
	slices.Sort(clones)
	return clones
}

// mayDestroy refuses a VM that is not the one in state, and a protected one.
func mayDestroy(r Request, node string, config map[string]string) error {
	if err := guest.Guard(r.Ref, node, config); err != nil {
		return err
	}
	if r.Ref.Identity.None {
		return &guest.FieldError{Path: "smbios", Summary: fmt.Sprintf("VM %d cannot be told from another", r.Ref.VMID),
			Detail: "It has neither a uuid nor a time of creation, so nothing shows that it is the one in state. It was not " +
				"touched. Set smbios = { uuid = \"...\" } and apply, then destroy"}
	}
	if r.Ref.Identity.IsZero() {
		return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("State does not tell which VM %d it means", r.Ref.VMID),
			Detail: "State has no uuid of it, and Terraform hands the destroy of a tainted resource nothing else that was not " +
				"refreshed before (-refresh=false). It was not touched. \"terraform state rm\" makes this state forget it; if no " +
				"other state has it, an import takes it over then, or an apply completes it where the import says that it is " +
				"not complete"}
	}
	if config["protection"] == "1" && !r.Holder {
		return &guest.FieldError{Path: "protection", Summary: fmt.Sprintf("VM %d is protected", r.Ref.VMID),
			Detail: "It was not touched. Set protection = false and apply, then destroy"}
	}
	return nil
}

// unlocated says what a failed look at the VM leaves open.
func unlocated(ref guest.Ref, resources pve.Resources, err error) error {
	node, ok := resources.Node(ref.Node)
	if !ok || node.Status == "online" {
		return err
	}
	return fmt.Errorf("node %s is %s, so whether VM %d is still there, and what of it, cannot be told. It stays in "+
		"state; destroy again when the node is back: %w", node.Node, node.Status, ref.VMID, err)
}
