// Package release knows of which package versions the releases of Proxmox VE consist, and tells by them what holds for
// which.
package release

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// releases are the versions of the packages that the releases consist of, by their debian/changelog: those of the last
// point release of 8.0 without the changes already meant for 8.1, of 8.2.2 on 24 April 2024, of 8.4.21, of 9.0.11 on 10
// October 2025, before 9.1 was prepared, of 9.2.11.
var releases = map[string]map[string]string{
	"7.4": {"qemu-server": "7.4-7"},
	"8.0": {
		"proxmox-kernel": "6.2.16-20", "pve-manager": "8.0.4", "qemu-server": "8.0.7", "pve-storage": "8.0.2",
		"pve-access-control": "8.0.5",
		"pve-cluster":        "8.0.4", "pve-container": "5.0.5",
		"pve-ha-manager": "4.0.2", "pve-http-server": "5.0.4", "pve-network": "0.8.1", "pve-qemu-kvm": "8.0.2",
		"pve-common":       "8.0.9",
		"pve-guest-common": "5.0.5",
	},
	"8.2": {
		"proxmox-kernel": "6.8.4-2", "pve-manager": "8.2.2", "qemu-server": "8.2.1", "pve-storage": "8.2.1",
		"pve-access-control": "8.1.4",
		"pve-cluster":        "8.0.6", "pve-container": "5.0.11",
		"pve-ha-manager": "4.0.4", "pve-http-server": "5.1.0", "pve-network": "0.9.8", "pve-qemu-kvm": "8.1.5",
		"pve-common":       "8.2.1",
		"pve-guest-common": "5.1.1",
	},
	"8.4": {
		"proxmox-kernel": "6.8.12-9", "pve-manager": "8.4.21", "qemu-server": "8.4.10", "pve-storage": "8.3.8",
		"pve-access-control": "8.2.3",
		"pve-cluster":        "8.1.3", "pve-container": "5.3.5",
		"pve-ha-manager": "4.0.7", "pve-http-server": "5.2.2", "pve-network": "0.11.3", "pve-qemu-kvm": "9.2.0",
		"pve-common":       "8.3.8",
		"pve-guest-common": "5.2.2",
	},
	"9.0": {
		"proxmox-kernel": "6.14.11-4", "pve-manager": "9.0.11", "qemu-server": "9.0.23", "pve-storage": "9.0.13",
		"pve-access-control": "9.0.3",
		"pve-cluster":        "9.0.6", "pve-container": "6.0.13",
		"pve-ha-manager": "5.0.5", "pve-http-server": "6.0.4", "pve-network": "1.1.8", "pve-qemu-kvm": "10.0.2",
		"pve-common":       "9.0.11",
		"pve-guest-common": "6.0.2",
	},
	"9.2": {
		"proxmox-kernel": "6.14.11-4", "pve-manager": "9.2.11", "qemu-server": "9.2.6", "pve-storage": "9.1.7",
		"pve-access-control": "9.1.1",
		"pve-cluster":        "9.1.6", "pve-container": "6.1.10",
		"pve-ha-manager": "5.2.0", "pve-http-server": "6.0.5", "pve-network": "1.3.0", "pve-qemu-kvm": "11.0.0",
		"pve-common":       "9.2.1",
		"pve-guest-common": "6.0.2",
	},
}

// Versions are the releases that the table has, oldest first.
func Versions() []string { return slices.SortedFunc(maps.Keys(releases), compare) }

// Fact is something that holds for some releases and not for others: what a package does since one of its versions.
type Fact struct {
	Package string `json:"package"`
	Since   string `json:"since"`
	// Backport is since when an older line of the package does it too: of its first number.
	Backport string `json:"backport"`
	// Source is the place in the package's source, and the commit.
	Source string `json:"source"`
}

// Has reports whether a release has it.
func (f Fact) Has(version string) bool {
	have := Package(version, f.Package)
	if f.Backport != "" && major(have) == major(f.Backport) {
		return compare(have, f.Backport) >= 0
	}
	return compare(have, f.Since) >= 0
}

// Package is the version of one of PVE's packages in a release, "" if the table has none. 7.4 is 8.0 under an older
// name, but for what the table says.
func Package(version, name string) string {
	if v, ok := releases[version][name]; ok {
		return v
	}
	return releases["8.0"][name]
}

func major(version string) string {
	first, _, _ := strings.Cut(version, ".")
	return first
}

// Newer reports whether one version is newer than another.
func Newer(one, other string) bool { return compare(one, other) > 0 }

// compare orders two dotted versions by their numbers.
func compare(a, b string) int {
	split := func(v string) []string {
		return strings.FieldsFunc(v, func(c rune) bool { return c == '.' || c == '-' })
	}
	x, y := split(a), split(b)
	for i := range max(len(x), len(y)) {
		if n := part(x, i) - part(y, i); n != 0 {
			return n
		}
	}
	return 0
}

func part(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, _ := strconv.Atoi(parts[i]) // digits, by the tables and their test
	return n
}
