package docs_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// TestGrowingDataDisk grows a disk of the guide's VM: same volumes, no restart, and a smaller size is refused in the plan.
func TestGrowingDataDisk(t *testing.T) {
	t.Parallel()
	w := rig.ExampleWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.Examples(t)["guides/data-disks"])
	rig.Must(t, s.Converge(t.Context()))
	before := terraformtest.ShowValue(s.Output("volumes"))
	s.SetString("data_size", "150G")
	rig.Must(t, s.Converge(t.Context()))
	if after := terraformtest.ShowValue(s.Output("volumes")); after != before {
		t.Errorf("the volumes were %s and are %s", before, after)
	}
	if size := terraformtest.ShowValue(s.Attr("proxmox_vm.database", "disks.scsi1.size")); size != `"150G"` {
		t.Errorf("the disk has %s", size)
	}
	if status := terraformtest.ShowValue(s.Attr("proxmox_vm.database", "status")); status != `"running"` {
		t.Errorf("status %s", status)
	}
	s.SetString("data_size", "50G")
	if _, err := s.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "scsi1") {
		t.Errorf("a shrinking disk is planned: %v", err)
	}
	s.SetString("data_size", "150G")
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}

// TestOneVMOfTheMap takes one line out of the map of VMs: its VM goes, the others stay as they are.
func TestOneVMOfTheMap(t *testing.T) {
	t.Parallel()
	w := rig.ExampleWorld(t)
	config := rig.Examples(t)["guides/many-vms"]
	s := w.Session(t, rig.TokenNoSSH, config)
	rig.Must(t, s.Converge(t.Context()))
	want := rig.GuestsNamed(w)
	less := regexp.MustCompile(`(?m)^    web-1 .*\n`).ReplaceAllString(config, "")
	if less == config || want["web-1"] == 0 {
		t.Fatalf("the guide has no line for web-1; there are %v", want)
	}
	w.Reconfigure(t, s, rig.TokenNoSSH, less)
	rig.Must(t, s.Converge(t.Context()))
	delete(want, "web-1")
	if is := rig.GuestsNamed(w); !maps.Equal(is, want) {
		t.Errorf("there are %v, want %v", is, want)
	}
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}

// TestReplacedTemplate replaces the template of the guide: the plan replaces its clones too, which would otherwise be
// clones of nothing.
func TestReplacedTemplate(t *testing.T) {
	t.Parallel()
	w := rig.ExampleWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.Examples(t)["guides/template"])
	rig.Must(t, s.Converge(t.Context()))
	s.Taint("proxmox_vm.template", true)
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	for _, address := range []string{"proxmox_vm.template", "proxmox_vm.web[0]", "proxmox_vm.web[1]"} {
		if !strings.Contains(pl.String(), "replace "+address) {
			t.Errorf("%s is not replaced:\n%s", address, pl)
		}
	}
}

// TestAccReplacedTemplate does it with a CLI, which orders what depends on each other: linked clones go before their
// template.
func TestAccReplacedTemplate(t *testing.T) {
	share.InWhole(t)
	atHome(t)
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	w := processWorld(t)
	ws := rig.NewWorkspace(t, w, rig.DevOverride(t, t.TempDir()), map[string]string{"main.tf": rig.Examples(t)["guides/template"]})
	ws.Run(t, "apply", "-auto-approve")
	ws.Run(t, "apply", "-auto-approve", "-replace=proxmox_vm.template")
	cycle(t, []rig.Workspace{ws})
	w.MustBeClean(t)
}

// TestMissingMedium applies the guide of Windows without its images: the create fails and names the first, nothing is left.
func TestMissingMedium(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.Examples(t)["guides/windows-11"])
	if err := s.Converge(t.Context()); err == nil || !strings.Contains(err.Error(), "local:iso/") {
		t.Errorf("said %v", err)
	}
	if left := s.Addresses(); len(left) > 0 {
		t.Errorf("in state: %v", left)
	}
	w.MustBeClean(t)
}

// TestGuidesAreComplete wants a page for each example of a guide, which shows it, and the README to link every page.
func TestGuidesAreComplete(t *testing.T) {
	t.Parallel()
	readme := rig.ReadFile(t, "../../../README.md")
	dirs, err := filepath.Glob(filepath.Join(rig.ExamplesDir, "guides", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no guides: %v", err)
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		if page := rig.ReadFile(t, "../../../templates/guides/"+name+".md.tmpl"); !strings.Contains(page, `tffile "examples/guides/`+name+`/main.tf"`) {
			t.Errorf("the page of %s does not show its configuration", name)
		}
	}
	pages, err := filepath.Glob("../../../templates/guides/*.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if link := "docs/guides/" + strings.TrimSuffix(filepath.Base(page), ".tmpl"); !strings.Contains(readme, "("+link+")") {
			t.Errorf("README.md does not link %s", link)
		}
	}
}

