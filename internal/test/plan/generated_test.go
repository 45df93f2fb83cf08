package plan_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// adoption takes over one VM that no state knows.
type adoption struct {
	w    *rig.World
	as   rig.Identity
	vmid int
	// byProvider: as since Terraform 1.14, when the provider generates the configuration.
	byProvider bool
	s          *terraformtest.Session
	generated  string
	// leftAlone are the attributes of which the import said that no configuration can say their values.
	leftAlone []string
}

// take imports the VM, has its configuration generated, and wants the plan of it to be empty. Nothing may be written.
func (a *adoption) take(ctx context.Context) error {
	a.s = a.w.NewSession()
	a.s.TrustPlans = true
	provider := a.w.ProviderBlock(a.as)
	if err := a.s.Configure(provider); err != nil {
		return err
	}
	if err := a.s.SetResource(driftAddress, nil); err != nil {
		return err
	}
	before := a.w.Sim.LastOp()
	if err := a.s.Import(ctx, driftAddress, strconv.Itoa(a.vmid)); err != nil {
		return err
	}
	for _, d := range a.s.Diagnostics() {
		for _, line := range strings.Split(d.Detail, "\n  ")[1:] {
			at, _, _ := strings.Cut(line, ": ")
			a.leftAlone = append(a.leftAlone, at)
		}
	}
	var err error
	if a.generated, err = a.s.Generate(ctx, driftAddress, a.byProvider); err != nil {
		return fmt.Errorf("generate the configuration: %w", err)
	}
	if a.byProvider {
		if err := a.listed(ctx); err != nil {
			return err
		}
	}
	if err := a.s.Configure(provider, a.generated); err != nil {
		return fmt.Errorf("read the generated configuration: %w\n%s", err, a.generated)
	}
	pl, err := a.s.Plan(ctx)
	if err != nil {
		return fmt.Errorf("plan the generated configuration: %w\n%s", err, a.generated)
	}
	if !pl.Empty() {
		return fmt.Errorf("the generated configuration is not planned empty: %s\n%s", pl, a.generated)
	}
	for _, op := range a.w.Sim.OpsAfter(before) {
		if op.Method != http.MethodGet && op.Path != "/access/ticket" {
			return fmt.Errorf("taking the VM over wrote: %s %s %v", op.Method, op.Path, op.Params)
		}
	}
	return nil
}

// listed wants a query to generate the same configuration of the VM as the import.
func (a *adoption) listed(ctx context.Context) error {
	found, err := a.s.Query(ctx, "list \"proxmox_vm\" \"all\" {\n  provider = proxmox\n  limit = 1000\n}", true)
	if err != nil {
		return err
	}
	n := slices.IndexFunc(found, func(f terraformtest.Listed) bool {
		return terraformtest.Text(f.Identity, "vmid") == strconv.Itoa(a.vmid)
	})
	if n < 0 {
		return fmt.Errorf("a query does not find it: %s", a.s.Diagnostics())
	}
	if generated, err := a.s.GenerateListed(ctx, found[n], driftAddress); err != nil || generated != a.generated {
		return fmt.Errorf("a query generates %w\n%s\nand an import\n%s", err, generated, a.generated)
	}
	return nil
}

// newCertificates are those that PVE enrols in a new EFI disk (qemu-server QemuServer.pm, create_efidisk).
var newCertificates = regexp.MustCompile(`(ms_cert\s+= )"2023k"`)

// remake destroys the VM and creates it again from its generated configuration. The new VM must generate the same configuration. If the
// provider leaves out options without effect, the new VM has no option that the old one lacked, and each option it lacks was a default.
func (a *adoption) remake(ctx context.Context) error {
	was := a.described()
	said, err := a.s.Generate(ctx, driftAddress, true)
	if err != nil {
		return err
	}
	a.w.Change(func(world *state.World) { delete(world.Guests[a.vmid].Config, "protection") })
	if err := a.s.Destroy(ctx); err != nil {
		return fmt.Errorf("destroy: %w\n%s", err, a.generated)
	}
	if err := a.s.Run(ctx); err != nil {
		return fmt.Errorf("make it again: %w\n%s", err, a.generated)
	}
	again, err := a.s.Generate(ctx, driftAddress, true)
	if err != nil {
		return err
	}
	if newCertificates.ReplaceAllString(said, "${1}null") == said { // a new disk gets them, an imported one says nothing of its own
		again = newCertificates.ReplaceAllString(again, "${1}null")
	}
	if again != said {
		return fmt.Errorf("made again the VM is\n%s\nand was\n%s", again, said)
	}
	is := a.described()
	maps.DeleteFunc(is, func(option, _ string) bool { _, before := was[option]; return before })
	if a.byProvider && len(is) > 0 {
		return fmt.Errorf("made again the VM also has\n%v\nand was\n%v\n%s", is, was, a.generated)
	}
	if pl, err := a.s.Plan(ctx); err != nil || !pl.Empty() {
		return fmt.Errorf("made again it plans %w: %s\n%s", err, pl, a.generated)
	}
	return nil
}

