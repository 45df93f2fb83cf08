package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// startNeeds are the objects without which PVE does not start a VM, by the attributes that name them (qemu-server
// QemuServer.pm, vm_start_nolock and config_to_command: activate_volumes takes CD-ROM drives too; Cloudinit.pm,
// read_cloudinit_snippets_file; guest-common GuestHelpers.pm, exec_hookscript). Snippets are read for a drive alone.
func startNeeds(s vm.Spec) (all []Need) {
	add := func(at string, kind Kind, value string) {
		if value != "" {
			all = append(all, Need{Path: at, Kind: kind, Value: value})
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(s.CDROMs)) {
		if file := s.CDROMs[slot].File; strings.Contains(file, ":iso/") {
			add("cdroms."+slot+".file", Medium, file)
		}
	}
	if custom := s.CloudInit.Custom; custom != nil && s.CloudInit.Slot != "" {
		add("cloud_init.custom.user", Snippet, value(custom.User))
		add("cloud_init.custom.network", Snippet, value(custom.Network))
		add("cloud_init.custom.meta", Snippet, value(custom.Meta))
		add("cloud_init.custom.vendor", Snippet, value(custom.Vendor))
	}
	add("hookscript", Snippet, value(s.HookScript))
	if model := value(s.CPU.Type); !vm.IsCommonCPU(model) {
		add("cpu.type", CPUType, model)
	}
	if _, version := machineVersion(value(s.Machine)); version != [2]int{} {
		add("machine", Machine, value(s.Machine))
	}
	options := vm.Encode(s)
	for _, option := range slices.Sorted(maps.Keys(options)) {
		for _, n := range vm.Grants(option, options[option]) {
			mapping, _ := strings.CutPrefix(n.Object, "/mapping/")
			if kind, id, ok := strings.Cut(mapping, "/"); ok {
				add(n.Path, Kind(kind), id)
			}
		}
	}
	return all
}

// starting reports what a VM is started with and the node lacks, where that comes with the source of a copy or is in
// state already. The plan asks for changed values in any case.
func starting(ctx context.Context, p *planCheck, c *Checker, r Request) {
	if p.node == "" || !r.Started && !r.Restarts || r.copies() && !p.begun {
		return
	}
	s := vm.Merge(r.Beside, r.Planned)
	if r.copies() {
		s = vm.Merge(p.copy, r.Planned)
	}
	own := &planCheck{resources: p.resources, node: p.node, who: p.who, unheard: p.unheard}
	needs := slices.DeleteFunc(startNeeds(s), func(n Need) bool {
		return r.isUnknown(n.Path) || slices.ContainsFunc(r.Needs, func(of Need) bool { return of.Path == n.Path })
	})
	own.volumes(ctx, c, needs)
	if !r.Acting {
		sourcesDown(ctx, own, c, needs)
	}
	own.needs(ctx, c, needs)
	if !p.isReported("cpu.cores") && !r.isUnknown("cpu") {
		own.cpus(max(value(s.CPU.Cores), 1) * max(value(s.CPU.Sockets), 1))
	}
	for _, f := range own.found {
		f.Detail += r.whence(f.Path)
		if r.copies() {
			f.Path = r.madeOf()
		}
		p.found = append(p.found, f)
	}
	if !r.Acting { // an apply warns no more
		startBridges(ctx, p, c, r, s)
	}
}

// startBridges reports bridges likewise. The privileges on those of a copy are in copyUses; a VM in state needs none.
func startBridges(ctx context.Context, p *planCheck, c *Checker, r Request, s vm.Spec) {
	of, own := Request{Bridges: map[string]string{}}, &planCheck{node: p.node}
	for slot, nic := range s.Networks {
		at := "networks." + slot + ".bridge"
		if nic.Bridge != nil && r.Bridges[at] == "" && !r.isUnknown(at) {
			of.Bridges[at] = *nic.Bridge
		}
	}
	if len(of.Bridges) == 0 {
		return
	}
	if networks, err := c.nodeNetworks(ctx, p.node); err == nil {
		own.bridges(ctx, c, of, networks)
	}
	p.doubts = append(p.doubts, own.doubts...)
}

// isUnknown reports whether the configuration does not yet tell a value at a path, or near it.
func (r Request) isUnknown(at string) bool {
	return slices.ContainsFunc(r.Unknown, func(open string) bool {
		return open == "" || strings.HasPrefix(at+".", open+".") || strings.HasPrefix(open+".", at+".")
	})
}

// madeOf is the attribute that names the source of a copy.
func (r Request) madeOf() string {
	if r.Restore != nil {
		return "restore.archive"
	}
	return r.Clone.Path()
}

// whence says where a value at a path comes from that the plan does not change.
func (r Request) whence(at string) string {
	switch {
	case r.copies():
		return fmt.Sprintf(". The source has it in %s, and PVE would not start the copy. Set another value there, or "+
			"change the source", at)
	case r.Restarts:
		return ". The VM runs with it, and would not start again after the restart that this plan makes"
	}
	return ". PVE would not start the VM"
}

// InForce is what decides whether a change restarts a guest.
type InForce struct {
	Running bool
	Spec    vm.Spec // without what waits for a restart; only where it was asked for, as is Removed
	// Removed is what becomes of the disks that leave the VM at its restart, its stop or its start, by slot.
	Removed map[string]string
}

// InForce asks whether a guest runs, which the listing knows ten seconds late, and, if something waits, with which
// values.
func (c *Checker) InForce(ctx context.Context, node string, vmid int, waits bool) (is InForce, err error) {
	status, err := c.api.Listing().Power(ctx, node, vmid)
	if err != nil {
		return is, err
	}
	is.Running = status == string(guest.Running)
	if waits {
		config, err := c.api.QEMU(node, vmid).Pending(ctx)
		if err != nil {
			return is, err
		}
		is.Spec, is.Removed = vm.Decode(config.Current()), guest.RemovedAtStart(config)
	}
	return is, nil
}
