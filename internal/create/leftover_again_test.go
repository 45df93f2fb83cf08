package create

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/kinds"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

func withoutAllocate(c *pve.Config, cred pvesim.Credentials) { c.APIToken = cred.TokenNoAllocate }

// requestOf is the create of VM 150 of a kind.
func requestOf(kind string) Request {
	k := kinds.All(theArchive)[kind]
	return named(Request{VMID: 150, Node: k.Node, Clone: k.Clone, Restore: k.Restore, Spec: k.Spec, Start: k.Start}, "web")
}

// leftBy is a create of a kind that leaves something, since a task of it dies and its lock stays.
func leftBy(t *testing.T, who func(*pve.Config, pvesim.Credentials), kind, path string, orders ...thirdparty.Order) (bench, Created) {
	t.Helper()
	b := newBench(t, who)
	b.change(kinds.World)
	b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: path}, Phase: fault.KillTask}})
	b.sim.SetThirdParties(orders)
	failed, err := b.Create(t.Context(), requestOf(kind))
	if err == nil || len(failed.Left) == 0 {
		t.Fatalf("%s: left %v: %v", kind, failed.Left, err)
	}
	b.sim.SetFaults(nil)
	return b, failed
}

// again destroys what such a create has left.
func (b bench) again(t *testing.T, who func(*pve.Config, pvesim.Credentials), failed Created) (rest []saga.Residue, said string) {
	t.Helper()
	rest, warnings, err := creatorOf(t, b.sim, who).destroyer.Delete(t.Context(), destroy.Request{
		Ref: guest.Ref{VMID: 150, Node: "pve1", Proof: failed.Proof}, Left: failed.Left})
	return rest, fmt.Sprint(warnings, err)
}

// theirs puts a third party's volume there, under the id.
func (b bench) theirs(node, name string, size int64) {
	b.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-zfs", Node: node, Name: name, VMID: 150, Content: "images", Format: "raw", Size: size, Data: "theirs"})
	})
}

// hasTheirs reports whether it is there.
func (b bench) hasTheirs() bool {
	return slices.Contains(slices.Collect(maps.Values(b.volumesOf(150))), "theirs")
}

// TestDestroyThatFailsAgain says what it has seen, not what an earlier one has: the command of a leftover that another user has by now
// destroys nothing.
func TestDestroyThatFailsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		who    func(*pve.Config, pvesim.Credentials)
		since  func(*state.World)
		id, no string
	}{
		"another user makes a VM of the id": {token, func(w *state.World) {
			w.Guests[150] = &state.Guest{VMID: 150, Type: "qemu", Node: "pve1", LockCause: "state",
				Config: map[string]string{"lock": "create", "memory": "96", "name": "theirs"}}
		}, "150", "destroy"},
		"another guest has the disk": {withoutAllocate, func(w *state.World) { w.Guests[8300].Config["scsi5"] = "local-lvm:vm-150-disk-0,size=2G" },
			"local-lvm:vm-150-disk-0", "pvesm free"},
	} {
		b, failed := leftBy(t, c.who, "scratch, firmware", "/nodes/{node}/qemu")
		b.change(c.since)
		rest, said := b.again(t, c.who, failed)
		at := slices.IndexFunc(rest, func(r saga.Residue) bool { return r.ID == c.id })
		if at < 0 || strings.Contains(rest[at].Command, c.no) {
			t.Errorf("%s: %s is not among what is left, or its command does harm: %v, %s", name, c.id, rest, said)
		}
	}
}

