package planning

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// chooseNode plans the migration of a VM that is on none of the nodes that the configuration names. While these are not
// known, neither is its node.
func (p *Planning) chooseNode(ctx context.Context) {
	nodes := p.Config.At("nodes")
	switch {
	case p.Prior.Node == nil || nodes.IsKnown() && nodes.IsNull():
	case !nodes.IsFullyKnown():
		p.Value, p.Plan.Node = plan.Edit(p.Value, map[string]bool{"node": true}, nil), nil
	case slices.Contains(p.Plan.Nodes, *p.Prior.Node) || p.Machines == nil:
	default:
		if to := p.Machines.Place(ctx, p.Plan.Nodes); to != "" {
			p.Value, p.changed = plan.Replace(p.Value, "node", model.Text(to)), true
			p.Plan.Node = &to
		}
	}
}

// planPendingChanges plans the restart that an earlier apply owes.
func (p *Planning) planPendingChanges() {
	owed := model.PendingRestart(p.Prior, p.Plan, p.private)
	if len(owed) == 0 {
		return
	}
	unknown := map[string]bool{"pending_changes": true}
	if slices.ContainsFunc(owed, vm.IsSlot) { // a drive that leaves its slot then is an unused disk
		unknown["unused_volumes"] = true
	}
	p.Value, p.changed = plan.Edit(p.Value, unknown, nil), true
}

// consequences are the attributes, by their dotted paths, that other changes make unknown or null.
type consequences struct{ unknown, null map[string]bool }

// PlanConsequences plans what follows from other changes: the volume of a disk that moves, its name when the VM becomes
// a template, the boot order when devices come and go. The consequences of a change that is not known yet are not known
// either. So is the machine that PVE pins when a guest becomes a Windows, since 8.4 (qemu-server API2/Qemu.pm,
// update_vm_api). A version of the one in state counts as that one (model.WithoutPinnedMachine).
func (p *Planning) PlanConsequences() {
	c := consequences{unknown: map[string]bool{}, null: map[string]bool{}}
	d := p.delta()
	migrates := d.swaps("node") // and its local volumes get new names
	p.consequencesForDisks(c, migrates)
	p.consequencesForCloudInit(c, migrates)
	if p.Config.At("boot_order").IsNull() && p.Prior.BootOrder != nil && p.changesBootOrder() {
		c.unknown["boot_order"] = !c.bootsFromMoved(p)
	}
	if d.swaps("smbios.uuid") != same || p.Prior.UUID == nil { // a create that failed has not read it
		c.unknown["uuid"] = true
	}
	ostype := plan.At(p.Value, "ostype")
	c.unknown["machine"] = p.Config.At("machine").IsNull() && p.Prior.Machine == nil && d.change("ostype") != same &&
		(!ostype.IsKnown() || vm.IsWindows(model.StringOf(ostype)))
	c.forFirewall(p)
	p.Value = plan.Edit(p.Value, c.unknown, c.null)
}

// forFirewall leaves open the options that the configuration does not name of a firewall that is new in state: the VM
// may have one that was made by hand.
func (c consequences) forFirewall(p *Planning) {
	if p.Prior.Firewall != nil || p.Config.IsNull("firewall") {
		return
	}
	options, _ := p.Config.Keys("firewall")
	for _, option := range options {
		c.unknown["firewall."+option] = p.Config.IsNull("firewall." + option)
	}
}

// changesBootOrder reports whether PVE changes the boot order by itself, or may: it takes a device that goes out of
// it, and appends a new CD-ROM drive, which that of cloud-init is not (qemu-server API2/Qemu.pm, update_vm_api). A disk
// that is wanted again while its removal waits returns to its place. An order in the old notation is one of kinds of
// devices, so each new device may be in it.
func (p *Planning) changesBootOrder() bool {
	if p.delta().hasOpenDevices() {
		return true
	}
	come, leave := model.ChangedDevices(p.Prior, p.Plan)
	if p.losesCloudInitDrive() {
		leave = append(leave, *p.Prior.CloudInit.Slot)
	}
	if p.private.LegacyBoot || p.private.Lost {
		return len(come)+len(leave) > 0
	}
	isBooted := func(slot string) bool { return slices.Contains(p.Prior.BootOrder, slot) }
	newDrive := slices.ContainsFunc(model.SortedSlots(p.Plan.CDROMs), func(slot string) bool {
		_, was := p.Prior.CDROMs[slot]
		return !was
	})
	waits := func(option string) bool { return slices.Contains(p.Prior.PendingChanges, option) }
	return slices.ContainsFunc(leave, isBooted) || newDrive || waits("boot") && slices.ContainsFunc(come, waits)
}

