package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/source"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// needs reports what is certainly not there, all asked for at the same time. What cannot be looked at is not reported.
func (c *planCheck) needs(ctx context.Context, s *Checker, needs []Need) {
	reports := make([]*guest.FieldError, len(needs))
	var asking sync.WaitGroup
	for i, need := range needs {
		if !c.isReported(need.Path) {
			asking.Go(func() { reports[i] = c.need(ctx, s, need) })
		}
	}
	asking.Wait()
	for _, report := range reports {
		if report != nil {
			c.found = append(c.found, report)
		}
	}
}

// need reports one thing that is missing; nil: it is there, or that cannot be told.
func (c *planCheck) need(ctx context.Context, s *Checker, n Need) *guest.FieldError {
	if strings.HasSuffix(n.Path, ".import_from") {
		if refused := s.sources.Check(ctx, c.resources, c.node, source.Named{Path: n.Path, Volume: n.Value, Work: n.Work}); refused != nil {
			return refused
		}
	}
	if n.Kind.isVolume() && s.willHave(c.node, n.Value) {
		return nil
	}
	names, err := s.names.Get(ctx, s.clock, c.listed(n), func(ctx context.Context) ([]string, error) { return s.list(ctx, c.node, n) })
	if err != nil || n.Kind.isVolume() && !c.holds(n) || !s.certain(ctx, n) {
		return nil //nolint:nilerr // who cannot look does not judge
	}
	if report := missing(n, names, c.node); report != nil || n.Size == 0 || n.Kind != Import {
		return report
	}
	size, err := s.api.VolumeSize(ctx, c.node, n.Value)
	if err != nil || size <= n.Size {
		return nil //nolint:nilerr // likewise
	}
	return finding(imageTooLarge, strings.TrimSuffix(n.Path, "import_from")+"size", fmt.Sprintf("%s has %s, and PVE cannot shrink a disk to "+
		"%s. Set size to that at least, or leave it out", n.Value, vm.FormatSize(size), vm.FormatSize(n.Size)))
}

// listed names the listing that a thing would be in.
func (c *planCheck) listed(n Need) string {
	if n.Kind.isVolume() {
		return strings.Join([]string{string(n.Kind), c.node, vm.VolumeStorage(n.Value)}, " ")
	}
	return string(n.Kind) + " " + c.node
}

// list asks for the things of a kind.
func (s *Checker) list(ctx context.Context, node string, n Need) ([]string, error) {
	switch n.Kind {
	case CPUType:
		return s.api.CPUModels(ctx, node)
	case Machine:
		return s.api.Machines(ctx, node)
	case PCIMapping, USBMapping, DirMapping:
		return s.api.Mappings(ctx, string(n.Kind))
	case FirewallRef:
		return s.api.FirewallRefs(ctx)
	case SecurityGroup:
		return s.api.SecurityGroups(ctx)
	case HAGroup:
		return s.api.HAGroups(ctx)
	case Medium, Import, Image, Snippet:
	}
	return s.volumeNames(ctx, node, vm.VolumeStorage(n.Value), n.Kind, 0)
}

func (s *Checker) volumeNames(ctx context.Context, node, storage string, kind Kind, vmid int) ([]string, error) {
	volumes, err := s.api.Content(ctx, node, storage, string(kind), vmid)
	names := make([]string, 0, len(volumes))
	for _, v := range volumes {
		names = append(names, v.ID)
	}
	return names, err
}

// holds reports whether a storage is for volumes of the kind: of others it lists none, though it may have some.
func (c *planCheck) holds(n Need) bool {
	storage, ok := c.resources.Storage(c.node, vm.VolumeStorage(n.Value))
	return ok && slices.Contains(strings.Split(storage.Content, ","), string(n.Kind))
}

// certain reports whether the identity would see the thing if it were there (pve-storage Storage.pm check_volume_access; a mapping
// is listed for who may use it; custom CPU types for who has Sys.Audit on /nodes).
func (s *Checker) certain(ctx context.Context, n Need) bool {
	may := func(path, privilege string) bool { return s.mustHold(ctx, path, privilege) }
	switch n.Kind {
	case Image, Snippet:
		return may("/storage/"+vm.VolumeStorage(n.Value), "Datastore.Allocate")
	case PCIMapping, USBMapping, DirMapping:
		return may("/mapping/"+string(n.Kind)+"/"+n.Value, "Mapping.Use")
	case CPUType:
		return !strings.HasPrefix(n.Value, "custom-") || may("/nodes", "Sys.Audit")
	case Medium, Import, Machine, FirewallRef, SecurityGroup, HAGroup: // who may list them sees all
	}
	return true
}

// missing reports a thing that a listing does not have.
func missing(n Need, names []string, node string) *guest.FieldError {
	value, what, where := n.Value, string(n.Kind), "The datacenter"
	is := func(name string) bool { return name == value }
	switch n.Kind {
	case Import: // "local:import/appliance.ova/disk.vmdk" is in the appliance
		is = func(name string) bool { return name == value || strings.HasPrefix(value, name+"/") }
	case PCIMapping, USBMapping, DirMapping:
		what += " mapping"
	case FirewallRef:
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
		return finding(volumeMissing, n.Path, fmt.Sprintf("Storage %s of node %s has %s", vm.VolumeStorage(value), node, some(names)), value)
	} else if n.Kind == CPUType || n.Kind == Machine {
		where = "Node " + node
	}
	return finding(nameUnknown, n.Path, where+" has "+some(names), what, value)
}

// isTooNew reports whether a machine type is of a later version than all that a node has, so that its QEMU does not start it.
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

// machineVersion takes a machine type apart: "pc-q35-9.2+pve1" is "pc-q35" and 9, 2.
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

// some are names for a sentence, not too many.
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
