package volumeuse

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// trace follows the log of the cluster. PVE writes there each change of a virtual machine's options before it is made,
// by whatever way it comes (qemu-server 9.2.6 API2/Qemu.pm update_vm_api), and the beginning and the end of each task
// (pve-common RESTEnvironment.pm fork_worker). It writes nothing there of a change of a container's options
// (pve-container API2/LXC/Config.pm update_vm), nor does an administrator who edits a file.
type trace struct {
	mu    sync.Mutex
	last  map[string]bool // the entries of the last look
	from  uint64          // the place in the order since which nothing of the log was missed; 0: it is not seen
	named map[int]time.Time
}

// settling is how long after an entry the change may still come: PVE waits for storages in between.
const settling = 15 * time.Second

// follow takes in what the log says now. began is the place in the order before it was read. own tells the tasks of
// this process, about which all is known.
func (t *trace) follow(entries []pve.LogEntry, began uint64, now time.Time, own func(task pve.UPID, vmid int) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	newest, known, seen := int64(0), false, make(map[string]bool, len(entries))
	for _, e := range entries {
		newest = max(newest, e.Time)
		known = known || t.last[e.ID]
		seen[e.ID] = true
	}
	first := t.from == 0 || !known // or what lies between has been dropped from the log
	if first {
		t.from = began
	}
	if t.named == nil {
		t.named = map[int]time.Time{}
	}
	for _, e := range entries {
		if t.last[e.ID] || first && time.Duration(newest-e.Time)*time.Second > settling {
			continue
		}
		for _, vmid := range namedIn(e.Message, own) {
			t.named[vmid] = now
		}
	}
	t.last = seen
}

// lose notes that the log cannot be followed.
func (t *trace) lose() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.from = nil, 0
}

// covers reports whether any change of a guest since it was read would be in the log, and read by now.
func (t *trace) covers(k *kept) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.from != 0 && k.place > t.from && k.Guest.Type == "qemu"
}

// names reports whether the log names a guest of which what was read may be from before that change.
func (t *trace) names(k *kept) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.named[k.Guest.VMID]
	return ok && k.began.Before(at.Add(settling))
}

// namedIn are the ids of guests that a message of the log may name: every number, and of a task that for which it is.
func namedIn(message string, own func(task pve.UPID, vmid int) bool) []int {
	var all []int
	for _, word := range strings.Fields(message) {
		if upid := pve.UPID(word); strings.HasPrefix(word, "UPID:") && upid.Valid() {
			if vmid, err := strconv.Atoi(upid.ID()); err == nil && !own(upid, vmid) {
				all = append(all, vmid)
			}
			continue
		}
		for _, digits := range strings.FieldsFunc(word, func(r rune) bool { return r < '0' || r > '9' }) {
			if vmid, err := strconv.Atoi(digits); err == nil {
				all = append(all, vmid)
			}
		}
	}
	return all
}

// isOwn reports whether a task is one of this process, or about a guest that this process removes.
func (s *Reader) isOwn(task pve.UPID, vmid int) bool { return s.isGoing(vmid) || s.jobs.IsKnown(task) }

// readLog has the trace follow the log, if this identity sees all of it (pve-manager API2/Cluster.pm log). It is no
// error if that cannot be: then no change is known that came meanwhile.
func (s *Reader) readLog(ctx context.Context, asked uint64, sees bool) {
	if !sees {
		s.trace.lose()
		return
	}
	_, _ = s.logs.Since(ctx, asked, func(ctx context.Context) (struct{}, error) {
		began := s.order.Next()
		entries, err := s.api.Cluster().Log(ctx)
		if err != nil {
			s.trace.lose()
			return struct{}{}, err
		}
		s.trace.follow(entries, began, s.clock.Now(), s.isOwn)
		return struct{}{}, nil
	})
}
