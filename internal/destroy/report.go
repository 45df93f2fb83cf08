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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// report names what a removal has left.
type report struct {
	*removal
	partly     bool              // the last look was not answered in full
	blind      bool              // it has not seen whether the VM is there
	users      map[string]string // by volume, who else uses it
	useUnknown bool              // that could not be looked at
}

// look looks at the guest and the volumes. The ones that were there the last time come last, so that nothing is named
// that went while the other was looked at: volumes go with their VM. It returns why the volumes could not be listed.
func (r *report) look(ctx context.Context) error {
	var volumes []string
	var err, listErr error
	if r.view.at() != "" {
		volumes, listErr = r.listOwn(ctx, r.view.has())
		err = r.find(ctx, r.tasks.worst())
	} else {
		err = r.find(ctx, r.tasks.worst())
		volumes, listErr = r.listOwn(ctx, r.view.has())
	}
	r.partly, r.blind = err != nil || listErr != nil, err != nil
	switch {
	case r.view.owner == guest.ThirdParty:
		r.taken = true
		r.forgetDestroyed(ctx)
	case listErr == nil && (err == nil || r.Baseline.Named != nil):
		r.left = volumes
	case r.Baseline.Named != nil && err != nil: // any of them may be there, and nothing else would remember them
		r.left = slices.Sorted(maps.Keys(r.Baseline.Named))
	case err == nil: // on the others may be those that are known by name, or that an earlier look has seen
		if r.Baseline.Named != nil {
			r.left = slices.Sorted(maps.Keys(r.Baseline.Named))
		}
		isSeen := func(v string) bool { return !slices.Contains(r.Baseline.Away, volid.Storage(v)) }
		r.left = append(slices.DeleteFunc(r.left, isSeen), volumes...)
	}
	return listErr
}

// isClean reports whether the last look has seen that nothing of ours is there.
func (r *report) isClean() bool {
	return r.view.at() == "" && (r.view.answered || r.view.hidden && isOthers(r.removal)) && len(r.left) == 0
}

// state is what the last look has seen of ours, to be compared.
func (r *report) state() string {
	return fmt.Sprint(r.view.at(), r.view.has(), r.left, r.view.answered, r.view.hidden, r.taken, r.partly)
}

// readUse reads, last of all, who else uses what is left: no command is printed that would take it from them.
func (r *report) readUse(ctx context.Context) {
	r.users, r.useUnknown = map[string]string{}, false
	volumes := append(guest.OwnVolumes(r.VMID, r.view.has()), r.left...)
	if len(volumes) == 0 {
		return
	}
	scope, err := "", error(nil) // where the VM is on another node, its volumes are there, and others here
	if at := r.view.at(); at == "" || at == r.Baseline.Node {
		scope, err = r.d.Scope(ctx, r.use, r.Baseline.Node, volumes)
	}
	if err == nil {
		r.use, err = r.d.use.Since(ctx, r.d.use.Ask(), scope)
	}
	if r.useUnknown = err != nil; r.useUnknown {
		return
	}
	for _, volume := range volumes {
		var used *guard.InUseError
		if errors.As(guard.InUse(r.use, []string{volume}, r.VMID), &used) {
			r.users[volume] = strings.Join(used.Users, "; ")
		}
	}
}

// leftovers names what is left of our VM. failed is why the last pass did not get on.
func (r *report) leftovers(failed error) []saga.Residue {
	if r.view.inUse != "" { // it is the user's, with its volumes
		return nil
	}
	var left []saga.Residue
	reason := "several attempts did not remove it"
	if failed != nil {
		reason = failed.Error()
	}
	switch {
	case r.view.at() != "":
		left = append(left, r.guest(r.view.at(), reason))
	case !r.view.answered && !(r.view.hidden && isOthers(r.removal)):
		left = append(left, r.unseen(reason))
	}
	has := r.view.has()
	stays := r.committed || r.Made.isUnread() || spares(r.removal, has) || len(adopted(r.removal, has)) > 0
	for _, v := range r.left {
		if stays && r.view.at() != "" && isIn(r.removal, r.view.at(), has, v) {
			continue // it is the VM's, which stands
		}
		why := reason
		if said := r.of(v).why; said != "" {
			why = said
		}
		named := r.volume(v, why)
		if goesAlong(r.removal, has, v) && left[0].Command != "" {
			named.Reason, named.Command = fmt.Sprintf("it goes with VM %d", r.VMID), ""
		}
		left = append(left, named)
	}
	return left
}

const (
	notSeen    = "; it could not be looked at, and may be gone already"
	useNotSeen = "; whether another guest uses its disks could not be looked at"
)

