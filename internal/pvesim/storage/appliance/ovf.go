package appliance

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// appliance is an OVA file taken apart: its description and how large the files beside it are.
type appliance struct {
	ovf   []byte
	Files map[string]int64
}

// ReadOVA takes a tar file with an .ovf in it apart.
func ReadOVA(data []byte) (appliance, error) {
	a := appliance{Files: map[string]int64{}}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && a.ovf == nil:
			return a, errors.New("ova archive has no .ovf file inside")
		case errors.Is(err, io.EOF):
			return a, nil
		case err != nil:
			return a, errors.New("command 'tar -t -f' failed: exit code 2")
		}
		if a.Files[h.Name] = h.Size; strings.HasSuffix(h.Name, ".ovf") && a.ovf == nil {
			if a.ovf, err = io.ReadAll(r); err != nil {
				return a, err
			}
		}
	}
}

// envelope is as much of an OVF file as PVE reads (pve-storage GuestImport/OVF.pm).
type envelope struct {
	Files []struct {
		ID   string `xml:"id,attr"`
		Href string `xml:"href,attr"`
	} `xml:"References>File"`
	Disks []struct {
		ID       string `xml:"diskId,attr"`
		File     string `xml:"fileRef,attr"`
		Capacity string `xml:"capacity,attr"`
		Unit     string `xml:"capacityAllocationUnits,attr"`
	} `xml:"DiskSection>Disk"`
	System struct {
		ID   string `xml:"id,attr"`
		Name string
		OS   struct {
			ID int `xml:"id,attr"`
		} `xml:"OperatingSystemSection"`
		Config []struct {
			Key   string `xml:"key,attr"`
			Value string `xml:"value,attr"`
		} `xml:"VirtualHardwareSection>Config"`
		Items []hardwareItem `xml:"VirtualHardwareSection>Item"`
	} `xml:"VirtualSystem"`
}

type hardwareItem struct {
	ResourceType, InstanceID, Parent, AddressOnParent, HostResource, VirtualQuantity, ResourceSubType string
}

var (
	hostResource = regexp.MustCompile(`^(?:ovf:)?/[\w.~-]+/([\w.~-]+)$`)
	capacityUnit = regexp.MustCompile(`^\s*byte\s*\*\s*(\d+)\s*\^\s*(\d+)\s*$`)
	badNameChar  = regexp.MustCompile(`[^a-zA-Z0-9\-.]`)
)

// applianceDisk is a disk of an appliance: its slot, the file that it comes from, and its size, 0 if it is not said.
type applianceDisk struct {
	slot, File string
	Size       int64
}

// AllDisks are the disk drives of the hardware, each with its controller, capacity and file.
func (e *envelope) AllDisks() []applianceDisk {
	buses := map[string]string{"5": "ide", "6": "scsi", "20": "sata"}
	var list []applianceDisk
	for _, item := range e.System.Items {
		m := hostResource.FindStringSubmatch(item.HostResource)
		if item.ResourceType != "17" || m == nil {
			continue
		}
		d := applianceDisk{}
		for _, parent := range e.System.Items {
			if parent.InstanceID == item.Parent {
				d.slot = buses[parent.ResourceType] + item.AddressOnParent
			}
		}
		for _, disk := range e.Disks {
			if disk.ID != m[1] {
				continue
			}
			d.Size = capacity(disk.Capacity, disk.Unit)
			for _, f := range e.Files {
				if f.ID == disk.File {
					d.File = f.Href
				}
			}
		}
		if d.slot != "" && d.File != "" {
			list = append(list, d)
		}
	}
	return list
}

func capacity(amount, unit string) int64 {
	n, _ := strconv.ParseInt(amount, 10, 64) // a text that is no number has no size
	m := capacityUnit.FindStringSubmatch(unit)
	if m == nil {
		return 0
	}
	for range perl.Number(m[2]) {
		n *= int64(perl.Number(m[1]))
	}
	return n
}

