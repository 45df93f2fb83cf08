package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File is a cluster as a user describes it, in YAML or JSON (which is YAML), or as a look at a real one found it. A
// section that is left out is empty, except that storages and identities are then those of the default world: see Read.
type File struct {
	Captured *FileCapture        `yaml:"captured,omitempty"` // absent from a file written by hand
	Profile  string              `yaml:"profile,omitempty"`
	NextID   FileRange           `yaml:"next_id,omitempty"`
	Nodes    []FileNode          `yaml:"nodes,omitempty"`
	Storages []FileStorage       `yaml:"storages,omitempty"`
	Guests   []FileGuest         `yaml:"guests,omitempty"`
	Volumes  []FileVolume        `yaml:"volumes,omitempty"`
	Pools    []FilePool          `yaml:"pools,omitempty"`
	HA       []FileHA            `yaml:"ha,omitempty"`
	Firewall []FileFirewall      `yaml:"firewall,omitempty"`
	Users    []FileUser          `yaml:"users,omitempty"`
	Tokens   []FileToken         `yaml:"tokens,omitempty"`
	Roles    map[string][]string `yaml:"roles,omitempty"`
	ACL      []FileACL           `yaml:"acl,omitempty"`

	Mappings       []FileMapping     `yaml:"mappings,omitempty"`
	Replication    []FileReplication `yaml:"replication,omitempty"`
	Backups        []FileBackup      `yaml:"backups,omitempty"`
	HAGroups       []FileHAGroup     `yaml:"ha_groups,omitempty"`
	HARoundSeconds float64           `yaml:"ha_round_seconds,omitempty"`

	HARules           map[string]map[string]string `yaml:"ha_rules,omitempty"`
	CaseSensitiveTags bool                         `yaml:"case_sensitive_tags,omitempty"`
}

// FileCapture says what a world is a picture of. It is taken as it is: what is missing in it is not made up, since a
// real cluster may have a guest whose volume is gone, and the picture may lack what its maker might not see.
type FileCapture struct {
	Format  int      `yaml:"format"`           // FileFormat
	Release string   `yaml:"release"`          // pve-manager's version
	Masked  []string `yaml:"masked,omitempty"` // kinds of words that are pseudonyms
	// what could not be looked at, or has no place in a world, each with the reason
	NotSeen []string `yaml:"not_seen,omitempty"`
}

// FileFormat is the number of the format that captures have. A reader knows its own and those below.
const FileFormat = 1

// FileRange is a range of VMIDs.
type FileRange struct {
	Lower int `yaml:"lower,omitempty"`
	Upper int `yaml:"upper,omitempty"` // exclusive
}

// FileNode is a member of the cluster.
type FileNode struct {
	Name    string   `yaml:"name,omitempty"`
	Address string   `yaml:"address,omitempty"`
	Offline bool     `yaml:"offline,omitempty"`
	Release string   `yaml:"release,omitempty"` // another than the world's, in the middle of an upgrade
	CPUs    int      `yaml:"cpus,omitempty"`
	Memory  FileSize `yaml:"memory,omitempty"`
	Bridges []string `yaml:"bridges,omitempty"`

	VLANAware []string `yaml:"vlan_aware,omitempty"` // of the bridges, those that tell VLANs apart
	// ClockAheadSeconds is how far the clock of the node is ahead of the others.
	ClockAheadSeconds float64 `yaml:"clock_ahead_seconds,omitempty"`
}

// FileStorage is an entry of storage.cfg.
type FileStorage struct {
	ID       string   `yaml:"id,omitempty"`
	Type     string   `yaml:"type,omitempty"`
	Content  []string `yaml:"content,omitempty"`
	Path     string   `yaml:"path,omitempty"`
	Nodes    []string `yaml:"nodes,omitempty"`
	Shared   bool     `yaml:"shared,omitempty"`
	Disabled bool     `yaml:"disabled,omitempty"`
	Offline  bool     `yaml:"offline,omitempty"`
	Total    FileSize `yaml:"total,omitempty"`

	BusyFrees int `yaml:"busy_frees,omitempty"`
	// SameAs is the storage whose place this one names a second time.
	SameAs string `yaml:"same_as,omitempty"`
}

