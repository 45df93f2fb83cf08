package pve

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Storage is a storage as seen on one node. Sizes are bytes.
type Storage struct {
	ID, Type string
	// Content is what may be kept on it: images, rootdir, iso, import, snippets, vztmpl, backup; sorted.
	Content []string
	// Enabled is the configuration's word for this node, Active whether it can be used now.
	Enabled, Active, Shared bool
	Total, Used, Avail      int64
}

// Holds tells whether that content type may be kept on it.
func (s Storage) Holds(content string) bool { return slices.Contains(s.Content, content) }

type storageWire struct {
	Storage flexString `json:"storage"`
	Type    flexString `json:"type"`
	Content flexString `json:"content"`
	Enabled flexBool   `json:"enabled"`
	Active  flexBool   `json:"active"`
	Shared  flexBool   `json:"shared"`
	Total   flexInt    `json:"total"`
	Used    flexInt    `json:"used"`
	Avail   flexInt    `json:"avail"`
}

// Storages lists the storages of a node that this identity may see, those for one content type or all when content is "".
// Disabled ones are in the list, with Enabled false.
func (c *Client) Storages(ctx context.Context, node, content string) ([]Storage, error) {
	p := Params{}
	if content != "" {
		p["content"] = content
	}
	wire, err := fetch[[]storageWire](ctx, c, "list the storages of node "+node, "/nodes/"+node+"/storage", p)
	if err != nil {
		return nil, err
	}
	out := make([]Storage, 0, len(wire))
	for _, w := range wire {
		s := Storage{
			ID: string(w.Storage), Type: string(w.Type), Enabled: bool(w.Enabled), Active: bool(w.Active), Shared: bool(w.Shared),
			Total: int64(w.Total), Used: int64(w.Used), Avail: int64(w.Avail),
			Content: strings.FieldsFunc(string(w.Content), func(r rune) bool { return r == ',' || r == ' ' }),
		}
		slices.Sort(s.Content)
		out = append(out, s)
	}
	return out, nil
}

// Volume is one item on a storage. Sizes are bytes.
type Volume struct {
	// ID is the volid: "local-zfs:vm-100-disk-0".
	ID string
	// VMID is the owner by the volume's name, 0 without one; whether such a VM exists is another matter.
	VMID int
	// Format is raw, qcow2 …; Parent the base volume of a linked clone; Content images, iso …
	Format, Parent, Content string
	// Size is the guest's view; 0 when the storage knows only an approximate size (PVE 9, qcow2 on LVM).
	Size, Used int64
	// CreatedAt is the zero time when the storage does not know.
	CreatedAt time.Time
}

type volumeWire struct {
	VolID   flexString `json:"volid"`
	VMID    flexInt    `json:"vmid"`
	Format  flexString `json:"format"`
	Parent  flexString `json:"parent"`
	Content flexString `json:"content"`
	Path    flexString `json:"path"` // of one that is asked for by itself
	Size    flexInt    `json:"size"`
	Used    flexInt    `json:"used"`
	CTime   flexInt    `json:"ctime"`
}

// Content lists a storage: one content type or all when content is "", one owner or all when vmid is 0. Volumes of other
// owners, and orphans, are silently left out unless this identity has Datastore.Allocate, or Datastore.Audit and
// VM.Config.Disk on the owner (pve-storage check_volume_access).
func (c *Client) Content(ctx context.Context, node, storage, content string, vmid int) ([]Volume, error) {
	p := Params{}
	if content != "" {
		p["content"] = content
	}
	if vmid != 0 {
		p["vmid"] = strconv.Itoa(vmid)
	}
	op := "list the content of storage " + storage + " on node " + node
	wire, err := fetch[[]volumeWire](ctx, c, op, "/nodes/"+node+"/storage/"+storage+"/content", p)
	if err != nil {
		return nil, err
	}
	out := make([]Volume, 0, len(wire))
	for _, w := range wire {
		out = append(out, Volume{
			ID: string(w.VolID), VMID: int(w.VMID), Format: string(w.Format), Parent: string(w.Parent), Content: string(w.Content),
			Size: int64(w.Size), Used: int64(w.Used), CreatedAt: unixTime(w.CTime),
		})
	}
	return out, nil
}

// ArchiveConfig is the text of the configuration in a backup of a guest, as PVE keeps configurations.
func (c *Client) ArchiveConfig(ctx context.Context, node, archive string) (string, error) {
	text, err := fetch[flexString](ctx, c, "read the configuration in "+archive, "/nodes/"+node+"/vzdump/extractconfig",
		Params{"volume": archive})
	return string(text), err
}
