package file

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Checksum is the checksum that a file must have.
type Checksum struct {
	// Algorithm is PVE's name of the algorithm, such as sha256.
	Algorithm string
	// Value is in lower-case hexadecimal digits.
	Value string
}

// algorithms returns PVE's algorithms by the number of hexadecimal digits (pve-storage API2/Storage/Status.pm,
// checksum-algorithm).
func algorithms() map[int]string {
	return map[int]string{32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
}

// ParseChecksum reads a checksum. Its length tells the algorithm.
func ParseChecksum(text string) (Checksum, error) {
	value := strings.ToLower(text)
	algorithm, known := algorithms()[len(value)]
	if _, err := hex.DecodeString(value); err != nil || !known {
		return Checksum{}, fmt.Errorf("%q is no checksum: 32 (MD5), 40 (SHA-1), 56 (SHA-224), 64 (SHA-256), 96 (SHA-384) or "+
			"128 (SHA-512) hexadecimal digits are", text)
	}
	return Checksum{Algorithm: algorithm, Value: value}, nil
}

// Compressions returns the compressions that PVE undoes (pve-storage Plugin.pm, KNOWN_COMPRESSION_FORMATS).
func Compressions() []string { return []string{"gz", "lzo", "zst", "bz2"} }

// prefixLength is the number of hexadecimal digits of the checksum in the name of a file: 48 bits.
const prefixLength = 12

// safeName matches the names that PVE leaves unchanged (pve-storage Storage.pm normalize_content_filename) and lists,
// which are those that do not begin with a dot (Plugin.pm get_subdir_files, "<$path/*>").
var safeName = regexp.MustCompile(`^[a-zA-Z0-9_-][a-zA-Z0-9_.-]*$`)

// extensions returns the extensions that PVE takes for a content type (pve-storage Storage.pm, ISO_EXT_RE_0 and
// UPLOAD_IMPORT_EXT_RE_1; the latter in lower case only).
func extensions(content string) []string {
	if content == ISO {
		return []string{".iso", ".img"}
	}
	return []string{".qcow2", ".raw", ".vmdk", ".ova"}
}

// BaseName returns the name of a file by its URL or path: the last part, without the extension of compression.
func BaseName(source, compression string) string {
	name := source
	if u, err := url.Parse(source); err == nil && u.Scheme != "" && u.Host != "" {
		name = u.Path
	}
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	if compression != "" {
		name = strings.TrimSuffix(name, "."+compression)
	}
	return name
}

// Name returns the name of an image on the storage: base with the beginning of the checksum before the extension. Its
// error is a *guest.FieldError for file_name.
func Name(content, base string, checksum Checksum) (string, error) {
	if content == ISO {
		base = lowerExtension(base)
	}
	ext := path.Ext(base)
	stem := strings.TrimSuffix(base, ext)
	switch {
	case !slices.Contains(extensions(content), ext) || stem == "":
		return "", badExtension(content, base)
	case !safeName.MatchString(base):
		return "", refused("file_name", fmt.Sprintf("%q is no name for a file", base),
			"Letters, digits, \"_\", \".\" and \"-\" are allowed, and no \".\" at the beginning: PVE replaces everything "+
				"else, and does not list a hidden file. Set file_name to a name made of these")
	case len(base)+prefixLength+1 > 255:
		return "", refused("file_name", "The name of the file is too long", "Set file_name to a shorter one")
	}
	return stem + "-" + checksum.Value[:prefixLength] + ext, nil
}

func lowerExtension(base string) string {
	ext := path.Ext(base)
	return strings.TrimSuffix(base, ext) + strings.ToLower(ext)
}

func badExtension(content, base string) error {
	detail := fmt.Sprintf("PVE takes %s as %s content, and tells the format by that. Set file_name to a name that ends "+
		"with one of them", strings.Join(extensions(content), ", "), content)
	switch ext := strings.ToLower(path.Ext(base)); {
	case content == Import && ext == ".iso":
		detail = "An ISO image is ISO content. Set content = \"iso\""
	case content == Import && ext == ".img":
		detail += "; what distributions call .img is mostly qcow2 (`qemu-img info` tells)"
	case slices.Contains([]string{".gz", ".lzo", ".zst", ".bz2"}, ext):
		detail += ". PVE decompresses ISO content only, with compression = \"" + ext[1:] + "\""
	case ext == ".xz":
		detail += ". PVE decompresses gz, lzo, zst and bz2, ISO content only, and not xz"
	}
	return refused("file_name", fmt.Sprintf("%q cannot be the name of %s content", base, content), detail)
}

// Identity returns the checksum of a URL and its compression. In the name of an unverified file it takes the place of
// the checksum of the content.
func Identity(address, compression string) Checksum {
	sum := sha256.Sum256([]byte(address + "\n" + compression))
	return Checksum{Value: hex.EncodeToString(sum[:])}
}
