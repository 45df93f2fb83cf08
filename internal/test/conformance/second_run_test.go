package conformance_test

import (
	"archive/tar"
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// secondCalls is the second recording: uploads, downloads, images to import from, snapshots, disks that move, the guest's
// agent, a container. Its rows from 275 on repeat the world of the first ones.
func secondCalls() callTable {
	return callTable{
		name: "calls-2", steps: secondSteps, files: "2", spoilt: []string{"995", "996", "960", "980", "981"},
		onlyTime: func(int) bool { return false }, repeatable: func(*conformer, int) bool { return false },
	}
}

// secondWorld is the server of the second recording before the first request: as the first one, but for its storages, the
// files on them and the role of the token.
func secondWorld() *state.World {
	w := conformanceWorld()
	clear(w.Storages)
	clear(w.Volumes)
	dir := func(id, path string, content ...string) *state.Storage {
		return &state.Storage{ID: id, Type: "dir", Path: path, Total: 270553174016, Content: content}
	}
	off := dir("disabled1", "/var/lib/vzdis", "images", "iso")
	off.Disabled = true
	for _, s := range []*state.Storage{
		dir("local", "/var/lib/vz", "images", "iso", "snippets", "import", "vztmpl", "backup"),
		dir("local2", "/var/lib/vz2", "images", "iso", "import", "snippets"), dir("nosnip", "/var/lib/vz3", "images", "iso"), off,
		{ID: "local-zfs", Type: "zfspool", Path: "rpool/data", Total: 214748463104, Content: []string{"images", "rootdir"}},
		{ID: "local-lvm", Type: "lvmthin", Path: "pve/data", Total: 214748364800, Content: []string{"images", "rootdir"}},
		{ID: "lvm-thick", Type: "lvm", Path: "thick", Total: 64424509440, Content: []string{"images", "rootdir"}},
	} {
		w.Storages[s.ID] = s
	}
	node := w.Nodes["pve1"]
	node.Address, node.VLANAware, node.NoUplink = "192.0.2.2", []string{"vmbr1"}, true
	lacks := func(p string) bool { return slices.Contains([]string{"Datastore.AllocateTemplate", "VM.Snapshot"}, p) }
	w.Roles["TerraformProv"] = slices.DeleteFunc(conformancePrivilegesOfProvider(), lacks)
	secondFiles(w)
	secondTemplate(w)
	return w
}

// secondFiles are the files on the storages, of the recorded sizes.
func secondFiles(w *state.World) {
	put := func(storage, name, content, format string, size int) {
		data := conformanceFile(name, size)
		w.Put(&state.Volume{Storage: storage, Node: "pve1", Name: name, Content: content, Format: format, Size: int64(size), Data: name, Raw: data})
	}
	put("local", "iso/tiny.iso", "iso", "iso", 372736)
	put("local", "snippets/user.yaml", "snippets", "snippet", 36)
	put("local", "snippets/vendor.yaml", "snippets", "snippet", 17)
	for storage, name := range map[string]string{"local": "import/tiny.qcow2", "local2": "import/tiny2.qcow2"} {
		put(storage, name, "import", "qcow2", 4521984)
		w.Volumes[state.VolumeKey{Storage: storage, Node: "pve1", Name: name}].Size = 256 << 20
	}
	w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "import/tiny.raw", Content: "import", Format: "raw", Size: 256 << 20, Data: "tiny"})
}

func secondTemplate(w *state.World) {
	volume := func(name string, size int64) {
		w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: name, Content: "images", VMID: 9000, Format: "qcow2", Size: size})
	}
	volume("9000/base-9000-disk-0.qcow2", 256<<20)
	volume("9000/vm-9000-cloudinit.qcow2", 4<<20)
	w.Guests[9000] = &state.Guest{VMID: 9000, Type: "qemu", Node: "pve1", Config: map[string]string{
		"name": "tmpl9000", "template": "1", "agent": "enabled=1", "boot": "order=scsi0", "ciuser": "debian", "cores": "1",
		"ide2": "local:9000/vm-9000-cloudinit.qcow2,media=cdrom", "ipconfig0": "ip=dhcp", "memory": "512",
		"net0": "virtio=" + w.MAC() + ",bridge=vmbr0", "ostype": "l26", "scsi0": "local:9000/base-9000-disk-0.qcow2,size=256M",
		"scsihw": "virtio-scsi-pci", "serial0": "socket", "smbios1": "uuid=" + w.UUID(), "vga": "serial0", "vmgenid": w.UUID(),
		"meta": "creation-qemu=9.2.0,ctime=1795303768",
	}}
}

