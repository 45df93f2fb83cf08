package rig

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// ExamplesDir is the directory of the examples, as each package of tests sees it.
const ExamplesDir = "../../../examples"

// EmptyProvider is the provider block of the examples; the tests put one with an address and credentials in its place.
const EmptyProvider = `provider "proxmox" {}`

// Examples gives the configuration in each directory under examples/, by the directory's name. An
// example without a provider block gets that of the provider's example, as a reader would complete it.
func Examples(t *testing.T) map[string]string {
	t.Helper()
	var dirs []string
	for _, pattern := range []string{"resources/*", "data-sources/*", "functions/*", "guides/*"} {
		found, err := filepath.Glob(filepath.Join(ExamplesDir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, found...)
	}
	settings := ReadFile(t, filepath.Join(ExamplesDir, "provider", "provider.tf"))
	out := map[string]string{"provider": WithoutProvider(t, settings)}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s holds no configuration (%v)", dir, err)
		}
		var all strings.Builder
		for _, name := range files {
			all.WriteString(ReadFile(t, name))
		}
		name := filepath.ToSlash(strings.TrimPrefix(dir, ExamplesDir+"/"))
		text := besideThem(t, dir, all.String())
		if !strings.HasPrefix(name, "guides/") {
			text += "\n" + settings
		}
		out[name] = WithoutProvider(t, text)
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

// WebChecksum is the checksum of the file that the nodes of the examples download.
func WebChecksum() string { return fmt.Sprintf("%x", sha256.Sum256(pvesim.StandIn())) }

// ExampleWorld is the cluster that `make sim` starts: with all that the guides name.
func ExampleWorld(t *testing.T, options ...pvesim.Options) *World {
	t.Helper()
	options = append(options, pvesim.Options{})
	return NewWorld(t, options[0].ForGuides())
}

// WorldOf is ExampleWorld as a configuration needs it: HA rules take three nodes of version 9, and identities that may
// change HA.
func WorldOf(t *testing.T, config string, options ...pvesim.Options) *World {
	t.Helper()
	if !strings.Contains(config, "\"proxmox_ha_rule\"") {
		return ExampleWorld(t, options...)
	}
	options = append(options, pvesim.Options{})
	options[0].Profile, options[0].Nodes = "9.2", []string{"pve1", "pve2", "pve3"}
	w := ExampleWorld(t, options...)
	w.Change(func(world *state.World) {
		for name, role := range world.Roles {
			if strings.HasPrefix(name, "Terraform") {
				world.Roles[name] = append(slices.Clone(role), "Sys.Console")
			}
		}
	})
	w.Mark()
	return w
}

// ReadFile returns the text of a file.
func ReadFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// WithoutProvider takes the empty provider block out, and wants it and the provider's source to be there: a guide is
// something to copy and run.
func WithoutProvider(t *testing.T, text string) string {
	t.Helper()
	if !strings.Contains(text, `source = "terraform-proxmox/proxmox"`) {
		t.Errorf("the provider's source is missing in:\n%s", text)
	}
	rest := strings.Replace(text, EmptyProvider, "", 1)
	if rest == text {
		t.Errorf("%s is missing in:\n%s", EmptyProvider, text)
	}
	return rest
}