// described is the configuration of the VM, less values that only the server reports, and values that cannot be read.
func (a *adoption) described() map[string]string {
	described := map[string]string{}
	a.w.Change(func(world *state.World) {
		guest := world.Guests[a.vmid]
		if guest == nil {
			return
		}
		all := maps.Clone(guest.Config)
		maps.Copy(all, guest.Pending)
		for option, v := range all {
			switch {
			case strings.HasPrefix(option, "unused"), slices.Contains([]string{"meta", "vmgenid", "cipassword", "parent", "vmstate"}, option):
				continue
			case strings.Contains(v, ":vm-") || strings.Contains(v, ":base-") || strings.Contains(v, fmt.Sprintf(":%d/", a.vmid)):
				v = "a volume" // another one, or under another name
			}
			described[option] = v
		}
	})
	return described
}

// TestAdoptAndGenerated: 300 VMs over all that can be configured are taken over by an import and a generated configuration, which plans
// nothing and writes nothing; one in three is destroyed and made again of it.
func TestAdoptAndGenerated(t *testing.T) {
	t.Parallel()
	const seed = 20261122
	vms, workers := share.Count(12, 300), max(2, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for worker := range workers {
		w := driftWorld(t, "pve1")
		group.Go(func() {
			for n := worker; n < vms; n += workers {
				config := drawFlat(rand.New(rand.NewPCG(seed, uint64(n))), n)
				config["vmid"] = cty.NumberIntVal(int64(1000 + n))
				a := adoption{w: w, as: rig.RootTicket, vmid: 1000 + n, byProvider: n%2 == 0}
				if err := a.made(t.Context(), config); err != nil {
					t.Errorf("VM %d: %v\n%s", n, err, config)
				}
				w.Change(func(world *state.World) { forget(world, 1000+n) })
				w.ResetCalls()
			}
		})
	}
	group.Wait()
}

// made makes a VM, forgets it and takes it over.
func (a *adoption) made(ctx context.Context, config flat) error {
	s := a.w.NewSession()
	s.TrustPlans = true
	if err := s.Configure(a.w.ProviderBlock(a.as)); err != nil {
		return err
	}
	if err := s.SetResource(driftAddress, config.tree()); err != nil {
		return err
	}
	if err := s.Run(ctx); err != nil {
		return fmt.Errorf("make it: %w", err)
	}
	if err := a.take(ctx); err != nil || a.vmid%3 != 0 {
		return err
	}
	return a.remake(ctx)
}

// recorded are the configurations of VMs that real nodes showed, and VMs with one value that such a node stored for each option.
func recorded(t *testing.T) (all []map[string]string) {
	t.Helper()
	byOption, most := map[string][]string{}, 0
	for _, name := range []string{"configs", "values"} {
		file, err := os.ReadFile("../../vm/testdata/" + name + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); {
			var row []string // option, sent, stored
			config := map[string]string{}
			if json.Unmarshal(lines.Bytes(), &config) == nil {
				all = append(all, config)
			} else if err := json.Unmarshal(lines.Bytes(), &row); err != nil || len(row) != 3 {
				t.Fatalf("%s: %s", name, lines.Text())
			} else if !isNoOption(row[0]) {
				byOption[row[0]] = append(byOption[row[0]], row[2])
				most = max(most, len(byOption[row[0]]))
			}
		}
	}
	for i := range most {
		config := map[string]string{}
		for option, values := range byOption {
			if i < len(values) {
				config[option] = values[i]
			}
		}
		all = append(all, config)
	}
	return all
}

// isNoOption reports whether an entry that a node stored under a name is no option of the VM.
func isNoOption(option string) bool { return slices.Contains([]string{"lock", "digest"}, option) }

// TestAdoptRecorded: what real nodes have stored is taken over as it is, but for what means nothing, or starts no VM, without what it
// belongs to: no configuration can say that, and the import tells that it is left alone. `make test` plays one in four.
func TestAdoptRecorded(t *testing.T) {
	t.Parallel()
	all := recorded(t)
	if len(all) < 40 {
		t.Fatalf("only %d recorded configurations", len(all))
	}
	w := rig.NewWorld(t, pvesim.Options{Profile: "9.2", Nodes: []string{"pve1"}})
	leftAlone, slot := map[string]bool{}, regexp.MustCompile(`\b(ide|sata|scsi|virtio|net)\d+\b`)
	for n, config := range all {
		if n%share.Of(4) != 0 {
			continue
		}
		vmid := 1000 + n
		w.Change(func(world *state.World) {
			guest := &state.Guest{VMID: vmid, Type: "qemu", Node: "pve1", Config: maps.Clone(config)}
			if world.Guests[vmid] = guest; config["lock"] != "" {
				guest.SetLock(config["lock"], "state")
			}
		})
		a := adoption{w: w, as: rig.RootTicket, vmid: vmid, byProvider: n%8 == 0}
		err := a.take(t.Context())
		if half := config["lock"] == "create" || config["lock"] == "clone"; half != (err != nil) || half && !strings.Contains(err.Error(), "half made") {
			t.Errorf("%v: %v", config, err)
		}
		for _, at := range a.leftAlone {
			leftAlone[slot.ReplaceAllString(at, "*")] = true
		}
		w.Change(func(world *state.World) { delete(world.Guests, vmid) })
		w.ResetCalls()
	}
	want := []string{"cloud_init.addresses.*.gateway4", "cloud_init.nameservers", "disks.*.throttle.iops_max", "disks.*.throttle.iops_rd_max",
		"disks.*.throttle.iops_wr_max", "disks.*.throttle.mbps", "disks.*.throttle.mbps_rd", "disks.*.throttle.mbps_wr", "disks.*.vendor",
		"memory.hugepages", "numa_nodes", "vga.type"}
	is := slices.Sorted(maps.Keys(leftAlone))
	if !share.IsWhole() { // of a share, no others
		want = slices.DeleteFunc(want, func(at string) bool { return !leftAlone[at] })
	}
	if !slices.Equal(is, want) || len(is) == 0 {
		t.Errorf("left alone are\n%s\nand not\n%s", strings.Join(is, "\n"), strings.Join(want, "\n"))
	}
}

// TestAdoptKeepsInexpressibleOptions: a burst without its limit stays on the server through the changes of its disk, in no
// state and in no plan; a configuration that says what it belongs to takes it in.
func TestAdoptKeepsInexpressibleOptions(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) { world.Guests[8000].Config["scsi0"] += ",iops_max=500" })
	a := adoption{w: w, as: rig.TokenNoSSH, vmid: 8000}
	if err := a.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.leftAlone, []string{"disks.scsi0.throttle.iops_max"}) {
		t.Errorf("left alone are %v", a.leftAlone)
	}
	change := func(option string, said map[string]string) {
		t.Helper()
		block := a.generated
		for attribute, v := range said {
			was := block
			if block = regexp.MustCompile(`\b`+attribute+` += null`).ReplaceAllString(was, attribute+" = "+v); block == was {
				t.Fatalf("there is no %s in\n%s", attribute, block)
			}
		}
		if err := a.s.Configure(w.ProviderBlock(a.as), block); err != nil {
			t.Fatal(err)
		}
		if err := a.s.Converge(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, d := range a.s.Diagnostics() {
			t.Errorf("with %s: %s", said, d)
		}
		if has := rig.GuestOf(w, 8000).Config["scsi0"]; !strings.Contains(has, ",iops_max=500") || !strings.Contains(has, option) {
			t.Errorf("with %s scsi0 is %s", said, has)
		}
	}
	change(",cache=writeback", map[string]string{"cache": `"writeback"`})
	change(",iops=100", map[string]string{"throttle": "{ iops = 100, iops_max = 500 }"})
}

