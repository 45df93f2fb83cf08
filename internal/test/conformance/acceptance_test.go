package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/lab"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// labCases are the acceptance cases, with those of the documentation's examples.
func labCases(t *testing.T) []lab.Case {
	t.Helper()
	fromExamples, err := lab.Examples(rig.Examples(t))
	rig.Must(t, err)
	return append(lab.Cases(), fromExamples...)
}

// labEnvironment says of a simulated cluster what an operator says of a real one.
func labEnvironment(w *rig.World) map[string]string {
	c := w.Sim.Credentials()
	return map[string]string{
		"PROXMOX_VE_ENDPOINT": w.Sim.Endpoint(), "PROXMOX_VE_CA_CERTIFICATE": w.Sim.CAPEM(), "PROXMOX_VE_API_TOKEN": c.Token,
		"PROXMOX_VE_USERNAME": c.RootUsername, "PROXMOX_VE_PASSWORD": c.RootPassword,
		"PROXMOX_VE_TEST_TEMPLATE": "9000", "PROXMOX_VE_TEST_LVM": "thick", "PROXMOX_VE_TEST_MAPPING": "gpu",
		"PROXMOX_VE_TEST_ESXI": "esxi:ha-datacenter/datastore1/web/web.vmx", "PROXMOX_VE_TEST_OVA": "local:import/appliance.ova",
		"PROXMOX_VE_TEST_BACKUP": "local:backup/vzdump-qemu-700-2026_01_01-00_00_00.vma.zst", "PROXMOX_VE_TEST_URL": "https://example.org/disk.qcow2", "PROXMOX_VE_TEST_HA": "1",
	}
}

// labWorld is a simulated cluster with all that the cases can ask for.
func labWorld(t *testing.T, options ...pvesim.Options) *rig.World {
	t.Helper()
	w := rig.ExampleWorld(t, options...)
	w.Change(func(world *state.World) {
		world.Storages["thick"] = &state.Storage{ID: "thick", Type: "lvm", Path: "thick", Total: 16 << 30, Content: []string{"images", "rootdir"}}
	})
	w.Mark()
	return w
}

// labOptions reach a simulated cluster in memory.
func labOptions(w *rig.World, environment map[string]string) lab.Options {
	return lab.Options{Getenv: func(name string) string { return environment[name] }, DialContext: w.Sim.DialContext,
		Sleep: clock.Client{Cluster: w.Sim.World().Clock}.Sleep}
}

// run lives through all cases, prints what ran and why others did not, and gives the names of those that ran.
func runLab(t *testing.T, c *lab.Cluster, terraform func(t *testing.T, k lab.Case) lab.Terraform) (ran []string) {
	t.Helper()
	var lines []string
	for _, k := range labCases(t) {
		t.Run(k.Name, func(t *testing.T) {
			begin := time.Now()
			c.Run(t, terraform(t, k), k)
			t.Logf("%s", time.Since(begin).Round(time.Millisecond))
		})
		if why := c.Lacks(k.Needs...); why != "" {
			lines = append(lines, "not run: "+k.Name+": "+why)
			continue
		}
		ran = append(ran, k.Name)
	}
	t.Logf("%d acceptance cases ran on the cluster, %d did not:\n%s", len(ran), len(lines), strings.Join(lines, "\n"))
	return ran
}

