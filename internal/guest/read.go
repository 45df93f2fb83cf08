package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Read looks at a VM in state: its place, its state, and whether it is still the one in state. Gone and Unknown are
// as Find has them, but a VM that is gone is no error. A VM that is another than the one in state is an
// *IdentityError.
func (g *Guests) Read(ctx context.Context, ref Ref) (Guest, Presence, error) {
	listed, ok, err := g.api.Listing().Guest(ctx, ref.VMID)
	if err != nil {
		return Guest{}, Unknown, fmt.Errorf("list the cluster's guests: %w", err)
	}
	var resources pve.Resources
	if ok {
		resources = pve.Resources{listed}
		// Each VM of such a node would cost several requests that fail; of a thousand VMs that is the time of the refresh.
		if away, err := g.api.Listing().IsAway(ctx, listed.Node); err == nil && away {
			return Guest{}, Unknown, &NodeOfflineError{VMID: ref.VMID, Node: listed.Node}
		}
	}
	var asked *agent.Question
	if ref.Agent.Enabled && listed.Type == "qemu" && listed.Status == string(Running) {
		asked = g.agents.Ask(ctx, listed.Node, ref.VMID, ref.Agent)
	}
	at, seen, err := g.Find(ctx, ref, resources)
	if seen == Gone {
		return Guest{Untraced: !g.HasTrace(ctx, ref.VMID)}, Gone, nil
	}
	if err != nil {
		return Guest{}, seen, err
	}
	if at.Node != listed.Node {
		asked = nil
	}
	guest, seen, err := judge(ref, at)
	if restoring := (*RestoringError)(nil); errors.As(err, &restoring) {
		restoring.Task = restoreOf(ctx, g, at.Node, ref.VMID)
	}
	if err != nil || seen != Found || guest.Placeholder {
		return guest, seen, err
	}
	if guest.Leftover != nil {
		mark, _ := ownership.Parse(at.Config.Current()["description"])
		if !g.IsGenuine(mark) { // of another identity's create, or forged
			guest.Leftover = nil
		}
	}
	if err = g.complete(ctx, ref, at.Listed, &guest, asked); err == nil && ref.former(at.Node) != "" {
		guest.Astray, err = Strays(ctx, g, ref, at.Node, at.Config.Current(), at.Config.Merged())
	}
	if err == nil {
		g.astray.Store(ref.VMID, guest.Astray)
	}
	return guest, Found, err
}

// restoreOf is the task that restores a VM, "" if it cannot be seen.
func restoreOf(ctx context.Context, g *Guests, node string, vmid int) pve.UPID {
	tasks, err := g.api.Tasks().List(ctx, node, pve.TaskFilter{VMID: vmid, RunningOnly: true})
	at := slices.IndexFunc(tasks, func(t pve.Task) bool { return t.UPID.Type() == "qmrestore" })
	if err != nil || at < 0 {
		return ""
	}
	return tasks[at].UPID
}

// HasTrace reports whether a task of this cluster names a VMID, or may. Two hosts whose nodes have the same name differ
// in that, and in no name (pve-manager API2/Cluster.pm: a node that is in no cluster tells no name of one).
func (r *Runs) HasTrace(ctx context.Context, vmid int) bool {
	resources, _, err := r.api.Listing().Recent(ctx) // for the nodes only, and once for all VMs that are gone
	if err != nil {
		return true
	}
	for _, n := range resources.Nodes() {
		tasks, err := r.api.Tasks().List(ctx, n.Node, pve.TaskFilter{VMID: vmid})
		if err != nil || len(tasks) > 0 {
			return true
		}
	}
	return false
}

// judge says what it is that was found in the place of the VM in state.
func judge(ref Ref, at Location) (Guest, Presence, error) {
	config, owner := at.Config.Current(), Ours
	if ref.Proof != nil {
		owner = ref.Proof.Owner(config)
	}
	if owner == ThirdParty {
		return Guest{}, Gone, nil // what our create left is gone, and another guest has the VMID
	}
	if err := Guard(ref, at.Node, config); err != nil {
		return Guest{}, Found, err
	}
	if ref.Proof == nil && isPlaceholder(ref.VMID, config) {
		return Guest{VMID: ref.VMID, Node: at.Node, Placeholder: true}, Found, nil
	}
	guest := FromConfig(at.Config, at.Node, ref.VMID)
	if owner != Ours {
		guest.Identity = Identity{} // not proven, so not to be remembered
	}
	return guest, Found, nil
}

