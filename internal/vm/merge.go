package vm

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Merge lays what want sets over base: leaf by leaf, slot by slot, sub-key by sub-key. A value that want leaves out
// stays as base has it. A slot that want uses for another kind of drive is taken over. Neither argument is changed.
//
// A clone becomes what is configured by Diff(Decode(config), Merge(Decode(config), configured)).
func Merge(base, want Spec) Spec {
	out := base
	out.Rest = mergeRest(base.Rest, want.Rest)
	out.ExactTags = base.ExactTags || want.ExactTags
	for _, o := range options() {
		o.merge(&out, &want)
	}
	if want.CloudInit.PasswordHash != nil {
		out.CloudInit.PasswordHash = want.CloudInit.PasswordHash
	}
	for _, f := range families() {
		f.merge(&out, &want)
	}
	out.Disks = mergeSlots(base.Disks, want.Disks, mergeDisk)
	out.CDROMs = mergeSlots(base.CDROMs, want.CDROMs, mergeCDROM)
	out.EFIDisk = mergeEFIDisk(base.EFIDisk, want.EFIDisk)
	out.TPMState = mergeTPMState(base.TPMState, want.TPMState)
	mergeCloudInitDrive(&out.CloudInit, want.CloudInit)
	dropReplacedDrives(&out, base, want)
	return out
}

func mergeSlots[V any](base, want map[string]V, merge func(base, want V) V) map[string]V {
	if len(want) == 0 {
		return base
	}
	out := maps.Clone(base)
	if out == nil {
		out = map[string]V{}
	}
	for slot, w := range want {
		if b, ok := out[slot]; ok {
			w = merge(b, w)
		}
		out[slot] = w
	}
	return out
}

// dropReplacedDrives takes base's drive out of the slots that want uses for another kind.
func dropReplacedDrives(out *Spec, base, want Spec) {
	out.Disks, out.CDROMs = maps.Clone(out.Disks), maps.Clone(out.CDROMs)
	for slot := range want.Disks {
		delete(out.CDROMs, slot)
	}
	for slot := range want.CDROMs {
		delete(out.Disks, slot)
	}
	if slot := want.CloudInit.Slot; slot != "" {
		delete(out.CDROMs, slot)
		delete(out.Disks, slot)
		return
	}
	_, isDisk := want.Disks[base.CloudInit.Slot]
	_, isCDROM := want.CDROMs[base.CloudInit.Slot]
	if isDisk || isCDROM {
		out.CloudInit.Slot, out.CloudInit.Storage, out.CloudInit.Volume = "", "", ""
		out.CloudInit.Format, out.CloudInit.Rest = nil, nil
	}
}

func mergeDisk(base, want Disk) Disk {
	mergeVolume(&base.Storage, &base.Volume, &base.Format, want.Storage, want.Volume, want.Format)
	if want.ImportFrom != nil {
		base.ImportFrom = want.ImportFrom
	}
	diskFormat().merge(&base, &want)
	return base
}

// mergeVolume keeps storage, volume and format together: a volume that is named brings its storage, and the format of
// the old place says nothing about a new one.
func mergeVolume(storage, volume *string, format **string, wantStorage, wantVolume string, wantFormat *string) {
	if wantVolume != "" && wantStorage == "" {
		wantStorage = volid.Storage(wantVolume)
	}
	if wantStorage != "" && wantStorage != *storage || wantVolume != "" && wantVolume != *volume {
		*format = nil
	}
	if wantVolume != "" {
		*volume, *storage = wantVolume, wantStorage
	}
	if wantStorage != "" {
		*storage = wantStorage
	}
	if wantFormat != nil {
		*format = wantFormat
	}
}

func mergeCDROM(base, want CDROM) CDROM {
	if want.File != "" {
		base.File = want.File
	}
	base.Rest = mergeRest(base.Rest, want.Rest)
	return base
}

func mergeEFIDisk(base, want *EFIDisk) *EFIDisk {
	if base == nil || want == nil {
		return either(base, want)
	}
	d := *base
	mergeVolume(&d.Storage, &d.Volume, &d.Format, want.Storage, want.Volume, want.Format)
	if want.ImportFrom != nil {
		d.ImportFrom = want.ImportFrom
	}
	efiFormat().merge(&d, want)
	return &d
}

