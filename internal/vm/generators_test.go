package vm

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

func maybe[V any](t *rapid.T, label string, g *rapid.Generator[V]) *V {
	if !rapid.Bool().Draw(t, label+"?") {
		return nil
	}
	return new(g.Draw(t, label))
}

func word() *rapid.Generator[string] { return rapid.StringMatching(`[a-z][a-z0-9._-]{0,9}[a-z0-9]`) }

func number() *rapid.Generator[int64] { return rapid.Int64Range(0, 1<<40) }

func fraction() *rapid.Generator[float64] {
	return rapid.Map(rapid.IntRange(0, 128_000), func(n int) float64 { return float64(n) / 1000 })
}

func oneOf(values ...string) *rapid.Generator[string] { return rapid.SampledFrom(values) }

func someWords(t *rapid.T, label string, g *rapid.Generator[string]) []string {
	if !rapid.Bool().Draw(t, label+"?") {
		return nil
	}
	return rapid.SliceOfNDistinct(g, 1, 4, rapid.ID[string]).Draw(t, label)
}

func sortedWords(t *rapid.T, label string, g *rapid.Generator[string]) []string {
	l := someWords(t, label, g)
	slices.Sort(l)
	return l
}

// restOf draws sub-keys that no leaf of a device has.
func restOf(t *rapid.T, label string, keys ...string) map[string]string {
	var rest map[string]string
	for _, key := range keys {
		if rapid.IntRange(0, 3).Draw(t, label+"."+key+"?") == 0 {
			if rest == nil {
				rest = map[string]string{}
			}
			rest[key] = word().Draw(t, label+"."+key)
		}
	}
	return rest
}

func topRest(t *rapid.T) map[string]string {
	var rest map[string]string
	for _, key := range []string{"unused0", "meta", "digest", "lock", "parent", "scsi31", "net32", "hostpci16", "runningmachine"} {
		if rapid.IntRange(0, 3).Draw(t, key+"?") == 0 {
			if rest == nil {
				rest = map[string]string{}
			}
			rest[key] = rapid.String().Draw(t, key)
		}
	}
	return rest
}

// genSpec draws a whole Spec in the form that Decode gives: lists sorted, formats as the volumes have them.
func genSpec(t *rapid.T) Spec {
	s := Spec{
		Options: Options{Name: maybe(t, "name", word()),
			Description: maybe(t, "description", rapid.Map(rapid.String(), func(s string) string { return "x" + property.TrimDescription(s) })),
			Tags:        sortedWords(t, "tags", word()),
			OnBoot:      maybe(t, "onboot", rapid.Bool()),
			AutoStart:   maybe(t, "autostart", rapid.Bool()),
			Protection:  maybe(t, "protection", rapid.Bool()),
			Template:    maybe(t, "template", rapid.Bool()),
			Machine:     maybe(t, "machine", oneOf("pc", "q35", "pc-q35-9.0", "pc-i440fx-8.1+pve1")),
			BIOS:        maybe(t, "bios", oneOf("ovmf", "seabios")),
			OSType:      maybe(t, "ostype", oneOf("l26", "win11", "other")),
			SCSIHW:      maybe(t, "scsihw", word())},
		MachineRest: restOf(t, "machine", "later", "much-later"),
		CPU:         genCPU(t),
		Memory: Memory{
			Size: maybe(t, "memory", number()), Balloon: maybe(t, "balloon", number()), Shares: maybe(t, "shares", number()),
			Hugepages: maybe(t, "hugepages", oneOf("any", "2", "1024")), KeepHugepages: maybe(t, "keephugepages", rapid.Bool()),
			AllowKSM: maybe(t, "allow-ksm", rapid.Bool()),
		},
		Agent: Agent{
			Enabled: maybe(t, "agent", rapid.Bool()), Type: maybe(t, "agenttype", oneOf("virtio", "isa")),
			FSTrimClonedDisks: maybe(t, "fstrim", rapid.Bool()), FreezeFSOnBackup: maybe(t, "freezefs", rapid.Bool()),
			Rest: restOf(t, "agent", "later"),
		},
		CloudInit: genCloudInit(t),
		Rest:      topRest(t),
	}
	if rapid.Bool().Draw(t, "boot?") {
		s.BootOrder = append([]string{}, someWords(t, "boot", oneOf("scsi0", "net0", "ide2", "virtio3"))...)
	}
	genMachine(t, &s)
	genDrives(t, &s)
	for i := range 3 {
		if rapid.Bool().Draw(t, "net?") {
			put(&s.Networks, fmt.Sprintf("net%d", i), genNIC(t))
		}
	}
	genDevices(t, &s)
	return s
}

