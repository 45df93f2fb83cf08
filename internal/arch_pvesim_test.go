package internal_test

import (
	"slices"
	"testing"
)

// rooms are the packages of the simulator, outermost first. A package may import those of later rows, never those of its
// own row or of earlier ones, and nothing of the provider: the oracle shares no code with the accused.
var rooms = [][]string{
	{"internal/pvesim"},
	{"internal/pvesim/sshd"},
	{"internal/pvesim/server"},
	{"internal/pvesim/control", "internal/pvesim/qemu/console", "internal/pvesim/qemu/status", "internal/pvesim/shell"},
	{"internal/pvesim/container", "internal/pvesim/ha", "internal/pvesim/qemu/lifecycle"},
	{"internal/pvesim/cluster", "internal/pvesim/migrate", "internal/pvesim/snapshot"},
	{"internal/pvesim/qemu/clone", "internal/pvesim/qemu/power", "internal/pvesim/thirdparty/act"},
	{"internal/pvesim/qemu/agent", "internal/pvesim/qemu/config", "internal/pvesim/storage"},
	{"internal/pvesim/firewall", "internal/pvesim/proxy", "internal/pvesim/qemu/drive"},
	{"internal/pvesim/access", "internal/pvesim/qemu/guest", "internal/pvesim/storage/appliance", "internal/pvesim/task", "internal/pvesim/volume"},
	{"internal/pvesim/engine"},
	{"internal/pvesim/auth", "internal/pvesim/capture", "internal/pvesim/statistics", "internal/pvesim/world"},
	{"internal/pvesim/schema", "internal/pvesim/state", "internal/pvesim/thirdparty"},
	{"internal/pvesim/clock", "internal/pvesim/encode", "internal/pvesim/fault", "internal/pvesim/perl", "internal/pvesim/release"},
}

// room gives the row of a package in rooms, or -1.
func room(pkg string) int {
	return slices.IndexFunc(rooms, func(row []string) bool { return slices.Contains(row, pkg) })
}

// TestRooms tries the rule for the rooms of the simulator.
func TestRooms(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"internal/pvesim", "internal/pvesim/qemu/power", true},
		{"internal/pvesim/qemu/power", "internal/pvesim/qemu/config", true},
		{"internal/pvesim/qemu/config", "internal/pvesim/qemu/power", false},
		{"internal/pvesim/engine", "internal/pvesim/proxy", false},
		{"internal/pvesim/snapshot", "internal/pvesim/migrate", false},
		{"internal/pvesim/server", "internal/vm", false},
		{"internal/pvesim/new", "internal/pvesim/state", false},
		{"internal/pvesim/state", "internal/pvesim/new", false},
	} {
		if got := mayImport(c.from, c.to, false); got != c.want {
			t.Errorf("mayImport(%s, %s) = %t", c.from, c.to, got)
		}
	}
}
