// Package appliance reads what others' hypervisors describe a machine with: OVF, and the VMX of an ESXi host.
package appliance

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// vmx is the description of a machine on an ESXi host, a volume with its text as data. A machine whose volume is busy
// runs.
type vmx struct {
	r       *engine.Request
	storage *state.Storage
	name    string
	keys    map[string]string
}

var (
	vmxLine   = regexp.MustCompile(`^\s*(\S+)\s*=\s*(.+?)\s*$`)
	vmxDisk   = regexp.MustCompile(`^(scsi|ide|sata|nvme)(\d+):(\d+)(?:\.file[nN]ame)?$`)
	vmxDevice = regexp.MustCompile(`^(ethernet|serial)(\d+)\.(.+)$`)
	notHex    = regexp.MustCompile(`[^0-9a-fA-F]`)
	vmxUUID   = regexp.MustCompile(`^(.{8})(.{4})(.{4})(.{4})(.{12})$`)
)

// EsxiMetadata is what a guest made of a machine on an ESXi host would be (pve-storage ESXiPlugin.pm,
// get_import_metadata).
func EsxiMetadata(r *engine.Request, s *state.Storage, name string) (any, error) {
	if !strings.Contains(name, "/") || !strings.HasSuffix(name, ".vmx") {
		return nil, perl.Die("volume '%s' does not look like an importable vm config", name)
	}
	if s.Offline {
		return nil, perl.Die("storage '%s' is not activated", s.ID)
	}
	v := r.W.Volume(r.Node(), s.ID+":"+name)
	if v == nil {
		return nil, perl.Die("can't open '%s' - No such file or directory", s.VolumePath(name))
	}
	x := vmx{r, s, name, map[string]string{}}
	for line := range strings.SplitSeq(v.Data, "\n") {
		if m := vmxLine.FindStringSubmatch(line); m != nil {
			x.keys[m[1]] = strings.Trim(m[2], `"'`)
		}
	}
	return x.metadata(v.Busy != ""), nil
}

// guestOf collects what the parts of a description say.
type guestOf struct {
	args, disks, nets map[string]any
	warnings          []any
}

func (g *guestOf) warn(kind, key, value string) {
	w := map[string]any{"type": kind}
	if key != "" {
		w["key"] = key
	}
	if value != "" {
		w["value"] = value
	}
	g.warnings = append(g.warnings, w)
}

// metadata is VMX.pm's get_create_args.
func (x vmx) metadata(runs bool) map[string]any {
	ostype, windows := esxiGuest(x.keys["guestOS"])
	g := &guestOf{args: map[string]any{"bios": "seabios", "memory": nil, "ostype": ostype}, disks: map[string]any{},
		nets:     map[string]any{},
		warnings: []any{}}
	cores := perl.Number(cmp.Or(x.keys["cpuid.coresPerSocket"], "1"))
	if cores != 1 {
		g.args["cores"] = cores
	}
	if sockets := perl.Number(cmp.Or(x.keys["numvcpus"], strconv.Itoa(cores))) / max(cores, 1); sockets != 1 {
		g.args["sockets"] = sockets
	}
	efi := strings.EqualFold(x.keys["firmware"], "efi")
	if efi {
		g.args["bios"], g.disks["efidisk0"] = "ovmf", 1
		g.warn("efi-state-lost", "bios", "ovmf")
	}
	if memory := x.keys["memSize"]; memory != "" {
		g.args["memory"] = memory
	}
	for _, slot := range x.present("ethernet") {
		net := map[string]any{"model": cmp.Or(x.keys["ethernet"+slot+".virtualDev"], "vmxnet3")}
		if mac := x.mac("ethernet" + slot); mac != "" {
			net["macaddr"] = mac
		}
		g.nets["net"+slot] = net
	}
	x.controller(g, x.drives(g), ostype, efi, windows)
	x.identity(g)
	for i := range x.present("serial") {
		g.warn("serial-port-socket-only", fmt.Sprintf("serial%d", i), "")
		g.args[fmt.Sprintf("serial%d", i)] = "socket"
	}
	if runs {
		g.warn("guest-is-running", "", "")
	}
	return map[string]any{"type": "vm", "source": "esxi", "create-args": g.args, "disks": g.disks, "net": g.nets,
		"warnings": g.warnings}
}

