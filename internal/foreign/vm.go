package foreign

import (
	"slices"
	"strings"
	"time"
)

// VM is what another provider's state says of a VM that a server does not say.
type VM struct {
	VMID int64
	Node string // where it was when that provider looked last

	// What tells whether the VM at that id is still the one in the state; each may be missing.
	UUID string   // of SMBIOS, in lower case
	Name string   // as it was
	MACs []string // of its network devices, in upper case

	// Slots are those of the devices that it was said to have, as PVE calls them: scsi0, net0, usb0. Others were left alone. Nil: it is
	// not known.
	Slots []string

	// What was said about it beside its configuration on the server. Where it is what that provider does by default it is not here, since
	// then the state does not tell whether anybody has said so.
	Clone     *Clone
	Images    map[string]string // volume that a disk was copied from, by slot
	Nodes     []string          // that may run it
	Stopped   bool              // to be kept so
	NoReboot  bool              // no restart for a change
	OnDestroy OnDestroy
	Timeouts  Timeouts

	// Odd are the attributes that have another form than they have in the versions known here. They were not read.
	Odd []string
}

// Clone is the source of a clone. What is zero was not said, but for Full.
type Clone struct {
	VMID     int64
	Name     string
	Node     string
	Full     bool
	Snapshot string
	Storage  string
	Format   string
	BWLimit  int64 // KiB/s
	Source   int64 // VMID of what was cloned, if it is known
}

// OnDestroy is how the VM is to be destroyed.
type OnDestroy struct {
	Force          bool          // cut it off
	Timeout        time.Duration // to shut down; zero: by default
	KeepReferences bool          // in jobs and HA
}

// Timeouts limit operations; "" is by default.
type Timeouts struct{ Create, Read, Update, Delete string }

// macs are the addresses of network devices; the agent of a guest reports its loopback device as one of zeroes.
func macs(all ...string) []string {
	var found []string
	for _, mac := range all {
		if mac = strings.ToUpper(mac); mac != "" && mac != "00:00:00:00:00:00" && !slices.Contains(found, mac) {
			found = append(found, mac)
		}
	}
	return found
}

// timeouts are a block or an attribute of the plugin libraries.
func timeouts(o object) Timeouts {
	return Timeouts{Create: o.text("create"), Read: o.text("read"), Update: o.text("update"), Delete: o.text("delete")}
}

// firstOf is the first that is not zero.
func firstOf[V comparable](all ...V) (first V) {
	for _, v := range all {
		if first == *new(V) {
			first = v
		}
	}
	return first
}
