package volumeuse

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// TestExtent: which machines may have the place of a storage, by all storages of the cluster. Scope and Reach follow it.
func TestExtent(t *testing.T) {
	dir := func(id, path string) pve.StorageConfig { return pve.StorageConfig{ID: id, Type: "dir", Path: path} }
	mount := func(id, nodes, value string) pve.StorageConfig {
		return pve.StorageConfig{ID: id, Type: "dir", Path: "/mnt/pve/" + id, Nodes: nodes, Mountpoint: value}
	}
	group := func(id, name, nodes string) pve.StorageConfig {
		return pve.StorageConfig{ID: id, Type: "lvm", VGName: name, Nodes: nodes}
	}
	shared := func(c pve.StorageConfig) pve.StorageConfig { c.Shared = true; return c }
	based := group("based", "san", "pve1")
	based.Base = "target:0.0.1.scsi-36001405"
	nfs := shared(pve.StorageConfig{ID: "nfs", Type: "nfs", Path: "/mnt/pve/nfs", Server: "nas", Export: "/tank"})
	target := shared(pve.StorageConfig{ID: "target", Type: "iscsi"})
	plugin := shared(pve.StorageConfig{ID: "plugin", Type: "linstor"})
	pool := pve.StorageConfig{ID: "pool", Type: "zfspool", Pool: "tank"}
	overISCSI := shared(pve.StorageConfig{ID: "zfs", Type: "zfs", Pool: "tank", Portal: "192.0.2.1"})
	thin := pve.StorageConfig{ID: "thin", Type: "lvmthin", VGName: "pve"}
	for name, c := range map[string]struct {
		of     pve.StorageConfig
		others []pve.StorageConfig
		want   extent
	}{
		"a directory":                               {dir("x", "/srv"), []pve.StorageConfig{nfs, target}, ofNode},
		"one that is marked":                        {shared(dir("x", "/srv")), nil, ofOthers},
		"one whose path another has marked":         {dir("x", "/srv"), []pve.StorageConfig{shared(dir("y", "/srv/"))}, ofOthers},
		"one beside a plugin of another program":    {dir("x", "/srv"), []pve.StorageConfig{plugin}, ofOthers},
		"one below one that is marked":              {dir("x", "/srv/x"), []pve.StorageConfig{shared(dir("y", "/srv"))}, ofOthers},
		"one below a share":                         {dir("x", "/mnt/pve/nfs/vms"), []pve.StorageConfig{nfs}, ofOthers},
		"one beside a mount by hand":                {dir("x", "/srv"), []pve.StorageConfig{mount("m", "", "yes")}, ofNode},
		"one below a mount by hand":                 {dir("x", "/mnt/pve/m/vms"), []pve.StorageConfig{mount("m", "", "yes")}, ofOthers},
		"one below a disk":                          {dir("x", "/mnt/pve/m/vms"), []pve.StorageConfig{mount("m", "pve1", "1")}, ofDisk},
		"a mount by hand":                           {mount("m", "pve1", "yes"), nil, ofOthers},
		"a disk":                                    {mount("m", "pve1,pve2", "1"), []pve.StorageConfig{nfs}, ofDisk},
		"a disk below a directory that is marked":   {mount("m", "pve1", "1"), []pve.StorageConfig{shared(dir("y", "/mnt"))}, ofOthers},
		"a group":                                   {group("g", "san", ""), nil, ofNode},
		"a group beside a target":                   {group("g", "san", ""), []pve.StorageConfig{target}, ofOthers},
		"a group of two nodes beside it":            {group("g", "san", "pve1,pve2"), []pve.StorageConfig{target}, ofOthers},
		"a group of one node beside it":             {group("g", "san", "pve1"), []pve.StorageConfig{target}, ofDisk},
		"two groups of one node beside it":          {group("g", "san", "pve1"), []pve.StorageConfig{target, group("h", "ssd", "pve2")}, ofDisk},
		"a group as a storage of each node":         {group("g", "san", "pve1"), []pve.StorageConfig{target, group("h", "san", "pve2")}, ofOthers},
		"a group as two storages of a node":         {group("g", "san", "pve1"), []pve.StorageConfig{target, group("h", "san", "pve1")}, ofDisk},
		"a group as a storage of each node, and no": {group("g", "ssd", "pve1"), []pve.StorageConfig{group("h", "ssd", "pve2")}, ofNode},
		"a group with a base":                       {based, nil, ofOthers},
		"a group to which another gives a base":     {group("g", "san", "pve1"), []pve.StorageConfig{based}, ofOthers},
		"a thin pool beside a target":               {thin, []pve.StorageConfig{target}, ofNode},
		"a dataset":                                 {pool, []pve.StorageConfig{nfs, target}, ofNode},
		"a dataset that a target may offer":         {pool, []pve.StorageConfig{overISCSI}, ofOthers},
	} {
		places := PlacesOf(append(c.others, c.of))
		if got := places.extentOf(c.of.ID); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if places.Reach(c.of.ID) != (c.want != ofNode) {
			t.Errorf("%s: Reach differs", name)
		}
	}
	if (Places{}).extentOf("x") != ofOthers {
		t.Error("a storage that is not visible is taken for one of the node")
	}
}

// TestPlacesBelowAMount: a directory below a mount point is a part of the share, so another storage may be that part.
func TestPlacesBelowAMount(t *testing.T) {
	nfs := func(id, export string) pve.StorageConfig {
		return pve.StorageConfig{ID: id, Type: "nfs", Shared: true, Path: "/mnt/pve/" + id, Server: "nas", Export: export}
	}
	dir := func(id, path string) pve.StorageConfig { return pve.StorageConfig{ID: id, Type: "dir", Path: path} }
	marked := dir("marked", "/mnt/pve/all/proj")
	marked.Shared = true
	hand := dir("hand", "/mnt/hand")
	hand.Mountpoint = "yes"
	places := PlacesOf([]pve.StorageConfig{nfs("all", "/export"), nfs("proj", "/export/proj"), nfs("other", "/other"), hand, marked,
		dir("below", "/mnt/pve/all/proj"), dir("beside", "/mnt/pve/all/x"), dir("inproj", "/mnt/pve/proj/x"), dir("inhand", "/mnt/hand/x"),
		dir("local", "/srv")})
	for name, c := range map[string]struct {
		a, b string
		want Likeness
	}{
		"the export that it is":               {"below", "proj", Unclear},
		"that export, of a marked one":        {"marked", "proj", Unclear},
		"the share that it is a part of":      {"below", "all", Apart},
		"another export":                      {"below", "other", Apart},
		"an export mounted by hand":           {"below", "hand", Unclear},
		"a part of an export mounted by hand": {"inhand", "proj", Unclear},
		"two parts of a share":                {"below", "beside", Apart},
		"one part of it, twice":               {"below", "marked", Same},
		"a part of each of two exports":       {"beside", "inproj", Unclear},
		"a directory of the node":             {"below", "local", Apart},
		"such a one and an export":            {"local", "all", Apart},
	} {
		if got, back := places.Compare(c.a, c.b), places.Compare(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%s: %d and %d, want %d", name, got, back, c.want)
		}
	}
}
