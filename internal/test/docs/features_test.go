package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// feature is something that not every CLI has, and how it shows: the CLI succeeds and says so.
type feature struct {
	row    string // of the table in the documentation, without links
	config string
	query  string
	args   []string
	says   string
	// lacks is what the file that is generated must not have.
	lacks string
	moves bool // begins with a state of another provider
	made  bool // is tried after an apply
}

const generated = "generated.tf"

// features are the rows of the table, by which a test finds out what a CLI has.
func features() []feature {
	const web = "resource \"proxmox_vm\" \"web\" {\n  name = \"web-1\"\n}\n"
	importing := func(what string) string { return "import {\n  to = proxmox_vm.web\n  " + what + "\n}\n" }
	// Terraform 1.16 finds the provider of a resource without a block by the import block alone.
	toGenerate := importing("id = \"201\"\n  provider = proxmox")
	plan, generate := []string{"plan"}, []string{"plan", "-generate-config-out=" + generated}
	return []feature{
		{row: "`import` block", config: web + importing(`id = "201"`), args: plan, says: "1 to import"},
		{row: "a generated configuration of an imported VM, `-generate-config-out`", config: toGenerate, args: generate,
			says: "1 to import, 0 to add, 0 to change"},
		{row: "`import` block with `for_each`", args: plan, says: "2 to import", config: `
import {
  for_each = { web-1 = 201, web-2 = 202 }
  to       = proxmox_vm.web[each.key]
  id       = each.value
}
resource "proxmox_vm" "web" {
  for_each = toset(["web-1", "web-2"])
  name     = each.key
}
`},
		{row: "functions", config: "output \"size\" {\n  value = provider::proxmox::parse_size(\"1G\")\n}\n", args: plan, says: "1073741824"},
		{row: "`moved` block from other providers", moves: true, args: plan, says: "has moved to"},
		{row: "ephemeral variables, for `cloud_init_password_wo`", args: plan, says: "No changes",
			config: "variable \"password\" {\n  ephemeral = true\n  default   = \"x\"\n}\n"},
		{row: "write-only `cloud_init_password_wo`", args: plan, says: "1 to add", config: `
resource "proxmox_vm" "web" {
  node                           = "pve1"
  cloud_init                     = { storage = "local-zfs" }
  cloud_init_password_wo         = "x"
  cloud_init_password_wo_version = 1
}
`},
		{row: "`import` block by identity", config: web + importing(`identity = { vmid = 201 }`), args: plan, says: "1 to import"},
		{row: "generated configurations without PVE's defaults", config: toGenerate, args: generate, says: "1 to import",
			lacks: "onboot"},
		{row: "`plan -refresh-only -detailed-exitcode` that exits with 0 without changes", made: true, says: "No changes",
			args: []string{"plan", "-refresh-only", "-detailed-exitcode"}, config: web + importing(`id = "201"`) + `
resource "proxmox_vm" "made" {
  node     = "pve1"
  name     = "made"
  tags     = ["a"]
  disks    = { scsi0 = { storage = "local-zfs", size = "1G" } }
  networks = { net0 = { bridge = "vmbr0" } }
}
output "made" {
  value = proxmox_vm.made.vmid
}
`},
		{row: "`terraform query` with `list \"proxmox_vm\"`", query: "list \"proxmox_vm\" \"all\" {\n  provider = proxmox\n}\n", args: []string{"query"},
			says: "web-1 on pve1"},
		{row: "actions, `terraform apply -invoke`", args: []string{"apply", "-auto-approve", "-invoke=action.proxmox_vm_power.stop"}, says: "1 invoked",
			config: "action \"proxmox_vm_power\" \"stop\" {\n  config {\n    vmid   = 201\n    action = \"stop\"\n  }\n}\n"},
	}
}

