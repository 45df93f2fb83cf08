package create

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// many creates VMs at once and gives their ids, sorted.
func many(t *testing.T, n int, s *Creator, request Request) []int {
	t.Helper()
	var ids []int
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			r := request
			name := fmt.Sprintf("vm-%d", i)
			r.Spec.Name = &name
			created, err := s.Create(t.Context(), r)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if len(created.Warnings) > 0 {
				t.Errorf("%s: %v", name, created.Warnings)
			}
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, created.Guest.VMID)
		})
	}
	all.Wait()
	slices.Sort(ids)
	return ids
}

func onZFS() Request {
	size := int64(1 << 30)
	return Request{Node: "pve1", Spec: vm.Spec{Disks: map[string]vm.Disk{"scsi0": {Storage: "local-zfs", Size: &size}}}}
}

func sequence(first, n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = first + i
	}
	return ids
}

// TestCreatesOfOneProcessDoNotRace: fifty creates at once get the lowest fifty ids, none is refused, and those that
// wait for the same thing share one request for it.
// Time passes only when all of them wait, so how fast the machine is does not decide who shares an answer.
func TestCreatesOfOneProcessDoNotRace(t *testing.T) { synctest.Test(t, createsDoNotRace) }

func createsDoNotRace(t *testing.T) {
	b := benchOf(t, pvesim.Options{Clock: clock.Real{}}, token)
	b.sim.ResetOps()
	if got, want := many(t, 50, b.Creator, onZFS()), sequence(100, 50); !slices.Equal(got, want) {
		t.Errorf("got the ids %v, want %v", got, want)
	}
	counts := map[string]int{}
	for _, op := range b.sim.Ops() {
		counts[op.Method+" "+op.Path]++
	}
	if n := counts["POST /nodes/{node}/qemu"]; n != 50 {
		t.Errorf("%d requests to create fifty VMs", n)
	}
	// How many creates share a listing of the volumes depends on their order; they share everything else.
	for path, most := range map[string]int{"/cluster/resources": 1, "/cluster/nextid": 1, "/cluster/options": 1,
		"/access/permissions": 1, "/nodes/{node}/storage/{storage}/content": 50} {
		if n := counts["GET "+path]; n > most {
			t.Errorf("%d requests %s of fifty creates at once", n, path)
		}
	}
	t.Log(counts)
}

// TestCreatesTakeVMIDsFromEachOther: a create that another one of this process was quicker than takes the next VMID. It
// does not take the range for used up, which would cost a listing of the cluster.
func TestCreatesTakeVMIDsFromEachOther(t *testing.T) {
	b := newBench(t, token)
	const n = 400
	var all sync.WaitGroup
	var mu sync.Mutex
	taken := map[int]bool{}
	for range 8 {
		all.Go(func() {
			i := b.chooser(findings{node: "pve1"}, onZFS())
			for range n / 8 {
				vmid, _, ok := i.occupy(100, math.MaxInt)
				mu.Lock()
				if !ok || taken[vmid] {
					t.Errorf("VMID %d: free %v, taken by another create %v", vmid, ok, taken[vmid])
				}
				taken[vmid] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for vmid := 100; vmid < 100+n; vmid++ {
		if !taken[vmid] {
			t.Errorf("VMID %d was left out", vmid)
		}
	}
}

// TestTwoProcessesGetTheirIDs: others take ids between the look and the create; every create of both gets one in the
// end.
func TestTwoProcessesGetTheirIDs(t *testing.T) {
	b := newBench(t, token)
	other := creatorOf(t, b.sim, token)
	var theirs []int
	var all sync.WaitGroup
	all.Go(func() { theirs = many(t, 10, other, onZFS()) })
	ours := many(t, 10, b.Creator, onZFS())
	all.Wait()
	if ids := slices.Compact(slices.Sorted(slices.Values(append(ours, theirs...)))); len(ids) != 20 || ids[0] != 100 {
		t.Errorf("got %v and %v", ours, theirs)
	}
}

// TestChoiceSpreadsAfterLostRaces: a create chooses the lowest free id. After each race that it lost it chooses among
// more of the lowest, so that processes do not follow each other from id to id, and never among others.
func TestChoiceSpreadsAfterLostRaces(t *testing.T) {
	b := newBench(t, token)
	for lost, most := range []int{1, 16, 64, 256, 1024} {
		chosen := map[int]bool{}
		for range 50 {
			i := b.chooser(findings{node: "pve1"}, onZFS())
			i.taken[100], i.lost = true, lost
			vmid, done, ok := i.occupy(100, math.MaxInt)
			if !ok || vmid <= 100 || vmid > 100+most {
				t.Errorf("after %d lost races id %d was chosen, of %d from 101 on", lost, vmid, most)
			}
			chosen[vmid] = true
			done()
		}
		if few := len(chosen) == 1; few != (lost == 0) {
			t.Errorf("after %d lost races %d ids were chosen in 50 choices", lost, len(chosen))
		}
	}
}

// TestRangeWithManyTakenIDs: what the listing shows as taken costs no attempt, however much of it there is.
func TestRangeWithManyTakenIDs(t *testing.T) {
	b := newBench(t, token)
	b.change(func(w *state.World) {
		for id := 3000; id < 4500; id++ {
			w.Guests[id] = &state.Guest{VMID: id, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "theirs"}}
		}
	})
	r := onZFS()
	r.Range = [2]int{3000, 4501}
	if got := many(t, 2, b.Creator, r); !slices.Equal(got, []int{4500, 4501}) {
		t.Errorf("got %v", got)
	}
	var field *guest.FieldError
	if _, err := b.Create(t.Context(), r); !errors.As(err, &field) || field.Path != "vmid" {
		t.Errorf("the range is used up, and the create says %v", err)
	}
}

// TestIDsInUseHereAreSkipped: an id that a destroy here is at work on is free to PVE before its volumes are gone.
func TestIDsInUseHereAreSkipped(t *testing.T) {
	b := newBench(t, token)
	done := b.guests.Occupy(100)
	if got := many(t, 1, b.Creator, onZFS()); !slices.Equal(got, []int{101}) {
		t.Errorf("got %v while something is at work on 100", got)
	}
	done()
	if got := many(t, 1, b.Creator, onZFS()); !slices.Equal(got, []int{100}) {
		t.Errorf("got %v after it", got)
	}
}

// TestLeftoversAreSkipped: an id whose volumes are left over on a storage that the create writes to is not used; those
// on another storage do not matter to it.
func TestLeftoversAreSkipped(t *testing.T) {
	b := newBench(t, token)
	b.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-100-disk-0", VMID: 100, Content: "images",
			Format: "raw", Size: 1 << 30})
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-102-disk-0", VMID: 102, Content: "images",
			Format: "raw", Size: 1 << 30})
	})
	if got := many(t, 4, b.Creator, onZFS()); !slices.Equal(got, []int{100, 101, 103, 104}) {
		t.Errorf("got %v", got)
	}
}

