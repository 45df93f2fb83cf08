// Package nocloud makes the disc that a guest's cloud-init reads its data from (NoCloud), and checks the documents on
// it. It is pure: the same documents give the same bytes.
package nocloud

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"unicode/utf16"
)

// Seed holds the documents for a guest. cloud-init accepts a disc only with user data and meta data, so these two files
// are always on it, even if empty. The others are on it only if they are not empty (cloud-init DataSourceNoCloud.py).
type Seed struct {
	UserData, MetaData, NetworkConfig, VendorData string
}

// InstanceID returns the instance id, which follows from all documents. A new id tells cloud-init that this is a new
// instance, whose data it applies.
func (s Seed) InstanceID() string {
	sum := sha256.New()
	for _, text := range []string{s.UserData, s.MetaData, s.NetworkConfig, s.VendorData} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		sum.Write(length[:])
		sum.Write([]byte(text))
	}
	return "iid-" + hex.EncodeToString(sum.Sum(nil))[:16]
}

// Image returns the disc: ISO 9660, with Rock Ridge names for Unix and Joliet names for Windows. Its label is "cidata",
// by which cloud-init finds it. The disc contains neither a time nor the name of a machine.
func (s Seed) Image() []byte {
	if s.MetaData == "" {
		s.MetaData = "instance-id: " + s.InstanceID() + "\n"
	}
	d := &disc{next: firstFile}
	d.add("meta-data", "META_DAT.;1", s.MetaData)
	if s.NetworkConfig != "" {
		d.add("network-config", "NETWORK_.;1", s.NetworkConfig)
	}
	d.add("user-data", "USER_DAT.;1", s.UserData)
	if s.VendorData != "" {
		d.add("vendor-data", "VENDOR_D.;1", s.VendorData)
	}
	return d.bytes()
}

// The sectors of the disc, which has one directory (ECMA-119, chapters 6 to 9).
const (
	sector         = 2048
	primary        = 16 // volume descriptor; before it is the system area
	supplementary  = 17 // that of Joliet
	terminator     = 18
	pathTable      = 19 // little endian, then the same in big endian
	jolietPaths    = 21
	root           = 23
	jolietRoot     = 24
	firstFile      = 25
	pathTableBytes = 10
)

const label = "cidata"

// file is a file with its full name and its short one (level 1 of the standard).
type file struct {
	name, short string
	data        string
	at          uint32 // its first sector
}

type disc struct {
	files []file // sorted by name, and so by short name
	next  uint32
}

func (d *disc) add(name, short, data string) {
	d.files = append(d.files, file{name: name, short: short, data: data, at: d.next})
	d.next += uint32((len(data) + sector - 1) / sector) //nolint:gosec // a document is no terabyte long
}

func (d *disc) bytes() []byte {
	image := make([]byte, int(d.next)*sector)
	put := func(at uint32, data []byte) { copy(image[int(at)*sector:], data) }
	put(primary, d.descriptor(1, root, pathTable, func(s string) []byte { return []byte(s) }, " ", nil))
	// Level 3 of UCS-2 keeps the names of files unchanged (Joliet Specification, 3.2).
	put(supplementary, d.descriptor(2, jolietRoot, jolietPaths, ucs2, "\x00 ", []byte("%/E")))
	put(terminator, []byte("\xffCD001\x01"))
	for at, dir := range map[uint32]uint32{pathTable: root, jolietPaths: jolietRoot} {
		little, big := []byte{1, 0}, []byte{1, 0}
		little = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint32(little, dir), 1)
		big = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(big, dir), 1)
		put(at, append(little, 0, 0))
		put(at+1, append(big, 0, 0))
	}
	put(root, d.directory(root))
	put(jolietRoot, d.directory(jolietRoot))
	for _, f := range d.files {
		put(f.at, []byte(f.data))
	}
	return image
}

