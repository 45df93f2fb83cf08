package remove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Unattached makes sure that no guest uses any of the volumes, whatever id they carry: PVE attaches a volume of another
// id without complaint, and deletes it without complaint. Every VM must be readable, else nothing is sure.
func (s *Remover) Unattached(ctx context.Context, resources pve.Resources, volumes []string) error {
	all, err := s.api.Permissions(ctx, "/vms")
	if err != nil {
		return err
	}
	if _, audits := all["/vms"]["VM.Audit"]; !audits && !s.api.Identity().IsRootTicket() {
		return errors.New("without VM.Audit on /vms it cannot be told whether another VM uses them: " + strings.Join(volumes, ", "))
	}
	for _, listed := range resources.Guests() {
		if listed.Type != "qemu" {
			continue // containers have no images
		}
		config, err := s.api.PendingConfig(ctx, listed.Node, listed.VMID)
		if pve.IsKind(err, pve.NotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read VM %d on node %s, which may use them: %w", listed.VMID, listed.Node, err)
		}
		current, merged := config.Current(), config.Merged()
		used := func(v string) bool { return guest.Uses(current, v) || guest.Uses(merged, v) }
		if n := slices.IndexFunc(volumes, used); n >= 0 {
			return fmt.Errorf("VM %d (%s) on node %s uses volume %s", listed.VMID, listed.Name, listed.Node, volumes[n])
		}
	}
	return nil
}