// secondSteps is what happened on the server between the rows of the second recording, and what root did there.
func secondSteps(s *conformer) map[int]func() {
	if s.sim != nil {
		s.roles["{disabled.path}"] = "/var/lib/vzdis"
	}
	gone := func(w *state.World, names ...string) {
		for _, volid := range names {
			storage, name, _ := strings.Cut(volid, ":")
			delete(w.Volumes, state.VolumeKey{Storage: storage, Node: "pve1", Name: name})
		}
	}
	ova := func() {
		s.change(func(w *state.World) {
			w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "import/small.ova", Content: "import", Format: "ova", Size: 71680, Raw: smallOVA()})
		})
	}
	return map[int]func(){
		38: ova, 336: ova,
		68: func() { // the QEMU of that server could not
			s.change(func(w *state.World) { w.Guests[960].Ignores = []string{"snapshot"} })
		},
		77:  func() { s.change(func(w *state.World) { gone(w, "local-zfs:vm-960-disk-0") }) },
		152: func() { s.change(func(w *state.World) { meanwhile(w, gone) }) },
		153: func() { s.change(agentOf990) },
		238: func() { s.change(container996) },
		253: func() {
			s.change(func(w *state.World) {
				delete(w.Guests, 996)
				gone(w, "local-lvm:vm-996-disk-0", "local-lvm:vm-995-disk-0", "local-zfs:subvol-996-disk-0", "local-lvm:vm-960-disk-0")
			})
		},
		259: func() { s.change(tasksMeanwhile) },
		275: func() { s.serveFiles() },
	}
}

// meanwhile is what happened in the rows that are left out before 152, and what others did: VMs 980 and 981 were destroyed, the
// volumes of three more were freed under them, a VM 830 was made and started.
func meanwhile(w *state.World, gone func(*state.World, ...string)) {
	for id := range w.Guests {
		if id == 980 || id == 981 {
			delete(w.Guests, id)
		}
	}
	for key, v := range w.Volumes {
		if v.VMID == 980 || v.VMID == 981 || v.VMID == 951 {
			gone(w, key.Storage+":"+key.Name)
		}
	}
	gone(w, "local-zfs:vm-970-disk-0", "local:960/vm-960-disk-0.qcow2")
	orphanVolume(w, "local-zfs", "vm-830-disk-0", 830, 1<<30)
	orphanVolume(w, "local-zfs", "vm-830-disk-1", 830, 1<<30)
	config := map[string]string{
		"name": "one", "cores": "2", "memory": "512", "boot": "order=scsi0", "scsi0": "local-zfs:vm-830-disk-0,size=1G",
		"net0": "virtio=BC:24:11:00:08:30,bridge=vmbr0",
	}
	w.Guests[830] = &state.Guest{VMID: 830, Type: "qemu", Node: "pve1", Config: config,
		Running: &state.Running{QMPStatus: "running", StartedAt: w.Clock.Now(), Booted: config, PID: 30974}}
}

// agentOf990 is the script of that guest's agent.
func agentOf990(w *state.World) {
	w.Guests[990].Agent = &state.Agent{Interfaces: []state.AgentInterface{
		{Name: "lo", MAC: "00:00:00:00:00:00", Addresses: []string{"127.0.0.1/8", "::1/128"}, NoStatistics: true},
		{Name: "eth0", MAC: "bc:24:11:43:88:7f", Addresses: []string{"10.77.3.222/16", "fe80::be24:11ff:fe43:887f/64"}},
	}}
}

// container996 is a container with a volume of its own, and one that is called like a virtual machine's that is not there.
func container996(w *state.World) {
	orphanVolume(w, "local-lvm", "vm-996-disk-0", 996, 1<<30)
	orphanVolume(w, "local-lvm", "vm-995-disk-0", 995, 1<<30)
	w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "subvol-996-disk-0", Content: "rootdir", VMID: 996, Format: "subvol", Size: 1 << 30})
	w.Guests[996] = &state.Guest{VMID: 996, Type: "lxc", Node: "pve1", Config: map[string]string{
		"arch": "amd64", "hostname": "ct", "memory": "128", "rootfs": "local-lvm:vm-996-disk-0,size=1G",
		"mp0": "local-lvm:vm-995-disk-0,mp=/data,size=1G",
	}}
}

