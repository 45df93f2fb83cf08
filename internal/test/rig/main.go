package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Main runs the tests of a package and ends the process. It adds up the power-offs of all tests. The packages of a run share the
// machine, so each limits its memory.
func Main(m *testing.M) {
	debug.SetGCPercent(800)       // much short-lived garbage, little that stays
	debug.SetMemoryLimit(3 << 30) // and a machine that other packages use too
	os.Exit(tallied(m))
}

func tallied(m *testing.M) int {
	dir, err := os.MkdirTemp("", "power-offs")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	name := filepath.Join(dir, "tally")
	if err := os.Setenv(PowerTally, name); err != nil {
		fmt.Println(err)
		return 1
	}
	code := m.Run()
	text, err := os.ReadFile(name)
	if err != nil || !testing.Verbose() {
		return code
	}
	line := "power-offs of guests in all tests:"
	for _, kind := range []state.PowerKind{state.PowerShutdown, state.PowerReboot, state.PowerStop, state.PowerReset,
		state.PowerSuspend, state.PowerRollback, state.PowerDied, state.PowerNode} {
		if n := strings.Count(string(text), string(kind)+"\n"); n > 0 {
			line += fmt.Sprintf(" %d %s", n, kind)
		}
	}
	fmt.Println(line)
	return code
}