// TestLostRacesAreSilent: an id that another run was quicker to take is nothing to warn of. The cluster's time
// is that of a bubble, which stands still while any goroutine works: no run is late because the machine had no
// processor for it.
func TestLostRacesAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
		b.sim.SetTaskTime(3 * time.Second)
		var all sync.WaitGroup
		for range 3 {
			other := creatorOf(t, b.sim, token)
			all.Go(func() { many(t, 4, other, ofTemplate()) })
		}
		many(t, 4, b.Creator, ofTemplate()) // fails with every warning
		all.Wait()
	})
}

// rival is another run of the same identity that takes the id which a create has chosen right before the create's first
// request, as many times as it is to.
type rival struct {
	*Creator
	t     *testing.T
	races int

	mu     sync.Mutex
	asked  bool // the create has asked for free ids since it lost the last race
	chosen int  // and looked at what lies under this one
	took   []int
}

var underID = regexp.MustCompile(`vmid=(\d+)$`)

// trace is told of each request of the create when it is answered.
func (r *rival) trace(ctx context.Context, _ string, request map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch path := request["path"]; {
	case strings.HasSuffix(path, "/content"):
		r.chosen, _ = strconv.Atoi(underID.FindStringSubmatch(request["params"])[1]) // digits
	case path == "/cluster/nextid":
		r.asked = true
	}
	if !r.asked || r.chosen == 0 || len(r.took) == r.races {
		return
	}
	theirs := onZFS()
	theirs.VMID = r.chosen
	if _, err := r.Create(ctx, theirs); err != nil {
		r.t.Errorf("the other run: %v", err)
	}
	r.took, r.asked, r.chosen = append(r.took, r.chosen), false, 0
}

// TestLostRacesLeaveNoGap: however often another run is quicker, a create goes on without a word and not far
// away: of the lowest 16 ids that are free, 64 after two races, 256 after three.
func TestLostRacesLeaveNoGap(t *testing.T) {
	for what, ours := range map[string]Request{"create": onZFS(), "clone": ofTemplate()} {
		for races := range 4 {
			other := &rival{t: t, races: races}
			b := newBench(t, func(c *pve.Config, cred pvesim.Credentials) {
				token(c, cred)
				c.Trace = other.trace
			})
			other.Creator = creatorOf(t, b.sim, token)
			id := many(t, 1, b.Creator, ours)[0]
			if len(other.took) != races || races > 0 && other.took[0] != 100 {
				t.Errorf("%s: the other run took %v, want %d ids", what, other.took, races)
			}
			most := 100
			if races > 0 {
				most = 100 + len(other.took) + 4<<(2*races) - 1
			}
			if id < 100 || id > most || slices.Contains(other.took, id) {
				t.Errorf("%s: got %d after %v, want one up to %d", what, id, other.took, most)
			}
			if all := b.vms(); len(all) != races+1 || all[id]["lock"] != "" ||
				strings.Contains(all[id]["description"], "Terraform") {
				t.Errorf("%s: the cluster has %v", what, all)
			}
		}
	}
}

