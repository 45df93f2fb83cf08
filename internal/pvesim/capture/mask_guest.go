package capture

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

var (
	netOption    = regexp.MustCompile(`^(?:net|ipconfig)\d+$|^nameserver$`)
	macAddress   = regexp.MustCompile(`(?i)\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b`)
	addressWord  = regexp.MustCompile(`[0-9A-Fa-f:.]+`)
	deviceOption = regexp.MustCompile(`^(?:hostpci|usb|virtiofs)\d+$`)
)

// config masks one configuration of a guest.
func (m *mask) config(conf map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(conf)) {
		value := conf[key]
		switch {
		case key == "name" || key == "hostname":
			value = m.only("names", value, func(s string) string { return m.word("guest", s, "guest%d") })
		case key == "searchdomain":
			value = m.only("names", value, func(s string) string { return m.word("domain", s, "domain%d.example") })
		case key == "ciuser":
			value = m.only("names", value, func(s string) string { return m.word("ciuser", s, "person%d") })
		case key == "description":
			value = m.only("descriptions", value, m.description)
		case key == "tags":
			value = m.only("tags", value, m.tags)
		case key == "sshkeys":
			value = m.only("sshkeys", value, func(string) string { return maskedKey })
		case netOption.MatchString(key):
			value = m.only("macs", m.only("addresses", value, m.addresses), m.macs)
		default:
			value = m.only("names", value, func(s string) string { return m.parts(key, s) })
		}
		conf[key] = value
	}
}

// only masks a value if its kind is to be masked.
func (m *mask) only(kind, value string, masked func(string) string) string {
	if !m.kinds[kind] {
		return value
	}
	return masked(value)
}

// maskedKey is a public key of 32 zeros, in the form in which PVE keeps keys.
const maskedKey = "ssh-ed25519%20AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%20masked%0A"

func (m *mask) tags(value string) string {
	tags := strings.FieldsFunc(value, func(c rune) bool { return c == ';' || c == ',' || c == ' ' })
	for i := range tags {
		tags[i] = m.word("tag", tags[i], "tag%d")
	}
	slices.Sort(tags)
	return strings.Join(tags, ";")
}

// parts masks the volumes and mappings that the parts of a value name.
func (m *mask) parts(option, value string) string {
	list := strings.Split(value, ",")
	for i, part := range list {
		key, word, keyed := strings.Cut(part, "=")
		if !keyed {
			key, word = "", part
		}
		switch _, _, isVolume := state.SplitVolid(word); {
		case isVolume && m.words["storage"][before(word)] != "":
			word = m.volume(word)
		case deviceOption.MatchString(option) && (key == "mapping" || key == "dirid" || key == "" &&
			strings.HasPrefix(option, "virtiofs")):
			word = m.mapping(word)
		}
		if list[i] = word; keyed {
			list[i] = key + "=" + word
		}
	}
	return strings.Join(list, ",")
}

func before(volid string) string {
	id, _, _ := strings.Cut(volid, ":")
	return id
}

// endings are what a file has to end with to be what it is.
var endings = []string{".tar.gz", ".tar.xz", ".tar.zst", ".tar.bz2", ".vma.gz", ".vma.lzo", ".vma.zst"}

// volume masks the storage, and the name of a file that a user has given. Names of images are PVE's.
func (m *mask) volume(volid string) string {
	id, name, _ := strings.Cut(volid, ":")
	kind, file, _ := strings.Cut(name, "/")
	isFile := slices.Contains([]string{"iso", "import", "snippets", "vztmpl", "backup"}, kind)
	switch {
	case isFile && !strings.HasPrefix(file, "vzdump-") && !strings.Contains(file, "/"):
		ending := ""
		if at := strings.LastIndexByte(file, '.'); at >= 0 {
			ending = file[at:]
		}
		for _, known := range endings {
			if strings.HasSuffix(file, known) {
				ending = known
			}
		}
		name = kind + "/" + m.word("file", strings.TrimSuffix(file, ending), "file%d") + ending
	case !isFile && esxiFile.MatchString(name):
		parts := strings.Split(name, "/")
		for i, part := range parts {
			ending := part[len(part)-len(esxiEnding.FindString(part)):]
			parts[i] = m.word("ESXi", strings.TrimSuffix(part, ending), "esxi%d") + ending
		}
		name = strings.Join(parts, "/")
	}
	return m.storage(id) + ":" + name
}

