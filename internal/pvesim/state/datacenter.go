package state

import (
	"cmp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
)

// Datacenter is datacenter.cfg, and the firewall of cluster and nodes.
type Datacenter struct {
	NextID struct{ Lower, Upper int } // next-id; zero = PVE's 100 and 1000000
	// CaseSensitiveTags is case-sensitive of the tag-style.
	CaseSensitiveTags bool
	// Options are all that a client has set, as they are written there.
	Options map[string]string
	// SecurityGroups are those of the datacenter's firewall, with their comments.
	SecurityGroups map[string]string
	// Firewalls are the configurations that are no guest's: "cluster", "node pve1", and "group web" with a group's rules.
	Firewalls map[string]*FirewallFile
}

// TagPolicy is what datacenter.cfg says about tags: user-tag-access and registered-tags.
type TagPolicy struct {
	Free, Existing     bool // any tag; those that guests have
	Listed, Registered []string
}

// TagPolicyOf reads the policy (pve-cluster DataCenterConfig.pm; the default is free).
func TagPolicyOf(w *World) TagPolicy {
	access, p := w.Options["user-tag-access"], TagPolicy{Registered: perl.ListItems(w.Options["registered-tags"])}
	allow := perl.Subvalue(access, "user-allow", false)
	p.Free, p.Existing = allow == "" || allow == "free", allow == "existing"
	if allow != "none" {
		p.Listed = strings.FieldsFunc(perl.Subvalue(access, "user-allow-list", false), func(c rune) bool { return c == ';' })
	}
	return p
}

// Allows reports whether a user without Sys.Modify on / may add or remove a tag (pve-guest-common GuestHelpers.pm,
// assert_tag_permissions).
func (p TagPolicy) Allows(w *World, tag string) bool {
	if slices.Contains(p.Registered, tag) {
		return false
	}
	if p.Free || slices.Contains(p.Listed, tag) {
		return true
	}
	if !p.Existing {
		return false
	}
	for _, g := range w.Guests {
		if slices.Contains(perl.ListItems(g.Config["tags"]), tag) {
			return true
		}
	}
	return false
}

// HasUplink tells whether a bridge has a network card in it.
func (n *Node) HasUplink(bridge string) bool {
	return !n.NoUplink && !slices.Contains(n.Isolated, bridge)
}

// MTU is that of a bridge.
func (n *Node) MTU(bridge string) int64 { return cmp.Or(n.MTUs[bridge], 1500) }

// Resolver is what a node asks for names, and where it looks for short ones.
type Resolver struct {
	Servers []string `json:"servers"`
	Search  string   `json:"search,omitempty"`
}

// DNS is what the node has in its resolv.conf.
func (n *Node) DNS() Resolver {
	if n.Resolver != nil {
		return *n.Resolver
	}
	return Resolver{Servers: []string{"192.0.2.1"}, Search: "example.com"}
}
