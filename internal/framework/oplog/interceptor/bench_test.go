package interceptor

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// BenchmarkOperation measures the operation log of a refresh without a reader.
func BenchmarkOperation(b *testing.B) {
	s := &server{options: Options{Silent: true}}
	b.ReportAllocs()
	for b.Loop() {
		within, o := s.begin(b.Context(), "read", "proxmox_vm")
		_, answered := oplog.Send(within, oplog.Request{Method: "GET", Path: "/nodes/pve1/qemu/100/pending"})
		answered(200)
		s.close(within, o, nil, nil)
	}
}
