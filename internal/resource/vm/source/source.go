// Package source judges what a new VM is copied of: a volume, or another VM, that the same plan may destroy, change or
// move before the copy is made.
package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Source is what a new VM is copied of: a volume, or another VM.
type Source struct {
	At     string       // the attribute that names it
	Volume string       `json:",omitempty"`
	Clone  *guest.Clone `json:",omitempty"`
	Found  int          `json:",omitempty"` // the VM that the plan found for Clone; 0 if it found none
	Values string       `json:",omitempty"` // a hash of its configuration, if the plan promises the values of the copy
	Backup string       `json:",omitempty"` // the archive that is restored, on Node
	Node   string       `json:",omitempty"`
	Filled bool         `json:"-"` // the disk that it is for is there, so nothing is copied
}

// Of are those of a VM, as far as they are known and may go with a VM.
func Of(m model.Model) []Source {
	var all []Source
	add := func(at string, volume *string) {
		if _, owned := volid.Owner(model.Value(volume)); owned {
			all = append(all, Source{At: at + ".import_from", Volume: *volume})
		}
	}
	for _, slot := range model.SortedSlots(m.Disks) {
		add("disks."+slot, m.Disks[slot].ImportFrom)
	}
	if m.EFIDisk != nil {
		add("efi_disk", m.EFIDisk.ImportFrom)
	}
	if m.TPMState != nil {
		add("tpm_state", m.TPMState.ImportFrom)
	}
	if c := m.Clone.Request(); c != nil && (c.VMID != 0 || c.Name != "" || len(c.Tags) > 0) {
		all = append(all, Source{At: c.Path(), Clone: c})
	}
	return all
}

// Listed is a VM in state as PVE's listing has it.
func Listed(m model.Model) pve.Resource {
	return pve.Resource{Type: "qemu", VMID: int(model.Value(m.VMID)), Node: model.Value(m.Node),
		Name: model.Value(m.Name), Tags: strings.Join(m.AllTags(), ";"), Template: model.Value(m.Template)}
}

// goesWith reports whether a source is gone once a VM is destroyed. A volume that carries the id of the VM counts under
// any name: the disk may have moved since.
func (s Source) goesWith(leaves pve.Resource) bool {
	if s.Clone == nil {
		owner, owned := volid.Owner(s.Volume)
		return owned && owner == leaves.VMID
	}
	return s.Clone.Means(leaves)
}

// WarnOwn warns of the replacement of a VM by a copy of itself, or of a disk of it, and refuses it where the new VM is
// to have the id of this one.
func WarnOwn(config model.Configuration, prior, planned model.Model) (diags diag.Diagnostics) {
	for _, s := range Of(planned) {
		if !s.goesWith(Listed(prior)) {
			continue
		}
		at, _ := model.Locator{}.Attribute(s.At)
		if config.IsSet("vmid") && int64(config.Number("vmid")) == model.Value(prior.VMID) {
			diags.AddAttributeError(at, "Cannot replace "+prior.Thing(), s.why(prior)+
				": nothing would be left to copy. "+copyFirst(prior))
			continue
		}
		diags.AddAttributeWarning(at, prior.Thing()+" is replaced by a copy of itself", s.why(prior)+
			", unless create_before_destroy is set. Without that the apply refuses to destroy the VM, and leaves it as "+
			"it is. "+copyFirst(prior))
	}
	return diags
}

// why says that a source goes with a VM.
func (s Source) why(m model.Model) string {
	what := "this VM"
	if s.Volume != "" {
		what = s.Volume + ", which goes with this VM"
	}
	return fmt.Sprintf("%s names %s, and a replacement destroys VM %d before the new VM is made", s.At, what,
		model.Value(m.VMID))
}

