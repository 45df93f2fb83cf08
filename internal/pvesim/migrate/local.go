package migrate

import (
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// volumeUse is a volume and what in a guest's configuration refers to it (QemuServer.pm foreach_volid).
type volumeUse struct {
	volid, drive     string // drive: the option, if it is one
	cdrom, shared    bool
	replicate        bool
	attached, unused bool
	vmstate, tpm     bool
	pending          bool
	snaps            []string
	size             int64
}

// volumesOf lists the volumes of a guest: of its current, pending and snapshot sections, sorted.
func volumesOf(e *engine.Engine, g *state.Guest) []*volumeUse {
	found := map[string]*volumeUse{}
	scan := func(conf map[string]string, snap string, pending bool) {
		for _, opt := range slices.Sorted(maps.Keys(conf)) {
			d := drive.Drive{"file": conf[opt]}
			switch {
			case drive.IsDrive(opt):
				d = drive.Parse(e, opt, conf[opt])
			case !drive.HasIndex(opt, "unused") && opt != "vmstate":
				continue
			}
			if d == nil || d.File() == "" {
				continue
			}
			u := found[d.File()]
			if u == nil {
				u = &volumeUse{volid: d.File(), cdrom: true}
				found[u.volid] = u
			}
			u.note(opt, d, snap, pending)
		}
	}
	scan(g.Config, "", false)
	scan(g.Pending, "", true)
	for _, name := range slices.Sorted(maps.Keys(g.Snaps)) {
		scan(g.Snaps[name], name, false)
	}
	list := make([]*volumeUse, 0, len(found))
	for _, volid := range slices.Sorted(maps.Keys(found)) {
		list = append(list, found[volid])
	}
	return list
}

func (u *volumeUse) note(opt string, d drive.Drive, snap string, pending bool) {
	unused := drive.HasIndex(opt, "unused")
	u.cdrom = u.cdrom && d.IsCDROM()
	u.replicate = u.replicate || d["replicate"] != "0"
	u.shared = u.shared || d["shared"] == "1"
	u.unused = u.unused || unused
	u.attached = u.attached || !unused && snap == "" && !pending
	u.vmstate = u.vmstate || opt == "vmstate"
	u.tpm = u.tpm || opt == "tpmstate0"
	u.pending = u.pending || pending
	if snap != "" {
		u.snaps = append(u.snaps, snap)
	}
	if size, ok := schema.ParseSize(d["size"]); ok && u.size == 0 {
		u.size = size
	}
	if drive.IsDrive(opt) {
		u.drive = opt
	}
}

// driveStorages are the storages of the guest's drives, in the order of their options.
func driveStorages(r *engine.Request, g *state.Guest) (list []string, contents map[string]string) {
	contents = map[string]string{}
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		d := drive.Drive(nil)
		if drive.IsDrive(opt) {
			d = drive.Parse(r.Engine, opt, g.Config[opt])
		}
		if d == nil {
			continue
		}
		id, _, ok := state.SplitVolid(d.File())
		if !ok {
			continue
		}
		if contents[id] == "" {
			list = append(list, id)
		}
		contents[id] = d.File()
	}
	return list, contents
}

// missingStorages are those of the guest's drives that the node has not (QemuServer.pm
// check_local_storage_availability).
func missingStorages(r *engine.Request, g *state.Guest, node string) ([]string, error) {
	ids, _ := driveStorages(r, g)
	var missing []string
	for _, id := range ids {
		if _, err := r.W.StorageConfig(id); err != nil {
			return nil, perl.Die("%s", err)
		}
		if _, err := r.W.StorageEnabled(node, id); err != nil {
			missing = append(missing, id)
		}
	}
	slices.Sort(missing)
	return missing, nil
}

// checkStorages wants the storages of all drives here and on the node (QemuServer.pm check_storage_availability).
func checkStorages(r *engine.Request, g *state.Guest, node string) error {
	ids, volid := driveStorages(r, g)
	for _, id := range ids {
		for _, n := range []string{g.Node, node} {
			if _, err := r.W.StorageEnabled(n, id); err != nil {
				return perl.Die("%s", err)
			}
		}
		if err := checkContent(r, r.W.Storages[id], volid[id], id); err != nil {
			return err
		}
	}
	return nil
}

// checkContent refuses a volume of a type that the storage it is, or is to be, on is not configured for.
func checkContent(r *engine.Request, s *state.Storage, volid, id string) error {
	source, name, _ := state.SplitVolid(volid)
	n, err := r.W.Storages[source].ParseName(name)
	if err != nil {
		return perl.Die("%s", err)
	}
	if !s.Has(n.Content) {
		return perl.Die("%s: content type '%s' is not available on storage '%s'", volid, n.Content, id)
	}
	return nil
}

// resources are what ties a guest to its node (QemuServer.pm check_local_resources).
type resources struct {
	names  []string // in the way, by option
	mapped map[string]*mappedResource
}

type mappedResource struct {
	kind, name string
	live       bool
}

func localResources(e *engine.Engine, g *state.Guest) resources {
	out := resources{names: []string{}, mapped: map[string]*mappedResource{}}
	running := g.Running != nil
	if running && g.Config["amd-sev"] != "" {
		out.names = append(out.names, "amd-sev")
	}
	options := slices.Sorted(maps.Keys(g.Config))
	if running && slices.ContainsFunc(options, func(k string) bool { return drive.HasIndex(k, "virtiofs") }) {
		out.names = append(out.names, "virtiofs")
	}
	if g.Config["ivshmem"] != "" {
		out.names = append(out.names, "ivshmem")
	}
	for _, opt := range options {
		if ties(e, &out, opt, g.Config[opt], running) {
			out.names = append(out.names, opt)
		}
	}
	return out
}

// ties notes a mapped resource and reports whether the option is in the way of a migration.
func ties(e *engine.Engine, out *resources, opt, value string, running bool) bool {
	mapping := perl.Subvalue(value, "mapping", false)
	switch {
	case drive.HasIndex(opt, "usb"):
		if perl.Subvalue(value, "host", true) == "spice" {
			return false
		}
		if mapping != "" {
			out.mapped[opt] = &mappedResource{kind: "usb", name: mapping}
		}
		return true
	case drive.HasIndex(opt, "hostpci"):
		if mapping == "" {
			return true
		}
		m := e.World.Mapping("pci", mapping)
		out.mapped[opt] = &mappedResource{kind: "pci", name: mapping, live: m != nil && m.LiveMigration}
		return running && !out.mapped[opt].live
	case drive.HasIndex(opt, "virtiofs"):
		out.mapped[opt] = &mappedResource{kind: "dir", name: perl.Subvalue(value, "dirid", true)}
		return true
	case drive.HasIndex(opt, "serial"):
		return value != "socket"
	}
	return drive.HasIndex(opt, "parallel")
}

// missing are the options whose mapping the node has not.
func (l resources) missing(w *state.World, node string) []string {
	var list []string
	for _, opt := range slices.Sorted(maps.Keys(l.mapped)) {
		if m := l.mapped[opt]; !w.Mapping(m.kind, m.name).On(node) {
			list = append(list, opt)
		}
	}
	return list
}

func (l resources) mappedKeys() []string {
	return append([]string{}, slices.Sorted(maps.Keys(l.mapped))...)
}

func (l resources) mappedInfo() map[string]any {
	out := map[string]any{}
	for opt, m := range l.mapped {
		row := map[string]any{"name": m.name}
		if m.live {
			row["live-migration"] = 1
		}
		out[opt] = row
	}
	return out
}
