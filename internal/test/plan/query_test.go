package plan_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// queryWorld is a cluster of two nodes with guests of all sorts beside its templates.
func queryWorld(t *testing.T) *rig.World {
	t.Helper()
	w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	w.Change(func(world *state.World) {
		for vmid, config := range map[int]map[string]string{
			100: {"name": "web-1", "tags": "prod;web"}, 101: {"name": "web-2", "tags": "Web"}, 102: {"name": "db-1", "tags": "prod"}, 103: {},
		} {
			config["smbios1"], config["memory"] = fmt.Sprintf("uuid=11111111-2222-3333-4444-%012d", vmid), "512"
			world.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: []string{"pve1", "pve2"}[vmid%2], Config: config}
		}
		world.Guests[104] = &state.Guest{VMID: 104, Type: "lxc", Node: "pve1", Config: map[string]string{"hostname": "web-3", "tags": "web"}}
		world.Pools["web"].Guests = []int{100}
	})
	w.Sim.Advance(time.Minute) // until the listing knows them
	w.Mark()
	return w
}

// query runs one list block and also returns its messages.
func query(t *testing.T, s *terraformtest.Session, meta, config string) ([]terraformtest.Listed, terraformtest.Diagnostics) {
	t.Helper()
	found, err := s.Query(t.Context(), "list \"proxmox_vm\" \"all\" {\n  provider = proxmox\n"+meta+"\n  config {\n"+config+"\n  }\n}\n", false)
	if err != nil {
		t.Fatal(err)
	}
	return found, s.Diagnostics()
}

func vmids(found []terraformtest.Listed) string {
	var all []string
	for _, f := range found {
		all = append(all, terraformtest.Text(f.Identity, "vmid"))
	}
	return strings.Join(all, " ")
}

// TestQueryFilters: a list block finds what its filters say, in the order of the VMIDs, with one request; upper and lower case of tags cost
// another. Without include_resource nothing else is read, and the identity is the one that a state has.
func TestQueryFilters(t *testing.T) {
	t.Parallel()
	w := queryWorld(t)
	for config, want := range map[string]string{
		``:                                   "100 101 102 103 8000 9000",
		`name = "web-*"`:                     "100 101",
		`name = "web-1"`:                     "100",
		`node = "pve2"`:                      "101 103",
		`pool = "web"`:                       "100",
		`tag = "prod"`:                       "100 102",
		`tag = "web"`:                        "100 101",
		"tag = \"prod\"\n name = \"db-?\"":   "102",
		`template = true`:                    "9000",
		"template = false\n node = \"pve2\"": "101 103",
		`status = "stopped"`:                 "100 101 102 103 8000 9000",
		`status = "unknown"`:                 "",
		`name = "web-3"`:                     "", // a container
	} {
		w.ResetCalls()
		s := w.Session(t, rig.TokenNoSSH, "")
		found, said := query(t, s, "", config)
		if got := vmids(found); got != want || len(said) > 0 {
			t.Errorf("%s: found %q, want %q; %s", config, got, want, said)
		}
		asked := []string{"GET /cluster/resources"}
		if config == `tag = "web"` {
			asked = append(asked, "GET /cluster/options")
		}
		if got := rig.RequestsOf(w, "ListResource"); !slices.Equal(got, asked) {
			t.Errorf("%s: asked %v", config, got)
		}
		for _, f := range found {
			if !f.Resource.IsNull() || !f.Identity.GetAttr("node").IsNull() || !f.Identity.GetAttr("uuid").IsNull() {
				t.Errorf("%s: %s is more than was asked for: %s, %s", config, f.DisplayName, terraformtest.ShowValue(f.Identity), terraformtest.ShowValue(f.Resource))
			}
		}
	}
	found, _ := query(t, w.Session(t, rig.TokenNoSSH, ""), "", "")
	if got := []string{found[0].DisplayName, found[3].DisplayName}; !slices.Equal(got, []string{"web-1 on pve1", "VM 103 on pve2"}) {
		t.Errorf("they are called %v", got)
	}
	w.MustBeClean(t)
}

// TestQueryRefusesFilters: an invalid filter is refused before any request is sent.
func TestQueryRefusesFilters(t *testing.T) {
	t.Parallel()
	w := queryWorld(t)
	for _, config := range []string{`name = ""`, `node = "no node"`, `pool = "a/b/c/d"`, `tag = "-"`, `status = "paused"`, `vmid = 100`} {
		s := w.Session(t, rig.TokenNoSSH, "")
		if found, err := s.Query(t.Context(), "list \"proxmox_vm\" \"a\" {\n  provider = proxmox\n  config {\n"+config+"\n}\n}\n", false); err == nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", config, vmids(found), err)
		}
	}
	if all := w.Sim.Ops(); len(all) > 0 {
		t.Errorf("asked %v", all)
	}
}

