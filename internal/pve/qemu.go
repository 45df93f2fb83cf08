package pve

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// name is the VM in words, for errors.
func (q QEMUReader) name() string { return guestName(q.node, q.vmid) }

// path is the API path of something of the VM.
func (q QEMUReader) path(rest string) string { return guestPath(q.node, q.vmid, rest) }

// CreateVM starts the creation of the VM in p["vmid"], or a restore with p["archive"]. A VMID in use is Exists, at
// once.
func (n NodeClient) CreateVM(ctx context.Context, p Params) (UPID, error) {
	return n.client.start(ctx, "create VM "+p["vmid"]+" on node "+n.node, http.MethodPost, "/nodes/"+n.node+"/qemu", p)
}

// Clone starts a copy of source, which is on that node, to p["newid"]. A VMID in use on the same node is Exists at
// once; on another node, or of a container, it is the task that fails with it.
func (q QEMUClient) Clone(ctx context.Context, p Params) (UPID, error) {
	op := "clone VM " + strconv.Itoa(q.vmid) + " on node " + q.node + " to VM " + p["newid"]
	return q.client.start(ctx, op, http.MethodPost, q.path("/clone"), p)
}

// ResizeDisk starts growing a disk to a size ("32G"), or by one ("+2G"). Shrinking fails in the task. With a digest
// that is not "", PVE does so with that configuration only.
func (q QEMUClient) ResizeDisk(ctx context.Context, disk, size, digest string) (UPID, error) {
	op, params := "resize disk "+disk+" of "+q.name()+" to "+size, Params{"disk": disk, "size": size}
	if digest != "" {
		params["digest"] = digest
	}
	return q.client.start(ctx, op, http.MethodPut, q.path("/resize"), params)
}

// ConvertToTemplate starts turning a stopped VM into a template.
func (q QEMUClient) ConvertToTemplate(ctx context.Context) (UPID, error) {
	return q.client.start(ctx, "convert "+q.name()+" to a template", http.MethodPost, q.path("/template"), nil)
}

// ConvertDisk starts turning one disk of a template into a base image, which does nothing where its storage has none
// (qemu-server QemuServer.pm template_create).
func (q QEMUClient) ConvertDisk(ctx context.Context, slot string) (UPID, error) {
	return q.client.start(ctx, "convert "+slot+" of "+q.name()+" to a base image", http.MethodPost, q.path("/template"),
		Params{"disk": slot})
}

// Migrate starts moving a VM to the node p["target"]. For an HA-managed VM the task only files the request.
func (q QEMUClient) Migrate(ctx context.Context, p Params) (UPID, error) {
	return q.client.start(ctx, "migrate "+q.name()+" to node "+p["target"], http.MethodPost, q.path("/migrate"), p)
}

// RegenerateCloudInit writes the cloud-init volume again from the config, at once.
func (q QEMUClient) RegenerateCloudInit(ctx context.Context) error {
	return q.client.change(ctx, "regenerate cloud-init of "+q.name(), http.MethodPut, q.path("/cloudinit"), nil)
}

// GuestStatus is a VM's state now, not the listing's of 10 s ago.
type GuestStatus struct {
	// Status is running or stopped; QMPStatus is QEMU's finer word (running, paused, prelaunch …), equal to Status when
	// stopped.
	Status, QMPStatus string
	// Lock is the config lock.
	Lock string
	// Uptime is seconds, PID the QEMU process or 0.
	Uptime, PID int64
	// HAManaged is whether HA manages the VM.
	HAManaged bool
}

// IsRunning tells whether a QEMU process exists.
func (g GuestStatus) IsRunning() bool { return g.Status == "running" }

type guestStatusWire struct {
	Status    wire.String `json:"status"`
	QMPStatus wire.String `json:"qmpstatus"`
	Lock      wire.String `json:"lock"`
	Uptime    wire.Int    `json:"uptime"`
	PID       wire.Int    `json:"pid"`
	HA        struct {
		Managed wire.Bool `json:"managed"`
	} `json:"ha"`
}

