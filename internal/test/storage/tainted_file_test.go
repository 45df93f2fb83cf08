package storage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestTaintedFileStaysOwned: Terraform forgets the private state of a tainted object. Its file is still that of the resource: it is
// written again, can be changed, and goes with the resource.
func TestTaintedFileStaysOwned(t *testing.T) {
	t.Parallel()
	for address, c := range map[string]struct {
		block func(text string) string
		left  func(w *rig.World) []string
	}{
		"proxmox_snippet.web":        {func(text string) string { return rig.SnippetBlock(text) }, rig.SnippetsLeft},
		"proxmox_cloud_init_iso.web": {rig.CloudInitISOBlock, rig.CloudInitISOs},
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenSSH, c.block("hostname: one"))
			rig.Must(t, s.Converge(t.Context()))
			w.Sim.Advance(time.Minute)
			s.Taint(address, true)
			rig.Must(t, s.Converge(t.Context()))
			if said := fmt.Sprint(s.Diagnostics()); strings.Contains(said, "was there") {
				t.Errorf("the resource itself has written it: %s", said)
			}
			if owned := terraformtest.ShowValue(s.Attr(address, "owned")); owned != "true" {
				t.Errorf("owned = %s", owned)
			}
			w.Reconfigure(t, s, rig.TokenSSH, c.block("hostname: two"))
			rig.Must(t, s.Converge(t.Context()))
			s.Taint(address, true)
			rig.Must(t, s.Destroy(t.Context()))
			if left := c.left(w); len(left) > 0 {
				t.Errorf("left after the destroy: %v", left)
			}
		})
	}
}

// TestTaintedFileOfAnother: a tainted resource removes no file that was there before it, nor one that a third party has changed.
func TestTaintedFileOfAnother(t *testing.T) {
	t.Parallel()
	const ours = "#cloud-config\nhostname: one\n"
	disc, volume := discOf("hostname: one")
	putDisc := func(w *rig.World, _ string) {
		w.Change(func(world *state.World) {
			world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: strings.TrimPrefix(volume, "local:"), Content: "iso",
				Format: "iso", Size: int64(len(disc)), Raw: disc})
		})
	}
	for _, c := range []struct {
		address, config string
		put             func(w *rig.World, more string)
	}{
		{"proxmox_snippet.web", rig.SnippetBlock(ours), func(w *rig.World, more string) { putSnippet(w, ours+more) }},
		{"proxmox_cloud_init_iso.web", rig.CloudInitISOBlock("hostname: one"), putDisc},
	} {
		for _, later := range []bool{false, true} {
			w := rig.NewWorld(t)
			if !later {
				c.put(w, "")
			}
			s := w.Session(t, rig.TokenSSH, c.config)
			rig.Must(t, s.Converge(t.Context()))
			if w.Sim.Advance(time.Minute); later {
				c.put(w, "# theirs")
			}
			w.Mark()
			s.Taint(c.address, true)
			_ = s.Run(t.Context()) // refused, or the file is used as it is
			s.Taint(c.address, true)
			err := s.Destroy(t.Context())
			if said := fmt.Sprint(err, s.Diagnostics()); !strings.Contains(said, "stays") && !strings.Contains(said, "ot touched") {
				t.Errorf("%s, later %t: %s", c.address, later, said)
			}
			w.MustBeClean(t)
		}
	}
}

// TestFileOfAnOlderState: a state that has no ownership yet gets it from its private state at the refresh, and its plan is empty.
func TestFileOfAnOlderState(t *testing.T) {
	t.Parallel()
	for address, config := range map[string]string{
		"proxmox_snippet.web":        rig.SnippetBlock("#cloud-config\n"),
		"proxmox_cloud_init_iso.web": rig.CloudInitISOBlock("hostname: one"),
	} {
		for _, options := range [][]terraformtest.PlanOption{nil, {terraformtest.WithoutRefresh()}} {
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenSSH, config)
			rig.Must(t, s.Converge(t.Context()))
			json, private := s.Raw(address)
			older := strings.NewReplacer(`"owned":true,`, "", `,"owned":true`, "").Replace(string(json))
			if older == string(json) {
				t.Fatalf("%s has %s", address, json)
			}
			s.Put(address, []byte(older), private)
			plan, err := s.Plan(t.Context(), options...)
			if err != nil || !plan.Empty() {
				t.Errorf("%s: planned %v, %v", address, plan, err)
			}
			rig.Must(t, s.Destroy(t.Context()))
			w.MustBeClean(t)
		}
	}
}

