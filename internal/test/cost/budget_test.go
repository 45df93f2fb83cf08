package cost_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const clonedVM = `
resource "proxmox_vm" "web" {
  name  = "web-1"
  node  = "pve1"
  clone = { vmid = 9000 }
  cpu   = { cores = 4 }
  disks = { scsi0 = { size = "8G" } }
  cloud_init = {
    user      = "ops"
    addresses = { net0 = { ipv4 = "10.0.0.5/24", gateway4 = "10.0.0.1" } }
  }
  networks = { net0 = { bridge = "vmbr0" } }
  agent    = { enabled = %t }
}
`

// TestRequestBudgetOfACreate: a cloned VM with cloud-init, one resize and a start takes at most 10 requests, and one more to the agent that it waits for.
// One of them is the check of the bridge, which the plan within the apply leaves to the create.
// Whose VM it is that is started the change of its options has shown, which bears a digest; the start changes the configuration of one with
// cloud-init, so that the commit needs a look. One asks, beside others and once for all creates of a process, which ids permissions and
// pools hand to whom.
func TestRequestBudgetOfACreate(t *testing.T) {
	t.Parallel()
	for _, id := range rig.Identities() {
		for agent, budget := range map[bool]int{false: 10, true: 11} {
			w := rig.NewWorld(t)
			s := w.Session(t, id, fmt.Sprintf(clonedVM, agent))
			pl, err := s.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			planned := rig.RequestsOf(w, "PlanResourceChange")
			if len(planned) > 4 {
				t.Errorf("%s: the plan of a clone takes %d requests, want at most 4 (listing, node, permissions, template): %s", id, len(planned),
					planned)
			}
			if n := len(rig.RequestsOf(w, "ConfigureProvider")); n != 0 {
				t.Errorf("%s: Configure makes %d requests", id, n)
			}
			w.ResetCalls()
			if err := s.Apply(t.Context(), pl); err != nil {
				t.Fatal(err)
			}
			if again := rig.RequestsOf(w, "PlanResourceChange"); len(again) > 2 {
				t.Errorf("%s: the plan within the apply takes %d requests, want at most 2 (listing, template): %s", id, len(again), again)
			}
			used := rig.RequestsOf(w, "ApplyResourceChange")
			t.Logf("%s, agent %t: %d requests to create, %d to plan", id, agent, len(used), len(planned))
			if len(used) > budget {
				t.Errorf("%s, agent %t: %d requests, want at most %d:\n%s", id, agent, len(used), budget, strings.Join(used, "\n"))
			}
			listings := map[string]int{}
			for _, op := range w.Sim.Ops() {
				if op.Path == "/nodes/{node}/storage/{storage}/content" {
					listings[op.Node+"/"+op.Params["storage"]]++
				}
			}
			for storage, n := range listings {
				if n > 1 {
					t.Errorf("%s: storage %s is listed %d times", id, storage, n)
				}
			}
		}
	}
}

// TestRequestBudgetOfManyCreates: after what ten creates at once share, each makes four requests: create, start, read, commit.
func TestRequestBudgetOfManyCreates(t *testing.T) {
	t.Parallel()
	const n = 10
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(`
resource "proxmox_vm" "many" {
  count    = %d
  name     = "vm-${count.index}"
  node     = "pve1"
  disks    = { scsi0 = { storage = "local-zfs", size = "1G" } }
  networks = { net0 = { bridge = "vmbr0" } }
}
`, n))
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	used := rig.BudgetedRequests(slices.DeleteFunc(w.Sim.Ops(), func(op pvesim.Op) bool { return op.Path == "/nodes/{node}/tasks" })) // a poll
	own := slices.DeleteFunc(slices.Clone(used), func(op string) bool { return !strings.Contains(op, "/qemu") })
	shared := len(used) - len(own)
	t.Logf("%d creates: %d requests of their own, %d that they share", n, len(own), shared)
	if len(own) != 4*n || shared > n+2 { // the permissions once in the plan, once in the apply
		t.Errorf("want %d of their own and at most %d shared:\n%s", 4*n, n+2, strings.Join(used, "\n"))
	}
}

