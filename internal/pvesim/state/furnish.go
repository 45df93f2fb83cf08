package state

import (
	"archive/tar"
	"bytes"
	"maps"
	"slices"
	"time"
)

// Furnish adds to a world what the guides of the provider name: media of Windows, its drivers and Talos, resource
// mappings, an appliance, a backup, and a host of another hypervisor with machines on it.
func (w *World) Furnish() {
	for _, node := range slices.Sorted(maps.Keys(w.Nodes)) {
		for _, name := range []string{"windows-11", "virtio-win", "talos-nocloud-amd64"} {
			w.Put(&Volume{Storage: "local", Node: node, Name: "iso/" + name + ".iso", Content: "iso", Format: "iso", Size: mib})
		}
		raw := appliance()
		w.Put(&Volume{Storage: "local", Node: node, Name: "import/appliance.ova", Content: "import", Format: "ova",
			Size: int64(len(raw)), Raw: raw})
	}
	for _, node := range slices.Sorted(maps.Keys(w.Nodes))[:1] {
		w.AddBackup(node)
	}
	AddMappings(w)
	w.Storages["esxi"] = &Storage{ID: "esxi", Type: "esxi", Path: "esxi.example.org", Content: []string{"import"}}
	w.machine("web", webVMX, map[string]int64{"web.vmdk": 16 * gib, "web_1.vmdk": 100 * gib})
	w.machine("desktop", desktopVMX, map[string]int64{"desktop.vmdk": 64 * gib})
}

// AddMappings makes a resource mapping of each kind, of all nodes, unless there are some: PVE starts no VM with one
// that is not there.
func AddMappings(w *World) {
	if len(w.Mappings) > 0 {
		return
	}
	for _, m := range []Mapping{{Kind: "pci", ID: "gpu"}, {Kind: "usb", ID: "stick"}, {Kind: "dir", ID: "share"}} {
		m.Nodes = slices.Sorted(maps.Keys(w.Nodes))
		w.Mappings = append(w.Mappings, &m)
	}
}

// machine is one on the host esxi, with its disks.
func (w *World) machine(name, description string, disks map[string]int64) {
	dir := "ha-datacenter/datastore1/" + name + "/"
	w.Put(&Volume{Storage: "esxi", Name: dir + name + ".vmx", Content: "import", Format: "vmx", Data: description})
	for file, size := range disks {
		w.Put(&Volume{Storage: "esxi", Name: dir + file, Content: "images", Format: "vmdk", Size: size,
			Data: name + " on ESXi"})
	}
}

// webVMX is a Linux machine with two disks.
const webVMX = `.encoding = "UTF-8"
displayName = "web"
guestOS = "debian12-64"
firmware = "bios"
memSize = "4096"
numvcpus = "4"
cpuid.coresPerSocket = "2"
uuid.bios = "56 4d 1c 2f 88 aa 0b 31-9c 5e 7d 20 41 6b c3 f9"
scsi0.present = "TRUE"
scsi0.virtualDev = "pvscsi"
scsi0:0.present = "TRUE"
scsi0:0.fileName = "web.vmdk"
scsi0:1.present = "TRUE"
scsi0:1.fileName = "web_1.vmdk"
ethernet0.present = "TRUE"
ethernet0.virtualDev = "vmxnet3"
ethernet0.addressType = "generated"
ethernet0.generatedAddress = "00:0c:29:6b:c3:f9"
`

// desktopVMX is a Windows machine with UEFI, whose devices do not all come along.
const desktopVMX = `.encoding = "UTF-8"
displayName = "desktop"
guestOS = "windows9-64"
firmware = "efi"
memSize = "8192"
numvcpus = "4"
cpuid.coresPerSocket = "4"
uuid.bios = "56 4d 77 10 0c 9b 4e d2-a3 18 5f 6e 90 2b 71 c4"
scsi0.present = "TRUE"
scsi0.virtualDev = "lsisas1068"
scsi0:0.present = "TRUE"
scsi0:0.fileName = "desktop.vmdk"
sata0.present = "TRUE"
sata0:0.present = "TRUE"
sata0:0.deviceType = "cdrom-image"
sata0:0.fileName = "/vmfs/volumes/datastore1/iso/windows-10.iso"
serial0.present = "TRUE"
serial0.fileType = "device"
ethernet0.present = "TRUE"
ethernet0.virtualDev = "e1000e"
ethernet0.addressType = "static"
ethernet0.address = "00:50:56:00:00:17"
`

// appliance is an OVA file: a description of a machine with one disk, and the disk.
func appliance() []byte {
	var file bytes.Buffer
	out := tar.NewWriter(&file)
	for _, part := range []struct{ name, text string }{{"appliance.ovf", applianceOVF},
		{"appliance-disk1.vmdk", "KDMV, in place of a disk"}} {
		h := &tar.Header{Name: part.name, Mode: 0o644, Size: int64(len(part.text)),
			ModTime: time.Unix(defaultCtime.Unix(), 0)}
		if err := out.WriteHeader(h); err != nil {
			panic(err) // of a buffer
		}
		_, _ = out.Write([]byte(part.text))
	}
	_ = out.Close()
	return file.Bytes()
}

const applianceOVF = `<?xml version="1.0"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
  xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData">
  <References><File ovf:id="file1" ovf:href="appliance-disk1.vmdk"/></References>
  <DiskSection><Info>disks</Info>
    <Disk ovf:diskId="disk1" ovf:fileRef="file1" ovf:capacity="8" ovf:capacityAllocationUnits="byte * 2^30"/>
  </DiskSection>
  <VirtualSystem ovf:id="appliance"><Info>a machine</Info><Name>appliance</Name>
    <OperatingSystemSection ovf:id="96"><Info>Debian</Info></OperatingSystemSection>
    <VirtualHardwareSection><Info>hardware</Info>
      <Item><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>3</rasd:ResourceType>
        <rasd:VirtualQuantity>2</rasd:VirtualQuantity></Item>
      <Item><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType>
        <rasd:VirtualQuantity>2048</rasd:VirtualQuantity></Item>
      <Item><rasd:InstanceID>3</rasd:InstanceID><rasd:ResourceType>6</rasd:ResourceType></Item>
      <Item><rasd:InstanceID>4</rasd:InstanceID><rasd:ResourceType>17</rasd:ResourceType><rasd:Parent>3</rasd:Parent>
        <rasd:AddressOnParent>0</rasd:AddressOnParent><rasd:HostResource>ovf:/disk/disk1</rasd:HostResource></Item>
      <Item><rasd:InstanceID>5</rasd:InstanceID><rasd:ResourceType>10</rasd:ResourceType>
        <rasd:ResourceSubType>VmxNet3</rasd:ResourceSubType></Item>
    </VirtualHardwareSection>
  </VirtualSystem>
</Envelope>
`
