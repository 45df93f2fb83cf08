package pve

import (
	"context"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The calls of this file destroy something, or take away what protects it. Package remove alone uses them, each with
// evidence (internal/arch_test.go); docs/design/destroy.md has the table.

// DeleteVM starts the removal of a VM with the volumes that its config names. Volumes that could not be freed do not fail
// the task (until qemu-server 9.1.19 they are only in its log), and orphans of the same id are left alone: list the
// storages afterwards. purge also removes it from HA, replication and backup jobs. A lock and linked clones fail in the task, a running VM
// and protection at once.
func (c *Client) DeleteVM(ctx context.Context, node string, vmid int, purge bool) (UPID, error) {
	p := Params{}
	if purge {
		p["purge"] = "1"
	}
	return c.start(ctx, "delete "+guestName(node, vmid), http.MethodDelete, guestPath(node, vmid, ""), p)
}

// StopVM cuts a VM's power. One that is stopped is a success.
func (c *Client) StopVM(ctx context.Context, node string, vmid int, p Params) (UPID, error) {
	return c.power(ctx, "stop", "stop", node, vmid, p)
}

// ResetVM presses a VM's reset button: its operating system loses what it has not written. A stopped VM is Unhealthy.
func (c *Client) ResetVM(ctx context.Context, node string, vmid int) (UPID, error) {
	return c.power(ctx, "reset", "reset", node, vmid, nil)
}

// ShutdownOrStopVM asks the guest to end, and has its power cut when the time is over.
func (c *Client) ShutdownOrStopVM(ctx context.Context, node string, vmid int, timeout time.Duration) (UPID, error) {
	p := Params{"timeout": strconv.Itoa(max(1, int(timeout.Seconds()))), "forceStop": "1"}
	return c.power(ctx, "shut down", "shutdown", node, vmid, p)
}

// DeleteVolume frees a volume. PVE waits up to 5 s for it; the UPID is empty when it has ended well by then. It does not
// look whether a config uses the volume, and a volume that does not exist is mostly a success. It needs
// Datastore.Allocate on the storage (pve-storage API2/Storage/Content.pm).
func (c *Client) DeleteVolume(ctx context.Context, node, volid string) (UPID, error) {
	op := "delete volume " + volid + " on node " + node
	storage, name, ok := strings.Cut(volid, ":")
	if !ok || storage == "" || name == "" || strings.Contains(storage, "/") {
		return "", &Error{Op: op, Kind: Invalid, Message: "not a volume id of the form storage:volume; nothing was sent"}
	}
	return c.startOrFinish(ctx, op, http.MethodDelete, "/nodes/"+node+"/storage/"+storage+"/content/"+volid, Params{"delay": "5"})
}

// DeleteUnused starts the removal of unusedN entries with their volumes, of a configuration with that digest.
func (c *Client) DeleteUnused(ctx context.Context, node string, vmid int, entries []string, digest string) (UPID, error) {
	list := strings.Join(entries, ",")
	op := "delete " + list + " of " + guestName(node, vmid) + " with what is in it"
	for _, entry := range entries {
		if !isUnused(entry) {
			return "", &Error{Op: op, Kind: Invalid, Message: entry + " is no unusedN entry; nothing was sent"}
		}
	}
	return c.startOrFinish(ctx, op, http.MethodPost, guestPath(node, vmid, "/config"), Params{"delete": list, "digest": digest})
}

// DeleteSnapshot starts the removal of a snapshot and of the memory that it keeps. With force it goes from the configuration also where
// a volume cannot be freed of it.
func (c *Client) DeleteSnapshot(ctx context.Context, node string, vmid int, name string, force bool) (UPID, error) {
	p := Params{}
	if force {
		p["force"] = "1"
	}
	return c.start(ctx, "delete snapshot "+name+" of "+guestName(node, vmid), http.MethodDelete, guestPath(node, vmid, "/snapshot/"+name), p)
}

// RollBackVM starts taking a VM back to a snapshot: its options, its disks and, where they were saved, its memory. A guest that runs is
// cut off. p["start"] starts it afterwards.
func (c *Client) RollBackVM(ctx context.Context, node string, vmid int, name string, p Params) (UPID, error) {
	op := "roll " + guestName(node, vmid) + " back to snapshot " + name
	return c.start(ctx, op, http.MethodPost, guestPath(node, vmid, "/snapshot/"+name+"/rollback"), p)
}

// RemoveLock takes a configuration lock away, of a configuration with that digest, and writes the description that says whose
// the VM is, "" for as it is. It is for root@pam with a ticket only.
func (c *Client) RemoveLock(ctx context.Context, node string, vmid int, digest, description string) error {
	p := Params{"delete": "lock", "skiplock": "1", "digest": digest}
	if description != "" {
		p["description"] = description
	}
	return c.change(ctx, "unlock "+guestName(node, vmid), http.MethodPut, guestPath(node, vmid, "/config"), p)
}

// DeleteHAEntry takes a guest out of HA by HA's name of it, "vm:100" or "ct:100"; the guest stays as it is.
func (c *Client) DeleteHAEntry(ctx context.Context, sid string) error {
	return c.change(ctx, "delete the HA resource "+sid, http.MethodDelete, haPath+"/"+sid, nil)
}

// DeleteACL takes a permission away.
func (c *Client) DeleteACL(ctx context.Context, e ACLEntry) error {
	p := Params{"path": e.Path, "roles": e.Role, e.Type + "s": e.Subject, "delete": "1"}
	return c.change(ctx, "take the role "+e.Role+" on "+e.Path+" from "+e.Subject, http.MethodPut, "/access/acl", p)
}

// MoveDiskAndFree starts moving p["disk"] to p["storage"]; its volume there is then freed.
func (c *Client) MoveDiskAndFree(ctx context.Context, node string, vmid int, p Params) (UPID, error) {
	p = maps.Clone(p)
	p["delete"] = "1"
	return c.start(ctx, "move disk "+p["disk"]+" of "+guestName(node, vmid), http.MethodPost, guestPath(node, vmid, "/move_disk"), p)
}

// mayDestroy refuses parameters of a change of options that destroy: those of the calls above.
func mayDestroy(op string, p Params) error {
	for _, option := range strings.FieldsFunc(p["delete"], func(r rune) bool { return strings.ContainsRune(",; ", r) }) {
		if isUnused(option) || option == "lock" {
			return &Error{Op: op, Kind: Invalid, Message: "the removal of " + option + " has a call of its own; nothing was sent"}
		}
	}
	return nil
}

func isUnused(option string) bool { return strings.HasPrefix(option, "unused") }
