package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/lab"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// KillPlan is a create whose provider gets killed, and its result without a kill.
type KillPlan struct {
	Name, Config string
	Fixed        bool // its VMID
	Plan         string
	Moments      []Moment
	want         []string // how the cluster differs afterwards
}

// Rehearse plans once for all cells, and applies that once without a kill.
func (p *KillPlan) Rehearse(t *testing.T, tools KillTools, dir string) {
	t.Helper()
	r := NewKillHost(t, tools, p.Config)
	p.Plan = filepath.Join(dir, strings.ReplaceAll(p.Name, " ", "-"))
	if text, err := r.Run(t, "plan", "-out="+p.Plan); err != nil {
		t.Fatalf("%s: %v\n%s", p.Name, err, text)
	}
	r.Gate.Begin(Moment{}, nil, nil)
	if text, err := r.Run(t, "apply", p.Plan); err != nil {
		t.Fatalf("%s: %v\n%s", p.Name, err, text)
	}
	p.Moments = r.Gate.Moments()
	ids := r.guests()
	if len(ids) != 1 {
		t.Fatalf("%s has made %v", p.Name, ids)
	}
	p.want = r.changes(ids[0])
}

// Differences are the objects that should not exist, and the missing ones.
func (r *KillHost) Differences(p *KillPlan) []string {
	ids := r.guests()
	if len(ids) == 0 {
		return append([]string{"no VM was made"}, r.World.Leaks()...)
	}
	got := r.changes(ids[len(ids)-1])
	if slices.Equal(got, p.want) {
		return nil
	}
	return strings.Split(cmp.Diff(p.want, got), "\n")
}

// Committed is the first moment of a create at which the VM is the user's already: its mark is gone, and Terraform has not noted it yet.
func (p *KillPlan) Committed() int {
	for i, at := range slices.Backward(p.Moments) {
		if at.Served && strings.HasPrefix(at.Request, http.MethodPut) && strings.HasSuffix(at.Request, "/config") {
			return i
		}
	}
	return len(p.Moments)
}

// KillTools is what all rooms share: the CLI, and the provider built from this source.
type KillTools struct{ cli, Settings string }

// NewKillTools needs a CLI, and a system that tells which processes there are.
func NewKillTools(t *testing.T) KillTools {
	t.Helper()
	if testing.Short() {
		t.Skip("runs a CLI")
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this system does not tell by files which processes there are")
	}
	names := []string{"terraform", "tofu"}
	if cli := os.Getenv("TF_CLI"); cli != "" {
		names = []string{cli}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			dir := t.TempDir()
			if _, err := lab.NewCLI(t.Context(), dir, path); err != nil {
				t.Fatal(err)
			}
			return KillTools{cli: path, Settings: filepath.Join(dir, "cli.tfrc")}
		}
	}
	if os.Getenv("TF_CLI") != "" {
		t.Fatalf("TF_CLI=%s is no program", os.Getenv("TF_CLI"))
	}
	t.Skip("neither terraform nor tofu on PATH, and TF_CLI names none")
	return KillTools{}
}

// KillHost is a cluster with one user, who has a CLI, a provider and a configuration, and whose processes get killed.
type KillHost struct {
	Tools KillTools
	World *rig.World
	Gate  *Gate
	Dir   string
	Env   []string
	Clock *clock.Virtual

	mu      sync.Mutex
	running *exec.Cmd
}

// KillTaskTime is how long the cluster's tasks take.
const KillTaskTime = 3 * time.Second

// NewKillHost starts the cluster and its gate, and writes the configuration.
func NewKillHost(t *testing.T, tools KillTools, config string) *KillHost {
	t.Helper()
	// The cluster is an hour behind this machine, so that its time is the one that counts (guest.Guests.Now) when it is moved on.
	ticks := clock.NewManual(time.Now().Add(-time.Hour).Truncate(time.Second))
	w := rig.NewWorld(t, pvesim.Options{Clock: ticks, TaskTime: KillTaskTime, Latency: -1})
	w.ExpectPowerOffs(state.PowerStop) // of what dead runs have started
	w.Sim.MarkThirdParties()
	w.Mark()
	r := &KillHost{Tools: tools, World: w, Gate: NewGate(t, w), Dir: t.TempDir(), Clock: ticks}
	r.Env = append(WithoutProviders(os.Environ()), "TF_CLI_CONFIG_FILE="+tools.Settings, "TF_IN_AUTOMATION=1", "TF_INPUT=0", "CHECKPOINT_DISABLE=1",
		"PROXMOX_VE_ENDPOINT="+r.Gate.URL(), "PROXMOX_VE_CA_CERTIFICATE="+r.Gate.Authority(),
		"PROXMOX_VE_API_TOKEN="+w.Sim.Credentials().Token)
	r.Configure(t, config)
	return r
}

// WithoutProviders is an environment without the variables for the CLI or for the provider.
func WithoutProviders(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "PROXMOX_VE_") || strings.HasPrefix(name, "TF_")
	})
}

