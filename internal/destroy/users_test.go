package destroy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

const contested = "local-zfs:vm-300-disk-0"

// holders are the ways in which another guest may use the volume contested.
func holders() map[string]func(w *state.World) {
	other := func(typ string) *state.Guest {
		config := map[string]string{"memory": "512", "name": "theirs"}
		if typ == "lxc" {
			config = map[string]string{"memory": "512", "hostname": "theirs", "arch": "amd64"}
		}
		return &state.Guest{VMID: 600, Type: typ, Node: "pve1", Config: config}
	}
	of := func(typ string, use func(g *state.Guest)) func(w *state.World) {
		return func(w *state.World) {
			g := other(typ)
			use(g)
			w.Guests[600] = g
		}
	}
	return map[string]func(w *state.World){
		"a VM's disk":    of("qemu", func(g *state.Guest) { g.Config["scsi5"] = contested + ",size=1G" }),
		"a VM's unused":  of("qemu", func(g *state.Guest) { g.Config["unused0"] = contested }),
		"a pending disk": of("qemu", func(g *state.Guest) { g.Pending = map[string]string{"scsi5": contested + ",size=1G"} }),
		"a VM's snapshot": of("qemu", func(g *state.Guest) {
			g.Snaps = map[string]map[string]string{"one": {"scsi5": contested, "snaptime": "1"}}
		}),
		"a path":        of("qemu", func(g *state.Guest) { g.Config["scsi5"] = "/dev/zvol/rpool/data/vm-300-disk-0,size=1G" }),
		"a mount point": of("lxc", func(g *state.Guest) { g.Config["mp0"] = contested + ",mp=/data,size=1G" }),
		"a device":      of("lxc", func(g *state.Guest) { g.Config["dev0"] = "path=/dev/zvol/rpool/data/vm-300-disk-0,mode=0660" }),
		"a root disk":   of("lxc", func(g *state.Guest) { g.Config["rootfs"] = contested + ",size=1G" }),
		"a CT's unused": of("lxc", func(g *state.Guest) { g.Config["unused3"] = contested }),
		"a pending mp":  of("lxc", func(g *state.Guest) { g.Pending = map[string]string{"mp1": contested + ",mp=/x"} }),
		"a CT's snapshot": of("lxc", func(g *state.Guest) {
			g.Snaps = map[string]map[string]string{"one": {"mp0": contested + ",mp=/x", "snaptime": "1"}}
		}),
		"another VM's base": of("qemu", func(g *state.Guest) { g.Config["scsi0"] = "local-zfs:base-9000-disk-0/vm-300-disk-0,size=1G" }),
	}
}

// TestDestroySparesSharedVolumes: PVE looks at the VM's own configuration alone when it frees its volumes.
func TestDestroySparesSharedVolumes(t *testing.T) {
	for name, use := range holders() {
		r := newRig(t, asToken)
		ref := r.vm(300)
		r.change(use)
		before := string(r.sim.Snapshot())
		_, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
		if err == nil || !strings.Contains(err.Error(), " 600 ") || !strings.Contains(err.Error(), contested) {
			t.Errorf("%s: %v", name, err)
		}
		if string(r.sim.Snapshot()) != before {
			t.Errorf("%s: something was changed", name)
		}
	}
}

// TestDestroySparesAnAliasOfRBD: two storages name one pool of Ceph, one of them by the kernel's driver, and another VM
// has the disk under the other name. In another pool the same name is another image.
func TestDestroySparesAnAliasOfRBD(t *testing.T) {
	const image, alias = "ceph:vm-300-disk-0", "ceph-kernel:vm-300-disk-0"
	for pool, spared := range map[string]bool{"tank": true, "other": false} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		r.change(func(w *state.World) {
			w.Storages["ceph"] = &state.Storage{ID: "ceph", Type: "rbd", Path: "tank", Shared: true, Total: 100 << 30,
				Content: []string{"images"}}
			twin := *w.Storages["ceph"]
			twin.ID, twin.Path = "ceph-kernel", pool
			if w.Storages[twin.ID] = &twin; spared {
				twin.Same = "ceph"
			} else {
				w.Put(&state.Volume{Storage: twin.ID, Name: "vm-300-disk-0", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
			}
			w.Put(&state.Volume{Storage: "ceph", Name: "vm-300-disk-0", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
			w.Guests[300].Config["scsi0"] = image + ",size=1G"
			w.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: "pve1", Config: map[string]string{"memory": "512",
				"name": "theirs", "scsi5": alias + ",size=1G"}}
		})
		_, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
		_, kept := r.has(300, image)
		if refused := err != nil && strings.Contains(err.Error(), " 600 "); refused != spared || kept != spared ||
			!spared && err != nil {
			t.Errorf("pool %s: kept %t, %v", pool, kept, err)
		}
		if !spared {
			if _, theirs := r.has(600, alias); !theirs {
				t.Error("the image of the other pool is gone")
			}
		}
	}
}

// TestVolumesOfAContainerAreNoOrphans: a volume that carries a free id may be a container's mount point.
func TestVolumesOfAContainerAreNoOrphans(t *testing.T) {
	for name, use := range holders() {
		r := newRig(t, asToken)
		r.vm(300)
		r.change(func(w *state.World) { delete(w.Guests, 300); use(w) })
		err := r.s.ProveLeftOver(t.Context(), "pve1", 300, []string{contested})
		var inUse *guard.InUseError
		if !errors.As(err, &inUse) || inUse.Volume != contested || len(inUse.Users) != 1 {
			t.Errorf("%s: %v", name, err)
		}
		r.change(func(w *state.World) { delete(w.Guests, 600) })
		if err := r.s.ProveLeftOver(t.Context(), "pve1", 300, []string{contested}); err != nil {
			t.Errorf("no guest uses it any more: %v", err)
		}
	}
}

// TestUnseenUseIsNotNoUse: a guest that cannot be read, or may not be seen, may use the volume.
func TestUnseenUseIsNotNoUse(t *testing.T) {
	r := newRig(t, asToken)
	ref := r.vm(300)
	r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "GET", Path: "/nodes/{node}/lxc/{vmid}/pending"}, Phase: fault.Before, Status: 403, Times: -1}})
	for what, err := range map[string]error{
		"destroy": func() error { _, _, err := r.s.Delete(t.Context(), Request{Ref: ref}); return err }(),
		"in state": func() error {
			_, err := r.s.ProveInState(t.Context(), guard.InState{Node: "pve1", VMID: 300, Identities: []guest.Identity{ref.Identity}}, []string{contested})
			return err
		}(),
	} {
		if err == nil || !strings.Contains(err.Error(), "container 8100 on node pve1") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if is, kept := r.has(300, contested); !is || !kept {
		t.Error("it was destroyed all the same")
	}
	r.sim.SetFaults(nil)
	id, _, _ := strings.Cut(r.sim.Credentials().Token, "=")
	user, _, _ := strings.Cut(id, "!")
	r.change(func(w *state.World) { // of the guests it sees this one alone
		for i := range w.ACL {
			if w.ACL[i].Subject == id || w.ACL[i].Subject == user {
				w.ACL[i].Path = "/vms/300"
			}
		}
	})
	if _, err := r.s.ProveInState(t.Context(), guard.InState{Node: "pve1", VMID: 300, Identities: []guest.Identity{ref.Identity}}, []string{contested}); !errors.Is(err, volumeuse.ErrUnseen) {
		t.Errorf("who sees one guest only: %v", err)
	}
}