// reads are the requests for a VM itself.
func reads(w *rig.World) (all []string) {
	for _, r := range rig.RequestsOf(w, "ListResource") {
		if strings.Contains(r, "/nodes/") {
			all = append(all, r)
		}
	}
	return all
}

// TestQueryReadsListedVMsOnly: with include_resource each VM that is listed is read, its configuration and its firewall, and no other; the
// cluster is listed once.
func TestQueryReadsListedVMsOnly(t *testing.T) {
	t.Parallel()
	w := queryWorld(t)
	for limit, want := range map[int]string{1: "100", 3: "100 101 102", 50: "100 101 102 103 8000 9000"} {
		w.ResetCalls()
		found, said := query(t, w.Session(t, rig.TokenNoSSH, ""), fmt.Sprintf("include_resource = true\nlimit = %d", limit), "")
		if got := vmids(found); got != want || limit == 50 && len(said) > 0 || limit < 50 && (len(said) != 1 || said[0].Error ||
			!strings.Contains(said[0].Detail, fmt.Sprintf("6 VMs are meant, and the limit of the list block is %d.", limit))) {
			t.Errorf("limit %d: found %s; %s", limit, got, said)
		}
		all, of := rig.RequestsOf(w, "ListResource"), reads(w)
		if len(all) != 1+len(of) || len(of) != 3*len(found) {
			t.Errorf("limit %d: %d requests, %d of them for %d VMs: %s", limit, len(all), len(of), len(found), strings.Join(all, "\n"))
		}
		for _, f := range found {
			if terraformtest.Text(f.Resource, "vmid") != terraformtest.Text(f.Identity, "vmid") || f.Resource.GetAttr("uuid").IsNull() {
				t.Errorf("limit %d: %s is %s", limit, f.DisplayName, terraformtest.ShowValue(f.Resource))
			}
		}
	}
	w.MustBeClean(t)
}

// TestQueryGenerates: what a query generates of the recorded configurations is what an import does, with firewall, HA and pool, and it says the
// same: the plan of it is empty, and nothing is written. Half-made ones are left out, with a warning. `make test` imports one in four.
func TestQueryGenerates(t *testing.T) {
	t.Parallel()
	all := recorded(t)
	w := rig.NewWorld(t, pvesim.Options{Profile: "9.2", Nodes: []string{"pve1"}})
	w.Change(func(world *state.World) {
		for n, config := range all {
			guest := &state.Guest{VMID: 1000 + n, Type: "qemu", Node: "pve1", Config: maps.Clone(config)}
			if world.Guests[guest.VMID] = guest; config["lock"] != "" {
				guest.SetLock(config["lock"], "state")
			}
		}
		world.Guests[8000].Config["cipassword"] = "$5$hush"
		world.Pools["web"].Guests = []int{8000}
		world.Firewall[8000] = &state.FirewallFile{Options: map[string]string{"enable": "1"},
			Rules: []map[string]string{{"type": "in", "action": "DROP", "enable": "1"}}}
		world.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "stopped"}
	})
	w.Sim.Advance(time.Minute)
	w.Mark()
	s := w.Session(t, rig.RootTicket, "")
	s.TrustPlans = true
	found, err := s.Query(t.Context(), "list \"proxmox_vm\" \"all\" {\n  provider = proxmox\n  limit = 1000\n}", true)
	if err != nil {
		t.Fatal(err)
	}
	half, alone := 0, map[string]string{}
	for _, d := range s.Diagnostics() {
		switch {
		case strings.HasSuffix(d.Summary, "was left out") && strings.Contains(d.Detail, "half made, or half destroyed"):
			half++
		case strings.HasSuffix(d.Summary, "is left alone"):
			alone[d.Summary] = d.Detail
		default:
			t.Error(d)
		}
	}
	if half == 0 || len(alone) == 0 || len(found) < 40 {
		t.Errorf("%d found, %d left out, %v", len(found), half, alone)
	}
	provider := w.ProviderBlock(rig.RootTicket)
	for n, f := range found {
		if n%share.Of(4) != 0 {
			continue
		}
		address := fmt.Sprintf("proxmox_vm.all_%d", n)
		generated, err := s.GenerateListed(t.Context(), f, address)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(generated, "hush") || strings.Contains(terraformtest.ShowValue(f.Resource), "hush") {
			t.Error("the password is in it")
		}
		if err := s.Configure(provider, generated); err != nil {
			t.Fatal(err)
		}
		if err := s.ImportIdentity(t.Context(), address, f.Identity.AsValueMap()); err != nil {
			t.Fatal(err)
		}
		if is := s.Attr(address, "id"); terraformtest.ShowValue(is) != terraformtest.ShowValue(f.Resource.GetAttr("id")) {
			t.Errorf("imported %s", terraformtest.ShowValue(is))
		}
		for _, d := range s.Diagnostics() {
			if alone[d.Summary] != d.Detail {
				t.Errorf("the import says %s, the query %s", d, alone[d.Summary])
			}
			delete(alone, d.Summary)
		}
		by, err := s.Generate(t.Context(), address, true)
		if err != nil || by != generated {
			t.Errorf("%s: the query generates\n%s\nand an import\n%s\n%v", f.DisplayName, generated, by, err)
		}
		if n%8 == 0 { // TestAdoptRecorded plans what an import generates of each
			if pl, err := s.Plan(t.Context()); err != nil || !pl.Empty() {
				t.Errorf("%s: %v\n%s\n%s", f.DisplayName, err, pl, generated)
			}
		}
		s.Forget(address)
	}
	if len(alone) > 0 && share.IsWhole() {
		t.Errorf("only the query says %v", alone)
	}
	w.MustBeClean(t)
	for _, op := range w.Sim.Ops() {
		if op.Method != http.MethodGet && op.Path != "/access/ticket" {
			t.Errorf("wrote: %s %s", op.Method, op.Path)
		}
	}
}

