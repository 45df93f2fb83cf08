package rig

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// Named puts the ids of the volumes that the VM has now in the place of <scsi1>.
func (l *VM) Named(body string) string {
	for slot := range l.Config() {
		body = strings.ReplaceAll(body, "<"+slot+">", fmt.Sprintf("%q", l.Volume(slot)))
	}
	return body
}

// File is the volume in a slot of a guest whose world is locked.
func (l *VM) File(g *state.Guest, slot string) string {
	file, _, _ := strings.Cut(g.Config[slot], ",")
	return file
}

// GuestIsGone fails the test if the VM is still there.
func (l *VM) GuestIsGone() {
	l.Helper()
	l.World.Change(func(world *state.World) {
		if world.Guests[400] != nil {
			l.Error("the VM is still there")
		}
	})
}

// VM is VM 400 on pve1 in a world of its own, changed step by step.
type VM struct {
	*testing.T
	World   *World
	Session *terraformtest.Session
}

// VMAddress is the address of VM 400 in its configuration.
const VMAddress = "proxmox_vm.x"

// NewVM creates the VM and gives every volume of it a content of its own: the name of its slot.
func NewVM(t *testing.T, body string) *VM {
	t.Helper()
	l := &VM{T: t, World: NewWorld(t)}
	l.Session = l.World.Session(t, TokenNoSSH, NodeVMBlock(body))
	if err := l.Session.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.World.Change(func(world *state.World) {
		for slot, value := range world.Guests[400].Config {
			for _, v := range world.Volumes {
				if file, _, _ := strings.Cut(value, ","); v.Volid() == file && v.VMID == 400 {
					v.Data = slot
				}
			}
		}
	})
	l.World.ResetCalls()
	return l
}

// Again gives the VM as it was made, for another test: its world and its state.
func (l *VM) Again() func(t *testing.T) *VM {
	world, saved := l.World.Sim.Snapshot(), l.Session.SaveState()
	return func(t *testing.T) *VM {
		t.Helper()
		if err := l.World.Sim.Load(world); err != nil {
			t.Fatal(err)
		}
		l.Session.RestoreState(saved)
		l.World.ResetCalls()
		l.World.Sim.ResetPowerOffs()
		return &VM{T: t, World: l.World, Session: l.Session}
	}
}

// Configure changes the configuration.
func (l *VM) Configure(body string) {
	l.Helper()
	l.World.Reconfigure(l.T, l.Session, TokenNoSSH, NodeVMBlock(body))
}

// To applies another configuration and wants an empty plan after it.
func (l *VM) To(body string) {
	l.Helper()
	l.Configure(body)
	l.World.ResetCalls()
	if err := l.Session.Converge(l.Context()); err != nil {
		l.Fatal(err)
	}
}

// Fails applies another configuration, wants an error with some words, and gives it.
func (l *VM) Fails(body string, words ...string) string {
	l.Helper()
	l.Configure(body)
	l.World.ResetCalls()
	err := l.Session.Run(l.Context())
	if err == nil {
		l.Fatal("no error")
	}
	MustSay(l.T, err, words...)
	return err.Error()
}

// Plan plans another configuration.
func (l *VM) Plan(body string) *terraformtest.Plan {
	l.Helper()
	l.Configure(body)
	pl, err := l.Session.Plan(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	return pl
}

// Refuses wants a plan to fail with one error, on an attribute and with some words, and without a request that changes
// anything.
func (l *VM) Refuses(body, attribute string, words ...string) {
	l.Helper()
	l.Configure(body)
	l.World.ResetCalls()
	_, err := l.Session.Plan(l.Context())
	if err == nil {
		l.Errorf("planned without an error:\n%s", body)
		return
	}
	if errs := l.Session.Diagnostics().Errors(); len(errs) != 1 || errs[0].Attribute != attribute {
		l.Errorf("want one error on %s:\n%v", attribute, err)
	}
	MustSay(l.T, err, words...)
	if sent := l.sent(); len(sent) > 0 {
		l.Errorf("a plan sent %v", sent)
	}
}

// Warned wants a warning on an attribute, "" for none, and with some words in the last operation.
func (l *VM) Warned(attribute string, words ...string) {
	l.Helper()
	for _, d := range l.Session.Diagnostics().Warnings() {
		text := d.Summary + "\n" + d.Detail
		if d.Attribute == attribute && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
			return
		}
	}
	l.Errorf("no warning on %q with %q in:\n%s", attribute, words, l.Session.Diagnostics())
}

// Guest looks at the VM on the server.
func (l *VM) Guest(look func(world *state.World, g *state.Guest)) {
	l.Helper()
	l.World.Change(func(world *state.World) {
		g := world.Guests[400]
		if g == nil {
			l.Fatal("the VM is gone")
		}
		look(world, g)
	})
}

