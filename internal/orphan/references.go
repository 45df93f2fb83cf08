package orphan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// judgeReferences finds entries of HA, pools and permissions for ids that no guest has. PVE takes a guest out of all
// of them when it is destroyed (qemu-server API2/Qemu.pm destroy_vm); they stay when its configuration goes in
// another way.
func (l *look) judgeReferences(ctx context.Context) error {
	if err := l.judgeHA(ctx); err != nil {
		return err
	}
	named, err := l.judgeACL(ctx)
	if err != nil {
		return err
	}
	return l.judgePools(ctx, named)
}

// anyNode is a node on which a command about the whole cluster can be run.
func (l *look) anyNode() string {
	if nodes := l.nodes(); len(nodes) > 0 {
		return nodes[0]
	}
	return ""
}

func (l *look) judgeHA(ctx context.Context) error {
	sids, err := l.api.HA().Resources(ctx)
	if err != nil {
		l.miss("entries of HA", err)
		return ctx.Err()
	}
	for _, sid := range sids {
		_, id, _ := strings.Cut(sid, ":")
		vmid, err := strconv.Atoi(id)
		if err != nil {
			continue // a kind of resource that is no guest
		}
		free, err := l.isFree(ctx, vmid)
		if err != nil {
			return err
		}
		if free {
			l.add(Item{Kind: HAResource, ID: sid, VMID: vmid, Node: l.anyNode(), Certainty: Certain,
				Command: shell.Command("ha-manager remove {}", sid),
				Reason:  fmt.Sprintf("no guest has the id %d, and PVE makes no entry before its guest", vmid)})
		}
	}
	return nil
}

// judgeACL finds permissions on guests that are not there, and tells which guests have permissions of their own.
func (l *look) judgeACL(ctx context.Context) (named map[int]bool, err error) {
	if !l.api.Identity().IsRootTicket() {
		held, err := l.api.Access().Privileges(ctx, "/access")
		if err != nil {
			return nil, err
		}
		if !held["Sys.Audit"] {
			l.miss("permissions on guests", errors.New("this identity does not see all of them: that takes Sys.Audit on "+
				"/access"))
			return nil, nil
		}
	}
	entries, err := l.api.Access().ACL(ctx)
	if err != nil {
		l.miss("permissions on guests", err)
		return nil, ctx.Err()
	}
	named = map[int]bool{}
	for _, e := range entries {
		vmid, ok := guestPath(e.Path)
		if !ok {
			continue
		}
		named[vmid] = true
		free, err := l.isFree(ctx, vmid)
		if err != nil {
			return nil, err
		}
		if free {
			l.add(Item{found: &found{entry: e}, Kind: ACLEntry,
				ID: fmt.Sprintf("%s %s %s", e.Path, e.Subject, e.Role), VMID: vmid, Node: l.anyNode(), Certainty: Likely,
				Command: shell.Command("pveum acl delete {} --{}s {} --roles {}", e.Path, e.Type, e.Subject, e.Role),
				Reason: fmt.Sprintf("no guest has the id %d; %s %s has the role %s on it, which a user may have given ahead of a "+
					"guest that is to come",
					vmid, e.Type, e.Subject, e.Role)})
		}
	}
	return named, nil
}

// guestPath is the id in the path "/vms/100".
func guestPath(path string) (int, bool) {
	id, ok := strings.CutPrefix(path, "/vms/")
	vmid, err := strconv.Atoi(id)
	return vmid, ok && err == nil
}

// judgePools finds members of pools that are not there. PVE lists a pool's members without them (pve-manager
// API2/Pool.pm), but names every member of any pool among the paths on which an identity has privileges
// (access-control RPCEnvironment.pm get_effective_permissions), as it does what has permissions of its own: those are
// named.
func (l *look) judgePools(ctx context.Context, named map[int]bool) error {
	const what = "members of pools"
	if isBlind := l.unseen != nil || named == nil; isBlind {
		l.miss(what, errors.New("this identity does not see all of them: that takes VM.Audit on /vms, propagated, and "+
			"Sys.Audit on /access"))
		return nil
	}
	paths, err := l.api.Access().Permissions(ctx, "")
	if err != nil {
		l.miss(what, err)
		return ctx.Err()
	}
	var dead []int
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		vmid, ok := guestPath(path)
		if !ok || named[vmid] {
			continue
		}
		free, err := l.isFree(ctx, vmid)
		if err != nil {
			return err
		}
		if free {
			dead = append(dead, vmid)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	pool, err := l.onlyPool(ctx)
	if err != nil {
		l.miss("which pool has members that are not there", err)
	}
	for _, vmid := range dead {
		l.add(l.member(vmid, pool))
	}
	return ctx.Err()
}

// member is a member of a pool that is not there; pool is "" where PVE does not tell which it is.
func (l *look) member(vmid int, pool string) Item {
	i := Item{Kind: PoolMember, ID: strconv.Itoa(vmid), VMID: vmid, Node: l.anyNode(), Certainty: Likely,
		Reason: fmt.Sprintf("no guest has the id %d; a user may have put it into the pool ahead of a guest that is to "+
			"come", vmid)}
	if pool == "" {
		i.Reason += fmt.Sprintf("; PVE does not tell which pool it is: `grep -w %d /etc/pve/user.cfg` on a node does, and "+
			"`pveum pool modify POOL --vms %d --delete 1` takes it out", vmid, vmid)
		return i
	}
	i.ID = pool + "/" + i.ID
	i.Command = shell.VM("pveum pool modify {} --vms {vmid} --delete 1", vmid, pool)
	return i
}

// onlyPool is the pool, where there is but one, or "".
func (l *look) onlyPool(ctx context.Context) (string, error) {
	if !l.api.Identity().IsRootTicket() {
		held, err := l.api.Access().Permissions(ctx, "/pool")
		if err != nil {
			return "", err
		}
		if !held["/pool"]["Pool.Audit"] {
			return "", errors.New("this identity does not see all pools: that takes Pool.Audit on /pool, propagated")
		}
	}
	pools, err := l.api.Pools().List(ctx)
	if err != nil || len(pools) != 1 {
		return "", err
	}
	return pools[0], nil
}
