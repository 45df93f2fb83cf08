package change

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// warnOfCloudInit tells that a running guest reads changed cloud-init data at its next start only, where this apply
// restarts it for nothing else. The drive has them at once (update, regenerateCloudInit). It also tells that cloud-init
// takes the guest for a new instance then, running or not.
func (p restart) warnOfCloudInit(ctx context.Context) {
	had, has := p.Prior.CloudInit, p.Plan.CloudInit
	drive := had != nil && had.Volume != nil && has != nil && has.Storage != nil
	if !drive || model.Value(p.Plan.Template) || p.Acting {
		return
	}
	before, after := p.keeping(ctx, plan.Unknowns(p.Config.Raw))
	at := p.changedCloudInit(before, after)
	isNew := vm.NewInstance(before, after) || at == passwordVersion && vm.PasswordIsInstance(after)
	runs := p.Runs() && !p.Restarts && !p.Plan.EndsStopped()
	isRead := runs && strings.HasPrefix(at, "cloud_init")
	if !isNew && !isRead {
		return
	}
	var text []string
	when := "its next start"
	if p.Restarts {
		when = "the restart by this apply"
	}
	if isRead {
		text = append(text, fmt.Sprintf("The apply writes them to the drive of the running guest and does not restart it. "+
			"To have them in force restart it when it suits: by the action proxmox_vm_power with action = \"reboot\", or by "+
			"%s on node %s.", shell.Or(shell.VM("qm reboot {vmid}", int(model.Value(p.Prior.VMID))), "a restart"),
			model.Value(p.Prior.Node)))
	}
	if isNew {
		text = append(text, "They change the instance-id, so cloud-init takes a guest that has run before for a new one "+
			"then: it makes new SSH host keys, and runs scripts that run once per instance again.")
	}
	if isNew && vm.IsNoCloud(after) {
		text = append(text, "To prevent that write its present id, which \"cloud-init query instance_id\" in the guest "+
			"tells, into a snippet before the apply, as \"instance-id: ID\", and name the snippet in cloud_init.custom.meta.")
	}
	p.Diags.AddAttributeWarning(path.Root(at), p.Prior.Thing()+" reads its new cloud-init data at "+when,
		strings.Join(text, " "))
}

// passwordVersion stands for the password, which no plan has.
const passwordVersion = "cloud_init_password_wo_version"

// changedCloudInit is the attribute by which the data on the cloud-init drive change, if they do.
func (p restart) changedCloudInit(before, after vm.Spec) string {
	change := vm.Diff(before, after)
	changed := slices.Concat(slices.Collect(maps.Keys(change.Set)), change.Delete)
	version := plan.At(p.Value, passwordVersion)
	switch {
	case slices.ContainsFunc(changed, vm.IsCloudInit):
		return "cloud_init"
	case version.IsFullyKnown() && !version.Equal(plan.At(p.State, passwordVersion)):
		return passwordVersion
	case slices.Contains(changed, "name"), slices.Contains(changed, "ostype"):
		return slices.MinFunc(slices.DeleteFunc(changed, func(o string) bool { return o != "name" && o != "ostype" }),
			strings.Compare)
	}
	return "networks"
}