// FileGuest is a virtual machine or a container.
type FileGuest struct {
	VMID    int               `yaml:"vmid,omitempty"`
	Type    string            `yaml:"type,omitempty"` // qemu (default) or lxc
	Node    string            `yaml:"node,omitempty"`
	Running bool              `yaml:"running,omitempty"`
	Config  map[string]string `yaml:"config,omitempty"`
	Agent   *FileAgent        `yaml:"agent,omitempty"`
	Ignores []string          `yaml:"ignores,omitempty"`

	Paused          bool   `yaml:"paused,omitempty"`    // runs, but its processors stand still
	Suspended       bool   `yaml:"suspended,omitempty"` // saved to disk
	ShutdownSeconds int    `yaml:"shutdown_seconds,omitempty"`
	StopWarning     string `yaml:"stop_warning,omitempty"`

	Pending   map[string]string            `yaml:"pending,omitempty"`   // values that wait for the next start
	Deletes   map[string]int               `yaml:"deletes,omitempty"`   // options that go then: 1, or 2 with their volume
	Snapshots map[string]map[string]string `yaml:"snapshots,omitempty"` // configurations by name
}

// FileAgent is what a guest's agent answers.
type FileAgent struct {
	Silent       bool            `yaml:"silent,omitempty"`
	DelaySeconds int             `yaml:"delay_seconds,omitempty"`
	Interfaces   []FileInterface `yaml:"interfaces,omitempty"`
}

// FileInterface is a network interface as the agent tells it.
type FileInterface struct {
	Name      string   `yaml:"name,omitempty"`
	MAC       string   `yaml:"mac,omitempty"`
	Addresses []string `yaml:"addresses,omitempty"`

	NoStatistics bool `yaml:"no_statistics,omitempty"`
}

// FileVolume is a volume, whose name says what it is.
type FileVolume struct {
	Volume string   `yaml:"volume,omitempty"` // storage:name
	Node   string   `yaml:"node,omitempty"`   // not on a shared storage
	Size   FileSize `yaml:"size,omitempty"`
	Data   string   `yaml:"data,omitempty"`
}

// FilePool is a resource pool.
type FilePool struct {
	ID       string   `yaml:"id,omitempty"`
	Comment  string   `yaml:"comment,omitempty"`
	Guests   []int    `yaml:"guests,omitempty"`
	Storages []string `yaml:"storages,omitempty"`
}

// FileHA is a resource of the HA manager.
type FileHA struct {
	SID   string `yaml:"sid,omitempty"`
	State string `yaml:"state,omitempty"`
	Group string `yaml:"group,omitempty"`

	Options map[string]string `yaml:"options,omitempty"` // max_restart, max_relocate, comment …
}

// FileHAGroup is a group of nodes for such.
type FileHAGroup struct {
	ID         string   `yaml:"id,omitempty"`
	Nodes      []string `yaml:"nodes,omitempty"`
	Restricted bool     `yaml:"restricted,omitempty"`
	NoFailback bool     `yaml:"nofailback,omitempty"`
}

// FileMapping is a resource mapping.
type FileMapping struct {
	Kind          string   `yaml:"kind,omitempty"` // pci, usb, dir
	ID            string   `yaml:"id,omitempty"`
	Nodes         []string `yaml:"nodes,omitempty"`
	LiveMigration bool     `yaml:"live_migration,omitempty"`
}

// FileReplication is a replication job.
type FileReplication struct {
	ID       string `yaml:"id,omitempty"` // <guest>-<number>
	Target   string `yaml:"target,omitempty"`
	Schedule string `yaml:"schedule,omitempty"`
}

// FileBackup is a backup job.
type FileBackup struct {
	ID       string `yaml:"id,omitempty"`
	VMIDs    []int  `yaml:"vmids,omitempty"`
	All      bool   `yaml:"all,omitempty"`
	Exclude  []int  `yaml:"exclude,omitempty"`
	Storage  string `yaml:"storage,omitempty"`
	Schedule string `yaml:"schedule,omitempty"`
}

