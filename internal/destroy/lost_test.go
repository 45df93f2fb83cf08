package destroy

import (
	"context"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// lostFree is an SSH whose connection dies in `pvesm free`. Its worker goes on, as a task of root's.
type lostFree struct {
	shellRecord
	worker *state.Task
}

func (l *lostFree) FreeVolume(context.Context, string, string) error {
	l.calls = append(l.calls, "free")
	l.r.change(func(w *state.World) { l.worker.Start, w.Tasks[l.worker.UPID] = w.Clock.Now(), l.worker })
	return &pve.Error{Op: "free", Kind: pve.Ambiguous, Message: "the connection was lost"}
}

// TestSSHFreeIsAwaited: the worker of a `pvesm free` whose connection was lost goes on, and its end is awaited, so that
// the look for its effect comes after that. The tasks of other volumes are not waited for.
func TestSSHFreeIsAwaited(t *testing.T) {
	for id, waits := range map[string]bool{"300@local-zfs": true, "301@local-zfs": false, "300@local-lvm": false} {
		r := newRig(t, asToken)
		worker := &state.Task{UPID: "UPID:pve1:00001111:00002222:65000000:imgdel:" + id + ":root@pam:", Node: "pve1", Type: "imgdel",
			ID: id, User: "root@pam", Running: true}
		shell := &lostFree{shellRecord{r: r}, worker}
		r.useShell(shell)
		const volume = "local-zfs:vm-300-disk-0"
		r.change(func(w *state.World) {
			w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-0", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
		})
		e, err := r.s.Prove(t.Context(), guard.Claim{Node: "pve1", VMID: 300, NoGuest: true, Volumes: []string{volume}})
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		r.answered = func(_, path string) {
			if strings.Contains(path, "imgdel") {
				asked++
				r.change(func(*state.World) { worker.Running, worker.ExitStatus = false, "OK" })
			}
		}
		prove := func(context.Context) (guard.Evidence, error) { return e, nil }
		if err := r.s.FreeByRoot(t.Context(), "pve1", volume, prove); !pve.IsKind(err, pve.Ambiguous) || len(shell.calls) != 1 {
			t.Errorf("%s: %v, %v", id, err, shell.calls)
		}
		if waits != (asked > 1) {
			t.Errorf("%s: its status was asked %d times", id, asked)
		}
	}
}