// TestQueryLeavesOut: a VM that cannot be told, or that an import would refuse, costs a warning that names it, and no other VM anything; it
// does not count against the limit.
func TestQueryLeavesOut(t *testing.T) {
	t.Parallel()
	const config = "/nodes/{node}/qemu/{vmid}/pending"
	for name, c := range map[string]struct {
		make   func(world *state.World)
		fault  fault.Rule
		says   string
		listed bool // without include_resource it is found
	}{
		"half made":      {make: func(world *state.World) { world.Guests[101].SetLock("create", "state") }, says: "half made"},
		"half destroyed": {make: func(world *state.World) { world.Guests[101].SetLock("destroyed", "state") }, says: "half destroyed"},
		"unfinished": {make: func(world *state.World) {
			world.Guests[101].Config["description"] = rig.MarkOf(101)
		}, says: "may not be complete", listed: true},
		"gone since": {fault: fault.Rule{Match: fault.Match{Path: config, VMID: 101}, Phase: fault.Before, Times: -1,
			Reason: "Configuration file 'nodes/pve2/qemu-server/101.conf' does not exist"}, says: "moved or was destroyed since", listed: true},
		"an answer that is none": {fault: fault.Rule{Match: fault.Match{Path: config, VMID: 101}, Phase: fault.Before, Times: -1, Status: 500,
			Reason: "got no such luck"}, says: "got no such luck", listed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := queryWorld(t)
			if c.make != nil {
				w.Change(c.make)
				w.Sim.Advance(time.Minute)
			}
			want := "100 101 102"
			if !c.listed {
				want = "100 102"
			}
			found, said := query(t, w.Session(t, rig.TokenNoSSH, ""), "", `name = "*-?"`)
			if got := vmids(found); got != want || (len(said) == 0) != c.listed || !c.listed && !strings.Contains(said.String(), "VM 101 on pve2") {
				t.Errorf("found %q, %s", got, said)
			}
			if c.fault.Phase != "" {
				w.Sim.SetFaults([]fault.Rule{c.fault})
			}
			found, said = query(t, w.Session(t, rig.TokenNoSSH, ""), "include_resource = true\nlimit = 2", "node = \"pve1\"\nname = \"*-?\"")
			if got := vmids(found); got != "100 102" || len(said) > 0 {
				t.Errorf("of the other node: found %q, %s", got, said)
			}
			found, said = query(t, w.Session(t, rig.TokenNoSSH, ""), "include_resource = true\nlimit = 2", `name = "*-?"`)
			if got := vmids(found); got != "100 102" || len(said) != 2 || said[1].Error || said[1].Summary != "VM 101 on pve2 was left out" ||
				!strings.Contains(said[1].Detail, c.says) || !strings.HasPrefix(said[0].Detail, "3 VMs are meant") {
				t.Errorf("found %q, %s", got, said)
			}
		})
	}
}

