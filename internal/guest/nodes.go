package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nearest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// KindName is what a type of guest is called in a sentence.
func KindName(typ string) string {
	if typ == "lxc" {
		return "Container"
	}
	return "VM"
}

// Named is a listed guest in a sentence: "VM 100 (web)", without the name where the listing has none.
func Named(g pve.Resource) string {
	text := fmt.Sprintf("%s %d", KindName(g.Type), g.VMID)
	if g.Name == "" || g.Name == fmt.Sprintf("VM %d", g.VMID) {
		return text
	}
	return text + " (" + g.Name + ")"
}

// UntoldText says of which VMs the listing tells too little (pve.Resources.Untold).
func UntoldText(untold []pve.Resource) string {
	names := make([]string, len(untold))
	for i, r := range untold {
		names[i] = fmt.Sprintf("%d (node %s)", r.VMID, r.Node)
	}
	return "PVE tells neither the names of these VMs nor whether they are templates, since their nodes are away or, for " +
		"about 10 s after a create, have not reported them yet: " + strings.Join(names, ", ")
}

// UntoldMayBeIt ends the error about a VM that is not listed with those that may be it.
func UntoldMayBeIt(untold []pve.Resource) string {
	if len(untold) == 0 {
		return ""
	}
	return ". Or it is one of these, and shows when PVE tells. " + UntoldText(untold)
}

// OtherThan says what to do about a VMID that a listed guest has. No container can be adopted as a VM.
func OtherThan(g pve.Resource) string {
	if g.Type != "qemu" {
		return "Choose another vmid, or leave it out to get a free one"
	}
	return fmt.Sprintf("Choose another vmid, leave it out to get a free one, or adopt the VM: `terraform import ADDRESS "+
		"%d`, where ADDRESS is that of this resource", g.VMID)
}

// Target is the node for the VM: the configured one, that of the source, or the only one.
func Target(resources pve.Resources, node, source string) (string, error) {
	if node == "" {
		node = source
	}
	nodes := resources.Nodes()
	if node == "" {
		if len(nodes) != 1 {
			return "", &FieldError{Path: "node", Summary: "No node given",
				Detail: fmt.Sprintf("The cluster has %d nodes: set node to one of them", len(nodes))}
		}
		return nodes[0].Node, nil
	}
	return node, CheckNode(resources, node)
}

// FirstOnline is the first of several nodes that is online; if none is, the first that does not report and may be.
func FirstOnline(resources pve.Resources, nodes []string) (string, error) {
	var why []string
	for _, node := range nodes {
		if found, ok := resources.Node(node); ok && found.Status == "online" {
			return node, nil
		}
	}
	for _, node := range nodes {
		err := CheckNode(resources, node)
		if err == nil {
			return node, nil
		}
		var field *FieldError
		if errors.As(err, &field) {
			why = append(why, field.Summary)
		}
	}
	return "", &FieldError{Path: "nodes", Summary: "None of the nodes is online", Detail: strings.Join(why, ". ")}
}

// CheckNode reports a node that the cluster does not have, or that is offline. One whose status is unknown is a
// member of the cluster whose pvestatd has not reported for minutes, mostly since a storage hangs; it does what it is
// told (pve-manager API2Tools.pm, extract_node_stats).
func CheckNode(resources pve.Resources, node string) error {
	found, ok := resources.Node(node)
	if !ok {
		names := []string{}
		for _, n := range resources.Nodes() {
			names = append(names, n.Node)
		}
		slices.Sort(names)
		return &FieldError{Path: "node", Summary: fmt.Sprintf("Unknown node %q", node),
			Detail: nearest.Hint(node, names) + "The cluster has the nodes " + strings.Join(names, ", ")}
	}
	if found.Status != "online" && found.Status != "unknown" {
		return &FieldError{Path: "node", Summary: fmt.Sprintf("Node %s is not online", node),
			Detail: fmt.Sprintf("PVE lists it as %s, and passes nothing on to it. Bring it back, or leave its VMs out of "+
				"this run with -target. A terraform destroy plans first, and -refresh=false leaves that plan out", found.Status)}
	}
	return nil
}

