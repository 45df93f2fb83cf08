package storage_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestImageVersions makes each kind of image on each version, as each identity: it is whole, and gone after the destroy, or the
// plan refuses it with a sentence that names the version which has it, and nothing was sent.
func TestImageVersions(t *testing.T) {
	t.Parallel()
	cases := append(rig.ImageCases(t), rig.ImageCase{Name: "ISO image"})
	cases[3].Config = strings.Replace(cases[0].Config, "url =", "content = \"iso\"\n  file_name = \"debian.iso\"\n  url =", 1)
	cases[3].Volume, cases[3].Data = "iso/debian-"+rig.SHA256(cases[0].Data)[:12]+".iso", cases[0].Data
	lacks := map[string]map[string]string{"8.0": {"download": "since 8.4", "upload": "since 8.4", "compressed download": "since 8.1"},
		"8.2": {"download": "since 8.4", "upload": "since 8.4"}}
	made, refused := 0, 0
	for _, version := range pvesim.Profiles() {
		if version == "7.4" {
			continue
		}
		for _, c := range cases {
			for _, who := range []rig.Identity{rig.RootTicket, rig.TokenNoSSH} {
				what := fmt.Sprintf("%s, %s, %s", version, c.Name, who)
				w := rig.NewWorld(t, pvesim.Options{Profile: version})
				s := w.Session(t, who, c.Config)
				sw := &engine.ImageSweep{ImageCase: c, T: t, Who: who, World: w, Session: s}
				err := s.Converge(t.Context())
				want := lacks[version][c.Name]
				if want == "" && version == "8.0" && who != rig.RootTicket {
					want = "Sys.Audit and Sys.Modify on /" // there is no Sys.AccessNetwork yet
				}
				if want != "" {
					refused++
					rig.MustSay(t, err, want)
					if said := fmt.Sprint(err); version == "8.0" && (strings.Contains(said, "Sys.AccessNetwork") || strings.Contains(said, "pvesm set")) {
						t.Errorf("%s: a privilege or content that this version does not have: %s", what, said)
					}
					for _, op := range w.Sim.Ops() {
						if op.Method != http.MethodGet && op.Path != "/access/ticket" {
							t.Errorf("%s: sent %s %s", what, op.Method, op.Path)
						}
					}
					continue
				}
				if err != nil || !sw.Whole() {
					t.Errorf("%s: whole %t: %v", what, sw.Whole(), err)
					continue
				}
				made++
				if err := s.Destroy(t.Context()); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				w.MustBeClean(t)
			}
		}
	}
	t.Logf("%d made and destroyed, %d refused in the plan", made, refused)
}

// TestImageOfTwoProcesses: two processes that want the same file at the same time both get it, and it is one file. If one of
// them destroys the file, the other notices and creates it again. In the end the file is gone, or was named as staying.
func TestImageOfTwoProcesses(t *testing.T) {
	t.Parallel()
	for _, c := range rig.ImageCases(t)[:2] {
		for _, apart := range []time.Duration{0, time.Second, 3 * time.Second} {
			t.Run(fmt.Sprintf("%s %s apart", c.Name, apart), func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t, pvesim.Options{Clock: rig.NewFastClock(), TaskTime: 4 * time.Second})
				var both [2]*terraformtest.Session
				var errs [2]error
				var group sync.WaitGroup
				for i := range both {
					both[i] = w.Session(t, rig.TokenNoSSH, c.Config)
					group.Go(func() {
						rig.NewFastClock().SleepContext(t.Context(), time.Duration(i)*apart)
						errs[i] = both[i].Run(t.Context())
					})
				}
				group.Wait()
				sw := &engine.ImageSweep{ImageCase: c, T: t, Who: rig.TokenNoSSH, World: w, Session: both[0]}
				if !sw.Whole() {
					t.Fatalf("the file is not whole: %v", errs)
				}
				for i, s := range both {
					if errs[i] != nil { // a part of the other's was there
						rig.MustSay(t, errs[i], "local:"+c.Volume)
					}
					if err := s.Converge(t.Context()); err != nil {
						t.Errorf("process %d: %v", i+1, err)
					}
				}
				stays := false
				for i, s := range both {
					if err := s.Destroy(t.Context()); err != nil {
						t.Errorf("process %d: %v", i+1, err)
					}
					stays = strings.Contains(fmt.Sprint(s.Diagnostics()), "The file stays: local:"+c.Volume)
				}
				if there := rig.VolumeOn(w, "local:"+c.Volume) != nil; there && !stays {
					t.Error("the file is still there, and no message says so")
				}
			})
		}
	}
}

