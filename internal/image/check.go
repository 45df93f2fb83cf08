package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/source"
)

// Check tells at plan time what the server would certainly refuse. What it may not see it does not report.
func (s *Images) Check(ctx context.Context, spec Spec) (found []*guest.FieldError) {
	add := func(err error) bool {
		field := (*guest.FieldError)(nil)
		if errors.As(err, &field) {
			found = append(found, field)
		}
		return err != nil
	}
	resources, err := s.api.SharedResources(ctx)
	if err != nil {
		return []*guest.FieldError{{Summary: "Cannot look at the cluster", Detail: "The plan needs the list of nodes and " +
			"storages", Err: err}}
	}
	if add(guest.CheckNode(resources, spec.Node)) {
		return found
	}
	add(s.version(ctx, spec))
	add(s.privileges(ctx, spec))
	if add(storage(resources, spec)) || len(found) > 0 || s.isReplaced(spec) {
		return found
	}
	there, err := s.find(ctx, spec.Node, spec.Storage, spec.Content, spec.Volume())
	if err == nil && len(there) > 0 {
		add(spec.conflict(there))
	}
	return found
}

// Owned notes a file that a resource in state has made. Should the resource be replaced, it goes before the new one comes; the
// plan of the new one does not know of the old one.
func (s *Images) Owned(node, volume string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned[node+" "+volume] = true
}

func (s *Images) isReplaced(spec Spec) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned[spec.Node+" "+spec.Volume()]
}

// storage reports one that cannot take the file.
func storage(resources pve.Resources, spec Spec) error {
	at, ok := resources.Storage(spec.Node, spec.Storage)
	if !ok {
		return refused("storage", fmt.Sprintf("Node %s has no storage %s", spec.Node, spec.Storage),
			fmt.Sprintf("It is not there, or disabled, or this identity may not see it (Datastore.Audit). For %s content it has %s",
				spec.Content, holding(resources, spec)))
	}
	if slices.Contains(strings.Split(at.Content, ","), spec.Content) && at.PluginType != "esxi" {
		return nil
	}
	detail := fmt.Sprintf("It is of type %s and configured for %s. On node %s these are for it: %s.", at.PluginType, at.Content,
		spec.Node,
		holding(resources, spec))
	if slices.Contains([]string{"dir", "nfs", "cifs", "cephfs", "btrfs"}, at.PluginType) {
		detail += fmt.Sprintf(" To use this one, as root: `pvesm set %s --content %s,%s`", spec.Storage, at.Content, spec.Content)
	} else {
		detail += " Files can only be on storages of the types dir, nfs, cifs, cephfs and btrfs"
	}
	return refused("storage", fmt.Sprintf("Storage %s is not for %s content", spec.Storage, spec.Content), detail)
}

// holding are the storages of the node that take such files.
func holding(resources pve.Resources, spec Spec) string {
	var names []string
	for _, at := range resources.Storages(spec.Node) {
		if slices.Contains(strings.Split(at.Content, ","), spec.Content) && at.PluginType != "esxi" {
			names = append(names, at.Storage)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// feature is something that PVE has since a version. A node says of pve-manager alone which it has: one that is older than that of the
// day on which the package came out is certain to lack it.
type feature struct {
	path, what string
	manager    []int
	release    string
	instead    string
}

func (s Spec) features() []feature {
	var all []feature
	ext := s.Name[strings.LastIndexByte(s.Name, '.')+1:]
	switch {
	case s.Content == "import" && ext == "ova": // with pve-storage 8.2.8: API2/Storage/Status.pm, upload and download_url (40df25d)
		since := source.ImportContent()
		all = append(all, feature{"content", "import content", since.Manager, since.String(),
			"Use a template, or have the disk in it as an image with content = \"iso\""})
	case s.Content == "import":
		since := source.ImportImages()
		all = append(all, feature{"content", "upload and download of disk images", since.Manager, since.String(),
			"Use content = \"iso\", which import_from takes with the provider's ssh or as root@pam, or a template"})
	}
	if s.Compression != "" { // pve-storage 8.0.3: API2/Storage/Status.pm, download_url (2197ff9)
		all = append(all, feature{"compression", "decompression of downloads", []int{8, 0, 5}, "8.1", "Give the URL of a file " +
			"that is not compressed"})
	}
	return all
}

// version reports what the node is too old for.
func (s *Images) version(ctx context.Context, spec Spec) error {
	wanted := spec.features()
	if len(wanted) == 0 {
		return nil
	}
	version, err := s.api.NodeVersion(ctx, spec.Node)
	if err != nil || version.Major == 0 {
		return nil //nolint:nilerr // who cannot look does not judge
	}
	for _, f := range wanted {
		if !version.AtLeast(f.manager...) {
			return refused(f.path, fmt.Sprintf("Node %s has no %s", spec.Node, f.what),
				fmt.Sprintf("PVE has it since %s, and the node has %s. %s", f.release, version.Version, f.instead))
		}
	}
	return nil
}

// privileges reports those that the request takes and the identity has not (pve-storage API2/Storage/Status.pm upload, download_url).
func (s *Images) privileges(ctx context.Context, spec Spec) error {
	if s.api.Identity().IsRootTicket() {
		return nil
	}
	at, err := s.api.Privileges(ctx, "/storage/"+spec.Storage)
	if err == nil && !at["Datastore.AllocateTemplate"] {
		return refused("storage", fmt.Sprintf("%s may not put files onto storage %s", s.api.Identity().User, spec.Storage),
			"It takes Datastore.AllocateTemplate on /storage/"+spec.Storage)
	}
	if err != nil || spec.Source != nil {
		return nil //nolint:nilerr // who cannot look does not judge
	}
	node, err := s.api.Privileges(ctx, "/nodes/"+spec.Node)
	root, rootErr := s.api.Privileges(ctx, "/")
	if err != nil || rootErr != nil || node["Sys.AccessNetwork"] || root["Sys.Audit"] && root["Sys.Modify"] {
		return nil //nolint:nilerr // likewise
	}
	return refused("url", fmt.Sprintf("%s may not let node %s download", s.api.Identity().User, spec.Node),
		fmt.Sprintf("It takes Sys.AccessNetwork on /nodes/%s (PVE 8.2 and later), or Sys.Audit and Sys.Modify on /. Without "+
			"them the file can be "+
			"uploaded from here, with source_file", spec.Node))
}
