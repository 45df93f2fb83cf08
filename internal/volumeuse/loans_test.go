package volumeuse

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestNoLoanWhileTheDiskMoves: another run or an administrator moves a held disk, or migrates the VM that holds it. PVE frees
// the old volume at the end, also if a guest has attached it since.
func TestNoLoanWhileTheDiskMoves(t *testing.T) {
	const user = "root@pam"
	for name, c := range map[string]struct {
		happens func(w *world)
		refused string
	}{
		"nothing happens":                   {happens: func(*world) {}},
		"it is locked":                      {func(w *world) { w.sim.HoldLock(300, "migrate", time.Hour, user) }, "locked (migrate)"},
		"a backup leaves it out":            {happens: func(w *world) { w.sim.HoldLock(300, "backup", time.Hour, user) }},
		"a snapshot leaves it in its place": {happens: func(w *world) { w.sim.HoldLock(300, "snapshot", time.Hour, user) }},
		"a task without a lock": {func(w *world) {
			upid := w.sim.HoldLock(300, "migrate", time.Hour, user)
			w.change(func(all *state.World) {
				delete(all.Guests[300].Config, "lock")
				state.Log(all, "pve1", user, "starting task %s", upid)
			})
		}, "is being changed by task UPID"},
		"a task that has died": {happens: func(w *world) {
			w.change(func(all *state.World) {
				state.Log(all, "pve1", user, "starting task UPID:pve1:00000001:00000001:00000005:qmmove:300:root@pam:")
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.disk()
			w.vm(300, "pve1", wanted)
			w.change(func(all *state.World) {
				all.Guests[300].Config = map[string]string{"memory": "16", vm.HolderSlot: wanted + ",backup=0,size=1G",
					"description": vm.HolderDescription("")}
			})
			c.happens(w)
			err := NewLoans(w.s).MayBorrow(t.Context(), w.s.Ask(), "pve1", 302, wanted)
			var taken *BorrowedError
			if c.refused == "" && err != nil || c.refused != "" && (!errors.As(err, &taken) || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("%v, want %q", err, c.refused)
			}
		})
	}
}