// TestCancelImage: Ctrl-C at every request of a create and of a destroy. No task is left at work, nothing is left that is not
// named, and the next apply finishes.
func TestCancelImage(t *testing.T) {
	t.Parallel()
	for _, c := range rig.ImageCases(t)[:2] {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Clock: rig.NewFastClock()})
			st := &engine.InterruptStage{T: t, World: w, ID: rig.TokenNoSSH, Keys: &engine.Interrupter{World: w}, Ended: map[string]int{}}
			w.LogTo(st.Keys)
			st.Session = w.Session(t, st.ID, c.Config)
			st.Saved, st.Snapshot = st.Session.SaveState(), w.Sim.Snapshot()
			w.Sim.SetTaskTime(engine.InterruptTaskTime)
			sw := &engine.ImageSweep{ImageCase: c, T: t, Who: st.ID, World: w, Session: st.Session, Root: engine.Operator(t, w.Sim)}
			n := st.Each(c.Name, func(ctx context.Context) error { return st.Session.Run(ctx) }, func(name string, err error) {
				w.Sim.SetTaskTime(0)
				defer w.Sim.SetTaskTime(engine.InterruptTaskTime)
				if err != nil && len(st.Session.Addresses()) == 0 {
					sw.Failed(name, err)
					return
				}
				sw.Destroyed(name)
			})
			if n < engine.EnoughInterrupts(5) {
				t.Errorf("only %d interrupts", n)
			}
		})
	}
}

// TestImageFull: a storage that is full, and a source that is not there, are said in PVE's words, and nothing is left.
func TestImageFull(t *testing.T) {
	t.Parallel()
	for _, c := range rig.ImageCases(t) {
		for what, world := range map[string]func(*state.World){
			"No space left on device": func(world *state.World) { world.Storages["local"].Total = 1 },
			"is not online":           func(world *state.World) { world.Nodes["pve1"].Online = false },
		} {
			w := rig.NewWorld(t)
			w.Change(world)
			w.Mark()
			s := w.Session(t, rig.TokenNoSSH, c.Config)
			rig.MustSay(t, s.Converge(t.Context()), what)
			if in := s.Addresses(); len(in) > 0 {
				t.Errorf("%s: in state: %v", c.Name, in)
			}
			w.MustBeClean(t)
		}
	}
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.DownloadedImage(rig.ServeFiles(t, nil)+"/gone.qcow2", strings.Repeat("a", 64)))
	rig.MustSay(t, s.Converge(t.Context()), "download failed: exit code 8", "ERROR 404: Not Found", "nothing is left on the server")
	w.MustBeClean(t)
}

// TestImageOnASharedStorage: of the resources of several nodes one puts the file onto a storage that they share, and the others use it.
func TestImageOnASharedStorage(t *testing.T) {
	t.Parallel()
	data := rig.QCOW2("one")
	url := rig.ServeFiles(t, map[string][]byte{"/debian.qcow2": data})
	w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2", "pve3"}})
	w.Change(func(world *state.World) {
		world.Storages["nfs"] = &state.Storage{ID: "nfs", Type: "nfs", Path: "/mnt/pve/nfs", Shared: true, Total: 1 << 40,
			Content: []string{"import"}}
	})
	w.Mark()
	s := w.Session(t, rig.TokenNoSSH, rig.ImageBlock("disk", `for_each = toset(["pve1", "pve2", "pve3"])`, "node = each.key",
		`storage = "nfs"`,
		fmt.Sprintf("url = %q", url+"/debian.qcow2"), fmt.Sprintf("checksum = %q", rig.SHA256(data))))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	owned := 0
	for _, node := range []string{"pve1", "pve2", "pve3"} {
		if strings.Contains(terraformtest.ShowValue(s.Attr(fmt.Sprintf("proxmox_image.disk[%q]", node), "owned")), "true") {
			owned++
		}
	}
	if owned != 1 {
		t.Errorf("%d of three own the file", owned)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.MustBeClean(t)
}

// TestImageToAnotherNodeOfASharedStorage: with create_before_destroy the new object finds the file on the storage that both nodes
// see, and the old object, which goes last, leaves it there.
func TestImageToAnotherNodeOfASharedStorage(t *testing.T) {
	t.Parallel()
	data := rig.QCOW2("one")
	url := rig.ServeFiles(t, map[string][]byte{"/debian.qcow2": data})
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) {
		world.Storages["nfs"] = &state.Storage{ID: "nfs", Type: "nfs", Path: "/mnt/pve/nfs", Shared: true, Total: 1 << 40,
			Content: []string{"import"}}
	})
	on := func(node string) string {
		return rig.ImageBlock("disk", fmt.Sprintf("node = %q", node), `storage = "nfs"`, fmt.Sprintf("url = %q", url+"/debian.qcow2"),
			fmt.Sprintf("checksum = %q", rig.SHA256(data)), "lifecycle { create_before_destroy = true }")
	}
	s := w.Session(t, rig.TokenNoSSH, on("pve1"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Reconfigure(t, s, rig.TokenNoSSH, on("pve2"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(s.Diagnostics()), "The file stays: nfs:import/debian-") {
		t.Errorf("the old object says %v", s.Diagnostics())
	}
}
