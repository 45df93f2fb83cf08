package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// CheckGeneration refuses to destroy disks of a VM that was restored over itself or rolled back since its state was
// read: uuid, names and sizes are what they were, and the content is another. PVE writes another generation id with
// each restore and roll-back (qemu-server QemuServer.pm restore_update_config_line, QemuConfig.pm
// __snapshot_rollback_hook). A VM without one, or whose state has none, is not judged, nor is the empty one under which
// a destroy takes volumes away, which bears a mark. touched says what was done.
func CheckGeneration(ref Ref, now pve.PendingConfig, touched string) error {
	is := func(config map[string]string) bool {
		id := config["vmgenid"]
		return !strings.Contains(id, "-") || strings.EqualFold(id, ref.Generation)
	}
	if !strings.Contains(ref.Generation, "-") || is(now.Current()) || is(now.Merged()) || // "1" and "0" are none
		ownership.IsMark(now.Current()["description"]) {
		return nil
	}
	return &FieldError{Path: "vmgenid", Summary: fmt.Sprintf("VM %d was restored or rolled back since the plan", ref.VMID),
		Detail: fmt.Sprintf("It has another generation id than the plan knows, which PVE gives a VM with each restore and "+
			"roll-back, or its generation id was set by hand. So its disks may hold data that the plan does not know of. "+
			"%s. A new plan, with a refresh, destroys them", touched)}
}

// HasItsDisks refuses to start, to clone or to roll back a VM, or to take or remove its snapshots, while a refresh of
// this process has found disks of it astray (Strays): the work would be on another's. A plan does it after the refresh;
// no note of the VM in state reaches an apply of other objects. path is the attribute that names the VM.
func HasItsDisks(ctx context.Context, g *Guests, vmid int, path string) error {
	noted, _ := g.astray.Load(vmid)
	was, _ := noted.(Astray)
	if len(was.Volumes) == 0 {
		return nil
	}
	listed, ok, err := g.api.Listing().Guest(ctx, vmid)
	if err != nil || !ok {
		return nil //nolint:nilerr // who cannot look does not judge
	}
	at, _, err := g.Find(ctx, Ref{VMID: vmid, Node: listed.Node}, nil)
	if err != nil {
		return nil //nolint:nilerr // likewise
	}
	configs := []map[string]string{at.Config.Current(), at.Config.Merged()}
	now, err := Strays(ctx, g, Ref{VMID: vmid, Astray: was}, at.Node, configs...)
	if err != nil {
		return nil //nolint:nilerr // likewise
	}
	var refused *FieldError
	if !errors.As(now.Refusal(ctx, g, at.Node, vmid, "Nothing was done"), &refused) {
		return nil
	}
	refused.Path = path
	return refused
}
