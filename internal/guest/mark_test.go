package guest

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
)

func TestMarkProvesOnlyItsOwnVM(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster := rapid.StringMatching(`pve[0-9](,pve[0-9]){0,2}`).Draw(t, "cluster")
		vmid := rapid.IntRange(100, 999999999).Draw(t, "vmid")
		s := NewMark(cluster, vmid, time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "deadline"), 0))
		s.Process = rapid.SampledFrom([]string{"", "host 00000000-0000-0000-0000-000000000000 pid:[1] 1 2"}).Draw(t, "process")
		s.User = rapid.SampledFrom([]string{"", "terraform@pve"}).Draw(t, "user")
		s.Leased = rapid.Bool().Draw(t, "leased")
		if rapid.Bool().Draw(t, "restore") {
			s.Restore = time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "begun"), 0).UTC()
		}
		back, ok := ParseMark(s.String())
		if !ok || back != s {
			t.Fatalf("%q reads back as %+v, %t", s.String(), back, ok)
		}
		// PVE strips trailing newlines, and a human may add one.
		config := map[string]string{"description": s.String() + "\n"}
		if !s.Proves(vmid, config) {
			t.Fatal("does not prove its own VM")
		}
		if s.Proves(vmid+1, config) {
			t.Fatal("proves a clone under another id")
		}
		other := NewMark(cluster, vmid, s.Deadline)
		if other.Proves(vmid, config) {
			t.Fatal("proves another transaction's VM")
		}
		config["description"] = "mine\n" + s.String()
		if s.Proves(vmid, config) {
			t.Fatal("proves a description that only contains it")
		}
	})
}

func TestParseMarkRefuses(t *testing.T) {
	good := NewMark("pve1", 100, time.Unix(0, 0)).String()
	for _, text := range []string{"", "golden image", markTitle, strings.Replace(good, "vmid: 100", "vmid: x", 1),
		strings.Replace(good, "deadline: ", "deadline: never ", 1), strings.Replace(good, "cluster", "Cluster", 1), good + "\nrestore: never", good + "\nmore",
		good + "\nuser: a\nprocess: b", strings.Replace(good, "deadline: ", "lease: 1", 1), good + "\nlease: 1970-01-01T00:00:00Z"} {
		if _, ok := ParseMark(text); ok {
			t.Errorf("took %q for an ownership mark", text)
		}
	}
}

// TestParseMarkTakesExactFieldsOnly: a field of a forged mark cannot carry words of a command, or anything else that the
// provider does not write there itself.
func TestParseMarkTakesExactFieldsOnly(t *testing.T) {
	mark := NewMark("pve1,pve2", 100, time.Unix(0, 0))
	mark.Process, mark.User = "host 00000000-0000-0000-0000-000000000000 pid:[1] 1 2", "terraform@pve"
	good := mark.String()
	if _, ok := ParseMark(good); !ok {
		t.Fatal("refuses a good mark")
	}
	for key, values := range map[string][]string{
		sagaKey:     {"", "x /dev/null; id >  ; #", "0123456789ABCDEF", "0123456789abcdef0", "0123456789abcde", "$(id)0123456789ab"},
		clusterKey:  {"", "pve1 pve2", "pve1,", "pve1;id", "pve1\x1b[2J"},
		vmidKey:     {"0100", "+100", "99", "1000000000", "-100", "1e3"},
		deadlineKey: {"1970-01-01T01:00:00+01:00", "1970-01-01T00:00:00.5Z", "1970-01-01 00:00:00Z"},
		processKey: {"", "host", "host boot pid:[1] 1 2", "host 00000000-0000-0000-0000-000000000000 pid:[1] 1 2;id",
			"host 00000000-0000-0000-0000-000000000000 pid:[1] -1 2", "a\x1bb 00000000-0000-0000-0000-000000000000 pid:[1] 1 2"},
		userKey: {"", "terraform", "a b@pve", "a:b@pve", "a/b@pve", "a\x1b@pve", "a@pve ", "a@pve\x1b"},
	} {
		at := strings.Index(good, "\n"+key) + 1
		end := at + strings.Index(good[at:]+"\n", "\n")
		for _, value := range values {
			if _, ok := ParseMark(good[:at] + key + value + good[end:]); ok {
				t.Errorf("took %q for the field %q of a mark", value, key)
			}
		}
	}
}

// TestZombieIsDead: a provider that was killed together with its Terraform counted as alive until its parent reaped
// it, which the first process of a container may never do. Its VM was then never taken back.
func TestZombieIsDead(t *testing.T) {
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
	mark := Mark{Process: strings.Join(fields, " ")}
	if got := mark.life(me); got != Alive {
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
	if got := mark.life(me); got != Dead {
		t.Errorf("a process that was killed, and that its parent has not waited for: %v (%v)", got, err)
	}
}
