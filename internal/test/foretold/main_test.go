// The post-quantum half of a TLS handshake costs more than most requests to a cluster in memory, and protects nothing here.
//
//go:debug tlsmlkem=0
package foretold_test

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestMain adds up the power-offs of all tests.
func TestMain(m *testing.M) { rig.Main(m) }
