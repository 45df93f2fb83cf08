package preflight

import (
	"context"
	"path"
	"time"
)

// permissions are privileges by path, and whether they hold below it. PVE tells every user their own: either for all
// paths that any access control entry names, or for one path, computed as for a request (pve-access-control
// API2/AccessControl.pm, permissions). The first answers most questions with one request. It is believed if it says
// that a privilege is held; if it seems to lack one, the path itself is asked for.
type permissions map[string]map[string]bool

// hold reports whether a privilege is held on a path, as far as the listed paths tell. The nearest path above with
// privileges that hold below decides (pve-access-control AccessControl.pm, roles: each level replaces what was
// inherited). A path without any privilege is not listed, so a privilege that is forbidden only there is taken for
// held.
func (p permissions) hold(at, privilege string) bool {
	if _, held := p[at][privilege]; held {
		return true
	}
	if len(p[at]) > 0 {
		return false
	}
	for at != "/" {
		at = path.Dir(at)
		if p[at][privilege] {
			return true
		}
		for _, below := range p[at] {
			if below {
				return false
			}
		}
	}
	return false
}

// permissions are those of the identity, asked for once per run.
func (c *Checker) permissions(ctx context.Context) (permissions, error) {
	return c.access.Get(ctx, c.clock, "", func(ctx context.Context) (permissions,
		error) {
		return c.guests.Permissions(ctx)
	})
}

// accessLife is how long a run believes that a privilege is held. PVE decides again anyway.
const accessLife = 24 * time.Hour

// holds reports whether the identity holds one of some privileges on a path.
func (c *Checker) holds(ctx context.Context, at string, anyOf ...string) (bool, error) {
	if c.api.Identity().IsRootTicket() {
		return true, nil
	}
	all, err := c.permissions(ctx)
	if err != nil {
		return false, err
	}
	for _, privilege := range anyOf {
		if all.hold(at, privilege) {
			return true, nil
		}
	}
	exactly, err := c.exactly(ctx, at)
	for _, privilege := range anyOf {
		if _, held := exactly[privilege]; held {
			return true, nil
		}
	}
	return false, err
}

// keeps reports whether the identity still holds one of some privileges on a VM that has left a pool. One that only the
// pool gives does not propagate, as PVE lists it for the VM (pve-access-control RPCEnvironment.pm, compile_acl_path).
func (c *Checker) keeps(ctx context.Context, at, pool string, anyOf []string) (bool, error) {
	all, err := c.permissions(ctx)
	if err != nil {
		return false, err
	}
	held, isListed := all[at]
	if !isListed {
		if held, err = c.exactly(ctx, at); err != nil {
			return false, err
		}
	}
	for _, privilege := range anyOf {
		if propagates, has := held[privilege]; has && (propagates || !all.hold("/pool/"+pool, privilege)) {
			return true, nil
		}
	}
	return false, nil
}

// exactly returns the privileges on one path.
func (c *Checker) exactly(ctx context.Context, at string) (map[string]bool, error) {
	held, err := c.held.Get(ctx, c.clock, at, func(ctx context.Context) (permissions,
		error) {
		return c.api.Access().Permissions(ctx, at)
	})
	return held[at], err
}

// mustHold reports whether the identity certainly holds a privilege on a path, and so would see the objects there.
func (c *Checker) mustHold(ctx context.Context, at, privilege string) bool {
	if c.api.Identity().IsRootTicket() {
		return true
	}
	held, err := c.api.Access().Privileges(ctx, at)
	return err == nil && held[privilege]
}
