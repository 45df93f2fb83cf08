package orphan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Named is an item that a user names.
type Named struct {
	Kind Kind
	ID   string
	// Node and Since are what it was listed with; zero is not checked.
	Node  string
	Since time.Time
}

// VMID is the id that the item carries, 0 where its name has none.
func (n *Named) VMID() int {
	switch n.Kind {
	case Volume:
		id, _ := volid.Owner(n.ID)
		return id
	case HAResource:
		_, id, _ := strings.Cut(n.ID, ":")
		return number(id)
	case PoolMember:
		return number(n.ID[strings.LastIndex(n.ID, "/")+1:])
	case ACLEntry:
		path, _, _ := strings.Cut(n.ID, " ")
		id, _ := guestPath(path)
		return id
	}
	return number(n.ID)
}

func number(text string) int {
	id, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return id
}

// Wrong says what is wrong with the name, "" for nothing.
func (n *Named) Wrong() string {
	switch {
	case n.VMID() > 0 && (n.Kind != ACLEntry || len(strings.Fields(n.ID)) == 3):
		return ""
	case n.Kind == Volume:
		return "is no volume id that carries the id of a guest, such as \"local-zfs:vm-100-disk-0\""
	case n.Kind == HAResource:
		return "is no name of a guest in HA, such as \"vm:100\""
	case n.Kind == PoolMember:
		return "is no member of a pool, such as \"web/100\""
	case n.Kind == ACLEntry:
		return "is no path, subject and role, such as \"/vms/100 user@pve PVEVMUser\""
	}
	return "is no id of a guest, such as \"100\""
}

// is reports whether the name is about a guest.
func (n *Named) is(vmid int) bool { return n.VMID() == vmid }

// isPinned reports whether it is named as it was listed at a time.
func (n *Named) isPinned() bool { return n != nil && !n.Since.IsZero() }

// mayBeOn reports whether a storage matters: that of a volume alone, where one is named, else any.
func (n *Named) mayBeOn(s pve.Storage, node string) bool {
	if n == nil || n.Kind != Volume {
		return true
	}
	return s.ID == volid.Storage(n.ID) && (s.Shared || n.Node == "" || n.Node == node)
}

// matches reports whether an item is the one.
func (n *Named) matches(i Item) bool {
	id := i.ID == n.ID
	if n.Kind == PoolMember { // PVE may not tell which pool it is
		id = id || i.VMID == n.VMID() && !strings.Contains(i.ID, "/")
	}
	elsewhere := n.Node != "" && n.Node != i.Node && slices.Contains([]Kind{HalfMade, ExpiredCreate, HalfDestroyed,
		DeadLock}, n.Kind)
	return i.Kind == n.Kind && id && !elsewhere
}

// checkAlone refuses a name that several items have: volumes of a storage that each node has for itself.
func (n *Named) checkAlone(items []Item) error {
	if len(items) < 2 {
		return nil
	}
	var nodes []string
	for _, i := range items {
		nodes = append(nodes, i.Node)
	}
	slices.Sort(nodes)
	return &guest.FieldError{Path: "node", Summary: "It is not clear which one is meant", Detail: fmt.Sprintf("%s %s is "+
		"on the nodes %s, which do not share it. Say in node which one is to go. Nothing was removed", n.Kind, n.ID,
		strings.Join(nodes, ", "))}
}

// check refuses an item that is not what was named, or of which it is not as sure as it must be.
func (n *Named) check(i Item, accept Certainty) error {
	refused := func(path, summary, detail string) error {
		return &guest.FieldError{Path: path, Summary: summary, Detail: detail + ". Nothing was removed"}
	}
	if n.isPinned() && !n.Since.Truncate(time.Second).Equal(i.Since.Truncate(time.Second)) {
		return refused("since", "It is another one", fmt.Sprintf("%s %s was made or left %s, and not %s", n.Kind, n.ID,
			i.Since.UTC().Format(time.RFC3339), n.Since.UTC().Format(time.RFC3339)))
	}
	switch {
	case i.Certainty == Unknown:
		return refused("id", "It may be in use", i.Reason)
	case i.Certainty == Likely && accept != Likely:
		return refused("accept", "It is not certain that nothing needs it", i.Reason+". accept = \"likely\" removes it")
	}
	return nil
}
