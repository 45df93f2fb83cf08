package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// use is a privilege that the apply takes.
type use struct {
	path  string   // the attribute for which
	what  string   // what for
	on    []string // the paths on which it may be held: one suffices
	anyOf []string // the privileges of which one suffices
}

// optionPrivilege is what it takes to change an option of a VM (qemu-server API2/Qemu.pm, check_vm_modify_config_perm, and the checks
// of serial, usb, hostpci, rng and virtiofs beside it). Options of root@pam alone are not here: restrictions of the plan have them.
func optionPrivilege(option string) []string {
	groups := []struct {
		privileges []string
		options    string
		families   string // with a number behind
	}{
		{[]string{"VM.Config.CPU"}, "cores cpu cpulimit cpuunits numa smp sockets vcpus", "numa"},
		{[]string{"VM.Config.Memory"}, "memory balloon shares allow-ksm", ""},
		{[]string{"VM.Config.HWType"}, "acpi hotplug kvm machine scsihw smbios1 tablet vga watchdog audio0 rng0", "serial usb hostpci"},
		{[]string{"VM.Config.Options"}, "agent autostart bios description keyboard localtime migrate_downtime migrate_speed name onboot ostype " +
			"protection reboot startdate startup tags tdf template", ""},
		{[]string{"VM.PowerMgmt"}, "freeze", ""},
		{[]string{"VM.Config.Disk"}, "boot bootdisk vmstatestorage", "virtiofs"},
		{[]string{"VM.Config.Network"}, "", "net"},
		{[]string{"VM.Config.Cloudinit", "VM.Config.Network"},
			"cicustom cipassword citype ciuser ciupgrade nameserver searchdomain sshkeys", "ipconfig"},
	}
	family := strings.TrimRight(option, "0123456789")
	for _, g := range groups {
		if slices.Contains(strings.Fields(g.options), option) || family != option && slices.Contains(strings.Fields(g.families), family) {
			return g.privileges
		}
	}
	return nil
}

// Take is a privilege that something beside VMs takes on a path; one of several suffices.
type Take struct {
	Path  string // the attribute for which
	What  string // what for: "switch the VM"
	On    string
	AnyOf []string
}

// Permit refuses what takes a privilege that the identity does not have. A VM may be made in a pool before, where its privileges are others.
func (s *Checker) Permit(ctx context.Context, takes ...Take) []*guest.FieldError {
	var all []use
	for _, t := range takes {
		u := use{t.Path, t.What, []string{t.On}, t.AnyOf}
		if !strings.HasPrefix(t.On, "/vms/") || !s.inAnyPool(ctx, u) {
			all = append(all, u)
		}
	}
	c := &planCheck{}
	c.privileges(ctx, s, all)
	return c.found
}

// inAnyPool reports whether a privilege is held in some pool, or that cannot be told.
func (s *Checker) inAnyPool(ctx context.Context, u use) bool {
	if s.api.Identity().IsRootTicket() {
		return false
	}
	all, err := s.permissions(ctx)
	for at, held := range all {
		for _, privilege := range u.anyOf {
			if _, has := held[privilege]; has && strings.HasPrefix(at, "/pool") {
				return true
			}
		}
	}
	return err != nil
}

// privileges reports those that are taken and that the identity does not have. The server would refuse in the middle of an apply what it
// lacks.
func (c *planCheck) privileges(ctx context.Context, s *Checker, uses []use) {
	if s.api.Identity().IsRootTicket() {
		return
	}
	var lacks []use
	for _, u := range uses {
		held := false
		for _, at := range u.on {
			may, err := s.holds(ctx, at, u.anyOf...)
			held = held || may || err != nil // who cannot look does not judge
		}
		if !held && !c.mayChoose(ctx, s, u) {
			lacks = append(lacks, u)
		}
	}
	said := map[string]bool{}
	for _, u := range lacks {
		key := strings.Join(u.anyOf, "|") + " " + strings.Join(u.on, " ")
		if said[key] || c.isReported(u.path) && u.path != "" {
			continue
		}
		said[key] = true
		c.say(privilegeMissing, u.path, fmt.Sprintf("It takes %s on %s, which %s does not have. %s", strings.Join(u.anyOf, " or "),
			strings.ReplaceAll(strings.Join(u.on, " or "), anyVM, "/vms"), s.api.Identity().User, s.grant(ctx, u, lacks)), u.what)
	}
}

