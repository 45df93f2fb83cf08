package schema

import (
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a disk size in bytes: a number, perhaps with a fraction, and perhaps one of the binary units K, M, G,
// T (KiB … TiB are understood as well). A fraction of a byte is cut off, as Perl's int does.
func ParseSize(s string) (bytes int64, ok bool) {
	s = strings.TrimSuffix(s, "\n")
	number := s[:digits(s)]
	rest := s[len(number):]
	if number == "" {
		return 0, false
	}
	fraction := ""
	if strings.HasPrefix(rest, ".") {
		n := digits(rest[1:])
		if n == 0 {
			return 0, false
		}
		fraction, rest = rest[:1+n], rest[1+n:]
	}
	unit, ok := factor(rest)
	if !ok {
		return 0, false
	}
	if fraction == "" {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > math.MaxInt64/unit {
			return 0, false
		}
		return n * unit, true
	}
	f, err := strconv.ParseFloat(number+fraction, 64)
	if err != nil || f*float64(unit) >= math.MaxInt64 {
		return 0, false
	}
	return int64(f * float64(unit)), true
}

func factor(unit string) (int64, bool) {
	if unit == "" {
		return 1, true
	}
	power := strings.IndexByte("KMGT", unit[0])
	if power < 0 || unit[1:] != "" && unit[1:] != "iB" {
		return 0, false
	}
	return 1 << (10 * (power + 1)), true
}

// FormatSize prints bytes in the largest of K, M, G, T that holds them exactly, else as plain bytes. Zero is "0T", as
// PVE prints it (pve-common JSONSchema.pm format_size).
func FormatSize(bytes int64) string {
	const units = "KMGT"
	for i := range len(units) {
		if bytes%1024 != 0 {
			if i == 0 {
				return strconv.FormatInt(bytes, 10)
			}
			return strconv.FormatInt(bytes, 10) + units[i-1:i]
		}
		bytes /= 1024
	}
	return strconv.FormatInt(bytes, 10) + "T"
}

// indices are how many slots an indexed VM option has (qemu-server, the MAX_ constants of 8.4).
func indices() map[string]int {
	return map[string]int{
		"ide": 4, "sata": 6, "scsi": 31, "virtio": 16, "unused": 256, "net": 32, "serial": 4, "parallel": 3, "usb": 14,
		"hostpci": 16, "numa": 8, "ipconfig": 32, "virtiofs": 10, "efidisk": 1, "tpmstate": 1, "audio": 1, "rng": 1,
	}
}

// OptionIndex splits the name of an indexed VM option: "scsi12" is "scsi" and 12. ok is false for options without an
// index ("smbios1" is one), for indices out of range, and for forms that PVE does not know, like "scsi01".
func OptionIndex(key string) (base string, n int, ok bool) {
	base = strings.TrimRight(key, "0123456789")
	n, err := strconv.Atoi(key[len(base):])
	if err != nil || strconv.Itoa(n) != key[len(base):] || n >= indices()[base] {
		return "", 0, false
	}
	return base, n, true
}

// expand lists the names that an indexed parameter of the description stands for.
func expand(path, name string) []string {
	base, ok := strings.CutSuffix(name, "[n]")
	if !ok {
		return []string{name}
	}
	count := indices()[base]
	switch {
	case base == "link": // corosync links of a cluster
		count = 8
	case base == "acmedomain":
		count = 6
	case strings.Contains(path, "/lxc"): // mount points and devices of a container
		count = map[string]int{"mp": 256, "dev": 256, "net": 32, "unused": 256}[base]
	}
	if count == 0 {
		panic("schema: no index range for " + name + " of " + path)
	}
	names := make([]string, count)
	for i := range names {
		names[i] = base + strconv.Itoa(i)
	}
	return names
}
