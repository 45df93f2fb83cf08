package destroy

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// busyShell is an SSH to a node on which as many commands run as sshd allows: imports of disks, which take an hour.
type busyShell struct {
	shellRecord
	meanwhile func()
}

func (b *busyShell) Hold(ctx context.Context, _ string, do func(context.Context) error) error {
	b.r.sim.Advance(time.Hour)
	b.meanwhile()
	return do(ctx)
}

// asNoAllocate is an identity that PVE lets free no volume, so that it is freed over SSH.
func asNoAllocate(c *pve.Config, cred pvesim.Credentials) { c.APIToken = cred.TokenNoAllocate }

// TestBusySSHTouchesNothingOfOthers: the turn to run a command on a node comes after an hour, and a third party has
// come meanwhile. Evidence from before the wait permits nothing.
func TestBusySSHTouchesNothingOfOthers(t *testing.T) {
	const volume, image, snippet = "local-zfs:vm-400-disk-0", "local:iso/tools.iso", "local:snippets/user.yaml"
	for name, c := range map[string]struct {
		auth  func(*pve.Config, pvesim.Credentials)
		there func(*rig) // before it
		comes func(*rig) // the third party
		do    func(*rig) error
		says  string
		runs  string // without a third party
	}{
		"an orphaned volume": {auth: asNoAllocate,
			there: func(r *rig) {
				r.change(func(w *state.World) {
					w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-0", VMID: 400, Content: "images", Format: "raw", Size: 1 << 30})
				})
			},
			comes: func(r *rig) {
				r.change(func(w *state.World) { w.Guests[300].Config["scsi7"] = volume + ",size=1G" })
			},
			do: func(r *rig) error {
				return r.s.Orphans().Free(r.t.Context(), &request.Tasks{}, 400, guard.MadeFile{Node: "pve1", Volume: volume, Size: 1 << 30})
			},
			says: "is also used by VM 300", runs: "free " + volume},
		"an image": {auth: asNoAllocate,
			there: func(r *rig) {
				r.change(func(w *state.World) {
					w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "iso/tools.iso", Content: "iso", Format: "iso", Size: 1 << 20})
				})
			},
			comes: func(r *rig) {
				r.change(func(w *state.World) { w.Guests[300].Config["ide2"] = image + ",media=cdrom" })
			},
			do: func(r *rig) error {
				listed, err := r.s.Files().List(r.t.Context(), "pve1", "local", "iso")
				at := slices.IndexFunc(listed, func(v pve.Volume) bool { return v.ID == image })
				if err != nil || at < 0 {
					r.t.Fatalf("%v in %v", err, listed)
				}
				return r.s.Files().Free(r.t.Context(), &request.Tasks{}, guard.MadeFile{Node: "pve1", Volume: image, Size: listed[at].Size,
					CreatedAt: listed[at].CreatedAt})
			},
			says: "is also used by VM 300", runs: "free " + image},
		"a snippet": {auth: asToken, there: func(*rig) {},
			comes: func(r *rig) {
				r.change(func(w *state.World) { w.Guests[300].Config["cicustom"] = "user=" + snippet })
			},
			do: func(r *rig) error {
				return r.s.Files().FreeSnippet(r.t.Context(), guard.Snippet{Node: "pve1", Volume: snippet, Path: "/x/user.yaml", SHA256: "x"})
			},
			says: "is also used by VM 300", runs: "remove /x/user.yaml"},
		"a lock": {auth: asToken,
			there: func(r *rig) { r.sim.StaleLock(300, "backup", "root@pam") },
			comes: func(r *rig) {
				r.change(func(w *state.World) { w.Guests[300].SetLock("", "") })
				r.sim.HoldLock(300, "backup", time.Hour, "root@pam") // the file is the same again
			},
			do: func(r *rig) error {
				_, err := r.s.Locks().Release(r.t.Context(), guard.Unlocking{Choice: guest.Choice{VMID: 300}})
				return err
			},
			says: "too much time has passed", runs: "unlock"},
	} {
		r := newRig(t, c.auth)
		r.vm(300)
		c.there(r)
		shell := &busyShell{shellRecord{r: r}, func() { c.comes(r) }}
		r.useShell(shell)
		if err := c.do(r); err == nil || !strings.Contains(err.Error(), c.says) || len(shell.calls) > 0 {
			t.Errorf("%s: ran %q, %v", name, shell.calls, err)
		}

		alone := newRig(t, c.auth) // the command is run where there is no wait, or where no third party came
		alone.vm(300)
		c.there(alone)
		record := &shellRecord{r: alone}
		alone.useShell(record)
		if _ = c.do(alone); !slices.Equal(record.calls, []string{c.runs}) { // the record leaves files where they are
			t.Errorf("%s: alone it ran %q", name, record.calls)
		}
	}
}
