package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestModuleUnderFaults runs the example of a module under faults: a create that fails and one whose answer is lost, ordered by a file, in
// `terraform test`.
func TestModuleUnderFaults(t *testing.T) {
	document := rig.ReadFile(t, filepath.Join(rig.ExamplesDir, "simulator", "bad-day", "faults.json"))
	rules, err := fault.Read([]byte(document))
	rig.Must(t, err)
	w := testModule(t, "bad-day", "5 passed, 0 failed", rules)
	if fired := w.Sim.FaultsFired(); fired != len(rules) {
		t.Errorf("%d of %d faults had an effect", fired, len(rules))
	}
}

// TestModule runs the example of a user's own module with `terraform test` as the documentation says: on a cluster of the
// example world, with the provider built from this source, and without a registry.
func TestModule(t *testing.T) { testModule(t, "web", "3 passed, 0 failed", nil) }

func testModule(t *testing.T, name, want string, faults []fault.Rule) *rig.World {
	t.Helper()
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	examples, err := filepath.Abs(filepath.Join(rig.ExamplesDir, "simulator"))
	if err != nil {
		t.Fatal(err)
	}
	world, err := state.Read([]byte(rig.ReadFile(t, filepath.Join(examples, "world.yaml"))))
	if err != nil {
		t.Fatal(err)
	}
	w := rig.NewWorld(t, pvesim.Options{World: world, RealNetwork: true, Faults: faults, Clock: rig.NewFastClock(), Violated: func(err error) { t.Error(err) }})
	dir := t.TempDir()
	settings := rig.DevOverride(t, dir)
	rig.Must(t, os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(examples)))
	module := filepath.Join(dir, "examples", name)
	token := ""
	w.Change(func(world *state.World) {
		for id, one := range world.Tokens {
			token = id + "=" + one.Secret
		}
	})
	cli := os.Getenv("TF_ACC_TERRAFORM_PATH")
	var text []byte
	for _, args := range [][]string{{"get", "-no-color"}, {"test", "-no-color"}} {
		run := exec.CommandContext(t.Context(), cli, args...)
		run.Dir = module
		run.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "TF_IN_AUTOMATION=1", "TF_VAR_cli="+cli,
			"PROXMOX_VE_ENDPOINT="+w.Sim.Endpoint(), "PROXMOX_VE_CA_CERTIFICATE="+w.Sim.CAPEM(), "PROXMOX_VE_API_TOKEN="+token)
		if text, err = run.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", cli, args[0], err, text)
		}
	}
	if !strings.Contains(string(text), want) {
		t.Errorf("%s test has not said %q:\n%s", cli, want, text)
	}
	w.MustBeClean(t)
	return w
}

// TestModuleWithMocks runs a module whose resources refer to each other with the mocks of the guide, without a server.
func TestModuleWithMocks(t *testing.T) {
	guide := rig.ReadFile(t, "../../../templates/guides/pipeline.md.tmpl")
	mocks := regexp.MustCompile("(?s)```hcl\n(mock_provider .*?)```").FindStringSubmatch(guide)
	if mocks == nil {
		t.Fatal("the guide has no mocks")
	}
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	dir := t.TempDir()
	settings := rig.DevOverride(t, dir)
	module := filepath.Join(dir, "module")
	rig.Must(t, os.MkdirAll(filepath.Join(module, "tests"), 0o700))
	const main = `terraform {
  required_providers {
    proxmox = { source = "terraform-proxmox/proxmox" }
  }
}
resource "proxmox_image" "it" {
  node    = "pve1"
  storage = "local"
  url     = "https://example.org/image.qcow2"
}
resource "proxmox_cloud_init_iso" "it" {
  node    = "pve1"
  storage = "local"
  name      = "x"
  user_data = "#cloud-config\n"
}
resource "proxmox_snippet" "it" {
  node    = "pve1"
  storage = "local"
  name    = "user-data.yaml"
  content = "#cloud-config\n"
}
resource "proxmox_disk" "it" {
  storage = "local-lvm"
  size    = "1G"
}
resource "proxmox_vm" "source" {
  name = "source"
}
resource "proxmox_vm" "it" {
  name   = "x"
  clone  = { vmid = proxmox_vm.source.vmid }
  disks  = {
    scsi1 = { storage = "local-lvm", import_from = proxmox_image.it.volume }
    scsi2 = { imported_disk = { volume = proxmox_disk.it.volume } }
  }
  cdroms = { ide0 = { file = proxmox_cloud_init_iso.it.volume } }
  cloud_init = { storage = "local", custom = { user = proxmox_snippet.it.volume } }
}
resource "proxmox_vm_snapshot" "it" {
  vmid = proxmox_vm.it.vmid
  uuid = proxmox_vm.it.uuid
  name = "before"
}
`
	rig.Must(t, os.WriteFile(filepath.Join(module, "main.tf"), []byte(main), 0o600))
	rig.Must(t, os.WriteFile(filepath.Join(module, "tests", "mocks.tftest.hcl"), []byte(mocks[1]), 0o600))
	run := exec.CommandContext(t.Context(), os.Getenv("TF_ACC_TERRAFORM_PATH"), "test", "-no-color")
	run.Dir = module
	run.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings, "TF_IN_AUTOMATION=1")
	if text, err := run.CombinedOutput(); err != nil || !strings.Contains(string(text), "1 passed, 0 failed") {
		t.Errorf("%v\n%s", err, text)
	}
}
