package create

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// committedLater are the options that only the commit may set: the mark stands in for the description, and a VM with
// protection cannot be removed.
var committedLater = []string{"description", "protection", "template"}

// makeVM claims the VMID with a new VM. The request has everything but the description, the protection and the sizes of
// imported disks. It has no start=1, with which PVE starts the guest in the worker that made it (qemu-server
// API2/Qemu.pm create_vm): no answer tells the UPID of that start, so an undo could not await it. A start that fails is
// only a line in the log, and until May 2026 PVE did not check the privilege to start. Disks may have to grow first.
func (a *attempt) makeVM(ctx context.Context) error {
	a.cloudInit = a.r.Spec.CloudInit.Storage != ""
	if len(a.change.Problems) > 0 {
		return request.Problems("create", a.vmid, a.change)
	}
	if err := guard.CheckCopies(ctx, a.creator.destroyer.Guard, a.node, a.change.Copies()); err != nil {
		return err
	}
	params := pve.Params{}
	maps.Copy(params, a.change.Set)
	for _, option := range committedLater {
		delete(params, option)
	}
	params["vmid"] = strconv.Itoa(a.vmid)
	if a.r.ImportStorage != "" && a.change.Unpacks() {
		params["import-working-storage"] = a.r.ImportStorage
	}
	if a.r.Pool != "" {
		params["pool"] = a.r.Pool
	}
	return a.sendFirst(ctx, request.Request{Node: a.node, Type: "qmcreate", ID: a.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) { return a.sendCreate(ctx, params) }})
}

// sendCreate sends the request with a uuid of our own, unless the configuration has one. PVE makes a uuid only if
// smbios1 is not sent at all (qemu-server API2/Qemu.pm create_vm), and a uuid that is known beforehand proves what
// became of a request whose answer was lost. An identity without VM.Config.HWType cannot send one.
func (a *attempt) sendCreate(ctx context.Context, params pve.Params) (pve.UPID, error) {
	if uuid := vm.UUID(params); uuid != "" {
		params["description"] = a.firstMark(uuid)
		return a.creator.api.Node(a.node).CreateVM(ctx, params)
	}
	return a.sendWithUUID(ctx, params, params["smbios1"])
}

// sendWithUUID sends the request with a uuid of our own in an SMBIOS table.
func (a *attempt) sendWithUUID(ctx context.Context, params pve.Params, smbios string) (pve.UPID, error) {
	a.first.uuid = newUUID()
	with := maps.Clone(params)
	with["smbios1"], with["description"] = uuidIn(smbios, a.first.uuid), a.firstMark(a.first.uuid)
	upid, err := a.creator.api.Node(a.node).CreateVM(ctx, with)
	if params["smbios1"] == "" && pve.IsKind(err, pve.Denied) {
		a.first.uuid, params["description"] = "", a.firstMark("")
		return a.creator.api.Node(a.node).CreateVM(ctx, params)
	}
	return upid, err
}

// uuidIn replaces the uuid of an SMBIOS table.
func uuidIn(smbios, uuid string) string {
	fields := slices.DeleteFunc(strings.Split(smbios, ","),
		func(f string) bool { return f == "" || strings.HasPrefix(f, "uuid=") })
	return strings.Join(append([]string{"uuid=" + uuid}, fields...), ",")
}

// newUUID returns a random uuid (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// fromScratch returns the options of a VM that is made from scratch, and those that the first write leaves to root on
// the node. The latter are drives made of files that are named by their paths, and the boot order, which may name
// those drives.
func (c *Creator) fromScratch(spec vm.Spec) (change, late vm.Change) {
	change, late = vm.Diff(vm.Spec{}, spec), vm.Change{Set: map[string]string{}}
	slots := c.jobs.ByRoot(change)
	if len(slots) == 0 {
		return change, late
	}
	change.Set = maps.Clone(change.Set)
	for _, option := range append(slots, "boot") {
		if value, ok := change.Set[option]; ok {
			late.Set[option] = value
			delete(change.Set, option)
		}
	}
	return change, late
}

// rootImport is the part of an attempt that only root on the node can do.
type rootImport struct{ *attempt }