// TestDeposedFileStaysForItsSuccessor: a file replaced by the same one with create_before_destroy has two objects in state where the
// CLI ends before its last destroys. The next apply, another process, takes the deposed one out of state and leaves the file, whether
// a guest uses it or not; all the same it says that no object removes the file from then on.
func TestDeposedFileStaysForItsSuccessor(t *testing.T) {
	t.Parallel()
	const last = "  lifecycle {\n    create_before_destroy = true\n  }\n}\n"
	for address, c := range map[string]struct {
		block, use string
		left       func(w *rig.World) []string
	}{
		"proxmox_snippet.web": {rig.SnippetBlock("#cloud-config\n{}\n"), "custom = { user = proxmox_snippet.web.volume }",
			rig.SnippetsLeft},
		"proxmox_cloud_init_iso.web": {rig.CloudInitISOBlock("{}"), "cdroms = { ide3 = { file = proxmox_cloud_init_iso.web.volume } }",
			rig.CloudInitISOs},
	} {
		for _, used := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s used %t", address, used), func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t)
				config := strings.TrimSuffix(c.block, "}\n") + last
				if used {
					line := c.use
					if strings.HasPrefix(line, "custom") {
						line = "cloud_init = { storage = \"local-zfs\", " + line + " }"
					}
					node := map[bool]string{true: "pve2", false: "pve1"}[strings.HasPrefix(address, "proxmox_snippet")]
					config += fmt.Sprintf("resource \"proxmox_vm\" \"v\" {\n  vmid = 400\n  node = %q\n  power_state = \"stopped\"\n  %s\n}\n", node, line)
				}
				s := w.Session(t, rig.TokenSSH, config)
				rig.Must(t, s.Converge(t.Context()))
				saved := s.SaveState()
				s.Taint(address, true)
				rig.Must(t, s.Converge(t.Context()))
				if said := fmt.Sprint(s.Diagnostics()); !strings.Contains(said, "a later one leaves it, and says so") {
					t.Errorf("no word of the owner: %s", said)
				}
				if said := fmt.Sprint(s.Diagnostics()); strings.Contains(said, "and an import") != (address == "proxmox_snippet.web") {
					t.Errorf("the way to own it is that of snippets: %s", said)
				}
				terraformtest.Depose(s, saved, address)
				rig.Must(t, s.Run(t.Context()))
				if left := c.left(w); len(left) != 1 {
					t.Errorf("the file of the current object: %v", left)
				}
				if slices.ContainsFunc(s.Addresses(), terraformtest.IsDeposed) {
					t.Errorf("in state: %v", s.Addresses())
				}
				rig.Must(t, s.Converge(t.Context()))
			})
		}
	}
}

// TestDeposedFileGoesWithItsSuccessor: one apply destroys both objects of such a file. The file goes with the last of them, and nothing
// says before that it stays for good.
func TestDeposedFileGoesWithItsSuccessor(t *testing.T) {
	t.Parallel()
	const last = "  lifecycle {\n    create_before_destroy = true\n  }\n}\n"
	local := filepath.Join(t.TempDir(), "debian.qcow2")
	rig.Must(t, os.WriteFile(local, rig.QCOW2("one"), 0o600))
	for address, block := range map[string]string{
		"proxmox_image.web": rig.ImageBlock("web", `node = "pve1"`, `storage = "local"`,
			fmt.Sprintf("source_file = %q", local)),
		"proxmox_snippet.web":        rig.SnippetBlock("#cloud-config\n{}\n"),
		"proxmox_cloud_init_iso.web": rig.CloudInitISOBlock("{}"),
	} {
		for first, end := range map[string]func(w *rig.World, s *terraformtest.Session) error{
			"the deposed one first": func(w *rig.World, s *terraformtest.Session) error {
				w.Reconfigure(t, s, rig.TokenSSH, "")
				return s.Run(t.Context())
			},
			"the other one first": func(_ *rig.World, s *terraformtest.Session) error { return s.Destroy(t.Context()) },
		} {
			t.Run(address+", "+first, func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t)
				s := w.Session(t, rig.TokenSSH, strings.TrimSuffix(block, "}\n")+last)
				rig.Must(t, s.Converge(t.Context()))
				saved := s.SaveState()
				s.Taint(address, true)
				rig.Must(t, s.Converge(t.Context()))
				terraformtest.Depose(s, saved, address)
				rig.Must(t, end(w, s))
				said := fmt.Sprint(s.Diagnostics())
				if !strings.Contains(said, "in this same apply") || len(s.Addresses()) > 0 {
					t.Errorf("the file went, and in state are %v: %s", s.Addresses(), said)
				}
				w.MustBeClean(t)
			})
		}
	}
}
