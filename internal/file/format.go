package file

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
)

// headSize is the number of bytes that are kept of a file of this machine: the headers of the formats are in it.
const headSize = 512

// formatOf is the format that the first bytes of a file show, "" for any other (qemu block/qcow2.h, block/vmdk.c).
func formatOf(head []byte) string {
	text := bytes.ToLower(bytes.TrimLeft(head, "\xef\xbb\xbf \t\r\n"))
	switch {
	case bytes.HasPrefix(head, []byte("QFI\xfb")):
		return "qcow2"
	case bytes.HasPrefix(head, []byte("KDMV")), bytes.HasPrefix(head, []byte("COWD")):
		return "vmdk"
	case bytes.HasPrefix(text, []byte("<!doctype html")), bytes.HasPrefix(text, []byte("<html")):
		return "HTML"
	}
	return ""
}

// checkFormat reports a file to upload that begins otherwise than the extension of its name says, by which PVE goes.
// Found are those that PVE certainly refuses once it has the file: it has QEMU open an image in the format of the
// extension (pve-storage API2/Storage/Status.pm upload, Plugin.pm file_size_info).
func (s Spec) checkFormat() (found, doubts []*guest.FieldError) {
	if s.Source == nil || len(s.Source.head) == 0 {
		return nil, nil
	}
	is, ext, known := formatOf(s.Source.head), path.Ext(s.Name), "."
	if is != "" {
		known = ", and its first bytes are those of " + is + "."
	}
	say := func(what, then string) []*guest.FieldError {
		return []*guest.FieldError{{Path: "source_file", Summary: s.Source.Path + " " + what,
			Detail: "The name of the file ends with " + ext + known + " " + then}}
	}
	const ways = "Name the right file, or set file_name to a name with the extension of its format"
	switch {
	case ext == ".qcow2" && is != "qcow2", ext == ".vmdk" && is != "" && is != "vmdk", ext == ".ova" && is != "":
		return say("is not in the format "+ext[1:], "PVE goes by the extension, and would refuse the file after the upload. "+
			"Nothing was changed. "+ways), nil
	case ext == ".qcow2" && binary.BigEndian.Uint64(s.Source.qcow2()[8:]) != 0:
		return say("has a backing file", "PVE takes no such image. Make one without, with qemu-img convert"), nil
	case ext == ".raw" && is != "", s.Content == ISO && is == "HTML":
		return nil, say("may be of another format", "PVE goes by the extension, so a guest gets these bytes as they are. "+
			ways)
	}
	return nil, nil
}

// qcow2 is the beginning of the header of a file in this format: a version of 4 bytes behind the magic, the place of
// the name of a backing file, its length, the bits of a cluster, the size (qemu docs/interop/qcow2.rst).
func (s *Source) qcow2() []byte { return append(bytes.Clone(s.head), make([]byte, 32)...)[:32] }

// DiskSize is the size of the disk in an image to import, as far as a plan knows it: by the file of this machine, or by
// the size that a server gives of a raw image. 0: not known.
func (f *Files) DiskSize(ctx context.Context, spec Spec) int64 {
	ext, source := path.Ext(spec.Name), spec.Source
	switch {
	case spec.Content != Import:
	case ext == ".raw" && source != nil:
		return source.Size
	case ext == ".raw":
		return f.addressSize(ctx, spec)
	case source == nil:
	case ext == ".qcow2":
		return asSize(binary.BigEndian.Uint64(source.qcow2()[24:]), 1)
	case ext == ".vmdk" && bytes.HasPrefix(source.head, []byte("KDMV")) && len(source.head) >= 20:
		return asSize(binary.LittleEndian.Uint64(source.head[12:]), 512) // sectors, behind version and flags
	}
	return 0
}

// asSize is a number of units in bytes, 0 if it is too large to be one.
func asSize(n, unit uint64) int64 {
	if n > math.MaxInt64/unit {
		return 0
	}
	return int64(n * unit) //nolint:gosec // it has just been compared
}