// closeLab ends the use of a cluster, on which nothing may be left.
func closeLab(t *testing.T, c *lab.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestAccCluster runs the acceptance cases with a Terraform program: on the cluster that PROXMOX_VE_ENDPOINT names, or on a simulated
// one. Without TF_ACC TestAcceptanceCases has run the same cases over the plugin protocol.
func TestAccCluster(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("TF_ACC is not set: TestAcceptanceCases runs the cases over the plugin protocol")
	}
	rig.UseCLI(t)
	if os.Getenv("PROXMOX_VE_ENDPOINT") == "" {
		rig.WithoutEnvironment(t)
		w := labWorld(t, pvesim.Options{RealNetwork: true, Clock: rig.NewFastClock(), TaskTime: time.Second / 2})
		w.ExpectPowerOffs(state.PowerStop)  // by on_destroy
		w.Change(func(world *state.World) { // for HA
			world.Roles["TerraformProvider"] = append(slices.Clone(world.Roles["TerraformProvider"]), "Sys.Console")
		})
		for name, value := range labEnvironment(w) {
			t.Setenv(name, value)
		}
		t.Cleanup(func() { w.MustBeClean(t) })
	}
	c, err := lab.Open(t.Context(), lab.Options{Getenv: os.Getenv, WithProgram: true,
		NoFunctions: noFunctions(t, os.Getenv("TF_ACC_TERRAFORM_PATH"))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLab(t, c) })
	cli, err := lab.NewCLI(t.Context(), t.TempDir(), os.Getenv("TF_ACC_TERRAFORM_PATH"), "PROXMOX_VE_VMID_RANGE="+c.Range())
	rig.Must(t, err)
	runLab(t, c, func(t *testing.T, _ lab.Case) lab.Terraform { return cli.In(t.TempDir()) })
}

// noFunctions says why a Terraform program cannot call functions of providers, "" where it can.
func noFunctions(t *testing.T, program string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, "version", "-json").Output()
	rig.Must(t, err)
	var is struct {
		Version string `json:"terraform_version"`
	}
	rig.Must(t, json.Unmarshal(out, &is))
	return lacksFunctions(strings.Contains(filepath.Base(program), "tofu"), is.Version)
}

func lacksFunctions(tofu bool, version string) string {
	name, since := "Terraform", 8
	if tofu {
		name, since = "OpenTofu", 7
	}
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || major > 1 || minor >= since {
		return ""
	}
	return fmt.Sprintf("%s %s has none: they came with 1.%d", name, version, since)
}

func TestProgramsWithFunctions(t *testing.T) {
	for version, want := range map[string][2]bool{"1.0.11": {true, true}, "1.7.5": {true, false}, "1.8.0": {false, false}, "1.15.9": {false, false},
		"2.0.0": {false, false}} {
		for n, tofu := range []bool{false, true} {
			if why := lacksFunctions(tofu, version); (why != "") != want[n] {
				t.Errorf("%s, OpenTofu %t: %q", version, tofu, why)
			}
		}
	}
}

// TestAcceptanceCases runs the acceptance cases on a cluster of which they know what an operator knows of a real one: an address,
// credentials and a few names.
func TestAcceptanceCases(t *testing.T) {
	t.Parallel()
	w := labWorld(t)
	c, err := lab.Open(t.Context(), labOptions(w, labEnvironment(w)))
	rig.Must(t, err)
	vmidRange := "  vmid_range = { min = 990000, max = 990999 }\n}\n"
	ran := runLab(t, c, func(_ *testing.T, k lab.Case) lab.Terraform {
		id := rig.TokenNoSSH
		if slices.Contains(k.Needs, lab.HA) {
			id = rig.RootTicket
		}
		return &lab.Protocol{Session: w.NewSession(), Provider: strings.TrimSuffix(w.ProviderBlock(id), "}\n") + vmidRange}
	})
	closeLab(t, c)
	w.MustBeClean(t)
	for _, k := range labCases(t) {
		if !slices.Contains(k.Needs, lab.Program) && !slices.Contains(ran, k.Name) {
			t.Errorf("%s does not run anywhere without a Terraform program", k.Name)
		}
	}
	if len(ran) < 55 {
		t.Errorf("only %d cases ran", len(ran))
	}
}