// Description reads the OVF file of an appliance, or in it.
func Description(r *engine.Request, s *state.Storage, name string, packed bool) (*envelope, error) {
	path := s.VolumePath(name)
	v := r.W.Volume(r.Node(), s.ID+":"+name)
	var text []byte
	switch {
	case v != nil && !packed:
		text = v.Raw
	case v != nil:
		a, err := ReadOVA(v.Raw)
		if err == nil {
			text = a.ovf
		}
	case !packed:
		return nil, perl.Die("can't open '%s' - No such file or directory", path)
	}
	if text == nil {
		return nil, perl.Die("command 'tar -xO --wildcards '--occurrence=1' -f %s '*.ovf'' failed: exit code 2", path)
	}
	e := &envelope{}
	if err := xml.Unmarshal(text, e); err != nil {
		return nil, perl.Die("%s", err)
	}
	return e, nil
}

// Metadata is the answer to import-metadata. packed tells that the disks lie in an OVA.
func (e *envelope) Metadata(storage, name string, packed bool) map[string]any {
	args := map[string]any{"ostype": ovfType(e.System.OS.ID), "cores": "", "memory": ""}
	if called := cmp.Or(e.System.Name, e.System.ID); called != "" {
		args["name"] = badNameChar.ReplaceAllString(strings.Join(strings.Fields(called), "-"), "")
	}
	warnings, disks, nets := []any{}, map[string]any{}, map[string]any{}
	where := storage + ":import/"
	if packed {
		warnings = append(warnings, map[string]any{"type": "ova-needs-extracting"})
		where = storage + ":" + name + "/"
	}
	for _, item := range e.System.Items {
		switch item.ResourceType {
		case "3":
			first(args, "cores", item.VirtualQuantity)
		case "4":
			first(args, "memory", item.VirtualQuantity)
		case "10":
			model := strings.ToLower(item.ResourceSubType)
			if !slices.Contains([]string{"e1000", "e1000e", "vmxnet3"}, model) {
				model = "e1000"
			}
			nets[fmt.Sprintf("net%d", len(nets))] = map[string]any{"model": model}
		}
	}
	var boot []string
	for _, d := range e.AllDisks() {
		boot = append(boot, d.slot)
		disk := map[string]any{"volid": where + d.File}
		if d.Size > 0 {
			disk["size"] = d.Size
		}
		disks[d.slot] = disk
	}
	if len(boot) > 0 {
		args["boot"] = "order=" + strings.Join(boot, ";")
	}
	for _, c := range e.System.Config {
		if c.Key == "firmware" && c.Value == "efi" {
			args["bios"], disks["efidisk0"] = "ovmf", 1
			warnings = append(warnings, map[string]any{"type": "efi-state-lost", "key": "bios", "value": "ovmf"})
		}
	}
	return map[string]any{"type": "vm", "source": name, "create-args": args, "disks": disks, "warnings": warnings,
		"net": nets}
}

// first sets what no item before has set.
func first(args map[string]any, key, value string) {
	if args[key] == "" {
		args[key] = value
	}
}

// ovfType is the ostype of a CIM operating system's number (OVF.pm, ostype_ids; winxp is no ostype, though it stands
// there).
func ovfType(id int) string {
	for ostype, ids := range map[string][]int{
		"winxp": {18}, "w2k": {58}, "wxp": {67, 71, 72, 75}, "w2k3": {69, 70}, "wvista": {73, 74}, "w2k8": {76, 77},
		"solaris": {29, 81}, "l24": {97, 98}, "win7": {103, 105}, "win8": {111, 112, 113, 114, 115, 117, 118},
		"win10": {116, 119, 120, 121}, "win11": {122, 123},
		"l26": {36, 79, 80, 82, 83, 84, 85, 87, 89, 90, 91, 92, 93, 94, 95, 96, 99, 100, 101, 106, 107, 108, 109},
	} {
		if slices.Contains(ids, id) {
			return ostype
		}
	}
	return "other"
}