func genCPU(t *rapid.T) CPU {
	return CPU{
		Type: maybe(t, "cputype", oneOf("host", "kvm64", "x86-64-v2-AES")), Flags: sortedWords(t, "flags", oneOf("+aes", "-pcid", "+pdpe1gb")),
		Sockets: maybe(t, "sockets", number()), Cores: maybe(t, "cores", number()), VCPUs: maybe(t, "vcpus", number()),
		Limit: maybe(t, "cpulimit", fraction()), Units: maybe(t, "cpuunits", number()), Affinity: maybe(t, "affinity", oneOf("0-1", "0,2")),
		NUMA: maybe(t, "numa", rapid.Bool()), Hidden: maybe(t, "hidden", rapid.Bool()),
		HVVendorID: maybe(t, "hv-vendor-id", word()), PhysBits: maybe(t, "phys-bits", oneOf("host", "48")), Level: maybe(t, "level", number()),
		GuestPhysBits: maybe(t, "guest-phys-bits", number()), ReportedModel: maybe(t, "reported-model", word()),
		Rest: restOf(t, "cpu", "later", "much-later"),
	}
}

func genCloudInit(t *rapid.T) CloudInit {
	c := CloudInit{
		CloudInitOptions: CloudInitOptions{Type: maybe(t, "citype", word()),
			User:         maybe(t, "ciuser", rapid.StringMatching(`[a-z][a-z ]{0,5}[a-z]`)),
			SSHKeys:      someWords(t, "sshkeys", rapid.StringMatching(`ssh-ed25519 [A-Za-z0-9+/]{1,20}={0,2} [a-zé%"#@,;=]{1,5}`)),
			Nameservers:  someWords(t, "nameserver", oneOf("10.0.0.1", "fe80::1", "1.1.1.1")),
			SearchDomain: maybe(t, "searchdomain", word()), Upgrade: maybe(t, "ciupgrade", rapid.Bool())},
	}
	for i := range 2 {
		a := Address{
			IPv4: maybe(t, "ip", oneOf("dhcp", "10.0.0.5/24")), Gateway4: maybe(t, "gw", oneOf("10.0.0.1", "10.0.0.2")),
			IPv6: maybe(t, "ip6", oneOf("auto", "fd00::5/64")), Gateway6: maybe(t, "gw6", oneOf("fd00::1")),
		}
		if a != (Address{}) {
			put(&c.Addresses, fmt.Sprintf("net%d", i), a)
		}
	}
	custom := CustomData{User: maybe(t, "user", genSnippet()), Network: maybe(t, "network", genSnippet()),
		Meta: maybe(t, "meta", genSnippet()), Vendor: maybe(t, "vendor", genSnippet())}
	if custom != (CustomData{}) {
		c.Custom = &custom
	}
	return c
}

func genSnippet() *rapid.Generator[string] {
	return oneOf("local:snippets/a.yaml", "local:snippets/b.yaml")
}

// genDrives fills disjoint slots with disks, optical drives and at most one cloud-init drive.
func genDrives(t *rapid.T, s *Spec) {
	for _, slot := range []string{"scsi0", "scsi30", "virtio1", "sata5", "ide0", "ide2"} {
		optical := strings.HasPrefix(slot, "ide") || slot == "sata5"
		switch kind := rapid.IntRange(0, 3).Draw(t, slot+" kind"); {
		case kind == 1:
			put(&s.Disks, slot, genDisk(t))
		case kind == 2 && optical:
			file := oneOf("none", "cdrom", "local:iso/a.iso", "local:iso/b.iso").Draw(t, "file")
			put(&s.CDROMs, slot, CDROM{File: file, Rest: restOf(t, "cdrom", "model", "serial")})
		case kind == 3 && optical && s.CloudInit.Slot == "":
			c := &s.CloudInit
			c.Slot, c.Storage = slot, oneOf("local-zfs", "local-lvm").Draw(t, "cloud-init storage")
			c.Volume, c.Format, c.Rest = c.Storage+":vm-100-cloudinit", new("raw"), restOf(t, "cloudinit", "size")
		}
	}
	if rapid.Bool().Draw(t, "efi?") {
		storage, volume, format := genVolume(t)
		s.EFIDisk = &EFIDisk{Storage: storage, Volume: volume, Format: &format,
			EFIOptions: EFIOptions{Type: maybe(t, "efitype", oneOf("2m", "4m")),
				PreEnrolledKeys: maybe(t, "keys", rapid.Bool()),
				MSCert:          maybe(t, "ms-cert", oneOf("2011", "2023w"))}, Rest: restOf(t, "efi", "size", "later")}
	}
	if rapid.Bool().Draw(t, "tpm?") {
		storage, volume, _ := genVolume(t)
		s.TPMState = &TPMState{Storage: storage, Volume: volume, Version: maybe(t, "version", oneOf("v1.2", "v2.0")),
			Rest: restOf(t, "tpm", "size")}
	}
}