// esxiFile is a path on an ESXi host, which has the names of its machines: datacenter/datastore/folder/file.
var (
	esxiFile   = regexp.MustCompile(`^[^/]*[^/0-9][^/]*/[^/]+/.+\.(?:vmx|vmdk)$`)
	esxiEnding = regexp.MustCompile(`\.(?:vmx|vmdk)$`)
)

// macs masks every MAC address in a text, in its case.
func (m *mask) macs(text string) string {
	return macAddress.ReplaceAllStringFunc(text, func(mac string) string {
		upper := strings.ToUpper(mac)
		if upper == "00:00:00:00:00:00" {
			return mac
		}
		if m.words["mac"] == nil {
			m.words["mac"] = map[string]string{}
		}
		if m.words["mac"][upper] == "" {
			n := len(m.words["mac"]) + 1
			m.words["mac"][upper] = fmt.Sprintf("BC:24:11:%02X:%02X:%02X", n>>16&255, n>>8&255, n&255)
		}
		if mac != upper {
			return strings.ToLower(m.words["mac"][upper])
		}
		return m.words["mac"][upper]
	})
}

// addresses masks every IP address in a text. Addresses that share a network (24
// bits, 64 in IPv6) still do; loopback stays.
func (m *mask) addresses(text string) string {
	return addressWord.ReplaceAllStringFunc(text, func(word string) string {
		a, err := netip.ParseAddr(word)
		if err != nil || a.IsLoopback() || a.IsUnspecified() || strings.Count(word, ":") == 0 &&
			strings.Count(word, ".") != 3 {
			return word
		}
		if a.Is4() {
			b := a.As4()
			n := m.net(netip.PrefixFrom(a, 24).Masked().String())
			return fmt.Sprintf("198.%d.%d.%d", 18+n>>8&1, n&255, b[3])
		}
		n, host := m.net(netip.PrefixFrom(a, 64).Masked().String()), m.word("host", a.String(), "%x")
		if a.IsLinkLocalUnicast() {
			return "fe80::" + host
		}
		return fmt.Sprintf("2001:db8:0:%x::%s", n, host)
	})
}

// net is the number of a network.
func (m *mask) net(prefix string) int {
	if m.nets[prefix] == 0 {
		m.nets[prefix] = len(m.nets) + 1
	}
	return m.nets[prefix] - 1
}

func (m *mask) interfaces(a *state.FileAgent) {
	if a == nil {
		return
	}
	for i := range a.Interfaces {
		face := &a.Interfaces[i]
		face.MAC = m.only("macs", face.MAC, m.macs)
		for j := range face.Addresses {
			face.Addresses[j] = m.only("addresses", face.Addresses[j], m.addresses)
		}
	}
}

func (m *mask) firewall(f *state.FileFirewall) {
	tables := append(slices.Clone(f.Rules), ordered(f.Aliases)...)
	for _, name := range slices.Sorted(maps.Keys(f.IPSets)) {
		set := f.IPSets[name]
		set.Comment = m.only("descriptions", set.Comment, m.description)
		f.IPSets[name] = set
		tables = append(tables, set.Entries...)
	}
	for _, table := range tables {
		if m.kinds["descriptions"] {
			m.comment(table)
		}
		for _, key := range []string{"source", "dest", "cidr"} {
			if value, ok := table[key]; ok {
				table[key] = m.only("addresses", value, m.addresses)
			}
		}
	}
}