// Configure writes the configuration.
func (r *KillHost) Configure(t *testing.T, config string) {
	t.Helper()
	text := "terraform {\n  required_providers {\n    proxmox = { source = \"terraform-proxmox/proxmox\" }\n  }\n}\n" +
		"provider \"proxmox\" {}\n" + config
	if err := os.WriteFile(filepath.Join(r.Dir, "main.tf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Run calls the CLI to its end, or until it is killed.
func (r *KillHost) Run(t *testing.T, args ...string) (text string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), r.Tools.cli, append(args, "-no-color")...)
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.Dir, r.Env, &out, &out
	cmd.WaitDelay = 10 * time.Second
	r.mu.Lock()
	r.running = cmd
	err = cmd.Start()
	r.mu.Unlock()
	if err == nil {
		err = cmd.Wait()
	}
	return out.String(), err
}

// Apply is an apply without a kill. A lock that a killed CLI has left on the state is taken away as the CLI says.
func (r *KillHost) Apply(t *testing.T, args ...string) (text string, err error) {
	t.Helper()
	r.Gate.Begin(Moment{}, nil, nil)
	text, err = r.Run(t, append([]string{"apply", "-auto-approve"}, args...)...)
	if id := lockedState.FindStringSubmatch(text); err != nil && id != nil {
		if text, err := r.Run(t, "force-unlock", "-force", id[1]); err != nil {
			t.Fatalf("force-unlock: %v\n%s", err, text)
		}
		text, err = r.Run(t, append([]string{"apply", "-auto-approve"}, args...)...)
	}
	return text, err
}

var lockedState = regexp.MustCompile(`(?s)Error acquiring the state lock.*?ID:\s+(\S+)`)

// KillTarget selects the processes to kill.
type KillTarget int

const (
	providerOnly KillTarget = iota // Terraform stays, and says that the plugin crashed
	bothOfThem                     // as by a job that is cancelled, or the machine that ran out of memory
)

// String returns "provider" or "both".
func (v KillTarget) String() string { return [...]string{"provider", "both"}[v] }

// Killed runs the CLI and kills it, or its provider, at a moment. With elsewhere, the requests of the run name another machine.
func (r *KillHost) Killed(t *testing.T, at Moment, who KillTarget, elsewhere bool, args ...string) (text string) {
	t.Helper()
	var rewrite func(string) string
	if elsewhere {
		rewrite = func(text string) string { return rig.Resign(r.World.Sim.Credentials(), text, ofAnotherMachine) }
	}
	r.Gate.Begin(at, func() { r.kill(t, who) }, rewrite)
	text, err := r.Run(t, args...)
	if r.Gate.Killed() && err == nil {
		t.Errorf("%v: terraform ended well although its provider was killed:\n%s", at, text)
	}
	return text
}

// ofAnotherMachine makes a mark that of another host's process: the same but for host and boot.
func ofAnotherMachine(mark *ownership.Mark) {
	fields := append([]string{"elsewhere", "0000000000000000"}, strings.Fields(mark.Process)[2:]...)
	mark.Process = strings.Join(fields, " ")
}

// kill ends processes by SIGKILL and returns when they are gone, or are at least nothing that can still send a request.
func (r *KillHost) kill(t *testing.T, who KillTarget) {
	r.mu.Lock()
	cli := r.running.Process.Pid
	r.mu.Unlock()
	victims := childrenOf(cli)
	if len(victims) == 0 {
		t.Errorf("process %d has no provider to kill", cli)
	}
	if who == bothOfThem {
		victims = append([]int{cli}, victims...)
	}
	for _, pid := range victims {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill() // it may have ended
		}
	}
	for _, pid := range victims {
		for lives(pid) {
			clock.Real{}.Sleep(time.Millisecond)
		}
	}
}

// statOf are the fields of a process after its name: state, parent and so on (proc(5)).
func statOf(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')'):]), ") ")
	return strings.Fields(rest)
}

func lives(pid int) bool {
	stat := statOf(pid)
	return len(stat) > 0 && stat[0] != "Z" && stat[0] != "X"
}

func childrenOf(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var children []int
	for _, entry := range entries {
		if id, err := strconv.Atoi(entry.Name()); err == nil {
			if stat := statOf(id); len(stat) > 1 && stat[0] != "Z" && stat[1] == strconv.Itoa(pid) {
				children = append(children, id)
			}
		}
	}
	return children
}

// Addresses are the resources that the user's state knows.
func (r *KillHost) Addresses(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.Dir, "terraform.tfstate"))
	if errors.Is(err, os.ErrNotExist) || err == nil && len(text) == 0 { // a Terraform that was killed may have got no further
		return nil
	}
	var saved struct {
		Resources []struct {
			Type      string            `json:"type"`
			Name      string            `json:"name"`
			Instances []json.RawMessage `json:"instances"`
		} `json:"resources"`
	}
	if err == nil {
		err = json.Unmarshal(text, &saved)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range saved.Resources {
		if len(resource.Instances) > 0 {
			all = append(all, resource.Type+"."+resource.Name)
		}
	}
	return all
}

// numbersIn is what differs between two VMs that are alike: ids, uuids, addresses, times.
var numbersIn = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?:[0-9A-F]{2}:){5}[0-9A-F]{2}|ctime=\d+|\d{10,}`)

// changes are how the cluster differs from the beginning, with N for the id of the VM and x for what no two VMs share.
func (r *KillHost) changes(vmid int) []string {
	lines := r.World.Leaks()
	id := regexp.MustCompile(fmt.Sprintf(`\b%d\b`, vmid))
	for i, line := range lines {
		lines[i] = numbersIn.ReplaceAllString(id.ReplaceAllString(line, "N"), "x")
	}
	slices.Sort(lines)
	return lines
}

// guests are the ids of those that were not there at the beginning.
func (r *KillHost) guests() []int {
	var ids []int
	r.World.Change(func(world *state.World) {
		for id, g := range world.Guests {
			if !world.ThirdParties.Guests[g] {
				ids = append(ids, id)
			}
		}
	})
	return slices.Sorted(slices.Values(ids))
}
