package guard

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// IsBasedOn reports whether a volume of a listing has another as its base: its id begins with the base's, or its
// parent is the base (pve-storage, parse_volname and list_images of the plugins). near: the two are on one storage. A
// parent by its whole path may be on any.
func IsBasedOn(v pve.Volume, base string, near bool) bool {
	return v.ID != base && (near && strings.HasPrefix(v.ID, base+"/") ||
		(near || volid.IsDevice(v.Parent)) && volumeuse.IsParent(v.Parent, base))
}

// image is a file that an image made by hand can have as its backing file: a disk, or a file to import. PVE refuses
// itself to free the base of a template that has linked clones, and asks for no other volume (pve-storage Storage.pm
// vdisk_free).
var image = regexp.MustCompile(`:([0-9]+/.*)?[0-9]+/[^/]+\.(qcow2|vmdk|raw)$|` +
	`:(import/[^/]+\.(qcow2|vmdk|raw)|iso/[^/]+\.img)$`)

// basesLife is long: for each listing of a storage of files PVE looks into every image (pve-storage Plugin.pm
// list_images). A backing file is set by hand, and stays.
const basesLife = 10 * time.Minute

// CheckBases returns an *InUseError if one of some volumes is the backing file of another on its storage. Each storage
// is listed once on each node for all that ask in a run. A listing that fails stops nothing: a storage that is away
// frees nothing, and one with many images may not be listed in time.
func CheckBases(ctx context.Context, g *Guard, node string, volumes []string) error {
	var away []string
	for _, base := range volumes {
		if !image.MatchString(base) || volid.IsCloudInit(base) {
			continue
		}
		storage := volid.Storage(base)
		place := storage + " on " + node // no look at the cluster's listing, which would show guests that are not asked
		if slices.Contains(away, place) {
			continue
		}
		users := func(listed []pve.Volume) (names []string) {
			for _, v := range listed {
				if IsBasedOn(v, base, true) && !slices.Contains(volumes, v.ID) {
					names = append(names, fmt.Sprintf("VM %d: it is the backing file of %s, which a move to another storage "+
						"makes independent", v.VMID, v.ID))
				}
			}
			return names
		}
		listed, err := g.bases.Get(ctx, g.clock, place, func(ctx context.Context) ([]pve.Volume, error) {
			found, err := g.api.Storage(node, storage).Content(ctx, "images", 0)
			return slices.DeleteFunc(found, func(v pve.Volume) bool { return v.Parent == "" }), err
		})
		if err != nil && ctx.Err() == nil { // the next that asks lists it again
			away = append(away, place)
			continue
		}
		if err != nil {
			return err
		}
		if len(users(listed)) == 0 {
			continue
		}
		if listed, err = g.api.Storage(node, storage).Content(ctx, "images", 0); err != nil { // it may be gone since
			return err
		}
		if names := users(listed); len(names) > 0 {
			return &InUseError{Volume: base, Users: names}
		}
	}
	return nil
}