// guest is a VM of ours that was seen. Only the lock of a dead task is to be taken away: behind any other a task is
// at work.
func (r *report) guest(node, reason string) saga.Residue {
	has := r.view.has()
	command := r.destroyCommand()
	if has["protection"] == "1" && r.Protected {
		command = shell.And(shell.VM("qm set {vmid} --protection 0", r.VMID), command)
	}
	if r.tasks.mayHaveLeft(has["lock"]) {
		command = shell.And(shell.VM("qm unlock {vmid}", r.VMID), command)
	}
	switch {
	case r.view.unsure || r.view.ambiguous || r.tasks.othersWork: // another user may be making it
		command = shell.VM("qm config {vmid} && pvenode task list --vmid {vmid} --source all", r.VMID)
	case r.Mark.Proves(r.VMID, has): // by the time that it is run, PVE may have given the id to another VM
		command = shell.And(shell.IfMarked(r.Mark.Saga, node, r.VMID), command)
	case vm.UUID(has) != "":
		command = shell.And(shell.IfMarked(vm.UUID(has), node, r.VMID), command)
	}
	left := saga.Residue{Kind: "guest", Node: node, ID: fmt.Sprint(r.VMID), Reason: reason, Command: command,
		What: fmt.Sprintf("VM %d on node %s", r.VMID, node)}
	isForeign := func(_, volume string) bool { return r.committed && !r.Baseline.HasNamed(volume) }
	others := append(adopted(r.removal, has), disksIn(r.VMID, has, isForeign)...)
	if spares(r.removal, has) || len(others) > 0 || r.Made.isUnread() { // they would go with it
		left.Command = ""
	}
	for _, volume := range slices.Sorted(maps.Keys(r.users)) {
		if guest.Uses(has, volume) {
			left.Reason = alsoUsed(left.Reason, volume, r.users[volume])
			left.Command = ""
		}
	}
	if r.useUnknown && len(guest.OwnVolumes(r.VMID, has)) > 0 {
		left.Reason += useNotSeen
		left.Command = shell.VM("grep -rF -- -{vmid}- /etc/pve/nodes", r.VMID)
	}
	return left
}

// alsoUsed adds to a reason, unless it says so, who would lose a volume.
func alsoUsed(reason, volume, users string) string {
	if !strings.Contains(reason, volume+" is also used by "+users) {
		reason += fmt.Sprintf("; volume %s is also used by %s", volume, users)
	}
	return reason + "; detach it there first"
}

// destroyCommand destroys the VM. One that was never committed has no entries of ours elsewhere.
func (r *report) destroyCommand() string {
	command := shell.VM("qm destroy {vmid}", r.VMID)
	if r.committed && !r.keep || r.ha.purge {
		command += " --purge"
	}
	return command
}

// unseen is a VM that could not be looked for. It may be gone, another VM may have its VMID by now, and a rescan may
// have attached volumes of others to it, which a destroy takes along. So its command only shows the VM.
func (r *report) unseen(reason string) saga.Residue {
	left := r.guest(r.Nodes[0], reason)
	left.Command = shell.VM("qm config {vmid}", r.VMID)
	if r.view.hidden {
		left.Reason = fmt.Sprintf("a guest has the id that this identity may not see (VM.Audit on /vms/%d). It is another "+
			"user's, or it is this VM: PVE puts a new one into its pool last, and it may have left the pool. With the same "+
			"privileges on /vms/%d as on the pool the next apply looks which, and removes this VM", r.VMID, r.VMID)
		return left
	}
	left.Reason += notSeen
	return left
}

// volume is a volume of ours. If a hidden guest has the VMID, or our VM may still be there, the command frees the
// volume only where no configuration of the cluster mentions it.
func (r *report) volume(volume, reason string) saga.Residue {
	left := saga.Residue{Kind: "volume", Node: r.Baseline.Node, ID: volume, Reason: reason,
		Command: shell.Free(volume), What: fmt.Sprintf("volume %s on node %s", volume, r.Baseline.Node),
		Size: r.of(volume).volume.Size, CreatedAt: r.of(volume).volume.CreatedAt}
	if r.partly && (r.blind || slices.Contains(r.Baseline.Away, volid.Storage(volume))) {
		left.Reason += notSeen
	}
	if r.view.hidden || r.partly || r.useUnknown {
		left.Command = shell.FreeUnused(volume)
	}
	if theirs := mayBeTheirs(r.removal); theirs != "" {
		left.Reason += theirs
		left.Command = shell.VM("pvesm list {} --vmid {vmid}", r.VMID, volid.Storage(volume))
	}
	if users := r.users[volume]; users != "" {
		left.Reason = alsoUsed(left.Reason, volume, users)
		left.Command = ""
	}
	return left
}

