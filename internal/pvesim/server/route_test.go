package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
)

// TestRoutesExist: every route with semantics is one that the API has, and belongs to one area.
func TestRoutesExist(t *testing.T) {
	sets := []*schema.Set{loadSchema(), schema.LoadVersion("9.2")}
	all := routes()
	n := 0
	for _, area := range areas() {
		n += len(area)
	}
	if n != len(all) {
		t.Errorf("%d routes in the areas, %d together: some stand twice", n, len(all))
	}
	for key := range all {
		method, path, _ := strings.Cut(key, " ")
		if !slices.ContainsFunc(sets, func(set *schema.Set) bool {
			r, _, known := set.Route(method, path)
			return known && r.Template == path
		}) {
			t.Errorf("%s is not in the API", key)
		}
	}
}
