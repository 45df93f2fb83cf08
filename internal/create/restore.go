package create

import (
	"context"
	"maps"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// restore claims the id with the VM in the archive. The description is the stamp from the moment on in which PVE writes the
// configuration, when the data is there; before that it writes one that says nothing (qemu-server QemuServer.pm, restore_vma_archive,
// restore_merge_config). The VM is no template and not protected until it is whole, whatever the archive says.
func (c *creation) restore(ctx context.Context) error {
	params := pve.Params{"vmid": strconv.Itoa(c.vmid), "archive": c.r.Restore.Archive, "unique": "1", "description": c.mark()}
	optional := map[string]string{"storage": c.r.Restore.Storage, "pool": c.r.Pool}
	if c.r.Spec.Name != nil {
		optional["name"] = *c.r.Spec.Name
	}
	if c.r.Restore.BWLimit != nil {
		optional["bwlimit"] = strconv.FormatInt(*c.r.Restore.BWLimit, 10)
	}
	for _, option := range []string{"template", "protection"} {
		if c.from.config[option] == "1" {
			optional[option] = "0"
		}
	}
	maps.DeleteFunc(optional, func(_, value string) bool { return value == "" })
	maps.Copy(params, optional)
	c.unprotected = c.from.config["protection"] == "1"
	err := c.sendFirst(ctx, job.Request{Node: c.node, Type: "qmrestore", ID: c.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return c.sendWithUUID(ctx, params, c.from.config["smbios1"])
		}})
	if err != nil {
		return err
	}
	return c.refuseAdopted(ctx)
}

// refuseAdopted refuses a VM that PVE has given volumes which the archive has not: somebody left them under the id meanwhile, or this
// identity could not see them, and they would be destroyed with the VM.
func (c *creation) refuseAdopted(ctx context.Context) error {
	config, err := c.readConfig(ctx)
	if err != nil {
		return err
	}
	if foreign := remove.Adopted(c.vmid, config.Values); len(foreign) > 0 {
		return &guest.FieldError{Path: "vmid", Summary: "PVE has given the restored VM volumes that are not in the backup",
			Detail: "They carry its id, were there before the restore ended, and PVE made them unused disks of the VM: " +
				strings.Join(foreign, ", ") + ". They may be somebody's"}
	}
	return nil
}
