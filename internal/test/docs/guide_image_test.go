package docs_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestImageGuide applies and destroys the further configurations of the guide: an image that is given another name, one for each node.
func TestImageGuide(t *testing.T) {
	t.Parallel()
	all := blocksOf(t, "../../../templates/guides/cloud-image.md.tmpl", "proxmox_image")
	if len(all) != 2 {
		t.Fatalf("%d configurations", len(all))
	}
	for _, config := range all {
		w := rig.ExampleWorld(t)
		s := w.Session(t, rig.TokenNoSSH, config)
		rig.Must(t, s.Converge(t.Context()))
		nodes := 1
		if strings.Contains(config, "for_each") {
			nodes = 2
		}
		if made := len(w.Leaks()); made != nodes {
			t.Errorf("%d files on %d nodes: %v", made, nodes, w.Leaks())
		}
		rig.Must(t, s.Destroy(t.Context()))
		w.MustBeClean(t)
	}
}