// TestStorageAwayAtTheLastLook: a storage is away by the time that a roll-back lists its leftovers. Those on it are named all the same,
// and only they are said to be unseen.
func TestStorageAwayAtTheLastLook(t *testing.T) {
	_, failed := leftBy(t, withoutAllocate, "scratch, firmware", "/nodes/{node}/qemu", thirdparty.Order{Act: thirdparty.StorageOffline,
		Storage: "local-lvm", ForMS: 3600_000, Before: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/storage/{storage}/content/{volume}"}})
	seen := map[string]bool{}
	for _, l := range failed.Left {
		storage, _, _ := strings.Cut(l.ID, ":")
		if unseen := strings.Contains(l.Reason, "could not be looked at, and may be gone"); l.Kind == "volume" && unseen != (storage == "local-lvm") {
			t.Errorf("%s: %s", l.ID, l.Reason)
		}
		seen[storage] = true
	}
	if !seen["local-lvm"] || !seen["local-zfs"] || !seen["local"] {
		t.Errorf("left is %v", failed.Left)
	}
}

// TestRememberedCopies: the copies of a killed migration are left, and an administrator has removed all with the commands. Another user
// has made a volume of such a name since, on either node; it stays.
func TestRememberedCopies(t *testing.T) {
	for _, node := range []string{"pve1", "pve2"} {
		b, failed := leftBy(t, withoutAllocate, "to another node", "/nodes/{node}/qemu/{vmid}/migrate")
		b.change(func(w *state.World) {
			delete(w.Guests, 150)
			maps.DeleteFunc(w.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.VMID == 150 })
		})
		b.theirs(node, "vm-150-disk-0", 5<<30)
		if _, said := b.again(t, ticket, failed); !b.hasTheirs() {
			t.Errorf("on %s: it is gone: %s", node, said)
		}
	}
}

// TestKilledCloneForAnotherNode: the clone dies on the node of its source, with a disk that the configuration does not name yet. A third
// party has made a volume of that name on the other node; it stays.
func TestKilledCloneForAnotherNode(t *testing.T) {
	for _, who := range []func(*pve.Config, pvesim.Credentials){ticket, token} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, who)
			b.change(kinds.World)
			b.sim.SetTaskTime(10 * time.Second)
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/clone"},
				Phase: fault.KillTask, DelayMS: 500}})
			go func() {
				time.Sleep(5 * time.Second)
				b.theirs("pve2", "vm-150-disk-3", 4<<20)
			}()
			if created, err := b.Create(t.Context(), requestOf("to another node")); err == nil || !b.hasTheirs() {
				t.Errorf("it is gone: %v, %v", err, created.Warnings)
			}
		})
	}
}

// TestInterruptedResumeSparesANamesake: a run is killed while its clone for pve2 is on pve1, and a third party has a volume of the name of
// the clone's disk on pve2. The next run is interrupted right after it has taken the VM over, and cannot read it for a while. The VM goes
// with its disk, and the volume stays and is named.
func TestInterruptedResumeSparesANamesake(t *testing.T) {
	for _, failures := range []int{0, 1, 3, 6} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			b.change(func(w *state.World) { delete(w.Guests[9000].Config, "protection") })
			r := ofTemplate()
			r.VMID, r.Node, r.Start = 150, "pve2", true
			b.kill(t, deadProcess(t, b.Creator), r, 8)
			var disk string
			b.change(func(w *state.World) {
				if g := w.Guests[150]; g != nil && g.Node == "pve1" && g.Config["lock"] == "" {
					disk = guest.VolumeOf(g.Config["scsi0"])
				}
			})
			_, name, found := strings.Cut(disk, ":")
			if !found {
				t.Fatal("the first run left no clone on pve1")
			}
			b.theirs("pve2", name, 7<<30)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			settings := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
				Clock: b.jobs.Clock}
			token(&settings, b.sim.Credentials())
			settings.Trace = func(_ context.Context, _ string, fields map[string]string) {
				if fields["method"] != http.MethodPut {
					return
				}
				cancel()
				var rules []fault.Rule
				for _, read := range []string{"config", "pending"} {
					rules = append(rules, fault.Rule{Match: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/qemu/{vmid}/" + read},
						Phase: fault.Before, Status: 500, Reason: "no", Times: failures})
				}
				b.sim.SetFaults(rules)
			}
			created, err := creatorWith(t, settings).Create(ctx, r)
			isNamed := strings.Contains(fmt.Sprint(created.Warnings), "Volumes with the id of VM 150 came to node pve2")
			if own := b.sim.World().Volume("pve1", disk); err == nil || own != nil || b.vms()[150] != nil || !b.hasTheirs() || !isNamed {
				t.Errorf("%d failures: theirs is there %t, the disk %v, VM %v, warnings %v: %v", failures, b.hasTheirs(), own, b.vms()[150],
					created.Warnings, err)
			}
		})
	}
}

