package plan_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

const driftAddress = "proxmox_vm.it"

// drifter applies configurations on one cluster and counts.
type drifter struct {
	w       *rig.World
	applies *atomic.Int64
	mu      *sync.Mutex
	used    map[string]int // attribute, with "*" for slots: in how many configurations
	twins   *comparison
	compare bool // each configuration; else one in four, since the framework takes its time
}

// TestNoDrift: whatever the schema accepts, the plan after its apply is empty; so it is after attributes are taken out and
// put back, and after the VM is imported. NODRIFT_SEED draws other ones, and with NODRIFT_ONLY repeats one that failed.
func TestNoDrift(t *testing.T) {
	t.Parallel()
	configurations, workers, started := share.Count(16, 500), max(2, runtime.GOMAXPROCS(0)), time.Now()
	seed := uint64(20261121) // the same draws in every run; NODRIFT_SEED draws others
	if text := os.Getenv("NODRIFT_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	only := -1
	if text := os.Getenv("NODRIFT_ONLY"); text != "" {
		only, _ = strconv.Atoi(text)
	}
	t.Logf("NODRIFT_SEED=%d", seed)
	var applies atomic.Int64
	var mu sync.Mutex
	var group sync.WaitGroup
	used, twins := map[string]int{}, newComparison(t)
	for worker := range workers {
		d := &drifter{w: driftWorld(t, "pve1"), applies: &applies, mu: &mu, used: used, twins: twins, compare: configurations >= 500 || only >= 0}
		group.Go(func() {
			for n := worker; n < configurations; n += workers {
				if only < 0 || n == only {
					if err := d.drive(t.Context(), t, rand.New(rand.NewPCG(seed, uint64(n))), n); err != nil {
						t.Errorf("NODRIFT_SEED=%d NODRIFT_ONLY=%d: %v", seed, n, err)
						d.w.Change(func(world *state.World) { forget(world, 1000+n) })
					}
				}
			}
		})
	}
	group.Wait()
	if only < 0 {
		twins.report(t, configurations/4)
	}
	t.Logf("%d configurations, %d applies, %d attributes, %s", configurations, applies.Load(), len(used), time.Since(started).Round(time.Second))
	if took := time.Since(started); configurations == 500 && took > 2*time.Minute {
		t.Logf("that is longer than two minutes, which it takes on two idle processors")
	}
	if applies.Load() > 6000 {
		t.Errorf("%d applies, want at most 6000", applies.Load())
	}
	if configurations < 500 || only >= 0 || t.Failed() {
		return
	}
	for _, path := range attributes(t) {
		if used[path] < 3 && !slices.Contains(unreachable(), path) {
			t.Errorf("%s was configured %d times, want at least 3", path, used[path])
		}
	}
}

// uuidOf8000 is that of a VM of driftWorld.
const uuidOf8000 = "6f3b1c9e-0a55-4d0c-9d7e-5f2a8b1c4d21"

// driftWorld is a cluster of the newest version with a VM that has every device that can be copied.
func driftWorld(t *testing.T, nodes ...string) *rig.World {
	t.Helper()
	w := rig.NewWorld(t, pvesim.Options{Profile: "9.2", Nodes: nodes})
	w.Change(func(world *state.World) {
		guest := world.Guests[8000]
		guest.Config["smbios1"] = "uuid=" + uuidOf8000
		guest.Snaps = map[string]map[string]string{"before": maps.Clone(guest.Config)}
		guest.Config["parent"], world.Guests[9000].Config["tags"] = "before", "golden;silver"
		for _, name := range []string{"vm-8000-efi", "vm-8000-tpm"} {
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: name, Content: "images", VMID: 8000, Format: "raw", Size: 4 << 20, Data: name})
		}
	})
	w.Mark()
	return w
}