// grant is how root gives what is missing on a path. An entry there takes the place of what is inherited, so it is given with what is held.
func (s *Checker) grant(ctx context.Context, u use, lacks []use) string {
	at := u.on[len(u.on)-1]
	all, _ := s.permissions(ctx) // who is here has them
	given := at
	if strings.HasPrefix(at, "/vms/") && len(all[at]) == 0 { // nothing is said of this VM alone
		given = "/vms"
	}
	held, err := s.exactly(ctx, given)
	if err != nil {
		return "Grant it"
	}
	// What counts on a path is what such paths are asked for (pve-access-control RPCEnvironment.pm, compute_api_permission).
	families := map[string]string{"vms": "VM.", "storage": "Datastore.", "pool": "VM. Pool. Datastore."}[strings.Split(given, "/")[1]]
	var privileges []string
	for _, privilege := range slices.Sorted(maps.Keys(held)) {
		if family, _, _ := strings.Cut(privilege, "."); slices.Contains(strings.Fields(families), family+".") || family == "Permissions" {
			privileges = append(privileges, privilege)
		}
	}
	for _, other := range lacks {
		if other.on[len(other.on)-1] == at {
			privileges = append(privileges, other.anyOf[0])
		}
	}
	slices.Sort(privileges)
	who := s.api.Identity()
	role, user, to := "terraform"+strings.ReplaceAll(given, "/", "-"), who.User, "--users "+who.User
	instead := ""
	if who.IsToken {
		user, _, _ = strings.Cut(user, "!")
		to = "--tokens '" + who.User + "'"
		instead = fmt.Sprintf("; to a token without privilege separation it is given with --users %s instead, and with it both need it", user)
	}
	return fmt.Sprintf("As root: `pveum role add %s --privs %q`, `pveum acl modify %s %s --roles %s`. The role has what is held there too, "+
		"since an entry takes the place of what is inherited%s", role, strings.Join(slices.Compact(privileges), " "), given, to, role, instead)
}

// anyVM is the path of a VM whose id is not chosen yet: no entry names it (pve-access-control AccessControl.pm, roles).
const anyVM = "/vms/999999999"

// mayChoose reports whether a privilege that is held on single VMs that are not there yet may turn out to be held on the id that is chosen.
func (c *planCheck) mayChoose(ctx context.Context, s *Checker, u use) bool {
	if !slices.Contains(u.on, anyVM) {
		return false
	}
	all, err := s.permissions(ctx)
	for at, held := range all {
		id, isVM := strings.CutPrefix(at, "/vms/")
		vmid, _ := strconv.Atoi(id)
		if _, there := c.resources.Guest(vmid); !isVM || there {
			continue
		}
		for _, privilege := range u.anyOf {
			if _, ok := held[privilege]; ok {
				return true
			}
		}
	}
	return err != nil
}

// uses are the privileges that the apply of a plan takes.
func (c *planCheck) uses(r Request) []use {
	at := []string{anyVM}
	if id := cmp.Or(r.ID, r.VMID); id != 0 {
		at = []string{"/vms/" + strconv.Itoa(id)}
	}
	if r.Pool != "" { // before or after which requests a VM changes its pool does not matter here
		at = append(at, "/pool/"+r.Pool)
	}
	var all []use
	on := func(path, what string, anyOf ...string) { all = append(all, use{path, what, at, anyOf}) }
	storage := func(path, id string) {
		if id != "" {
			all = append(all, use{path, "make disks on storage " + id, []string{"/storage/" + id}, []string{"Datastore.AllocateSpace"}})
		}
	}
	if r.Creating {
		on("", "make the VM", "VM.Allocate")
		on("", "read the VM", "VM.Audit")
		on("", "mark the VM, by its description", "VM.Config.Options")
	}
	if c.origin.VMID != 0 {
		all = append(all, use{r.Clone.Path(), fmt.Sprintf("clone VM %d", c.origin.VMID), []string{"/vms/" + strconv.Itoa(c.origin.VMID)},
			[]string{"VM.Clone"}})
		for _, slot := range slices.Sorted(maps.Keys(c.copy.Disks)) {
			storage("disks."+slot+".storage", c.after(r).Disks[slot].Storage)
		}
	}
	if r.Started || r.Stopped {
		on("power_state", "start or stop the VM", "VM.PowerMgmt")
	}
	if r.Moving != nil {
		on("node", "migrate the VM", "VM.Migrate")
	}
	if r.Restore != nil {
		storage("restore.storage", r.Restore.Storage)
	}
	for _, one := range r.Space {
		if r.Creating {
			storage(one.Path, one.Storage)
		}
	}
	if r.Firewall {
		on("firewall", "set the firewall of the VM", "VM.Config.Network")
	}
	for _, pool := range slices.Compact(slices.Sorted(slices.Values([]string{r.Pool, r.LeftPool}))) {
		if pool != "" && !r.Creating { // who makes a VM in it needs none (qemu-server API2/Qemu.pm, create_vm)
			all = append(all, use{"pool", "change the members of pool " + pool, []string{"/pool/" + pool}, []string{"Pool.Allocate"}})
		}
	}
	c.changes(r, on, storage)
	return all
}