// since are the versions from which on a CLI has each row of the documentation's table, "–" where it has not.
func since(t *testing.T, tofu bool) map[string]string {
	t.Helper()
	_, table, _ := strings.Cut(rig.ReadFile(t, "../../../templates/index.md.tmpl"), "## What takes which Terraform")
	all, link := map[string]string{}, regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	for _, row := range regexp.MustCompile(`(?m)^\| (.+) \| ([0-9.]+) \| ([0-9.]+|–) \|$`).FindAllStringSubmatch(table, -1) {
		all[link.ReplaceAllString(row[1], "$1")] = row[2]
		if tofu {
			all[link.ReplaceAllString(row[1], "$1")] = row[3]
		}
	}
	return all
}

// hasIt reports whether a version has what came with another one.
func hasIt(t *testing.T, version, came string) bool {
	t.Helper()
	if came == "–" {
		return false
	}
	var is, need [2]int
	for v, into := range map[string]*[2]int{version: &is, came: &need} {
		if n, err := fmt.Sscanf(v, "%d.%d", &into[0], &into[1]); n != 2 {
			t.Fatalf("%q is no version: %v", v, err)
		}
	}
	return is[0] > need[0] || is[0] == need[0] && is[1] >= need[1]
}

// TestAccFeatures holds the documentation's table of what takes which Terraform against the CLI: it has what the table says, and lacks what
// the table says it lacks. `make test` tries one row in three.
func TestAccFeatures(t *testing.T) {
	atHome(t)
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	program := os.Getenv("TF_ACC_TERRAFORM_PATH")
	var is struct {
		Version string `json:"terraform_version"`
	}
	out, err := exec.CommandContext(t.Context(), program, "version", "-json").Output()
	rig.Must(t, err)
	rig.Must(t, json.Unmarshal(out, &is))
	dir := t.TempDir()
	rig.DevOverride(t, dir)
	settings, came := rig.EveryProvider(t, dir), since(t, strings.Contains(filepath.Base(program), "tofu"))
	for n, f := range features() {
		from, documented := came[f.row]
		delete(came, f.row)
		if !documented {
			t.Errorf("the documentation has no row %s", f.row)
			continue
		}
		if !share.Plays(n, 3, f.row) {
			continue
		}
		t.Run(f.row, func(t *testing.T) {
			works, said := f.try(t, settings)
			if !works {
				t.Logf("lacking: %s", regexp.MustCompile(`Error: .*|it has .*|.*no command.*`).FindString(said))
			}
			if works != hasIt(t, is.Version, from) {
				t.Errorf("%s %s: works %t, and the documentation says since %s\n%s", program, is.Version, works, from, said)
			}
		})
	}
	for row := range came {
		t.Errorf("no test tries %s", row)
	}
}

// try reports whether the CLI has the feature, and the CLI's output.
func (f feature) try(t *testing.T, settings string) (works bool, said string) {
	t.Helper()
	files := map[string]string{"provider.tf": rig.ReadFile(t, filepath.Join(rig.ExamplesDir, "provider", "provider.tf")), "main.tf": f.config}
	w := webWorld
	if f.query != "" {
		files["find.tfquery.hcl"] = f.query
	}
	if f.moves {
		e := rig.ReadOtherProvider(t, "telmate")
		w = func(t *testing.T, options ...pvesim.Options) *rig.World { return e.World(t, options[0]) }
		files["main.tf"], files["moved.tf"] = e.Config, rig.ReadFile(t, filepath.Join(e.Dir, "moved.tf"))
		files["terraform.tfstate"] = rig.ReadFile(t, filepath.Join(e.Dir, "state.json"))
	}
	ws := rig.NewWorkspace(t, w(t, pvesim.Options{RealNetwork: true}), settings, files)
	if f.made { // an agent that answers later would be a change
		if said, err := ws.Try(t, "apply", "-auto-approve"); err != nil {
			return false, said
		}
	}
	said, err := ws.Try(t, f.args...)
	if err == nil && f.lacks != "" && strings.Contains(rig.ReadFile(t, filepath.Join(ws.Dir, generated)), f.lacks) {
		return false, "it has " + f.lacks
	}
	return err == nil && strings.Contains(said, f.says), said
}
