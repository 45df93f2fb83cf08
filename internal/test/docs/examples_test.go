package docs_test

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// TestExamples applies and destroys every example, with each kind of credentials, or in `make test` with half of them. The plan in
// between is empty, and nothing is left.
func TestExamples(t *testing.T) {
	t.Parallel()
	examples := rig.Examples(t)
	for n, name := range slices.Sorted(maps.Keys(examples)) {
		config := examples[name]
		for who, id := range rig.Identities() {
			if !share.Plays(n+who, 2, name) { // two of the four
				continue
			}
			t.Run(name+"/"+string(id), func(t *testing.T) {
				t.Parallel()
				w := rig.WorldOf(t, config)
				s := w.Session(t, id, config)
				err := s.Converge(t.Context())
				if strings.Contains(config, `"esxi:`) && id == rig.TokenNoAllocate { // nor import from a storage of type ESXi
					if err == nil || !strings.Contains(err.Error(), "Datastore.Allocate on /storage/esxi") {
						t.Errorf("the apply says %v", err)
					}
					rig.Must(t, s.Destroy(t.Context()))
					w.MustBeClean(t)
					return
				}
				rig.Must(t, err)
				if ds := s.Diagnostics(); len(ds) > 0 {
					t.Errorf("the apply has something to say: %v", ds)
				}
				for _, output := range s.Outputs() {
					if s.Output(output).IsNull() {
						t.Errorf("output %s is null", output)
					}
				}
				err = s.Destroy(t.Context())
				if removesFiles(config) && id == rig.TokenNoAllocate { // who may not remove a file says so
					if err == nil || !strings.Contains(err.Error(), "Datastore.Allocate") {
						t.Errorf("the destroy says %v", err)
					}
					return
				}
				rig.Must(t, err)
				w.MustBeClean(t)
			})
		}
	}
}

// TestREADMEExample applies the configuration that the README begins with. Its template is not protected, and there is no
// key file.
func TestREADMEExample(t *testing.T) {
	t.Parallel()
	config := readmeConfig(t)
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) { delete(world.Guests[9000].Config, "protection") })
	w.Mark()
	s := w.Session(t, rig.TokenNoSSH, rig.WithoutProvider(t, config))
	rig.Must(t, s.Converge(t.Context()))
	if got := terraformtest.ShowValue(s.Attr("proxmox_vm.web", "status")); got != `"running"` {
		t.Errorf("status %s", got)
	}
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}

// readmeConfig is the configuration that the README begins with, with a key in the place of the file that has it.
func readmeConfig(t *testing.T) string {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllStringSubmatch(rig.ReadFile(t, "../../../README.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("README.md has no configuration")
	}
	config := regexp.MustCompile(`file\("[^"]*"\)`).ReplaceAllString(blocks[0][1],
		`"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"`)
	return regexp.MustCompile(`(?m)^provider "proxmox" \{\}.*$`).ReplaceAllString(config, rig.EmptyProvider)
}

// TestAccExamples does the same as TestExamples with a CLI, which also finds what is not formatted or does not validate:
// with one example of six; the whole with all of them.
func TestAccExamples(t *testing.T) {
	atHome(t)
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	t.Setenv("TF_ACC_PROVIDER_NAMESPACE", "terraform-proxmox")
	if out, err := exec.CommandContext(t.Context(), os.Getenv("TF_ACC_TERRAFORM_PATH"), "fmt", "-check", "-diff", "-recursive", rig.ExamplesDir).CombinedOutput(); err != nil {
		t.Errorf("fmt: %v\n%s", err, out)
	}
	all, played := rig.Examples(t), 0
	for n, name := range slices.Sorted(maps.Keys(all)) {
		config := all[name]
		if hasForEach(config) || n%6 != 0 && !share.IsWhole() {
			continue // TestAccExamplesForEach
		}
		played++
		t.Run(name, func(t *testing.T) {
			w := rig.WorldOf(t, config, pvesim.Options{RealNetwork: true})
			if name == "provider" {
				config += "\noutput \"nothing\" {\n  value = \"nothing\"\n}\n"
			}
			testWithCLI(t, w, resource.TestStep{Config: config})
		})
	}
	if t.Logf("%d of %d examples", played, len(all)); played < len(all)/8 {
		t.Errorf("only %d examples are played", played)
	}
}

// removesFiles reports whether a configuration puts files onto storages, which only Datastore.Allocate may remove.
func removesFiles(config string) bool {
	return strings.Contains(config, `resource "proxmox_image"`) || strings.Contains(config, `resource "proxmox_cloud_init_iso"`)
}
