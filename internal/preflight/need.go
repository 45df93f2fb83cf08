package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/diskimport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nearest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// needs reports objects that certainly do not exist, all looked up in parallel. It does not report those that it cannot
// look up.
func (p *planCheck) needs(ctx context.Context, c *Checker, needs []Need) {
	reports := make([]*guest.FieldError, len(needs))
	var asking sync.WaitGroup
	for i, need := range needs {
		if !p.isReported(need.Path) {
			asking.Go(func() { reports[i] = p.need(ctx, c, need) })
		}
	}
	asking.Wait()
	for _, report := range reports {
		if report != nil {
			p.found = append(p.found, report)
		}
	}
}

// need reports one missing object; nil if it exists, or if that cannot be told.
func (p *planCheck) need(ctx context.Context, c *Checker, n Need) *guest.FieldError {
	if strings.HasSuffix(n.Path, ".import_from") {
		if refused := c.sources.Check(ctx, p.resources, p.node,
			diskimport.Named{Path: n.Path, Volume: n.Value, Work: n.Work, Loose: n.Loose}); refused != nil {
			return refused
		}
	}
	if file, planned := c.willHave(p.node, n.Value); n.Kind.isVolume() && planned {
		if file.made {
			return tooSmall(ctx, c, p.node, n)
		}
		return n.smallerThan(file.size)
	}
	names, err := c.names.Get(ctx, c.clock, p.listed(n), func(ctx context.Context) ([]string,
		error) {
		return c.list(ctx, p.node, n)
	})
	if err == nil && n.Own {
		names, err = c.withOwn(ctx, names, p.origin)
	}
	if err != nil || n.Kind.isVolume() && !p.holds(n) || !c.certain(ctx, n) {
		return nil //nolint:nilerr // who cannot look does not judge
	}
	if report := missing(n, names, p.node); report != nil {
		return report
	}
	return tooSmall(ctx, c, p.node, n)
}

// written reports disks of a proxmox_disk that are to be copied while a guest runs with them: by their names, or with
// the VM that holds one. A create that goes on with the VM of a dead run may have its copy.
func written(ctx context.Context, p *planCheck, c *Checker, r Request) {
	copies := heldCopies(p, r)
	for _, path := range slices.Sorted(maps.Keys(copies)) {
		volume, node := copies[path], p.node
		if r.Clone != nil && path == r.Clone.Path() {
			node = p.origin.Node
		}
		writers, err := guard.Writers(ctx, c.guard, node, volume)
		if err != nil || len(writers) == 0 || r.goesOn(ctx, p, c) {
			continue
		}
		stays := guard.Unknown(writers, func(w guard.Neighbor) bool { return r.Changes != nil && r.Changes(w.VMID) })
		if stays != nil {
			report := finding(sourceWritten, path, guard.NotWhileItRuns, volume)
			report.Err = stays
			p.report(sourceWritten, report)
			continue
		}
		report := finding(sourceMayStop, path, "The same apply changes that guest. Where it does not stop it before, or "+
			"detach the disk, the copy is refused, and "+goneByThen+". Let this VM depend on that one (depends_on)", volume)
		report.Err = guard.Unknown(writers, func(guard.Neighbor) bool { return false })
		p.report(sourceMayStop, report)
	}
}

// heldCopies are the volumes that a plan copies, and that a proxmox_disk may hold, by the attributes that name them. Of
// a snapshot PVE copies the disk as it was then.
func heldCopies(p *planCheck, r Request) map[string]string {
	all := map[string]string{}
	if r.Acting { // the apply looks right before it copies
		return nil
	}
	for _, n := range r.Needs {
		if n.Kind == Image && strings.HasSuffix(n.Path, ".import_from") {
			all[n.Path] = n.Value
		}
	}
	if r.Clone != nil && r.Clone.Snapshot == "" && p.origin.VMID != 0 {
		all[r.Clone.Path()] = vm.HeldVolume(p.origin.VMID, vm.Encode(p.copy))
	}
	maps.DeleteFunc(all, func(path, volume string) bool { return volume == "" || p.isReported(path) })
	return all
}

// goesOn reports whether a create may go on with the VM of a run that has not committed it.
func (r Request) goesOn(ctx context.Context, p *planCheck, c *Checker) bool {
	return r.Creating && slices.ContainsFunc(p.resources, func(listed pve.Resource) bool {
		if listed.VMID == 0 || listed.VMID != r.VMID && (listed.Name == "" || listed.Name != r.Name) {
			return false
		}
		if isHalfMade(listed) {
			return true
		}
		_, _, unfinished := c.guests.Unfinished(ctx, p.resources, listed)
		return unfinished
	})
}