// present are the numbers of a kind's devices that are there.
func (x vmx) present(kind string) []string {
	found := map[string]bool{}
	for key := range x.keys {
		m := vmxDevice.FindStringSubmatch(key)
		if len(m) > 0 && m[1] == kind && x.keys[kind+m[2]+".present"] == "TRUE" {
			found[m[2]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (x vmx) mac(device string) string {
	switch strings.ToLower(x.keys[device+".addressType"]) {
	case "static", "generated", "vpx":
		return cmp.Or(x.keys[device+".generatedAddress"], x.keys[device+".address"])
	}
	return x.keys[device+".address"]
}

// drives adds disks and optical drives, numbered from 0 on each bus, those of NVMe at the end as SCSI disks. It returns
// the SCSI hardware that the controllers ask for.
func (x vmx) drives(g *guestOf) (scsihw string) {
	counts, boot := map[string]int{}, []string{}
	var nvmes []string
	add := func(key, bus string) {
		m := vmxDisk.FindStringSubmatch(key)
		volid := x.storage.ID + ":" + x.resolve(x.keys[key])
		switch dev := x.keys[m[1]+m[2]+".virtualDev"]; {
		case scsihw != "": // several kinds are not supported
		case strings.HasPrefix(strings.ToLower(dev), "lsi"):
			scsihw = "lsi"
		case dev == "pvscsi":
			scsihw = "pvscsi"
		}
		slot := fmt.Sprintf("%s%d", bus, counts[bus])
		counts[bus]++
		if strings.Contains(x.keys[m[1]+m[2]+":"+m[3]+".deviceType"], "cdrom") {
			g.args[slot] = "none,media=cdrom"
			g.warn("cdrom-image-ignored", slot, volid)
		} else {
			disk := map[string]any{"volid": volid}
			if v := x.r.W.Volume(x.r.Node(), volid); v != nil {
				disk["size"] = v.Size
			}
			g.disks[slot] = disk
		}
		boot = append(boot, slot)
	}
	for _, key := range slices.Sorted(maps.Keys(x.keys)) {
		switch m := vmxDisk.FindStringSubmatch(key); {
		case m == nil:
		case m[1] == "nvme":
			nvmes = append(nvmes, key)
		default:
			add(key, m[1])
		}
	}
	for _, key := range nvmes {
		m := vmxDisk.FindStringSubmatch(key)
		g.warn("nvme-unsupported", "nvme"+m[2]+":"+m[3], x.keys[key])
		add(key, "scsi")
	}
	g.args["boot"] = "order=" + strings.Join(boot, ";")
	return scsihw
}

// resolve is the volume of a file, which is named beside its machine, or from the root of the host.
func (x vmx) resolve(file string) string {
	datacenter, rest, _ := strings.Cut(x.name, "/")
	if path, ok := strings.CutPrefix(file, "/vmfs/volumes/"); ok {
		return datacenter + "/" + path
	}
	return datacenter + "/" + rest[:strings.LastIndexByte(rest, '/')] + "/" + file
}

// controller sets the SCSI hardware: OVMF has no driver for that of LSI.
func (vmx) controller(g *guestOf, scsihw, ostype string, efi, windows bool) {
	if scsihw == "" && ostype == "l26" {
		scsihw = "virtio-scsi-single"
	}
	if efi && (scsihw == "" || scsihw == "lsi") {
		scsihw = "virtio-scsi-single"
		if windows {
			scsihw = "pvscsi"
		}
		g.warn("ovmf-with-lsi-unsupported", "scsihw", scsihw)
	}
	if scsihw != "" {
		g.args["scsihw"] = scsihw
	}
}

func (x vmx) identity(g *guestOf) {
	if m := vmxUUID.FindStringSubmatch(notHex.ReplaceAllString(x.keys["uuid.bios"], "")); m != nil {
		g.args["smbios1"] = "uuid=" + strings.Join(m[1:], "-")
	}
	name := strings.NewReplacer(" ", "-", "\t", "-").Replace(x.keys["displayName"])
	if name = strings.Trim(badNameChar.ReplaceAllString(name, ""), ".-"); name != "" {
		g.args["name"] = name
	}
}

// esxiGuest is the ostype of a guestOS, and whether it is one of Windows (guest_type).
func esxiGuest(guest string) (ostype string, windows bool) {
	known := map[string]string{
		"dos": "other", "longhorn": "w2k8", "winNetBusiness": "w2k3", "windows9": "win10", "windows9-64": "win10",
		"windows9srv":    "win10",
		"windows9srv-64": "win10", "windows11-64": "win11", "windows12-64": "win11", "win2000AdvServ": "w2k",
		"win2000Pro":  "w2k",
		"win2000Serv": "w2k", "win31": "other", "windows7": "win7", "windows7-64": "win7", "windows8": "win8",
		"windows8-64": "win8",
		"win95":       "other", "win98": "other", "winNT": "wxp", "winNetEnterprise": "w2k3", "winNetEnterprise-64": "w2k3",
		"winNetDatacenter": "w2k3", "winNetDatacenter-64": "w2k3", "winNetStandard": "w2k3", "winNetStandard-64": "w2k3",
		"winNetWeb":   "w2k3",
		"winLonghorn": "w2k8", "winLonghorn-64": "w2k8", "windows7Server-64": "w2k8", "windows8Server-64": "win8",
		"windows9Server-64": "win10", "windows2019srv-64": "win10", "windows2019srvNext-64": "win11",
		"windows2022srvNext-64": "win11",
		"winVista":              "wvista", "winVista-64": "wvista", "winXPPro": "wxp", "winXPPro-64": "wxp",
	}
	if ostype, ok := known[guest]; ok {
		return ostype, true
	}
	if strings.HasPrefix(guest, "solaris") {
		return "solaris", false
	}
	others := regexp.MustCompile(`^(?:darwin.*|freeBSD(?:1[1-4])?(?:-64)?|other(?:-64)?|os2|netware[56]|` +
		`openserver[56]|unixware7|eComStation2?|vmkernel(?:5|6|65|7|8)?)$`)
	if others.MatchString(guest) {
		return "other", false
	}
	return "l26", false
}
