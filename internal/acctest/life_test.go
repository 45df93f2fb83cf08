package acctest_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// life is VM 400 on pve1 in a world of its own, changed step by step.
type life struct {
	*testing.T
	w *acctest.World
	s *drive.Session
}

const lifeAddress = "proxmox_vm.x"

func lifeBlock(body string) string {
	return vmBlock("name = \"x\"\nvmid = 400\nnode = \"pve1\"\n" + body)
}

// newLife creates the VM and gives every volume of it a content of its own: the name of its slot.
func newLife(t *testing.T, body string) *life {
	t.Helper()
	l := &life{T: t, w: acctest.NewWorld(t)}
	l.s = l.w.Session(t, acctest.TokenNoSSH, lifeBlock(body))
	if err := l.s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.w.Change(func(world *state.World) {
		for slot, value := range world.Guests[400].Config {
			for _, v := range world.Volumes {
				if file, _, _ := strings.Cut(value, ","); v.Volid() == file && v.VMID == 400 {
					v.Data = slot
				}
			}
		}
	})
	l.w.ResetCalls()
	return l
}

// again gives the VM as it was made, for another test: its world and its state.
func (l *life) again() func(t *testing.T) *life {
	world, saved := l.w.Sim.Snapshot(), l.s.SaveState()
	return func(t *testing.T) *life {
		t.Helper()
		if err := l.w.Sim.Load(world); err != nil {
			t.Fatal(err)
		}
		l.s.RestoreState(saved)
		l.w.ResetCalls()
		l.w.Sim.ResetPowerOffs()
		return &life{T: t, w: l.w, s: l.s}
	}
}

// configure changes the configuration.
func (l *life) configure(body string) {
	l.Helper()
	l.w.Reconfigure(l.T, l.s, acctest.TokenNoSSH, lifeBlock(body))
}

// to applies another configuration and wants an empty plan after it.
func (l *life) to(body string) {
	l.Helper()
	l.configure(body)
	l.w.ResetCalls()
	if err := l.s.Converge(l.Context()); err != nil {
		l.Fatal(err)
	}
}

// fails applies another configuration, wants an error with some words, and gives it.
func (l *life) fails(body string, words ...string) string {
	l.Helper()
	l.configure(body)
	l.w.ResetCalls()
	err := l.s.Run(l.Context())
	if err == nil {
		l.Fatal("no error")
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			l.Errorf("the error does not say %q:\n%v", word, err)
		}
	}
	return err.Error()
}

// plan plans another configuration.
func (l *life) plan(body string) *drive.Plan {
	l.Helper()
	l.configure(body)
	pl, err := l.s.Plan(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	return pl
}

// refuses wants a plan to fail with some words, without a request that changes anything.
func (l *life) refuses(body string, words ...string) {
	l.Helper()
	l.configure(body)
	l.w.ResetCalls()
	_, err := l.s.Plan(l.Context())
	if err == nil {
		l.Errorf("planned without an error:\n%s", body)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			l.Errorf("the error does not say %q:\n%v", word, err)
		}
	}
	if sent := l.sent(); len(sent) > 0 {
		l.Errorf("a plan sent %v", sent)
	}
}

// warned wants a warning with some words in the last operation.
func (l *life) warned(words ...string) {
	l.Helper()
	for _, d := range l.s.Diagnostics().Warnings() {
		text := d.Summary + "\n" + d.Detail
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
			return
		}
	}
	l.Errorf("no warning with %q in:\n%s", words, l.s.Diagnostics())
}

// guest looks at the VM on the server.
func (l *life) guest(look func(world *state.World, g *state.Guest)) {
	l.Helper()
	l.w.Change(func(world *state.World) {
		g := world.Guests[400]
		if g == nil {
			l.Fatal("the VM is gone")
		}
		look(world, g)
	})
}

// config is the VM's configuration in force.
func (l *life) config() (config map[string]string) {
	l.guest(func(_ *state.World, g *state.Guest) { config = maps.Clone(g.Config) })
	return config
}

// waiting are the options that wait for a restart.
func (l *life) waiting() (options []string) {
	l.guest(func(_ *state.World, g *state.Guest) {
		options = slices.Sorted(maps.Keys(g.Pending))
		options = append(options, slices.Sorted(maps.Keys(g.Deletes))...)
	})
	return options
}

// contents says which content each slot has, unusedN included: those that the VM's volumes were given.
func (l *life) contents() map[string]string {
	all := map[string]string{}
	l.guest(func(world *state.World, g *state.Guest) {
		for slot, value := range g.Config {
			file, _, _ := strings.Cut(value, ",")
			if v := world.Volume(g.Node, file); v != nil && v.Content == "images" {
				all[slot] = v.Data
			}
		}
	})
	return all
}

// want compares the contents of the slots. A new disk is empty.
func (l *life) want(contents map[string]string) {
	l.Helper()
	if diff := cmp.Diff(contents, l.contents()); diff != "" {
		l.Errorf("contents of the slots: %s", diff)
	}
	l.whole()
}

// whole wants every volume of the VM to be in its configuration, and no volume twice.
func (l *life) whole() {
	l.Helper()
	l.guest(func(world *state.World, g *state.Guest) {
		used := map[string]string{}
		for slot, value := range g.Config {
			file, _, _ := strings.Cut(value, ",")
			if other := used[file]; other != "" && world.Volume(g.Node, file) != nil {
				l.Errorf("%s is in %s and in %s", file, slot, other)
			}
			used[file] = slot
		}
		for _, v := range world.Volumes {
			if v.VMID == 400 && used[v.Volid()] == "" {
				l.Errorf("%s (%q) belongs to the VM and is in no slot", v.Volid(), v.Data)
			}
		}
	})
}

// volume is the id of the volume in a slot.
func (l *life) volume(slot string) string {
	file, _, _ := strings.Cut(l.config()[slot], ",")
	return file
}

// sent are the requests that change something, since the last step, as "PUT config scsi1 delete=net0".
func (l *life) sent() []string {
	var all []string
	for _, op := range l.w.Sim.Ops() {
		if op.Method == http.MethodGet || strings.HasPrefix(op.Path, "/access") {
			continue
		}
		line := op.Method + " " + op.Path[strings.LastIndex(op.Path, "/")+1:]
		for _, name := range slices.Sorted(maps.Keys(op.Params)) {
			switch name {
			case "digest", "node", "vmid", "background_delay":
			case "delete", "revert", "disk", "size", "storage", "format":
				line += " " + name + "=" + op.Params[name]
			default:
				line += " " + name
			}
		}
		all = append(all, line)
	}
	return all
}

// wantSent compares the requests that change something.
func (l *life) wantSent(lines ...string) {
	l.Helper()
	if diff := cmp.Diff(lines, l.sent()); diff != "" {
		l.Errorf("sent: %s", diff)
	}
}

// attr is a text in state.
func (l *life) attr(path string) string {
	v := l.s.Attr(lifeAddress, path)
	if v.IsNull() || !v.IsKnown() {
		return ""
	}
	return v.AsString()
}

// steady wants the guest never to have been switched off or restarted.
func (l *life) steady() {
	l.Helper()
	if off := l.w.Sim.PowerOffs(); len(off) > 0 {
		l.Errorf("the guest was switched off: %v", fmt.Sprint(off))
	}
}