func (d delta) hasOpenDevices() bool {
	all := []string{"disks", "cdroms", "networks", "pci", "usb", "cloud_init", "cloud_init.slot"}
	return slices.ContainsFunc(all, func(at string) bool { return d.change(at) == open })
}

// losesCloudInitDrive reports whether the drive goes while its slot is still planned: the slot follows its storage.
func (p *Planning) losesCloudInitDrive() bool {
	was, is := p.Prior.CloudInit, p.Plan.CloudInit
	return was != nil && was.Slot != nil && is != nil && is.Storage == nil
}

// consequencesForDisks sees to the names and formats of volumes. PVE renames each volume of a VM that becomes a
// template to base-<vmid>-disk-<n>, except those of optical drives (qemu-server QemuServer.pm, template_create).
func (p *Planning) consequencesForDisks(c consequences, migrates change) {
	d := p.delta()
	moves := func(at string) bool {
		return migrates != same || d.swaps(at+".storage") != same || d.swaps(at+".format") != same
	}
	renamed := d.change("template") != same
	for slot, disk := range p.Plan.Disks {
		at := "disks." + slot
		if _, existed := p.Prior.Disks[slot]; !existed {
			continue
		}
		if p.Run.Grows(model.Value(disk.Volume)) {
			c.unknown[at+".size"] = p.Config.At(at + ".size").IsNull()
		}
		c.unknown[at+".volume"] = renamed
		if moves(at) {
			c.unknown[at+".format"] = p.Config.At(at + ".format").IsNull()
			_, attached := p.volumes.attached[slot]
			c.unknown[at+".volume"] = renamed || !attached
		}
	}
	for _, group := range []string{"efi_disk", "tpm_state"} {
		if d.stays(group) && (renamed || moves(group)) {
			c.unknown[group+".volume"] = true
			c.unknown[group+".format"] = moves(group) && p.Config.At(group+".format").IsNull()
		}
	}
}

// consequencesForCloudInit sees to the three attributes that are one thing on the server, the cloud-init drive.
func (p *Planning) consequencesForCloudInit(c consequences, migrates change) {
	const volume, slot, format = "cloud_init.volume", "cloud_init.slot", "cloud_init.format"
	d, is, had := p.delta(), p.Plan.CloudInit, p.Prior.CloudInit != nil
	storage := d.change("cloud_init.storage")
	drive := had && p.Prior.CloudInit.Storage != nil
	switch {
	case is == nil: // it goes as a whole, or nothing of it is known
	case had && storage == open: // the drive may come, go or move
		c.unknown[volume] = true
		c.unknown[slot], c.unknown[format] = p.Config.At(slot).IsNull(), p.Config.At(format).IsNull()
	case is.Storage == nil:
		if had {
			c.null[volume], c.null[slot], c.null[format] = true, true, true
		}
		c.null["cloud_init"] = is.HasOnlyDrive() && p.Config.At("cloud_init").IsNull() // the drive went, and nothing is left
	case had && !drive:
		c.unknown[volume] = true
		c.unknown[slot], c.unknown[format] = p.Config.At(slot).IsNull(), p.Config.At(format).IsNull()
	case migrates != same, had && storage != same, had && d.swaps(slot) != same, had && d.swaps(format) != same:
		c.unknown[volume] = true
		c.unknown[format] = storage != same && p.Config.At(format).IsNull()
	}
}

// The machine type. PVE pins its version for Windows, "pc-q35-9.2+pve1" for "q35" (qemu-server API2/Qemu.pm, create and
// change of ostype), so that the pin is no difference.

// withPinnedMachine is a configuration with the machine type that PVE has pinned already for the configured one.
func (p *Planning) withPinnedMachine(config tftypes.Value) tftypes.Value {
	ostype := p.Config.At("ostype")
	if ostype.IsNull() {
		ostype = plan.At(p.State, "ostype")
	}
	machine := plan.At(p.State, "machine")
	if !ostype.IsKnown() || !vm.IsWindows(model.StringOf(ostype)) || !model.IsPinned(p.Config.Text("machine"),
		model.StringOf(machine)) {
		return config
	}
	return plan.Replace(config, "machine", machine)
}

// knowMachineOfNewVM says what is known of a new VM's machine type: nothing is pinned unless it is Windows.
func (p *Planning) knowMachineOfNewVM() {
	if p.Config.At("ostype").IsKnown() && !vm.IsWindows(p.Config.Text("ostype")) && !p.Config.Copies() &&
		p.Config.At("machine").IsNull() {
		p.Value = plan.Edit(p.Value, nil, map[string]bool{"machine": true})
	}
}

