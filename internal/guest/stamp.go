package guest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stampTitle opens the description of a VM whose create has not been committed yet.
const stampTitle = "Terraform is creating this VM. Do not touch it."

// restoreKey begins the last line of the stamp of a VM that is made of a backup.
const restoreKey = "restore: "

// Stamp marks a VM as uncommitted work of one transaction. It is the whole description until the commit puts the wanted
// one in its place. Clones and backups copy descriptions, so it counts only on the VMID that it names.
type Stamp struct {
	Cluster  string // names of the nodes, sorted: what every identity can see of a cluster
	VMID     int
	TX       string
	Deadline time.Time // on the server's clock
	// Process is the one that makes the VM, "" if that is not known.
	Process string
	// Restore is when the restore of a backup began that makes it, also on the server's clock; zero if none does.
	Restore time.Time
}

// NewStamp marks the VM of a new transaction.
func NewStamp(cluster string, vmid int, deadline time.Time) Stamp {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails, see crypto/rand
	return Stamp{Cluster: cluster, VMID: vmid, TX: hex.EncodeToString(id), Deadline: deadline.UTC().Truncate(time.Second)}
}

// String is the description to send.
func (s Stamp) String() string {
	text := fmt.Sprintf("%s\n\ncluster: %s\nvmid: %d\ntransaction: %s\ndeadline: %s",
		stampTitle, s.Cluster, s.VMID, s.TX, s.Deadline.Format(time.RFC3339))
	if s.Process != "" {
		text += "\nprocess: " + s.Process
	}
	if !s.Restore.IsZero() {
		text += "\n" + restoreKey + s.Restore.Format(time.RFC3339)
	}
	return text
}

// ParseStamp reads a stamp back. It is false for any description that is not entirely one.
func ParseStamp(description string) (Stamp, bool) {
	lines := strings.Split(strings.TrimRight(description, "\n"), "\n")
	var restore time.Time
	if last, ok := strings.CutPrefix(lines[len(lines)-1], restoreKey); ok {
		var err error
		if restore, err = time.Parse(time.RFC3339, last); err != nil {
			return Stamp{}, false
		}
		lines = lines[:len(lines)-1]
	}
	if len(lines) < 6 || len(lines) > 7 || lines[0] != stampTitle || lines[1] != "" {
		return Stamp{}, false
	}
	var values [4]string
	for i, key := range []string{"cluster: ", "vmid: ", "transaction: ", "deadline: "} {
		value, ok := strings.CutPrefix(lines[i+2], key)
		if !ok {
			return Stamp{}, false
		}
		values[i] = value
	}
	vmid, err := strconv.Atoi(values[1])
	if err != nil {
		return Stamp{}, false
	}
	deadline, err := time.Parse(time.RFC3339, values[3])
	if err != nil {
		return Stamp{}, false
	}
	process := ""
	if len(lines) == 7 {
		var ok bool
		if process, ok = strings.CutPrefix(lines[6], "process: "); !ok {
			return Stamp{}, false
		}
	}
	return Stamp{Cluster: values[0], VMID: vmid, TX: values[2], Deadline: deadline, Process: process, Restore: restore}, true
}

// Proves reports whether a configuration that was read under vmid is the one this stamp marks.
func (s Stamp) Proves(vmid int, config map[string]string) bool {
	found, ok := ParseStamp(config["description"])
	return ok && found.VMID == vmid && s.VMID == vmid && found.TX == s.TX && found.Cluster == s.Cluster
}

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
// contain anything but comes second, in parentheses, and the state third. One that has ended stays in the list until its parent asks
// how; the first process of a container, which adopts those whose parent was killed, may never do.
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

// life is what the process with this name knows of the one that made the stamp. Of one on another host, in another container or
// before a boot of the host it knows nothing.
func (s Stamp) life(process string) Life {
	theirs, mine := strings.Fields(s.Process), strings.Fields(process)
	if len(theirs) != 5 || len(mine) != 5 || theirs[1] != mine[1] || theirs[2] != mine[2] {
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
