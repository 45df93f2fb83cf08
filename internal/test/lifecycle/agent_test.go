package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// fleet is a configuration of n running VMs.
func fleet(n int) string {
	var hcl strings.Builder
	for i := range n {
		fmt.Fprintf(&hcl, "resource \"proxmox_vm\" \"n%03d\" {\n  node = \"pve1\"\n  vmid = %d\n  agent = { enabled = true }\n  networks = { net0 = { model = \"virtio\", bridge = \"vmbr0\" } }\n}\n",
			i, 1000+i)
	}
	return hcl.String()
}

// newFleet makes the VMs in a cluster on the bubble's clock, and a session whose requests go through PVE's workers.
func newFleet(t *testing.T, n int) (*rig.World, *terraformtest.Session, *rig.WorkerPool) {
	t.Helper()
	w := rig.NewWorld(t, pvesim.Options{Clock: clock.Real{}, Latency: -1})
	s := w.Session(t, rig.TokenNoSSH, fleet(n))
	s.Parallelism = 10
	rig.Must(t, s.Run(t.Context()))
	d, through := w.BehindWorkers(t, s, fleet(n))
	return w, through, d
}

// refreshTime is how long a refresh takes on the bubble's clock, with the questions to agents and the workers at once.
func refreshTime(t *testing.T, s *terraformtest.Session, d *rig.WorkerPool, what string) time.Duration {
	t.Helper()
	d.Figures()
	d.Mu.Lock()
	d.Figure = rig.Figures{}
	d.Mu.Unlock()
	before := time.Now()
	rig.Must(t, s.Refresh(t.Context()))
	took := time.Since(before)
	f := d.Figures()
	t.Logf("%-52s %6d ms, %3d questions to agents, %d of %d workers busy at most", what, took.Milliseconds(), f.Asked, f.Most, rig.Workers)
	return took
}

// oneSilentAgent is how long a refresh waits for the one agent of a node that it asks, while the others wait for that answer.
const oneSilentAgent = 550 * time.Millisecond

// TestSilentAgentsCostARefreshNothing refreshes VMs, 100 in the whole, ten at a time, from a node with three workers, of which each
// question to a silent agent holds one for 3 s. The time is that of a clock which moves when everybody waits.
func TestSilentAgentsCostARefreshNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s, d := newFleet(t, share.Count(30, 100))
		fresh := s.SaveState()
		time.Sleep(20 * time.Second) // until the listing knows the VMs
		w.Agents("0")
		refreshTime(t, s, d, "agent taken away")
		without := refreshTime(t, s, d, "without agent")
		check := func(what string) {
			t.Helper()
			took := refreshTime(t, s, d, what)
			if limit := max(without*11/10, oneSilentAgent); took > limit {
				t.Errorf("%s: %s, want at most %s, with %s without agent", what, took, limit, without)
			}
			if d.Figures().Most >= rig.Workers {
				t.Errorf("%s: all %d workers of the node were busy with agents", what, rig.Workers)
			}
		}
		w.Agents("1")
		w.Silence(true)
		s.RestoreState(fresh)
		check("silent agents, first refresh")
		flagSilent(t, s)
		check("agents known to be silent")
		w.Silence(false)
		mustGetAddresses(t, s, d, "agents known to be silent, which answer")
		s.RestoreState(fresh)
		mustGetAddresses(t, s, d, "agents that answer")
		known := s.Attr("proxmox_vm.n012", "ipv4_address")
		w.Silence(true)
		check("agents that have fallen silent")
		if now := s.Attr("proxmox_vm.n012", "ipv4_address"); !now.RawEquals(known) {
			t.Errorf("the address was %#v and is %#v since the agent is silent", known, now)
		}
	})
}

func mustHaveAddresses(t *testing.T, s *terraformtest.Session) {
	t.Helper()
	if without := withoutAddress(s); len(without) > 0 {
		t.Errorf("the address of %s does not come", strings.Join(without, ", "))
	}
}

func withoutAddress(s *terraformtest.Session) []string {
	return slices.DeleteFunc(s.Addresses(), func(address string) bool { return !s.Attr(address, "ipv4_address").IsNull() })
}

// mustGetAddresses refreshes once, and every VM has its address. That holds as long as a node answers the first question within 150 ms,
// with the reads of ten VMs before it; from a slower one some of the addresses come with the next refresh.
func mustGetAddresses(t *testing.T, s *terraformtest.Session, d *rig.WorkerPool, what string) {
	t.Helper()
	refreshTime(t, s, d, what)
	mustHaveAddresses(t, s)
}

// flagSilent makes the state one in which every agent was silent the last time. The keys of private state are the
// framework's JSON of texts in base64.
func flagSilent(t *testing.T, s *terraformtest.Session) {
	t.Helper()
	for _, address := range s.Addresses() {
		i, err := s.Instance(address)
		rig.Must(t, err)
		keys := map[string][]byte{}
		rig.Must(t, json.Unmarshal(i.Private, &keys))
		keys["silent"] = []byte("true")
		private, err := json.Marshal(keys)
		rig.Must(t, err)
		s.SetPrivate(address, private)
	}
}
