package acctest

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
)

// TestAccNodes reads the data sources of nodes, and one of a node that does not exist.
func TestAccNodes(t *testing.T) {
	c := acceptance(t)
	c.test(t,
		resource.TestStep{
			Config: `
data "proxmox_node" "one" { name = "NODE" }
data "proxmox_nodes" "all" {}
`,
			Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr("data.proxmox_node.one", "online", "true"),
				resource.TestMatchResourceAttr("data.proxmox_node.one", "version", regexp.MustCompile(`^[89]\.`)),
			),
		},
		resource.TestStep{Config: `data "proxmox_node" "none" { name = "no-such-node" }`, ExpectError: regexp.MustCompile(`no-such-node`)},
	)
}
