package handle

import (
	"maps"
	"slices"

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
func (s *Server) volumesOf(g *state.Guest) []*volumeUse {
	found := map[string]*volumeUse{}
	scan := func(conf map[string]string, snap string, pending bool) {
		for _, opt := range slices.Sorted(maps.Keys(conf)) {
			d := drive{"file": conf[opt]}
			switch {
			case isDrive(opt):
				d = s.parseDrive(opt, conf[opt])
			case !hasIndex(opt, "unused") && opt != "vmstate":
				continue
			}
			if d == nil || d.file() == "" {
				continue
			}
			u := found[d.file()]
			if u == nil {
				u = &volumeUse{volid: d.file(), cdrom: true}
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

func (u *volumeUse) note(opt string, d drive, snap string, pending bool) {
	unused := hasIndex(opt, "unused")
	u.cdrom = u.cdrom && d.isCDROM()
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
	if isDrive(opt) {
		u.drive = opt
	}
}

// driveStorages are the storages of the guest's drives, in the order of their options.
func (r *Request) driveStorages(g *state.Guest) (list []string, contents map[string]string) {
	contents = map[string]string{}
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		d := drive(nil)
		if isDrive(opt) {
			d = r.Server.parseDrive(opt, g.Config[opt])
		}
		if d == nil {
			continue
		}
		id, _, ok := state.SplitVolid(d.file())
		if !ok {
			continue
		}
		if contents[id] == "" {
			list = append(list, id)
		}
		contents[id] = d.file()
	}
	return list, contents
}

// missingStorages are those of the guest's drives that the node has not (QemuServer.pm check_local_storage_availability).
func (r *Request) missingStorages(g *state.Guest, node string) ([]string, error) {
	ids, _ := r.driveStorages(g)
	var missing []string
	for _, id := range ids {
		if _, err := r.W.StorageConfig(id); err != nil {
			return nil, Die("%s", err)
		}
		if _, err := r.W.StorageEnabled(node, id); err != nil {
			missing = append(missing, id)
		}
	}
	slices.Sort(missing)
	return missing, nil
}

// checkStorages wants the storages of all drives here and on the node (QemuServer.pm check_storage_availability).
func (r *Request) checkStorages(g *state.Guest, node string) error {
	ids, volid := r.driveStorages(g)
	for _, id := range ids {
		for _, n := range []string{g.Node, node} {
			if _, err := r.W.StorageEnabled(n, id); err != nil {
				return Die("%s", err)
			}
		}
		if err := r.checkContent(r.W.Storages[id], volid[id], id); err != nil {
			return err
		}
	}
	return nil
}

// checkContent refuses a volume of a type that the storage it is, or is to be, on is not configured for.
func (r *Request) checkContent(s *state.Storage, volid, id string) error {
	source, name, _ := state.SplitVolid(volid)
	n, err := r.W.Storages[source].ParseName(name)
	if err != nil {
		return Die("%s", err)
	}
	if !s.Has(n.Content) {
		return Die("%s: content type '%s' is not available on storage '%s'", volid, n.Content, id)
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

func (s *Server) localResources(g *state.Guest) resources {
	out := resources{names: []string{}, mapped: map[string]*mappedResource{}}
	running := g.Running != nil
	if running && g.Config["amd-sev"] != "" {
		out.names = append(out.names, "amd-sev")
	}
	options := slices.Sorted(maps.Keys(g.Config))
	if running && slices.ContainsFunc(options, func(k string) bool { return hasIndex(k, "virtiofs") }) {
		out.names = append(out.names, "virtiofs")
	}
	if g.Config["ivshmem"] != "" {
		out.names = append(out.names, "ivshmem")
	}
	for _, opt := range options {
		if s.ties(&out, opt, g.Config[opt], running) {
			out.names = append(out.names, opt)
		}
	}
	return out
}

// ties notes a mapped resource and reports whether the option is in the way of a migration.
func (s *Server) ties(out *resources, opt, value string, running bool) bool {
	mapping := subvalue(value, "mapping", false)
	switch {
	case hasIndex(opt, "usb"):
		if subvalue(value, "host", true) == "spice" {
			return false
		}
		if mapping != "" {
			out.mapped[opt] = &mappedResource{kind: "usb", name: mapping}
		}
		return true
	case hasIndex(opt, "hostpci"):
		if mapping == "" {
			return true
		}
		m := s.world.Mapping("pci", mapping)
		out.mapped[opt] = &mappedResource{kind: "pci", name: mapping, live: m != nil && m.LiveMigration}
		return running && !out.mapped[opt].live
	case hasIndex(opt, "virtiofs"):
		out.mapped[opt] = &mappedResource{kind: "dir", name: subvalue(value, "dirid", true)}
		return true
	case hasIndex(opt, "serial"):
		return value != "socket"
	}
	return hasIndex(opt, "parallel")
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
