package destroy_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestLeftoverThatAnotherRunCompleted: a create fails and cannot take its VM back, so the state has it, tainted. A run with
// another state completes that very VM, and its disk gets data. The first state replaces its leftover, without a refresh
// and with one: the other one's VM stays. Without such a run the leftover goes.
func TestLeftoverThatAnotherRunCompleted(t *testing.T) {
	t.Parallel()
	configs := map[string]string{"disk": rig.DiskBlock(rig.SmallDisk),
		"VM": strings.Replace(rig.VMBlock("node = \"pve1\"\nname = \"x\"\n"+rig.OneDisk), "{\n", "{\nvmid = 300\n", 1)}
	for what, config := range configs {
		for _, completed := range []bool{false, true} {
			for _, refreshed := range []bool{false, true} {
				name := what
				if completed {
					name += ", completed by another run"
				}
				if refreshed {
					name += ", refreshed before"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					replaceLeftover(t, config, completed, refreshed)
				})
			}
		}
	}
}

func replaceLeftover(t *testing.T, config string, completed, refreshed bool) {
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, config)
	w.Sim.SetFaults([]fault.Rule{
		{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.Before, Status: 500,
			Reason: "no", Times: -1},
		{Match: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}, Phase: fault.Before, Status: 500,
			Reason: "not now", Times: -1}})
	if err := s.Run(t.Context()); err == nil || len(s.Addresses()) != 1 {
		t.Fatal("the create has left nothing:", err)
	}
	w.Sim.SetFaults(nil)
	if refreshed {
		rig.Must(t, s.Refresh(t.Context()))
	}
	if !completed {
		rig.Must(t, s.Converge(t.Context()))
		rig.Must(t, s.Destroy(t.Context()))
		if left := rig.TracesOf(w, 300); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		return
	}
	rig.Must(t, w.Session(t, rig.TokenNoSSH, config).Converge(t.Context()))
	const data = "the other state's data"
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.VMID == 300 {
				v.Data = data
			}
		}
	})
	unrefreshed, err := s.Plan(t.Context(), terraformtest.WithoutRefresh())
	if err == nil {
		err = s.Apply(t.Context(), unrefreshed)
	}
	if is := rig.DataOf(w, "vm-300-disk-0"); is != data {
		t.Fatalf("without a refresh: the other state's disk has %q: %v", is, err)
	}
	err = s.Run(t.Context())
	if is := rig.DataOf(w, "vm-300-disk-0"); is != data {
		t.Errorf("the other state's disk has %q: %v", is, err)
	}
}

// TestLeftoverThatAnotherUserWorksWith: a create fails and cannot take its VM back. Another user starts the VM. Where a
// plan has named that the apply replaces the VM; where it came after the plan, or no refresh was made, it is left, and
// the next plan names it, and prints no command that destroys it. A start by the own identity and a backup are no such
// use, a snapshot is.
func TestLeftoverThatAnotherUserWorksWith(t *testing.T) {
	t.Parallel()
	const start, named, refused = "/nodes/pve1/qemu/300/status/start", "Others have worked with VM 300", "which no plan has named"
	root := func(path, params string) func(*testing.T, *rig.World) {
		return func(t *testing.T, w *rig.World) { rig.RunTask(t, w, path, params) }
	}
	own := func(t *testing.T, w *rig.World) {
		w.Change(func(world *state.World) {
			for _, task := range world.Tasks {
				if task.Type == "qmcreate" {
					again := *task
					again.Type, again.UPID = "qmstart", strings.Replace(task.UPID, "qmcreate", "qmstart", 1)
					world.Tasks[again.UPID] = &again
					break
				}
			}
			world.Guests[300].Running = &state.Running{}
		})
	}
	stopped := func(t *testing.T, w *rig.World) {
		rig.RunTask(t, w, "/nodes/pve1/vzdump", "vmid=300&storage=local&mode=stop")
		w.Change(func(world *state.World) { // what its worker begins (qemu-server VZDump/QemuServer.pm stop_vm, start_vm)
			for _, dump := range maps.Clone(world.Tasks) {
				for _, typ := range []string{"qmshutdown", "qmstart"} {
					if task := *dump; dump.Type == "vzdump" {
						task.UPID = strings.NewReplacer("vzdump", typ, dump.User, "root@pam").Replace(dump.UPID)
						task.Type, task.User = typ, "root@pam"
						world.Tasks[task.UPID] = &task
					}
				}
			}
		})
	}
	for name, c := range map[string]struct {
		before, between func(*testing.T, *rig.World)
		blind           bool // no refresh between the use and the destroy
		leaves          bool // the configuration: the plan is made before the refresh
		named, refused  bool
	}{
		"not used":                       {},
		"started before the plan":        {before: root(start, ""), named: true},
		"started after the plan":         {between: root(start, ""), refused: true},
		"started, without a refresh":     {before: root(start, ""), blind: true, named: true},
		"started, and it leaves":         {before: root(start, ""), leaves: true, named: true},
		"started before and after":       {before: root(start, ""), between: root("/nodes/pve1/qemu/300/status/reset", ""), named: true, refused: true},
		"snapshot after the plan":        {between: root("/nodes/pve1/qemu/300/snapshot", "snapname=mine"), refused: true},
		"snapshot before the plan":       {before: root("/nodes/pve1/qemu/300/snapshot", "snapname=mine"), named: true},
		"started by the own identity":    {between: own},
		"a backup after the plan":        {between: root("/nodes/pve1/vzdump", "vmid=300&storage=local")},
		"the own start before a plan":    {before: own},
		"a backup that stops it, after":  {between: stopped},
		"a backup that stops it, before": {before: stopped},
		"a backup before the refresh":    {before: root("/nodes/pve1/vzdump", "vmid=300&storage=local")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := leftover(t, leftovers["VM"].was)
			w.ExpectPowerOffs(state.PowerStop, state.PowerReset)
			uuid := rig.GuestOf(w, 300).Config["smbios1"]
			rig.Must(t, s.Refresh(t.Context()))
			if c.before != nil {
				c.before(t, w)
			}
			if c.leaves {
				w.Reconfigure(t, s, rig.TokenNoSSH, "")
			}
			var options []terraformtest.PlanOption
			if c.blind {
				options = append(options, terraformtest.WithoutRefresh(), terraformtest.ToDestroy())
			}
			plan, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			if said := s.Diagnostics(); strings.Contains(fmt.Sprint(said), named) != c.named {
				t.Errorf("named %t: %v", c.named, said)
			} else if prints := strings.Contains(fmt.Sprint(said), "qm destroy 300"); prints == (c.named || c.blind) {
				t.Errorf("prints the command that destroys the VM %t: %v", prints, said)
			}
			if c.between != nil {
				c.between(t, w)
			}
			err = s.Apply(t.Context(), plan)
			isThere := rig.GuestOf(w, 300).Config["smbios1"] == uuid
			if isThere != c.refused || (err != nil) != c.refused || c.refused && !strings.Contains(err.Error(), refused) {
				t.Fatalf("there %t: %v", isThere, err)
			}
			if c.refused {
				rig.Must(t, s.Converge(t.Context()))
			}
		})
	}
}

