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

// worldFile is a cluster as a user describes it, in YAML or JSON (which is YAML). A section that is left out is empty,
// except that storages and identities are then those of the default world: see Read.
type worldFile struct {
	Profile  string              `yaml:"profile"`
	NextID   fileRange           `yaml:"next_id"`
	Nodes    []fileNode          `yaml:"nodes"`
	Storages []fileStorage       `yaml:"storages"`
	Guests   []fileGuest         `yaml:"guests"`
	Volumes  []fileVolume        `yaml:"volumes"`
	Pools    []filePool          `yaml:"pools"`
	HA       []fileHA            `yaml:"ha"`
	Firewall []fileFirewall      `yaml:"firewall"`
	Users    []fileUser          `yaml:"users"`
	Tokens   []fileToken         `yaml:"tokens"`
	Roles    map[string][]string `yaml:"roles"`
	ACL      []fileACL           `yaml:"acl"`

	Mappings       []fileMapping     `yaml:"mappings"`
	Replication    []fileReplication `yaml:"replication"`
	Backups        []fileBackup      `yaml:"backups"`
	HAGroups       []fileHAGroup     `yaml:"ha_groups"`
	HARoundSeconds float64           `yaml:"ha_round_seconds"`
}

type fileRange struct {
	Lower int `yaml:"lower"`
	Upper int `yaml:"upper"` // exclusive
}

type fileNode struct {
	Name    string   `yaml:"name"`
	Address string   `yaml:"address"`
	Offline bool     `yaml:"offline"`
	CPUs    int      `yaml:"cpus"`
	Memory  fileSize `yaml:"memory"`
	Bridges []string `yaml:"bridges"`
}

type fileStorage struct {
	ID       string   `yaml:"id"`
	Type     string   `yaml:"type"`
	Content  []string `yaml:"content"`
	Path     string   `yaml:"path"`
	Nodes    []string `yaml:"nodes"`
	Shared   bool     `yaml:"shared"`
	Disabled bool     `yaml:"disabled"`
	Offline  bool     `yaml:"offline"`
	Total    fileSize `yaml:"total"`

	BusyFrees int `yaml:"busy_frees"`
}

type fileGuest struct {
	VMID    int               `yaml:"vmid"`
	Type    string            `yaml:"type"` // qemu (default) or lxc
	Node    string            `yaml:"node"`
	Running bool              `yaml:"running"`
	Config  map[string]string `yaml:"config"`
	Agent   *fileAgent        `yaml:"agent"`
	Ignores []string          `yaml:"ignores"`

	Paused          bool   `yaml:"paused"`    // runs, but its processors stand still
	Suspended       bool   `yaml:"suspended"` // saved to disk
	ShutdownSeconds int    `yaml:"shutdown_seconds"`
	StopWarning     string `yaml:"stop_warning"`
}

type fileAgent struct {
	Silent       bool            `yaml:"silent"`
	DelaySeconds int             `yaml:"delay_seconds"`
	Interfaces   []fileInterface `yaml:"interfaces"`
}

type fileInterface struct {
	Name      string   `yaml:"name"`
	MAC       string   `yaml:"mac"`
	Addresses []string `yaml:"addresses"`

	NoStatistics bool `yaml:"no_statistics"`
}

type fileVolume struct {
	Volume string   `yaml:"volume"` // storage:name
	Node   string   `yaml:"node"`   // not on a shared storage
	Size   fileSize `yaml:"size"`
	Data   string   `yaml:"data"`
}

type filePool struct {
	ID       string   `yaml:"id"`
	Comment  string   `yaml:"comment"`
	Guests   []int    `yaml:"guests"`
	Storages []string `yaml:"storages"`
}

type fileHA struct {
	SID   string `yaml:"sid"`
	State string `yaml:"state"`
	Group string `yaml:"group"`
}

type fileHAGroup struct {
	ID         string   `yaml:"id"`
	Nodes      []string `yaml:"nodes"`
	Restricted bool     `yaml:"restricted"`
	NoFailback bool     `yaml:"nofailback"`
}

type fileMapping struct {
	Kind          string   `yaml:"kind"` // pci, usb, dir
	ID            string   `yaml:"id"`
	Nodes         []string `yaml:"nodes"`
	LiveMigration bool     `yaml:"live_migration"`
}

type fileReplication struct {
	ID       string `yaml:"id"` // <guest>-<number>
	Target   string `yaml:"target"`
	Schedule string `yaml:"schedule"`
}

type fileBackup struct {
	ID       string `yaml:"id"`
	VMIDs    []int  `yaml:"vmids"`
	All      bool   `yaml:"all"`
	Exclude  []int  `yaml:"exclude"`
	Storage  string `yaml:"storage"`
	Schedule string `yaml:"schedule"`
}

type fileFirewall struct {
	VMID    int                 `yaml:"vmid"`
	Options map[string]string   `yaml:"options"`
	Rules   []map[string]string `yaml:"rules"`
}

type fileUser struct {
	ID       string `yaml:"id"`
	Password string `yaml:"password"`
	TOTP     string `yaml:"totp"` // secret, base32
}

type fileToken struct {
	ID       string `yaml:"id"`
	Secret   string `yaml:"secret"` // a UUID
	Separate bool   `yaml:"privilege_separation"`
}

type fileACL struct {
	Path      string `yaml:"path"`
	Subject   string `yaml:"subject"`
	Role      string `yaml:"role"`
	Propagate *bool  `yaml:"propagate"` // default true
}

// fileSize is bytes: a number, or one with the unit K, M, G or T (powers of 1024).
type fileSize int64

// UnmarshalYAML reads "32G" and 34359738368 alike.
func (s *fileSize) UnmarshalYAML(n *yaml.Node) error {
	if err := s.parse(n.Value); err != nil || n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: %q is not a size: a whole number, perhaps with K, M, G or T", n.Line, n.Value)
	}
	return nil
}

func (s *fileSize) parse(text string) error {
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
	*s = fileSize(v * factor)
	return nil
}

// Read makes a world of a YAML or JSON document. The document names the nodes at least; without storages, users, tokens,
// roles and access entries it has those of the default world. Volumes that a guest's configuration refers to are made if
// the document does not list them. What does not fit together is refused: the error names every fault. The caller sets
// Clock.
func Read(document []byte) (*World, error) {
	var f worldFile
	dec := yaml.NewDecoder(bytes.NewReader(document))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the document is empty")
		}
		return nil, fmt.Errorf("read world: %w", err)
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
