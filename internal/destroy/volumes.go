package destroy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// attach gives our VM the volumes of its VMID that it does not name, so that they are destroyed with it. Volumes that
// outlived it once are first freed by themselves, as are those that cannot be attached, while the VM keeps the VMID.
func (r *removal) attach(ctx context.Context, f *facts) (outcome, error) {
	f.attached = true
	config := f.config.Values
	params, next := pve.Params{}, 0
	copies := freeCopies(ctx, r, f)
	for _, v := range r.left {
		// The next look tells what free has done.
		if copies[v] || isIn(r, f.node, config, v) || r.of(v).tried > 0 && r.free(ctx, r.ours(f.node), v) == nil {
			continue
		}
		for ; config[fmt.Sprintf("unused%d", next)] != ""; next++ {
		}
		params[fmt.Sprintf("unused%d", next)] = v
		r.own(v)
		next++
	}
	alone := false
	if len(params) > 0 {
		if err := r.change(ctx, f, params); err != nil {
			if pve.IsKind(err, pve.DigestMismatch) {
				return nextPass, err
			}
			if r.tries.attach++; r.tries.attach < 2 {
				return nextPass, err
			}
			alone = true
		}
	}
	for _, v := range r.left {
		if copies[v] {
			continue
		}
		if alone && r.of(v).tried == 0 && !isIn(r, f.node, config, v) {
			_ = r.free(ctx, r.ours(f.node), v) // the next look tells
		}
		r.of(v).tried++
	}
	return decideAgain, nil
}

// freeAll frees the volumes of a VM that cannot be unlocked, while its locked configuration keeps the VMID from others.
// Those that it names go with the VM: a free name in it could become another's.
func (r *removal) freeAll(ctx context.Context, node string) {
	for _, v := range r.left {
		if !isIn(r, node, r.view.has(), v) {
			_ = r.free(ctx, r.ours(node), v) // the next look tells
		}
	}
	if now, err := r.listOwn(ctx, r.view.has()); err == nil {
		r.left = now
	}
}

// free removes one volume of ours: over the API, which takes Datastore.Allocate, else over SSH. A refusal of the API
// has done nothing; after any other failure, which may have taken its time, all is proved again. PVE says that a volume
// is freed only if that is so (pve-storage Storage.pm vdisk_free dies with the plugin's free_image). So a volume that
// has the name afterwards is another's.
func (r *removal) free(ctx context.Context, c guard.Claim, volume string) error {
	c.Place, c.Volumes, c.Lock = r.Baseline.Node, []string{volume}, true
	e, err := r.prove(ctx, c)
	if err == nil {
		err = r.d.Free(ctx, r.Tasks, e, volume)
	}
	if err != nil && e.MayFree(volume) && r.d.HasShell() {
		failed := err
		var unproven error
		err = r.d.FreeByRoot(ctx, c.Place, volume, func(ctx context.Context) (guard.Evidence, error) {
			if !pve.IsKind(failed, pve.Denied) || r.d.CheckFresh(e) != nil {
				e, unproven = r.prove(ctx, c)
			}
			return e, unproven
		})
		if !e.MayFree(volume) {
			err = errors.Join(failed, unproven)
		}
	}
	if err == nil {
		noteFreed(r, volume)
		return nil
	}
	err = errors.Join(err, e.Held()) // another guest uses it, or may
	if r.of(volume).why == "" || !pve.IsKind(err, pve.Denied) {
		r.of(volume).why = err.Error()
	}
	return err
}

// maxAlone is how often volumes are freed by themselves first.
const maxAlone = 2

// freeAlone frees volumes by themselves.
func freeAlone(ctx context.Context, r *removal, f *facts) (outcome, error) {
	if err := r.d.jobs.Pause(ctx, 2*r.tries.alone); err != nil { // a busy volume may come free
		return nextPass, err
	}
	r.tries.alone++
	for _, v := range f.left {
		if pve.IsKind(r.free(ctx, guard.Claim{NoGuest: true}, v), pve.Denied) {
			r.tries.alone = maxAlone
		}
	}
	return nextPass, nil // the look tells
}

// maxReclaims is how often the VMID is taken again to remove volumes that outlived their VM.
const maxReclaims = 4

