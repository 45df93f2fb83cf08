package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

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
	BackupGone(ctx context.Context, node, archive string) bool
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
		if s.Backup != "" && server.BackupGone(ctx, s.Node, s.Backup) {
			refuse(fmt.Sprintf("The new VM is made of the backup %s, and a replacement destroys the old VM first. The storage "+
				"does not list that backup any more.", s.Backup))
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