// complete reads what a guest's configuration does not say. asked is the question to its agent, if that has been put.
func (g *Guests) complete(ctx context.Context, ref Ref, listed pve.Resource, guest *Guest,
	asked *agent.Question) error {
	var err error
	guest.Pool, guest.Status = listed.Pool, listed.Status
	switch {
	case listed.Status == ref.Status && listed.Status != "" && listed.Status != "unknown":
	case guest.Lock == lockBackup: // the node's list does not tell a guest that is off from one that runs
		err = g.readStatus(ctx, guest)
	default: // by the node, with others of it: the cluster's listing is up to ten seconds old and never trusted for it
		err = guest.takeStatus(g.api.Listing().Power(ctx, guest.Node, guest.VMID))
	}
	if asked == nil && guest.HasAgent() {
		asked = g.agents.Ask(ctx, guest.Node, guest.VMID, ref.Agent)
	}
	if err == nil {
		err = g.ReadFirewallAndHA(ctx, guest, ref.Firewall, ref.HA || listed.HAState != "")
		if !ref.HA && pve.IsKind(err, pve.Denied) { // it was not asked for
			err = nil
		}
	}
	if asked != nil && guest.HasAgent() {
		guest.takeAnswer(ctx, asked)
	}
	return err
}

// IsAsleep reports whether a guest is suspended to disk.
func (g Guest) IsAsleep() bool { return g.Lock == request.Suspended }

// Wake says how a guest that is suspended to disk can be changed. `qm resume` starts it with its saved memory
// (qemu-server API2/Qemu.pm vm_resume); without vmstate PVE drops the lock as well (update_vm_api).
func Wake(vmid int, node string) string {
	return fmt.Sprintf("PVE changes nothing on it until it runs again. Next step, on node %s: resume it with `%s`, or "+
		"drop its saved memory with `%s`: all is lost that the guest has not written to its disks", node,
		shell.VM("qm resume {vmid}", vmid), shell.VM("qm set {vmid} --delete vmstate", vmid))
}

// ReadBack reads a VM that was just created or changed.
func (g *Guests) ReadBack(ctx context.Context, node string, vmid int) (Guest, error) {
	config, err := g.api.QEMU(node, vmid).Pending(ctx)
	if err != nil {
		return Guest{VMID: vmid, Node: node}, err
	}
	guest := FromConfig(config, node, vmid)
	err = g.readStatus(ctx, &guest)
	return guest, err
}

// FromConfig is a VM as its configuration has it. Whether it runs is in no configuration.
func FromConfig(config pve.PendingConfig, node string, vmid int) Guest {
	current := config.Current()
	spec, now := vm.Decode(config.Merged()), vm.Decode(current)
	for slot, disk := range spec.Disks { // a resize takes effect at once and leaves the size in a pending line as it was
		if has := now.Disks[slot]; has.Volume == disk.Volume && has.Size != nil {
			disk.Size = has.Size
			spec.Disks[slot] = disk
		}
	}
	leaving, stay := map[string]string{}, spec.EveryDisk()
	for slot, disk := range now.EveryDisk() {
		if vm.SlotOf(stay, disk.Volume) == "" {
			leaving[slot] = disk.Volume
		}
	}
	return Guest{VMID: vmid, Node: node, Spec: spec, Identity: IdentityOf(current),
		Lock: current["lock"], Pending: Waiting(config), Leaving: leaving, LegacyBoot: vm.IsLegacyBoot(current),
		Leftover: Leftover(node, vmid, current)}
}

// Waiting are the options that wait for a restart which changes them. PVE lets one wait, too, that has the value in
// force in another spelling, or by its default (pve-guest-common AbstractConfig.pm cleanup_pending compares the texts).
func Waiting(config pve.PendingConfig) []string {
	waiting := config.Waiting()
	if len(waiting) == 0 { // as of most VMs
		return nil
	}
	current, merged := config.Current(), config.Merged()
	return slices.DeleteFunc(waiting, func(option string) bool {
		_, isModelled := vm.AttributeOf(option)
		return isModelled && option != "cipassword" && vm.MeansSame(option, current[option], merged[option])
	})
}