// warnOfDestroy names what goes with the VM beside its disks. A destroy is silent about the snapshots that a
// proxmox_vm_snapshot of the same plan removes. A replacement names them all: they are of the old VM's disks.
func (p warnings) warnOfDestroy(ctx context.Context) {
	vmid := int(model.Value(p.Prior.VMID))
	if p.Machines == nil || p.Run.Acts() || vmid == 0 {
		return
	}
	r := p.Prior.DeleteRequest(p.private)
	r.OwnHA = r.OwnHA || p.Config.IsSet("ha")         // that of the new VM
	if r.Replaced = len(p.replace) > 0; !r.Replaced { // else the new VM is in none of them until the next plan
		r.OwnRules = p.Run.Seen(vmid).Rules
	}
	going := kit.Going{Along: p.Machines.TakesAlong(ctx, r), Thing: p.Prior.Thing(), MayKeep: true,
		Replaced: r.Replaced && model.Value(p.Plan.VMID) == model.Value(p.Prior.VMID)}
	if r.Replaced {
		p.warnLostSettings(going.Settings)
	} else {
		going.Removed = p.Run.SnapshotsGo(vmid)
	}
	p.diags.Append(going.Warn(ctx, p.out)...)
}

// warnLostSettings names the settings of a replaced VM's id that the configuration does not set: its firewall, its HA
// options, permissions. PVE removes them with the VM, and the one that takes its place begins without them: open,
// where a firewall that was made by hand closed it.
func (p warnings) warnLostSettings(settings []string) {
	lost := p.unmanaged("firewall")
	if p.Config.IsSet("ha") { // else the entry is among those that the VM is taken out of
		lost = append(lost, p.unmanaged("ha")...)
	}
	lost = append(lost, settings...)
	if len(lost) > 0 {
		p.diags.AddWarning(fmt.Sprintf("The replacement of %s loses settings of its id", p.Prior.Thing()),
			fmt.Sprintf("PVE removes them with the VM, and the configuration does not set them again: %s. Note them first "+
				"(the file /etc/pve/firewall/%d.fw, `ha-manager config` and `pveum acl list`), and set them again after the "+
				"apply, or put firewall and HA into the configuration.", strings.Join(lost, "; "), model.Value(p.Prior.VMID)))
	}
}

// NameUses names the work of others with the VM that a failed create has left, and that was not named, and notes it in
// the proof. The destroy goes by that: it refuses other use. Nothing is said where it cannot look: the destroy asks
// again.
func NameUses(ctx context.Context, m Machines, of *guest.Proof, node string, out kit.PrivateWriter) (*guest.Proof,
	diag.Diagnostics) {
	tasks, err := m.UsesOf(ctx, of, node)
	taken, unread := m.SnapshotsOf(ctx, guest.Ref{VMID: of.VMID, Node: node})
	uses := slices.DeleteFunc([]string{guest.NameUses(tasks), of.NewSnapshots(taken)}, func(use string) bool {
		return use == ""
	})
	if err != nil || unread != nil || len(uses) == 0 {
		return of, nil
	}
	proof, diags := of.NoteUses(tasks), diag.Diagnostics{}
	proof.Snapshots = taken
	diags.AddWarning(fmt.Sprintf("Others have worked with VM %d", of.VMID),
		fmt.Sprintf("Its create has failed, and %s. A destroy, and the replacement of the tainted VM, cut its guest off and "+
			"destroy its disks all the same. `terraform untaint` with its address keeps the VM.", strings.Join(uses, "; ")))
	return proof, append(diags, kit.Note[*guest.Proof](model.KeyProof).Write(ctx, out, proof)...)
}

// unmanaged names the values of a group in state that the configuration does not set, and has not set before.
func (p warnings) unmanaged(group string) []string {
	var all []string
	options, _ := model.Configuration{Raw: p.State}.Keys(group)
	for _, option := range options {
		at := group + "." + option
		was := plan.At(p.State, group, option)
		if !was.IsNull() && p.Config.IsNull(at) && !p.managed(at) {
			all = append(all, at)
		}
	}
	return all
}

// warnUnshown names what goes with a VM that no plan was shown, and that this new one may replace, once for each. The
// leftover of a failed create goes only while no job names it (TakesAlong).
func (p warnings) warnUnshown(ctx context.Context, r destroy.Request) {
	vmid := int64(r.Ref.VMID)
	if p.Machines == nil || p.Run.Acts() || r.Ref.Proof != nil || !p.Run.IsFirstToName(vmid) {
		return
	}
	r.OwnHA, r.Replaced = r.OwnHA || p.Config.IsSet("ha"), true
	going := kit.Going{Along: p.Machines.TakesAlong(ctx, r), Thing: model.Thing(vmid, "", "")}
	p.diags.Append(going.WarnUnshown(int(vmid))...)
}