// copyFirst is how a copy is made before its source is destroyed.
func copyFirst(m model.Model) string {
	return fmt.Sprintf("Let the copy be made first: with lifecycle { create_before_destroy = true }, and with another "+
		"vmid than %d, or none. Or in two applies: in the first a resource of its own makes the copy, while this one stays "+
		"as it is; in the second this one leaves the configuration.", model.Value(m.VMID))
}

// Noted are the sources of a new VM, as its plan notes them for the destroy that begins the replacement.
const Noted kit.Note[[]Source] = model.KeySources

// IsReplaced reports whether a destroy makes room for a new VM: there is a note, though it may name nothing.
func IsReplaced(ctx context.Context, private kit.PrivateReader) bool {
	all, _ := Noted.Read(ctx, private) // RefuseOwn tells why not
	return all != nil
}

// RefuseOwn refuses the destroy that begins the replacement of a VM by a copy of itself, or of a disk of it.
func RefuseOwn(ctx context.Context, private kit.PrivateReader, prior model.Model) diag.Diagnostics {
	all, diags := Noted.Read(ctx, private)
	for _, s := range all {
		if s.goesWith(Listed(prior)) {
			at, _ := model.Locator{}.Attribute(s.At)
			diags.AddAttributeError(at, "Cannot replace "+prior.Thing(), s.why(prior)+
				": nothing would be left to copy. Nothing was touched. "+copyFirst(prior))
		}
	}
	return diags
}

// Server is asked for the sources once more.
type Server interface {
	CloneSource(ctx context.Context, clone *guest.Clone) (guest.Source, error)
	BackupLost(ctx context.Context, node, archive string) string
}

// RefuseLost refuses the destroy that begins a replacement by a copy which cannot come. The backup is gone, or the VM
// to clone was found by the plan and cannot be read any more. Or that is another VM by now, or has other values,
// although the plan promised those: Terraform plans the new VM once more after the destroy, and no plan may differ from
// the first.
func RefuseLost(ctx context.Context, private kit.PrivateReader, prior model.Model,
	server Server) (diags diag.Diagnostics) {
	all, _ := Noted.Read(ctx, private) // RefuseOwn tells why not
	for _, s := range all {
		at, _ := model.Locator{}.Attribute(s.At)
		refuse := func(why string) {
			diags.AddAttributeError(at, "Cannot replace "+prior.Thing(), why+" Nothing was touched. Next step: plan again, "+
				"and apply the new plan.")
		}
		if s.Backup != "" {
			if why := server.BackupLost(ctx, s.Node, s.Backup); why != "" {
				refuse(fmt.Sprintf("The new VM is made of the backup %s, and a replacement destroys the old VM first. %s",
					s.Backup, why))
			}
		}
		if s.Clone == nil || s.Found == 0 {
			continue
		}
		found, err := server.CloneSource(ctx, s.Clone)
		switch {
		case err != nil:
			refuse(fmt.Sprintf("The new VM is a clone of VM %d, and a replacement destroys the old VM first. By now the source "+
				"cannot be read: %v.", s.Found, err))
		case s.Values == "":
		case found.Listed.VMID != s.Found:
			refuse(fmt.Sprintf("The plan is of a clone of VM %d, and by now %s names VM %d. Terraform makes no other VM than "+
				"the planned one, and a replacement destroys the old VM first.", s.Found, s.At, found.Listed.VMID))
		case ValuesOf(ctx, found, s.Clone) != s.Values:
			refuse(fmt.Sprintf("The plan is of a clone of VM %d as it was then, and its configuration was changed since. "+
				"Terraform makes no other VM than the planned one, and a replacement destroys the old VM first.", s.Found))
		}
	}
	return diags
}

// ValuesOf is a hash of the values that a clone has from its source; "" where they cannot be told.
func ValuesOf(ctx context.Context, source guest.Source, how *guest.Clone) string {
	copied, diags := model.SchemaValues().CloneOf(ctx, source, how)
	if diags.HasError() {
		return ""
	}
	hash := sha256.Sum256([]byte(copied.String()))
	return hex.EncodeToString(hash[:])
}
