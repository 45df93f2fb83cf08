package contention_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// recycle destroys the VM in state and makes another under its id, as a person at the console would.
func recycle(w *rig.World) {
	w.Change(func(world *state.World) {
		config := maps.Clone(world.Guests[400].Config)
		config["name"], config["smbios1"], config["description"] = "the third party's", "uuid="+rig.OtherUUID, "precious"
		config["meta"] = "creation-qemu=9.0.2,ctime=1750000000"
		world.Guests[400] = &state.Guest{VMID: 400, Type: "qemu", Node: "pve1", Config: config}
		for _, v := range world.Volumes {
			if v.VMID == 400 {
				v.Data = "the third party's data"
			}
		}
	})
	w.Mark()
}

// TestGuard: a VM that was destroyed, and another made under its id, between apply and plan, update and destroy.
func TestGuard(t *testing.T) {
	t.Parallel()
	changed := strings.Replace(rig.GuardedVM, "1024", "2048", 1)
	steps := map[string]func(*testing.T, *rig.World, *terraformtest.Session) error{
		"plan": func(t *testing.T, w *rig.World, s *terraformtest.Session) error {
			recycle(w)
			_, err := s.Plan(t.Context())
			return err
		},
		"update": func(t *testing.T, w *rig.World, s *terraformtest.Session) error {
			w.Reconfigure(t, s, rig.TokenNoSSH, changed)
			pl, err := s.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			recycle(w)
			return s.Apply(t.Context(), pl)
		},
		"update without refresh": func(t *testing.T, w *rig.World, s *terraformtest.Session) error {
			recycle(w)
			w.Reconfigure(t, s, rig.TokenNoSSH, changed)
			pl, err := s.Plan(t.Context(), terraformtest.WithoutRefresh())
			if err != nil {
				t.Fatal(err)
			}
			return s.Apply(t.Context(), pl)
		},
		"destroy": func(t *testing.T, w *rig.World, s *terraformtest.Session) error {
			pl, err := s.Plan(t.Context(), terraformtest.ToDestroy())
			if err != nil {
				t.Fatal(err)
			}
			recycle(w)
			return s.Apply(t.Context(), pl)
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.GuardedVM)
			if err := s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := step(t, w, s)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range []string{rig.OtherUUID, "state rm", "import"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q:\n%v", want, err)
				}
			}
			w.MustBeClean(t)
			if diff := cmp.Diff([]string{"proxmox_vm.mine"}, s.Addresses()); diff != "" {
				t.Errorf("state: %s", diff)
			}
		})
	}
}

// TestAGoneVMIsPlannedAgain: a VM that is proven to be gone leaves the state; a VM that the identity cannot look for stays.
func TestAGoneVMIsPlannedAgain(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.GuardedVM)
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		delete(world.Guests, 400)
		maps.DeleteFunc(world.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.VMID == 400 })
		world.Nodes["pve2"].Online = false
	})
	w.Sim.Advance(20e9)
	pl, err := s.Plan(t.Context())
	if err != nil || !pl.Empty() {
		t.Errorf("with a node offline the VM may be there: want an empty plan, got %v\n%v", pl, err)
	}
	w.Change(func(world *state.World) { world.Nodes["pve2"].Online = true })
	w.Sim.Advance(20e9)
	pl, err = s.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := pl.Change("proxmox_vm.mine"); c == nil || c.Action != terraformtest.Create {
		t.Errorf("want a create, got:\n%s", pl)
	}
}

// TestUUIDThatWaitedForARestart: a third party starts a VM that was off between the plan that changes its uuid and the apply, so that it waits, and
// then restarts it by hand. It is still the VM in state: its plan is empty, it is changed, and destroyed.
func TestUUIDThatWaitedForARestart(t *testing.T) {
	t.Parallel()
	config := func(uuid, description, policy string) string {
		return strings.Replace(rig.GuardedVM, "1024 }", "1024 }\n  shutdown_timeout = \"5s\"\n  timeouts = { update = \"1m\" }\n  smbios = { uuid = \""+
			uuid+"\" }\n  description = \""+description+"\"\n  reboot_policy = \""+policy+"\"", 1)
	}
	const old, next = "22222222-2222-3333-4444-555555555555", "33333333-2222-3333-4444-555555555555"
	for _, policy := range []string{"never", "auto"} { // neither restarts a guest that was started since the plan
		t.Run(policy, func(t *testing.T) {
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, config(old, "first", policy))
			if err := s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Change(func(world *state.World) { world.Guests[400].Running = nil })
			w.Reconfigure(t, s, rig.TokenNoSSH, config(next, "first", policy))
			pl, err := s.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w.Change(func(world *state.World) {
				g := world.Guests[400]
				g.Running = &state.Running{QMPStatus: "running", PID: 77, StartedAt: world.Clock.Now(), Booted: maps.Clone(g.Config)}
				g.Ignores = []string{"shutdown"}
			})
			if err := s.Apply(t.Context(), pl); err != nil {
				t.Fatal(err)
			}
			w.Change(func(world *state.World) {
				g := world.Guests[400]
				if !strings.Contains(g.Pending["smbios1"], next) || !strings.Contains(g.Config["smbios1"], old) {
					t.Errorf("%v is in force, and %v waits", g.Config, g.Pending)
				}
				maps.Copy(g.Config, g.Pending)
				g.Running.PID, g.Pending, g.Ignores = 78, nil, nil
			})
			for _, description := range []string{"first", "second"} {
				w.Reconfigure(t, s, rig.TokenNoSSH, config(next, description, policy))
				if err := s.Converge(t.Context()); err != nil {
					t.Fatalf("%s: %v", description, err)
				}
			}
			if err := s.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.MustBeClean(t)
		})
	}
}