// Status asks for a VM's state.
func (q QEMUReader) Status(ctx context.Context) (GuestStatus, error) {
	w, err := fetch[guestStatusWire](ctx, q.client, "read the status of "+q.name(), q.path("/status/current"), nil)
	return GuestStatus{
		Status: string(w.Status), QMPStatus: string(w.QMPStatus), Lock: string(w.Lock), Uptime: int64(w.Uptime),
		PID:       int64(w.PID),
		HAManaged: bool(w.HA.Managed),
	}, err
}

// power starts one of status/*. For an HA-managed VM the task only files the request: ask Status.
func (q QEMUClient) power(ctx context.Context, verb, command string, p Params) (UPID, error) {
	return q.client.start(ctx, verb+" "+q.name(), http.MethodPost, q.path("/status/"+command), p)
}

// Start starts a VM. One that runs already fails in the task.
func (q QEMUClient) Start(ctx context.Context, p Params) (UPID, error) {
	return q.power(ctx, "start", "start", p)
}

// Shutdown asks the guest to end; p["timeout"] in seconds. One that does not is left running.
func (q QEMUClient) Shutdown(ctx context.Context, p Params) (UPID, error) {
	if p["forceStop"] != "" {
		return "", &Error{Op: "shut down " + q.name(), Kind: Invalid,
			Message: "forceStop has a call of its own; nothing was sent"}
	}
	return q.power(ctx, "shut down", "shutdown", p)
}

// Reboot asks the guest to end and starts it again, which applies pending changes. A stopped VM is Unhealthy.
func (q QEMUClient) Reboot(ctx context.Context, p Params) (UPID, error) {
	return q.power(ctx, "reboot", "reboot", p)
}

// Suspend pauses a guest, or with p["todisk"] saves its memory to p["statestorage"] and ends it. A stopped VM is
// Unhealthy.
func (q QEMUClient) Suspend(ctx context.Context, p Params) (UPID, error) {
	return q.power(ctx, "suspend", "suspend", p)
}

// Resume lets a paused guest go on, and brings back one that was suspended to disk.
func (q QEMUClient) Resume(ctx context.Context) (UPID, error) {
	return q.power(ctx, "resume", "resume", nil)
}

// AgentInterface is a network interface as the guest sees it.
type AgentInterface struct {
	// Name is the guest's, MAC in the guest's spelling.
	Name, MAC string
	Addresses []AgentAddress
}

// AgentAddress is one address: Type is ipv4 or ipv6, Prefix the length of the network's.
type AgentAddress struct {
	Type, Address string
	Prefix        int
}

type agentWire struct {
	Result []struct {
		Name      wire.String `json:"name"`
		MAC       wire.String `json:"hardware-address"`
		Addresses []struct {
			Type    wire.String `json:"ip-address-type"`
			Address wire.String `json:"ip-address"`
			Prefix  wire.Int    `json:"prefix"`
		} `json:"ip-addresses"`
	} `json:"result"`
}

// AgentInterfaces asks the guest agent once. An agent that does not answer (after about 3 s) and a stopped VM are
// Unhealthy, an agent that is not configured is Unsupported.
func (q QEMUReader) AgentInterfaces(ctx context.Context) ([]AgentInterface, error) {
	op := "ask the agent of " + q.name() + " for its interfaces"
	w, err := fetch[agentWire](ctx, q.client, op, q.path("/agent/network-get-interfaces"), nil)
	if err != nil {
		return nil, err
	}
	out := make([]AgentInterface, 0, len(w.Result))
	for _, i := range w.Result {
		nic := AgentInterface{Name: string(i.Name), MAC: string(i.MAC)}
		for _, a := range i.Addresses {
			nic.Addresses = append(nic.Addresses, AgentAddress{Type: string(a.Type), Address: string(a.Address),
				Prefix: int(a.Prefix)})
		}
		out = append(out, nic)
	}
	return out, nil
}

