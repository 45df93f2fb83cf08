package guest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Life is what is known of the process that made a stamp.
type Life int

// What can be known of a process.
const (
	Unsure Life = iota // it is on another host, or this system does not tell
	Alive
	Dead
)

// thisProcess names this process so that no other one that can see it has the same name: host, boot, name space of process ids,
// id, start. It is "" where the system does not tell all of that.
func thisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	start, err := startOf(os.Getpid())
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %s %s %d %s", host, strings.TrimSpace(string(boot)), space, os.Getpid(), start)
}

// startOf is when a process began, in ticks since the boot (proc(5), /proc/PID/stat field 22). The name of its program may
// contain anything but comes second, in parentheses.
func startOf(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const start = 22 - 3
	if len(fields) <= start {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields)+2)
	}
	return fields[start], nil
}

// LifeOf tells what is known of the process that made a stamp. Of one on another host, in another container or before a boot of
// the host nothing is.
func (s *Guests) LifeOf(mark Stamp) Life {
	theirs, ours := strings.Fields(mark.Process), strings.Fields(s.Process)
	if len(theirs) != 5 || len(ours) != 5 || theirs[1] != ours[1] || theirs[2] != ours[2] {
		return Unsure
	}
	pid, err := strconv.Atoi(theirs[3])
	if err != nil || pid <= 0 {
		return Unsure
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return Unsure
	}
	if err := process.Signal(syscall.Signal(0)); errors.Is(err, os.ErrProcessDone) {
		return Dead
	}
	switch start, err := startOf(pid); {
	case err != nil:
		return Unsure
	case start != theirs[4]:
		return Dead // another process has its id
	}
	return Alive
}
