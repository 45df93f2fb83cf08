// Package state holds a Proxmox VE cluster as a value: nodes, guests, storages, volumes, pools, identities, tasks.
//
// It knows no HTTP and no request. To touch a World, hold its mutex; package engine does so around every
// request and every step of a task.
package state

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Clock tells and passes the cluster's time. Tests inject one that advances by itself, so that PVE's waits cost
// nothing.
type Clock interface {
	Now() time.Time
	// Sleep returns after d on this clock.
	Sleep(d time.Duration)
}

// World is one cluster. The embedded mutex guards everything in it.
type World struct {
	sync.Mutex
	Clock   Clock
	Profile string // "8.0", "8.4", "9.0", "9.2": the release that it answers as

	Nodes    map[string]*Node
	Guests   map[int]*Guest      // by VMID, virtual machines and containers alike
	Storages map[string]*Storage // by storage id
	Volumes  Volumes
	Pools    map[string]*Pool
	HA       map[string]*HAResource // by sid, "vm:100"
	Firewall map[int]*FirewallFile  // /etc/pve/firewall/<vmid>.fw, by VMID; may outlive its guest
	Users    map[string]*User       // by "user@realm"
	Tokens   map[string]*Token      // by "user@realm!id"
	Groups   map[string]*Group      // by id
	Roles    map[string][]string    // role id -> privileges
	ACL      []ACLEntry
	Tasks    map[string]*Task // by UPID, finished ones too
	Datacenter

	Replication map[string]*ReplicationJob   // by id, "100-0"
	Backups     map[string]*BackupJob        // by id
	HAGroups    map[string]*HAGroup          // by id
	HARules     map[string]map[string]string // by id: type, resources, nodes …
	Mappings    []*Mapping                   // resource mappings
	// HARound is how long the HA manager takes until it acts on a request; zero is DefaultHARound, negative at once.
	HARound time.Duration
	Observed
	// ThirdParties says what belongs to third parties. No snapshot holds it.
	ThirdParties ThirdParties

	rng *rand.Rand
	// names are volume names that were taken apart, since Check asks for the same ones after every request.
	names map[parsedName]VolumeName
}

// Observed is what observers of a World see. No snapshot holds it.
type Observed struct {
	// HALog is what the HA manager said, oldest first.
	HALog []string
	// ClusterLog is the cluster's log, oldest first. LatestLog has what PVE keeps of it.
	ClusterLog []LogEntry
	logged     int
	// PowerOffs are the power-offs and restarts of guests, in order.
	PowerOffs []PowerOff
	// Asked is told of each privilege that a request is asked for; nil for no one.
	Asked func(Question)
	// Served is told of each request that has been served, by its number, its method and its path in the API's
	// description, before its answer is sent; nil for no one.
	Served func(seq int, method, path string)
}

// Question is a privilege that a request of an identity is asked for on a path; one of several is enough.
type Question struct {
	Identity, Path string
	AnyOf          []string
	Held           bool
	Soft           bool // without it the answer leaves things out, or another path is asked
}

type parsedName struct{ storageType, name string }