// tasksMeanwhile are the tasks of the rows left out, and of others: so many that none before them is in the list any more. One,
// a create, still runs.
func tasksMeanwhile(w *state.World) {
	last := func(t *state.Task) bool { return t.Type == "qmdestroy" && t.ID == "990" }
	for upid, t := range w.Tasks {
		if !last(t) {
			delete(w.Tasks, upid)
		}
	}
	const user, token = "root@pam", "root@pam!tf"
	for i, line := range slices.Backward([][3]string{ // latest first
		{"imgdel", "996@local-zfs", user}, {"imgdel", "995@local-lvm", user}, {"imgdel", "996@local-lvm", user}, {"imgdel", "960@local-lvm", user},
		{"imgdel", "980@local-zfs", user}, {"imgdel", "970@local-zfs", user}, {"qmconfig", "830", user}, {"qmdestroy", "991", token},
		{"qmcreate", "991", token}, {"imgdel", "830@local-zfs", user}, {"qmstop", "990", token}, {"imgdel", "981@local-zfs", user},
		{"imgdel", "981@local", user}, {"imgdel", "980@local", user}, {"imgdel", "980@local", user}, {"imgdel", "960@local", user},
		{"qmstart", "990", token}, {"qmcreate", "990", token}, {"qmdestroy", "981", token}, {"qmdestroy", "982", token},
		{"qmdestroy", "980", token}, {"qmclone", "980", token}, {"qmstart", "980", token},
	}) {
		exit := "OK"
		switch {
		case line[1] == "830@local-zfs":
			exit = "zfs error: cannot destroy 'rpool/data/vm-830-disk-0': dataset is busy"
		case line[0] == "qmstart" && line[1] == "980":
			exit = "you can't start a vm if it's a template"
		}
		past(w, i+1, line[0], line[1], line[2], exit)
	}
	now := w.Clock.Now()
	const upid = "UPID:pve1:0000FFFF:000FFFFF:6B023779:qmcreate:805:terraform@pve!prov:"
	w.Tasks[upid] = &state.Task{UPID: upid, Node: "pve1", Type: "qmcreate", ID: "805", User: "terraform@pve!prov", Start: now, Running: true}
	w.Guests[805] = &state.Guest{VMID: 805, Type: "qemu", Node: "pve1", Config: map[string]string{"lock": "create"}, LockCause: upid}
}

// past puts a task into the list that ended some seconds ago.
func past(w *state.World, ago int, typ, id, user, exit string) {
	at := w.Clock.Now().Add(-time.Duration(ago) * 10 * time.Second)
	n := 0xF000 - ago
	upid := "UPID:pve1:" + hex8(n) + ":" + hex8(n) + ":" + hex8(int(at.Unix())) + ":" + typ + ":" + id + ":" + user + ":"
	w.Tasks[upid] = &state.Task{UPID: upid, Node: "pve1", Type: typ, ID: id, User: user, Start: at, End: at, ExitStatus: exit}
}

func hex8(n int) string {
	text := strings.ToUpper(strconv.FormatInt(int64(n), 16))
	return strings.Repeat("0", max(0, 8-len(text))) + text
}

// serveFiles is the HTTP server that the downloads come from.
func (s *conformer) serveFiles() {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		size := map[string]int{"/d.iso": 372736, "/d.qcow2": 4521984}[q.URL.Path]
		if size == 0 {
			http.NotFound(rw, q)
			return
		}
		rw.Header().Set("Content-Type", "application/octet-stream")
		rw.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = rw.Write(conformanceFile(q.URL.Path, size))
	}))
	s.served = server.Close
	s.roles["{http}"] = server.Listener.Addr().(*net.TCPAddr).String()
}

// smallOVA is the appliance that root made on the node.
func smallOVA() []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct{ name, text string }{{"small.ovf", smallOVF}, {"disk1.vmdk", "KDMV" + strings.Repeat("\x00", 66044)}} {
		_ = w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text))}) // into memory
		_, _ = w.Write([]byte(f.text))
	}
	_ = w.Close()
	return append(b.Bytes(), make([]byte, 71680-b.Len())...)
}

const smallOVF = `<?xml version="1.0"?><Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
 xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"><References><File ovf:href="disk1.vmdk"
 ovf:id="file1" ovf:size="1"/></References><DiskSection><Info>d</Info><Disk ovf:capacity="8" ovf:capacityAllocationUnits="byte * 2^20"
 ovf:diskId="vmdisk1" ovf:fileRef="file1"/></DiskSection><NetworkSection><Info>n</Info><Network ovf:name="VM Network"/></NetworkSection>
<VirtualSystem ovf:id="small"><Info>v</Info><Name>small</Name><OperatingSystemSection ovf:id="96"><Info>o</Info></OperatingSystemSection>
<VirtualHardwareSection><Info>h</Info><Item><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>3</rasd:ResourceType>
<rasd:VirtualQuantity>2</rasd:VirtualQuantity></Item><Item><rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits>
<rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>1024</rasd:VirtualQuantity></Item>
<Item><rasd:Address>0</rasd:Address><rasd:InstanceID>3</rasd:InstanceID><rasd:ResourceSubType>lsilogic</rasd:ResourceSubType>
<rasd:ResourceType>6</rasd:ResourceType></Item><Item><rasd:AddressOnParent>0</rasd:AddressOnParent>
<rasd:HostResource>ovf:/disk/vmdisk1</rasd:HostResource><rasd:InstanceID>4</rasd:InstanceID><rasd:Parent>3</rasd:Parent>
<rasd:ResourceType>17</rasd:ResourceType></Item><Item><rasd:AddressOnParent>7</rasd:AddressOnParent><rasd:Connection>VM Network</rasd:Connection>
<rasd:InstanceID>5</rasd:InstanceID><rasd:ResourceSubType>VmxNet3</rasd:ResourceSubType><rasd:ResourceType>10</rasd:ResourceType></Item>
</VirtualHardwareSection></VirtualSystem></Envelope>`
