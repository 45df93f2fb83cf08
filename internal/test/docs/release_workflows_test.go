package docs_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// releaseDescription is .goreleaser.yml, as far as it counts here.
type releaseDescription struct {
	Project string `yaml:"project_name"`
	Builds  []struct {
		ID, Main, Binary    string
		Dir                 string
		Env, Flags, Ldflags []string
		Targets             []string
	}
	Archives []struct {
		IDs     []string
		Formats []string
		Name    string `yaml:"name_template"`
	}
	SBOMs []struct {
		ID        string
		Documents []string
	} `yaml:"sboms"`
	Checksum struct {
		Name  string `yaml:"name_template"`
		Extra []extraFile
	}
	Release struct{ Extra []extraFile }
}

type extraFile struct {
	Glob string
	Name string `yaml:"name_template"`
}

const projectDir = "../../.."

// describedRelease reads it, whose names are filled in for a version and a platform.
func describedRelease(t *testing.T, version, platform string) releaseDescription {
	t.Helper()
	goos, arch, _ := strings.Cut(platform, "_")
	text := rig.ReadFile(t, filepath.Join(projectDir, ".goreleaser.yml"))
	var d releaseDescription
	rig.Must(t, yaml.Unmarshal([]byte(strings.ReplaceAll(text, "extra_files:", "extra:")), &d))
	if len(d.Builds) != 3 || len(d.Archives) != 3 || d.Builds[0].ID != "provider" || d.Builds[1].ID != "pvesim" {
		t.Fatalf("%d builds and %d archives are described, of the provider, the simulator and the ruleset", len(d.Builds), len(d.Archives))
	}
	fill := func(s *string) {
		var out strings.Builder
		parsed, err := template.New("").Option("missingkey=error").Parse(*s)
		rig.Must(t, err)
		rig.Must(t, parsed.Execute(&out, map[string]string{"ProjectName": d.Project, "Version": version, "Os": goos, "Arch": arch}))
		*s = out.String()
	}
	for b := range d.Builds {
		fill(&d.Builds[b].Binary)
		for i := range d.Builds[b].Ldflags {
			fill(&d.Builds[b].Ldflags[i])
		}
		fill(&d.Archives[b].Name)
		if !slices.Equal(d.Archives[b].IDs, []string{d.Builds[b].ID}) {
			t.Errorf("archive %s is of the builds %v", d.Archives[b].Name, d.Archives[b].IDs)
		}
	}
	fill(&d.Checksum.Name)
	for _, extra := range [][]extraFile{d.Checksum.Extra, d.Release.Extra} {
		for i := range extra {
			fill(&extra[i].Name)
		}
	}
	return d
}

// hasDocument reports whether a release has a file beside its archives.
func hasDocument(d releaseDescription, name string) bool {
	for _, list := range d.SBOMs {
		if slices.Contains(list.Documents, name) {
			return true
		}
	}
	return false
}