// drive is the life of one VM.
func (d *drifter) drive(ctx context.Context, t *testing.T, r *rand.Rand, number int) error {
	d.w.Serve = nil
	if d.compare || number%4 == 0 {
		d.w.Serve = d.twins.serve
	}
	config := drawFlat(r, number)
	config["vmid"] = cty.NumberIntVal(int64(1000 + number))
	d.note(config)
	s := d.w.NewSession()
	if err := s.Configure(d.w.ProviderBlock(rig.RootTicket)); err != nil {
		return err
	}
	s.TrustPlans = number%5 != 0 // one in five goes the whole way of Terraform's commands
	if err := d.converge(ctx, s, config); err != nil {
		return fmt.Errorf("create: %w\n%s", err, config)
	}
	if reattaches(number) {
		if err := d.reattach(ctx, s, config); err != nil {
			return fmt.Errorf("take scsi1 out and put it back by its volume: %w\n%s", err, config)
		}
	}
	gone, reduced := config.without(r, 3)
	if len(gone) > 0 {
		if err := d.converge(ctx, s, reduced); err != nil {
			return fmt.Errorf("without %s: %w\n%s", gone, err, config)
		}
		if err := d.converge(ctx, s, config); err != nil {
			return fmt.Errorf("with %s again: %w\n%s", gone, err, config)
		}
	}
	if err := d.adopt(ctx, config); err != nil {
		return fmt.Errorf("import: %w\n%s", err, config)
	}
	if number%10 != 0 { // removing what only tests made is no provider's business
		d.w.Change(func(world *state.World) { forget(world, 1000+number) })
	} else if err := d.end(ctx, s, config); err != nil {
		return fmt.Errorf("destroy: %w\n%s", err, config)
	}
	d.w.ResetCalls()
	if leaks := d.w.Leaks(); len(leaks) > 0 {
		return fmt.Errorf("left on the server: %s\n%s", leaks, config)
	}
	return nil
}

// reattach takes a disk out of its slot, and puts it back there by the id of its volume.
func (d *drifter) reattach(ctx context.Context, s *terraformtest.Session, config flat) error {
	without := maps.Clone(config)
	without.drop("disks.scsi1", "removed_disks")
	without.repair()
	if err := d.converge(ctx, s, without); err != nil {
		return err
	}
	volumes := s.Attr(driftAddress, "unused_volumes")
	if volumes.IsNull() || volumes.LengthInt() == 0 {
		return errors.New("no volume is unused")
	}
	with := maps.Clone(without)
	for _, volume := range volumes.AsValueMap() {
		with["disks.scsi1.imported_disk.volume"] = volume
	}
	d.note(with)
	return d.converge(ctx, s, with)
}

// end destroys the VM.
func (d *drifter) end(ctx context.Context, s *terraformtest.Session, config flat) error {
	if config.isTrue("protection") {
		config["protection"] = cty.False
		if err := d.converge(ctx, s, config); err != nil {
			return err
		}
	}
	d.applies.Add(1)
	return s.Destroy(ctx)
}

// forget takes a VM out of the world.
func forget(world *state.World, vmid int) {
	delete(world.Guests, vmid)
	delete(world.Firewall, vmid)
	delete(world.HA, fmt.Sprintf("vm:%d", vmid))
	delete(world.HA, "vm:"+strconv.Itoa(vmid))
	maps.DeleteFunc(world.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.VMID == vmid })
	for _, pool := range world.Pools {
		pool.Guests = slices.DeleteFunc(pool.Guests, func(guest int) bool { return guest == vmid })
	}
}

// converge applies a configuration and wants the plan after it to be empty. It does not repeat the refresh of the previous plan.
func (d *drifter) converge(ctx context.Context, s *terraformtest.Session, config flat) error {
	d.applies.Add(1)
	if err := s.SetResource(driftAddress, config.tree()); err != nil {
		return err
	}
	pl, err := s.Plan(ctx, terraformtest.WithoutRefresh())
	if err != nil {
		return err
	}
	if err := s.Apply(ctx, pl); err != nil {
		return err
	}
	if pl, err = s.Plan(ctx); err != nil {
		return fmt.Errorf("plan after the apply: %w", err)
	}
	if !pl.Empty() {
		return fmt.Errorf("the plan after the apply is not empty:\n%s", pl)
	}
	return nil
}

// adopt imports the VM in a session of its own. Attributes that only the provider records, such as sources, may take one update,
// which makes no change on the server.
func (d *drifter) adopt(ctx context.Context, config flat) error {
	config = maps.Clone(config)
	config.drop("cloud_init_password_wo", "cloud_init_password_wo_version") // cannot be read, so it would be sent
	s := d.w.NewSession()
	s.TrustPlans = true
	if err := s.Configure(d.w.ProviderBlock(rig.RootTicket)); err != nil {
		return err
	}
	if err := s.SetResource(driftAddress, config.tree()); err != nil {
		return err
	}
	if err := s.Import(ctx, driftAddress, config["vmid"].AsBigFloat().String()); err != nil {
		return err
	}
	pl, err := s.Plan(ctx)
	if err != nil || pl.Empty() {
		return err
	}
	before := d.w.Sim.LastOp()
	d.applies.Add(1)
	if err := s.Apply(ctx, pl); err != nil {
		return err
	}
	noted := pl.String()
	if pl, err = s.Plan(ctx); err != nil {
		return err
	}
	if !pl.Empty() {
		return fmt.Errorf("the plan after one that only notes is not empty:\n%s", pl)
	}
	for _, op := range d.w.Sim.OpsAfter(before) {
		if op.Method != http.MethodGet && op.Path != "/access/ticket" {
			return fmt.Errorf("the plan %s was not only noted: %s %s %v", noted, op.Method, op.Path, op.Params)
		}
	}
	return nil
}