func mergeTPMState(base, want *TPMState) *TPMState {
	if base == nil || want == nil {
		return either(base, want)
	}
	d := *base
	mergeVolume(&d.Storage, &d.Volume, new(*string), want.Storage, want.Volume, nil)
	if want.ImportFrom != nil {
		d.ImportFrom = want.ImportFrom
	}
	tpmFormat().merge(&d, want)
	return &d
}

func either[V EFIDisk | TPMState](base, want *V) *V {
	if want != nil {
		return want
	}
	return base
}

func mergeCloudInitDrive(c *CloudInit, want CloudInit) {
	if want.Slot != "" && want.Slot != c.Slot { // the drive is made again there
		c.Slot, c.Volume, c.Format, c.Rest = want.Slot, "", nil, nil
	}
	mergeVolume(&c.Storage, &c.Volume, &c.Format, want.Storage, want.Volume, want.Format)
	c.Rest = mergeRest(c.Rest, want.Rest)
}

// Devices are what a VM has in its slots: the volume of a disk, an EFI disk or the state of a TPM, and how another
// device is configured. An optical drive is none, since it is generated or names a file, and addresses are none.
func Devices(s Spec) map[string]string {
	all := map[string]string{}
	for _, f := range families() {
		if f.prefix != "ipconfig" {
			f.show(&s, all)
		}
	}
	for slot, d := range s.EveryDisk() {
		all[slot] = d.Volume
	}
	return all
}

// WithServerDevices begins with the device that the server has in a slot, where planned adds a slot that prior does not
// know: such a device is configured as it is, never replaced by a new one. Both come back with it, planned merged onto
// it.
func WithServerDevices(server, prior, planned Spec) (before, after Spec) {
	before, after = prior, planned
	useServer(server.Disks, &before.Disks, &after.Disks, func(base, want Disk) Disk {
		want.ImportFrom = nil
		return mergeDisk(base, want)
	})
	useServer(server.CDROMs, &before.CDROMs, &after.CDROMs, func(_, want CDROM) CDROM { return want })
	for _, f := range families() {
		f.useServer(&server, &before, &after)
	}
	if has, want := server.EFIDisk, planned.EFIDisk; has != nil && want != nil && prior.EFIDisk == nil {
		disk := *want
		disk.ImportFrom = nil
		before.EFIDisk, after.EFIDisk = has, mergeEFIDisk(has, &disk)
	}
	if has, want := server.TPMState, planned.TPMState; has != nil && want != nil && prior.TPMState == nil {
		disk := *want
		disk.ImportFrom = nil
		before.TPMState, after.TPMState = has, mergeTPMState(has, &disk)
	}
	return before, after
}

// KeepAddresses gives each network device that planned adds to prior, without a MAC address, that of the device which
// leaves its slot at the next stop: PVE makes a new address for each value without one.
func KeepAddresses(leaving map[string]NIC, prior, planned Spec) Spec {
	planned.Networks = maps.Clone(planned.Networks)
	for slot, nic := range planned.Networks {
		if _, known := prior.Networks[slot]; !known && nic.MACAddr == nil {
			nic.MACAddr = leaving[slot].MACAddr
			planned.Networks[slot] = nic
		}
	}
	return planned
}

func useServer[T any](server map[string]T, prior, planned *map[string]T, merge func(base, want T) T) {
	known := *prior
	*prior, *planned = maps.Clone(*prior), maps.Clone(*planned)
	for slot, want := range *planned {
		has, there := server[slot]
		if _, ours := known[slot]; there && !ours {
			put(prior, slot, has)
			(*planned)[slot] = merge(has, want)
		}
	}
}

// Rebase gives prior and planned the server's value of each part of an option, or of a device, that planned leaves as
// prior has it. PVE takes an option whole, so a change of one part would otherwise write an old value of the others: a
// third party may have changed those since the plan. A disk is followed only while it is the one that prior knows.
func Rebase(server, prior, planned Spec) (before, after Spec) {
	before, after = prior, planned
	for _, o := range options() {
		if o.rebase != nil {
			o.rebase(&server, &before, &after)
		}
	}
	for _, f := range families() {
		f.rebase(&server, &before, &after)
	}
	rebaseSlots(server.Disks, &before.Disks, &after.Disks, func(has, was, is *Disk) {
		if has.Volume == was.Volume && (is.Volume == "" || is.Volume == was.Volume) {
			diskFormat().rebase(has, was, is)
		}
	})
	return before, after
}

