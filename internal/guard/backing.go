package guard

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// IsBasedOn reports whether a volume of a listing has another as its base: its id begins with the base's, or its
// parent is the base (pve-storage, parse_volname and list_images of the plugins). near: the two are on one storage. A
// parent by its whole path may be on any, and so may one that leaves the directory of the images. Below snapshots of a
// storage with snapshot-as-volume-chain no listed volume names the base (Plugin.pm volume_snapshot, list_images), nor
// does PVE's own look before it frees one (Storage.pm volume_is_base_and_used): there the guests' configurations do.
func IsBasedOn(v pve.Volume, base string, near bool) bool {
	isFar := volid.IsDevice(v.Parent) || strings.HasPrefix(v.Parent, "../../")
	return v.ID != base && (near && strings.HasPrefix(v.ID, base+"/") ||
		(near || isFar) && volumeuse.IsParent(v.Parent, base))
}

// image is a file that an image made by hand can have as its backing file: a disk, or a file to import. PVE refuses
// itself to free the base of a template that has linked clones, and asks for no other volume (pve-storage Storage.pm
// vdisk_free).
var image = regexp.MustCompile(`:([0-9]+/.*)?[0-9]+/[^/]+\.(qcow2|vmdk|raw)$|` +
	`:(import/[^/]+\.(qcow2|vmdk|raw)|iso/[^/]+\.img)$`)

// basesLife is long: for each listing of a storage of files PVE looks into every image (pve-storage Plugin.pm
// list_images). A backing file is set by hand, and stays.
const basesLife = 10 * time.Minute

// lookElsewhere bounds the listing of a storage that has none of the volumes: one that is away would delay what does
// not concern it.
const lookElsewhere = 5 * time.Second

// listedAtOnce is how many storages are listed at a time.
const listedAtOnce = 8

// CheckBases returns an *InUseError if one of some volumes is the backing file of another, on its storage or on another
// one of files of the node, or for a volume that other nodes may have on one of any node. Each storage is listed once
// on each node for all that ask in a run. A listing that fails stops nothing: a storage that is away frees nothing, and
// one with many images may not be listed in time. Volumes that are no files are not looked for: with every one of them
// PVE would look into the images of all storages.
func CheckBases(ctx context.Context, g *Guard, node string, volumes []string) error {
	bases := slices.DeleteFunc(slices.Clone(volumes), func(v string) bool {
		return !image.MatchString(v) || volid.IsCloudInit(v)
	})
	if len(bases) == 0 {
		return nil
	}
	places, err := g.Places(ctx)
	if err != nil {
		return fmt.Errorf("see on which storages another image may be based on %s: %w", bases[0], err)
	}
	own, others, err := overlaid(ctx, g, node, bases, places)
	if err != nil {
		return err
	}
	for _, all := range [][]listing{own, others} {
		for i, found := range overlays(ctx, g, all) {
			at := all[i]
			used := func(listed []pve.Volume) error { return at.used(listed, bases, volumes, places, node) }
			if used(found) == nil {
				continue
			}
			listed, err := g.api.Storage(at.node, at.storage).Content(ctx, "images", 0) // it may be gone since
			if err == nil {
				err = used(listed)
			}
			if err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// listing is a storage that is listed on a node. own: it has one of the volumes.
type listing struct {
	node, storage string
	own           bool
}

// used returns an *InUseError if an image of the listing has one of some bases, which are on a node, but for images
// that go, too.
func (l listing) used(listed []pve.Volume, bases, going []string, places volumeuse.Places, node string) error {
	where := ""
	if l.node != node {
		where = " on node " + l.node
	}
	for _, base := range bases {
		on := volid.Storage(base)
		if where != "" && !places.IsOfOthers(on) { // the file of that name there is another
			continue
		}
		near := places.Compare(l.storage, on) != volumeuse.Apart
		if names := basedOn(listed, base, near, going, where); len(names) > 0 {
			return &InUseError{Volume: base, Users: names}
		}
	}
	return nil
}

// overlaid are the storages that may have an image which is based on one of some volumes: their own, and the others of
// files of their node. Of volumes that other nodes may have they are those of all nodes that are online.
func overlaid(ctx context.Context, g *Guard, node string, bases []string, places volumeuse.Places) (own,
	others []listing, err error) {
	reach := false
	for _, base := range bases {
		at := listing{node, volid.Storage(base), true}
		reach = reach || places.IsOfOthers(at.storage)
		if !slices.Contains(own, at) {
			own = append(own, at)
		}
	}
	for _, id := range places.ForImages(node) {
		if !slices.Contains(own, listing{node, id, true}) {
			others = append(others, listing{node, id, false})
		}
	}
	if !reach {
		return own, others, nil
	}
	resources, _, err := g.api.Listing().Recent(ctx)
	here := slices.Concat(own, others)
	for _, n := range resources.Nodes() {
		if n.Node == node || n.Status != "online" {
			continue
		}
		for _, id := range places.ForImages(n.Node) {
			isIt := func(l listing) bool { return l.storage == id }
			if !places.IsShared(id) || !slices.ContainsFunc(here, isIt) {
				others = append(others, listing{n.Node, id, false})
			}
		}
	}
	return own, others, err
}

// basedOn says which images of a storage have a base, but for some that go, too. where: the end of their names.
func basedOn(listed []pve.Volume, base string, near bool, going []string, where string) (names []string) {
	for _, v := range listed {
		if IsBasedOn(v, base, near) && !slices.Contains(going, v.ID) {
			names = append(names, fmt.Sprintf("VM %d: it is the backing file of %s%s, which a move to another "+
				"storage makes independent", v.VMID, v.ID, where))
		}
	}
	return names
}

// overlays are the images with a backing file on each of some storages, as far as they can be listed.
func overlays(ctx context.Context, g *Guard, all []listing) [][]pve.Volume {
	found := make([][]pve.Volume, len(all))
	slots := make(chan struct{}, listedAtOnce)
	var looks sync.WaitGroup
	for i, at := range all {
		slots <- struct{}{}
		looks.Go(func() {
			defer func() { <-slots }()
			found[i] = overlaysOn(ctx, g, at)
		})
	}
	looks.Wait()
	return found
}

func overlaysOn(ctx context.Context, g *Guard, at listing) []pve.Volume {
	place := at.storage + " on " + at.node // no look at the cluster's listing, which would show guests that are not asked
	listed, _ := g.bases.Get(ctx, g.clock, place, func(ctx context.Context) ([]pve.Volume, error) {
		look, over := ctx, func() {}
		if !at.own {
			look, over = context.WithTimeout(ctx, lookElsewhere)
		}
		defer over()
		found, err := g.api.Storage(at.node, at.storage).Content(look, "images", 0)
		if look.Err() != nil && ctx.Err() == nil { // it would delay each that asks
			err = nil
		}
		return slices.DeleteFunc(found, func(v pve.Volume) bool { return v.Parent == "" }), err
	})
	return listed // after an error nothing: the next that asks lists it again
}
