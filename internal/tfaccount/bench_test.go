package tfaccount

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
)

// BenchmarkOperation is what the account of a refresh costs where nobody reads the log.
func BenchmarkOperation(b *testing.B) {
	s := &server{options: Options{Silent: true}}
	b.ReportAllocs()
	for b.Loop() {
		within, o := s.begin(b.Context(), "read", "proxmox_vm")
		_, answered := account.Send(within, account.Request{Method: "GET", Path: "/nodes/pve1/qemu/100/pending"})
		answered(200)
		s.close(within, o, nil, nil)
	}
}
