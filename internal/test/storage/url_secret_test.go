package storage_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestURLWithSecrets: neither the error of a failed download, which has the end of the task's log, nor the log shows a
// password or a signature of its address.
func TestURLWithSecrets(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	var log bytes.Buffer
	w.LogTo(&log)
	s := w.Session(t, rig.TokenNoSSH, `
resource "proxmox_image" "x" {
  node      = "pve1"
  storage   = "local"
  content   = "iso"
  url       = "https://bob:hunter22secret@images.example.com/debian.img?sig=aB3x"
  file_name = "debian.img"
}
`)
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST",
		Path: "/nodes/{node}/storage/{storage}/download-url"}, Phase: fault.Task, Reason: "download failed: 500", Times: -1}})
	err := s.Run(t.Context())
	rig.MustSay(t, err, "https://(redacted)@images.example.com/debian.img?sig=(redacted)")
	for what, text := range map[string]string{"diagnostic": s.Diagnostics().String(), "log": log.String()} {
		for _, secret := range []string{"hunter22secret", "aB3x"} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("the %s shows %s: %.300s", what, secret, text[max(0, at-200):])
			}
		}
	}
}