// TestNoEvidenceNoRequest: the zero value permits nothing.
func TestNoEvidenceNoRequest(t *testing.T) {
	r := newRig(t, asRoot)
	r.vm(300)
	shell := &shellRecord{r: r}
	r.useShell(shell)
	l, none := &request.Tasks{}, guard.Evidence{}
	_, err := r.s.RemoveVM(t.Context(), l, none, true)
	_, shutErr := r.s.ShutDownOrStop(t.Context(), l, none, 0)
	for what, err := range map[string]error{
		"delete": err, "shutdown": shutErr, "free": r.s.Free(t.Context(), l, none, contested), "unlock": r.s.TakeLock(t.Context(), none, ""),
		"stop": r.s.CutOff(t.Context(), l, none, nil), "HA": r.s.LeaveHA(t.Context(), 300, func(context.Context) (guard.Evidence, error) { return none, nil }), "shell": r.s.FreeByRoot(t.Context(), "pve1", contested, func(context.Context) (guard.Evidence, error) { return none, nil }),
	} {
		if !errors.Is(err, guard.ErrNoEvidence) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if is, kept := r.has(300, contested); !is || !kept || len(shell.calls) > 0 {
		t.Errorf("destroyed, or ran %q", shell.calls)
	}
}

// TestCostOfTheLook prints what destroys cost, alone and together, in a small and a large cluster. A look is shared
// by those who asked before it began, so that many together cost less for each.
func TestCostOfTheLook(t *testing.T) {
	for _, others := range []int{60, 300} {
		for _, count := range []int{1, 10, 50} {
			r := newRig(t, asToken)
			var refs []guest.Ref
			for i := range count {
				refs = append(refs, r.vm(1000+i))
			}
			for i := range others - count {
				r.vm(2000 + i)
			}
			r.sim.ResetOps()
			var group sync.WaitGroup
			slots := make(chan struct{}, 10) // Terraform's own parallelism
			for _, ref := range refs {
				group.Add(1)
				slots <- struct{}{}
				go func() {
					defer func() { <-slots; group.Done() }()
					if _, _, err := r.s.Delete(t.Context(), Request{Ref: ref}); err != nil {
						t.Error(err)
					}
				}()
			}
			group.Wait()
			looks := map[bool]int{}
			for _, op := range r.sim.Ops() {
				looks[isLook(op)]++
			}
			each := float64(looks[true]) / float64(count)
			t.Logf("%3d guests, %2d destroys: %4d requests, %5.1f each; to look at others %5d, %6.1f each",
				others, count, looks[false], float64(looks[false])/float64(count), looks[true], each)
			if alone := float64(2*(others+4) + 1); count == 50 && each > alone/2 {
				t.Errorf("%d guests: each of %d destroys looks %.0f times, alone it would be %.0f", others, count, each, alone)
			}
		}
	}
}

func isLook(op pvesim.Op) bool {
	return op.Method == http.MethodGet && (strings.HasSuffix(op.Path, "/pending") || strings.HasSuffix(op.Path, "/snapshot"))
}

// TestOneLookServesEarlierCallers: a look that began before a caller asked is none for that caller.
func TestOneLookServesEarlierCallers(t *testing.T) {
	r := newRig(t, asToken)
	r.vm(300)
	began := false
	var second uint64
	r.answered = func(_, path string) {
		if began || !strings.HasSuffix(path, "/cluster/resources") {
			return
		}
		began = true // the first look has its list; now a third party takes the volume, and another caller asks
		r.change(holders()["a mount point"])
		second = r.s.use.Ask()
	}
	first, err := r.s.use.Since(t.Context(), r.s.use.Ask(), "")
	if err != nil {
		t.Fatal(err)
	}
	later, err := r.s.use.Since(t.Context(), second, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(len(first.UsersOf(contested, 300)), len(later.UsersOf(contested, 300))); got != "0 1" {
		t.Errorf("users seen: %s", got)
	}
}