func genVolume(t *rapid.T) (storage, volume, format string) {
	n := rapid.IntRange(0, 5).Draw(t, "disk number")
	if rapid.Bool().Draw(t, "dir?") {
		format = oneOf("raw", "qcow2", "vmdk").Draw(t, "format")
		return "local2", fmt.Sprintf("local2:100/vm-100-disk-%d.%s", n, format), format
	}
	storage = oneOf("local-zfs", "local-lvm").Draw(t, "storage")
	return storage, fmt.Sprintf("%s:vm-100-disk-%d", storage, n), "raw"
}

func genDisk(t *rapid.T) Disk {
	d := Disk{
		Size: maybe(t, "size", rapid.Int64Range(1, 1<<44)),
		DiskOptions: DiskOptions{Cache: maybe(t, "cache", oneOf("none", "writeback")), AIO: maybe(t, "aio", oneOf("native", "io_uring")),
			Discard: maybe(t, "discard", rapid.Bool()), SSD: maybe(t, "ssd", rapid.Bool()), IOThread: maybe(t, "iothread", rapid.Bool()),
			Backup: maybe(t, "backup", rapid.Bool()), Replicate: maybe(t, "replicate", rapid.Bool()), ReadOnly: maybe(t, "ro", rapid.Bool()),
			Serial: maybe(t, "serial", rapid.StringMatching(`[A-Za-z0-9 ,=%é]{1,10}`)),
			Model:  maybe(t, "model", rapid.StringMatching(`[A-Za-z0-9 ,=%é]{1,10}`)), WWN: maybe(t, "wwn", oneOf("0x1234567890abcdef")),
			Vendor: maybe(t, "vendor", word()), Product: maybe(t, "product", word()), Queues: maybe(t, "queues", number()),
			SCSIBlock: maybe(t, "scsiblock", rapid.Bool()), Snapshot: maybe(t, "snapshot", rapid.Bool()), Shared: maybe(t, "shared", rapid.Bool()),
			DetectZeroes: maybe(t, "detect_zeroes", rapid.Bool()), RError: maybe(t, "rerror", oneOf("stop")),
			WError: maybe(t, "werror", oneOf("enospc"))}, Rest: restOf(t, "disk", "cyls", "trans", "later", "bps"),
		Throttle: fields[Throttle](t, "throttle"),
	}
	var format string
	d.Storage, d.Volume, format = genVolume(t)
	d.Format = &format
	return d
}

func genNIC(t *rapid.T) NIC {
	return NIC{
		Model: oneOf("virtio", "e1000", "rtl8139", "futuristic").Draw(t, "model"),
		NICOptions: NICOptions{MACAddr: maybe(t, "mac", oneOf("BC:24:11:00:00:01", "bc:24:11:aa:bb:cc")),
			Bridge: maybe(t, "bridge", oneOf("vmbr0", "vmbr1")),
			Tag:    maybe(t, "tag", number()), Trunks: property.ParseTrunks(strings.Join(someWords(t, "trunks", oneOf("5", "10-20", "100", "7-9")), ";")),
			Firewall: maybe(t, "firewall", rapid.Bool()), LinkDown: maybe(t, "link_down", rapid.Bool()), MTU: maybe(t, "mtu", number()),
			Queues: maybe(t, "queues", number()), Rate: maybe(t, "rate", fraction()), HostTunnel: maybe(t, "host-tunnel", rapid.Bool())},
		Rest: restOf(t, "nic", "later"),
	}
}
