package rig

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// PowerTally is the environment variable that names a file to which each cluster of a test adds its power-offs, a kind a line.
const PowerTally = "ACCTEST_POWER_OFFS"

// powerWatch compares every power-off of a guest with those that the configurations asked for.
type powerWatch struct {
	mu       sync.Mutex
	asked    map[pvesim.PowerOff]bool
	unasked  map[pvesim.PowerOff]bool
	expected []state.PowerKind
}

// ExpectPowerOffs says that the test itself brings about power-offs of these kinds, or that what asks for them is not to be
// seen in a resource's configuration. Without it, a test fails if a guest goes off that no configuration asked to go off.
func (w *World) ExpectPowerOffs(kinds ...state.PowerKind) {
	w.power.mu.Lock()
	defer w.power.mu.Unlock()
	w.power.expected = append(w.power.expected, kinds...)
}

// watchPower notes what one apply of a resource switches off, and whether it was asked to.
func (w *World) watchPower(typ string, prior, planned terraformtest.Value) func() {
	before := w.Sim.PowerOffs()
	var guests []int
	w.Change(func(world *state.World) { guests = slices.Collect(maps.Keys(world.Guests)) })
	return func() {
		w.power.mu.Lock()
		defer w.power.mu.Unlock()
		for _, off := range w.Sim.PowerOffs() {
			if slices.Contains(before, off) {
				continue
			}
			switch concerned, asked := asksFor(typ, prior, planned, guests, off); {
			case asked:
				w.power.asked[off] = true
			case concerned:
				w.power.unasked[off] = true
			}
		}
	}
}

// asksFor tells whether an apply is about the guest of a power-off, and whether it asks for one of that kind.
func asksFor(typ string, prior, planned terraformtest.Value, guests []int, off pvesim.PowerOff) (concerned, asked bool) {
	if typ != "proxmox_vm" || off.Kind == state.PowerDied || off.Kind == state.PowerNode {
		return false, false
	}
	if prior.IsNull() { // a create removes its own VM
		return false, !slices.Contains(guests, off.VMID)
	}
	if terraformtest.Text(prior, "vmid") != strconv.Itoa(off.VMID) {
		return false, false
	}
	if planned.IsNull() {
		return true, off.Kind == state.PowerShutdown || off.Kind == state.PowerStop && terraformtest.Text(prior, "on_destroy.power_off") == "force"
	}
	policy, ha := terraformtest.Text(planned, "reboot_policy"), terraformtest.Text(planned, "ha.state")
	switch off.Kind {
	case state.PowerReboot:
		return true, policy != "never"
	case state.PowerStop:
		return true, policy == "force"
	case state.PowerShutdown:
		return true, terraformtest.Text(planned, "power_state") == "stopped" || ha == "stopped" || ha == "disabled"
	}
	return true, false
}

// accountForPower fails a test whose cluster had a power-off that no configuration asked for, and adds what there was to the tally.
func (w *World) accountForPower(t testing.TB) {
	w.power.mu.Lock()
	defer w.power.mu.Unlock()
	all := maps.Clone(w.power.asked)
	maps.Copy(all, w.power.unasked)
	for _, off := range w.Sim.PowerOffs() {
		all[off] = true
	}
	counts := map[state.PowerKind]int{}
	for off := range all {
		counts[off.Kind]++
		if !w.power.asked[off] && off.Kind != state.PowerDied && off.Kind != state.PowerNode && !slices.Contains(w.power.expected, off.Kind) {
			t.Errorf("VM %d went off (%s, by %s of %s) although no configuration asked for it; see ExpectPowerOffs", off.VMID, off.Kind,
				off.TaskType, off.User)
		}
	}
	if name := os.Getenv(PowerTally); name != "" && len(counts) > 0 {
		var lines strings.Builder
		for kind, n := range counts {
			lines.WriteString(strings.Repeat(string(kind)+"\n", n))
		}
		file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = file.WriteString(lines.String())
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			t.Errorf("add to the tally of power-offs: %v", err)
		}
	}
}
