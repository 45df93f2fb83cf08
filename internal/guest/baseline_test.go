package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestOwnBaseline: what a configuration named is ours, on its storages and nowhere else.
func TestOwnBaseline(t *testing.T) {
	f := OwnBaseline("pve1", 100, []string{"bb:vm-100-disk-0", "aa:vm-100-disk-0"})
	if diff := cmp.Diff([]string{"aa", "bb"}, f.Storages); diff != "" {
		t.Error(diff)
	}
	if !f.ours("aa:vm-100-disk-0") || f.ours("aa:vm-100-disk-1") {
		t.Error("ownership goes by name")
	}
	f.Storages, f.Unlisted = []string{"bb"}, map[string]error{"aa": nil}
	if f.Own([]string{"aa:vm-100-disk-2"}); len(f.Storages) != 1 || !f.ours("aa:vm-100-disk-2") {
		t.Errorf("a storage that could not be looked at is looked at again: %v", f.Storages)
	}
}

// put puts a volume with the VM's id on a storage of pve1.
func (w *world) put(storage, name string) {
	w.change(func(all *state.World) { w.volume(all, storage, name) })
}

// newBaseline returns a baseline of the VM's id on node pve1.
func (w *world) newBaseline(s *Guests, storages ...string) *Baseline {
	w.t.Helper()
	f, err := s.NewBaseline(w.t.Context(), w.resources(), "pve1", theVM, storages)
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

func (w *world) own(f *Baseline) []string {
	w.t.Helper()
	own, err := f.OwnVolumes(w.t.Context(), w.s)
	if err != nil {
		w.t.Fatal(err)
	}
	var ids []string
	for _, v := range own {
		ids = append(ids, v.ID)
	}
	return ids
}

// TestBaseline: what was there before is not ours; what came since is, unless it has another id.
func TestBaseline(t *testing.T) {
	w := newWorld(t, nil)
	w.put("local-zfs", "vm-400-disk-0")
	w.put("local-lvm", "vm-400-disk-1")
	f := w.newBaseline(w.s, "local-zfs", "local-lvm")
	old := []string{"local-lvm:vm-400-disk-1", "local-zfs:vm-400-disk-0"}
	if diff := cmp.Diff(old, f.orphans()); diff != "" {
		t.Error(diff)
	}
	both := Baselines{f, OwnBaseline("pve2", theVM, nil)}
	if diff := cmp.Diff(old, both.Orphans()); diff != "" {
		t.Errorf("of two nodes: %s", diff)
	}
	if own := w.own(f); len(own) != 0 {
		t.Errorf("taken for ours: %v", own)
	}
	w.put("local-zfs", "vm-400-disk-5")
	w.change(func(all *state.World) {
		all.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-4000-disk-0", VMID: 4000,
			Content: "images", Format: "raw", Size: 1})
	})
	if diff := cmp.Diff([]string{"local-zfs:vm-400-disk-5"}, w.own(f)); diff != "" {
		t.Error(diff)
	}
	f.Before["local-lvm:vm-401-disk-1"] = struct{}{}
	f.Release(map[string]string{"scsi0": "local-zfs:vm-400-disk-0,size=1G", "unused0": "local-lvm:vm-401-disk-1"}, theVM)
	if diff := cmp.Diff([]string{"local-lvm:vm-400-disk-1", "local-lvm:vm-401-disk-1"}, f.orphans()); diff != "" {
		t.Errorf("a volume with another id belongs to another guest: %s", diff)
	}
	if diff := cmp.Diff([]string{"local-zfs:vm-400-disk-0", "local-zfs:vm-400-disk-5"}, w.own(f)); diff != "" {
		t.Errorf("what a configuration of ours owns is ours: %s", diff)
	}
	proof := Proof{VMID: theVM, Baselines: []BaselineRecord{f.Record()}}
	if diff := cmp.Diff(w.own(f), w.own(proof.RestoreBaselines()[0])); diff != "" {
		t.Errorf("after a while in state: %s", diff)
	}
	listing := fault.Match{Path: "/nodes/{node}/storage/{storage}/content"}
	w.sim.SetFaults([]fault.Rule{{Match: listing, Phase: fault.Before, Times: -1, Reason: "down"}})
	if _, err := f.OwnVolumes(t.Context(), w.s); err == nil || !strings.Contains(err.Error(), "list the volumes of VM 400 on local-zfs") {
		t.Errorf("a storage that cannot be listed has none: %v", err)
	}
}

// TestBaselineIsBlind: nothing is ever taken for ours where it could not be looked before, or where the identity
// would not see it.
func TestBaselineIsBlind(t *testing.T) {
	w := newWorld(t, nil)
	w.change(func(all *state.World) { all.Storages["local2"].Offline = true })
	f := w.newBaseline(w.s, "local2", "local-zfs")
	if f.Unlisted["local2"] == nil || !slices.Equal(f.Storages, []string{"local-zfs"}) {
		t.Errorf("blind on %v, sees %v", f.Unlisted, f.Storages)
	}
	w.change(func(all *state.World) { all.Storages["local2"].Offline = false })
	w.put("local2", "400/vm-400-disk-0.raw")
	if own := w.own(f); len(own) != 0 {
		t.Errorf("taken for ours: %v", own)
	}
	if notes := f.Notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "volumes on storage local2 were not looked for: ") {
		t.Errorf("%q", notes)
	}
	f.Unremoved = map[string]string{"local2:400/vm-400-disk-0.raw": "busy", "local-zfs:vm-400-disk-0": "busy"}
	if diff := cmp.Diff([]string{"local2:400/vm-400-disk-0.raw"}, w.own(f)); diff != "" {
		t.Errorf("what PVE said it could not remove counts where nothing else tells: %s", diff)
	}
	if f.HasLog = true; f.Notes() != nil {
		t.Errorf("nothing is left open: %q", f.Notes())
	}
	for _, c := range []struct {
		who  func(pvesim.Credentials) string
		sees bool
	}{{token, true}, {tokenNoAllocate, true}, {readOnlyToken, false}} {
		identity, f := w.as(c.who), w.newBaseline(w.s, "local-zfs")
		if err := f.CheckVisible(t.Context(), identity); err != nil || (len(f.Storages) == 1) != c.sees || (f.Unlisted["local-zfs"] == nil) != c.sees {
			t.Errorf("%s sees %v, is blind on %v, %v", identity.api.Identity().User, f.Storages, f.Unlisted, err)
		}
	}
}

