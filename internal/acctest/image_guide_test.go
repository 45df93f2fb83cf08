package acctest

import (
	"strings"
	"testing"
)

// TestImageGuide applies and destroys the further configurations of the guide: an image that is given another name, one for each node.
func TestImageGuide(t *testing.T) {
	t.Parallel()
	all := blocksOf(t, "../../templates/guides/cloud-image.md.tmpl", "proxmox_image")
	if len(all) != 2 {
		t.Fatalf("%d configurations", len(all))
	}
	for _, config := range all {
		w := exampleWorld(t)
		s := w.Session(t, TokenNoSSH, config)
		must(t, s.Converge(t.Context()))
		nodes := 1
		if strings.Contains(config, "for_each") {
			nodes = 2
		}
		if made := len(w.Leaks()); made != nodes {
			t.Errorf("%d files on %d nodes: %v", made, nodes, w.Leaks())
		}
		must(t, s.Destroy(t.Context()))
		w.MustBeClean(t)
	}
}
