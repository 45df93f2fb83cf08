package guest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nearest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Clone names the source of a clone. Exactly one of VMID, Name and Tags is set.
type Clone struct {
	VMID     int
	Name     string
	Tags     []string
	Node     string // where the source is; "" = looked up
	Full     *bool  // nil: PVE's default (linked for templates)
	Snapshot string
	Storage  string // target of a full clone
	Format   string
	BWLimit  *int64 // KiB/s
}

// SourceConfig is the configuration of a VM that is cloned, read once for all plans and creates that want it within
// some seconds, as long as nothing here changes the VM. Whether it is locked by now PVE looks again when it is told
// to clone it.
func (g *Guests) SourceConfig(ctx context.Context, node string, vmid int) (map[string]string, error) {
	key := fmt.Sprintf("%s/%d/%d", node, vmid, g.api.Listing().Changes(vmid))
	return g.sources.Get(ctx, g.clock, key, func(ctx context.Context) (map[string]string, error) {
		config, err := g.api.QEMU(node, vmid).Config(ctx)
		return config.Values, err
	})
}

// Source is what a clone is copied of.
type Source struct {
	Listed      pve.Resource
	Config      map[string]string // that of the VM, or of its snapshot
	Description string            // that the clone gets
	Unfinished  bool              // its create is not over
}

// CopiedDescription is that of a copy: no ownership mark, and no sentence of a holder, by which others attach its disk.
func CopiedDescription(config map[string]string) string {
	description := strings.TrimRight(config["description"], " \n")
	if ownership.IsMark(description) {
		return ""
	}
	if text, holds := vm.HolderText(description); holds {
		return text
	}
	return description
}

// Unfinished says of a VM that is to be copied that its create is not over, and where it is completed.
func Unfinished(vmid int, mark ownership.Mark) string {
	if mark.Saga == "" {
		return "Its description begins like the mark of a create of this provider that is not over, and was edited, or " +
			"another release wrote it. So it may be half made, as a copy of it would be. If it is complete, give it " +
			"another description"
	}
	return fmt.Sprintf("Its description is the mark of a create of this provider (transaction %s, by %s). So it is half "+
		"made, as a copy of it would be. `terraform apply` of the configuration that makes VM %d completes it, or replaces "+
		"it", mark.Saga, mark.User, vmid)
}

// IsFull reports whether a clone gets disks of its own (qemu-server API2/Qemu.pm, clone_vm).
func (c *Clone) IsFull(source pve.Resource) bool {
	if c.Full != nil {
		return *c.Full
	}
	return !source.Template
}

// SourceUnderItsID says that a volume with the VMID of a new VM stays, although on_orphaned_volumes is "destroy", and
// how its data get into the VM.
const SourceUnderItsID = "import_from names one of them, so none was touched, whatever on_orphaned_volumes says. To " +
	"copy it, choose another vmid. To have it as a disk of this VM, name it in imported_disk in the place of import_from"

// FindSource picks the one VM that the configuration means.
func FindSource(resources pve.Resources, clone *Clone) (pve.Resource, error) {
	var matches []pve.Resource
	at, elsewhere := clone.Path(), ""
	for _, r := range resources {
		switch {
		case clone.Means(r):
			matches = append(matches, r)
		case r.Type == "qemu" && clone.matches(r):
			at, elsewhere = "clone.node", fmt.Sprintf(". VM %d is on node %s", r.VMID, r.Node)
		}
	}
	what := clone.describe()
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		return pve.Resource{}, &FieldError{Path: at, Summary: "No VM to clone",
			Detail: clone.hint(resources) + fmt.Sprintf("There is no VM %s in the cluster, or this identity may not see it "+
				"(VM.Audit)%s%s%s", what, elsewhere, templates(resources), UntoldMayBeIt(clone.Untold(resources)))}
	}
	names := make([]string, len(matches))
	for i, m := range matches {
		names[i] = fmt.Sprintf("%d (%s, node %s)", m.VMID, m.Name, m.Node)
	}
	slices.Sort(names)
	return pve.Resource{}, &FieldError{Path: clone.Path(), Summary: "Several VMs to clone",
		Detail: fmt.Sprintf("%d VMs are %s: %s. Name one with clone.vmid or clone.node", len(matches), what,
			strings.Join(names, ", "))}
}