// Preconditions is what PVE says of a migration before it is begun (qemu-server API2/Qemu.pm migrate_vm_precondition).
type Preconditions struct {
	Running bool
	// Allowed are the nodes that have every storage of the guest; nil when it has no local disks and all will do.
	Allowed []string
	// Refused says of the other nodes which storages they lack.
	Refused map[string][]string
	// Blocking are HA's names of guests that HA keeps apart from one that it manages, by the node that they are on.
	Blocking map[string][]string
	// LocalDisks are the volumes that only its node has; LocalResources its passed-through devices of that node, by slot.
	LocalDisks     []LocalDisk
	LocalResources []string
	// Mapped are the slots whose devices are mapped, some of LocalResources among them; Unmapped says of the other nodes
	// which of the mappings they are not in.
	Mapped   []string
	Unmapped map[string][]string
	// Dependent are HA's names, "vm:100" and "ct:101", of the guests that HA keeps together with one that it manages: they
	// go to the node too, unless they are there. All servers with HA rules tell them (qemu-server since 9.0.14).
	Dependent []string
}

// LocalDisk is a volume on a storage that the nodes do not share.
type LocalDisk struct {
	Volume string // its id
	Drive  string // slot, as far as PVE tells it (8.1 and later)
	CDROM  bool
	Unused bool
	// Snapshots are the names of those that have it, sorted.
	Snapshots []string
}

type preconditionsWire struct {
	Running wire.Bool `json:"running"`
	Allowed []string  `json:"allowed_nodes"`
	Refused map[string]struct {
		Storages []string `json:"unavailable_storages"`
		Unmapped []string `json:"unavailable-resources"`
		Blocking []struct {
			SID string `json:"sid"`
		} `json:"blocking-ha-resources"`
	} `json:"not_allowed_nodes"`
	LocalDisks []struct {
		Volume wire.String `json:"volid"`
		Drive  wire.String `json:"drivename"`
		CDROM  wire.Bool   `json:"cdrom"`
		Unused wire.Bool   `json:"is_unused"`

		Snapshots map[string]wire.Int `json:"referenced_in_snapshot"`
	} `json:"local_disks"`
	LocalResources []string `json:"local_resources"`
	Mapped         []string `json:"mapped-resources"`
	Dependent      []string `json:"dependent-ha-resources"`
}

// MigrationPreconditions asks whether a VM can be migrated to a node. Needs VM.Migrate. A locked VM is Locked.
func (q QEMUReader) MigrationPreconditions(ctx context.Context, target string) (Preconditions, error) {
	w, err := fetch[preconditionsWire](ctx, q.client, "ask whether "+q.name()+" can migrate to "+target,
		q.path("/migrate"), Params{"target": target})
	p := Preconditions{Running: bool(w.Running), Allowed: w.Allowed, LocalResources: w.LocalResources,
		Mapped: w.Mapped, Dependent: w.Dependent}
	for name, lacks := range w.Refused {
		if p.Refused == nil {
			p.Refused, p.Blocking, p.Unmapped = map[string][]string{}, map[string][]string{}, map[string][]string{}
		}
		p.Refused[name], p.Unmapped[name] = lacks.Storages, lacks.Unmapped
		for _, b := range lacks.Blocking {
			p.Blocking[name] = append(p.Blocking[name], b.SID)
		}
	}
	for _, d := range w.LocalDisks {
		disk := LocalDisk{Volume: string(d.Volume), Drive: string(d.Drive), CDROM: bool(d.CDROM), Unused: bool(d.Unused),
			Snapshots: slices.Sorted(maps.Keys(d.Snapshots))}
		p.LocalDisks = append(p.LocalDisks, disk)
	}
	return p, err
}