// tooSmall reports a disk that is to be smaller than the image that it is made of.
func tooSmall(ctx context.Context, c *Checker, node string, n Need) *guest.FieldError {
	if n.Size == 0 || n.Kind != Import {
		return nil
	}
	size, err := c.api.Volume(node, n.Value).Size(ctx)
	if err != nil {
		return nil //nolint:nilerr // who cannot look does not judge
	}
	return n.smallerThan(size)
}

// smallerThan reports a disk that is to be smaller than the one in its image.
func (n Need) smallerThan(size int64) *guest.FieldError {
	if n.Size == 0 || n.Kind != Import || size <= n.Size {
		return nil
	}
	return finding(imageTooLarge, strings.TrimSuffix(n.Path, "import_from")+"size",
		fmt.Sprintf("%s has %s, and PVE cannot shrink a disk to "+
			"%s. Set size to that at least, or leave it out", n.Value, property.FormatSize(size), property.FormatSize(n.Size)))
}

// withOwn adds the aliases and IP sets that a clone gets from its source: PVE puts the source's firewall, or none, in
// the place of one that was set for the new id (pve-firewall Firewall/Helpers.pm clone_vmfw_conf).
func (c *Checker) withOwn(ctx context.Context, names []string, source pve.Resource) ([]string, error) {
	if source.VMID == 0 {
		return nil, errors.New("the source is not known")
	}
	own, err := c.names.Get(ctx, c.clock, fmt.Sprintf("%s of VM %d", FirewallRef, source.VMID),
		func(ctx context.Context) ([]string, error) { return c.api.Firewall(source.Node, source.VMID).Refs(ctx) })
	return slices.Concat(names, own), err
}

// listed names the listing that an object would be in.
func (p *planCheck) listed(n Need) string {
	if n.Kind.isVolume() {
		return strings.Join([]string{string(n.Kind), p.node, volid.Storage(n.Value)}, " ")
	}
	return string(n.Kind) + " " + p.node
}

// list asks for the objects of a kind.
func (c *Checker) list(ctx context.Context, node string, n Need) ([]string, error) {
	switch n.Kind {
	case CPUType:
		return c.api.Node(node).CPUModels(ctx)
	case Machine:
		return c.api.Node(node).Machines(ctx)
	case PCIMapping, USBMapping, DirMapping:
		return mappedOn(ctx, c, node, n.Kind)
	case FirewallRef:
		return c.api.Cluster().FirewallRefs(ctx)
	case SecurityGroup:
		return c.api.Cluster().SecurityGroups(ctx)
	case FirewallMacro:
		return c.api.Cluster().FirewallMacros(ctx)
	case HAGroup:
		return c.api.HA().Groups(ctx)
	case Medium, Import, Image, Snippet:
	}
	return c.volumeNames(ctx, node, volid.Storage(n.Value), n.Kind, 0)
}

// mappedOn are the mappings of a kind. One without a device of the node has those of its nodes behind its name.
func mappedOn(ctx context.Context, c *Checker, node string, kind Kind) ([]string, error) {
	mappings, err := c.api.Cluster().Mappings(ctx, string(kind))
	names := make([]string, 0, len(mappings))
	for _, m := range mappings {
		if !slices.Contains(m.Nodes, node) {
			m.ID += ofNodes + some(m.Nodes)
		}
		names = append(names, m.ID)
	}
	return names, err
}

const ofNodes = " of "

func (c *Checker) volumeNames(ctx context.Context, node, storage string, kind Kind, vmid int) ([]string, error) {
	volumes, err := c.api.Storage(node, storage).Content(ctx, string(kind), vmid)
	names := make([]string, 0, len(volumes))
	for _, v := range volumes {
		names = append(names, v.ID)
	}
	return names, err
}

// holds reports whether a storage is for volumes of the kind: PVE lists no others, though the storage may have some.
func (p *planCheck) holds(n Need) bool {
	storage, ok := p.resources.Storage(p.node, volid.Storage(n.Value))
	return ok && slices.Contains(strings.Split(storage.Content, ","), string(n.Kind))
}