// TestSnapshotOfALeftoverIsNamedOrKept: a user takes a snapshot of the VM that a failed create has left. The identity may not see the tasks
// of others, but it sees the snapshot: a plan names that, or the destroy leaves the VM and the next plan names it.
func TestSnapshotOfALeftoverIsNamedOrKept(t *testing.T) {
	t.Parallel()
	const named, refused = "it has snapshots, which go with it: theirs", "which no plan has named"
	for what, c := range leftovers {
		for _, between := range []bool{false, true} {
			for _, all := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, since the plan %t, destroy of all %t", what, between, all), func(t *testing.T) {
					t.Parallel()
					w, s := leftover(t, c.was)
					if what == "VM" { // without it the destroy of a disk is refused
						w.Change(withoutAudit)
					}
					rig.Must(t, s.Refresh(t.Context()))
					uuid := rig.GuestOf(w, 300).Config["smbios1"]
					take := func() { rig.RunTask(t, w, "/nodes/pve1/qemu/300/snapshot", "snapname=theirs") }
					if !between {
						take()
					}
					if all {
						w.Reconfigure(t, s, rig.TokenNoSSH, "")
					}
					plan, err := s.Plan(t.Context())
					rig.Must(t, err)
					if said := fmt.Sprint(s.Diagnostics()); strings.Contains(said, named) == between {
						t.Error("the plan says", said)
					}
					if between {
						take()
						rig.MustSay(t, s.Apply(t.Context(), plan), refused, "theirs")
						if rig.GuestOf(w, 300).Config["smbios1"] != uuid {
							t.Fatal("the VM went with the snapshot")
						}
						plan, err = s.Plan(t.Context())
						rig.Must(t, err)
						wantSaid(t, "the next plan", fmt.Sprint(s.Diagnostics()), []string{named}, nil)
					}
					rig.Must(t, s.Apply(t.Context(), plan))
				})
			}
		}
	}
}

// TestLeftoverWithAStartThatNoListShows: the lists show a clone of the leftover, and its guest runs since by a start that none shows. A plan
// names both, and its apply destroys the VM.
func TestLeftoverWithAStartThatNoListShows(t *testing.T) {
	t.Parallel()
	w, s := leftover(t, rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\n"+rig.Stopped+rig.OneDisk))
	w.ExpectPowerOffs(state.PowerStop, state.PowerReset)
	rig.Must(t, s.Refresh(t.Context()))
	w.Change(func(world *state.World) {
		for _, task := range world.Tasks {
			if task.Type == "qmcreate" {
				clone := *task
				clone.Type, clone.UPID = "qmclone", strings.Replace(task.UPID, "qmcreate", "qmclone", 1)
				world.Tasks[clone.UPID] = &clone
				break
			}
		}
	})
	w.Sim.Advance(time.Minute)
	rig.RunTask(t, w, "/nodes/pve1/qemu/300/status/start", "")
	w.Change(func(world *state.World) {
		for upid, task := range world.Tasks {
			if task.Type == "qmstart" {
				delete(world.Tasks, upid)
			}
		}
	})
	w.Sim.Advance(time.Minute)
	plan, err := s.Plan(t.Context())
	rig.Must(t, err)
	wantSaid(t, "the plan", fmt.Sprint(s.Diagnostics()), []string{"qmclone", "no task that can be seen"}, nil)
	rig.Must(t, s.Apply(t.Context(), plan))
}
