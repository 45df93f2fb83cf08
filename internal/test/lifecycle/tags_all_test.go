package lifecycle_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const labTags = `default_tags = ["lab", "Terraform"]`

// tagged compares the tags in state and on the server. Each list is sorted, with blanks in between.
func tagged(t *testing.T, w *rig.World, s *terraformtest.Session, vmid int, own, all string) {
	t.Helper()
	quoted := func(words string) string {
		if words == "" {
			return "null"
		}
		return `["` + strings.Join(strings.Fields(words), `","`) + `"]`
	}
	for name, want := range map[string]string{"tags": own, "tags_all": all} {
		if got := terraformtest.ShowValue(s.Attr("proxmox_vm.x", name)); got != quoted(want) {
			t.Errorf("%s is %s, want %s", name, got, quoted(want))
		}
	}
	is := strings.Split(strings.ToLower(rig.GuestOf(w, vmid).Config["tags"]), ";")
	want := strings.Fields(strings.ToLower(all))
	slices.Sort(want)
	slices.Sort(is)
	if !slices.Equal(slices.DeleteFunc(is, func(tag string) bool { return tag == "" }), want) {
		t.Errorf("the server has the tags %v, want %v", is, want)
	}
}

// TestTagsAll: the provider's default tags and those of a VM add up, a change of either is enforced, and so is a tag that a
// third party takes away. Every plan after an apply is empty.
func TestTagsAll(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.NewSession()
	for _, step := range []struct{ what, defaults, tags, own, all string }{
		{"both", labTags, `tags = ["app"]`, "app", "Terraform app lab"},
		{"one in both, in another case", labTags, `tags = ["app", "LAB"]`, "LAB app", "Terraform app lab"},
		{"other defaults", `default_tags = ["prod"]`, `tags = ["app", "LAB"]`, "LAB app", "LAB app prod"},
		{"own tags leave", `default_tags = ["prod"]`, "", "", "prod"},
		{"defaults leave", "", "", "", ""},
		{"defaults come", labTags, "", "", "Terraform lab"},
		{"none of its own", labTags, `tags = []`, "", "Terraform lab"},
		{"own tags come", labTags, `tags = ["db"]`, "db", "Terraform db lab"},
	} {
		withDefaults(t, w, s, step.defaults, rig.VMBlock("node = \"pve1\"\nvmid = 400\n"+step.tags))
		if err := s.Converge(t.Context()); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if step.tags != "tags = []" {
			tagged(t, w, s, 400, step.own, step.all)
		}
	}
	for what, tags := range map[string]string{"a default is gone": "db;terraform", "an own one is gone": "lab;terraform",
		"one more": "db;lab;terraform;x", "all are gone": ""} {
		w.Change(func(world *state.World) { world.Guests[400].Config["tags"] = tags })
		pl, err := s.Plan(t.Context())
		if err != nil || pl.Empty() {
			t.Errorf("%s: the plan is %v, %v", what, pl, err)
		}
		rig.Must(t, s.Converge(t.Context()))
		tagged(t, w, s, 400, "db", "Terraform db lab")
	}
}

// TestTagsAllLeavesOthersAlone: tags beside the default ones stay where the configuration has none, and so do all tags of
// a VM that was imported.
func TestTagsAllLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.NewSession()
	withDefaults(t, w, s, labTags, rig.VMBlock("node = \"pve1\"\nvmid = 400"))
	rig.Must(t, s.Converge(t.Context()))
	w.Change(func(world *state.World) { world.Guests[400].Config["tags"] = "lab;mine;terraform" })
	if pl, err := s.Plan(t.Context()); err != nil || !pl.Empty() {
		t.Errorf("a third party's tag: %v\n%s", err, pl)
	}
	withDefaults(t, w, s, `default_tags = ["prod"]`, rig.VMBlock("node = \"pve1\"\nvmid = 400"))
	rig.Must(t, s.Converge(t.Context()))
	tagged(t, w, s, 400, "mine", "mine prod")

	for _, tags := range []string{"", `tags = ["golden"]`} {
		w.Change(func(world *state.World) { world.Guests[8000].Config["tags"] = "golden" })
		imported := w.NewSession()
		tags += "\ndisks = { scsi0 = { size = \"4G\" } }\nnetworks = { net0 = {} }"
		withDefaults(t, w, imported, labTags, rig.VMBlock(tags))
		rig.Must(t, imported.Import(t.Context(), "proxmox_vm.x", "8000"))
		if pl, err := imported.Plan(t.Context()); err != nil || !pl.Empty() {
			t.Errorf("an import with %q: %v\n%s", tags, err, pl)
		}
		tagged(t, w, imported, 8000, "golden", "golden")
		withDefaults(t, w, imported, labTags, rig.VMBlock(tags+"\nonboot = true"))
		rig.Must(t, imported.Converge(t.Context()))
		tagged(t, w, imported, 8000, "golden", "golden")
	}
}

// TestTagsAllOfAClone: without default tags a clone keeps its source's, with them it has those.
func TestTagsAllOfAClone(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) {
		delete(world.Guests[9000].Config, "protection")
		world.Guests[9000].Config["tags"] = "golden"
	})
	for _, c := range []struct{ defaults, tags, own, all string }{
		{"", "", "golden", "golden"},
		{labTags, "", "", "Terraform lab"},
		{labTags, `tags = ["app"]`, "app", "Terraform app lab"},
		{"", `tags = ["app"]`, "app", "app"},
	} {
		s := w.NewSession()
		withDefaults(t, w, s, c.defaults, rig.VMBlock("vmid = 401\nclone = { vmid = 9000, full = true }\n"+c.tags))
		rig.Must(t, s.Converge(t.Context()))
		tagged(t, w, s, 401, c.own, c.all)
		rig.Must(t, s.Destroy(t.Context()))
	}
}