// certain reports whether the identity would see the object if it existed (pve-storage Storage.pm check_volume_access;
// a mapping is listed for users who may use it; custom CPU types for users with Sys.Audit on /nodes).
func (c *Checker) certain(ctx context.Context, n Need) bool {
	may := func(path, privilege string) bool { return c.mustHold(ctx, path, privilege) }
	switch n.Kind {
	case Image, Snippet:
		return may("/storage/"+volid.Storage(n.Value), "Datastore.Allocate")
	case PCIMapping, USBMapping, DirMapping:
		return may("/mapping/"+string(n.Kind)+"/"+n.Value, "Mapping.Use")
	case CPUType:
		return !strings.HasPrefix(n.Value, "custom-") || may("/nodes", "Sys.Audit")
	case Medium, Import, Machine, FirewallRef, SecurityGroup, FirewallMacro, HAGroup: // who may list them sees all
	}
	return true
}

// missing reports an object that a listing does not have.
func missing(n Need, names []string, node string) *guest.FieldError {
	value, what, where := n.Value, string(n.Kind), "The datacenter"
	if n.Own {
		where += ", with the VM that is cloned,"
	}
	is := func(name string) bool { return name == value }
	switch n.Kind {
	case Import: // "local:import/appliance.ova/disk.vmdk" is in the appliance
		is = func(name string) bool { return name == value || strings.HasPrefix(value, name+"/") }
	case PCIMapping, USBMapping, DirMapping:
		what += " mapping"
		for _, name := range names {
			if nodes, elsewhere := strings.CutPrefix(name, value+ofNodes); elsewhere {
				if n.Off { // PVE looks at the node at the start alone
					return nil
				}
				return finding(mappingElsewhere, n.Path, fmt.Sprintf("It has entries for these nodes: %s. PVE starts no VM on "+
					"another one with it. Add an entry for node %s in Datacenter > Resource Mappings", nodes, node), value, node)
			}
		}
	case FirewallRef, FirewallMacro:
		is = func(name string) bool { return strings.EqualFold(name, value) }
	case Machine:
		if !isTooNew(value, names) {
			return nil
		}
	case Medium, Image, Snippet, CPUType, SecurityGroup, HAGroup:
	}
	if slices.ContainsFunc(names, is) {
		return nil
	}
	if n.Kind.isVolume() {
		return finding(volumeMissing, n.Path, meant(value, names)+fmt.Sprintf("Storage %s of node %s has %s",
			volid.Storage(value), node, some(names)), value)
	} else if n.Kind == CPUType || n.Kind == Machine {
		where = "Node " + node
	}
	return finding(nameUnknown, n.Path, meant(value, names)+where+" has "+some(names), what, value)
}

// meant asks whether the nearest name was meant. Of volumes the last part is compared: all of a storage begin in the
// same way. Of mappings the name is, without the nodes behind it.
func meant(value string, names []string) string {
	last := func(name string) string { return name[strings.LastIndex(name, "/")+1:] }
	whole := map[string]string{}
	for _, name := range names {
		name, _, _ = strings.Cut(name, ofNodes)
		whole[last(name)] = name
	}
	if name := nearest.Meant(last(value), slices.Collect(maps.Keys(whole))); name != "" {
		return fmt.Sprintf("Did you mean %q? ", whole[name])
	}
	return ""
}

// isTooNew reports whether a machine type is of a later version than all that a node has, so that its QEMU does not
// start it.
func isTooNew(machine string, has []string) bool {
	family, version := machineVersion(machine)
	newest := [2]int{}
	for _, name := range has {
		if f, v := machineVersion(name); f == family && slices.Compare(v[:], newest[:]) > 0 {
			newest = v
		}
	}
	return newest != [2]int{} && slices.Compare(version[:], newest[:]) > 0
}

// machineVersion splits a machine type: "pc-q35-9.2+pve1" is "pc-q35" and 9, 2.
func machineVersion(machine string) (family string, version [2]int) {
	i := strings.LastIndexByte(machine, '-')
	if i < 0 {
		return machine, version
	}
	if _, err := fmt.Sscanf(machine[i+1:], "%d.%d", &version[0], &version[1]); err != nil {
		return machine, [2]int{}
	}
	return machine[:i], version
}

// some lists names for a sentence, not too many.
func some(names []string) string {
	const most = 100
	if len(names) == 0 {
		return "none"
	}
	names = slices.Sorted(slices.Values(names))
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
