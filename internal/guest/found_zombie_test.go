package guest

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
)

// TestFoundZombieIsDead: a provider that was killed together with its Terraform counted as alive for as long as nobody asked how it had
// ended, which the first process of a container may never do. Its VM was then never taken back.
func TestFoundZombieIsDead(t *testing.T) {
	me := thisProcess()
	fields := strings.Fields(me)
	if len(fields) != 5 {
		t.Skipf("this system does not tell about processes: %q", me)
	}
	child := exec.CommandContext(t.Context(), "sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Wait() })
	pid := child.Process.Pid
	start, err := startOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	fields[3], fields[4] = strconv.Itoa(pid), start
	mark := Stamp{Process: strings.Join(fields, " ")}
	if got := mark.life(me); got != Alive {
		t.Errorf("a process at work: %v", got)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 1000 { // it ends at its own time, and stays in the list, since nobody has waited for it
		if _, err = startOf(pid); errors.Is(err, os.ErrProcessDone) {
			break
		}
		clock.Real{}.Sleep(time.Millisecond)
	}
	if got := mark.life(me); got != Dead {
		t.Errorf("a process that was killed, and that nobody has waited for: %v (%v)", got, err)
	}
}