// Node is one member of the cluster.
type Node struct {
	Name    string   `json:"name"`
	Address string   `json:"address"`
	Online  bool     `json:"online"`
	Release string   `json:"release,omitempty"` // in the middle of an upgrade: that of the node; "" is the world's
	CPUs    int      `json:"cpus"`
	Memory  int64    `json:"memory"`  // bytes
	Bridges []string `json:"bridges"` // interface names of type bridge
	// VLANAware are those of the bridges that tell VLANs apart.
	VLANAware []string `json:"vlan_aware,omitempty"`
	// MTUs are those of bridges that have another than 1500.
	MTUs map[string]int64 `json:"mtus,omitempty"`
	// Maintenance is for a node that HA's manager takes its services from (ha-manager crm-command node-maintenance).
	Maintenance bool `json:"maintenance,omitempty"`
	// Silent is for a node whose pvestatd hangs: it does what it is told, and nothing of it is in listings.
	Silent bool `json:"silent,omitempty"`
	// Unreached is for a node whose pveproxy hangs or is stopped: the cluster counts it as online, and no request gets
	// through to it.
	Unreached bool `json:"unreached,omitempty"`
	// NoUplink is for a node whose bridges have neither a network card nor an address, Isolated are bridges without one.
	NoUplink bool     `json:"no_uplink,omitempty"`
	Isolated []string `json:"isolated,omitempty"`
	// Lacks are programs that the node has not: "sendmail", without which it makes no backup.
	Lacks []string `json:"lacks,omitempty"`
	// CGroupV1 is for a node that still uses the old control groups, which bound cpuunits otherwise.
	CGroupV1 bool `json:"cgroup_v1,omitempty"`
	// Hostname is what uname prints, where that has a domain; "" is Name.
	Hostname string `json:"hostname,omitempty"`
	// Certificate tells the node's certificate from that of another cluster's node of the same name, and from an older
	// one.
	Certificate string `json:"certificate,omitempty"`
	// LoginText is what root's login shell prints before each command, as a .bashrc with an echo does.
	LoginText string `json:"login_text,omitempty"`
	// ClockAhead is how far the node's clock is ahead of the world's, negative where it is behind.
	ClockAhead time.Duration `json:"clock_ahead,omitempty"`
	// Resolver is the node's resolv.conf; nil is that of a fresh installation.
	Resolver *Resolver `json:"resolver,omitempty"`

	Files map[string]string `json:"files,omitempty"` // absolute path -> content, for SSH (import sources, snippets)
	Modes map[string]Mode   `json:"modes,omitempty"` // of those that SFTP made
}

// Guest is a virtual machine or a container with its configuration file on one node.
type Guest struct {
	VMID int    `json:"vmid"`
	Type string `json:"type"` // "qemu" or "lxc"
	Node string `json:"node"`
	// the current section, canonical as PVE stores it; includes lock, template, meta, parent
	Config  map[string]string            `json:"config"`
	Pending map[string]string            `json:"pending,omitempty"` // [PENDING] values
	Deletes map[string]int               `json:"deletes,omitempty"` // [PENDING] delete: 1, or 2 when forced
	Snaps   map[string]map[string]string `json:"snapshots,omitempty"`
	Running *Running                     `json:"running,omitempty"` // nil when stopped
	// Cloudinit is [special:cloudinit]: the values that the image was made of, where the guest has others now.
	Cloudinit map[string]string `json:"cloudinit,omitempty"`
	// Fleecing is [special:fleecing]: the images that a killed backup has left.
	Fleecing []string `json:"fleecing,omitempty"`
	// Agent scripts the guest's agent; nil is a guest whose agent answers with lo and one address per NIC.
	Agent *Agent `json:"agent,omitempty"`
	// Ignores lists what the guest's operating system does not react to: "shutdown", "unplug". A QEMU that
	// adds no drive is "plug".
	Ignores []string `json:"ignores,omitempty"`
	// ShutdownSeconds is how long the operating system takes to shut down.
	ShutdownSeconds int `json:"shutdown_seconds,omitempty"`
	// BootSeconds is how long after its start the operating system misses what it is asked.
	BootSeconds int `json:"boot_seconds,omitempty"`
	// StopWarning is a warning that every task logs that ends the guest, which makes its status "WARNINGS: 1".
	StopWarning string `json:"stop_warning,omitempty"`
	LockCause   string `json:"-"` // who may have left the lock: the UPID of a task, "state" (posted) or "api"
	// CreatedAt lets /cluster/resources lag: pvestatd reports a guest up to 10 s late.
	CreatedAt time.Time `json:"-"`
	StatusAt  time.Time `json:"-"`
}

// Running is the state of a started guest.
type Running struct {
	QMPStatus string            `json:"qmpstatus"` // running, paused, prelaunch …
	PID       int               `json:"-"`
	StartedAt time.Time         `json:"-"`
	Booted    map[string]string `json:"-"` // configuration it was started with
	Programs  int               `json:"-"` // how many the agent was asked to start
	Unplugged []string          `json:"-"` // slots whose devices it has lost while it ran, in order
	BootsFrom []string          `json:"-"` // devices that its firmware tried at its start
}

