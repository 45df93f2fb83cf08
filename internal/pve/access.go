package pve

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/transport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// Permissions is this identity's privileges: path -> privilege -> whether it propagates to paths below. A privilege
// that is in the map is held, also with the value false. With a path only that path is asked for, effective
// privileges included; with "" PVE lists the top-level, ACL and pool paths (access-control API2/AccessControl.pm
// permissions).
func (a AccessReader) Permissions(ctx context.Context, path string) (map[string]map[string]bool, error) {
	return a.permissionsOf(ctx, "", path)
}

// PermissionsOf are those of another identity. It takes Sys.Audit on /access.
func (a AccessReader) PermissionsOf(ctx context.Context, who, path string) (map[string]map[string]bool, error) {
	return a.permissionsOf(ctx, who, path)
}

func (a AccessReader) permissionsOf(ctx context.Context, who, path string) (map[string]map[string]bool, error) {
	p := Params{}
	if path != "" {
		p["path"] = path
	}
	if who != "" {
		p["userid"] = who
	}
	list, err := fetch[map[string]map[string]wire.Bool](ctx, a.client,
		"read the permissions of "+a.client.Identity().User, "/access/permissions", p)
	if err != nil {
		return nil, err
	}
	out := make(map[string]map[string]bool, len(list))
	for at, privileges := range list {
		out[at] = make(map[string]bool, len(privileges))
		for name, propagates := range privileges {
			out[at][name] = bool(propagates)
		}
	}
	return out, nil
}

// ACLEntry gives a role on a path to a user, a group or a token.
type ACLEntry struct {
	// Path is "/vms/100"; Type is user, group or token; Subject its name; Role the role that it gets.
	Path, Type, Subject, Role string
	Propagate                 bool // it holds below the path, too
}

// ACL lists who has which role where. Without Sys.Audit on /access PVE leaves out, in silence, the paths on which
// this identity may not change permissions (access-control API2/ACL.pm read_acl).
func (a AccessReader) ACL(ctx context.Context) ([]ACLEntry, error) {
	list, err := fetch[[]map[string]wire.String](ctx, a.client, "list the access control entries", "/access/acl", nil)
	if err != nil {
		return nil, err
	}
	out := make([]ACLEntry, 0, len(list))
	for _, w := range list {
		out = append(out, ACLEntry{Path: string(w["path"]), Type: string(w["type"]), Subject: string(w["ugid"]),
			Role: string(w["roleid"]), Propagate: w["propagate"] != "0"})
	}
	return out, nil
}

// Groups lists the groups that a user is in. It takes User.Modify or Sys.Audit on a group of the user, or on
// /access/groups (access-control API2/User.pm read_user).
func (a AccessReader) Groups(ctx context.Context, user string) ([]string, error) {
	found, err := fetch[userWire](ctx, a.client, "read the groups of "+user, "/access/users/"+user, nil)
	return found.Groups, err
}

type userWire struct {
	Groups []string `json:"groups"`
}

// Roles lists the privileges of each role. Every identity may read them (access-control API2/Role.pm index).
func (a AccessReader) Roles(ctx context.Context) (map[string][]string, error) {
	list, err := fetch[[]map[string]wire.String](ctx, a.client, "list the roles", "/access/roles", nil)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]string, len(list))
	for _, w := range list {
		out[string(w["roleid"])] = strings.Split(string(w["privs"]), ",")
	}
	return out, nil
}

// Privileges are those that this identity holds on a path, effective ones included, asked once per Client and path.
func (a AccessReader) Privileges(ctx context.Context, path string) (map[string]bool, error) {
	p := &a.client.privileges
	if err := p.turn.Take(ctx); err != nil {
		return nil, &Error{Op: "read the permissions of " + a.client.Identity().User, Message: err.Error(), Err: err}
	}
	defer p.turn.Give()
	if held, ok := p.held[path]; ok {
		return maps.Clone(held), nil
	}
	all, err := a.Permissions(ctx, path)
	if err != nil {
		return nil, err
	}
	held := map[string]bool{}
	for privilege := range all[path] {
		held[privilege] = true
	}
	p.held[path] = held
	return maps.Clone(held), nil
}

// sharedPrivileges keeps the answers of Privileges.
type sharedPrivileges struct {
	turn transport.Turn // guards everything below
	held map[string]map[string]bool
}

// Hidden says, for people, what of some content types PVE leaves out in silence when this identity lists a storage,
// and what it takes to see it; nothing where all is seen (pve-storage Storage.pm check_volume_access).
func (a AccessReader) Hidden(ctx context.Context, storage string, content []string) ([]string, error) {
	if a.client.Identity().IsRootTicket() {
		return nil, nil
	}
	at, err := a.Privileges(ctx, "/storage/"+storage)
	if err != nil || at["Datastore.Allocate"] {
		return nil, err
	}
	// On /vms, for all below: a guest that does not exist any more has no privileges of its own.
	guests, err := a.Privileges(ctx, "/vms")
	if err != nil {
		return nil, err
	}
	var all []string
	hides := func(what, needs string, kinds ...string) {
		if slices.ContainsFunc(kinds, func(kind string) bool { return slices.Contains(content, kind) }) {
			all = append(all, what+" on storage "+storage+": needs Datastore.Allocate on the storage"+needs)
		}
	}
	if !at["Datastore.Audit"] || !guests["VM.Config.Disk"] {
		hides("disks", ", or Datastore.Audit there and VM.Config.Disk on /vms", "images", "rootdir")
	}
	hides("snippets", "", "snippets")
	if !at["Datastore.AllocateSpace"] || !guests["VM.Backup"] {
		hides("backups", ", or Datastore.AllocateSpace there and VM.Backup on /vms", "backup")
	}
	return all, nil
}