// importDisks adds the drives that the first write has left to root on the node. Without a configured boot order it
// writes the one that PVE would have made if the disks had been there. If a third party changes the VM meanwhile, only
// what is still missing is sent again.
func (a rootImport) importDisks(ctx context.Context) error {
	return a.view.Edit(ctx, func(_ context.Context, read pve.PendingConfig) (vm.Change, error) {
		values, rest := read.Current(), vm.Change{Set: map[string]string{}}
		for option, value := range a.late.Set {
			if option == "boot" || values[option] == "" {
				rest.Set[option] = value
			}
		}
		if rest.Set["boot"] == "" {
			order := vm.BootOrderWith(vm.BootOrder(values), a.spec.Disks)
			rest.Set["boot"] = vm.Encode(vm.Spec{Options: vm.Options{BootOrder: order}})["boot"]
		}
		return rest, nil
	})
}

// lostImport warns of volumes that a command of unknown outcome may have left, if the undo has left the VM and names no
// volume: it may not have come to look at all storages.
func (a rootImport) lostImport(left []saga.Residue) []guest.Warning {
	died := slices.ContainsFunc(a.view.Tasks.Commands, func(command request.Command) bool { return command.Died })
	named := slices.ContainsFunc(left, func(r saga.Residue) bool { return r.Kind == "volume" })
	storages := rootStorages(a.late, a.change)
	if !died || named || len(left) == 0 || len(storages) == 0 {
		return nil
	}
	look := ""
	if command := shell.VM("pvesm list {} --vmid {vmid}", a.vmid, storages[0]); command != "" {
		look = " with `" + command + "`"
	}
	return []guest.Warning{{Summary: fmt.Sprintf("An import for VM %d may have left a volume", a.vmid),
		Detail: fmt.Sprintf("A command that was to import disks on %s was cut off. If it was killed, it has left a volume "+
			"with the id %d that no configuration names. Whether there is one cannot be told before the rollback is done. "+
			"Look for it on node %s%s", strings.Join(storages, ", "), a.vmid, a.node, look)}}
}

// rootStorages are the storages on which root on the node makes disks for changes.
func rootStorages(changes ...vm.Change) []string {
	on := map[string]bool{}
	for _, change := range changes {
		for option, value := range change.Set {
			if vm.ImportsPath(option, value) {
				storage, _, _ := strings.Cut(value, ":")
				on[strings.TrimPrefix(storage, "file=")] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(on))
}

// restore claims the VMID with the VM in the archive. PVE writes a bare configuration first, and the description with
// the mark only when the data is there (qemu-server QemuServer.pm, restore_vma_archive, restore_merge_config). Whatever
// the archive says, the VM is no template and not protected until it is complete.
func (a *attempt) restore(ctx context.Context) error {
	params := pve.Params{"vmid": strconv.Itoa(a.vmid), "archive": a.r.Restore.Archive, "unique": "1"}
	optional := map[string]string{"storage": a.r.Restore.Storage, "pool": a.r.Pool}
	if a.r.Spec.Name != nil {
		optional["name"] = *a.r.Spec.Name
	}
	if a.r.Restore.BWLimit != nil {
		optional["bwlimit"] = strconv.FormatInt(*a.r.Restore.BWLimit, 10)
	}
	for _, option := range []string{"template", "protection"} {
		if a.from.config[option] == "1" {
			optional[option] = "0"
		}
	}
	maps.DeleteFunc(optional, func(_, value string) bool { return value == "" })
	maps.Copy(params, optional)
	a.unprotected = a.from.config["protection"] == "1"
	err := sendCopy(ctx, a, request.Request{Node: a.node, Type: "qmrestore", ID: a.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return a.sendWithUUID(ctx, params, a.from.config["smbios1"])
		}})
	if err != nil {
		return err
	}
	return pursuit{a}.following(a.refuseAdopted)(ctx)
}

// refuseAdopted refuses a VM to which PVE has attached volumes that are not in the archive (rescan). A third party put
// them under the VMID meanwhile, or this identity could not see them. They would be destroyed with the VM.
func (a *attempt) refuseAdopted(ctx context.Context) error {
	config, err := a.view.Fresh(ctx)
	if err != nil {
		return err
	}
	if foreign := destroy.Adopted(a.vmid, config.Current()); len(foreign) > 0 {
		return adoptedByRescan(foreign)
	}
	return nil
}

// adoptedByRescan is the error for volumes that PVE has attached to a VM as unused disks (qemu-server QemuServer.pm,
// rescan).
func adoptedByRescan(volumes []string) error {
	return &guest.FieldError{Path: "vmid", Summary: "PVE has attached volumes to the VM that its create did not make",
		Detail: "They carry its VMID, a rescan of the storages has found them, and they are unused disks of the VM now: " +
			strings.Join(volumes, ", ") + ". They may belong to another user"}
}