// reclaim takes the VMID with an empty VM of ours. Its volumes are attached to that one and go with it, and no third
// party can get the VMID, and with it the volumes' names, in between.
func (r *removal) reclaim(ctx context.Context, _ *facts) (outcome, error) {
	if r.alone {
		set := slices.Concat(guest.PermissionsFor(ctx, r.d.guests, r.VMID), guest.FirewallFor(ctx, r.d.guests,
			r.Baseline.Node, r.VMID), guest.FirewallRefsFor(ctx, r.d.guests, r.Baseline.Node, r.VMID))
		if len(set) > 0 {
			return nextPass, final{fmt.Errorf("no VM was made to take the volumes with it: PVE would also remove what is "+
				"set for the id %d by now: %s", r.VMID, strings.Join(set, "; "))}
		}
	}
	if err := r.d.jobs.Pause(ctx, 2*r.tries.reclaim); err != nil { // a busy volume may come free
		return nextPass, err
	}
	r.tries.reclaim++
	wasGone, before := r.deleted.gone, len(r.Tasks.UPIDs)
	r.deleted.gone = false
	params := pve.Params{"vmid": fmt.Sprint(r.VMID), "description": r.d.guests.Placeholder(r.Mark).String()}
	if r.Pool != "" {
		params["pool"] = r.Pool
	}
	if r.identity.UUID != "" {
		params["smbios1"] = "uuid=" + r.identity.UUID
	}
	for {
		_, err := r.d.jobs.Once(ctx, r.Tasks, request.Request{Node: r.Baseline.Node, Type: "qmcreate", ID: r.VMID,
			Send: func(ctx context.Context) (pve.UPID, error) {
				return r.d.api.Node(r.Baseline.Node).CreateVM(ctx, params)
			}})
		switch {
		case params["smbios1"] != "" && pve.IsKind(err, pve.Denied):
			delete(params, "smbios1") // takes VM.Config.HWType
		case params["pool"] != "" && (pve.IsKind(err, pve.Denied) || pve.IsKind(err, pve.NotFound)):
			delete(params, "pool") // it is gone, or not ours to fill
		default:
			r.deleted.gone = wasGone && madeNothing(err, len(r.Tasks.UPIDs) > before)
			return nextPass, err
		}
	}
}

// madeNothing reports whether a create that failed has left no VM: PVE began none, or has removed it itself.
func madeNothing(err error, began bool) bool {
	var ended *pve.TaskError
	if errors.As(err, &ended) {
		return endingOf(ended.UPID, ended.ExitStatus) <= volumesStay // it has no disks
	}
	return err != nil && !began && !pve.IsKind(err, pve.Ambiguous)
}

// leaveToThirdParty leaves the VMID to the third party that has it now. Volumes that were seen here before it came,
// and that its guest does not use, are still ours: PVE gives no volume a name that exists. They are freed one by one,
// unless they were to go with a VM of ours before: such a name may have become free, and the third party's, in
// between.
func (r *removal) leaveToThirdParty(ctx context.Context, f *facts) (outcome, error) {
	config, had := f.config.Values, slices.Clone(r.left)
	r.forgetDestroyed(ctx)
	making := guest.IsOwnLock(config["lock"]) || guest.IsRestoring(config)
	if r.taken = true; len(r.left) > 0 && making {
		return nextPass, request.LockedBy(cmp.Or(config["lock"], "create"),
			fmt.Sprintf("tell the volumes of VM %d on node %s, which belongs to another user now, from ours", r.VMID, f.node))
	}
	if err := r.forgetUsed(ctx, f.node, config); err != nil {
		return nextPass, err
	}
	r.view.hidden = config == nil
	var failed error
	for _, v := range r.left {
		if r.of(v).tried == 0 && !r.view.hidden {
			if err := r.free(ctx, guard.Claim{}, v); err != nil {
				failed = final{fmt.Errorf("VM %d belongs to another user now, so the volume can only be removed by itself: %w",
					r.VMID, err)}
			}
		}
	}
	if err := r.forgetUsed(ctx, f.node, config); err != nil {
		if failed != nil {
			err = final{err}
		}
		return nextPass, err
	}
	note := Note{Text: fmt.Sprintf("VM %d on node %s belongs to another user now; it was not touched", r.VMID, f.node)}
	if r.committed {
		had = slices.Sorted(maps.Keys(r.Baseline.Named))
	}
	had = slices.DeleteFunc(had, func(v string) bool { return slices.Contains(r.left, v) })
	if r.deleted.task == "" && len(had) > 0 {
		note.Text += fmt.Sprintf(". Ours had the volumes %s before. Whether they went with it cannot be told",
			strings.Join(had, ", "))
	}
	if isUnmarked(r) {
		note = unmarkedNote(r.VMID, f.node)
	}
	r.notes = append(r.notes, note)
	switch {
	case len(r.left) == 0:
		return finished, nil
	case failed == nil:
		failed = final{fmt.Errorf("VM %d belongs to another user now", r.VMID)}
	}
	return nextPass, failed
}