// TestAnotherHostWithTheSameNodes: the endpoint leads to another cluster whose nodes have the same names, and which has no VM of that id.
// That looks like a VM that was removed, but for the tasks: the plan says so before an apply makes the VM there. Of a VM that was
// removed here nothing of that is said.
func TestAnotherHostWithTheSameNodes(t *testing.T) {
	t.Parallel()
	for what, here := range map[string]bool{"another host": false, "removed here": true} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.TokenNoSSH, rig.GuardedVM)
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Change(func(world *state.World) {
			delete(world.Guests, 400)
			maps.DeleteFunc(world.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.VMID == 400 })
			if !here {
				clear(world.Tasks)
			}
		})
		w.Sim.Advance(20e9)
		pl, err := s.Plan(t.Context())
		said := fmt.Sprint(s.Diagnostics())
		if c := pl.Change("proxmox_vm.mine"); err != nil || c == nil || c.Action != terraformtest.Create ||
			strings.Contains(said, "is not in this cluster") == here {
			t.Errorf("%s: %v; %v; it says %s", what, err, pl, said)
		}
	}
}

// TestAnotherClusterBehindTheEndpoint: the endpoint leads to a cluster whose node has another name. A VM there with the id of the one in
// state is a third party's, and nothing adopts it. Where the id is free, too, the plan says both ways in which the node may be missing.
func TestAnotherClusterBehindTheEndpoint(t *testing.T) {
	t.Parallel()
	other := rig.NewWorld(t, pvesim.Options{Nodes: []string{"solo"}})
	empty := other.Sim.Snapshot()
	rig.Must(t, other.Session(t, rig.TokenNoSSH, strings.ReplaceAll(rig.GuardedVM, "pve1", "solo")).Run(t.Context()))
	taken := other.Sim.Snapshot()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.GuardedVM)
	rig.Must(t, s.Run(t.Context()))

	endpoint := w.Sim.Endpoint()
	rig.Must(t, w.Sim.Load(taken))
	w.Sim.Advance(20e9)
	_, err := s.Plan(t.Context())
	rig.MustSay(t, err, "The state has VM 400 on node pve1, and this one is on node solo, so the endpoint "+endpoint+" may be that",
		"Otherwise a third party removed")
	if err != nil && strings.Contains(err.Error(), "import") {
		t.Errorf("it tells to adopt a third party's VM: %v", err)
	}

	rig.Must(t, w.Sim.Load(empty))
	w.Sim.Advance(20e9)
	pl, err := s.Plan(t.Context())
	said := fmt.Sprint(s.Diagnostics())
	if err != nil || !pl.Empty() || !strings.Contains(said, "this cluster has the nodes solo, and no node pve1") ||
		!strings.Contains(said, "another cluster") || !strings.Contains(said, "was removed from the cluster") || strings.Contains(said, "bring the node") {
		t.Errorf("%v; %v; it says %s", err, pl, said)
	}
}

// TestAnotherClusterIsSaidOfEachObject: the endpoint leads to another cluster with the same node names. An object in state is not there, and
// the plan that makes it there says so.
func TestAnotherClusterIsSaidOfEachObject(t *testing.T) {
	t.Parallel()
	file := "node = \"pve1\"\nstorage = \"local\"\nname = \"web.yaml\"\n"
	for typ, c := range map[string]struct {
		who  rig.Identity
		body string
	}{
		"proxmox_snippet":        {rig.TokenSSH, file + "content = \"#cloud-config\\n\""},
		"proxmox_cloud_init_iso": {rig.TokenNoSSH, file + "user_data = \"#cloud-config\\n\""},
		"proxmox_ha_rule": {rig.RootTicket, "rule = \"here\"\ntype = \"node-affinity\"\nresources = [\"vm:8000\"]\n" +
			"nodes = { pve1 = 1 }"},
		"proxmox_disk": {rig.TokenNoSSH, "vmid = 600\nnode = \"pve1\"\n" + rig.SmallDisk},
	} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
			w.Change(func(w *state.World) { w.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored"} })
			other := w.Sim.Snapshot()
			s := w.Session(t, c.who, "resource \""+typ+"\" \"x\" {\n"+c.body+"\n}\n")
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			if said := fmt.Sprint(s.Diagnostics()); strings.Contains(said, "is not in this cluster") {
				t.Errorf("said of one that is there: %s", said)
			}
			if err := w.Sim.Load(other); err != nil {
				t.Fatal(err)
			}
			w.Sim.Advance(20e9)
			pl, err := s.Plan(t.Context())
			said := fmt.Sprint(s.Diagnostics())
			if c := pl.Change(typ + ".x"); err != nil || c == nil || c.Action != terraformtest.Create ||
				!strings.Contains(said, "is not in this cluster") || !strings.Contains(said, "another cluster, whose nodes") {
				t.Errorf("%v; %v; it says %s", err, pl, said)
			}
		})
	}
}

