package pve

import (
	"context"
	"net/http"
	"strconv"
)

// CreateVM starts the creation of the VM in p["vmid"], or a restore with p["archive"]. A VMID in use is Exists, at once.
func (c *Client) CreateVM(ctx context.Context, node string, p Params) (UPID, error) {
	return c.start(ctx, "create VM "+p["vmid"]+" on node "+node, http.MethodPost, "/nodes/"+node+"/qemu", p)
}

// CloneVM starts a copy of source, which is on that node, to p["newid"]. A VMID in use on the same node is Exists at
// once; on another node, or of a container, it is the task that fails with it.
func (c *Client) CloneVM(ctx context.Context, node string, source int, p Params) (UPID, error) {
	op := "clone VM " + strconv.Itoa(source) + " on node " + node + " to VM " + p["newid"]
	return c.start(ctx, op, http.MethodPost, guestPath(node, source, "/clone"), p)
}

// Resize starts growing a disk to a size ("32G"), or by one ("+2G"). Shrinking fails in the task. With a digest that is not "", PVE
// does so with that configuration only.
func (c *Client) Resize(ctx context.Context, node string, vmid int, disk, size, digest string) (UPID, error) {
	op, params := "resize disk "+disk+" of "+guestName(node, vmid)+" to "+size, Params{"disk": disk, "size": size}
	if digest != "" {
		params["digest"] = digest
	}
	return c.start(ctx, op, http.MethodPut, guestPath(node, vmid, "/resize"), params)
}

// ConvertToTemplate starts turning a stopped VM into a template.
func (c *Client) ConvertToTemplate(ctx context.Context, node string, vmid int) (UPID, error) {
	return c.start(ctx, "convert "+guestName(node, vmid)+" to a template", http.MethodPost, guestPath(node, vmid, "/template"), nil)
}

// Migrate starts moving a VM to the node p["target"]. For an HA-managed VM the task only files the request.
func (c *Client) Migrate(ctx context.Context, node string, vmid int, p Params) (UPID, error) {
	return c.start(ctx, "migrate "+guestName(node, vmid)+" to node "+p["target"], http.MethodPost, guestPath(node, vmid, "/migrate"), p)
}

// RegenerateCloudInit writes the cloud-init volume anew from the config, at once.
func (c *Client) RegenerateCloudInit(ctx context.Context, node string, vmid int) error {
	return c.change(ctx, "regenerate cloud-init of "+guestName(node, vmid), http.MethodPut, guestPath(node, vmid, "/cloudinit"), nil)
}

// GuestStatus is a VM's state now, not the listing's of 10 s ago.
type GuestStatus struct {
	// Status is running or stopped; QMPStatus is QEMU's finer word (running, paused, prelaunch …), equal to Status when stopped.
	Status, QMPStatus string
	// Lock is the config lock.
	Lock string
	// Uptime is seconds, PID the QEMU process or 0.
	Uptime, PID int64
	// HAManaged is whether HA manages the VM.
	HAManaged bool
}

// IsRunning tells whether a QEMU process exists.
func (s GuestStatus) IsRunning() bool { return s.Status == "running" }

type guestStatusWire struct {
	Status    flexString `json:"status"`
	QMPStatus flexString `json:"qmpstatus"`
	Lock      flexString `json:"lock"`
	Uptime    flexInt    `json:"uptime"`
	PID       flexInt    `json:"pid"`
	HA        struct {
		Managed flexBool `json:"managed"`
	} `json:"ha"`
}

// GuestStatus asks for a VM's state.
func (c *Client) GuestStatus(ctx context.Context, node string, vmid int) (GuestStatus, error) {
	w, err := fetch[guestStatusWire](ctx, c, "read the status of "+guestName(node, vmid), guestPath(node, vmid, "/status/current"), nil)
	return GuestStatus{
		Status: string(w.Status), QMPStatus: string(w.QMPStatus), Lock: string(w.Lock), Uptime: int64(w.Uptime), PID: int64(w.PID),
		HAManaged: bool(w.HA.Managed),
	}, err
}

// power starts one of status/*. For an HA-managed VM the task only files the request: ask GuestStatus.
func (c *Client) power(ctx context.Context, verb, command, node string, vmid int, p Params) (UPID, error) {
	return c.start(ctx, verb+" "+guestName(node, vmid), http.MethodPost, guestPath(node, vmid, "/status/"+command), p)
}

// StartVM starts a VM. One that runs already fails in the task.
func (c *Client) StartVM(ctx context.Context, node string, vmid int, p Params) (UPID, error) {
	return c.power(ctx, "start", "start", node, vmid, p)
}

// ShutdownVM asks the guest to end; p["timeout"] in seconds. One that does not is left running.
func (c *Client) ShutdownVM(ctx context.Context, node string, vmid int, p Params) (UPID, error) {
	if p["forceStop"] != "" {
		return "", &Error{Op: "shut down " + guestName(node, vmid), Kind: Invalid, Message: "forceStop has a call of its own; nothing was sent"}
	}
	return c.power(ctx, "shut down", "shutdown", node, vmid, p)
}

// RebootVM asks the guest to end and starts it again, which applies pending changes. A stopped VM is Unhealthy.
func (c *Client) RebootVM(ctx context.Context, node string, vmid int, p Params) (UPID, error) {
	return c.power(ctx, "reboot", "reboot", node, vmid, p)
}

// SuspendVM pauses a guest, or with p["todisk"] saves its memory to p["statestorage"] and ends it. A stopped VM is Unhealthy.
func (c *Client) SuspendVM(ctx context.Context, node string, vmid int, p Params) (UPID, error) {
	return c.power(ctx, "suspend", "suspend", node, vmid, p)
}

// ResumeVM lets a paused guest go on, and brings back one that was suspended to disk.
func (c *Client) ResumeVM(ctx context.Context, node string, vmid int) (UPID, error) {
	return c.power(ctx, "resume", "resume", node, vmid, nil)
}