// TestGeneratedForToken: a token's generated configuration has nothing that only root may set, so the token can make the VM again; a
// passed-through disk is in it, which is root's.
func TestGeneratedForToken(t *testing.T) {
	t.Parallel()
	const device = "/dev/disk/by-id/ata-DISK_1"
	for _, byProvider := range []bool{false, true} {
		w := rig.NewWorld(t)
		a := adoption{w: w, as: rig.TokenNoSSH, vmid: 8000, byProvider: byProvider}
		if err := a.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, never := range []string{"vm-8000-disk-0", `vmgenid = "`} {
			if strings.Contains(strings.Join(strings.Fields(a.generated), " "), never) {
				t.Errorf("the generated configuration has %s:\n%s", never, a.generated)
			}
		}
		if lines := strings.Count(a.generated, "\n"); byProvider && strings.Contains(a.generated, "= false") {
			t.Errorf("the provider writes %d lines with defaults:\n%s", lines, a.generated)
		}
		if err := a.remake(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Change(func(world *state.World) { world.Guests[8000].Config["scsi3"] = device + ",size=100G" })
		a = adoption{w: w, as: rig.TokenNoSSH, vmid: 8000, byProvider: byProvider}
		if err := a.take(t.Context()); err != nil || !strings.Contains(a.generated, device) {
			t.Errorf("with a passed-through disk: %v\n%s", err, a.generated)
		}
	}
}