// TestVMsOnDifferentNodes: the rule of the guide keeps the VMs apart when a node fails, and on Proxmox VE 8, where the plan
// refuses it, the groups of the guide place each VM.
func TestVMsOnDifferentNodes(t *testing.T) {
	t.Parallel()
	nodesOf := func(w *rig.World) (all []string) {
		w.Change(func(world *state.World) {
			for id, g := range world.Guests {
				if world.HA[fmt.Sprint("vm:", id)] != nil {
					all = append(all, g.Node)
				}
			}
		})
		slices.Sort(all)
		return all
	}
	config, each := rig.Examples(t)["guides/vms-on-different-nodes"], []string{"pve1", "pve2", "pve3"}
	w := rig.WorldOf(t, config)
	s := w.Session(t, rig.TokenNoSSH, config)
	rig.Must(t, s.Converge(t.Context()))
	if got := nodesOf(w); !slices.Equal(got, each) {
		t.Errorf("the VMs are on %v", got)
	}
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)

	old := rig.NewWorld(t, pvesim.Options{Nodes: each}.ForGuides())
	_, err := old.Session(t, rig.RootTicket, config).Plan(t.Context())
	rig.MustRefuse(t, err, []string{"HA rules need Proxmox VE 9.0 or later", "ha.group"})
	old.Change(func(world *state.World) {
		for i, node := range each {
			prefers := slices.Insert(slices.Delete(slices.Clone(each), i, i+1), 0, node+":2")
			world.HAGroups["prefer-"+node] = &state.HAGroup{ID: "prefer-" + node, Nodes: prefers}
		}
	})
	old.Mark()
	_, block, _ := strings.Cut(rig.ReadFile(t, "../../../templates/guides/vms-on-different-nodes.md.tmpl"), "```terraform\n")
	block, _, _ = strings.Cut(block, "```")
	s = old.Session(t, rig.RootTicket, block)
	rig.Must(t, s.Converge(t.Context()))
	if got := nodesOf(old); !slices.Equal(got, each) {
		t.Errorf("with groups the VMs are on %v", got)
	}
	rig.Must(t, s.Destroy(t.Context()))
	old.MustBeClean(t)
}

// TestMigrationNames wants every attribute of this provider that the migration guides name to be in the schema, and every argument that
// the other provider's state has to be in its guide.
func TestMigrationNames(t *testing.T) {
	t.Parallel()
	server, err := rig.NewWorld(t).Factory()()
	rig.Must(t, err)
	schema, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	rig.Must(t, err)
	vm := schema.ResourceSchemas["proxmox_vm"].Block.Attributes
	for _, peer := range rig.OtherProviders() {
		_, page, _ := strings.Cut(rig.ReadFile(t, "../../../templates/guides/migrate-from-"+peer+".md.tmpl"), "\n## The VM\n")
		table, _, _ := strings.Cut(page, "\n## ")
		count, theirs := 0, ""
		for _, row := range regexp.MustCompile("(?m)^\\| ([^|]*`[^|]*) \\| ([^|]*) \\|").FindAllStringSubmatch(table, -1) {
			theirs += row[1]
			for _, name := range regexp.MustCompile("`([a-z][a-z0-9_.<>]*)`").FindAllStringSubmatch(row[2], -1) {
				count++
				if path := strings.Split(name[1], "."); !inSchema(vm, path) {
					t.Errorf("%s: there is no attribute %s", peer, name[1])
				}
			}
		}
		if count < 80 {
			t.Errorf("%s: the guide names %d attributes", peer, count)
		}
		for _, f := range rig.ReadOtherProvider(t, peer).Theirs {
			for name := range f.Attributes {
				if name != "id" && !regexp.MustCompile("\\b"+strings.TrimSuffix(name, "0")).MatchString(theirs) {
					t.Errorf("%s: the guide says nothing of %s", peer, name)
				}
			}
		}
	}
}

// inSchema reports whether a path leads to an attribute; slots of devices stand as <slot>.
func inSchema(attributes []*tfprotov6.SchemaAttribute, path []string) bool {
	at := slices.IndexFunc(attributes, func(a *tfprotov6.SchemaAttribute) bool { return a.Name == path[0] })
	if at < 0 {
		return false
	}
	nested, rest := attributes[at].NestedType, path[1:]
	if len(rest) > 0 && strings.HasPrefix(rest[0], "<") && nested != nil {
		rest = rest[1:]
	}
	return len(rest) == 0 || nested != nil && inSchema(nested.Attributes, rest)
}