// TestAcceptanceCasesKnowNoSimulator: what the cases are made of could be about any cluster.
func TestAcceptanceCasesKnowNoSimulator(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../lab/*.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		rig.Must(t, err)
		for _, spec := range file.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if strings.HasPrefix(path, "github.com/terraform-proxmox/") && !strings.HasSuffix(path, "/internal/terraformtest") {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

// planted are things of each kind that tests may leave, by how the leak check names them.
var planted = map[string]func(*rig.World){
	"guest qemu/990007 on pve2": func(w *rig.World) {
		w.Change(func(world *state.World) {
			world.Guests[990007] = &state.Guest{VMID: 990007, Type: "qemu", Node: "pve2", Config: map[string]string{"memory": "128"}}
		})
	},
	"guest lxc/990008 on pve1": func(w *rig.World) {
		w.Change(func(world *state.World) {
			world.Guests[990008] = &state.Guest{VMID: 990008, Type: "lxc", Node: "pve1", Config: map[string]string{"memory": "128"}}
		})
	},
	"volume local-zfs:vm-990007-disk-3 on pve2": func(w *rig.World) {
		w.Change(func(world *state.World) {
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve2", Name: "vm-990007-disk-3", Content: "images", VMID: 990007, Format: "raw",
				Size: 1 << 30})
		})
	},
	"pool terraform-acc-990000-2": func(w *rig.World) {
		w.Change(func(world *state.World) {
			world.Pools["terraform-acc-990000-2"] = &state.Pool{ID: "terraform-acc-990000-2", Guests: []int{}}
		})
	},
	"HA entry vm:990007": func(w *rig.World) {
		w.Change(func(world *state.World) {
			world.HA["vm:990007"] = &state.HAResource{SID: "vm:990007", State: "started", Options: map[string]string{}}
		})
	},
	"task UPID:pve1": func(w *rig.World) {
		w.Change(func(world *state.World) {
			world.Guests[990009] = &state.Guest{VMID: 990009, Type: "qemu", Node: "pve1", Config: map[string]string{"memory": "128"}}
		})
		w.Sim.HoldLock(990009, "backup", time.Hour, "terraform@pve!prov")
	},
}

// TestAcceptanceLeakCheck: the end of the tests names what they have left, of every kind; and the beginning refuses to take what is
// there for theirs.
func TestAcceptanceLeakCheck(t *testing.T) {
	t.Parallel()
	for _, what := range slices.Sorted(maps.Keys(planted)) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := labWorld(t)
			environment := labEnvironment(w)
			c, err := lab.Open(t.Context(), labOptions(w, environment))
			rig.Must(t, err)
			leaks, err := c.Leaks(t.Context())
			if err != nil || len(leaks) > 0 {
				t.Fatalf("nothing is planted yet: %v, %v", leaks, err)
			}
			planted[what](w)
			if err := c.Close(t.Context()); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("the leak check said: %v", err)
			}
			before := w.Sim.Snapshot()
			if _, err := lab.Open(t.Context(), labOptions(w, environment)); err == nil || !strings.Contains(err.Error(),
				"is not empty") || !strings.Contains(err.Error(), what) {
				t.Errorf("the guard said: %v", err)
			}
			if changed := rig.SnapshotDiff(before, w.Sim.Snapshot()); len(changed) > 0 {
				t.Errorf("a run that is refused changed: %v", changed)
			}
		})
	}
}

// TestAcceptanceOwnTemplate: where the operator names no template the tests make one, and take it away again; two runs keep out of each
// other's range.
func TestAcceptanceOwnTemplate(t *testing.T) {
	t.Parallel()
	w := labWorld(t)
	environment := labEnvironment(w)
	delete(environment, "PROXMOX_VE_TEST_TEMPLATE")
	c, err := lab.Open(t.Context(), labOptions(w, environment))
	rig.Must(t, err)
	if why := c.Lacks(lab.Guest); why == "" {
		t.Error("a template with an empty disk is said to obey")
	}
	if _, err := lab.Open(t.Context(), labOptions(w, environment)); err == nil || !strings.Contains(err.Error(), "pool terraform-acc-990000") {
		t.Errorf("a second run was let in: %v", err)
	}
	closeLab(t, c)
	w.MustBeClean(t)
}

func TestVMIDRange(t *testing.T) {
	t.Parallel()
	if first, last, err := lab.VMIDRange("990100-990199"); err != nil || first != 990100 || last != 990199 {
		t.Errorf("got %d, %d, %v", first, last, err)
	}
	for _, bad := range []string{"1", "99-200", "300-200", "a-b", "990000-990010"} {
		if _, _, err := lab.VMIDRange(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
