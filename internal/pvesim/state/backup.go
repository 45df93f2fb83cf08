package state

import "maps"

// Backup is what an archive of a virtual machine holds: its configuration without lock, snapshots, pending changes and unused
// volumes, the content of its drives, and its firewall file.
type Backup struct {
	VMID     int                    `json:"vmid"` // whose it was
	Config   map[string]string      `json:"config"`
	Drives   map[string]BackupDrive `json:"drives,omitempty"`
	Firewall *FirewallFile          `json:"firewall,omitempty"`
}

// BackupDrive is the content of a drive, and where it lay.
type BackupDrive struct {
	Storage string `json:"storage"`
	Format  string `json:"format"`
	Size    int64  `json:"size"`
	Data    string `json:"data,omitempty"`
}

// Clone copies the firewall file.
func (f *FirewallFile) Clone() *FirewallFile {
	if f == nil {
		return nil
	}
	c := &FirewallFile{Options: maps.Clone(f.Options), Aliases: map[string]map[string]string{}, IPSets: map[string]*IPSet{}}
	for _, r := range f.Rules {
		c.Rules = append(c.Rules, maps.Clone(r))
	}
	for k, v := range f.Aliases {
		c.Aliases[k] = maps.Clone(v)
	}
	for k, v := range f.IPSets {
		set := &IPSet{Comment: v.Comment}
		for _, e := range v.Entries {
			set.Entries = append(set.Entries, maps.Clone(e))
		}
		c.IPSets[k] = set
	}
	return c
}
