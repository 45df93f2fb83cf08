package planning

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/run"
)

// going are the warnings about all that goes with a VM.
type going struct{ *Planning }

// warnAddedDisks names the disks that a destroy removes although no configuration has made them: what a third party has
// given the VM, or an earlier plan has forgotten. The plan shows none of them, since the state has none.
func (p going) warnAddedDisks() {
	p.warnDisksOf(model.Value(p.Prior.VMID), p.Prior.Thing(), p.Private.Added,
		"The plan shows none of them, and they are destroyed with it")
}

// warnDisksOf warns once for each VM.
func (p going) warnDisksOf(vmid int64, thing string, added map[string]string, shows string) {
	lines := change.OwnDisks(vmid, added)
	if len(lines) == 0 || !p.Run.IsFirstToTell(vmid) {
		return
	}
	p.Diags.AddAttributeWarning(path.Root("disks"), thing+" has disks that the state does not have",
		fmt.Sprintf("%s:\n%s\n%s.", shows, strings.Join(lines, "\n"), change.HowToKeep(vmid)))
}

// warnOfDestroy names what goes with the VM beside its disks. A destroy is silent about the snapshots that a
// proxmox_vm_snapshot of the same plan removes. A replacement names them all: they are of the old VM's disks.
func (p going) warnOfDestroy(ctx context.Context) {
	vmid := int(model.Value(p.Prior.VMID))
	if p.Machines == nil || p.Acting || vmid == 0 {
		return
	}
	r := p.Prior.DeleteRequest(p.Private)
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
	p.Diags.Append(going.Warn(ctx, p.out)...)
}

// warnLostSettings names the settings of a replaced VM's id that the configuration does not set: its firewall, its HA
// options, permissions. PVE removes them with the VM, and the one that takes its place begins without them: open,
// where a firewall that was made by hand closed it.
func (p going) warnLostSettings(settings []string) {
	lost := p.unmanaged("firewall")
	if p.Config.IsSet("ha") { // else the entry is among those that the VM is taken out of
		lost = append(lost, p.unmanaged("ha")...)
	}
	lost = append(lost, settings...)
	if len(lost) > 0 {
		p.Diags.AddWarning(fmt.Sprintf("The replacement of %s loses settings of its id", p.Prior.Thing()),
			fmt.Sprintf("PVE removes them with the VM, and the configuration does not set them again: %s. Note them first "+
				"(the file /etc/pve/firewall/%d.fw, `ha-manager config` and `pveum acl list`), and set them again after the "+
				"apply, or put firewall and HA into the configuration.", strings.Join(lost, "; "), model.Value(p.Prior.VMID)))
	}
}

// unmanaged names the values of a group in state that the configuration does not set, and has not set before.
func (p going) unmanaged(group string) []string {
	var all []string
	options, _ := model.Configuration{Raw: p.State}.Keys(group)
	for _, option := range options {
		at := group + "." + option
		was := plan.At(p.State, group, option)
		if !was.IsNull() && p.Config.IsNull(at) && !p.Managed(at) {
			all = append(all, at)
		}
	}
	return all
}

// warnUnshown names what goes with a VM that no plan was shown, and that this new one may replace, once for each. The
// leftover of a failed create goes only while no job names it (TakesAlong).
func (p going) warnUnshown(ctx context.Context, r destroy.Request) {
	vmid := int64(r.Ref.VMID)
	if p.Machines == nil || p.Acting || r.Ref.Proof != nil || !p.Run.IsFirstToName(vmid) {
		return
	}
	r.OwnHA, r.Replaced = r.OwnHA || p.Config.IsSet("ha"), true
	going := kit.Going{Along: p.Machines.TakesAlong(ctx, r), Thing: model.Thing(vmid, "", "")}
	p.Diags.Append(going.WarnUnshown(int(vmid))...)
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

// refuseUntold refuses a replacement of which the plan of the VM itself has told nothing: that plan asked for none, so
// -replace or replace_triggered_by does. Terraform then plans once more and shows only the errors of that plan
// (terraform internal/terraform, node_resource_abstract_instance.go, plan: "tread carefully"). Of a tainted VM it shows
// warnings. Disks that no configuration has made are refused. So is a protected VM, unless a failed create has left it.
func refuseUntold(p *Planning) {
	was, shown := p.Run.ShownAs(run.KeyOf(p.Private))
	if !shown || p.Private.Gone {
		return
	}
	if p.Private.Proof == nil {
		if was.Protected {
			p.RefuseToRemove(was.VMID, was.Thing, "replace")
			return
		}
		for _, t := range was.Taken {
			p.Diags.Append(change.ErrTaken(t))
		}
	}
	lines := change.OwnDisks(was.VMID, p.Private.Added)
	if len(lines) == 0 || !p.Run.IsFirstToTell(was.VMID) {
		return
	}
	p.Diags.AddAttributeError(path.Root("disks"), "Cannot replace "+was.Thing,
		fmt.Sprintf("It has disks that the state does not have, and they would be destroyed with it:\n%s\nTerraform shows "+
			"no warning of that with -replace or replace_triggered_by. Nothing was touched. %s. To destroy them with the VM, "+
			"run `terraform taint` with the VM's address, and plan again, without -replace: that plan names them in a warning.",
			strings.Join(lines, "\n"), change.HowToKeep(was.VMID)))
}
