package vm

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Effect is when a running guest feels the change of an option.
type Effect int

// The effects.
const (
	// Plugged: PVE tries to change the running guest. Only the attempt shows whether the change waits for a restart.
	Plugged Effect = iota
	// AtStart: PVE reads the option at the start of a guest only (qemu-server QemuServer.pm vmconfig_hotplug_pending).
	AtStart
	// Immediate: PVE stores the value as it is sent and puts it in force at once, whether the guest runs or not
	// (qemu-server QemuServer.pm $fast_plug_option, API2/Qemu.pm update_vm_api).
	Immediate
	// OnCloudInitDrive: the option is only written to the cloud-init drive (qemu-server QemuServer.pm
	// $confdesc_cloudinit).
	OnCloudInitDrive
)

// Since is the first server that has an option. A node is updated package by package and reports only its version of
// pve-manager. A node is certain to lack the option if its pve-manager is older than the one of the day on which the
// package came out. Any other node is asked.
type Since struct {
	Manager [3]int // pve-manager of that day
	Release string // the release of Proxmox VE in which everybody has it; "" means that every supported server has it
	Source  string // the package and its version, the place in its source, and the commit
	// Backport is the pve-manager of an older line since which that line has it, too; the zero value for none.
	Backport [3]int
}

// Releases names the releases that have the option: "9.1 or later (of 8: 8.4.17 or later)".
func (s Since) Releases() string {
	if b := s.Backport; b != [3]int{} {
		return fmt.Sprintf("%s or later (of %d: %d.%d.%d or later)", s.Release, b[0], b[0], b[1], b[2])
	}
	return s.Release + " or later"
}

// Has reports whether a server with this version of pve-manager may have the option.
func (s Since) Has(manager [3]int) bool {
	if s.Backport != [3]int{} && manager[0] == s.Backport[0] {
		return slices.Compare(manager[:], s.Backport[:]) >= 0
	}
	return slices.Compare(manager[:], s.Manager[:]) >= 0
}

// Root says that only root@pam with a password may set an option (qemu-server API2/Qemu.pm
// check_vm_modify_config_perm). The zero Root restricts nothing.
type Root struct {
	Instead string                  // what other identities can do; "" if the option is not restricted
	Values  func(value string) bool // reports whether a value is root's; nil means that every value is
}

// Grant is a privilege on an object other than the VM. The value of the option takes the place of "%s" in Object.
type Grant struct {
	Privilege string
	Object    string
	Instead   string // what an identity without the privilege can do; may be ""
	Value     string // the only value that takes it; "" for all
}

// Needed is a Grant with its object, and the attribute for which it is needed.
type Needed struct {
	Path string // "pci.hostpci0.mapping"
	Grant
}

// Grants are the privileges on other objects that an option takes with a value: to get it, and where PVE asks for the
// old value as well, to lose it.
func Grants(option, value string) []Needed {
	var all []Needed
	for _, a := range attributes() {
		if a.Grant.Privilege == "" || a.Option != nameOf(option) {
			continue
		}
		if of := a.in(value); of != "" && (a.Grant.Value == "" || a.Grant.Value == of) {
			n := Needed{Path: strings.Replace(a.Path, "*", option, 1), Grant: a.Grant}
			n.Object = strings.Replace(n.Object, "%s", of, 1)
			all = append(all, n)
		}
	}
	return all
}

// IsNodesDevice reports whether an option passes a device of the node on by its address, which is root's to do.
func IsNodesDevice(option, value string) bool {
	return slices.ContainsFunc(attributes(), func(a Attribute) bool {
		if a.Key != "host" || a.Option != nameOf(option) || a.Root.Instead == "" {
			return false
		}
		of := a.in(value)
		return of != "" && (a.Root.Values == nil || a.Root.Values(of))
	})
}

// in is what a value of the option has for the row: the whole, or that of a sub-key.
func (a Attribute) in(value string) string {
	if a.Key == "" {
		return value
	}
	bare := " " // no sub-key
	if a.bare {
		bare = a.Key
	}
	properties, _ := property.Parse(value, bare)
	return properties[a.Key]
}

