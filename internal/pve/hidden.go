package pve

import (
	"context"
	"slices"
)

// Hidden says, for people, what of some content types PVE leaves out in silence when this identity lists a storage, and what it
// takes to see it; nothing where all is seen (pve-storage Storage.pm check_volume_access).
func (c *Client) Hidden(ctx context.Context, storage string, content []string) ([]string, error) {
	if c.Identity().IsRootTicket() {
		return nil, nil
	}
	at, err := c.Privileges(ctx, "/storage/"+storage)
	if err != nil || at["Datastore.Allocate"] {
		return nil, err
	}
	// On /vms, for all below: a guest that does not exist any more has no privileges of its own.
	guests, err := c.Privileges(ctx, "/vms")
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