// Agent says what the guest agent answers.
type Agent struct {
	Silent       bool             `json:"silent,omitempty"`        // never answers
	DelaySeconds int              `json:"delay_seconds,omitempty"` // after the start of the guest
	Interfaces   []AgentInterface `json:"interfaces,omitempty"`    // empty: lo and every NIC
}

// AgentInterface is one entry of network-get-interfaces. An empty MAC with name "net0" stands for the MAC of that NIC.
type AgentInterface struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac"`
	Addresses []string `json:"addresses"` // CIDR
	// NoStatistics is for an agent that counts no packets of this interface.
	NoStatistics bool `json:"no_statistics,omitempty"`
}

// Storage is an entry of storage.cfg.
type Storage struct {
	ID      string   `json:"id"`
	Type    string   `json:"type"`             // dir, zfspool, lvmthin, lvm, btrfs, nfs, pbs …
	Content []string `json:"content"`          // images, iso, snippets, import, vztmpl, backup, rootdir
	Path    string   `json:"path"`             // dir: path; zfspool: pool; lvmthin: vg/thinpool; lvm: vg
	Export  string   `json:"export,omitempty"` // nfs: of the server; empty: one of its own
	Nodes   []string `json:"nodes,omitempty"`  // empty: all
	// Same is the id of the storage whose place this one names a second time; empty: it has a place of its own. PVE
	// checks neither paths nor pools for a storage that has them already (pve-storage API2/Storage/Config.pm, create).
	Same     string `json:"same,omitempty"`
	Shared   bool   `json:"shared"`
	LUN      bool   `json:"lun,omitempty"` // other nodes reach it too, whether or not it is marked as shared
	Disabled bool   `json:"disabled"`
	Offline  bool   `json:"offline"` // configured, but not reachable
	Total    int64  `json:"total"`   // bytes
	// Full makes a storage refuse what does not fit that would else take it: a thin pool, a dataset, files.
	Full bool `json:"full,omitempty"`
	// BusyFrees is how many of the next frees of a volume fail because it is busy; a negative number: all.
	BusyFrees int                        `json:"busy_frees,omitempty"`
	Options   map[string]string          `json:"options,omitempty"` // the other settings of the entry, as they were given
	Zeroed    map[string]int64           `json:"zeroed,omitempty"`  // sizes of freed volumes, by name (saferemove)
	dropped   map[string]map[string]bool // content directories that are gone, by node, until the storage is activated
}

// Volumes are all volumes, by key.
type Volumes map[VolumeKey]*Volume

// VolumeKey is where a volume lies. Node is empty on a shared storage.
type VolumeKey struct{ Storage, Node, Name string }

// Volume is an image, an ISO file, a snippet … Name is the part behind "storage:".
type Volume struct {
	Storage string `json:"storage"`
	Node    string `json:"node,omitempty"`
	Name    string `json:"name"`    // "vm-100-disk-0", "100/vm-100-disk-0.qcow2", "iso/debian.iso"
	Content string `json:"content"` // images, iso, import, snippets …
	VMID    int    `json:"vmid,omitempty"`
	Format  string `json:"format"`
	Size    int64  `json:"size"` // bytes; for content import the virtual size
	Parent  string `json:"parent,omitempty"`
	// Backing is the backing file of an image that was made by hand, as qemu-img tells it.
	Backing string `json:"backing,omitempty"`
	// Allocated is how much an inactive qcow2 volume on LVM takes: listings tell that, or nothing, and not its size.
	Allocated int64 `json:"allocated,omitempty"`
	// what identifies the content: tests compare it to see that nothing wrote here
	Data    string    `json:"data,omitempty"`
	Created time.Time `json:"-"`
	Raw     []byte    `json:"-"` // of an upload or a download: the bytes
	Mode    Mode      `json:"mode,omitempty"`
	Length  int64     `json:"-"` // of an upload whose bytes are not kept: how many there were
	// Busy makes freeing it fail with this text (a dataset in use …).
	Busy string `json:"busy,omitempty"`
	// Notes and Protected are the attributes of an archive of content backup.
	Notes     string `json:"notes,omitempty"`
	Protected bool   `json:"protected,omitempty"`
	// Unverified is the task of a backup server that could not verify it.
	Unverified string `json:"unverified,omitempty"`
	// Backup is what an archive of content backup holds.
	Backup *Backup `json:"backup,omitempty"`
	// Snaps are the snapshots taken of it, oldest first.
	Snaps []string `json:"snapshots,omitempty"`
	// Held has its snapshots stay, and the volume with them: `zfs hold`, or an administrator's clone of one.
	Held bool `json:"held,omitempty"`
	// SnapData is what the volume was when they were taken, as far as that is known.
	SnapData map[string]SnapshotData `json:"snapshot_data,omitempty"`
}

