package otherstate

import (
	"slices"
	"strings"
	"time"
)

// VM holds the facts of another provider's state that a server does not tell.
type VM struct {
	VMID int64
	Node string // where it was when that provider looked last

	// The identity of the VM, to compare with the VM at that id. Each may be missing.
	UUID string   // of SMBIOS, in lower case
	Name string   // as it was
	MACs []string // of its network devices, in upper case

	// Slots are the slots of the configured devices in PVE's words: scsi0, net0, usb0. Other devices were left alone. Nil:
	// unknown.
	Slots []string

	// The configuration beside that on the server. Values that equal that provider's defaults are absent, since the state
	// does not tell whether the user has set them.
	Clone     *Clone
	Images    map[string]string // volume that a disk was copied from, by slot
	Nodes     []string          // that may run it
	Stopped   bool              // to be kept so
	NoReboot  bool              // no restart for a change
	OnDestroy OnDestroy
	Timeouts  Timeouts

	// Settings are the arguments that its configuration had set, beside those above.
	Settings []Setting

	// Odd are the attributes that have another form than in the known versions. They were not read.
	Odd []string
}

// Clone is the source of a clone. Zero values were not configured, except Full.
type Clone struct {
	VMID     int64
	Name     string
	Node     string
	Full     bool
	Snapshot string
	Storage  string
	Format   string
	BWLimit  int64 // KiB/s
	Source   int64 // VMID of the source, if it is known
}

// OnDestroy is the configured way to destroy the VM.
type OnDestroy struct {
	Force          bool          // cut it off
	Timeout        time.Duration // to shut down; zero: by default
	KeepReferences bool          // in jobs and HA
}

// Timeouts limit operations; "" is the default.
type Timeouts struct{ Create, Read, Update, Delete string }

// macs returns the addresses of network devices. A guest's agent reports its loopback device with zeros.
func macs(all ...string) []string {
	var found []string
	for _, mac := range all {
		if mac = strings.ToUpper(mac); mac != "" && mac != "00:00:00:00:00:00" && !slices.Contains(found, mac) {
			found = append(found, mac)
		}
	}
	return found
}

// timeouts reads a block or an attribute of the plugin libraries.
func timeouts(o object) Timeouts {
	return Timeouts{Create: o.text("create"), Read: o.text("read"), Update: o.text("update"), Delete: o.text("delete")}
}

// firstOf returns the first value that is not zero.
func firstOf[V comparable](all ...V) (first V) {
	for _, v := range all {
		if first == *new(V) {
			first = v
		}
	}
	return first
}