// TestRequestBudgetOfARefreshWithoutANode: the VMs on a node that is away cost no request each, stay in state as they are, and a warning names each.
func TestRequestBudgetOfARefreshWithoutANode(t *testing.T) {
	t.Parallel()
	const n = 12
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(`
resource "proxmox_vm" "many" {
  count = %d
  name  = "vm-${count.index}"
  node  = count.index %% 2 == 0 ? "pve1" : "pve2"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
}
`, n))
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Sim.Advance(20e9) // pvestatd has seen them all
	states := func() (text string) {
		for _, address := range s.Addresses() {
			i, err := s.Instance(address)
			if err != nil {
				t.Fatal(err)
			}
			text += address + i.Value.GoString() + string(i.Private)
		}
		return text
	}
	before := states()
	w.Sim.SetNode("pve2", false)
	w.ResetCalls()
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	used := rig.BudgetedRequests(w.Sim.Ops())
	if len(used) > n/2+3 {
		t.Errorf("%d requests:\n%s", len(used), strings.Join(used, "\n"))
	}
	if after := states(); after != before || len(s.Addresses()) != n {
		t.Errorf("the state has changed; it has %d VMs", len(s.Addresses()))
	}
	warned := 0
	for _, d := range s.Diagnostics() {
		if strings.Contains(d.Summary+d.Detail, "node pve2: the node is offline") || strings.Contains(d.Summary, "node pve2 is offline, as for VM ") {
			warned++
		}
	}
	if warned != n/2 {
		t.Errorf("%d warnings, want one for each VM that could not be looked at: %v", warned, s.Diagnostics())
	}
}

// TestRequestBudgetOfARefresh: N VMs take N + 1 requests.
func TestRequestBudgetOfARefresh(t *testing.T) {
	t.Parallel()
	const n = 20
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(`
resource "proxmox_vm" "many" {
  count = %d
  name  = "vm-${count.index}"
  node  = "pve1"
  vmid  = 300 + count.index
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
}
`, n))
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Sim.Advance(20e9) // pvestatd has seen them all
	w.ResetCalls()
	pl, err := s.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !pl.Empty() {
		t.Errorf("the plan after the apply is not empty:\n%s", pl)
	}
	used := rig.BudgetedRequests(w.Sim.Ops())
	t.Logf("refresh and plan of %d VMs: %d requests", n, len(used))
	if len(used) != n+1 {
		t.Errorf("%d requests, want %d:\n%s", len(used), n+1, strings.Join(used, "\n"))
	}
}

// TestRequestBudgetOfDisks: a refresh of N disks takes N + 2 requests, and fewer listings of their storage than there are disks.
func TestRequestBudgetOfDisks(t *testing.T) {
	t.Parallel()
	const n = 40
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(`
resource "proxmox_disk" "many" {
  count   = %d
  node    = "pve1"
  vmid    = 300 + count.index
  storage = "local-zfs"
  size    = "1G"
}
`, n))
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Sim.Advance(20e9)
	w.Sim.ResetOps()
	s.Parallelism = 10
	if pl, err := s.Plan(t.Context()); err != nil || !pl.Empty() {
		t.Errorf("the plan after the apply: %v\n%s", err, pl)
	}
	listings := 0
	for _, op := range w.Sim.Ops() {
		if op.Path == "/nodes/{node}/storage/{storage}/content" {
			listings++
		}
	}
	used := rig.BudgetedRequests(w.Sim.Ops())
	t.Logf("refresh and plan of %d disks: %d requests, %d listings", n, len(used), listings)
	if len(used) > n+2 || listings >= n {
		t.Errorf("%d requests, want at most %d, and %d listings:\n%s", len(used), n+2, listings, strings.Join(used, "\n"))
	}
}

// TestRequestBudgetOfASmallUpdate: the description of one of ten VMs takes what a refresh of all takes, the look at whose VM it is,
// what the identity may do, once in the plan and once in the apply, and the request.
func TestRequestBudgetOfASmallUpdate(t *testing.T) {
	t.Parallel()
	const config = `
resource "proxmox_vm" "many" {
  count       = 10
  name        = "vm-${count.index}"
  node        = "pve1"
  vmid        = 300 + count.index
  description = count.index == 3 ? %q : "one of ten"
  disks       = { scsi0 = { storage = "local-zfs", size = "1G" } }
}
`
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(config, "one of ten"))
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Sim.Advance(20e9) // pvestatd has seen them all
	if err := s.Configure(w.ProviderBlock(rig.TokenNoSSH), fmt.Sprintf(config, "another")); err != nil {
		t.Fatal(err)
	}
	w.ResetCalls()
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if used := rig.BudgetedRequests(w.Sim.Ops()); len(used) != 15 {
		t.Errorf("%d requests, want 15:\n%s", len(used), strings.Join(used, "\n"))
	}
}
