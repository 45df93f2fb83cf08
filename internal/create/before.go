package create

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// borrows are the slots that get a volume which another VM holds (vm.HeldVolume), or a device of the node. The create
// itself attaches such a volume: the undo removes the VM, and PVE destroys only volumes with the VM's own VMID
// (qemu-server QemuServer.pm destroy_vm).
func (p plan) borrows() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.r.Spec.Disks)), func(slot string) bool {
		return !vm.IsForeign(p.vmid, p.r.Spec.Disks[slot].Volume)
	})
}

// mayBorrow makes sure that no other guest uses the volumes: before anything is made, and again once they are attached.
// PVE attaches one volume to two VMs without a word, and another operation may have looked at the same time.
func (a *attempt) mayBorrow(ctx context.Context) error {
	for _, slot := range a.borrows() {
		d := a.r.Spec.Disks[slot]
		at, held := "disks."+slot, !volid.IsDevice(d.Volume)
		if held && d.Size != nil {
			return &guest.FieldError{Path: at + ".size", Summary: d.Volume + " is not this VM's to size",
				Detail: "It is the disk of a proxmox_disk, which says how large it is. Leave size out here; no VM was made"}
		}
		if held && a.r.Spec.Template != nil && *a.r.Spec.Template {
			return &guest.FieldError{Path: "template", Summary: "A template cannot have " + d.Volume,
				Detail: "PVE renames the disks of a template, and the VM that holds this one would lose it. No VM was made"}
		}
		if err := a.creator.destroyer.MayBorrow(ctx, a.creator.destroyer.Ask(), a.node, a.vmid, d.Volume); err != nil {
			return &guest.FieldError{Path: at + ".imported_disk.volume", Summary: d.Volume + " cannot be attached",
				Detail: volumeuse.WhyNotBorrowed(err), Err: err}
		}
	}
	return nil
}

// borrowing is an attempt whose VM is given volumes of other VMs.
type borrowing struct {
	*attempt
	looked time.Time // when the last look began that permits a start
}

// lookWho is mayBorrow, and notes when.
func (a *borrowing) lookWho(ctx context.Context) error {
	a.looked = a.creator.jobs.Clock.Now()
	return a.mayBorrow(ctx)
}

// lookWhoAgain is mayBorrow right before each try to start the guest, since a wait for a lock may last hours. A first
// try that follows a look at once goes without.
func (a *borrowing) lookWhoAgain(ctx context.Context) error {
	seen := pve.Elapsed(a.looked, a.creator.jobs.Clock.Now()) < guest.Moment
	if a.looked = (time.Time{}); seen || len(a.borrows()) == 0 {
		return nil
	}
	return a.mayBorrow(ctx)
}

// borrowStep is the name of that step.
func (p plan) borrowStep() string {
	return fmt.Sprintf("look who else has the disks that VM %d is given", p.vmid)
}

// refuseForeignHA looks, before the first write, for an HA entry with the VMID of a VM that is to have one. PVE would
// refuse a second entry. It also removes no VM that has an entry while keeping the entry (qemu-server API2/Qemu.pm
// destroy_vm), and that entry is not ours to remove.
func (a *attempt) refuseForeignHA(ctx context.Context) error {
	if there, err := a.creator.guests.ReadHA(ctx, a.vmid); err == nil && there != nil {
		return hasHA(a.vmid, nil)
	}
	return nil // who may not look is told when he makes the entry
}

// hasHA is the error for an HA entry that the create has not made.
func hasHA(vmid int, err error) error {
	return &guest.FieldError{Path: "ha", Summary: fmt.Sprintf("HA has an entry for VM %d already", vmid),
		Detail: fmt.Sprintf("An earlier VM of this id left it, or a third party made it. Look at `ha-manager status`, "+
			"and remove it with `ha-manager remove vm:%d`", vmid), Err: err}
}

