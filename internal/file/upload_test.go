package file

import (
	"archive/tar"
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
)

// TestUploadIsVerifiedOnBothSides: this machine compares a file with its checksum before the upload, and the node
// compares the bytes that it received. Bytes that change on the way are not stored, although size and time of the file
// are the same. This holds for an appliance as well.
func TestUploadIsVerifiedOnBothSides(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"disk.qcow2": "QFI\xfb\x00\x00\x00\x03" + strings.Repeat("\x00", 24) +
		strings.Repeat("good", 100),
		"disk.vmdk": "KDMV" + strings.Repeat("good", 100), "disk.raw": strings.Repeat("good", 128),
		"machine.ova": appliance(t)} {
		for _, spoilt := range []bool{false, true} {
			sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1"}})
			if err != nil {
				t.Fatal(err)
			}
			here := clock.Client{Cluster: sim.World().Clock}
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			sum := Of(name, []byte(content)).Checksum
			api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(),
				DialTLSContext: sim.DialTLSContext, Clock: here,
				APIToken: sim.Credentials().Token})
			if err != nil {
				t.Fatal(err)
			}
			jobs := request.New(api, here)
			files := New(jobs, destroy.New(jobs, guest.New(jobs), nil).Guard, nil)
			if _, err := files.Local(t.Context(), path, Checksum{"sha256", strings.Repeat("0", 64)}); err == nil {
				t.Errorf("%s: a wrong checksum is accepted", name)
			}
			source, err := files.Local(t.Context(), path, sum)
			if err != nil || uploads(sim) != 0 {
				t.Fatalf("%s: %v, %d uploads", name, err, uploads(sim))
			}
			spec := Spec{Node: "pve1", Storage: "local", Content: "import", Source: &source, Checksum: sum}
			if spec.Name, err = Name(spec.Content, name, sum); err != nil {
				t.Fatal(err)
			}
			if spoilt {
				spoil(t, path)
			}
			_, _, err = files.Create(t.Context(), spec)
			w := sim.World()
			w.Lock()
			stored := w.Volume("pve1", spec.Volume()) != nil
			w.Unlock()
			switch {
			case uploads(sim) != 1:
				t.Errorf("%s: %d uploads", name, uploads(sim))
			case spoilt && (err == nil || !strings.Contains(err.Error(), "checksum mismatch") || stored):
				t.Errorf("%s: the spoilt file is stored: %v, %v", name, stored, err)
			case !spoilt && (err != nil || !stored):
				t.Errorf("%s: %v, %v", name, stored, err)
			}
			api.Close()
			sim.Close()
		}
	}
}

// spoil changes the content of a file, but neither its size nor its time.
func spoil(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err == nil {
		data[len(data)-1] ^= 1
		err = os.WriteFile(path, data, 0o600)
	}
	if err == nil {
		err = os.Chtimes(path, info.ModTime(), info.ModTime())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// appliance returns an OVA file without disks.
func appliance(t *testing.T) string {
	t.Helper()
	var file bytes.Buffer
	out := tar.NewWriter(&file)
	if err := out.WriteHeader(&tar.Header{Name: "machine.ovf", Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

func uploads(sim *pvesim.Sim) (n int) {
	for _, op := range sim.Ops() {
		if op.Method == http.MethodPost && strings.HasSuffix(op.Path, "/upload") {
			n++
		}
	}
	return n
}
