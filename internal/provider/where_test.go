package provider

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// TestArgumentOfAnError: an error of the client is shown on the argument that caused it.
func TestArgumentOfAnError(t *testing.T) {
	good := func() pve.Config { return pve.Config{Endpoint: "https://h:8006", APIToken: "a@pve!t=x"} }
	ticket := func() pve.Config { return pve.Config{Endpoint: "https://h:8006", Username: "root@pam", Password: "x"} }
	for want, wrong := range map[string]func() pve.Config{
		"endpoint":       func() pve.Config { c := good(); c.Endpoint = "https://username:pw@h"; return c },
		"api_token":      func() pve.Config { c := good(); c.APIToken = "username"; return c },
		"username":       func() pve.Config { c := ticket(); c.Username = "endpoint"; return c },
		"totp_secret":    func() pve.Config { c := ticket(); c.TOTPSecret = "!"; return c },
		"ca_certificate": func() pve.Config { c := good(); c.CACertificate = "x"; return c },
		"min_tls":        func() pve.Config { c := good(); c.MinTLS = "1.1"; return c },
		"":               func() pve.Config { return pve.Config{Endpoint: "https://h:8006"} },
	} {
		_, err := pve.New(wrong())
		if err == nil || where(err) != want {
			t.Errorf("%v is shown at %q, want %q", err, where(err), want)
		}
	}
}

// TestPathOfACertificate: a path in the place of a certificate is named as such.
func TestPathOfACertificate(t *testing.T) {
	for text, isPath := range map[string]bool{"/etc/pve/pve-root-ca.pem": true, "ca.pem": true, `C:\ca`: true, "x": false,
		"-----BEGIN CERTIFICATE-----\n./\n": false} {
		_, err := pve.New(pve.Config{Endpoint: "https://h:8006", APIToken: "a@pve!t=x", CACertificate: text})
		if err == nil || where(err) != "ca_certificate" || strings.Contains(err.Error(), "give the file's content") != isPath {
			t.Errorf("%q: %v", text, err)
		}
	}
}