// Config is the VM's configuration in force.
func (l *VM) Config() (config map[string]string) {
	l.Guest(func(_ *state.World, g *state.Guest) { config = maps.Clone(g.Config) })
	return config
}

// Waiting are the options that wait for a restart.
func (l *VM) Waiting() (options []string) {
	l.Guest(func(_ *state.World, g *state.Guest) {
		options = slices.Sorted(maps.Keys(g.Pending))
		options = append(options, slices.Sorted(maps.Keys(g.Deletes))...)
	})
	return options
}

// Contents says which content each slot has, unusedN included: those that the VM's volumes were given.
func (l *VM) Contents() map[string]string {
	all := map[string]string{}
	l.Guest(func(world *state.World, g *state.Guest) {
		for slot, value := range g.Config {
			file, _, _ := strings.Cut(value, ",")
			if v := world.Volume(g.Node, file); v != nil && v.Content == "images" {
				all[slot] = v.Data
			}
		}
	})
	return all
}

// Want compares the contents of the slots. A new disk is empty.
func (l *VM) Want(contents map[string]string) {
	l.Helper()
	if diff := cmp.Diff(contents, l.Contents()); diff != "" {
		l.Errorf("contents of the slots: %s", diff)
	}
	l.WantNoOrphans()
}

// WantNoOrphans wants every volume of the VM to be in its configuration, and no volume twice.
func (l *VM) WantNoOrphans() {
	l.Helper()
	l.Guest(func(world *state.World, g *state.Guest) {
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

// Volume is the id of the volume in a slot.
func (l *VM) Volume(slot string) string {
	file, _, _ := strings.Cut(l.Config()[slot], ",")
	return file
}

// sent are the requests that change something, since the last step, as "PUT config scsi1 delete=net0".
func (l *VM) sent() []string {
	var all []string
	for _, op := range l.World.Sim.Ops() {
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

// WantSent compares the requests that change something.
func (l *VM) WantSent(lines ...string) {
	l.Helper()
	if diff := cmp.Diff(lines, l.sent()); diff != "" {
		l.Errorf("sent: %s", diff)
	}
}

// Attr is a text in state.
func (l *VM) Attr(path string) string {
	v := l.Session.Attr(VMAddress, path)
	if v.IsNull() || !v.IsKnown() {
		return ""
	}
	return v.AsString()
}

// WantRunning wants the guest never to have been switched off or restarted.
func (l *VM) WantRunning() {
	l.Helper()
	if off := l.World.Sim.PowerOffs(); len(off) > 0 {
		l.Errorf("the guest was switched off: %v", fmt.Sprint(off))
	}
}

// Blind hides the bridges from plans, so that one that does not exist is noticed by the apply.
func (l *VM) Blind() {
	l.World.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "GET", Path: "/nodes/{node}/network"}, Phase: fault.Before, Status: 403, Reason: "Permission check failed", Times: -1}})
}

// WantWaiting compares the changes that wait for a restart.
func (l *VM) WantWaiting(options ...string) {
	l.Helper()
	if diff := cmp.Diff(options, l.Waiting()); diff != "" {
		l.Errorf("waits for a restart: %s", diff)
	}
}

// Rest wants the next plan of a configuration to speak of some attributes and of no others.
func (l *VM) Rest(body string, speaks []string, silent ...string) {
	l.Helper()
	text := l.Plan(body).String()
	for _, attribute := range speaks {
		if !strings.Contains(text, attribute) {
			l.Errorf("the next plan does not speak of %s:\n%s", attribute, text)
		}
	}
	for _, attribute := range silent {
		if strings.Contains(text, attribute) {
			l.Errorf("the next plan speaks of %s:\n%s", attribute, text)
		}
	}
}

// Disobeys sets whether the guest ignores a request to shut down.
func (l *VM) Disobeys(disobeys bool) {
	l.World.Change(func(world *state.World) {
		world.Guests[400].Ignores = nil
		if disobeys {
			world.Guests[400].Ignores = []string{"shutdown"}
		}
	})
}

// WantOffs compares how the guest was switched off since the beginning.
func (l *VM) WantOffs(kinds ...state.PowerKind) {
	l.Helper()
	var got []state.PowerKind
	for _, off := range l.World.Sim.PowerOffs() {
		got = append(got, off.Kind)
	}
	if !slices.Equal(got, kinds) {
		l.Errorf("power-offs: want %v, got %v", kinds, got)
	}
}

// WantDistinctVolumes wants no volume in two slots, whatever has failed.
func (l *VM) WantDistinctVolumes() {
	l.Helper()
	l.Guest(func(world *state.World, g *state.Guest) {
		used := map[string]string{}
		for slot := range g.Config {
			file := l.File(g, slot)
			if other := used[file]; other != "" && world.Volume(g.Node, file) != nil {
				l.Errorf("%s is in %s and in %s", file, slot, other)
			}
			used[file] = slot
		}
	})
}
