package acctest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

const examplesDir = "../../examples"

// emptyProvider is the provider block of the examples; the tests put one with an address and credentials in its place.
const emptyProvider = `provider "proxmox" {}`

// examples gives the configuration in each directory under examples/, by the directory's name. What stands in the
// documentation beside the provider's example is completed by it, as a reader would.
func examples(t *testing.T) map[string]string {
	t.Helper()
	var dirs []string
	for _, pattern := range []string{"resources/*", "data-sources/*", "functions/*", "guides/*"} {
		found, err := filepath.Glob(filepath.Join(examplesDir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, found...)
	}
	settings := read(t, filepath.Join(examplesDir, "provider", "provider.tf"))
	out := map[string]string{"provider": withoutProvider(t, settings)}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s holds no configuration (%v)", dir, err)
		}
		var all strings.Builder
		for _, name := range files {
			all.WriteString(read(t, name))
		}
		name := filepath.ToSlash(strings.TrimPrefix(dir, examplesDir+"/"))
		text := besideThem(t, dir, all.String())
		if !strings.HasPrefix(name, "guides/") {
			text += "\n" + settings
		}
		out[name] = withoutProvider(t, text)
	}
	return out
}

// besideThem gives the files that lie beside a configuration, which runs there, the paths by which the tests find them.
func besideThem(t *testing.T, dir, config string) string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		path, err := filepath.Abs(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		config = strings.ReplaceAll(config, strconv.Quote(file.Name()), strconv.Quote(path))
	}
	return config
}

// webChecksum is that of what the nodes of the examples download.
func webChecksum() string { return fmt.Sprintf("%x", sha256.Sum256(pvesim.StandIn())) }

// exampleWorld is the cluster that `make sim` starts: with all that the guides name.
func exampleWorld(t *testing.T, options ...pvesim.Options) *World {
	t.Helper()
	options = append(options, pvesim.Options{})
	return NewWorld(t, options[0].ForGuides())
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// withoutProvider takes the empty provider block out, and wants it and the provider's source to be there: a guide is
// something to copy and run.
func withoutProvider(t *testing.T, text string) string {
	t.Helper()
	if !strings.Contains(text, `source = "terraform-proxmox/proxmox"`) {
		t.Errorf("the provider's source is missing in:\n%s", text)
	}
	rest := strings.Replace(text, emptyProvider, "", 1)
	if rest == text {
		t.Errorf("%s is missing in:\n%s", emptyProvider, text)
	}
	return rest
}

// TestExamples applies and destroys every example, with each kind of credentials. The plan in between is empty, and
// nothing is left.
func TestExamples(t *testing.T) {
	t.Parallel()
	for name, config := range examples(t) {
		for _, id := range Identities() {
			t.Run(name+"/"+string(id), func(t *testing.T) {
				t.Parallel()
				w := exampleWorld(t)
				s := w.Session(t, id, config)
				err := s.Converge(t.Context())
				if strings.Contains(config, `"esxi:`) && id == TokenNoAllocate { // nor import from a storage of type ESXi
					if err == nil || !strings.Contains(err.Error(), "Datastore.Allocate on /storage/esxi") {
						t.Errorf("the apply says %v", err)
					}
					must(t, s.Destroy(t.Context()))
					w.MustBeClean(t)
					return
				}
				must(t, err)
				if ds := s.Diagnostics(); len(ds) > 0 {
					t.Errorf("the apply has something to say: %v", ds)
				}
				for _, output := range s.Outputs() {
					if s.Output(output).IsNull() {
						t.Errorf("output %s is null", output)
					}
				}
				err = s.Destroy(t.Context())
				if removesFiles(config) && id == TokenNoAllocate { // who may not remove a file says so
					if err == nil || !strings.Contains(err.Error(), "Datastore.Allocate") {
						t.Errorf("the destroy says %v", err)
					}
					return
				}
				must(t, err)
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
	w := NewWorld(t)
	w.Change(func(world *state.World) { delete(world.Guests[9000].Config, "protection") })
	w.Mark()
	s := w.Session(t, TokenNoSSH, withoutProvider(t, config))
	must(t, s.Converge(t.Context()))
	if got := drive.ShowValue(s.Attr("proxmox_vm.web", "status")); got != `"running"` {
		t.Errorf("status %s", got)
	}
	must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}

// readmeConfig is the configuration that the README begins with, with a key in the place of the file that has it.
func readmeConfig(t *testing.T) string {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllStringSubmatch(read(t, "../../README.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("README.md has no configuration")
	}
	config := regexp.MustCompile(`file\("[^"]*"\)`).ReplaceAllString(blocks[0][1],
		`"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"`)
	return regexp.MustCompile(`(?m)^provider "proxmox" \{\}.*$`).ReplaceAllString(config, emptyProvider)
}

// TestAccExamples does the same as TestExamples with a CLI, which also finds what is not formatted or does not validate.
func TestAccExamples(t *testing.T) {
	atHome(t)
	useCLI(t)
	withoutEnvironment(t)
	t.Setenv("TF_ACC_PROVIDER_NAMESPACE", "terraform-proxmox")
	if out, err := exec.CommandContext(t.Context(), os.Getenv("TF_ACC_TERRAFORM_PATH"), "fmt", "-check", "-diff", "-recursive", examplesDir).CombinedOutput(); err != nil {
		t.Errorf("fmt: %v\n%s", err, out)
	}
	for name, config := range examples(t) {
		if hasForEach(config) {
			continue // TestAccExamplesForEach
		}
		t.Run(name, func(t *testing.T) {
			w := exampleWorld(t, pvesim.Options{RealNetwork: true})
			if name == "provider" {
				config += "\noutput \"nothing\" {\n  value = \"nothing\"\n}\n"
			}
			testWithCLI(t, w, resource.TestStep{Config: config})
		})
	}
}

// removesFiles reports whether a configuration puts files onto storages, which only Datastore.Allocate may remove.
func removesFiles(config string) bool {
	return strings.Contains(config, `resource "proxmox_image"`) || strings.Contains(config, `resource "proxmox_cloud_init_iso"`)
}