// hint asks whether a VM of a similar name was meant, or a template with a similar tag.
func (c *Clone) hint(resources pve.Resources) string {
	var names, tags []string
	for _, r := range resources {
		if r.Type == "qemu" {
			names = append(names, r.Name)
		}
		if r.Template {
			tags = append(tags, strings.Split(r.Tags, ";")...)
		}
	}
	if c.Name != "" {
		return nearest.Hint(c.Name, names)
	}
	for _, tag := range c.Tags {
		if tag = strings.ToLower(tag); !slices.Contains(tags, tag) {
			return nearest.Hint(tag, tags)
		}
	}
	return ""
}

// templates lists those of the cluster for a sentence, not too many.
func templates(resources pve.Resources) string {
	const most = 20
	var all []string
	for _, r := range resources {
		if r.Template && r.Type == "qemu" {
			all = append(all, fmt.Sprintf("%d (%s, node %s)", r.VMID, r.Name, r.Node))
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("and %d more", more))
	}
	return ". The templates are " + strings.Join(all, ", ")
}

// Means reports whether a guest is one that the configuration may mean.
func (c *Clone) Means(r pve.Resource) bool {
	return r.Type == "qemu" && c.matches(r) && (c.Node == "" || r.Node == c.Node)
}

func (c *Clone) matches(r pve.Resource) bool {
	switch {
	case c.VMID != 0:
		return r.VMID == c.VMID
	case c.Name != "":
		return r.Name == c.Name
	}
	return r.Template && c.isTagged(r)
}

// isTagged reports whether a guest has all the tags, if any are given. PVE stores tags in lower case unless the
// datacenter says otherwise.
func (c *Clone) isTagged(r pve.Resource) bool {
	tags := strings.Split(strings.ToLower(r.Tags), ";")
	return !slices.ContainsFunc(c.Tags, func(t string) bool { return !slices.Contains(tags, strings.ToLower(t)) })
}

// Untold are the VMs that may be meant as well, since the listing tells too little of them.
func (c *Clone) Untold(resources pve.Resources) []pve.Resource {
	if c.VMID != 0 {
		return nil
	}
	filter := pve.Filter{Name: c.Name, Node: c.Node}
	if c.Name == "" {
		filter.Template = new(true)
	}
	return slices.DeleteFunc(resources.Untold(filter, false), func(r pve.Resource) bool { return !c.isTagged(r) })
}

// WithNames is a listing with the names of VMs that may be meant and of which PVE tells too little. It lists a VM
// without name and template flag until the next round of pvestatd, about 10 s after its create (pve-manager
// API2Tools.pm, extract_vm_stats). A few are read; those of nodes that are away cannot be.
func WithNames(ctx context.Context, g *Guests, resources pve.Resources, clone *Clone) pve.Resources {
	const most = 20
	untold := slices.DeleteFunc(clone.Untold(resources), func(r pve.Resource) bool {
		node, ok := resources.Node(r.Node)
		return !ok || node.Status != "online"
	})
	resources = slices.Clone(resources)
	var reading sync.WaitGroup
	for _, r := range untold[:min(most, len(untold))] {
		at := slices.IndexFunc(resources, func(l pve.Resource) bool { return l.ID == r.ID })
		reading.Go(func() {
			if config, err := g.SourceConfig(ctx, r.Node, r.VMID); err == nil {
				r.Name, r.Template, r.Status = config["name"], config["template"] == "1", ""
				resources[at] = r
			}
		})
	}
	reading.Wait()
	return resources
}

// Path is the argument that says which VM is meant.
func (c *Clone) Path() string {
	switch {
	case c.VMID != 0:
		return "clone.vmid"
	case c.Name != "":
		return "clone.name"
	}
	return "clone.tags"
}

func (c *Clone) describe() string {
	text := "tagged " + strings.Join(c.Tags, ", ")
	switch {
	case c.VMID != 0:
		text = strconv.Itoa(c.VMID)
	case c.Name != "":
		text = fmt.Sprintf("named %q", c.Name)
	}
	if c.Node != "" {
		text += " on node " + c.Node
	}
	return text
}