// TestGuardWithoutIdentity: an old VM has neither a uuid nor a time of creation. It is destroyed, and another made under its id, before
// the plan, or between plan and apply: PVE notes the time of creation of each VM that it makes, so this is another one.
func TestGuardWithoutIdentity(t *testing.T) {
	t.Parallel()
	changed := strings.Replace(rig.GuardedVM, "1024", "2048", 1)
	steps := map[string]func(*testing.T, *rig.World, *terraformtest.Session) error{
		"plan": func(t *testing.T, w *rig.World, s *terraformtest.Session) error {
			recycle(w)
			_, err := s.Plan(t.Context())
			return err
		},
		"update": func(t *testing.T, w *rig.World, s *terraformtest.Session) error {
			w.Reconfigure(t, s, rig.TokenNoSSH, changed)
			pl, err := s.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			recycle(w)
			return s.Apply(t.Context(), pl)
		},
		"destroy": func(t *testing.T, w *rig.World, s *terraformtest.Session) error {
			pl, err := s.Plan(t.Context(), terraformtest.ToDestroy())
			if err != nil {
				t.Fatal(err)
			}
			recycle(w)
			return s.Apply(t.Context(), pl)
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			w, s := importedWithoutIdentity(t)
			err := step(t, w, s)
			if err == nil || !strings.Contains(err.Error(), rig.OtherUUID) || !strings.Contains(err.Error(), "state rm") {
				t.Errorf("want an error with the uuid and the ways out, got %v", err)
			}
			w.MustBeClean(t)
		})
	}
	for name, tainted := range map[string]bool{"its own destroy": false, "its own replacement": true} {
		t.Run(name, func(t *testing.T) { // needs a uuid, which the VM may get
			w, s := importedWithoutIdentity(t)
			end := s.Destroy
			if s.Taint("proxmox_vm.mine", tainted); tainted {
				end = s.Run
			}
			rig.MustSay(t, end(t.Context()), "Set smbios")
			s.Taint("proxmox_vm.mine", false)
			if rig.Must(t, s.Refresh(t.Context())); len(s.Diagnostics()) > 0 {
				t.Error("a refresh says", s.Diagnostics())
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, strings.Replace(rig.GuardedVM, "memory", "smbios = { uuid = \""+rig.OtherUUID+"\" }\n  memory", 1))
			rig.Must(t, s.Converge(t.Context()))
			rig.Must(t, s.Destroy(t.Context()))
		})
	}
}

// importedWithoutIdentity is a world with an old VM, and a session that has imported it.
func importedWithoutIdentity(t *testing.T) (*rig.World, *terraformtest.Session) {
	t.Helper()
	w := rig.NewWorld(t)
	maker := w.Session(t, rig.TokenNoSSH, rig.GuardedVM)
	rig.Must(t, maker.Run(t.Context()))
	w.Change(func(world *state.World) {
		delete(world.Guests[400].Config, "smbios1")
		delete(world.Guests[400].Config, "meta")
	})
	s := w.Session(t, rig.TokenNoSSH, rig.GuardedVM)
	rig.Must(t, s.Import(t.Context(), "proxmox_vm.mine", "pve1/400"))
	rig.Must(t, s.Converge(t.Context()))
	return w, s
}

// TestDestroyOnAnotherHostWithTheSameNodes: the plan of a destroy is applied to another cluster, whose nodes have the same names. Nothing
// is found there, so Terraform forgets the VM: a warning says where it may stand. Of a VM that was removed here nothing is said.
func TestDestroyOnAnotherHostWithTheSameNodes(t *testing.T) {
	t.Parallel()
	for what, here := range map[string]bool{"another host": false, "removed here": true} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.TokenNoSSH, rig.GuardedVM)
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		pl, err := s.Plan(t.Context(), terraformtest.ToDestroy())
		if err != nil {
			t.Fatal(err)
		}
		w.Change(func(world *state.World) {
			delete(world.Guests, 400)
			maps.DeleteFunc(world.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.VMID == 400 })
			if !here {
				clear(world.Tasks)
			}
		})
		w.Sim.Advance(20e9)
		err = s.Apply(t.Context(), pl)
		said := fmt.Sprint(s.Diagnostics())
		if err != nil || len(s.Addresses()) > 0 || strings.Contains(said, "VM 400 is not in this cluster") == here {
			t.Errorf("%s: %v; the state has %v; it says %s", what, err, s.Addresses(), said)
		}
	}
}