// ahead are the settings that a third party has made for a configured VMID before its guest, as far as this identity
// sees them: PVE removes them with the guest. A copy brings a firewall of its own, and a pool in the request is a place
// in a pool: then the entries tell, which not each identity with privileges on the VM may read.
func ahead(ctx context.Context, a *attempt) []string {
	if a.r.VMID == 0 || a.resumed {
		return nil
	}
	named := guest.PermissionsFor
	if a.r.Pool != "" {
		named = guest.GrantsFor
	}
	all := named(ctx, a.creator.guests, a.vmid)
	if a.from != nil {
		return all
	}
	if !a.beside.firewall {
		all = append(all, guest.FirewallFor(ctx, a.creator.guests, a.node, a.vmid)...)
	}
	if a.first.lost == nil { // else there is mostly no VM, and the server is in trouble
		all = append(all, guest.FirewallRefsFor(ctx, a.creator.guests, a.node, a.vmid)...)
	}
	return all
}

// sendCopy sends the first write of a clone or a restore. PVE puts the firewall of the source, or none, in the place of
// one that was set for the VMID ahead of its VM (pve-firewall Firewall/Helpers.pm clone_vmfw_conf; qemu-server
// QemuServer.pm restore_vma_archive), and removes it where a clone fails (API2/Qemu.pm clone_vm, remove_vmfw_conf). A
// warning says so.
func sendCopy(ctx context.Context, a *attempt, r request.Request) error {
	was, _ := firewallNow(ctx, a)
	err := a.sendFirst(ctx, r)
	if was == nil || !a.first.sent || a.first.taken {
		return err
	}
	late, cancel := a.creator.jobs.LookAfter(ctx)
	defer cancel()
	now, failed := firewallNow(late, a)
	fate := "PVE has put those of the source in their place"
	switch {
	case failed != nil:
		fate = fmt.Sprintf("Whether PVE has put those of the source in their place is not known: %v", failed)
	case err != nil && now == nil:
		fate = "PVE has removed them with the copy that failed. Set them again before the next apply"
	}
	if failed != nil || !reflect.DeepEqual(was, now) {
		warnAhead(a, firewall.Beyond(was, cmp.Or(now, &firewall.Settings{})), fate)
	}
	return err
}

// nameReplaced names the firewall that a create from scratch replaces. One that cannot be read is not set either.
func nameReplaced(ctx context.Context, a *attempt) {
	if was, _ := firewallNow(ctx, a); was != nil {
		warnAhead(a, was, "This create replaces them")
	}
}

// warnAhead warns of the part of a firewall that was set ahead and is gone, unless the configuration has all of it.
func warnAhead(a *attempt, gone *firewall.Settings, fate string) {
	if want := a.r.Firewall; want != nil {
		lines := append(firewall.OtherOptions(firewall.OptionsSet(gone), want), firewall.UnknownRules(gone, want.Rules)...)
		if len(lines) == 0 {
			return
		}
		fate += ". The configuration does not have these:\n  " + strings.Join(lines, "\n  ")
	}
	a.warnings = append(a.warnings, guest.Warning{Summary: fmt.Sprintf("Firewall of VM %d", a.vmid),
		Detail: fmt.Sprintf("Firewall options or rules were set for the id %d before, and not by this create. %s", a.vmid,
			fate)})
}

// firewallNow is the firewall under a configured VMID, as far as this identity sees it; nil if it is not in force.
// Without the option "enable" none of a guest's rules is in force (pve-firewall Firewall.pm, compile_iptables_filter),
// so one request tells in most cases.
func firewallNow(ctx context.Context, a *attempt) (*firewall.Settings, error) {
	if a.r.VMID == 0 {
		return nil, nil
	}
	options, err := a.creator.api.Firewall(a.node, a.vmid).Options(ctx)
	if err != nil || len(options.Values) == 0 {
		return nil, err
	}
	at := guest.Guest{Node: a.node, VMID: a.vmid}
	err = a.creator.guests.ReadFirewallAndHA(ctx, &at, true, false)
	return at.Firewall, err
}

// noteAhead names the settings that went with a VM which an undo has destroyed.
func noteAhead(a *attempt, ahead []string) {
	destroyed := slices.ContainsFunc(a.view.Tasks.UPIDs, func(task pve.UPID) bool { return task.Type() == "qmdestroy" })
	if len(ahead) == 0 || !destroyed {
		return
	}
	text := fmt.Sprintf("With VM %d PVE has removed what was set for its id before, and not by this create: %s. Set it "+
		"again before the next apply", a.vmid, strings.Join(ahead, "; "))
	a.notes = append(a.notes, destroy.Note{Text: text})
}