// TestReleaseDescribed holds the description to what the registries read, and the platforms to those that Terraform and OpenTofu are
// published for.
func TestReleaseDescribed(t *testing.T) {
	t.Parallel()
	d := describedRelease(t, "1.2.3", "linux_arm64")
	const name = "terraform-provider-proxmox_1.2.3"
	build, archive := d.Builds[0], d.Archives[0]
	for what, got := range map[string][2]string{
		"binary": {build.Binary, "terraform-provider-proxmox_v1.2.3"}, "archive": {archive.Name, name + "_linux_arm64"},
		"formats": {fmt.Sprint(archive.Formats), "[zip]"}, "sums": {d.Checksum.Name, name + "_SHA256SUMS"},
		"manifest, summed": {fmt.Sprint(d.Checksum.Extra), "[{terraform-registry-manifest.json " + name + "_manifest.json}]"},
		"manifest":         {fmt.Sprint(d.Release.Extra), "[{terraform-registry-manifest.json " + name + "_manifest.json}]"},
		"ldflags":          {fmt.Sprint(build.Ldflags), "[-s -w -X main.version=1.2.3]"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %s, want %s", what, got[0], got[1])
		}
	}
	for _, build := range d.Builds {
		if !slices.Contains(build.Flags, "-trimpath") || !slices.Contains(build.Env, "CGO_ENABLED=0") {
			t.Errorf("the build of %s is not reproducible: %v %v", build.ID, build.Flags, build.Env)
		}
	}
	if sim := d.Builds[1]; sim.Main != "./internal/cmd/pvesim" || sim.Binary != "pvesim" || d.Archives[1].Name != "pvesim_1.2.3_linux_arm64" {
		t.Errorf("the simulator is built as %+v in %s", sim, d.Archives[1].Name)
	}
	// TFLint plugin/install.go: the archive, its program and the sums have these names.
	if rules := d.Builds[2]; rules.Dir != "tools/tflint" || rules.Binary != "tflint-ruleset-proxmox" ||
		d.Archives[2].Name != "tflint-ruleset-proxmox_linux_arm64" || !hasDocument(d, "checksums.txt") {
		t.Errorf("the ruleset is built as %+v in %s, with %v", rules, d.Archives[2].Name, d.SBOMs)
	}
	want := strings.Fields(`darwin_amd64 darwin_arm64 freebsd_386 freebsd_amd64 freebsd_arm linux_386 linux_amd64 linux_arm linux_arm64
		openbsd_386 openbsd_amd64 solaris_amd64 windows_386 windows_amd64`)
	if !slices.Equal(build.Targets, want) {
		t.Errorf("platforms %v, want %v", build.Targets, want)
	}
	var manifest struct {
		Version  int
		Metadata struct {
			Protocols []string `json:"protocol_versions"`
		}
	}
	rig.Must(t, json.Unmarshal([]byte(rig.ReadFile(t, filepath.Join(projectDir, "terraform-registry-manifest.json"))), &manifest))
	if manifest.Version != 1 || !slices.Equal(manifest.Metadata.Protocols, []string{"6.0"}) {
		t.Errorf("the manifest says %+v", manifest)
	}
}

// TestReleaseWorkflows: what the workflows call is there, from elsewhere at a commit that cannot be moved, and they try the CLIs that the
// README names.
func TestReleaseWorkflows(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(projectDir, ".github", "workflows", "*.yml"))
	rig.Must(t, err)
	if len(files) < 3 {
		t.Fatalf("workflows: %v", files)
	}
	makefile, workflows := rig.ReadFile(t, filepath.Join(projectDir, "GNUmakefile")), ""
	for _, file := range files {
		text := rig.ReadFile(t, file)
		var parsed struct{ Jobs map[string]yaml.Node }
		rig.Must(t, yaml.Unmarshal([]byte(text), &parsed))
		if len(parsed.Jobs) == 0 {
			t.Errorf("%s has no jobs", file)
		}
		workflows += text
	}
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, m := range regexp.MustCompile(`uses: (.*)`).FindAllStringSubmatch(workflows, -1) {
		if !pinned.MatchString(m[1]) {
			t.Errorf("%s is not pinned by its commit, with its version beside it", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`\bmake ((?:[a-z-]+ ?)+)`).FindAllStringSubmatch(workflows, -1) {
		for _, target := range strings.Fields(m[1]) {
			if !strings.Contains(makefile, "\n"+target+":") {
				t.Errorf("there is no make %s", target)
			}
		}
	}
	readme := rig.ReadFile(t, filepath.Join(projectDir, "README.md"))
	for _, m := range regexp.MustCompile(`\| tested: ([0-9., ]+);`).FindAllStringSubmatch(readme, -1) {
		for _, version := range strings.Split(m[1], ", ") {
			if !strings.Contains(workflows, `"`+version+`"`) {
				t.Errorf("the README says that %s is tested, and no workflow does", version)
			}
		}
	}
}