// forgetDestroyed drops the volumes that PVE has destroyed together with our VM: its task ended well, and its log
// does not say that one of them could not be removed (couldNot). A volume of such a name now belongs to the VMID's
// new owner. PVE leaves a volume that only a snapshot named; that is still looked for.
func (r *removal) forgetDestroyed(ctx context.Context) {
	if r.deleted.task == "" || len(r.left) == 0 {
		return
	}
	log, err := r.d.api.Tasks().Log(ctx, r.deleted.task, logLines)
	if err != nil {
		return // they are told apart by their users
	}
	stayed := notRemoved(log)
	r.remember(stayed)
	r.left = slices.DeleteFunc(r.left, func(v string) bool {
		return stayed[v] == "" && isIn(r, r.deleted.task.Node(), r.deleted.config, v)
	})
}

// forgetUsed drops volumes that no longer exist, or that others of their names have taken the place of, and volumes
// that a third party's configuration uses.
func (r *removal) forgetUsed(ctx context.Context, node string, config map[string]string) error {
	if len(r.left) == 0 {
		return nil
	}
	seen := map[string]fact{}
	for _, v := range r.left {
		was := r.of(v).volume
		seen[v] = fact{size: was.Size, createdAt: was.CreatedAt}
	}
	now, err := r.listOwn(ctx, r.view.has())
	if err == nil {
		r.left = slices.DeleteFunc(r.left, func(v string) bool {
			return !slices.Contains(now, v) || !seen[v].fits(r.of(v).volume) || isIn(r, node, config, v)
		})
	}
	return err
}

// Adopted returns the detached volumes of a VM's own VMID. No create and no clone leaves one, and an archive holds none
// (qemu-server API2/Qemu.pm, clone_vm; QemuServer.pm, restore_update_config_line). PVE makes each volume with the VMID
// an unused disk after a restore, and whenever an administrator runs `qm rescan`; it would destroy them with the VM.
func Adopted(vmid int, config map[string]string) []string {
	unused := map[string]string{}
	for option, value := range config {
		if vm.IsUnused(option) {
			unused[option] = value
		}
	}
	return guest.OwnVolumes(vmid, unused)
}

// adopted are the volumes that a removal must not take with the VM, as far as it is known. The baseline of a committed
// VM knows its volumes.
func adopted(r *removal, config map[string]string) []string {
	if r.committed {
		return adoptedInState(r.VMID, r.Baseline.HasNamed, config)
	}
	all := append(Adopted(r.VMID, config), unknownDisks(r, config)...)
	return slices.DeleteFunc(all, func(volume string) bool { return r.of(volume).own })
}

// checkAdopted refuses to remove a VM that was not committed while it has volumes that the create is not known to have
// made.
func (r *removal) checkAdopted(ctx context.Context, f *facts) (outcome, error) {
	found := f.adopted
	f.adopted = nil
	inSlots, err := refuseUnknown(ctx, r, f)
	if err != nil {
		return nextPass, err
	}
	var rest, open, reused []string
	if r.InState != nil {
		detached := r.InState.detached(r.VMID, f.config.Values)
		if reused, err = r.InState.reused(ctx, r.d, f.node, r.VMID, detached); err != nil {
			return nextPass, err
		}
	}
	for _, volume := range found {
		switch isDetached := slices.Contains(Adopted(r.VMID, f.config.Values), volume); {
		case r.InState != nil && r.InState.knows(volume):
			if inSlots[volume] != nil || slices.Contains(reused, volume) { // it has another size
				rest = append(rest, volume)
			}
		case inSlots[volume] != nil || isDetached:
			open = append(open, volume)
		}
	}
	if open, err = notMade(ctx, r, f, open, inSlots); err != nil {
		return nextPass, err
	}
	rest = append(rest, open...)
	if len(rest) > 0 {
		return nextPass, final{cmp.Or(inSlots[rest[0]], errAdopted(r.VMID, rest))}
	}
	r.own(found...)
	if r.Made != nil {
		r.Made.add(f.node, byName, found...)
	}
	return decideAgain, nil
}

// own notes volumes that are ours although they are unused disks of the VM.
func (m *memory) own(volumes ...string) {
	for _, volume := range volumes {
		m.of(volume).own = true
	}
}

func idsOf(volumes []pve.Volume) []string {
	var ids []string
	for _, v := range volumes {
		ids = append(ids, v.ID)
	}
	return ids
}

// goesAlong reports whether a volume goes with the VM that was seen last, which is ours.
func goesAlong(r *removal, has map[string]string, volume string) bool {
	return r.view.at() != "" && isIn(r, r.view.at(), has, volume) && guest.GoesWith(has, volume) && mayBeTheirs(r) == ""
}