// destroyed takes a VM out of the cluster, with its volumes.
func destroyed(w *state.World, vmid int) {
	delete(w.Guests, vmid)
	maps.DeleteFunc(w.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.VMID == vmid })
}

// TestIDsOfTheDatacentersRange: an id is chosen before PVE has said which it would give, and is given up where PVE
// gives none as low as that, or none as high.
func TestIDsOfTheDatacentersRange(t *testing.T) {
	b := newBench(t, ticket)
	b.change(func(w *state.World) { w.NextID.Lower, w.NextID.Upper = 500, 503 })
	if got := many(t, 3, b.Creator, onZFS()); !slices.Equal(got, []int{500, 501, 502}) {
		t.Errorf("got %v", got)
	}
	if created, err := b.Create(t.Context(), onZFS()); err == nil || len(b.vms()) != 3 || created.Guest.VMID != 0 {
		t.Errorf("the range is used up, and the create says %v: %v", err, b.vms())
	}
	b.change(func(w *state.World) { destroyed(w, 501) })
	b.forget()
	if _, err := b.Create(t.Context(), onZFS()); err != nil || b.vms()[501] == nil {
		t.Errorf("501 is free again, and the create says %v: %v", err, b.vms())
	}
}

// TestIDsThatAreNotSeen: ids whose VMs this identity does not see are passed over, however PVE refuses them.
func TestIDsThatAreNotSeen(t *testing.T) {
	b := newBench(t, token)
	b.change(func(w *state.World) {
		w.Roles["Blind"] = slices.DeleteFunc(slices.Clone(w.Roles["TerraformProvider"]),
			func(p string) bool { return p == "VM.Audit" })
		for _, id := range []int{100, 101, 102, 104, 105} {
			w.Guests[id] = &state.Guest{VMID: id, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "hidden"}}
			for _, who := range []string{"terraform@pve", "terraform@pve!prov"} {
				w.ACL = append(w.ACL, state.ACLEntry{Path: fmt.Sprintf("/vms/%d", id), Subject: who, Role: "Blind"})
			}
		}
	})
	if listed, err := b.api.Cluster().Resources(t.Context()); err != nil ||
		slices.ContainsFunc(listed.Guests(), func(g pve.Resource) bool { return g.VMID == 100 }) {
		t.Fatalf("VM 100 is seen: %v, %v", listed, err)
	}
	got := many(t, 3, b.Creator, onZFS())
	if slices.ContainsFunc(got, func(id int) bool { return id < 103 || id == 104 || id == 105 || id > 105+16+64 }) ||
		!slices.Contains(got, 103) {
		t.Errorf("got %v", got)
	}
	for id, config := range b.vms() {
		if !slices.Contains(got, id) && config["name"] != "hidden" {
			t.Errorf("VM %d is left: %v", id, config)
		}
	}
}

// TestFreedIDs: an id whose VM this process or another has destroyed is used again as soon as a listing shows that, and
// none that this process has used a moment ago before that.
func TestFreedIDs(t *testing.T) {
	b := newBench(t, token)
	if got := many(t, 3, b.Creator, onZFS()); !slices.Equal(got, []int{100, 101, 102}) {
		t.Fatalf("got %v", got)
	}
	b.change(func(w *state.World) { destroyed(w, 101) })
	b.api.Listing().Forget()
	if got := many(t, 2, b.Creator, onZFS()); !slices.Equal(got, []int{101, 103}) {
		t.Errorf("got %v", got)
	}
}

// TestVolumesOfAnotherRunsVMs: another run has just made VMs that the listing of a moment ago does not show.
// Their disks are not left over, and their ids are lost like any others, however many they are.
func TestVolumesOfAnotherRunsVMs(t *testing.T) {
	b := newBench(t, token)
	if _, _, err := b.api.Listing().Recent(t.Context()); err != nil { // as the plan does
		t.Fatal(err)
	}
	r := onZFS()
	r.Range = [2]int{100, 500}
	theirs := many(t, 40, creatorOf(t, b.sim, token), r)
	b.sim.ResetOps()
	ours := many(t, 3, b.Creator, r)
	for _, id := range ours {
		if slices.Contains(theirs, id) || id < 140 || id >= 140+16+64 {
			t.Errorf("got %v beside %v", ours, theirs)
		}
	}
	kinds := map[string]int{}
	for _, op := range b.sim.Ops() {
		kinds[op.Method+" "+op.Path]++
	}
	if kinds["GET /cluster/resources"] > 6 || kinds["GET /nodes/{node}/storage/{storage}/content"] > 15 {
		t.Errorf("the ids of three VMs took %v", kinds)
	}
}