// Migrates reports whether a clone that is to be on another node than its source has to be made beside the source and
// migrated. PVE clones to another node only from and to storages that the nodes share (qemu-server API2/Qemu.pm
// clone_vm, check_storage_access_clone). config is the source's. The error says why neither way works. A storage that
// the listing does not show counts as shared: PVE tells.
func (c *Clone) Migrates(resources pve.Resources, source pve.Resource, config map[string]string, node string) (bool,
	error) {
	if node == "" || node == source.Node {
		return false, nil
	}
	refuse := func(path, detail string) (bool, error) {
		return false, &FieldError{Path: path, Summary: fmt.Sprintf("VM %d cannot be cloned to node %s", source.VMID, node),
			Detail: detail}
	}
	has := func(node string) bool { _, ok := resources.Storage(node, c.Storage); return ok }
	if c.Storage != "" && has(node) && !has(source.Node) { // who sees a storage sees it on all nodes
		return refuse("clone.storage", fmt.Sprintf("The clone is made on node %s, and node %s has no storage %s. Set "+
			"clone.storage to one that both nodes have", source.Node, source.Node, c.Storage))
	}
	isLocal := func(storage string) bool {
		listed, ok := resources.Storage(source.Node, storage)
		return ok && !listed.Shared
	}
	local, medium := map[string]bool{}, ""
	for _, slot := range vm.Slots(config) {
		volume := VolumeOf(config[slot])
		storage := volid.Storage(volume)
		if _, owned := volid.Owner(volume); !owned {
			if isLocal(storage) {
				medium = volume
			}
			continue
		}
		to := cmp.Or(c.Storage, storage)
		local[to] = isLocal(to) || isLocal(storage)
	}
	maps.DeleteFunc(local, func(_ string, is bool) bool { return !is })
	if len(local) == 0 && medium == "" {
		return false, nil
	}
	if medium != "" {
		return refuse("node", fmt.Sprintf("Its medium %s is on a storage of node %s alone. Eject it there, use a shared "+
			"storage, or leave the clone on node %s", medium, source.Node, source.Node))
	}
	if !c.IsFull(source) {
		return refuse("clone.full", fmt.Sprintf("A linked clone stays where its template is, and the template has disks on "+
			"a storage of node %s alone. Set clone.full = true, or leave the clone on node %s", source.Node, source.Node))
	}
	for _, storage := range slices.Sorted(maps.Keys(local)) {
		if _, ok := resources.Storage(node, storage); !ok {
			return refuse("clone.storage", fmt.Sprintf("The clone is made on node %s and then migrated, and node %s has no "+
				"storage %s. Set clone.storage to one that both nodes have", source.Node, node, storage))
		}
	}
	return true, nil
}

// Restore names a backup that a VM is made of.
type Restore struct {
	Archive string // "local:backup/vzdump-qemu-100-….vma.zst", "pbs:backup/vm/100/…"
	Storage string // for all disks; "": those that they were on
	BWLimit *int64 // KiB/s
}

// ArchiveConfig is the configuration in a backup of a VM, less what is not restored. It is read once for some seconds.
func (g *Guests) ArchiveConfig(ctx context.Context, node, archive string) (map[string]string, error) {
	return g.sources.Get(ctx, g.clock, node+" "+archive, func(ctx context.Context) (map[string]string, error) {
		text, err := g.api.Volume(node, archive).ArchiveConfig(ctx)
		return parseArchive(text), err
	})
}

// parseArchive reads the text of a configuration as PVE keeps it (qemu-server QemuServer.pm, parse_vm_config):
// comments are the description, and what comes after the first section belongs to snapshots. Drives with backup=0 are
// not in the archive, and neither are locks, unused disks and the snapshot that the VM stood on
// (restore_update_config_line).
func parseArchive(text string) map[string]string {
	config := map[string]string{}
	var description []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \r\n")
		if strings.HasPrefix(line, "[") {
			break
		}
		if strings.HasPrefix(line, "#qmdump#") || strings.HasPrefix(line, "#vzdump#") {
			continue
		}
		if comment, ok := strings.CutPrefix(line, "#"); ok {
			if plain, err := url.PathUnescape(comment); err == nil {
				comment = plain
			}
			description = append(description, comment)
			continue
		}
		option, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		dropped := option == "lock" || option == "parent" || vm.IsUnused(option) ||
			strings.Contains(value+",", ",backup=0,")
		if ok && !dropped {
			config[option] = value
		}
	}
	if len(description) > 0 {
		config["description"] = strings.Join(description, "\n")
	}
	return config
}