// failsToStart is a cluster in which no guest starts, and in which a third party acts once on VM 150 after the answer to
// a request whose path has this part; and whether it has.
func failsToStart(t *testing.T, part string, act func(w *state.World, g *state.Guest)) (bench, *bool) {
	var b bench
	done := new(bool)
	b = benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, func(c *pve.Config, cred pvesim.Credentials) {
		ticket(c, cred)
		c.Trace = func(_ context.Context, _ string, fields map[string]string) {
			if b.sim == nil || *done || !strings.Contains(fields["path"], part) {
				return
			}
			b.change(func(w *state.World) {
				if g := w.Guests[150]; g != nil && g.Config["lock"] == "" {
					*done = true
					act(w, g)
				}
			})
		}
	})
	b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Task, Times: -1}})
	return b, done
}

// twoDisks is a create of VM 150 with disks of 1 and of 2 GiB.
func twoDisks() Request {
	r := onZFS()
	r.VMID, r.Start = 150, true
	r.Spec.Disks["scsi1"] = vm.Disk{Storage: "local-zfs", Size: to(int64(2 << 30))}
	return r
}

// TestBusyDiskOfARollBack: PVE cannot free a disk at once, or not at all, when the VM is rolled back. The disk goes, or
// it is among the leftovers, and nothing is in the way of the next apply.
func TestBusyDiskOfARollBack(t *testing.T) {
	t.Parallel()
	for _, times := range []int{0, 1, 2, -1} {
		synctest.Test(t, func(t *testing.T) {
			b, _ := failsToStart(t, "", func(w *state.World, _ *state.Guest) { w.Storages["local-zfs"].BusyFrees = times })
			created, err := b.Create(t.Context(), twoDisks())
			stays := times < 0
			if left := b.volumesOf(150); err == nil || (len(left) > 0) != stays || (len(created.Left) > 0) != stays || len(created.Warnings) > 0 {
				t.Errorf("busy %d times: %v are there, left %+v, %v: %v", times, left, created.Left, created.Warnings, err)
			}
			b.sim.SetFaults(nil)
			if _, err := creatorOf(t, b.sim, ticket).Create(t.Context(), twoDisks()); !stays && err != nil {
				t.Errorf("busy %d times: the next apply: %v", times, err)
			}
		})
	}
}

// TestBusyDiskOfARollBackElsewhere: another user or HA moves the VM right before it is rolled back, with its local disks,
// and PVE cannot free one where it is by then. It is among the leftovers. A disk that a third party has under the
// former name, where the VM was, stays.
func TestBusyDiskOfARollBackElsewhere(t *testing.T) {
	t.Parallel()
	const name = "local-zfs:vm-150-disk-1"
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b, done := failsToStart(t, "qmstart", func(w *state.World, g *state.Guest) {
				g.Node = "pve2"
				for key, v := range w.Volumes {
					if v.VMID == 150 && v.Node != "" {
						delete(w.Volumes, key)
						moved := *v
						moved.Node = "pve2"
						w.Put(&moved)
					}
				}
				if busy {
					w.Volume("pve2", name).Busy = "dataset is busy"
				} else {
					w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-150-disk-1", VMID: 150, Content: "images", Format: "raw", Size: 5 << 30, Data: "theirs"})
				}
			})
			created, err := b.Create(t.Context(), twoDisks())
			isNamed := slices.ContainsFunc(created.Left, func(l saga.Residue) bool {
				return l.ID == name && l.Node == "pve2" && l.Size == 2<<30
			})
			if err == nil || !*done || isNamed != busy || b.hasTheirs() == busy {
				t.Errorf("busy %t: %v are there, left %+v: %v", busy, b.volumesOf(150), created.Left, err)
			}
		})
	}
}

