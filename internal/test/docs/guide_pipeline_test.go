package docs_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// auditor is the token of the guide's pull requests: its role is PVEAuditor on /, and nothing else.
const auditor = "auditor@pve!ro"

// auditorBlock is a provider block with that token, without SSH.
func auditorBlock(t *testing.T, w *rig.World, more string) string {
	t.Helper()
	block, token := w.ProviderBlock(rig.TokenNoSSH), ""
	w.Change(func(world *state.World) { token = auditor + "=" + world.Tokens[auditor].Secret })
	was := strconv.Quote(w.Sim.Credentials().Token)
	if !strings.Contains(block, was) {
		t.Fatal("no token in the provider block")
	}
	return strings.Replace(block, was, strconv.Quote(token)+"\n  "+more, 1)
}

// unseen are the warnings of the examples whose data PVE shows only to identities that may change them.
var unseen = map[string]string{
	"guides/restore":               "The backup could not be read",
	"data-sources/proxmox_orphans": "Not everything was looked at for orphans",
	"data-sources/proxmox_files":   "Not all of storage local-zfs was seen",
}

// mustOnlyLook wants no request but a GET, and one warning: that privileges are not checked.
func mustOnlyLook(t *testing.T, w *rig.World, s *terraformtest.Session, after int, besides string) {
	t.Helper()
	for _, op := range w.Sim.OpsAfter(after) {
		if op.Method != http.MethodGet {
			t.Errorf("a plan sends %s %s", op.Method, op.Path)
		}
	}
	said := map[string]int{}
	for _, d := range s.Diagnostics() {
		said[d.Summary]++
	}
	if besides != "" && said[besides] == 1 {
		delete(said, besides)
	}
	if len(said) != 1 || said["Privileges are not checked"] != 1 {
		t.Errorf("the plan says %v", s.Diagnostics())
	}
}

// TestPipelineGuidePlansEverything: with the read-only token of the guide every example plans, before its apply and after
// it. The second plan has no change.
func TestPipelineGuidePlansEverything(t *testing.T) {
	t.Parallel()
	for name, config := range rig.Examples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.WorldOf(t, config)
			w.Change(func(world *state.World) {
				if got := world.Roles["PVEAuditor"]; strings.Contains(strings.Join(got, " "), "Allocate") {
					t.Fatalf("the auditor may do %v", got)
				}
			})
			looks := w.Session(t, rig.TokenNoSSH, config)
			rig.Must(t, looks.Configure(auditorBlock(t, w, "plan_only = true"), config))
			before := w.Sim.LastOp()
			if _, err := looks.Plan(t.Context()); err != nil {
				t.Error(err)
			}
			mustOnlyLook(t, w, looks, before, unseen[name])
			s := w.Session(t, rig.TokenSSH, config)
			rig.Must(t, s.Converge(t.Context()))
			rig.Must(t, s.Configure(auditorBlock(t, w, "plan_only = true"), config))
			before = w.Sim.LastOp()
			pl, err := s.Plan(t.Context())
			if err != nil || !pl.Empty() {
				t.Errorf("after the apply: %v\n%s", err, pl)
			}
			mustOnlyLook(t, w, s, before, unseen[name])
		})
	}
}

// TestPipelineGuideRefusesApply: with plan_only even an identity that may do everything changes nothing, and says why.
func TestPipelineGuideRefusesApply(t *testing.T) {
	t.Parallel()
	const config = `resource "proxmox_vm" "a" {
  node   = "pve1"
  memory = { size = 512 }
  disks  = { scsi0 = { storage = "local-zfs", size = "1G" } }
}
`
	w := rig.ExampleWorld(t)
	s := w.Session(t, rig.RootTicket, config)
	block := strings.Replace(w.ProviderBlock(rig.RootTicket), "endpoint", "plan_only = true\n  endpoint", 1)
	rig.Must(t, s.Configure(block, config))
	err := s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "plan_only (PROXMOX_VE_PLAN_ONLY)") {
		t.Errorf("the apply says %v", err)
	}
	rig.Must(t, s.Configure(auditorBlock(t, w, "plan_only = true"), config)) // which sees no volumes without a VM
	if err := s.Run(t.Context()); err == nil || strings.Contains(fmt.Sprint(err, s.Diagnostics()), "Rollback of VM") {
		t.Errorf("nothing was sent, and the apply says %v\n%s", err, s.Diagnostics())
	}
	if addresses := s.Addresses(); len(addresses) > 0 {
		t.Errorf("in state: %v", addresses)
	}
	w.MustBeClean(t)
	rig.Must(t, s.Configure(w.ProviderBlock(rig.RootTicket), config))
	rig.Must(t, s.Converge(t.Context()))
	rig.Must(t, s.Configure(block, config))
	if err := s.Destroy(t.Context()); err == nil || !strings.Contains(err.Error(), "plan_only (PROXMOX_VE_PLAN_ONLY)") {
		t.Errorf("the destroy says %v", err)
	}
}

// TestPipelineGuideWorkflow: the jobs that plan have the token that plans and plan_only, and none of them applies. The job
// that applies has neither. The lint line is that of its guide.
func TestPipelineGuideWorkflow(t *testing.T) {
	t.Parallel()
	var workflow struct {
		Jobs map[string]struct {
			Env   map[string]string
			Steps []struct{ Run string }
		}
	}
	file := rig.ReadFile(t, filepath.Join(rig.ExamplesDir, "pipeline", "github.yml"))
	if err := yaml.Unmarshal([]byte(file), &workflow); err != nil {
		t.Fatal(err)
	}
	lint := regexp.MustCompile("(?m)^\"\\$\\(ls .* lint$").FindString(rig.ReadFile(t, "../../../templates/guides/lint.md.tmpl"))
	if lint == "" || len(workflow.Jobs) != 3 || !strings.Contains(file, lint) {
		t.Fatalf("%d jobs; the lint line is %q", len(workflow.Jobs), lint)
	}
	for name, job := range workflow.Jobs {
		commands := ""
		for _, step := range job.Steps {
			commands += step.Run + "\n"
		}
		plans := name != "apply"
		if strings.Contains(commands, "terraform apply") == plans || !strings.Contains(commands, "terraform plan") {
			t.Errorf("job %s runs %s", name, commands)
		}
		if (job.Env["PROXMOX_VE_PLAN_ONLY"] == "true") != plans ||
			strings.Contains(job.Env["PROXMOX_VE_API_TOKEN"], "PVE_PLAN_TOKEN") != plans {
			t.Errorf("job %s has %v", name, job.Env)
		}
	}
}
