package rig

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// ImageCase is a file, and how it gets onto the storage.
type ImageCase struct {
	Name, Config, Volume string
	Data                 []byte // that is on the storage in the end
}

// ImageCases returns an image for each way onto a storage.
func ImageCases(t *testing.T) []ImageCase {
	t.Helper()
	data := QCOW2("an image")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("an ISO image")); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	local := filepath.Join(t.TempDir(), "debian.qcow2")
	if err := os.WriteFile(local, data, 0o600); err != nil {
		t.Fatal(err)
	}
	url := ServeFiles(t, map[string][]byte{"/debian.qcow2": data, "/talos.iso.gz": packed.Bytes()})
	name := "import/debian-" + SHA256(data)[:12] + ".qcow2"
	return []ImageCase{
		{"download", DownloadedImage(url+"/debian.qcow2", SHA256(data)), name, data},
		{"upload", ImageBlock("disk", `node = "pve1"`, `storage = "local"`, fmt.Sprintf("source_file = %q", local)), name, data},
		{"compressed download", DownloadedImage(url+"/talos.iso.gz", SHA256(packed.Bytes()), `content = "iso"`, `compression = "gz"`),
			"iso/talos-" + SHA256(packed.Bytes())[:12] + ".iso", []byte("an ISO image")},
	}
}

// QCOW2 is a file that begins as an image of a gigabyte does.
func QCOW2(text string) []byte {
	data := bytes.Repeat([]byte(text+"\n"), 1000)
	copy(data, "QFI\xfb\x00\x00\x00\x03"+strings.Repeat("\x00", 16)) // without a backing file
	binary.BigEndian.PutUint64(data[24:], 1<<30)
	return data
}

// SHA256 returns the checksum in hexadecimal digits.
func SHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ServeFiles serves files by their paths.
func ServeFiles(t *testing.T, files map[string][]byte) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// ImageBlock is a proxmox_image.
func ImageBlock(name string, lines ...string) string {
	return fmt.Sprintf("resource \"proxmox_image\" %q {\n  %s\n}\n", name, strings.Join(lines, "\n  "))
}

// DownloadedImage is one that node pve1 downloads to its storage local.
func DownloadedImage(url, sum string, lines ...string) string {
	all := []string{`node = "pve1"`, `storage = "local"`, fmt.Sprintf("url = %q", url)}
	if sum != "" {
		all = append(all, fmt.Sprintf("checksum = %q", sum))
	}
	return ImageBlock("disk", append(all, lines...)...)
}

// VolumeOn is the file of a storage of node pve1, nil: there is none.
func VolumeOn(w *World, volume string) (found *state.Volume) {
	w.Change(func(world *state.World) {
		if v := world.Volume("pve1", volume); v != nil {
			copied := *v
			found = &copied
		}
	})
	return found
}

// ImageAttr returns an attribute of proxmox_image.disk as text.
func ImageAttr(s *terraformtest.Session, name string) string {
	return strings.Trim(terraformtest.ShowValue(s.Attr("proxmox_image.disk", name)), `"`)
}

// Except returns all but name.
func Except(all []string, name string) (rest []string) {
	for _, one := range all {
		if one != name {
			rest = append(rest, one)
		}
	}
	return rest
}