// mayBeTheirs says why a volume of a name that ours had may belong to a third party by now.
func mayBeTheirs(r *removal) string {
	isGone := r.view.owner == guest.NoGuest && !r.deleted.gone && !r.seen.at.IsZero()
	switch {
	case r.taken:
		return "; another user has the VMID, and it may be theirs"
	case r.view.unsure, r.view.ambiguous:
		return "; another user may have the VMID, and it may be theirs"
	case isGone: // and its volumes with it
		return "; another user has destroyed the VM, and it may be theirs"
	}
	return ""
}

// looks bounds the looks at the leftovers until they stay the same.
const looks = 4

// lastLook names what is left. Reading who else uses it takes its time, and an administrator may be tidying up
// meanwhile. So what is named is looked at once more afterwards, until it is what it was before.
func (r *removal) lastLook(ctx context.Context, failed error) error {
	var last final
	if errors.As(failed, &last) {
		failed = last.error
	}
	if ctx.Err() != nil {
		late, cancel := r.d.jobs.Grace(ctx)
		defer cancel()
		ctx = late
	}
	r.tasks.noteAll(ctx, r.d.api) // where the node was away before
	rep := &report{removal: r}
	var listErr error
	for before, attempt := "", 0; attempt < looks; attempt++ {
		listErr = rep.look(ctx)
		now := rep.state()
		if now == before || rep.isClean() {
			break
		}
		before = now
		rep.readUse(ctx)
	}
	if r.view.owner == guest.ThirdParty && isUnmarked(r) {
		note := unmarkedNote(r.VMID, r.view.node)
		r.notes = append(slices.DeleteFunc(r.notes, func(n Note) bool { return n == note }), note)
	}
	if left := rep.leftovers(failed); len(left) > 0 {
		return &saga.LeftError{Left: left, Err: cmp.Or(failed, listErr)}
	}
	if listErr != nil && r.view.owner != guest.ThirdParty {
		return fmt.Errorf("VM %d is gone, but whether volumes of it are left cannot be told: %w. Look at `pvesm list "+
			"STORAGE --vmid %d` on node %s", r.VMID, listErr, r.VMID, r.Baseline.Node)
	}
	return nil
}

// Note is a sentence about a removal for people, also where nothing is left.
type Note struct {
	Text string
	// Doubt: something of ours may still be there.
	Doubt bool
}

// unprovenNote names the volumes that were left alone since nothing shows whose they are.
func unprovenNote(vmid int, node string, volumes []string) Note {
	return Note{Doubt: true, Text: fmt.Sprintf("Volumes with the id of VM %d came to node %s while the VM was made, "+
		"and nothing shows that this create has made them: %s. They were left alone. "+
		"Look whose they are (`pvesm list STORAGE --vmid %d`) before you remove any", vmid, node, strings.Join(volumes,
		", "), vmid)}
}

// isUnmarked reports whether the VM that was seen last may be ours, and nothing proves it.
func isUnmarked(r *removal) bool { return r.Unmarked != nil && r.Unmarked(r.view.config.Values) }

// unmarkedNote names a VM that was left alone since it has lost the mark that would prove it ours.
func unmarkedNote(vmid int, node string) Note {
	return Note{Doubt: true, Text: fmt.Sprintf("VM %d on node %s no longer bears the mark of this create: another user "+
		"has changed or replaced it, and which of both cannot be told. It was left alone. Look whose it is (`qm config "+
		"%d`) before you import or remove it", vmid, node, vmid)}
}

// inUseNote names a VM that was left alone since a user works with it, and the volumes of ours beside it.
func inUseNote(vmid int, v view) Note {
	text := fmt.Sprintf("VM %d on node %s was left alone: %s. Look at it (`qm config %d`), then import it to keep it, or "+
		"remove it", vmid, v.node, v.inUse, vmid)
	if len(v.beside) > 0 {
		text += fmt.Sprintf(". Volumes that this create has made, and that the VM does not name, stay with it: %s",
			strings.Join(v.beside, ", "))
	}
	return Note{Doubt: true, Text: text}
}

// merge adds the leftovers of a later removal, which was the last to look at those that are known.
func merge(left, more []saga.Residue) []saga.Residue {
	for _, m := range more {
		at := slices.IndexFunc(left, func(l saga.Residue) bool {
			return l.Kind == m.Kind && l.Node == m.Node && l.ID == m.ID
		})
		if at < 0 {
			left = append(left, m)
			continue
		}
		left[at] = m
	}
	return left
}
