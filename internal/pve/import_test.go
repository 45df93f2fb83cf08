package pve

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestImportMetadata: numbers come as numbers or texts, an EFI disk as a bare 1, and unknown values as "" or null.
func TestImportMetadata(t *testing.T) {
	answer := `{"type":"vm","source":"esxi","create-args":{"cores":4,"memory":"8192","name":null,"sockets":""},
		"disks":{"efidisk0":1,"scsi0":{"volid":"esxi:a/b/c.vmdk","size":"17179869184"},"scsi1":{"volid":"esxi:a/b/d.vmdk"}},
		"net":{"net0":{"model":"e1000e","macaddr":""}},"warnings":[{"type":"guest-is-running"},{"type":"efi-state-lost","key":"bios","value":"ovmf"}]}`
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		if s.path != "/nodes/pve1/storage/esxi/import-metadata" || s.form.Get("volume") != "a/b/c.vmx" {
			t.Errorf("asked %s %v", s.path, s.form)
		}
		data(w, answer)
	})
	got, err := s.client(t).Storage("pve1", "esxi").ImportMetadata(t.Context(), "a/b/c.vmx")
	want := ImportMetadata{
		Options:  map[string]string{"cores": "4", "memory": "8192"},
		Disks:    map[string]ImportDisk{"scsi0": {"esxi:a/b/c.vmdk", 16 << 30}, "scsi1": {"esxi:a/b/d.vmdk", 0}},
		Networks: map[string]map[string]string{"net0": {"model": "e1000e"}},
		Warnings: []ImportWarning{{Type: "guest-is-running"}, {"efi-state-lost", "bios", "ovmf"}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	answer = `{"create-args":{},"disks":{"scsi0":{"volid":["x"]}}}`
	if got, err := s.client(t).Storage("pve1", "esxi").ImportMetadata(t.Context(), "a/b/c.vmx"); err == nil {
		t.Errorf("a disk that is none is taken: %v", got)
	}
}
