package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
)

// TestFileName: the checksum stands before the extension, and what PVE would change or refuse is refused.
func TestName(t *testing.T) {
	sum := Checksum{Value: strings.Repeat("0123456789abcdef", 4)}
	for _, c := range []struct{ content, source, compression, want, refused string }{
		{"import", "https://example.org/a/debian-12.qcow2?x=1", "", "debian-12-0123456789ab.qcow2", ""},
		{"import", "/home/me/disk.raw", "", "disk-0123456789ab.raw", ""},
		{"iso", `C:\files\Win11.ISO`, "", "Win11-0123456789ab.iso", ""},
		{"iso", "https://example.org/talos.img.gz", "gz", "talos-0123456789ab.img", ""},
		{"import", "https://example.org/noble.img", "", "", "mostly qcow2"},
		{"import", "https://example.org/a.iso", "", "", `Set content = "iso"`},
		{"import", "https://example.org/a.raw.xz", "", "", "not xz"},
		{"iso", "https://example.org/a.iso.gz", "", "", `compression = "gz"`},
		{"import", "https://example.org/a b.qcow2", "", "", "Letters, digits"},
		{"import", "https://example.org/.qcow2", "", "", "PVE takes .qcow2"},
		{"iso", "https://example.org/.disc.iso", "", "", "no \".\" at the beginning"},
		{"import", "https://example.org/", "", "", "PVE takes .qcow2"},
		{"import", "https://example.org/" + strings.Repeat("a", 250) + ".raw", "", "", "shorter"},
	} {
		got, err := Name(c.content, BaseName(c.source, c.compression), sum)
		field := (*guest.FieldError)(nil)
		if got != c.want || (err != nil) != (c.refused != "") ||
			err != nil && (!errors.As(err, &field) || field.Path != "file_name" || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %q, %v", c.source, got, err)
		}
	}
}

// TestParseChecksum: the length tells the algorithm.
func TestParseChecksum(t *testing.T) {
	for n, want := range algorithms() {
		for _, digit := range []string{"a", "F"} {
			sum, err := ParseChecksum(strings.Repeat(digit, n))
			if err != nil || sum.Algorithm != want || sum.Value != strings.Repeat(strings.ToLower(digit), n) {
				t.Errorf("%d digits: %+v, %v", n, sum, err)
			}
		}
		if hashers()[want] == nil {
			t.Errorf("no hash function for %s", want)
		}
	}
	for _, wrong := range []string{"", "abc", strings.Repeat("g", 64), "sha256:" + strings.Repeat("a", 57)} {
		if sum, err := ParseChecksum(wrong); err == nil {
			t.Errorf("%q is %+v", wrong, sum)
		}
	}
}

// TestLocal: a file is read once while it does not change, and compared with the wanted checksum.
func TestLocal(t *testing.T) {
	s := &Files{sources: map[string]Source{}}
	path := filepath.Join(t.TempDir(), "a.raw")
	missing, wrong := (*MissingError)(nil), (*SumError)(nil)
	if _, err := s.Local(t.Context(), path, Checksum{}); !errors.As(err, &missing) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	const sha256, md5 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		"900150983cd24fb0d6963f7d28e17f72"
	for _, want := range []Checksum{{}, {"sha256", sha256}, {"md5", md5}} {
		is, err := s.Local(t.Context(), path, want)
		if err != nil || is.Size != 3 || want.Value != "" && is.Checksum != want || want.Value == "" &&
			is.Checksum.Value != sha256 {
			t.Errorf("%v: %+v, %v", want, is, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Local(ended, path, Checksum{}); err != nil {
		t.Errorf("a file that was read is read again: %v", err)
	}
	if _, err := s.Local(t.Context(), path, Checksum{"md5", strings.Repeat("0", 32)}); !errors.As(err,
		&wrong) || !strings.Contains(err.Error(), md5) {
		t.Errorf("another checksum: %v", err)
	}
	if err := os.WriteFile(path, []byte("abcd"), 0o600); err != nil {
		t.Fatal(err)
	}
	if is, err := s.Local(t.Context(), path, Checksum{}); err != nil || is.Size != 4 || is.Checksum.Value == sha256 {
		t.Errorf("changed: %+v, %v", is, err)
	}
}