// TestRefreshPrintsNoCommandThatFreesAnothersVolume: an administrator has removed what a failed create left, with the
// printed commands. Another user's VM has the id by now, and disks of those names: of another size, and of the same one on
// a storage that tells no time. No printed command destroys them, by a refresh after a refresh, too.
func TestRefreshPrintsNoCommandThatFreesAnothersVolume(t *testing.T) {
	t.Parallel()
	const disk = "local-zfs:vm-150-disk-0"
	b, failed := leftBy(t, withoutAllocate, "scratch, firmware", "/nodes/{node}/qemu")
	at := slices.IndexFunc(failed.Left, func(l saga.Residue) bool { return l.ID == disk })
	if at < 0 {
		t.Fatalf("%s was not left: %v", disk, failed.Left)
	}
	for size, command := range map[int64]string{
		77 << 30:             "pvesm list local-zfs --vmid 150",
		failed.Left[at].Size: "grep -rF -- " + disk + " /etc/pve/nodes; [ $? = 1 ] && pvesm free " + disk,
	} {
		b.change(func(w *state.World) {
			maps.DeleteFunc(w.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.VMID == 150 })
			w.Guests[150] = &state.Guest{VMID: 150, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "theirs",
				"smbios1": "uuid=11111111-2222-3333-4444-000000000150", "meta": "ctime=2", "scsi0": disk}}
		})
		b.theirs("pve1", "vm-150-disk-0", size)
		for name, who := range map[string]func(*pve.Config, pvesim.Credentials){"token": withoutAllocate, "ticket": ticket} {
			left := failed.Left
			for range 2 {
				var err error
				left, err = creatorOf(t, b.sim, who).destroyer.Recheck(t.Context(), guest.Ref{VMID: 150, Node: "pve1",
					Proof: failed.Proof}, left)
				if err != nil || len(left) != 1 || left[0].ID != disk || left[0].Command != command {
					t.Errorf("%s, %d bytes: left %+v: %v", name, size, left, err)
				}
			}
		}
	}
}

// TestLeftoverOfAnUndoWithoutTime: the time is over while the undo takes the VMID again for a busy disk. It is still its own.
func TestLeftoverOfAnUndoWithoutTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
		b.change(kinds.World)
		b.sim.SetTaskTime(3 * time.Minute)
		b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"},
			Phase: fault.Before, Status: 500, Reason: "no", Times: -1}})
		b.change(func(w *state.World) {
			for _, s := range w.Storages {
				s.BusyFrees = 2
			}
		})
		created, err := b.Create(t.Context(), requestOf("scratch, firmware"))
		if len(created.Left) != 1 || !strings.HasPrefix(created.Left[0].Command, "pvesm free") ||
			strings.Contains(created.Left[0].Reason, "another user") {
			t.Errorf("left %+v: %v", created.Left, err)
		}
	})
}

// TestRefreshOfALeftoverAsksNoNodeThatIsOff: PVE would wait for its answer at each refresh.
func TestRefreshOfALeftoverAsksNoNodeThatIsOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, token)
	r := onZFS()
	r.VMID, r.OnFailure = 150, Keep
	b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"},
		Phase: fault.Before, Status: 500, Reason: "no", Times: -1}})
	created, _ := b.Create(t.Context(), r)
	b.change(func(w *state.World) { w.Nodes["pve2"].Online = false })
	c := creatorOf(t, b.sim, token)
	b.sim.ResetOps()
	if _, err := c.guests.UsesOf(t.Context(), created.Proof, "pve1"); err != nil {
		t.Error(err)
	}
	for _, op := range b.sim.Ops() {
		if strings.Contains(fmt.Sprintf("%+v", op), "pve2") {
			t.Errorf("%+v", op)
		}
	}
}

// TestLeftoverThatHARecovered: the node is lost before the commit, and HA brings the VM to another one without its local
// disk, whose name is another's there. The next apply names the VM and leaves it.
func TestLeftoverThatHARecovered(t *testing.T) {
	for _, off := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, ticket)
			b.theirs("pve2", "vm-150-disk-0", 1<<30)
			b.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.NodeCrash, Node: "pve1",
				Before: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}}})
			failed, err := b.Create(t.Context(), startedVM())
			if err == nil || failed.Proof == nil {
				t.Fatalf("the create leaves %v: %v", failed.Left, err)
			}
			b.change(func(w *state.World) {
				w.Nodes["pve1"].Online = !off
				w.Guests[150].Node, w.Guests[150].Running = "pve2", nil
			})
			time.Sleep(10 * time.Minute)
			rest, said := b.again(t, ticket, failed)
			is, _ := b.left()
			if named := fmt.Sprint(rest); is == "" || !b.hasTheirsOn("pve2") || !strings.Contains(named, "on node pve") {
				t.Errorf("node off %t: the VM stands %t, another's volume %t: %v, %s", off, is != "", b.hasTheirsOn("pve2"), rest, said)
			}
		})
	}
}
