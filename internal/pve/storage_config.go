package pve

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// StorageConfig is what a storage points to, by the cluster's configuration (pve-storage, options of the plugins).
type StorageConfig struct {
	ID, Type string
	Content  string // the kinds of content, with commas between them
	Disabled bool
	// Nodes are those that have it, "" if all have.
	Nodes string
	// Path is the directory on the node, of storages of files.
	Path   string
	Shared bool
	// Mountpoint is is_mountpoint as it is written.
	Mountpoint string
	// ContentDirs says which directories hold which content; "" is the usual ones.
	ContentDirs string
	// Server and Export are those of a network file system: a CIFS share, the file system of a Ceph cluster.
	Server, Export, Subdir string
	// Pool is of ZFS or RBD, with Namespace and Monitors; VGName is a volume group; Portal and Target are of iSCSI.
	Pool, Namespace, Monitors string
	VGName                    string
	Portal, Target            string
	// Base is the volume that a volume group is on.
	Base string
	StorageTraits
}

// StorageTraits are settings of a storage that change what its volumes do.
type StorageTraits struct {
	// VolumeChain is snapshot-as-volume-chain: the snapshots of a qcow2 volume are volumes of their own.
	VolumeChain bool
	// SafeRemove: a volume that is freed is zeroed before its space is free, which takes hours (pve-storage LVMPlugin.pm
	// free_lvm_volumes_locked).
	SafeRemove bool
}

// RBDPool is the pool with its namespace (pve-storage RBDPlugin.pm get_rbd_path).
func (s StorageConfig) RBDPool() string { return cmp.Or(s.Pool, "rbd") + "/" + s.Namespace }

// IsMountpoint reports whether is_mountpoint names a path, or says that the directory is one (pve-storage DirPlugin.pm
// parse_is_mountpoint, pve-common JSONSchema.pm parse_boolean).
func (s StorageConfig) IsMountpoint() bool {
	return !slices.Contains([]string{"", "0", "no", "off", "false"}, strings.ToLower(s.Mountpoint))
}

type storageConfigWire struct {
	Storage      wire.String     `json:"storage"`
	Type         wire.String     `json:"type"`
	Content      wire.String     `json:"content"`
	Disable      wire.Bool       `json:"disable"`
	Nodes        wire.String     `json:"nodes"`
	Path         wire.String     `json:"path"`
	Shared       wire.Bool       `json:"shared"`
	IsMountpoint wire.String     `json:"is_mountpoint"`
	ContentDirs  json.RawMessage `json:"content-dirs"`
	Server       wire.String     `json:"server"`
	Export       wire.String     `json:"export"`
	Share        wire.String     `json:"share"`
	Volume       wire.String     `json:"volume"`
	FSName       wire.String     `json:"fs-name"`
	Subdir       wire.String     `json:"subdir"`
	Pool         wire.String     `json:"pool"`
	Namespace    wire.String     `json:"namespace"`
	MonHost      wire.String     `json:"monhost"`
	VGName       wire.String     `json:"vgname"`
	Portal       wire.String     `json:"portal"`
	Target       wire.String     `json:"target"`
	Base         wire.String     `json:"base"`
	VolumeChain  wire.Bool       `json:"snapshot-as-volume-chain"`
	SafeRemove   wire.Bool       `json:"saferemove"`
}

// StorageConfigs lists the configurations of the storages on which this identity has Datastore.Audit or
// Datastore.AllocateSpace (pve-storage API2/Storage/Config.pm index).
func (c ClusterReader) StorageConfigs(ctx context.Context) ([]StorageConfig, error) {
	list, err := fetch[[]storageConfigWire](ctx, c.client, "list the storages of the cluster", "/storage", nil)
	if err != nil {
		return nil, err
	}
	out := make([]StorageConfig, 0, len(list))
	for _, w := range list {
		monitors := strings.FieldsFunc(string(w.MonHost), func(r rune) bool { return strings.ContainsRune(" ,;", r) })
		slices.Sort(monitors)
		s := StorageConfig{ID: string(w.Storage), Type: string(w.Type), Nodes: string(w.Nodes), Path: string(w.Path),
			Content: string(w.Content), Disabled: bool(w.Disable), Shared: bool(w.Shared), Mountpoint: string(w.IsMountpoint),
			ContentDirs: string(w.ContentDirs), Server: string(w.Server), Subdir: string(w.Subdir),
			Export: string(cmp.Or(w.Export, w.Share, w.Volume, w.FSName)), Pool: string(w.Pool),
			Namespace: string(w.Namespace), Monitors: strings.Join(monitors, ","), VGName: string(w.VGName),
			Portal: string(w.Portal), Target: string(w.Target), Base: string(w.Base),
			StorageTraits: StorageTraits{VolumeChain: bool(w.VolumeChain), SafeRemove: bool(w.SafeRemove)}}
		if s.Type == "cephfs" {
			s.Server = s.Monitors
		}
		out = append(out, s)
	}
	return out, nil
}