// without takes some attributes, groups or devices out that can go alone.
func (f flat) without(r *rand.Rand, count int) (gone []string, reduced flat) {
	if f.isTrue("template") {
		return nil, f
	}
	var candidates []string
	for path := range f {
		family, _, starred := strings.Cut(pattern(path), ".*.")
		if !fixed(pattern(path)) {
			candidates = append(candidates, path)
		}
		if group, _, nested := strings.Cut(path, "."); nested && !starred && group != "clone" && (group != "cloud_init" || f.text("power_state") == "stopped") && !(f.isTrue("protection") && slices.Contains([]string{"efi_disk", "tpm_state", "cloud_init"}, group)) {
			candidates = append(candidates, group)
		}
		if family == "cdroms" && f.isTrue("protection") {
			continue
		}
		stays := family == "disks" && (f.isTrue("protection") || f.text("power_state") != "stopped") // a running guest holds its boot disk
		if starred && !stays && family != "cloud_init.addresses" {
			slot, _, _ := strings.Cut(strings.TrimPrefix(path, family+"."), ".")
			candidates = append(candidates, family+"."+slot)
		}
	}
	slices.Sort(candidates)
	candidates = slices.Compact(candidates)
	reduced = maps.Clone(f)
	for range min(count, len(candidates)) {
		if f.text("power_state") == "stopped" && f.has("disks") { // the guest is not to be started beside
			candidates = slices.DeleteFunc(candidates, func(path string) bool { return path == "power_state" })
		}
		gone = append(gone, pick(r, candidates))
		reduced.drop(gone[len(gone)-1])
	}
	reduced.repair()
	return gone, reduced
}

// fixed are the attributes that cannot be taken out alone: what they belong to needs them, or they never change.
func fixed(pattern string) bool {
	return strings.HasPrefix(pattern, "clone.") || slices.Contains([]string{
		"vmid", "disks.*.storage", "disks.*.size", "cdroms.*.file", "pci.*.host", "pci.*.mapping", "usb.*.host", "usb.*.mapping",
		"numa_nodes.*.cpus", "virtiofs.*.dirid", "serial.*.device", "parallel.*.device", "audio.device", "rng.source", "ivshmem.size",
		"amd_sev.type", "intel_tdx.type", "efi_disk.storage", "efi_disk.type", "efi_disk.pre_enrolled_keys", "tpm_state.storage",
		"tpm_state.version", "cloud_init.storage", "template", "protection",
	}, pattern)
}

// unreachable are the attributes that the newest version does not have for a VM: CPU models are reported by custom types
// only, and PVE 9 has rules in the place of HA groups. And disks.*.imported_disk is no wish of its own: it names what the VM has,
// its checksum and source.
func unreachable() []string {
	return []string{"cpu.reported_model", "ha.group", "disks.*.imported_disk.volume", "disks.*.imported_disk.sha256",
		"disks.*.imported_disk.source", "restore.archive", "restore.storage", "restore.bwlimit"} // TestRestoreOptions, TestRestoreReplaces
}

// String is the configuration for people.
func (f flat) String() string {
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(f)) {
		lines = append(lines, fmt.Sprintf("  %s = %#v", path, f[path]))
	}
	return strings.Join(lines, "\n")
}

func (d *drifter) note(config flat) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[string]bool{}
	for path := range config {
		seen[pattern(path)] = true
	}
	for path := range seen {
		d.used[path]++
	}
}

// attributes are all that can be configured, with "*" for slots.
func attributes(t *testing.T) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(described(t)))
}

// described are the attributes with their descriptions.
func described(t *testing.T) map[string]string {
	t.Helper()
	var response resource.SchemaResponse
	vm.New(nil).Schema(t.Context(), resource.SchemaRequest{}, &response)
	all := map[string]string{}
	var walk func(prefix string, level map[string]schema.Attribute)
	walk = func(prefix string, level map[string]schema.Attribute) {
		for name, a := range level {
			switch nested := a.(type) {
			case schema.SingleNestedAttribute:
				walk(prefix+name+".", nested.Attributes)
			case schema.MapNestedAttribute:
				if a.IsOptional() {
					walk(prefix+name+".*.", nested.NestedObject.Attributes)
				}
			default:
				if (a.IsOptional() || a.IsRequired()) && prefix+name != "ha.group" { // PVE 9 has no groups
					all[prefix+name] = a.GetMarkdownDescription()
				}
			}
		}
	}
	walk("", response.Schema.Attributes)
	return all
}