// FileFirewall is the firewall file of a virtual machine.
type FileFirewall struct {
	VMID    int                 `yaml:"vmid,omitempty"`
	Options map[string]string   `yaml:"options,omitempty"`
	Rules   []map[string]string `yaml:"rules,omitempty"`

	Aliases map[string]map[string]string `yaml:"aliases,omitempty"` // by lower-case name: name, cidr, comment
	IPSets  map[string]FileIPSet         `yaml:"ipsets,omitempty"`
}

// FileIPSet is a named list of addresses.
type FileIPSet struct {
	Comment string              `yaml:"comment,omitempty"`
	Entries []map[string]string `yaml:"entries,omitempty"` // cidr, comment, nomatch
}

// FileUser is an account.
type FileUser struct {
	ID       string `yaml:"id,omitempty"`
	Password string `yaml:"password,omitempty"`
	TOTP     string `yaml:"totp,omitempty"` // secret, base32
	Disabled bool   `yaml:"disabled,omitempty"`
	Expire   int64  `yaml:"expire,omitempty"` // seconds since the epoch, 0: never
}

// FileToken is an API token.
type FileToken struct {
	ID       string `yaml:"id,omitempty"`
	Secret   string `yaml:"secret,omitempty"` // a UUID
	Separate bool   `yaml:"privilege_separation,omitempty"`
	Expire   int64  `yaml:"expire,omitempty"`
}

// FileACL is an entry of the access list.
type FileACL struct {
	Path      string `yaml:"path,omitempty"`
	Subject   string `yaml:"subject,omitempty"`
	Role      string `yaml:"role,omitempty"`
	Propagate *bool  `yaml:"propagate,omitempty"` // default true
}

// FileSize is bytes, written as a number, or as one with the unit K, M, G or T (powers of 1024).
type FileSize int64

// UnmarshalYAML reads "32G" and 34359738368 alike.
func (s *FileSize) UnmarshalYAML(n *yaml.Node) error {
	if err := s.Parse(n.Value); err != nil || n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: %q is not a size: a whole number, perhaps with K, M, G or T", n.Line, n.Value)
	}
	return nil
}

// MarshalYAML writes "32G" rather than 34359738368.
func (s FileSize) MarshalYAML() (any, error) {
	for i, unit := range []string{"T", "G", "M", "K"} {
		if factor := FileSize(1) << (10 * (4 - i)); s != 0 && s%factor == 0 {
			return strconv.FormatInt(int64(s/factor), 10) + unit, nil
		}
	}
	return int64(s), nil
}

// Parse reads what UnmarshalYAML reads.
func (s *FileSize) Parse(text string) error {
	factor := int64(1)
	for i, unit := range []string{"K", "M", "G", "T"} {
		if digits, ok := strings.CutSuffix(text, unit); ok {
			text, factor = digits, 1<<(10*(i+1))
		}
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 || v > (1<<62)/factor {
		return errors.New("not a size")
	}
	*s = FileSize(v * factor)
	return nil
}

// Read makes a world of a YAML or JSON document. The document names the nodes at least; without storages, users,
// tokens, roles and access entries it has those of the default world. Volumes that a guest's configuration refers to
// are made if the document does not list them. A document with contradictions is refused: the error names every one.
// The caller sets Clock.
func Read(document []byte) (*World, error) {
	var f File
	dec := yaml.NewDecoder(bytes.NewReader(document))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the document is empty")
		}
		return nil, fmt.Errorf("read world: %w", err)
	}
	return f.World()
}

// Write is the document that Read reads.
func (f File) Write(out io.Writer) error {
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	if err := enc.Encode(f); err != nil {
		return fmt.Errorf("write world: %w", err)
	}
	return enc.Close()
}

// World makes the cluster that a file describes.
func (f File) World() (*World, error) {
	if c := f.Captured; c != nil && (c.Format < 1 || c.Format > FileFormat) {
		return nil, fmt.Errorf("read world: it was captured in format %d, and this is a simulator of format %d", c.Format,
			FileFormat)
	}
	b := worldBuilder{file: f}
	w := b.build()
	if err := errors.Join(b.faults...); err != nil {
		return nil, fmt.Errorf("read world: %w", err)
	}
	if err := w.Check(); err != nil {
		return nil, fmt.Errorf("read world: %w", err)
	}
	return w, nil
}