// TestManyLeftovers: volumes are left over under more ids in a row than a create should to try one by one.
func TestManyLeftovers(t *testing.T) {
	b := newBench(t, token)
	b.change(func(w *state.World) {
		for vmid := 100; vmid < 140; vmid++ {
			name := fmt.Sprintf("vm-%d-disk-0", vmid)
			w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: name, VMID: vmid, Content: "images", Format: "raw",
				Size: 1 << 30})
		}
	})
	if got := many(t, 1, b.Creator, onZFS()); got[0] < 140 || got[0] >= 140+256 {
		t.Errorf("got %v", got)
	}
	r := onZFS()
	r.Range = [2]int{110, 120}
	var field *guest.FieldError
	if _, err := b.Create(t.Context(), r); !errors.As(err, &field) || field.Path != "vmid" ||
		!strings.Contains(err.Error(), "volumes left over") {
		t.Errorf("volumes are left over under the whole range, and the create says %v", err)
	}
}

// TestLastIDOfARange: an id that another run has freed since the listing is used rather than none.
func TestLastIDOfARange(t *testing.T) {
	b := newBench(t, token)
	r := onZFS()
	r.Range = [2]int{3000, 3001}
	many(t, 2, b.Creator, r)
	other := creatorOf(t, b.sim, token)
	if _, _, err := other.api.Listing().Recent(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.change(func(w *state.World) { destroyed(w, 3001) })
	if got := many(t, 1, other, r); !slices.Equal(got, []int{3001}) {
		t.Errorf("got %v", got)
	}
	var none *guest.FieldError
	if _, err := other.Create(t.Context(), r); !errors.As(err, &none) || none.Summary != "No free VMID" ||
		!strings.Contains(none.Detail, "vmid_range") {
		t.Errorf("the range is full: %v", err)
	}
}

// hidden is a range of VMIDs in which guests of others have the first n, which the token does not see.
func hidden(b bench, n int) Request {
	b.change(func(w *state.World) {
		for id := 1000; id < 1000+n; id++ {
			w.Guests[id] = &state.Guest{VMID: id, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "hidden"}}
		}
	})
	poolOnly(b)
	r := onZFS()
	r.Range, r.Pool = [2]int{1000, 5000}, "web"
	return r
}

// TestManyIDsThatAreNotSeen: guests that the identity does not see have the first few, or many, of the VMIDs of a range. Creates pass over
// them with few requests, and the later ones of a process with fewer: one of few hidden guests gets an id right above them.
func TestManyIDsThatAreNotSeen(t *testing.T) {
	for n, most := range map[int]int{3: 16, 900: 1000, 1100: 2100} {
		b := newBench(t, token)
		r := hidden(b, n)
		for i, asks := range []int{14, 13} {
			b.sim.ResetOps()
			id := many(t, 1, b.Creator, r)[0]
			asked, refused := 0, 0
			for _, op := range b.sim.Ops() {
				if op.Method+" "+op.Path == "GET /cluster/nextid" {
					asked++
				}
				if op.Method+" "+op.Path == "POST /nodes/{node}/qemu" && op.Status >= 400 {
					refused++
				}
			}
			if id < 1000+n || id > 1000+n+most || asked > asks || refused > 1-i {
				t.Errorf("%d hidden, create %d: VMID %d, asked for %d, refused %d", n, i, id, asked, refused)
			}
		}
	}
}

// TestRangeOfIDsThatAreNotSeen: one VMID of the range is free, at whichever place, and then none. The error counts those that were asked for.
func TestRangeOfIDsThatAreNotSeen(t *testing.T) {
	for _, free := range []int{1000, 1001, 1042, 1098, 1099} {
		b := newBench(t, token)
		r := hidden(b, 100)
		r.Range[1] = 1099
		b.change(func(w *state.World) { delete(w.Guests, free) })
		if got := many(t, 1, b.Creator, r); !slices.Equal(got, []int{free}) {
			t.Errorf("got %v, and %d is free", got, free)
		}
		var none *guest.FieldError
		if _, err := b.Create(t.Context(), r); !errors.As(err, &none) || none.Path != "vmid" ||
			!regexp.MustCompile("PVE refused the 9[89] that were asked for").MatchString(none.Detail) {
			t.Errorf("the range is used up, and the create says %v", err)
		}
	}
}