// Facts are what the provider knows of an option, or of a sub-key of a property string, beside its codec. A sub-key has
// the effect and the privileges of its option.
type Facts struct {
	Path       string   // the attribute, dotted; of a sub-key relative to its option. "" is the key with underscores
	Default    string   // PVE's default as an attribute has it: this value and no value mean the same
	Usual      string   // PVE's default in words, where it depends on more than the option
	Since      Since    // the first server that has it
	Root       Root     // whether only root may set it
	Privileges []string // what a change takes on the VM: any of these is enough
	Grant      Grant    // what a change takes on another object
	Effect     Effect   // when a running guest feels a change
	Feature    string   // the hotplug feature without which a change waits for a restart; "" if none is needed

	KeepsStatus bool // a change leaves the power state and the pending changes of the VM as they are
	NamesVolume bool // a value may name a volume, or make one
}

// Fact sets one of the Facts of a row.
type Fact func(*Facts)

func collect(facts ...Fact) (f Facts) {
	for _, fact := range facts {
		fact(&f)
	}
	return f
}

// at names the attribute where it is not named as the option or sub-key is. A leading slash makes the path of a sub-key
// absolute.
func at(path string) Fact { return func(f *Facts) { f.Path = path } }

// initial is PVE's default where it is always the same.
func initial(value string) Fact { return func(f *Facts) { f.Default = value } }

// usually is PVE's default in words, as the documentation says it.
func usually(words string) Fact { return func(f *Facts) { f.Usual = words } }

// The privileges that a change takes (qemu-server API2/Qemu.pm check_vm_modify_config_perm, and the checks of serial,
// usb, hostpci, rng and virtiofs beside it).
func configCPU(f *Facts)     { f.Privileges = []string{"VM.Config.CPU"} }
func configMemory(f *Facts)  { f.Privileges = []string{"VM.Config.Memory"} }
func configHWType(f *Facts)  { f.Privileges = []string{"VM.Config.HWType"} }
func configOptions(f *Facts) { f.Privileges = []string{"VM.Config.Options"} }
func configDisk(f *Facts)    { f.Privileges = []string{"VM.Config.Disk"} }
func configNetwork(f *Facts) { f.Privileges = []string{"VM.Config.Network"} }

// configCloudInit is an option of the cloud-init drive.
func configCloudInit(f *Facts) {
	f.Privileges, f.Effect = []string{"VM.Config.Cloudinit", "VM.Config.Network"}, OnCloudInitDrive
}

// needs is a privilege of another kind.
func needs(privilege string) Fact { return func(f *Facts) { f.Privileges = []string{privilege} } }

func atStart(f *Facts)   { f.Effect = AtStart }
func immediate(f *Facts) { f.Effect = Immediate }

// plugged names the hotplug feature that lets an option change while the guest runs.
func plugged(feature string) Fact { return func(f *Facts) { f.Feature = feature } }

func rootOnly(instead string) Fact {
	return func(f *Facts) { f.Root = Root{Instead: instead} }
}

func rootValues(instead string, values func(string) bool) Fact {
	return func(f *Facts) { f.Root = Root{Instead: instead, Values: values} }
}

func granted(privilege, object, instead string) Fact {
	return func(f *Facts) { f.Grant = Grant{Privilege: privilege, Object: object, Instead: instead} }
}

// grantedFor is granted for one value alone.
func grantedFor(value, privilege, object string) Fact {
	return func(f *Facts) { f.Grant = Grant{Privilege: privilege, Object: object, Value: value} }
}

func since(major, minor, patch int, release, source string) Fact {
	return func(f *Facts) {
		f.Since = Since{Manager: [3]int{major, minor, patch}, Release: release, Source: source}
	}
}

// backported is an option of a later release that an older line got afterwards, too.
func backported(major, minor, patch int) Fact {
	return func(f *Facts) { f.Since.Backport = [3]int{major, minor, patch} }
}

func keepsStatus(f *Facts) { f.KeepsStatus = true }
func namesVolume(f *Facts) { f.NamesVolume = true }

// Attribute is one row of the attribute table: an option of PVE, or a sub-key of one, with the attribute that expresses
// it. The codec's tables hold the facts; everything else reads them here.
type Attribute struct {
	Option string // as PVE names it: "cores"; "net[n]" for numbered slots
	Key    string // the sub-key of a property string; "" for the option as a whole
	Facts         // Path is absolute here, with "*" for a slot: "cpu.cores", "networks.*.mtu"

	bare bool // a value without a key is this sub-key's
}

