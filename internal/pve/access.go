package pve

import (
	"context"
	"maps"
)

// Permissions is this identity's privileges: path -> privilege -> whether it propagates to paths below. A privilege that is
// in the map is held, also with the value false. With a path only that path is asked for, effective privileges included;
// with "" PVE lists the top-level, ACL and pool paths (access-control API2/AccessControl.pm permissions).
func (c *Client) Permissions(ctx context.Context, path string) (map[string]map[string]bool, error) {
	p := Params{}
	if path != "" {
		p["path"] = path
	}
	wire, err := fetch[map[string]map[string]flexBool](ctx, c, "read the permissions of "+c.creds.identity.User, "/access/permissions", p)
	if err != nil {
		return nil, err
	}
	out := make(map[string]map[string]bool, len(wire))
	for at, privileges := range wire {
		out[at] = make(map[string]bool, len(privileges))
		for name, propagates := range privileges {
			out[at][name] = bool(propagates)
		}
	}
	return out, nil
}

// ACLEntry gives a role to somebody on a path.
type ACLEntry struct {
	// Path is "/vms/100"; Type is user, group or token; Subject who it is; Role what he gets.
	Path, Type, Subject, Role string
}

// ACL lists who has which role where. Without Sys.Audit on /access PVE leaves out, in silence, the paths on which this identity
// may not change permissions (access-control API2/ACL.pm read_acl).
func (c *Client) ACL(ctx context.Context) ([]ACLEntry, error) {
	wire, err := fetch[[]map[string]flexString](ctx, c, "list the access control entries", "/access/acl", nil)
	if err != nil {
		return nil, err
	}
	out := make([]ACLEntry, 0, len(wire))
	for _, w := range wire {
		out = append(out, ACLEntry{Path: string(w["path"]), Type: string(w["type"]), Subject: string(w["ugid"]), Role: string(w["roleid"])})
	}
	return out, nil
}

// Privileges are those that this identity holds on a path, effective ones included, asked once per Client and path.
func (c *Client) Privileges(ctx context.Context, path string) (map[string]bool, error) {
	p := &c.privileges
	if err := p.turn.take(ctx); err != nil {
		return nil, &Error{Op: "read the permissions of " + c.creds.identity.User, Message: err.Error(), Err: err}
	}
	defer p.turn.give()
	if held, ok := p.held[path]; ok {
		return maps.Clone(held), nil
	}
	all, err := c.Permissions(ctx, path)
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
	turn turn // guards everything below
	held map[string]map[string]bool
}
