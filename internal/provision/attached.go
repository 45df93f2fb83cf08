package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// unattached makes sure that no guest uses any of the volumes, whatever id they carry: PVE attaches a volume of another
// id without complaint, and deletes it without complaint. Every VM must be readable, else nothing is sure.
func (s *Service) unattached(ctx context.Context, resources pve.Resources, volumes []string) error {
	all, err := s.api.Permissions(ctx, "/vms")
	if err != nil {
		return err
	}
	if _, audits := all["/vms"]["VM.Audit"]; !audits && !s.api.Identity().IsRootTicket() {
		return errors.New("without VM.Audit on /vms it cannot be told whether another VM uses them: " + strings.Join(volumes, ", "))
	}
	for _, guest := range resources.Guests() {
		if guest.Type != "qemu" {
			continue // containers have no images
		}
		config, err := s.api.PendingConfig(ctx, guest.Node, guest.VMID)
		if pve.IsKind(err, pve.NotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read VM %d on node %s, which may use them: %w", guest.VMID, guest.Node, err)
		}
		current, merged := config.Current(), config.Merged()
		used := func(v string) bool { return uses(current, v) || uses(merged, v) }
		if n := slices.IndexFunc(volumes, used); n >= 0 {
			return fmt.Errorf("VM %d (%s) on node %s uses volume %s", guest.VMID, guest.Name, guest.Node, volumes[n])
		}
	}
	return nil
}