// Pool is a resource pool with its members.
type Pool struct {
	ID       string   `json:"id"`
	Comment  string   `json:"comment,omitempty"`
	Guests   []int    `json:"guests"`
	Storages []string `json:"storages,omitempty"`
}

// FirewallFile is a VM's firewall configuration.
type FirewallFile struct {
	Options map[string]string            `json:"options,omitempty"`
	Rules   []map[string]string          `json:"rules,omitempty"`
	Aliases map[string]map[string]string `json:"aliases,omitempty"` // by lower-case name: name, cidr, comment
	IPSets  map[string]*IPSet            `json:"ipsets,omitempty"`
}

// IPSet is a named list of addresses in a firewall configuration. An entry has cidr, comment and nomatch ("1").
type IPSet struct {
	Comment string              `json:"comment,omitempty"`
	Entries []map[string]string `json:"entries,omitempty"`
}

// User is an account; Password and TOTPSecret are what a login needs.
type User struct {
	ID, Password, TOTPSecret string
	TOTPStep                 int64 // the last one whose code was taken
	Disabled                 bool
	Expire                   int64

	FirstName, LastName, Email, Comment string
	Keys                                string // of a second factor, the old way

	Groups []string
}

// Group is a group of users; who is in it stands with the users.
type Group struct{ ID, Comment string }

// Token is an API token of a user. A privilege-separated one has only the rights its own ACL entries and its user's
// share.
type Token struct {
	ID, Secret string // "user@realm!name", uuid
	Separated  bool
	Expire     int64
	Comment    string
}

// ACLEntry gives a role to a user or token on a path.
type ACLEntry struct {
	Path, Subject, Role string // a group's subject begins with "@", as in user.cfg
	Propagate           bool
}

// Task is a worker, running or finished.
type Task struct {
	UPID       string    `json:"upid"`
	Node       string    `json:"node"`
	Type       string    `json:"type"`
	ID         string    `json:"id"`
	User       string    `json:"user"` // auth id: user@realm or user@realm!token
	Start      time.Time `json:"-"`
	End        time.Time `json:"-"`
	Running    bool      `json:"running"`
	ExitStatus string    `json:"exitstatus,omitempty"`
	Log        []string  `json:"-"`
	Warnings   int       `json:"-"`
}

// random is the world's own source: the same world made in the same way draws the same values.
func random(w *World) *rand.Rand {
	if w.rng == nil {
		w.rng = rand.New(rand.NewPCG(0x70766573, 0x696d))
	}
	return w.rng
}

// UUID draws a version 4 UUID.
func (w *World) UUID() string {
	a, b := random(w).Uint64(), random(w).Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		uint32(a>>32), uint16(a>>16), uint16(a)&0x0fff, 0x8000|uint16(b>>48)&0x3fff, b&0xffffffffffff)
}

// MAC draws a hardware address, upper case, with Proxmox's prefix, or before there was one any locally administered
// unicast one (pve-common Tools.pm random_ether_addr).
func (w *World) MAC() string {
	r := random(w).Uint32()
	if !w.Has(MACPrefix) {
		return fmt.Sprintf("%02X:%02X:%02X:%02X:%02X:%02X", byte(r>>24)&0xfc|0x02, byte(r>>16)^0x5a, byte(r>>12), byte(r>>8),
			byte(r>>4), byte(r))
	}
	return fmt.Sprintf("BC:24:11:%02X:%02X:%02X", byte(r>>16), byte(r>>8), byte(r))
}
