package diskimport

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Sources checks what disks are made from, in one cluster.
type Sources struct {
	api   pve.Reader
	shell Shell
}

// Shell reaches nodes as root, which package ssh does over SSH.
type Shell interface {
	Reach(ctx context.Context, node string) error
}

// New makes Sources. shell is nil without SSH.
func New(api pve.Reader, shell Shell) *Sources { return &Sources{api: api, shell: shell} }

// Named is a source in a configuration.
type Named struct {
	Path   string // of the attribute
	Volume string
	Work   string // the storage on which it is unpacked; "" = its own
	Loose  bool   // the guest whose disk it is may be on another node by then

	owner pve.Resource // the guest whose disk it is, if that is looked for and listed
}

func (s *Sources) identity() Identity {
	return Identity{RootTicket: s.api.Identity().IsRootTicket(), SSH: s.shell != nil || s.api.Identity().PlanOnly}
}

// isElsewhere reports whether a disk belongs to a listed guest that is not on the node (qemu-server API2/Qemu.pm,
// $import_from_volid: "owner VM … not on local node").
func (n *Named) isElsewhere(resources pve.Resources, node string) bool {
	id, _ := volid.Owner(n.Volume)
	owner, listed := resources.Guest(id)
	n.owner = owner
	return !n.Loose && listed && owner.Node != "" && owner.Node != node
}

// Check refuses a source from which PVE, or this provider with this identity, certainly makes no disk on the node. It
// is nil if it does, or if that cannot be told. It makes no request unless something is wrong, except for the
// privileges of a disk on an ESXi host.
func (s *Sources) Check(ctx context.Context, resources pve.Resources, node string, n Named) *guest.FieldError {
	storage, listed := resources.Storage(node, volid.Storage(n.Volume))
	kind := KindOf(n.Volume, storage.PluginType)
	row := RowOf(kind)
	switch {
	case kind == Appliance:
		return s.refuse(ctx, node, n, storage, isAppliance)
	case kind == Other:
		return s.refuse(ctx, node, n, storage, isOther)
	case kind == ISO:
		return s.checkISO(ctx, node, n, storage)
	case kind == Disk && n.isElsewhere(resources, node):
		return s.refuse(ctx, node, n, storage, isElsewhere)
	case kind == Disk || !listed || kind != ESXi && holds(storage, "import"):
	case s.isTooOld(ctx, node, row.Since):
		when := tooOld
		if kind == ESXi {
			when = tooOldESXi
		}
		return s.refuse(ctx, node, n, storage, when)
	}
	switch {
	case kind == ESXi && strings.Contains(n.Volume, ","):
		return s.refuse(ctx, node, n, storage, commaESXi)
	case kind == ESXi && !s.mayAllocate(ctx, storage.Storage):
		return s.refuse(ctx, node, n, storage, mayNotESXi)
	}
	if kind == Member && !canUnpack(resources, node, n) {
		return s.refuse(ctx, node, n, storage, noUnpacking)
	}
	return nil
}

func (s *Sources) checkISO(ctx context.Context, node string, n Named, storage pve.Resource) *guest.FieldError {
	switch {
	case RowOf(ISO).Way(s.identity()) == NoWay && s.isTooOld(ctx, node, ImportContent()):
		return s.refuse(ctx, node, n, storage, isISOOld)
	case RowOf(ISO).Way(s.identity()) == NoWay:
		return s.refuse(ctx, node, n, storage, isISO)
	case strings.Contains(n.Volume, ","):
		return s.refuse(ctx, node, n, storage, hasComma)
	case RowOf(ISO).Way(s.identity()) == BySSH && s.shell != nil:
		return Reach(ctx, s.shell, node, n.Path)
	}
	return nil
}

// Reach refuses a plan whose apply needs SSH to a node that cannot be reached.
func Reach(ctx context.Context, shell Shell, node, path string) *guest.FieldError {
	if err := shell.Reach(ctx, node); err != nil && ctx.Err() == nil {
		return &guest.FieldError{Path: path, Summary: "Node " + node + " cannot be reached over SSH",
			Detail: "The apply needs that", Err: err}
	}
	return nil
}

// canUnpack reports whether a disk of an OVA can be unpacked (qemu-server API2/Qemu.pm, check_storage_access), or
// whether that is unknown since the storage is not listed.
func canUnpack(resources pve.Resources, node string, n Named) bool {
	storage, listed := resources.Storage(node, n.working())
	return !listed || holds(storage, "images") &&
		slices.Contains([]string{"dir", "nfs", "cifs", "cephfs", "btrfs", "glusterfs"}, storage.PluginType)
}

