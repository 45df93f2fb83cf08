package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// quorum reports a cluster that writes nothing. Only a cluster that has lost nodes can have lost its quorum, so only
// then it is asked.
func (p *planCheck) quorum(ctx context.Context, c *Checker) {
	var lost []string
	for _, n := range p.resources.Nodes() {
		if n.Status == "offline" {
			lost = append(lost, n.Node)
		}
	}
	if len(lost) == 0 {
		return
	}
	quorate, err := c.quorate.Get(ctx, c.clock, "", c.api.Cluster().Quorate)
	if err == nil && !quorate { // who may not look leaves it to the apply
		p.say(noQuorum, "", fmt.Sprintf("Of its %d nodes these are offline: %s. Until more than half of the votes are back "+
			"PVE changes nothing in the whole cluster", len(p.resources.Nodes()), some(lost)))
	}
}

// nodeState reports a node to which a VM should not go, and one that does not report its state.
func (p *planCheck) nodeState(r Request) {
	node, ok := p.resources.Node(p.node)
	if !ok {
		return
	}
	path := "node"
	if len(r.Nodes) > 0 {
		path = "nodes"
	}
	if node.Status == "unknown" {
		p.say(nodeSilent, path, "The cluster sees the node, but its pvestatd has reported nothing for minutes, mostly "+
			"since a storage hangs. What this plan needs there was not looked at", p.node)
	}
	if node.HAState == "maintenance" && (r.Creating || r.Moving != nil) {
		p.say(nodeMaintained, path, "It is about to be serviced: a VM under HA is moved away from it at once, and any "+
			"other may be switched off with it", p.node)
	}
}

// hears reports a paused guest that is to shut down: PVE sends it no request, which it would obey once it goes on
// (qemu-server API2/Qemu.pm vm_shutdown, QemuServer.pm vm_is_paused). It may go on until then, also by an action of the
// same apply.
func hears(ctx context.Context, p *planCheck, c *Checker, r Request) {
	if !r.Stopped || r.Forced || r.Acting {
		return
	}
	resources, _, err := c.api.Listing().Recent(ctx)
	if listed, _ := resources.Guest(r.ID); err != nil || listed.Status != "paused" && listed.Status != "prelaunch" {
		return
	}
	path, instead := "power_state", "or \"stop\", which cuts it off"
	if r.Removing {
		path, instead = "on_destroy.power_off", "or set on_destroy.power_off = \"force\" and apply to have it cut off"
	}
	p.say(guestPaused, path, "PVE refuses to shut it down, and the apply fails unless it goes on by then. A backup that "+
		"has started the VM also stops it. Otherwise use the action proxmox_vm_power with \"resume\", "+instead,
		strconv.Itoa(r.ID))
}

// at is the part of a node's storages that is for one kind of content.
type at struct{ node, content string }

// sourcesDown reports storages that images, media and backups are read of and that do not work now.
func sourcesDown(ctx context.Context, p *planCheck, c *Checker, needs []Need) {
	for _, n := range needs {
		if n.Kind.isVolume() && n.Kind != Snippet { // a snippet is read when the VM starts
			p.storagesDown(ctx, c, at{p.node, string(n.Kind)}, map[string]string{n.Path: volid.Storage(n.Value)})
		}
	}
}

// storagesDown reports storages that do not work now. The listing has no figures of a storage that the node could not
// reach for minutes, but neither of a new storage or of a node that does not report. So the node itself is asked, about
// those for the content alone: it tries to reach each that it is asked about, and may hang on one that no plan uses.
func (p *planCheck) storagesDown(ctx context.Context, c *Checker, where at, wanted map[string]string) {
	for _, path := range slices.Sorted(maps.Keys(wanted)) {
		id := wanted[path]
		listed, ok := p.resources.Storage(where.node, id)
		if !ok || listed.Status == "available" || p.isReported(path) {
			continue
		}
		key := where.node + " " + where.content
		there, err := c.storages.Get(ctx, c.clock, key, func(ctx context.Context) ([]pve.Storage, error) {
			return c.api.Node(where.node).Storages(ctx, where.content)
		})
		is := func(at pve.Storage) bool { return at.ID == id && at.Enabled && !at.Active }
		if err == nil && slices.ContainsFunc(there, is) {
			p.say(storageDown, path, fmt.Sprintf("The node has tried to reach it and could not: it may be switched off, full, "+
				"or not mounted. %s on the node says more", shell.Or(shell.Command("pvesm status --storage {}", id), "The log")),
				id, where.node)
		}
	}
}
