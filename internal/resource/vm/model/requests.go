package model

import (
	"crypto/rand"
	"maps"
	"reflect"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/cloudinit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// CreateRequest is the plan as a request.
func (m *Model) CreateRequest(password *string) create.Request {
	request := create.Request{
		Node: Value(m.Node), VMID: int(Value(m.VMID)), Pool: Value(m.Pool),
		Spec:  m.Spec(m.Copies()),
		Clone: m.Clone.Request(), Restore: m.Restore.Request(),

		Firewall: m.Firewall, HA: m.HA,
		Start:         m.StartsWhenMade(),
		ImportStorage: Value(m.ImportStorage),
		Nodes:         m.Nodes,
	}
	for slot, d := range m.Disks { // one whose name was not known in the plan
		if d.Imported != nil && d.Volume == nil {
			disk := request.Spec.Disks[slot]
			disk.Volume = Value(d.Imported.Volume)
			request.Spec.Disks[slot] = disk
		}
	}
	request.Spec.CloudInit.PasswordHash = passwordHash(password, Value(m.OSType))
	// the source's, which may be Windows; the change that sets it on a copy hashes for the others
	if m.Copies() && m.OSType == nil {
		request.Spec.CloudInit.PasswordHash = kit.NonZero(Value(password))
	}
	if Value(m.OnFailure) == "keep" {
		request.OnFailure = create.Keep
	}
	if Value(m.OnOrphanedVolumes) == "destroy" {
		request.OnOrphans = create.DestroyOrphans
	}
	return request
}

// Request is the clone as package guest is asked for it, nil without one.
func (c *Clone) Request() *guest.Clone {
	if c == nil {
		return nil
	}
	return &guest.Clone{VMID: int(Value(c.VMID)), Name: Value(c.Name), Tags: c.Tags, Node: Value(c.Node), Full: c.Full,
		Snapshot: Value(c.Snapshot), Storage: Value(c.Storage), Format: Value(c.Format), BWLimit: c.BWLimit}
}

// Request is the restore as package guest is asked for it, nil without one.
func (r *Restore) Request() *guest.Restore {
	if r == nil {
		return nil
	}
	return &guest.Restore{Archive: Value(r.Archive), Storage: Value(r.Storage), BWLimit: r.BWLimit}
}

// passwordHash is the password as PVE is to store it. PVE hashes it on an update but not on a create, and never for
// Windows, whose cloudbase-init wants the text (qemu-server API2/Qemu.pm, Cloudinit.pm).
func passwordHash(password *string, ostype string) *string {
	if password == nil || *password == "" {
		return nil
	}
	if vm.IsWindows(ostype) {
		return password
	}
	hash := cloudinit.CryptSHA512(*password, rand.Text()[:16])
	return &hash
}

// ChangesNothing reports whether an update only changes what the provider notes: no request is made then.
func ChangesNothing(r update.Request, prior Model) bool {
	power := r.PowerState == guest.Unmanaged || string(r.PowerState) == Value(powerState(Value(prior.Status)))
	stays := r.Node == "" || r.Node == r.Ref.Node
	return power && stays && len(r.Due) == 0 && !r.NewSnippets && r.Pool == r.PriorPool &&
		reflect.DeepEqual(r.PriorFirewall, r.Firewall) &&
		reflect.DeepEqual(r.PriorHA, r.HA) && vm.Diff(r.Prior, r.Planned).Empty()
}

// UpdateRequest is the difference between state and plan as a request.
func UpdateRequest(prior, plan Model, private PrivateState, password *string) update.Request {
	leftover := private.leftover(prior)
	private = private.Accepted(int(Value(prior.VMID)))
	before, after := Normalized(prior, plan, private.Managed)
	if has := Value(prior.Machine); vm.IsWindows(Value(prior.OSType)) && !vm.IsWindows(Value(plan.OSType)) &&
		(has == "q35" || has == "pc") {
		before.Machine = nil // what PVE pinned for Windows; the wish holds from now on
	}
	request := update.Request{
		Ref:     prior.Ref(private),
		Prior:   before.Spec(false),
		Planned: after.Spec(false),
		Notes: update.Notes{Leftover: leftover, Others: private.Others, Sizes: private.Sizes,
			Detached: private.Detached, Leaving: private.leaving(), Media: private.media(prior)},
		PriorPool: Value(prior.Pool), Pool: Value(plan.Pool),
		PriorHA: prior.HA, HA: plan.HA,
		PriorFirewall: prior.Firewall, Firewall: plan.Firewall,
		ImportStorage: Value(plan.ImportStorage),
		BootOrder:     plan.BootOrder,
		PowerState:    guest.PowerState(Value(plan.PowerState)), Due: PendingRestart(prior, plan, private),
	}
	if Differ(prior.Node, plan.Node) { // one that is somewhere else by now for another reason is followed
		request.Node = *plan.Node
	}
	for slot, nic := range request.Planned.Networks { // a slot that is new in state may be there on the server
		if _, known := before.Networks[slot]; !known {
			nic.Model = Value(after.Networks[slot].Model)
			request.Planned.Networks[slot] = nic
		}
	}
	if version := plan.PasswordVersion; version != nil && (prior.PasswordVersion == nil ||
		*prior.PasswordVersion != *version) {
		request.Planned.CloudInit.PasswordHash = passwordHash(password, Value(plan.OSType))
	}
	if plan.PasswordVersion == nil && prior.PasswordVersion != nil {
		request.Planned.CloudInit.PasswordHash = new("") // takes it away
	}
	if before, now := prior.SnippetTrigger, plan.SnippetTrigger; before != nil && now != nil {
		request.NewSnippets = *before != *now
	}
	// else the plan would have left them alone
	request.Planned.ExactTags = slices.Equal(Lowered(prior.Tags), Lowered(plan.Tags))
	request.DestroyRemoved = Value(plan.RemovedDisks) == "destroy"
	request.StopTimeout, request.Wait = kit.Duration(plan.ShutdownTimeout, 0), plan.WaitFor.Request()
	request.Restart = plan.restart()
	return request
}

// restart is the reboot policy.
func (m *Model) restart() update.Restart {
	switch Value(m.RebootPolicy) {
	case "never":
		return update.RestartNever
	case "force":
		return update.RestartForcibly
	default:
		return update.RestartGracefully
	}
}

// DeleteRequest is the state as a request.
func (m *Model) DeleteRequest(private PrivateState) destroy.Request {
	request := destroy.Request{Ref: m.Ref(private), Left: private.Residues, Pool: Value(m.Pool),
		Disks: destroy.Disks{Known: append(m.own(), private.Detached...), Slots: map[string]string{},
			Sizes: m.sizes(private)},
		StopTimeout: kit.Duration(m.ShutdownTimeout, 0), OwnFirewall: m.Firewall != nil,
		OwnHA: private.Managed["ha"] || private.Lost && m.HA != nil} // the destroy of a tainted VM has no notes
	maps.Copy(request.Slots, private.Added)  // those that wait, too
	maps.Copy(request.Slots, private.Others) // none where no refresh was made for the destroy of a tainted VM
	maps.Copy(request.Slots, m.volumes())
	for _, t := range m.Taken() {
		request.Slots[t.Slot] = t.Held
	}
	if private.Proof != nil && private.Others == nil && len(m.slotted()) == 0 {
		request.Slots = nil // the state has what was planned
	}
	if d := m.OnDestroy; d != nil {
		request.ForceStop, request.GracefulOnly = Value(d.PowerOff) == "force", Value(d.PowerOff) == "graceful_only"
		request.StopTimeout = kit.Duration(d.Timeout, request.StopTimeout)
		request.KeepReferences = d.Purge != nil && !*d.Purge
	}
	return request
}

// volumes are those of the disks of a VM in state by slot, "" for one without a known name.
func (m *Model) volumes() map[string]string {
	all := map[string]string{}
	for slot, disk := range m.Spec(false).EveryDisk() {
		all[slot] = disk.Volume
	}
	return all
}

// slotted are the volumes in the slots of a VM in state.
func (m *Model) slotted() []string {
	return slices.DeleteFunc(slices.Collect(maps.Values(m.volumes())), func(volume string) bool { return volume == "" })
}

// SizeOfEFIDisk and SizeOfTPMState are the sizes that are noted of these, in bytes: vm.FitsSize takes up to 4 MiB more.
const SizeOfEFIDisk, SizeOfTPMState int64 = 1, 4 << 20

// sizes are those that disks of a VM in state are known to have, in bytes, by volume. The state has none of an EFI
// disk, which PVE makes smaller than 4 MiB, but for aarch64 (qemu-server QemuServer/OVMF.pm get_efivars_size), and none
// of a TPM state, which has 4 MiB (QemuServer/Drive.pm TPMSTATE_DISK_SIZE).
func (m *Model) sizes(private PrivateState) map[string]int64 {
	sizes := map[string]int64{}
	maps.Copy(sizes, private.Sizes)
	if e := m.EFIDisk; e != nil && e.Volume != nil && Value(m.Arch) != "aarch64" {
		sizes[*e.Volume] = SizeOfEFIDisk
	}
	if s := m.TPMState; s != nil && s.Volume != nil {
		sizes[*s.Volume] = SizeOfTPMState
	}
	for _, disk := range m.Disks {
		if size, err := property.ParseSize(Value(disk.Size)); err == nil && disk.Volume != nil {
			sizes[*disk.Volume] = size
		}
	}
	return sizes
}

// Adopts are the volumes that are to become disks of a VM that is not there yet. A device of the node is not among
// them: it belongs to no VM, and no destroy removes it.
func (m *Model) Adopts() []create.Adopted {
	var all []create.Adopted
	for _, slot := range SortedSlots(m.Disks) {
		is := m.Disks[slot].Imported
		if is == nil || is.Volume == nil || volid.IsDevice(*is.Volume) || m.Borrows(*is.Volume) {
			continue
		}
		all = append(all, create.Adopted{Slot: slot, Volume: *is.Volume, SHA256: Value(is.SHA256)})
	}
	return all
}

// Borrows reports whether a volume carries the id of another VM than this, which may have none yet.
func (m *Model) Borrows(volume string) bool {
	owner, ok := volid.Owner(volume)
	return ok && int64(owner) != Value(m.VMID)
}

// WithoutAdopted is the VM that the create makes where volumes are adopted: stopped, without them and what needs them.
func (m Model) WithoutAdopted() Model {
	disks := map[string]Disk{}
	for slot, d := range m.Disks {
		if d.Imported == nil || volid.IsDevice(Value(d.Imported.Volume)) || m.Borrows(Value(d.Imported.Volume)) {
			disks[slot] = d
		}
	}
	m.Disks, m.BootOrder, m.HA, m.WaitFor, m.PowerState = disks, nil, nil, nil, new(string(guest.Stopped))
	return m
}

// StartsWhenMade reports whether a create starts the VM.
func (m *Model) StartsWhenMade() bool {
	return Value(m.PowerState) != string(guest.Stopped) && !Value(m.Template) && !keepsOff(m.HA)
}

// VolumesOf are the ids of the volumes that a VM adopts.
func VolumesOf(adopts []create.Adopted) []string {
	var all []string
	for _, a := range adopts {
		all = append(all, a.Volume)
	}
	return all
}
