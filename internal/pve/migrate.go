package pve

import "context"

// Preconditions is what PVE says of a migration before it is begun (qemu-server API2/Qemu.pm migrate_vm_precondition).
type Preconditions struct {
	Running bool
	// Allowed are the nodes that have every storage of the guest; nil when it has no local disks and all will do.
	Allowed []string
	// Refused says of the other nodes which storages they lack.
	Refused map[string][]string
	// LocalDisks are the volumes that only its node has; LocalResources its passed-through devices of that node, by slot.
	LocalDisks     []LocalDisk
	LocalResources []string
}

// LocalDisk is a volume on a storage that the nodes do not share.
type LocalDisk struct {
	Volume string // its id
	Drive  string // slot, as far as PVE tells it (8.1 and later)
	CDROM  bool
	Unused bool
}

type preconditionsWire struct {
	Running flexBool `json:"running"`
	Allowed []string `json:"allowed_nodes"`
	Refused map[string]struct {
		Storages []string `json:"unavailable_storages"`
	} `json:"not_allowed_nodes"`
	LocalDisks []struct {
		Volume flexString `json:"volid"`
		Drive  flexString `json:"drivename"`
		CDROM  flexBool   `json:"cdrom"`
		Unused flexBool   `json:"is_unused"`
	} `json:"local_disks"`
	LocalResources []string `json:"local_resources"`
}

// MigrationPreconditions asks whether a VM can be migrated to a node. Needs VM.Migrate. A locked VM is Locked.
func (c *Client) MigrationPreconditions(ctx context.Context, node string, vmid int, target string) (Preconditions, error) {
	w, err := fetch[preconditionsWire](ctx, c, "ask whether "+guestName(node, vmid)+" can migrate to "+target,
		guestPath(node, vmid, "/migrate"), Params{"target": target})
	p := Preconditions{Running: bool(w.Running), Allowed: w.Allowed, LocalResources: w.LocalResources}
	for name, lacks := range w.Refused {
		if p.Refused == nil {
			p.Refused = map[string][]string{}
		}
		p.Refused[name] = lacks.Storages
	}
	for _, d := range w.LocalDisks {
		disk := LocalDisk{Volume: string(d.Volume), Drive: string(d.Drive), CDROM: bool(d.CDROM), Unused: bool(d.Unused)}
		p.LocalDisks = append(p.LocalDisks, disk)
	}
	return p, err
}
