package remove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// users says which guests use which volumes, as one look at the configurations of the guests found it: virtual machines and
// containers, what is in force, what is pending, and what snapshots keep.
type users struct {
	byVolume map[string][]user // by volumeKey
	scope    string            // the node whose guests were looked at, "" for all
	at       time.Time         // when the look ended
	// unseen is why there may be guests that this identity does not see; nil: there are none.
	unseen error
}

// user is a guest that uses a volume, and in which option or snapshot.
type user struct {
	guest pve.Resource
	where string
}

func (u user) String() string {
	kind := "VM"
	if u.guest.Type == "lxc" {
		kind = "container"
	}
	name := ""
	if u.guest.Name != "" {
		name = " (" + u.guest.Name + ")"
	}
	return fmt.Sprintf("%s %d%s on node %s (%s)", kind, u.guest.VMID, name, u.guest.Node, u.where)
}

// of are the guests other than vmid that use a volume.
func (u users) of(volume string, vmid int) []user {
	var all []user
	for _, by := range [][]user{u.byVolume[volumeKey(volume)], u.byVolume["/"+lastPart(volume)]} {
		for _, other := range by {
			if other.guest.VMID != vmid {
				all = append(all, other)
			}
		}
	}
	return all
}

// volumeKey is what two names of one volume have in common: a linked clone may be named with its base in front or without it
// (pve-storage ZFSPoolPlugin.pm parse_volname).
func volumeKey(volume string) string { return vm.VolumeStorage(volume) + ":" + lastPart(volume) }

// volumesIn are the keys of the volumes in an option: volume ids, and block devices or files by path, which are known by the
// last part of their name.
func volumesIn(option, value string) []string {
	if slices.Contains([]string{"description", "name", "hostname", "tags", "cipassword", "sshkeys", "digest"}, option) {
		return nil
	}
	var keys []string
	for _, part := range strings.Split(value, ",") {
		part = strings.TrimPrefix(strings.TrimPrefix(part, "file="), "volume=")
		switch {
		case strings.HasPrefix(part, "/"):
			keys = append(keys, "/"+lastPart(part))
		case vm.IsVolume(part):
			keys = append(keys, volumeKey(part))
		}
	}
	return keys
}

// readers is how many guests are read at a time.
const readers = 4

// usage lets all who ask at the same time share one look at the guests. A look serves those who asked before it began, never
// by its age: what was attached before somebody asked is in his answer.
type usage struct {
	api   *pve.Client
	jobs  *job.Runner
	clock pve.Clock

	mu      sync.Mutex
	flights map[string]*flight
	// snapshots are what the snapshots of a guest use, by guest and digest. The digest is that of the whole file, snapshots
	// included (qemu-server QemuServer.pm parse_vm_config), so while it is the same there is nothing new in it. Whether there
	// are snapshots at all no option tells: parent goes with the snapshot that it names, and others may be left
	// (pve-guest-common AbstractConfig.pm snapshot_delete, after a rollback to the first of two).
	snapshots map[string][]mention
}

// mention is a volume that a guest names, and where.
type mention struct{ key, where string }

// flight is the look at the guests of one node, or of all.
type flight struct {
	turn   chan struct{} // guards found and number
	begun  int           // looks that have begun, guarded by usage.mu
	number int           // of the look that found
	found  users
}

func newUsage(jobs *job.Runner) *usage {
	return &usage{api: jobs.API, jobs: jobs, clock: jobs.Clock, flights: map[string]*flight{}, snapshots: map[string][]mention{}}
}

// look finds the users of volumes that only guests of a node can use, or with node "" those of the whole cluster.
func (u *usage) look(ctx context.Context, node string) (users, error) {
	u.mu.Lock()
	f := u.flights[node]
	if f == nil {
		f = &flight{turn: make(chan struct{}, 1)}
		u.flights[node] = f
	}
	asked := f.begun
	u.mu.Unlock()
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return users{}, ctx.Err()
	}
	defer func() { <-f.turn }()
	if f.number > asked {
		return f.found, nil
	}
	u.mu.Lock()
	f.begun++
	number := f.begun
	u.mu.Unlock()
	found, err := u.scan(ctx, node)
	if err != nil {
		return users{}, err
	}
	f.number, f.found = number, found
	return found, nil
}

