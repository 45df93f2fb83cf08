package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Life is what is known of the process that made a mark. Two micro-VMs that were resumed from one memory snapshot
// differ in their host names only, so each needs one of its own.
type Life int

// Lives of a process.
const (
	Unsure Life = iota // it is on another host, or this system does not tell
	Alive
	Dead
)

// bootOf is the id of this boot, which other hosts do not know; "" where the system has none.
func bootOf() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot))
}

// thisProcess names this process so that no other one that can see it has the same name: host, boot, name space of
// process ids, id, start. The boot is a digest: its id stays on this host. It is "" where the system does not tell all
// of that.
func thisProcess() string {
	host, err := os.Hostname()
	boot := bootOf()
	if err != nil || boot == "" {
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
	sum := sha256.Sum256([]byte(boot))
	return fmt.Sprintf("%s %s %s %d %s", host, hex.EncodeToString(sum[:8]), space, os.Getpid(), start)
}

// startOf is when a process began, in ticks since the boot (proc(5), /proc/PID/stat field 22). The name of its
// program may contain anything but comes second, in parentheses, and the state third. One that has ended stays in the
// list until its parent asks how; the first process of a container, which adopts those whose parent was killed, may
// never do.
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
	if state := fields[0]; state == "Z" || state == "X" {
		return "", os.ErrProcessDone
	}
	return fields[start], nil
}

// lifeOf is what the process with one name knows of the process with another name. Of one on another host, in another
// container or before a boot of the host it knows nothing.
func lifeOf(process, observer string) Life {
	theirs, mine := strings.Fields(process), strings.Fields(observer)
	if len(theirs) != 5 || len(mine) != 5 || [3]string(theirs[:3]) != [3]string(mine[:3]) {
		return Unsure
	}
	pid, err := strconv.Atoi(theirs[3])
	if err != nil || pid <= 0 {
		return Unsure
	}
	found, err := os.FindProcess(pid)
	if err != nil {
		return Unsure
	}
	if err := found.Signal(syscall.Signal(0)); errors.Is(err, os.ErrProcessDone) {
		return Dead
	}
	switch start, err := startOf(pid); {
	case errors.Is(err, os.ErrProcessDone):
		return Dead
	case err != nil:
		return Unsure
	case start != theirs[4]:
		return Dead // another process has its id
	}
	return Alive
}