// RemovedAtStart says what becomes of the disks that wait to leave the VM, by slot. PVE frees the volume of a forced
// removal, and detaches the others, those among them that another value of their slot replaces (qemu-server
// QemuServer.pm vmconfig_delete_or_detach_drive, vmconfig_apply_pending).
func RemovedAtStart(config pve.PendingConfig) map[string]string {
	becomes, merged := map[string]string{}, config.Merged()
	for _, e := range config.Entries {
		volume := VolumeOf(e.Value)
		isDisk := vm.IsSlot(e.Key) && e.HasValue && !vm.IsOptical(e.Value) && !volid.IsCloudInit(volume)
		switch {
		case !isDisk || e.Delete == 0 && !e.HasPending:
		case e.Delete > 1:
			becomes[e.Key] = volume + " is destroyed with its data"
		case !HasInSlot(merged, volume):
			becomes[e.Key] = volume + " is detached"
		}
	}
	return becomes
}

// HasInSlot reports whether a slot of a configuration has a volume.
func HasInSlot(options map[string]string, volume string) bool {
	return slices.ContainsFunc(vm.Slots(options), func(slot string) bool { return VolumeOf(options[slot]) == volume })
}

// lockBackup is the lock of a guest that is backed up.
const lockBackup = "backup"

// readStatus asks whether the guest runs now. A backup starts the QEMU of a guest that is off, paused, and ends it when
// it is done (qemu-server VZDump/QemuServer.pm enforce_vm_running_for_backup, restore_vm_power_state): it is off.
func (g *Guests) readStatus(ctx context.Context, guest *Guest) error {
	now, err := g.api.QEMU(guest.Node, guest.VMID).Status(ctx)
	if now.QMPStatus == "prelaunch" && now.Lock == lockBackup {
		now.Status = string(Stopped)
	}
	return guest.takeStatus(now.Status, err)
}

func (g *Guest) takeStatus(status string, err error) error {
	if err != nil {
		return fmt.Errorf("read the status of VM %d: %w", g.VMID, err)
	}
	g.Status = status
	return nil
}

// ReadFirewallAndHA reads what stands beside a guest's configuration, as far as it is wanted.
func (g *Guests) ReadFirewallAndHA(ctx context.Context, guest *Guest, firewall, ha bool) error {
	var err error
	if firewall {
		if guest.Firewall, err = g.ReadFirewall(ctx, guest.Node, guest.VMID); err != nil {
			return err
		}
	}
	if ha {
		guest.HA, err = g.ReadHA(ctx, guest.VMID)
	}
	return err
}

// takeAnswer waits for what an agent says of the guest.
func (g *Guest) takeAnswer(ctx context.Context, q *agent.Question) {
	interfaces, silent := q.Answer(ctx)
	if interfaces != nil {
		g.Interfaces = interfaces
	}
	g.Silent = g.Silent || silent
}

// AskAgent asks the agent of a guest that was just read.
func (g *Guests) AskAgent(ctx context.Context, guest *Guest, memory agent.Memory) {
	guest.takeAnswer(ctx, g.agents.Ask(ctx, guest.Node, guest.VMID, memory))
}

// RestoringError says that a VM cannot be told from others, since a restore over it is at work or has failed.
type RestoringError struct {
	VMID int
	Node string
	Task pve.UPID // "" if it is not seen
}

// Error says how the VM can be told again.
func (e *RestoringError) Error() string {
	task := ""
	if e.Task != "" {
		task = fmt.Sprintf(" (task %s is at work)", e.Task)
	}
	return fmt.Sprintf("VM %d on node %s is being restored from a backup, or such a restore has failed%s: its "+
		"configuration is the empty one that PVE writes meanwhile, so nothing proves that it is the VM in state. It was not "+
		"touched, and the state keeps it. Wait for the end of the restore. If that has failed, restore a backup of the VM "+
		"again", e.VMID, e.Node, task)
}

// NodeOfflineError says that a VM cannot be read, since the cluster does not see its node.
type NodeOfflineError struct {
	VMID int
	Node string
}

// Error names the VM and the node.
func (e *NodeOfflineError) Error() string {
	return fmt.Sprintf("read VM %d on node %s: the node is offline", e.VMID, e.Node)
}