// Attributes is the attribute table: each option, followed by its sub-keys. It must not be changed.
func Attributes() []Attribute { return attributes() }

// AttributeOf is the row of an option as a whole, such as "cores", "net0" or "scsi1". It is false for an option that is
// not modelled.
func AttributeOf(option string) (Attribute, bool) {
	a, ok := wholeOptions()[nameOf(option)]
	return a, ok
}

// IsOption reports whether an attribute is an option of PVE as a whole, such as "cpu.cores", and no part of one, such
// as "cpu.flags".
func IsOption(path string) bool {
	return slices.ContainsFunc(attributes(), func(a Attribute) bool { return a.Key == "" && a.Path == path })
}

// HasOptions reports whether an attribute has others in it that are options of PVE as a whole, as "cpu" has.
func HasOptions(path string) bool {
	return slices.ContainsFunc(attributes(), func(a Attribute) bool {
		return a.Key == "" && strings.HasPrefix(a.Path, path+".")
	})
}

// In is the path of the attribute in a slot: "disks.scsi1".
func (a Attribute) In(slot string) string { return strings.Replace(a.Path, "*", slot, 1) }

// NamesVolume reports whether a value of an option may name a volume: as a drive, as a file, or in arguments of QEMU.
// Any option that is not modelled may.
func NamesVolume(option string) bool {
	a, ok := AttributeOf(option)
	return !ok || a.NamesVolume
}

// nameOf is the name under which the table has an option: "net[n]" for "net0".
func nameOf(option string) string {
	if f, ok := familyOf(option); ok {
		return f.prefix + "[n]"
	}
	if _, isDrive := slotRank(option); isDrive && option != efiSlot && option != tpmSlot {
		return strings.TrimRight(option, "0123456789") + "[n]"
	}
	return option
}

var wholeOptions = sync.OnceValue(func() map[string]Attribute {
	all := map[string]Attribute{}
	for _, a := range attributes() {
		if a.Key == "" && !strings.HasSuffix(a.Path, ".*.device") {
			all[a.Option] = a
		}
	}
	return all
})

var attributes = sync.OnceValue(func() []Attribute {
	var all []Attribute
	add := func(option string, f Facts, slots string, rows []row) {
		if f.Path == "" {
			f.Path = pathOf(strings.TrimSuffix(option, "[n]"))
		}
		f.Path += slots
		all = append(all, Attribute{Option: option, Facts: f})
		for _, r := range rows {
			all = append(all, Attribute{Option: option, Key: r.key, Facts: r.facts.of(f), bare: r.bare})
		}
	}
	for _, o := range options() {
		var rows []row
		if o.rows != nil {
			rows = o.rows()
		}
		add(o.key, o.facts, "", rows)
	}
	for _, f := range families() {
		add(f.prefix+"[n]", f.facts, ".*", f.rows())
	}
	for _, b := range buses() {
		add(b.name+"[n]", collect(at("disks"), configDisk, namesVolume), ".*", driveRows())
	}
	add(efiSlot, collect(at("efi_disk"), configDisk, atStart, namesVolume), "", efiFormat().rows())
	add(tpmSlot, collect(at("tpm_state"), configDisk, atStart, namesVolume), "", tpmFormat().rows())
	add(passwordOption, collect(at("cloud_init_password_wo"), configCloudInit), "", nil)
	add(bootDiskOption, collect(at("boot_order"), configDisk, atStart), "", nil)
	return all
})

// of gives a sub-key what it has from its option.
func (f Facts) of(option Facts) Facts {
	if absolute, found := strings.CutPrefix(f.Path, "/"); found {
		f.Path = absolute
	} else {
		f.Path = option.Path + "." + f.Path
	}
	f.Effect, f.Feature, f.Privileges = option.Effect, option.Feature, option.Privileges
	return f
}

// pathOf is the attribute that is named as PVE names its option.
func pathOf(key string) string { return strings.ReplaceAll(key, "-", "_") }

// driveRows are the facts of the sub-keys of a disk. A device of the node takes the place of a volume.
func driveRows() []row {
	const instead = "attach the device on the node with qm set and leave the slot out"
	return append(diskFormat().rows(), row{key: "file", facts: collect(at("volume"), rootValues(instead, volid.IsDevice))})
}