// TestBaselinesShareAListing: those of several VMIDs that wait at a time list a storage once whose plugin lists
// everything anyway, and each sees its own volumes. Of another storage each has a listing of its own.
func TestBaselinesShareAListing(t *testing.T) {
	w := newWorld(t, nil)
	names := map[string]string{"local-zfs": "vm-%[1]d-disk-0", "local2": "%[1]d/vm-%[1]d-disk-0.raw"}
	w.change(func(all *state.World) {
		for vmid := 500; vmid < 508; vmid++ {
			for storage, name := range names {
				all.Put(&state.Volume{Storage: storage, Node: "pve1", Name: fmt.Sprintf(name, vmid), VMID: vmid,
					Content: "images", Format: "raw", Size: 1 << 30})
			}
		}
	})
	resources := w.resources()
	for storage, most := range map[string]int{"local-zfs": 2, "local2": 8} {
		w.sim.ResetOps()
		list, busy := w.s.lists.of("pve1", storage), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { // another user's listing, which began before
			_, _ = list.Get(t.Context(), func(context.Context) ([]pve.Volume, error) { <-busy; return nil, nil })
		})
		time.Sleep(20 * time.Millisecond)
		for vmid := 500; vmid < 508; vmid++ {
			wg.Go(func() {
				f, err := w.s.NewBaseline(t.Context(), resources, "pve1", vmid, []string{storage})
				if err != nil || !slices.Equal(f.orphans(), []string{storage + ":" + fmt.Sprintf(names[storage], vmid)}) {
					t.Errorf("%s, VM %d: %v, %v", storage, vmid, f.orphans(), err)
				}
			})
		}
		time.Sleep(50 * time.Millisecond) // until they wait
		close(busy)
		wg.Wait()
		if n := len(w.asked()); n > most || most == 8 && n < most {
			t.Errorf("%s: %d listings for 8 VMIDs, want %d at most", storage, n, most)
		}
		if len(list.wanted) != 0 {
			t.Errorf("%s: VMIDs without a waiting caller are waited for: %v", storage, list.wanted)
		}
	}
}

// TestListingFilter: a listing is that of one VMID where only one is waited for, however often.
func TestListingFilter(t *testing.T) {
	l := &volumeList{wanted: map[int]int{}}
	for _, step := range []struct{ vmid, n, filter int }{{100, 1, 100}, {100, 1, 100}, {200, 1, 0}, {100, -1, 0},
		{100, -1, 200}, {200, -1, 0}} {
		if l.want(step.vmid, step.n); l.filter() != step.filter {
			t.Errorf("after %+v: %d", step, l.filter())
		}
	}
}

// TestImageStorages: the listing tells them; where it shows none the node is asked.
func TestImageStorages(t *testing.T) {
	w := newWorld(t, nil)
	want := []string{"local", "local-lvm", "local-zfs", "local2", "shared-nfs"}
	resources := w.resources()
	w.sim.ResetOps()
	if got, err := w.s.ImageStorages(t.Context(), resources, "pve1"); err != nil || !slices.Equal(got, want) || len(w.asked()) != 0 {
		t.Errorf("%v, %v, after %q", got, err, w.asked())
	}
	w.change(func(all *state.World) { all.Storages["local2"].Disabled = true })
	got, err := w.s.ImageStorages(t.Context(), nil, "pve1")
	if err != nil || slices.Contains(got, "local2") || !slices.Contains(got, "local-zfs") {
		t.Errorf("%v, %v", got, err)
	}
	w.mustHaveAsked("without a listing", "/nodes/{node}/storage")
	w.sim.SetNode("pve1", false)
	if _, err := w.s.ImageStorages(t.Context(), nil, "pve1"); err == nil {
		t.Errorf("of a node that does not answer: %v", err)
	}
}

// interrupted is a context that has ended when it is asked after an answer has come.
type interrupted struct {
	context.Context
	answered func() bool
}

func (i interrupted) Err() error {
	if i.answered() {
		return context.Canceled
	}
	return nil
}

// TestBaselineInterruptedAfterTheListing: an interrupt right after the answer to a listing gave no baseline and no
// error, and the create that asked for it died of that.
func TestBaselineInterruptedAfterTheListing(t *testing.T) {
	w := newWorld(t, nil)
	resources, before := w.resources(), w.sim.LastOp()
	answered := func() bool {
		ops := w.sim.OpsAfter(before)
		return len(ops) > 0 && ops[0].Status != 0
	}
	f, err := w.s.NewBaseline(interrupted{t.Context(), answered}, resources, "pve1", theVM, []string{"local-zfs"})
	if !answered() {
		t.Fatal("nothing was asked")
	}
	if f != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("the baseline is %v, and the error %v", f, err)
	}
}