// TestQueryOfANodeThatIsAway: a VM whose node is away is listed, but cannot be read; PVE does not know what it is called, so a list by name may
// lack it, and says so. The data source says so, too.
func TestQueryOfANodeThatIsAway(t *testing.T) {
	t.Parallel()
	w := queryWorld(t)
	w.Sim.SetNode("pve2", false)
	w.Sim.Advance(time.Minute)
	const missing = "Some VMs may be missing from the list"
	for _, c := range []struct{ meta, config, found, says, of string }{
		{"", "", "100 101 102 103 8000 9000", "", ""},
		{"", `status = "unknown"`, "101 103", "", ""},
		{"", `name = "web-*"`, "100", missing, "101 (node pve2), 103 (node pve2)"},
		{"", "name = \"web-*\"\n tag = \"web\"", "100", missing, "101 (node pve2)"},
		{"", `template = true`, "9000", missing, "101 (node pve2), 103 (node pve2)"},
		{"include_resource = true", `tag = "web"`, "100", "VM 101 on pve2 was left out", "pve2"},
	} {
		found, said := query(t, w.Session(t, rig.TokenNoSSH, ""), c.meta, c.config)
		if got := vmids(found); got != c.found || len(said) > 1 || (len(said) == 0) != (c.says == "") {
			t.Errorf("%s: found %q, %s", c.config, got, said)
		} else if len(said) == 1 && (said[0].Summary != c.says || said[0].Error || !strings.Contains(said[0].Detail, c.of)) {
			t.Errorf("%s: %s", c.config, said)
		}
	}
	s := w.Session(t, rig.TokenNoSSH, "")
	v, err := s.ReadDataSource(t.Context(), "proxmox_vms", `name = "web-*"`)
	if err != nil || terraformtest.ShowValue(v.GetAttr("vmids")) != "[100]" || !strings.Contains(s.Diagnostics().String(), missing) {
		t.Errorf("data source: %v, %s", err, s.Diagnostics())
	}
}

// TestQueryCannotList: a cluster that cannot be listed is an error, never an empty list.
func TestQueryCannotList(t *testing.T) {
	t.Parallel()
	w := queryWorld(t)
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/cluster/resources"}, Phase: fault.Before, Times: -1, Status: 500, Reason: "no quorum"}})
	s := w.Session(t, rig.TokenNoSSH, "")
	if found, err := s.Query(t.Context(), `list "proxmox_vm" "all" { provider = proxmox }`, false); err == nil || !strings.Contains(err.Error(), "no quorum") || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	if err := s.Configure("variable \"endpoint\" {}\nprovider \"proxmox\" { endpoint = var.endpoint }"); err != nil {
		t.Fatal(err)
	}
	s.SetVariable("endpoint", cty.UnknownVal(cty.String))
	if found, err := s.Query(t.Context(), `list "proxmox_vm" "all" { provider = proxmox }`, false); err == nil || !strings.Contains(err.Error(), "not known yet") || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestQueryEndsWhenInterrupted: Ctrl-C ends a list with an error, not as if it were at its end, and with no word of the VMs that were not read.
func TestQueryEndsWhenInterrupted(t *testing.T) {
	t.Parallel()
	w := queryWorld(t)
	w.Change(func(world *state.World) {
		for vmid := 200; vmid < 260; vmid++ {
			world.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: "pve1", Config: map[string]string{"memory": "512"}}
		}
	})
	ctx, press := context.WithCancel(t.Context())
	defer press()
	const config = "/nodes/{node}/qemu/{vmid}/pending"
	w.LogTo(&engine.Interrupter{World: w, At: fault.Match{Method: http.MethodGet, Path: config, Nth: 3}, Press: press})
	s := w.Session(t, rig.TokenNoSSH, "")
	found, err := s.Query(ctx, "list \"proxmox_vm\" \"all\" {\n  provider = proxmox\n  include_resource = true\n}", false)
	if err == nil || len(found) == 66 || len(s.Diagnostics()) != 1 {
		t.Errorf("found %s, %v", vmids(found), s.Diagnostics())
	}
}

// TestQueryTellsAMisspeltName: a list that is empty since there is no such node or pool says so.
func TestQueryTellsAMisspeltName(t *testing.T) {
	t.Parallel()
	w := queryWorld(t)
	s := w.Session(t, rig.TokenNoSSH, "")
	for config, says := range map[string]string{
		"node = \"pev1\"": "There is no node pev1, as far as this identity may see. Did you mean \"pve1\"? There are: pve1, pve2.",
		"pool = \"wbe\"":  "There is no pool wbe, as far as this identity may see. Did you mean \"web\"?",
		"name = \"nope\"": "",
		"pool = \"web\"":  "",
	} {
		_, told := query(t, s, "", config)
		if got := strings.Join(strings.Fields(told.String()), " "); !strings.Contains(got, says) || (says == "") != (got == "") {
			t.Errorf("%s: %s", config, got)
		}
	}
}
