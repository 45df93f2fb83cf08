package pve

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The calls of this file destroy something, or take away what protects it. Package destroy alone uses them, each with
// evidence (internal/arch_test.go); docs/design/destroy.md has the table.

// Destroy starts the removal of a VM with the volumes that its config names. Volumes that could not be freed do not
// fail the task (until qemu-server 9.1.19 they are only in its log), and orphans of the same id are left alone: list
// the storages afterwards. purge also removes it from HA, replication and backup jobs. A lock and linked clones fail
// in the task, a running VM and protection at once.
func (q QEMUClient) Destroy(ctx context.Context, purge bool) (UPID, error) {
	p := Params{}
	if purge {
		p["purge"] = "1"
	}
	return q.client.start(ctx, "delete "+q.name(), http.MethodDelete, q.path(""), p)
}

// HardStop cuts a VM's power. One that is stopped is a success.
func (q QEMUClient) HardStop(ctx context.Context, p Params) (UPID, error) {
	return q.power(ctx, "stop", "stop", p)
}

// HardReset presses a VM's reset button: its operating system loses what it has not written. A stopped VM is Unhealthy.
func (q QEMUClient) HardReset(ctx context.Context) (UPID, error) {
	return q.power(ctx, "reset", "reset", nil)
}

// ShutdownOrStop asks the guest to end, and has its power cut when the time is over.
func (q QEMUClient) ShutdownOrStop(ctx context.Context, timeout time.Duration) (UPID, error) {
	p := Params{"timeout": strconv.Itoa(max(1, int(timeout.Seconds()))), "forceStop": "1"}
	return q.power(ctx, "shut down", "shutdown", p)
}

// Destroy frees a volume. PVE waits up to 5 s for it; the UPID is empty when it has ended well by then. It does not
// look whether a config uses the volume, and a volume that does not exist is mostly a success. It needs
// Datastore.Allocate on the storage (pve-storage API2/Storage/Content.pm).
func (v VolumeClient) Destroy(ctx context.Context) (UPID, error) {
	op := "delete volume " + v.id + " on node " + v.node
	storage, name, ok := strings.Cut(v.id, ":")
	if !ok || storage == "" || name == "" || strings.Contains(storage, "/") {
		return "", &Error{Op: op, Kind: Invalid, Message: "not a volume id of the form storage:volume; nothing was sent"}
	}
	return v.client.startOrFinish(ctx, op, http.MethodDelete, "/nodes/"+v.node+"/storage/"+storage+"/content/"+v.id,
		Params{"delay": "5"})
}

// DeleteUnused starts the removal of unusedN entries with their volumes, of a configuration with that digest.
func (q QEMUClient) DeleteUnused(ctx context.Context, entries []string, digest string) (UPID, error) {
	list := strings.Join(entries, ",")
	op := "delete " + list + " of " + q.name() + " with the volumes in it"
	for _, entry := range entries {
		if !isUnused(entry) {
			return "", &Error{Op: op, Kind: Invalid, Message: entry + " is no unusedN entry; nothing was sent"}
		}
	}
	return q.client.startOrFinish(ctx, op, http.MethodPost, q.path("/config"), Params{"delete": list, "digest": digest})
}

// DeleteSnapshot starts the removal of a snapshot and of the memory that it keeps. With force it goes from the
// configuration also where a volume cannot be freed of it.
func (q QEMUClient) DeleteSnapshot(ctx context.Context, name string, force bool) (UPID, error) {
	p := Params{}
	if force {
		p["force"] = "1"
	}
	return q.client.start(ctx, "delete snapshot "+name+" of "+q.name(), http.MethodDelete, q.path("/snapshot/"+name), p)
}

// RollBackToSnapshot starts taking a VM back to a snapshot: its options, its disks and, where they were saved, its
// memory. A guest that runs is cut off. p["start"] starts it afterwards.
func (q QEMUClient) RollBackToSnapshot(ctx context.Context, name string, p Params) (UPID, error) {
	op := "roll " + q.name() + " back to snapshot " + name
	return q.client.start(ctx, op, http.MethodPost, q.path("/snapshot/"+name+"/rollback"), p)
}

// RemoveLock takes a configuration lock away, of a configuration with that digest, and writes the description that
// says whose the VM is, "" for as it is. It is for root@pam with a ticket only.
func (q QEMUClient) RemoveLock(ctx context.Context, digest, description string) error {
	p := Params{"delete": "lock", "skiplock": "1", "digest": digest}
	if description != "" {
		p["description"] = description
	}
	return q.client.change(ctx, "unlock "+q.name(), http.MethodPut, q.path("/config"), p)
}

// RemoveEntry takes a guest out of HA by HA's name of it, "vm:100" or "ct:100"; the guest stays as it is, and so do the
// HA rules that name it: since pve-ha-manager 5.0.7 PVE takes it out of them unless it is told not to, before it has no
// such parameter and changes no rule (API2/HA/Resources.pm, HA/Config.pm delete_service_from_config, c952c63, 8102199).
func (h HAClient) RemoveEntry(ctx context.Context, sid string) error {
	remove := func(p Params) error {
		return h.client.change(ctx, "delete the HA resource "+sid, http.MethodDelete, haPath+"/"+sid, p)
	}
	err := remove(Params{"purge": "0"})
	if unknown := (*Error)(nil); errors.As(err, &unknown) && unknown.Kind == Invalid && unknown.Params["purge"] != "" {
		return remove(nil) // the parameters are verified before anything is done
	}
	return err
}

// RemoveRule removes an HA rule; the guests stay under HA. PVE binds the request to no digest, and a rule that does not
// exist is a success (pve-ha-manager API2/HA/Rules.pm delete_rule). It needs Sys.Console on /.
func (h HAClient) RemoveRule(ctx context.Context, id string) error {
	return h.client.change(ctx, haRuleOp("delete", id), http.MethodDelete, haRulesPath+"/"+id, nil)
}

// DeleteACL takes a permission away.
func (a AccessClient) DeleteACL(ctx context.Context, e ACLEntry) error {
	p := Params{"path": e.Path, "roles": e.Role, e.Type + "s": e.Subject, "delete": "1"}
	return a.client.change(ctx, "take the role "+e.Role+" on "+e.Path+" from "+e.Subject, http.MethodPut, "/access/acl", p)
}

// MoveDiskAndFree starts moving p["disk"] to p["storage"]; its volume there is then freed.
func (q QEMUClient) MoveDiskAndFree(ctx context.Context, p Params) (UPID, error) {
	p = maps.Clone(p)
	p["delete"] = "1"
	return q.client.start(ctx, "move disk "+p["disk"]+" of "+q.name(), http.MethodPost, q.path("/move_disk"), p)
}

// mayDestroy refuses parameters of a change of options that destroy: those of the calls above.
func mayDestroy(op string, p Params) error {
	for _, option := range strings.FieldsFunc(p["delete"], func(r rune) bool { return strings.ContainsRune(",; ", r) }) {
		if isUnused(option) || option == "lock" {
			return &Error{Op: op, Kind: Invalid, Message: "the removal of " + option +
				" has a call of its own; nothing was sent"}
		}
	}
	return nil
}

func isUnused(option string) bool { return strings.HasPrefix(option, "unused") }
