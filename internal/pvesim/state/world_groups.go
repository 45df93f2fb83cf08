package state

import (
	"maps"
	"strings"
	"time"
)

// groups builds what refers to guests: pools, HA resources, firewall files.
func (b *worldBuilder) groups() {
	for _, f := range b.file.Pools {
		if f.ID == "" || b.w.Pools[f.ID] != nil {
			b.fault("pool %q: no id, or it stands twice", f.ID)
		}
		p := &Pool{ID: f.ID, Comment: f.Comment, Guests: f.Guests, Storages: f.Storages}
		if p.Guests == nil {
			p.Guests = []int{}
		}
		for _, id := range p.Guests {
			if b.w.Guests[id] == nil {
				b.fault("pool %s: guest %d does not exist", f.ID, id)
			} else if other := b.w.PoolOf(id); other != "" {
				b.fault("pool %s: guest %d is in pool %s already", f.ID, id, other)
			}
		}
		for _, id := range p.Storages {
			if b.w.Storages[id] == nil {
				b.fault("pool %s: storage %q does not exist", f.ID, id)
			}
		}
		b.w.Pools[f.ID] = p
	}
	for _, f := range b.file.HA {
		kind, id, _ := strings.Cut(f.SID, ":")
		g := b.w.Guests[atoi(id)]
		if g == nil || (kind == "vm") != (g.Type == "qemu") {
			b.fault("HA resource %q: no such guest", f.SID)
		}
		if f.State == "" {
			f.State = "started"
		}
		b.w.HA[f.SID] = &HAResource{SID: f.SID, State: f.State, Group: f.Group, Options: f.Options}
	}
	b.jobs()
	b.w.HARules = b.file.HARules
	for _, f := range b.file.Firewall {
		w := &FirewallFile{Options: f.Options, Rules: f.Rules, Aliases: f.Aliases}
		for name, set := range f.IPSets {
			if w.IPSets == nil {
				w.IPSets = map[string]*IPSet{}
			}
			w.IPSets[name] = &IPSet{Comment: set.Comment, Entries: set.Entries}
		}
		b.w.Firewall[f.VMID] = w
	}
}

// jobs builds what the cluster does with guests on its own: HA groups, replication, backups.
func (b *worldBuilder) jobs() {
	b.w.HARound = time.Duration(b.file.HARoundSeconds * float64(time.Second))
	for _, f := range b.file.HAGroups {
		for _, n := range f.Nodes {
			if b.w.Nodes[n] == nil {
				b.fault("HA group %s: node %q does not exist", f.ID, n)
			}
		}
		b.w.HAGroups[f.ID] = &HAGroup{ID: f.ID, Nodes: f.Nodes, Restricted: f.Restricted, NoFailback: f.NoFailback}
	}
	for _, f := range b.file.Mappings {
		if f.Kind != "pci" && f.Kind != "usb" && f.Kind != "dir" {
			b.fault("mapping %s: kind %q is not one of pci, usb, dir", f.ID, f.Kind)
		}
		b.w.Mappings = append(b.w.Mappings, &Mapping{Kind: f.Kind, ID: f.ID, Nodes: f.Nodes, LiveMigration: f.LiveMigration})
	}
	for _, f := range b.file.Replication {
		guest, _, _ := strings.Cut(f.ID, "-")
		if b.w.Guests[atoi(guest)] == nil || b.w.Nodes[f.Target] == nil {
			b.fault("replication job %q: no such guest, or no node %q", f.ID, f.Target)
		}
		b.w.Replication[f.ID] = &ReplicationJob{ID: f.ID, Guest: atoi(guest), Target: f.Target, Schedule: f.Schedule}
	}
	for _, f := range b.file.Backups {
		b.w.Backups[f.ID] = &BackupJob{ID: f.ID, VMIDs: f.VMIDs, All: f.All, Exclude: f.Exclude, Storage: f.Storage,
			Schedule: f.Schedule}
	}
}

// identities replaces the default users, tokens and access entries as soon as the document names users. Roles are added
// to the built-in ones.
func (b *worldBuilder) identities() {
	if b.file.Captured != nil {
		maps.DeleteFunc(b.w.Roles, func(id string, _ []string) bool { return !IsSpecial(id) })
	}
	for name, privileges := range b.file.Roles {
		b.w.Roles[name] = privileges
	}
	if b.file.Users == nil {
		if b.file.Tokens != nil || b.file.ACL != nil {
			b.fault("tokens and access entries need the users that they belong to")
		}
		return
	}
	b.w.Users, b.w.Tokens, b.w.ACL = map[string]*User{}, map[string]*Token{}, nil
	for _, f := range b.file.Users {
		if !strings.Contains(f.ID, "@") {
			b.fault("user %q: not name@realm", f.ID)
		}
		b.w.Users[f.ID] = &User{ID: f.ID, Password: f.Password, TOTPSecret: f.TOTP, Disabled: f.Disabled, Expire: f.Expire}
	}
	for _, f := range b.file.Tokens {
		user, _, ok := strings.Cut(f.ID, "!")
		if !ok || b.w.Users[user] == nil || f.Secret == "" {
			b.fault("token %q: not user@realm!name of a user that exists, or without a secret", f.ID)
		}
		b.w.Tokens[f.ID] = &Token{ID: f.ID, Secret: f.Secret, Separated: f.Separate, Expire: f.Expire}
	}
	for _, f := range b.file.ACL {
		if b.w.Roles[f.Role] == nil {
			b.fault("access to %s: role %q does not exist", f.Path, f.Role)
		}
		if b.w.Users[f.Subject] == nil && b.w.Tokens[f.Subject] == nil {
			b.fault("access to %s: %q is neither a user nor a token", f.Path, f.Subject)
		}
		b.w.ACL = append(b.w.ACL, ACLEntry{Path: f.Path, Subject: f.Subject, Role: f.Role,
			Propagate: f.Propagate == nil || *f.Propagate})
	}
}
