package file

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/diskimport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// Check returns what the server would certainly refuse at apply, and doubts. It reports nothing that it cannot look up.
func (f *Files) Check(ctx context.Context, spec Spec) (found, doubts []*guest.FieldError) {
	add := func(err error) bool {
		field := (*guest.FieldError)(nil)
		if errors.As(err, &field) {
			found = append(found, field)
		}
		return err != nil
	}
	planOnly := f.api.Identity().PlanOnly
	if spec.Content == Snippets && f.shell == nil && !planOnly {
		add(errNoSSH())
		return found, nil
	}
	resources, err := f.api.Listing().Shared(ctx)
	if err != nil {
		return []*guest.FieldError{{Summary: "Cannot look at the cluster", Detail: "This needs the list of nodes and " +
			"storages", Err: err}}, nil
	}
	if add(guest.CheckNode(resources, spec.Node)) {
		return found, nil
	}
	if spec.Content == Snippets && planOnly {
		add(storage(resources, spec))
		return found, nil
	}
	if spec.Content == Snippets {
		if err := diskimport.Reach(ctx, f.shell, spec.Node, "node"); err != nil {
			return append(found, err), nil
		}
		if f.isReplaced(ctx, spec) { // the file has the old content until then, and the create looks for other
			_, err := f.locate(ctx, spec)
			add(err)
			return found, nil
		}
		add((&writing{Files: f, spec: spec}).look(ctx))
		return found, nil
	}
	found, doubts = spec.checkFormat()
	add(f.version(ctx, spec))
	if slices.ContainsFunc(found, func(f *guest.FieldError) bool { return f.Path == "content" }) { // no storage helps
		return found, doubts
	}
	if add(storage(resources, spec)) || len(found) > 0 || f.isReplaced(ctx, spec) {
		return found, doubts
	}
	refused, others := f.checkExisting(ctx, spec)
	return refused, append(doubts, others...)
}

// checkExisting refuses a file of the name that is there. Of an upload that a third party's task writes it only warns:
// the file may be whole when that task has ended. Where there is none, it asks about the address of a download.
func (f *Files) checkExisting(ctx context.Context, spec Spec) (found, doubts []*guest.FieldError) {
	there, err := f.find(ctx, spec.Node, spec.Storage, spec.Content, spec.Volume())
	conflict := (*guest.FieldError)(nil)
	if err == nil && len(there) == 0 {
		return f.checkAddress(ctx, spec)
	}
	if err != nil || !errors.As(spec.conflict(there), &conflict) {
		return nil, nil
	}
	if spec.Source == nil {
		return []*guest.FieldError{conflict}, nil
	}
	rivals, err := (&transfer{Files: f, spec: spec}).rivals(ctx)
	writes := slices.IndexFunc(rivals, func(r rival) bool { return r.told })
	if err != nil || writes < 0 {
		return []*guest.FieldError{conflict}, nil
	}
	upid := rivals[writes].UPID
	return nil, []*guest.FieldError{{Path: conflict.Path,
		Summary: fmt.Sprintf("Another run puts %s onto node %s now", spec.Volume(), spec.Node),
		Detail: fmt.Sprintf("Task %s of %s writes the file. The create waits for its end, and uses the file if it is whole "+
			"then", upid, upid.User())}}
}

// storage refuses a storage that cannot take the file.
func storage(resources pve.Resources, spec Spec) error {
	at, ok := resources.Storage(spec.Node, spec.Storage)
	if !ok {
		return refused("storage", fmt.Sprintf("Node %s has no storage %s", spec.Node, spec.Storage),
			fmt.Sprintf("It is not there, or disabled, or this identity may not see it (Datastore.Audit). For %s content it "+
				"has %s",
				spec.Content, holding(resources, spec)))
	}
	if slices.Contains(strings.Split(at.Content, ","), spec.Content) && at.PluginType != "esxi" {
		return nil
	}
	detail := fmt.Sprintf("It is of type %s and configured for %s. On node %s these are for it: %s.", at.PluginType,
		at.Content,
		spec.Node, holding(resources, spec))
	if slices.Contains([]string{"dir", "nfs", "cifs", "cephfs", "btrfs"}, at.PluginType) {
		detail += " To use this one, as root: " + widening(spec.Storage, append(strings.Split(at.Content, ","), spec.Content))
	} else {
		detail += " Files can only be on storages of the types dir, nfs, cifs, cephfs and btrfs"
	}
	return refused("storage", fmt.Sprintf("Storage %s is not for %s content", spec.Storage, spec.Content), detail)
}

// holding returns the storages of the node that take such files, or "none".
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

// feature is an ability of PVE that came with a version. A node reports the version of pve-manager only. If that is
// older than the pve-manager of the day on which the feature's own package was released, the node certainly lacks the
// feature.
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
	// with pve-storage 8.2.8: API2/Storage/Status.pm, upload and download_url (40df25d)
	case s.Content == "import" && ext == "ova":
		since := diskimport.ImportContent()
		all = append(all, feature{"content", "import content", since.Manager, since.String(),
			"Use a template, or have the disk in it as an image with content = \"iso\""})
	case s.Content == "import":
		since := diskimport.ImportImages()
		all = append(all, feature{"content", "upload and download of disk images", since.Manager, since.String(),
			"Use content = \"iso\", which import_from takes with the provider's ssh or as root@pam, or a template"})
	}
	if s.Compression != "" { // pve-storage 8.0.3: API2/Storage/Status.pm, download_url (2197ff9)
		all = append(all, feature{"compression", "decompression of downloads", []int{8, 0, 5}, "8.1",
			"Give the URL of a file that is not compressed"})
	}
	return all
}

// IsBeforeAccessNetwork reports whether a node certainly has no Sys.AccessNetwork: pve-access-control 8.1.2 has it
// (AccessControl.pm, 36c1814).
func (f *Files) IsBeforeAccessNetwork(ctx context.Context, node string) bool {
	version, err := f.api.Node(node).Version(ctx)
	return err == nil && version.Major > 0 && !version.AtLeast(8, 1, 4)
}

// version refuses what the node is too old for.
func (f *Files) version(ctx context.Context, spec Spec) error {
	wanted := spec.features()
	if len(wanted) == 0 {
		return nil
	}
	version, err := f.api.Node(spec.Node).Version(ctx)
	if err != nil || version.Major == 0 {
		return nil //nolint:nilerr // without an answer there is no verdict
	}
	for _, w := range wanted {
		if !version.AtLeast(w.manager...) {
			return refused(w.path, fmt.Sprintf("Node %s has no %s", spec.Node, w.what),
				fmt.Sprintf("PVE has it since %s, and the node has %s. %s", w.release, version.Version, w.instead))
		}
	}
	return nil
}

// widening is the command that has a storage take contents, in a sentence.
func widening(storage string, contents []string) string {
	return shell.Or(shell.Command("pvesm set {} --content {}", storage, strings.Join(contents, ",")),
		"add the content type to the storage")
}