// descriptor returns a volume descriptor (ECMA-119 8.4, 8.5). blank pads the texts, escapes names the character set.
func (d *disc) descriptor(kind byte, dir, paths uint32, text func(string) []byte, blank string, escapes []byte) []byte {
	b := make([]byte, sector)
	copy(b, "\x00CD001\x01")
	b[0] = kind
	put := func(at int, data []byte) { copy(b[at:], data) }
	fill := func(from, to int, s string) {
		for i := from; i < to; i += len(blank) {
			copy(b[i:to], blank)
		}
		put(from, text(s))
	}
	fill(8, 40, "")
	fill(40, 72, label)
	put(80, both32(d.next))
	put(88, escapes)
	put(120, both16(1)) // discs in the set
	put(124, both16(1)) // this one
	put(128, both16(sector))
	put(132, both32(pathTableBytes))
	binary.LittleEndian.PutUint32(b[140:], paths)
	binary.BigEndian.PutUint32(b[148:], paths+1)
	put(156, record("\x00", dir, sector, true, nil))
	fill(190, 813, "") // set, publisher, preparer, application, and names of absent files
	for at := 813; at < 881; at += 17 {
		put(at, []byte("0000000000000000\x00")) // no time given
	}
	b[881] = 1 // version of the structure
	return b
}

// directory returns the one directory, in the standard's form or in Joliet's.
func (d *disc) directory(at uint32) []byte {
	joliet := at == jolietRoot
	self, parent := append(sharing(), attributes(true)...), attributes(true)
	if joliet {
		self, parent = nil, nil
	}
	b := append(record("\x00", at, sector, true, self), record("\x01", at, sector, true, parent)...)
	for _, f := range d.files {
		name, more := f.short, append(attributes(false), alternateName(f.name)...)
		if joliet {
			name, more = string(ucs2(f.name)), nil
		}
		b = append(b, record(name, f.at, uint32(len(f.data)), false, more)...) //nolint:gosec // as above
	}
	return b
}

// record returns an entry of a directory (ECMA-119 9.1).
func record(name string, at, size uint32, dir bool, more []byte) []byte {
	flags := byte(0)
	if dir {
		flags = 2
	}
	b := append([]byte{0, 0}, both32(at)...)
	b = append(b, both32(size)...)
	b = append(b, 80, 1, 1, 0, 0, 0, 0, flags, 0, 0) // 1980-01-01: this field cannot be left out
	b = append(b, both16(1)...)
	b = append(b, byte(len(name))) //nolint:gosec // the names are those above
	b = append(b, name...)
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	b = append(b, more...)
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	b[0] = byte(len(b)) //nolint:gosec // likewise
	return b
}

// sharing announces Rock Ridge in the entries of this directory (SUSP 5.3, 5.5).
func sharing() []byte {
	const rockRidge = "RRIP_1991A"
	b := []byte{'S', 'P', 7, 1, 0xbe, 0xef, 0}
	b = append(b, 'E', 'R', 8+byte(len(rockRidge)), 1, byte(len(rockRidge)), 0, 0, 1)
	return append(b, rockRidge...)
}

// attributes returns a mode that all users may read (Rock Ridge 4.1.1).
func attributes(dir bool) []byte {
	mode, links := uint32(0o100444), uint32(1)
	if dir {
		mode, links = 0o040555, 2
	}
	b := []byte{'P', 'X', 36, 1}
	for _, n := range []uint32{mode, links, 0, 0} { // and owner and group
		b = append(b, both32(n)...)
	}
	return b
}

// alternateName returns the full name (Rock Ridge 4.1.4).
func alternateName(name string) []byte {
	return append([]byte{'N', 'M', 5 + byte(len(name)), 1, 0}, name...) //nolint:gosec // the names are those above
}

// both16 and both32 return a number in both byte orders (ECMA-119 7.2.3, 7.3.3).
func both16(n uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, n), n)
}

func both32(n uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, n), n)
}

func ucs2(s string) []byte {
	var b []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		b = binary.BigEndian.AppendUint16(b, unit)
	}
	return b
}
