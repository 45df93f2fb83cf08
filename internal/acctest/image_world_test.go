package acctest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestImageVersions makes each kind of image on each version, as each identity: it is whole, and gone after the destroy, or the
// plan refuses it with a sentence that names the version which has it, and nothing was sent.
func TestImageVersions(t *testing.T) {
	t.Parallel()
	cases := append(imageCases(t), imageCase{name: "ISO image"})
	cases[3].config = strings.Replace(cases[0].config, "url =", "content = \"iso\"\n  file_name = \"debian.iso\"\n  url =", 1)
	cases[3].volume, cases[3].data = "iso/debian-"+sha256Of(cases[0].data)[:12]+".iso", cases[0].data
	lacks := map[string]map[string]string{"8.0": {"download": "since 8.4", "upload": "since 8.4", "compressed download": "since 8.1"},
		"8.2": {"download": "since 8.4", "upload": "since 8.4"}}
	made, refused := 0, 0
	for _, version := range pvesim.Profiles() {
		if version == "7.4" {
			continue
		}
		for _, c := range cases {
			for _, who := range []acctest.Identity{acctest.RootTicket, acctest.TokenNoSSH} {
				what := fmt.Sprintf("%s, %s, %s", version, c.name, who)
				w := acctest.NewWorld(t, pvesim.Options{Profile: version})
				s := w.Session(t, who, c.config)
				sw := &imageSweep{imageCase: c, t: t, who: who, w: w, s: s}
				err := s.Converge(t.Context())
				want := lacks[version][c.name]
				if want == "" && version == "8.0" && who != acctest.RootTicket {
					want = "Sys.Audit and Sys.Modify on /" // there is no Sys.AccessNetwork yet
				}
				if want != "" {
					refused++
					mustSay(t, err, want)
					for _, op := range w.Sim.Ops() {
						if op.Method != http.MethodGet && op.Path != "/access/ticket" {
							t.Errorf("%s: sent %s %s", what, op.Method, op.Path)
						}
					}
					continue
				}
				if err != nil || !sw.whole() {
					t.Errorf("%s: whole %t: %v", what, sw.whole(), err)
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

// TestImageOfTwoProcesses: two processes that want the same file at the same time both get it, and it is one file. What one of
// them destroys the other notices and makes again; in the end it is gone, or was named as staying.
func TestImageOfTwoProcesses(t *testing.T) {
	t.Parallel()
	for _, c := range imageCases(t)[:2] {
		for _, apart := range []time.Duration{0, time.Second, 3 * time.Second} {
			t.Run(fmt.Sprintf("%s %s apart", c.name, apart), func(t *testing.T) {
				t.Parallel()
				w := acctest.NewWorld(t, pvesim.Options{Clock: fast{time.Now()}, TaskTime: 4 * time.Second})
				var both [2]*drive.Session
				var errs [2]error
				var group sync.WaitGroup
				for i := range both {
					both[i] = w.Session(t, acctest.TokenNoSSH, c.config)
					group.Go(func() {
						fast{time.Now()}.SleepContext(t.Context(), time.Duration(i)*apart)
						errs[i] = both[i].Run(t.Context())
					})
				}
				group.Wait()
				sw := &imageSweep{imageCase: c, t: t, who: acctest.TokenNoSSH, w: w, s: both[0]}
				if !sw.whole() {
					t.Fatalf("the file is not whole: %v", errs)
				}
				for i, s := range both {
					if errs[i] != nil { // a part of the other's was there
						mustSay(t, errs[i], "local:"+c.volume)
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
					stays = strings.Contains(fmt.Sprint(s.Diagnostics()), "The file stays: local:"+c.volume)
				}
				if there := fileOn(w, "local:"+c.volume) != nil; there && !stays {
					t.Error("the file is still there, and nobody says so")
				}
			})
		}
	}
}

// TestCancelImage: Ctrl-C at every request of a create and of a destroy. No task is left at work, nothing is left that is not
// named, and the next apply finishes.
func TestCancelImage(t *testing.T) {
	t.Parallel()
	for _, c := range imageCases(t)[:2] {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := acctest.NewWorld(t, pvesim.Options{Clock: fast{time.Now()}})
			st := &stage{t: t, w: w, id: acctest.TokenNoSSH, keys: &interrupter{w: w}, ended: map[string]int{}}
			w.LogTo(st.keys)
			st.s = w.Session(t, st.id, c.config)
			st.saved, st.world = st.s.SaveState(), w.Sim.Snapshot()
			w.Sim.SetTaskTime(taskTime)
			sw := &imageSweep{imageCase: c, t: t, who: st.id, w: w, s: st.s, root: operator(t, w.Sim)}
			n := st.each(c.name, func(ctx context.Context) error { return st.s.Run(ctx) }, func(name string, err error) {
				w.Sim.SetTaskTime(0)
				defer w.Sim.SetTaskTime(taskTime)
				if err != nil && len(st.s.Addresses()) == 0 {
					sw.failed(name, err)
					return
				}
				sw.destroyed(name)
			})
			if n < 5 {
				t.Errorf("only %d interrupts", n)
			}
		})
	}
}

// TestImageFull: a storage that is full, and a source that is not there, are said in PVE's words, and nothing is left.
func TestImageFull(t *testing.T) {
	t.Parallel()
	for _, c := range imageCases(t) {
		for what, world := range map[string]func(*state.World){
			"No space left on device": func(world *state.World) { world.Storages["local"].Total = 1 },
			"is not online":           func(world *state.World) { world.Nodes["pve1"].Online = false },
		} {
			w := acctest.NewWorld(t)
			w.Change(world)
			w.Mark()
			s := w.Session(t, acctest.TokenNoSSH, c.config)
			mustSay(t, s.Converge(t.Context()), what)
			if in := s.Addresses(); len(in) > 0 {
				t.Errorf("%s: in state: %v", c.name, in)
			}
			w.MustBeClean(t)
		}
	}
	w := acctest.NewWorld(t)
	s := w.Session(t, acctest.TokenNoSSH, downloaded(served(t, nil)+"/gone.qcow2", strings.Repeat("a", 64)))
	mustSay(t, s.Converge(t.Context()), "download failed: exit code 8", "ERROR 404: Not Found", "nothing is left on the server")
	w.MustBeClean(t)
}

// TestImageOnASharedStorage: of the resources of several nodes one puts the file onto a storage that they share, and the others use it.
func TestImageOnASharedStorage(t *testing.T) {
	t.Parallel()
	data := qcow2("one")
	url := served(t, map[string][]byte{"/debian.qcow2": data})
	w := acctest.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2", "pve3"}})
	w.Change(func(world *state.World) {
		world.Storages["nfs"] = &state.Storage{ID: "nfs", Type: "nfs", Path: "/mnt/pve/nfs", Shared: true, Total: 1 << 40,
			Content: []string{"import"}}
	})
	w.Mark()
	s := w.Session(t, acctest.TokenNoSSH, imageBlock("disk", `for_each = toset(["pve1", "pve2", "pve3"])`, "node = each.key",
		`storage = "nfs"`,
		fmt.Sprintf("url = %q", url+"/debian.qcow2"), fmt.Sprintf("checksum = %q", sha256Of(data))))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	owned := 0
	for _, node := range []string{"pve1", "pve2", "pve3"} {
		if strings.Contains(drive.ShowValue(s.Attr(fmt.Sprintf("proxmox_image.disk[%q]", node), "owned")), "true") {
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
