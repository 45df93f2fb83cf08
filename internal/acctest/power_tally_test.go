// The post-quantum half of a TLS handshake costs more than most requests to a cluster in memory, and protects nothing here.
//
//go:debug tlsmlkem=0
package acctest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestMain adds up the power-offs of all tests.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)       // much short-lived garbage, little that stays
	debug.SetMemoryLimit(8 << 30) // and a machine that others use too
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
	if err := os.Setenv(acctest.PowerTally, name); err != nil {
		fmt.Println(err)
		return 1
	}
	code := m.Run()
	text, err := os.ReadFile(name)
	if err != nil || !testing.Verbose() {
		return code
	}
	line := "power-offs of guests in all tests:"
	for _, kind := range []state.PowerKind{state.PowerShutdown, state.PowerReboot, state.PowerStop, state.PowerReset, state.PowerSuspend, state.PowerRollback, state.PowerDied, state.PowerNode} {
		if n := strings.Count(string(text), string(kind)+"\n"); n > 0 {
			line += fmt.Sprintf(" %d %s", n, kind)
		}
	}
	fmt.Println(line)
	return code
}
