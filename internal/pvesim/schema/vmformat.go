package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// isDrive reports whether the option holds a drive.
func isDrive(option string) bool {
	base, _, ok := OptionIndex(option)
	return ok && contains([]string{"ide", "sata", "scsi", "virtio", "efidisk", "tpmstate"}, base)
}

// bootDevice: drives but EFI and TPM, networks, USB and PCI devices. Whether the VM has the device is not asked here.
func bootDevice(value string) error {
	base, _, ok := OptionIndex(value)
	if ok && contains([]string{"ide", "sata", "scsi", "virtio", "net", "usb", "hostpci"}, base) {
		return nil
	}
	return fmt.Errorf("invalid boot device '%s'", value)
}

func hotplug(value string) error {
	if value == "0" || value == "1" {
		return nil
	}
	for _, feature := range splitList(value) {
		if !contains([]string{"network", "disk", "cpu", "memory", "usb", "cloudinit"}, feature) {
			return fmt.Errorf("invalid hotplug feature '%s'", feature)
		}
	}
	return nil
}

// startup is [order=]n, up=n and down=n in any order; Perl's truth makes "0" and the empty text unparsable.
func startup(value string) error {
	fault := errors.New("unable to parse startup options")
	if !perlTrue(value) {
		return fault
	}
	for _, part := range strings.Split(value, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		number := part
		for _, key := range []string{"order=", "up=", "down="} {
			if rest, ok := strings.CutPrefix(part, key); ok {
				number = rest
			}
		}
		if number == "" || digits(number) != len(number) {
			return fault
		}
	}
	return nil
}

func cpuset(value string) error {
	fault := errors.New("unable to parse cpuset option")
	for _, part := range strings.Split(strings.TrimRight(value, ","), ",") {
		if value == "" {
			break
		}
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			to = from
		}
		if from == "" || to == "" || digits(from) != len(from) || digits(to) != len(to) {
			return fault
		}
		low, err1 := strconv.Atoi(from)
		high, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || high < low {
			return fault
		}
	}
	return nil
}

func physBits(value string) error {
	if value == "host" {
		return nil
	}
	if n, err := strconv.Atoi(value); len(value) <= 2 && digits(value) == len(value) && err == nil && n >= 8 && n <= 64 {
		return nil
	}
	return errors.New("value must be an integer between 8 and 64 or 'host'")
}

// builtinCPUs are the models of qemu-server 8.4 (QemuServer/CPUConfig.pm): QEMU's own and PVE's x86-64-v levels.
func builtinCPUs() []string {
	return strings.Fields(`486 athlon Broadwell Broadwell-IBRS Broadwell-noTSX Broadwell-noTSX-IBRS Cascadelake-Server
		Cascadelake-Server-noTSX Cascadelake-Server-v2 Cascadelake-Server-v4 Cascadelake-Server-v5 Conroe Cooperlake
		Cooperlake-v2 core2duo coreduo EPYC EPYC-Genoa EPYC-IBPB EPYC-Milan EPYC-Milan-v2 EPYC-Rome EPYC-Rome-v2
		EPYC-Rome-v3 EPYC-Rome-v4 EPYC-v3 EPYC-v4 GraniteRapids Haswell Haswell-IBRS Haswell-noTSX Haswell-noTSX-IBRS
		host Icelake-Client Icelake-Client-noTSX Icelake-Server Icelake-Server-noTSX Icelake-Server-v3 Icelake-Server-v4
		Icelake-Server-v5 Icelake-Server-v6 IvyBridge IvyBridge-IBRS KnightsMill kvm32 kvm64 max Nehalem Nehalem-IBRS
		Opteron_G1 Opteron_G2 Opteron_G3 Opteron_G4 Opteron_G5 Penryn pentium pentium2 pentium3 phenom qemu32 qemu64
		SandyBridge SandyBridge-IBRS SapphireRapids SapphireRapids-v2 Skylake-Client Skylake-Client-IBRS
		Skylake-Client-noTSX-IBRS Skylake-Client-v4 Skylake-Server Skylake-Server-IBRS Skylake-Server-noTSX-IBRS
		Skylake-Server-v4 Skylake-Server-v5 Westmere Westmere-IBRS x86-64-v2 x86-64-v2-AES x86-64-v3 x86-64-v4`)
}

// ParseDrive is what PVE does with a drive option after its parameters were accepted (QemuServer/Drive.pm parse_drive):
// it parses it and refuses combinations that the format cannot express: a _max without its base, a total limit beside a
// read or write one, a CD-ROM with disk options. bps, bps_rd and bps_wr become mbps… = "0.000" whatever their value,
// which is a bug of PVE's that shows in configs. The error is "unable to parse drive options"; in a request it is a
// parameter error of that option.
func (s *Set) ParseDrive(option, value string) (map[string]string, error) {
	fault := errors.New("unable to parse drive options")
	base, _, _ := OptionIndex(option)
	f, ok := s.Format(option)
	if !ok || !isDrive(option) {
		return nil, fault
	}
	d, err := f.Parse(value)
	if err != nil {
		return nil, fault
	}
	for _, key := range []string{"bps", "bps_rd", "bps_wr"} {
		if _, given := d[key]; !given {
			continue
		}
		if _, both := d["m"+key]; both {
			return nil, fault
		}
		delete(d, key)
		d["m"+key] = "0.000"
	}
	if !limitsFit(d) || d["media"] == "cdrom" && !fitsCDROM(base, d) {
		return nil, fault
	}
	return d, nil
}

// limitsFit: a burst limit needs its base, a burst length its burst limit (of iops_max only this), and a total excludes
// limits of reading and writing.
func limitsFit(d map[string]string) bool {
	for key, needs := range map[string]string{
		"mbps_max": "mbps", "mbps_rd_max": "mbps_rd", "mbps_wr_max": "mbps_wr",
		"bps_max_length": "mbps_max", "bps_rd_max_length": "mbps_rd_max", "bps_wr_max_length": "mbps_wr_max",
		"iops_max_length": "iops_max", "iops_rd_max_length": "iops_rd_max", "iops_wr_max_length": "iops_wr_max",
	} {
		if perlTrue(d[key]) && !perlTrue(d[needs]) {
			return false
		}
	}
	for _, total := range []string{"mbps", "iops"} {
		if perlTrue(d[total]) && (perlTrue(d[total+"_rd"]) || perlTrue(d[total+"_wr"])) {
			return false
		}
	}
	return true
}

// fitsCDROM: a CD-ROM has no disk options and no virtio bus.
func fitsCDROM(bus string, d map[string]string) bool {
	for _, key := range []string{"snapshot", "trans", "format", "heads", "secs", "cyls"} {
		if perlTrue(d[key]) {
			return false
		}
	}
	return bus != "virtio"
}
