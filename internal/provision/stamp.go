package provision

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// stampTitle opens the description of a VM whose create has not been committed yet.
const stampTitle = "Terraform is creating this VM. Do not touch it."

// stamp marks a VM as uncommitted work of one transaction. It is the whole description until the commit puts the wanted
// one in its place. Clones and backups copy descriptions, so it counts only on the VMID that it names.
type stamp struct {
	Cluster  string // names of the nodes, sorted: what every identity can see of a cluster
	VMID     int
	TX       string
	Deadline time.Time // on the server's clock
}

func newStamp(cluster string, vmid int, deadline time.Time) stamp {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails, see crypto/rand
	return stamp{Cluster: cluster, VMID: vmid, TX: hex.EncodeToString(id), Deadline: deadline.UTC().Truncate(time.Second)}
}

// String is the description to send.
func (s stamp) String() string {
	return fmt.Sprintf("%s\n\ncluster: %s\nvmid: %d\ntransaction: %s\ndeadline: %s",
		stampTitle, s.Cluster, s.VMID, s.TX, s.Deadline.Format(time.RFC3339))
}

// parseStamp reads a stamp back. It is false for any description that is not entirely one.
func parseStamp(description string) (stamp, bool) {
	lines := strings.Split(strings.TrimRight(description, "\n"), "\n")
	if len(lines) != 6 || lines[0] != stampTitle || lines[1] != "" {
		return stamp{}, false
	}
	var values [4]string
	for i, key := range []string{"cluster: ", "vmid: ", "transaction: ", "deadline: "} {
		value, ok := strings.CutPrefix(lines[i+2], key)
		if !ok {
			return stamp{}, false
		}
		values[i] = value
	}
	vmid, err := strconv.Atoi(values[1])
	if err != nil {
		return stamp{}, false
	}
	deadline, err := time.Parse(time.RFC3339, values[3])
	if err != nil {
		return stamp{}, false
	}
	return stamp{Cluster: values[0], VMID: vmid, TX: values[2], Deadline: deadline}, true
}

// proves reports whether a configuration that was read under vmid is the one this stamp marks.
func (s stamp) proves(vmid int, config map[string]string) bool {
	found, ok := parseStamp(config["description"])
	return ok && found.VMID == vmid && s.VMID == vmid && found.TX == s.TX && found.Cluster == s.Cluster
}
