package guest

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
)

// elsewhere names a process of another machine.
const elsewhere = "elsewhere 0123456789abcdef pid:[1] 1 1"

// thisOne is the name of this process, in its fields.
func thisOne(t *testing.T) []string {
	t.Helper()
	fields := strings.Fields(thisProcess())
	if len(fields) != 5 {
		t.Skipf("this system does not tell its processes apart, so there is nothing to be told: %q", fields)
	}
	return fields
}

// altered is the name of a process that differs in one field.
func altered(fields []string, at int, value string) string {
	fields = append([]string{}, fields...)
	fields[at] = value
	return strings.Join(fields, " ")
}

// ended is the name of a process of this host that has ended.
func ended(t *testing.T) string {
	t.Helper()
	return altered(thisOne(t), 4, "1") // this one's id, used again
}

// TestLifeOf: this process lives; one that has its id and another start is dead; of others nothing is known.
func TestLifeOf(t *testing.T) {
	own := thisOne(t)
	this := strings.Join(own, " ")
	for name, c := range map[string]struct {
		process string
		want    Life
	}{
		"this one":             {this, Alive},
		"its id, used again":   {altered(own, 4, "1"), Dead},
		"an id that none has":  {altered(own, 3, "4194400"), Dead},
		"on another host":      {altered(own, 0, "elsewhere"), Unsure},
		"before a boot":        {altered(own, 1, "0000000000000000"), Unsure},
		"in another container": {altered(own, 2, "pid:[1]"), Unsure},
		"not a number":         {altered(own, 3, "x"), Unsure},
		"all of them":          {altered(own, 3, "-1"), Unsure},
		"its own group":        {altered(own, 3, "0"), Unsure},
		"a field too many":     {this + " 1", Unsure},
		"a field too few":      {strings.Join(own[:4], " "), Unsure},
		"unknown":              {"", Unsure},
	} {
		s := &Guests{Runs: &Runs{Process: this}}
		if got := s.LifeOf(ownership.Mark{Process: c.process}); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if s.Process = ""; s.LifeOf(ownership.Mark{Process: c.process}) != Unsure {
			t.Errorf("%s: a run that does not know its own process knows no other", name)
		}
	}
	if _, err := startOf(os.Getpid()); err != nil {
		t.Error(err)
	}
}

// TestProcessFitsIntoAMark: the name of this process can be read back, and does not tell the id of this boot, with which
// an identity without a token signs.
func TestProcessFitsIntoAMark(t *testing.T) {
	this := strings.Join(thisOne(t), " ")
	w := newWorld(t, nil)
	mark := w.s.NewMark("pve1,pve2", theVM)
	if back, ok := ownership.Parse(mark.String()); !ok || back.Process != this || w.s.LifeOf(back) != Alive {
		t.Errorf("%q reads back as %q, %t", mark, back.Process, ok)
	}
	if boot := bootOf(); boot == "" || strings.Contains(mark.String(), boot) {
		t.Errorf("the boot %q stands in %q", boot, mark)
	}
}

// TestZombieIsDead: a provider that was killed together with its Terraform counted as alive until its parent reaped
// it, which the first process of a container may never do. Its VM was then never taken back.
func TestZombieIsDead(t *testing.T) {
	fields := thisOne(t)
	me := strings.Join(fields, " ")
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
	process := strings.Join(fields, " ")
	if got := lifeOf(process, me); got != Alive {
		t.Errorf("a process at work: %v", got)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 1000 { // it ends at its own time, and stays in the list, since its parent has not waited for it
		if _, err = startOf(pid); errors.Is(err, os.ErrProcessDone) {
			break
		}
		clock.Real{}.Sleep(time.Millisecond)
	}
	if got := lifeOf(process, me); got != Dead {
		t.Errorf("a process that was killed, and that its parent has not waited for: %v (%v)", got, err)
	}
}