// rebaseSlots changes the devices of the slots that all three have, in copies of both maps.
func rebaseSlots[T any](server map[string]T, prior, planned *map[string]T, rebase func(server, prior, planned *T)) {
	*prior, *planned = maps.Clone(*prior), maps.Clone(*planned)
	for slot, has := range server {
		was, known := (*prior)[slot]
		is, stays := (*planned)[slot]
		if known && stays {
			rebase(&has, &was, &is)
			(*prior)[slot], (*planned)[slot] = was, is
		}
	}
}

func mergePCI(base, want PCI) PCI {
	oneName(&base.Mapping, &base.Host, want.Mapping, want.Host)
	pciFormat().merge(&base, &want)
	return base
}

func mergeUSB(base, want USB) USB {
	oneName(&base.Mapping, &base.Host, want.Mapping, want.Host)
	usbFormat().merge(&base, &want)
	return base
}

// oneName drops one of the two ways to name a device of the host where the other is wanted.
func oneName(mapping, host **string, wantMapping, wantHost *string) {
	switch {
	case wantMapping != nil:
		*host = nil
	case wantHost != nil:
		*mapping = nil
	}
}

// MergeDisk is Merge for one disk.
func MergeDisk(base, want Disk) Disk { return mergeDisk(base, want) }

// WithRest gives a Spec that says less than the server, as one from Terraform's state does, what the server has beyond
// it, as Rest: the options, sub-keys and verbatim parts that no field expresses, and the sub-keys that s does not say.
// Diff then keeps them.
func WithRest(s, server Spec) Spec {
	s.Rest = server.Rest
	for _, o := range options() {
		if o.fillRest != nil {
			o.fillRest(&s, &server)
		}
	}
	for _, f := range families() {
		f.fillRest(&s, &server)
	}
	s.CloudInit.Rest = server.CloudInit.Rest
	eachSlot(&s.Disks, server.Disks, diskFormat().fillRest)
	eachSlot(&s.CDROMs, server.CDROMs, func(d, has *CDROM) { d.Rest = has.Rest })
	if s.EFIDisk != nil && server.EFIDisk != nil {
		disk := *s.EFIDisk
		efiFormat().fillRest(&disk, server.EFIDisk)
		s.EFIDisk = &disk
	}
	if s.TPMState != nil && server.TPMState != nil {
		disk := *s.TPMState
		tpmFormat().fillRest(&disk, server.TPMState)
		s.TPMState = &disk
	}
	return s
}

// Displaced are the drives that a copy would lose because want has another drive in their slot: Merge takes the slot
// over, and PVE detaches a disk and drops a cloud-init drive without a word (qemu-server API2/Qemu.pm update_vm_api).
//
// The problems are Undriven, disks of base, and its cloud-init drive where want configures cloud-init without a slot.
// drive is the slot of a cloud-init drive that only goes, "" for none.
func Displaced(base, want Spec) (problems []Problem, drive string) {
	problems = Undriven(base, want)
	refuse := func(slot, at string) {
		if disk := base.Disks[slot]; disk.Volume != "" {
			problems = append(problems, Problem{Option: slot, At: at, Text: fmt.Sprintf("the slot is not empty: %s is in %s, "+
				"and it would be taken out. Choose another slot", disk.Volume, slot)})
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(want.CDROMs)) {
		refuse(slot, "cdroms."+slot)
	}
	has, wants := base.CloudInit.Slot, want.CloudInit.Slot
	if wants == "" && has == "" && want.CloudInit.Storage != "" {
		wants = DefaultCloudInitSlot
	}
	if wants != "" {
		refuse(wants, "cloud_init.slot")
		return problems, ""
	}
	if has == "" {
		return problems, ""
	}
	at := ""
	if _, isDisk := want.Disks[has]; isDisk {
		at = "disks." + has
	} else if _, isCDROM := want.CDROMs[has]; isCDROM {
		at = "cdroms." + has
	}
	switch {
	case at == "":
		return problems, ""
	case reflect.DeepEqual(want.CloudInit, CloudInit{}):
		return problems, has
	}
	return append(problems, Problem{Option: has, At: at, Text: fmt.Sprintf("the cloud-init drive is in %s, and "+
		"cloud_init needs one. Choose another slot, or set cloud_init.slot to another one", has)}), ""
}