// ClusterName is what every identity can see of a cluster: the names of its nodes.
func ClusterName(resources pve.Resources) string {
	names := []string{}
	for _, n := range resources.Nodes() {
		names = append(names, n.Node)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// ImageStorages are the storages of a node that can hold disks. The cluster's listing has them where the identity has
// Datastore.Audit; otherwise the node is asked.
func (g *Guests) ImageStorages(ctx context.Context, resources pve.Resources, node string) ([]string, error) {
	var ids []string
	for _, r := range resources.Storages(node) {
		if slices.Contains(strings.Split(r.Content, ","), "images") {
			ids = append(ids, r.Storage)
		}
	}
	if len(ids) == 0 {
		storages, err := g.api.Node(node).Storages(ctx, "images")
		if err != nil {
			return nil, fmt.Errorf("list the storages of node %s: %w", node, err)
		}
		for _, st := range storages {
			if st.Enabled {
				ids = append(ids, st.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// Astray are local volumes that a VM has by name alone: its configuration came to a node, and nothing shows that they
// came along. HA recovers a VM from a fenced node by a rename of its configuration, as an administrator does by hand
// (pve-ha-manager HA/Env/PVE2.pm steal_service). Such a name may mean another's volume there.
type Astray struct {
	From    string   `json:"from,omitempty"`    // the node where the VM is known to have had them
	Volumes []string `json:"volumes,omitempty"` // none: all of its local ones
}

// Strays are those of a VM that was found on a node, by its configurations; none of one that has not moved. A migration
// copies local volumes and frees them where they were (qemu-server QemuMigrate.pm phase3_cleanup). So a volume came
// along if it is on its node with the size that its slot shows, and is not on the former one any more, or if a
// replication job has copied it. Where the former node is off, or left the cluster, a VM that is not under HA counts
// as migrated: nodes are emptied before that. But it does not while an earlier look has found it astray: it may have
// left HA since. Task lists tell less: they rotate, show tasks of others with Sys.Audit
// only, and that of a node that is off cannot be read.
func Strays(ctx context.Context, g *Guests, ref Ref, node string, configs ...map[string]string) (Astray, error) {
	from := ref.former(node)
	if from == "" {
		return Astray{}, nil
	}
	was := Astray{From: from}
	if ref.Node == "" || ref.Node == node { // else it has moved since the volumes were noted
		was.Volumes = ref.Astray.Volumes
	}
	own := slices.DeleteFunc(OwnVolumes(ref.VMID, configs...), volid.IsCloudInit) // that is generated, and holds no data
	if len(own) == 0 {
		return Astray{}, nil
	}
	resources, _, err := g.api.Listing().Recent(ctx)
	if err != nil {
		return Astray{}, fmt.Errorf("see whether the disks of VM %d came along to node %s: %w", ref.VMID, node, err)
	}
	local := slices.DeleteFunc(own, func(volume string) bool {
		isOther := len(was.Volumes) > 0 && !slices.Contains(was.Volumes, volume)
		return isOther || !isLocal(resources, volume)
	})
	formers := slices.Compact([]string{was.From, ref.Node})
	formers = slices.DeleteFunc(formers, func(n string) bool { return n == "" || n == node })
	sizes := map[string]int64{}
	for _, config := range configs {
		for _, disk := range vm.Decode(config).Disks {
			sizes[disk.Volume] = disk.Bytes()
		}
	}
	listed, _ := resources.Guest(ref.VMID)
	emptied := listed.HAState == "" && len(ref.Astray.Volumes) == 0
	var replicated *bool
	came := func(volume string) bool {
		is, size := findOn(ctx, g, resources, node, ref.VMID, volume)
		if is != isThere || !vm.FitsSize(size, sizes[volume]) {
			return false
		}
		left := hasLeft(ctx, g, resources, formers, ref.VMID, volume, emptied)
		if !left && replicated == nil {
			replicated = new(isReplicated(ctx, g, ref.VMID, append(slices.Clone(formers), node)))
		}
		return left || *replicated
	}
	astray := Astray{From: was.From, Volumes: slices.DeleteFunc(local, came)}
	if len(astray.Volumes) == 0 {
		return Astray{}, nil
	}
	return astray, nil
}

// former is the node where the VM is known to have had its local volumes, if it is on another one; else "".
func (r Ref) former(node string) string {
	from := r.Astray.From
	if r.Node != "" && r.Node != node { // also where it was elsewhere before
		from = cmp.Or(from, r.Node)
	}
	if from == node {
		return ""
	}
	return from
}

// hasLeft reports whether a volume of a VM is on none of its former nodes any more. emptied: one that is off has none.
func hasLeft(ctx context.Context, g *Guests, resources pve.Resources, formers []string, vmid int, volume string,
	emptied bool) bool {
	return !slices.ContainsFunc(formers, func(former string) bool {
		is, _ := findOn(ctx, g, resources, former, vmid, volume)
		return is != notThere && (is != away || !emptied)
	})
}

// MadeElsewhere are the volumes that a VM may have by name alone since the first of some tasks has made it on another
// node, and none of the others has brought it here or was at work here.
func MadeElsewhere(ctx context.Context, g *Guests, tasks []string, node string, vmid int,
	config map[string]string) ([]string, error) {
	isHere := func(task string) bool {
		upid := pve.UPID(task)
		return upid.Node() == node || upid.Type() == "qmigrate"
	}
	if len(tasks) == 0 || slices.ContainsFunc(tasks, isHere) {
		return nil, nil
	}
	astray, err := Strays(ctx, g, Ref{VMID: vmid, Node: pve.UPID(tasks[0]).Node()}, node, config)
	return astray.Volumes, err
}

// isLocal reports whether a volume is on a storage that is listed, on whichever node, and not shared.
func isLocal(resources pve.Resources, volume string) bool {
	return slices.ContainsFunc(resources, func(r pve.Resource) bool {
		return r.Type == "storage" && r.Storage == volid.Storage(volume) && !r.Shared
	})
}

// whether is what a look for a volume on a node has shown.
type whether int

const (
	untold whether = iota
	away           // the node is off, or the cluster does not have it
	notThere
	isThere
)

// findOn looks for a volume on a node, and tells its size.
func findOn(ctx context.Context, g *Guests, resources pve.Resources, node string, vmid int,
	volume string) (whether, int64) {
	at, ok := resources.Node(node)
	if !ok || at.Status == "offline" {
		return away, 0
	}
	storage, has := resources.Storage(node, volid.Storage(volume))
	switch {
	case !has:
		return notThere, 0
	case !HoldsImages(storage): // PVE lists none of it
		return untold, 0
	}
	on, err := g.volumes(ctx, resources, node, storage.Storage, vmid)
	if err != nil {
		return untold, 0
	}
	for _, v := range on {
		if v.ID == volume {
			return isThere, v.Size
		}
	}
	return notThere, 0
}

// isReplicated reports whether a replication job of a VM goes to one of some nodes: a migration, and a recovery by HA,
// turns it round (pve-guest-common ReplicationConfig.pm switch_replication_job_target).
func isReplicated(ctx context.Context, g *Guests, vmid int, nodes []string) bool {
	jobs, err := g.api.Cluster().ReplicationJobs(ctx)
	return err == nil && slices.ContainsFunc(jobs, func(j pve.ReplicationJob) bool {
		return j.VMID == vmid && slices.Contains(nodes, j.Target)
	})
}

// IsOn are those of them of which the node where the VM is has a volume of that name, or may have one.
func (a Astray) IsOn(ctx context.Context, g *Guests, node string, vmid int) ([]string, error) {
	resources, _, err := g.api.Listing().Recent(ctx)
	return slices.DeleteFunc(slices.Clone(a.Volumes), func(volume string) bool {
		is, _ := findOn(ctx, g, resources, node, vmid, volume)
		return is == notThere
	}), err
}

// Refusal refuses to take those of them of which the node where the VM is has a volume of that name, or may have one.
func (a Astray) Refusal(ctx context.Context, g *Guests, node string, vmid int, touched string) error {
	there, err := a.IsOn(ctx, g, node, vmid)
	if err != nil || len(there) == 0 {
		return err
	}
	a.Volumes = there
	return &FieldError{Path: "node", Summary: fmt.Sprintf("VM %d may have disks of others", vmid),
		Detail: a.Detail(vmid, node, touched)}
}

// Detail says what is in doubt, and what to do. touched says what was done.
func (a Astray) Detail(vmid int, node, touched string) string {
	var looks []string
	for _, volume := range a.Volumes {
		looks = append(looks, shell.Or(shell.VM("pvesm list {} --vmid {vmid}", vmid, volid.Storage(volume)), shell.ByHand))
	}
	slices.Sort(looks)
	return fmt.Sprintf("The VM was on node %[1]s and is on node %[2]s, and nothing shows that these disks came along: "+
		"%[3]s. HA's recovery from a fenced node moves the configuration alone, and so does an administrator by hand. On "+
		"node %[2]s their names may mean volumes of others, so nothing changes, destroys or migrates them. %[4]s.\nLook at "+
		"both nodes: %[5]s. If the VM's disks are on node %[1]s, stop the VM and move %[6]d.conf back, from "+
		"/etc/pve/nodes/%[2]s/qemu-server to /etc/pve/nodes/%[1]s/qemu-server. If they are on node %[2]s, remove those of "+
		"these names on node %[1]s, and the next refresh finds that. Where node %[1]s does not come back, \"terraform "+
		"state rm\" and an import take the VM as it is", a.From, node, strings.Join(a.Volumes, ", "), touched,
		strings.Join(slices.Compact(looks), ", "), vmid)
}
