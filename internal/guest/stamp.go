package guest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Deadline is when a create that begins now may be taken for dead, on the server's clock.
func (s *Guests) Deadline(wanted time.Duration) time.Time {
	if wanted <= 0 {
		wanted = lease
	}
	return s.Now().Add(wanted)
}

// Now is the server's time, or this machine's where that is behind or the server's is not known, since something between the two
// takes the header Date away: a create that lives is never taken for dead because one clock is ahead.
func (s *Guests) Now() time.Time {
	server, here := s.api.ServerTime(), s.clock.Now()
	if server.IsZero() || here.Before(server) {
		return here
	}
	return server
}

// Unfinished reads the stamp of a guest that a create of this provider, dead or alive, has not committed.
func (s *Guests) Unfinished(ctx context.Context, resources pve.Resources, guest pve.Resource) (Stamp, map[string]string, bool) {
	if guest.Type != "qemu" {
		return Stamp{}, nil, false
	}
	config, err := s.api.CurrentConfig(ctx, guest.Node, guest.VMID)
	if err != nil {
		return Stamp{}, nil, false
	}
	mark, ok := ParseStamp(config.Values["description"])
	return mark, config.Values, ok && mark.VMID == guest.VMID && mark.Cluster == ClusterName(resources)
}

// lease is how long a create may take before others may take its leftovers for dead.
const lease = 30 * time.Minute

// stampTitle opens the description of a VM whose create has not been committed yet.
const stampTitle = "Terraform is creating this VM. Do not touch it."

// Stamp marks a VM as uncommitted work of one transaction. It is the whole description until the commit puts the wanted
// one in its place. Clones and backups copy descriptions, so it counts only on the VMID that it names.
type Stamp struct {
	Cluster  string // names of the nodes, sorted: what every identity can see of a cluster
	VMID     int
	TX       string
	Deadline time.Time // on the server's clock
	// Process is the one that makes the VM, "" if that is not known.
	Process string
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
	return text
}

// ParseStamp reads a stamp back. It is false for any description that is not entirely one.
func ParseStamp(description string) (Stamp, bool) {
	lines := strings.Split(strings.TrimRight(description, "\n"), "\n")
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
	return Stamp{Cluster: values[0], VMID: vmid, TX: values[2], Deadline: deadline, Process: process}, true
}

// Proves reports whether a configuration that was read under vmid is the one this stamp marks.
func (s Stamp) Proves(vmid int, config map[string]string) bool {
	found, ok := ParseStamp(config["description"])
	return ok && found.VMID == vmid && s.VMID == vmid && found.TX == s.TX && found.Cluster == s.Cluster
}
