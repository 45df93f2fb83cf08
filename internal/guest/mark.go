package guest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// markTitle opens the description of a VM whose create has not been committed yet.
const markTitle = "Terraform is creating this VM. Do not touch it."

// Lease is how long a create that shows no other sign of life counts as alive. While it works it renews its mark, or
// a task of its VM runs.
const Lease = 2 * time.Minute

// Mark is the ownership mark: it shows that a VM is the uncommitted work of one create. It is the whole description
// until the commit puts the wanted one in its place. Clones and backups copy descriptions, so it counts only on the
// VMID that it names.
type Mark struct {
	Cluster  string // names of the nodes, sorted: what every identity can see of a cluster
	VMID     int
	Saga     string
	Deadline time.Time // on the server's clock
	// Leased: the deadline is the end of a lease, which a run that lives renews. Otherwise it is when all is over, as
	// earlier releases wrote it, and as it is where the VM is to be kept.
	Leased bool
	// Process is the one that makes the VM, "" if that is not known.
	Process string
	// User is the identity that makes it, without its token; "" if that is not known.
	User string
	// Restore is when the restore of a backup began that makes it, also on the server's clock; zero if none does.
	Restore time.Time
}

// NewMark marks the VM of a new saga.
func NewMark(cluster string, vmid int, deadline time.Time) Mark {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails, see crypto/rand
	return Mark{Cluster: cluster, VMID: vmid, Saga: hex.EncodeToString(id), Deadline: deadline.UTC().Truncate(time.Second)}
}

// The keys of a mark's lines, in their order.
const (
	clusterKey  = "cluster: "
	vmidKey     = "vmid: "
	sagaKey     = "transaction: "
	deadlineKey = "deadline: "
	leaseKey    = "lease: " // in the place of deadline
	processKey  = "process: "
	userKey     = "user: "
	restoreKey  = "restore: "
)

// String is the description to send.
func (s Mark) String() string {
	until := deadlineKey
	if s.Leased {
		until = leaseKey
	}
	lines := []string{markTitle, "", clusterKey + s.Cluster, vmidKey + strconv.Itoa(s.VMID), sagaKey + s.Saga,
		until + s.Deadline.UTC().Format(time.RFC3339)}
	if s.Process != "" {
		lines = append(lines, processKey+s.Process)
	}
	if s.User != "" {
		lines = append(lines, userKey+s.User)
	}
	if !s.Restore.IsZero() {
		lines = append(lines, restoreKey+s.Restore.UTC().Format(time.RFC3339))
	}
	return strings.Join(lines, "\n")
}

// The exact forms of a mark's fields. Each user with VM.Config.Options writes descriptions, and fields of a mark stand
// in messages and in commands for root. Names of nodes: pve-common JSONSchema.pm, pve_verify_node_name;
// users: pve-access-control Auth/Plugin.pm, verify_username (1ef6c8f).
var (
	sagaForm    = regexp.MustCompile(`^[0-9a-f]{16}$`)
	clusterForm = regexp.MustCompile(`^[A-Za-z0-9-]+(?:,[A-Za-z0-9-]+)*$`)
	processForm = regexp.MustCompile(`^[A-Za-z0-9._-]+ [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12} pid:\[\d+\] \d+ \d+$`)
	userForm    = regexp.MustCompile(`^[^\s:/[:cntrl:]]+@[A-Za-z][A-Za-z0-9._-]+$`)
)

// isExact reports whether each field has its exact form.
func (s Mark) isExact() bool {
	return sagaForm.MatchString(s.Saga) && clusterForm.MatchString(s.Cluster) && s.VMID >= 100 && s.VMID <= 999999999 &&
		(s.Process == "" || processForm.MatchString(s.Process)) && (s.User == "" || userForm.MatchString(s.User))
}

// markReader takes the lines of a mark one after the other.
type markReader struct {
	lines []string
	bad   bool
}

// optional is the value of the next line if it has this key.
func (s *markReader) optional(key string) (string, bool) {
	if len(s.lines) == 0 {
		return "", false
	}
	value, ok := strings.CutPrefix(s.lines[0], key)
	if !ok {
		return "", false
	}
	s.lines = s.lines[1:]
	return value, true
}

func (s *markReader) must(key string) string {
	value, ok := s.optional(key)
	s.bad = s.bad || !ok
	return value
}

func (s *markReader) time(value string) time.Time {
	at, err := time.Parse(time.RFC3339, value)
	s.bad = s.bad || err != nil
	return at
}

// ParseMark reads a mark back. It is false for any description that is not entirely one, or has a field of another form
// than the provider writes.
func ParseMark(description string) (Mark, bool) {
	description = strings.TrimRight(description, "\n")
	text, ok := strings.CutPrefix(description, markTitle+"\n\n")
	if !ok {
		return Mark{}, false
	}
	r := &markReader{lines: strings.Split(text, "\n")}
	s := Mark{Cluster: r.must(clusterKey)}
	var err error
	s.VMID, err = strconv.Atoi(r.must(vmidKey))
	s.Saga = r.must(sagaKey)
	until, leased := r.optional(leaseKey)
	if s.Leased = leased; !leased {
		until = r.must(deadlineKey)
	}
	s.Deadline = r.time(until)
	s.Process, _ = r.optional(processKey)
	s.User, _ = r.optional(userKey)
	if began, ok := r.optional(restoreKey); ok {
		s.Restore = r.time(began)
	}
	if r.bad || err != nil || len(r.lines) > 0 || !s.isExact() || s.String() != description {
		return Mark{}, false
	}
	return s, true
}

// IsKept reports whether the leftovers of a failed create are to stay, for its user to examine: then the mark has no
// end.
func (s Mark) IsKept(now time.Time) bool { return s.Deadline.After(now.AddDate(100, 0, 0)) }

// Proves reports whether a configuration that was read under vmid is the one this mark marks.
func (s Mark) Proves(vmid int, config map[string]string) bool {
	found, ok := ParseMark(config["description"])
	return ok && found.VMID == vmid && s.VMID == vmid && found.Saga == s.Saga && found.Cluster == s.Cluster
}

// Life is what is known of the process that made a mark.
type Life int

// Lives of a process.
const (
	Unsure Life = iota // it is on another host, or this system does not tell
	Alive
	Dead
)

// thisProcess names this process so that no other one that can see it has the same name: host, boot, name space of
// process ids, id, start. It is "" where the system does not tell all of that.
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
	name := fmt.Sprintf("%s %s %s %d %s", host, strings.TrimSpace(string(boot)), space, os.Getpid(), start)
	if !processForm.MatchString(name) {
		return "" // a mark that bore it could not be read back
	}
	return name
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

// life is what the process with this name knows of the one that made the mark. Of one on another host, in another
// container or before a boot of the host it knows nothing.
func (s Mark) life(process string) Life {
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