// mayAllocate reports whether this identity may allocate on a storage, or whether that cannot be told.
func (s *Sources) mayAllocate(ctx context.Context, storage string) bool {
	held, err := s.api.Access().Privileges(ctx, "/storage/"+storage)
	return s.identity().RootTicket || s.api.Identity().PlanOnly || err != nil || held["Datastore.Allocate"]
}

// contentOf is the content type that a volume's name begins with.
func contentOf(volume string) string {
	_, name, _ := strings.Cut(volume, ":")
	content, _, _ := strings.Cut(name, "/")
	return content
}

func (n Named) working() string {
	if n.Work != "" {
		return n.Work
	}
	return volid.Storage(n.Volume)
}

func holds(storage pve.Resource, content string) bool {
	return slices.Contains(strings.Split(storage.Content, ","), content)
}

// isTooOld reports whether a node is known to be older than a release.
func (s *Sources) isTooOld(ctx context.Context, node string, since Release) bool {
	version, err := s.api.Node(node).Version(ctx)
	return err == nil && version.Major > 0 && !version.AtLeast(since.Manager...)
}

// withImport is the content of a storage of ISO files, with import content added.
func withImport(storage pve.Resource) string {
	content := cmp.Or(storage.Content, "iso")
	if holds(storage, "import") {
		return content
	}
	return content + ",import"
}

func (s *Sources) refuse(ctx context.Context, node string, n Named, storage pve.Resource,
	when string) *guest.FieldError {
	all := Refusals()
	said := all[slices.IndexFunc(all, func(r Refusal) bool { return r.When == when })]
	version := ""
	if strings.Contains(said.Detail, "{version}") {
		if v, err := s.api.Node(node).Version(ctx); err == nil {
			version = v.Version
		}
	}
	storageID, content := volid.Storage(n.Volume), withImport(storage)
	command := shell.Command("pvesm set {} --content {}", storageID, content)
	fill := strings.NewReplacer(widening, shell.Or(command, "add the content type to the storage"), "{volume}", n.Volume,
		"{storage}", storageID, "{node}", node, "{version}", version,
		"{content}", content, "{type}", contentOf(n.Volume), "{working}", n.working(),
		"{owner}", strconv.Itoa(n.owner.VMID), "{there}", n.owner.Node)
	return &guest.FieldError{Path: n.Path, Summary: fill.Replace(said.Summary), Detail: fill.Replace(said.Detail)}
}

// Resolve replaces volumes that PVE takes by path only by the paths of their files, in the disks that has lacks. It
// refuses what the identity has no way for: the plan may not have known it.
func (s *Sources) Resolve(ctx context.Context, node string, has, spec vm.Spec) (vm.Spec, error) {
	disks := maps.Clone(spec.Disks)
	for _, slot := range slices.Sorted(maps.Keys(disks)) {
		d := disks[slot]
		if _, there := has.Disks[slot]; there || d.Volume != "" {
			continue
		}
		var err error
		if d.ImportFrom, err = s.resolve(ctx, node, "disks."+slot, d.ImportFrom); err != nil {
			return spec, err
		}
		disks[slot] = d
	}
	spec.Disks = disks
	var err error
	if d := spec.EFIDisk; d != nil && d.Volume == "" && has.EFIDisk == nil {
		efi := *d
		if efi.ImportFrom, err = s.resolve(ctx, node, "efi_disk", d.ImportFrom); err != nil {
			return spec, err
		}
		spec.EFIDisk = &efi
	}
	if d := spec.TPMState; d != nil && d.Volume == "" && has.TPMState == nil {
		tpm := *d
		if tpm.ImportFrom, err = s.resolve(ctx, node, "tpm_state", d.ImportFrom); err != nil {
			return spec, err
		}
		spec.TPMState = &tpm
	}
	return spec, nil
}

// resolve returns the path of a file of ISO content, and anything else as it is.
func (s *Sources) resolve(ctx context.Context, node, at string, source *string) (*string, error) {
	if source == nil || KindOf(*source, "") != ISO {
		return source, nil
	}
	n := Named{Path: at + ".import_from", Volume: *source}
	if refused := s.checkISO(ctx, node, n, pve.Resource{}); refused != nil {
		return nil, refused
	}
	path, err := s.api.Volume(node, *source).Path(ctx)
	switch {
	case err != nil:
		return nil, &guest.FieldError{Path: n.Path, Summary: "Cannot look at " + *source,
			Detail: fmt.Sprintf("PVE takes the file by its path on node %s, which is not known", node), Err: err}
	case !strings.HasPrefix(path, "/") || strings.ContainsAny(path, ",\n"):
		return nil, &guest.FieldError{Path: n.Path, Summary: *source + " cannot be imported",
			Detail: fmt.Sprintf("PVE takes no path with a comma, and the storage says that it is at %q on node %s", path, node)}
	}
	return &path, nil
}