// changes notes what the change of a configuration takes.
func (c *planCheck) changes(r Request, on func(path, what string, anyOf ...string), storage func(path, id string)) {
	was, is := r.Prior, r.Planned
	if copies := r.Creating && (r.Clone != nil || r.Restore != nil); copies && len(c.copy.Disks) == 0 {
		return // what is copied is not known
	} else if copies {
		was, is = c.copy, vm.Merge(c.copy, r.Planned)
		is.Template = was.Template
		vm.Complete(&is)
	}
	change := vm.Diff(was, is)
	options := slices.Concat(slices.Collect(maps.Keys(change.Set)), change.Delete, change.DeleteFirst)
	for _, option := range slices.Sorted(slices.Values(options)) {
		for _, anyOf := range changePrivileges(option, was, is, r.Creating && r.Clone == nil && r.Restore == nil) {
			on(option, "set "+option, anyOf...)
		}
	}
	had, has := storagesOf(was), storagesOf(is)
	for _, path := range slices.Sorted(maps.Keys(has)) {
		if had[path] != has[path] {
			storage(path, has[path])
		}
	}
	for _, move := range change.Moves {
		on(move.Slot, "move "+move.Slot, "VM.Config.Disk")
	}
	for _, g := range change.Grow {
		if is.Disks[g.Slot].ImportFrom == nil { // else it may have that size already
			on(g.Slot, "grow "+g.Slot, "VM.Config.Disk")
		}
	}
}

// changePrivileges is what it takes to change an option, with what was and is to be in it: all of these, any of each. What comes with a
// VM made from scratch takes its storage alone if it is a drive (qemu-server API2/Qemu.pm, create_vm and update_vm_api).
func changePrivileges(option string, was, is vm.Spec, scratch bool) [][]string {
	_, isDisk := is.Disks[option]
	_, wasDisk := was.Disks[option]
	_, isCD := is.CDROMs[option]
	_, wasCD := was.CDROMs[option]
	isDisk = isDisk || wasDisk || option == "efidisk0" || option == "tpmstate0"
	isCD = isCD || wasCD
	isCloudInit := option == is.CloudInit.Slot || option == was.CloudInit.Slot
	switch {
	case scratch && (isDisk || isCD || isCloudInit):
		return nil
	case isDisk && isCD:
		return [][]string{{"VM.Config.Disk"}, {"VM.Config.CDROM"}}
	case isDisk:
		return [][]string{{"VM.Config.Disk"}}
	case isCloudInit:
		return [][]string{{"VM.Config.Cloudinit"}, {"VM.Config.CDROM"}}
	case isCD:
		return [][]string{{"VM.Config.CDROM"}}
	case option == "template": // which is a request of its own
		return [][]string{{"VM.Allocate"}}
	}
	if anyOf := optionPrivilege(option); anyOf != nil {
		return [][]string{anyOf}
	}
	return nil
}

// storagesOf are the storages on which a VM has volumes of its own making, by attribute.
func storagesOf(s vm.Spec) map[string]string {
	all := map[string]string{}
	for slot, d := range s.Disks {
		all["disks."+slot+".storage"] = cmp.Or(d.Storage, vm.VolumeStorage(d.Volume))
	}
	if s.EFIDisk != nil {
		all["efi_disk.storage"] = cmp.Or(s.EFIDisk.Storage, vm.VolumeStorage(s.EFIDisk.Volume))
	}
	if s.TPMState != nil {
		all["tpm_state.storage"] = cmp.Or(s.TPMState.Storage, vm.VolumeStorage(s.TPMState.Volume))
	}
	if s.VMStateStorage != nil {
		all["vmstatestorage"] = *s.VMStateStorage
	}
	return all
}
