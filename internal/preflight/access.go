package preflight

import (
	"context"
	"path"
	"time"
)

// What an identity may do. PVE tells everybody his own privileges: all of them by the paths that somebody has named in an access control
// entry, or those on one path, computed as it does for a request (pve-access-control API2/AccessControl.pm, permissions). The first
// answers most questions with one request; it is believed where it says that a privilege is held, and where it seems to lack one the
// path itself is asked for.

// permissions are privileges, and whether they hold below, by path.
type permissions map[string]map[string]bool

// hold reports whether a privilege is held on a path, as far as the paths that are listed tell. The nearest one above that has anything
// that holds below decides (pve-access-control AccessControl.pm, roles: each level replaces what was inherited). A path without any
// privilege is not listed, so what is forbidden there alone is taken for held.
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

// permissions are those of the identity, asked once for a run.
func (s *Checker) permissions(ctx context.Context) (permissions, error) {
	return s.access.Get(ctx, s.clock, "", func(ctx context.Context) (permissions, error) { return s.guests.Permissions(ctx) })
}

// accessLife is how long a run believes that a privilege is held; PVE decides again.
const accessLife = 24 * time.Hour

// holds reports whether the identity holds one of some privileges on a path.
func (s *Checker) holds(ctx context.Context, at string, anyOf ...string) (bool, error) {
	if s.api.Identity().IsRootTicket() {
		return true, nil
	}
	all, err := s.permissions(ctx)
	if err != nil {
		return false, err
	}
	for _, privilege := range anyOf {
		if all.hold(at, privilege) {
			return true, nil
		}
	}
	exactly, err := s.exactly(ctx, at)
	for _, privilege := range anyOf {
		if _, held := exactly[privilege]; held {
			return true, nil
		}
	}
	return false, err
}

// exactly are the privileges on one path.
func (s *Checker) exactly(ctx context.Context, at string) (map[string]bool, error) {
	held, err := s.held.Get(ctx, s.clock, at, func(ctx context.Context) (permissions, error) { return s.api.Permissions(ctx, at) })
	return held[at], err
}

// mustHold reports whether the identity certainly holds a privilege on a path, so that it would see what is there.
func (s *Checker) mustHold(ctx context.Context, at, privilege string) bool {
	if s.api.Identity().IsRootTicket() {
		return true
	}
	held, err := s.api.Privileges(ctx, at)
	return err == nil && held[privilege]
}