// scan reads the guests.
func (u *usage) scan(ctx context.Context, node string) (users, error) {
	found := users{byVolume: map[string][]user{}, scope: node}
	var err error
	if found.unseen, err = u.hidden(ctx); err != nil {
		return users{}, err
	}
	seen := map[string][]mention{}
	for attempt, read := 0, map[int]bool{}; ; attempt++ {
		resources, err := u.api.Resources(ctx)
		if err != nil {
			return users{}, err
		}
		guests := slices.DeleteFunc(resources.Guests(), func(g pve.Resource) bool { return node != "" && g.Node != node || read[g.VMID] })
		moved, err := u.readAll(ctx, guests, func(g pve.Resource, digest string, all []mention) {
			read[g.VMID], seen[snapshotsKey(g, digest)] = true, nil
			for _, m := range all {
				found.byVolume[m.key] = append(found.byVolume[m.key], user{guest: g, where: m.where})
			}
		})
		if err != nil {
			return users{}, err
		}
		if !moved {
			break
		}
		if attempt == 3 {
			return users{}, errors.New("guests move from node to node while they are looked at")
		}
		if err := u.jobs.Pause(ctx, attempt+1); err != nil {
			return users{}, err
		}
	}
	u.forget(node, seen)
	found.at = u.clock.Now()
	return found, nil
}

// hidden says why this identity may not see all guests: PVE leaves those without VM.Audit out of the listing in silence.
func (u *usage) hidden(ctx context.Context) (unseen, err error) {
	if u.api.Identity().IsRootTicket() {
		return nil, nil
	}
	all, err := u.api.Permissions(ctx, "/vms")
	if err != nil {
		return nil, err
	}
	if !all["/vms"]["VM.Audit"] { // held, and for all below
		return errUnseen, nil
	}
	return nil, nil
}

// readAll reads guests, a few at a time, and hands on what each mentions. moved: one was not where the listing had it.
func (u *usage) readAll(ctx context.Context, guests []pve.Resource, found func(pve.Resource, string, []mention)) (moved bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, readers)
	for _, g := range guests {
		group.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; group.Done() }()
			digest, all, readErr := u.read(ctx, g)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case pve.IsKind(readErr, pve.NotFound):
				moved = true
			case readErr != nil && err == nil:
				err = readErr
				cancel() // one that cannot be read is enough
			case readErr == nil:
				found(g, digest, all)
			}
		}()
	}
	group.Wait()
	return moved, err
}

// read tells what a guest mentions: its options, in force and pending, and its snapshots.
func (u *usage) read(ctx context.Context, g pve.Resource) (string, []mention, error) {
	config, err := u.api.OptionsOf(ctx, g)
	if err != nil {
		return "", nil, err
	}
	var all []mention
	for _, e := range config.Entries {
		for _, key := range volumesIn(e.Key, e.Value) {
			all = append(all, mention{key, e.Key})
		}
		for _, key := range volumesIn(e.Key, e.Pending) {
			all = append(all, mention{key, e.Key + ", pending"})
		}
	}
	kept, err := u.readSnapshots(ctx, g, config.Digest)
	return config.Digest, append(all, kept...), err
}

func (u *usage) readSnapshots(ctx context.Context, g pve.Resource, digest string) ([]mention, error) {
	key := snapshotsKey(g, digest)
	u.mu.Lock()
	kept, known := u.snapshots[key]
	u.mu.Unlock()
	if known && digest != "" {
		return kept, nil
	}
	names, err := u.api.SnapshotsOf(ctx, g)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		options, err := u.api.SnapshotOptionsOf(ctx, g, name)
		if err != nil {
			return nil, err
		}
		for option, value := range options {
			for _, key := range volumesIn(option, value) {
				kept = append(kept, mention{key, "snapshot " + name})
			}
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.snapshots[key] = kept
	return kept, nil
}

func snapshotsKey(g pve.Resource, digest string) string {
	return fmt.Sprintf("%s/%s/%d %s", g.Node, g.Type, g.VMID, digest)
}

// forget drops what is known of the snapshots of guests that are not like that any more.
func (u *usage) forget(node string, seen map[string][]mention) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key := range u.snapshots {
		if _, stays := seen[key]; !stays && (node == "" || strings.HasPrefix(key, node+"/")) {
			delete(u.snapshots, key)
		}
	}
}
