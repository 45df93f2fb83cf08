package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

const (
	mac0 = "BC:24:11:00:00:01"
	mac1 = "BC:24:11:00:00:02"
)

// threeNICs are the network devices of a VM, one of them without an address.
func threeNICs() map[string]vm.NIC {
	first, second := mac0, mac1
	return map[string]vm.NIC{"net10": {NICOptions: vm.NICOptions{MACAddr: &second}}, "net3": {},
		"net2": {NICOptions: vm.NICOptions{MACAddr: &first}}}
}

func nic(name, mac string, addresses ...string) pve.AgentInterface {
	i := pve.AgentInterface{Name: name, MAC: mac}
	for _, a := range addresses {
		i.Addresses = append(i.Addresses, pve.AgentAddress{Address: a})
	}
	return i
}

func TestAddressesOfANIC(t *testing.T) {
	none := []string{}
	for name, c := range map[string]struct {
		answer []pve.AgentInterface
		want   map[string]Address
	}{
		"silent agent": {nil, map[string]Address{}},
		"useless for other hosts": {
			[]pve.AgentInterface{nic("lo", "00:00:00:00:00:00", "127.0.0.1", "::1"),
				nic("eth0", "bc:24:11:00:00:01", "169.254.7.7", "fe80::1", "224.0.0.1", "0.0.0.0", "nonsense", "10.0.0.1")},
			map[string]Address{"net2": {MAC: mac0, IPv4: []string{"10.0.0.1"}, IPv6: none}},
		},
		"interfaces of the guest's own": {
			[]pve.AgentInterface{nic("docker0", "02:42:5d:00:00:01", "172.17.0.1"), nic("br-1a2b", "02:42:6d:00:00:01", "172.18.0.1"),
				nic("veth1", "fa:00:00:00:00:01", "172.17.0.2"),
				nic("virbr0", "52:54:00:00:00:01", "192.168.122.1"), nic("cni0", "d2:00:00:00:00:01", "10.244.0.1"),
				nic("tun0", "", "10.8.0.2"), nic("wg0", "", "10.9.0.2"),
				nic("tailscale0", "00:00:00:00:00:00", "100.64.0.1"), nic("eth0", "bc:24:11:00:00:01", "10.0.0.1")},
			map[string]Address{"net2": {MAC: mac0, IPv4: []string{"10.0.0.1"}, IPv6: none}},
		},
		"a bridge over the device, and a VLAN on it": {
			[]pve.AgentInterface{nic("eth0", "bc:24:11:00:00:01"), nic("br0", "bc:24:11:00:00:01", "10.0.0.1", "2001:db8::1"),
				nic("br0.7", "BC:24:11:00:00:01", "10.7.0.1", "10.0.0.1")},
			map[string]Address{"net2": {MAC: mac0, IPv4: []string{"10.0.0.1", "10.7.0.1"}, IPv6: []string{"2001:db8::1"}}},
		},
		"a bond, whose interfaces all have its MAC address": {
			[]pve.AgentInterface{nic("eth0", "bc:24:11:00:00:01"), nic("eth1", "bc:24:11:00:00:01"), nic("bond0", "bc:24:11:00:00:01", "10.0.0.1")},
			map[string]Address{"net2": {MAC: mac0, IPv4: []string{"10.0.0.1"}, IPv6: none}},
		},
		"global before local": {
			[]pve.AgentInterface{nic("eth1", "bc:24:11:00:00:02", "fd00::7", "2001:db8::7", "fd00::8", "::ffff:10.0.0.9")},
			map[string]Address{"net10": {MAC: mac1, IPv4: []string{"10.0.0.9"}, IPv6: []string{"2001:db8::7", "fd00::7", "fd00::8"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Addresses(threeNICs(), interfacesFrom(c.answer))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	if got := Addresses(threeNICs(), nil); got != nil {
		t.Errorf("without an answer: %v", got)
	}
	if got, want := NICs(threeNICs()), []string{"net2", "net3", "net10"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// errSilent is what PVE says of an agent that does not answer.
var errSilent = errors.New("QEMU guest agent is not running")

// reads refreshes VMs, ten at a time, whose agents take so long to answer each; it says how many were heard and how
// long it took all of them.
func reads(vms int, answerTime func(vm int) time.Duration, memory func(vm int) Memory) (heard int, took time.Duration) {
	s := &Agents{request: func(_ context.Context, _ string, vm int) ([]pve.AgentInterface, error) {
		time.Sleep(answerTime(vm))
		if answerTime(vm) > time.Second {
			return nil, errSilent
		}
		return nil, nil
	}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	lanes := make(chan int)
	for range 10 {
		wg.Go(func() {
			for n := range lanes {
				q := s.Ask(context.Background(), "pve1", n, memory(n))
				time.Sleep(20 * time.Millisecond) // the rest of the read
				interfaces, _ := q.Answer(context.Background())
				mu.Lock()
				if interfaces != nil {
					heard++
				}
				mu.Unlock()
			}
		})
	}
	for n := range vms {
		lanes <- n
	}
	close(lanes)
	wg.Wait()
	took = time.Since(begin)
	time.Sleep(5 * time.Second)
	return heard, took
}

// TestLimiter: agents that answer are all heard, and silent ones among them cost little, in any order.
func TestLimiter(t *testing.T) {
	silent := func(every int) func(int) time.Duration {
		return func(n int) time.Duration {
			if every > 0 && n%every == every-1 {
				return 3 * time.Second
			}
			return 15 * time.Millisecond
		}
	}
	known := func(every int) func(int) Memory {
		return func(n int) Memory { return Memory{Enabled: true, Silent: every > 0 && n%every == every-1} }
	}
	for name, c := range map[string]struct {
		vms, silent, known int // one in so many; 0: none
		heard              int // at least
		within             time.Duration
	}{
		"one that answers":                 {1, 0, 0, 1, 20 * time.Millisecond},
		"one that is silent":               {1, 1, 0, 0, 500 * time.Millisecond},
		"one that was silent, but is not":  {1, 0, 1, 1, 20 * time.Millisecond},
		"all answer":                       {100, 0, 0, 100, 400 * time.Millisecond},
		"all were silent, but answer":      {100, 0, 1, 100, 400 * time.Millisecond},
		"all are silent":                   {100, 1, 0, 0, 550 * time.Millisecond},
		"all are known to be silent":       {100, 1, 1, 0, 550 * time.Millisecond},
		"one in ten is known to be silent": {100, 10, 10, 90, 2 * time.Second},
		"half are known to be silent":      {100, 2, 2, 50, 2 * time.Second},
		"the last is silent":               {100, 100, 0, 99, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				heardOf, took := reads(c.vms, silent(c.silent), known(c.known))
				t.Logf("%d of %d agents heard in %s", heardOf, c.vms, took)
				if heardOf < c.heard || took > c.within {
					t.Errorf("want at least %d within %s", c.heard, c.within)
				}
			})
		})
	}
}

// TestAWorkerIsKeptFree: however many are waited for, two agents of a node are asked at a time, and none of another
// node waits for them.
func TestAWorkerIsKeptFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		busy, most := map[string]int{}, map[string]int{}
		s := &Agents{request: func(_ context.Context, node string, _ int) ([]pve.AgentInterface, error) {
			mu.Lock()
			busy[node]++
			most[node] = max(most[node], busy[node])
			mu.Unlock()
			time.Sleep(3 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			busy[node]--
			return nil, errSilent
		}}
		begin := time.Now()
		var wg sync.WaitGroup
		for _, node := range []string{"pve1", "pve2"} {
			for vm := range 6 {
				wg.Go(func() {
					if _, err := s.AskPatiently(t.Context(), node, vm); !errors.Is(err, errSilent) {
						t.Errorf("VM %d on %s: %v", vm, node, err)
					}
				})
			}
		}
		wg.Wait()
		if took := time.Since(begin); took != 9*time.Second || most["pve1"] != 2 || most["pve2"] != 2 {
			t.Errorf("6 agents of each of 2 nodes, two at a time for 3 s each: %s, at most %v at a time", took, most)
		}
	})
}

// TestNobodyAsksInVain: who may not ask is told so a few times; a second silent agent ends the questions, on other nodes
// too; and an interrupted read waits for nothing, while the worker that it has set to work keeps its place.
func TestNobodyAsksInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		answer, takes := error(&pve.Error{Kind: pve.Denied}), 10*time.Millisecond
		fresh := func() *Agents {
			asked = 0
			return &Agents{request: func(ctx context.Context, _ string, _ int) ([]pve.AgentInterface, error) {
				asked++
				select {
				case <-time.After(takes):
				case <-ctx.Done():
				}
				return nil, answer
			}}
		}
		ask := func(s *Agents, node string) bool {
			t.Helper()
			interfaces, silent := s.Ask(t.Context(), node, 100, Memory{Enabled: true}).Answer(t.Context())
			if interfaces != nil {
				t.Errorf("an answer from nowhere: %v", interfaces)
			}
			return silent
		}
		s := fresh()
		for n := range 3 * maxDenied {
			if ask(s, fmt.Sprintf("pve%d", 1+n%2)) {
				t.Error("without the privilege an agent is called silent")
			}
		}
		if asked != maxDenied {
			t.Errorf("without the privilege: asked %d times, want %d", asked, maxDenied)
		}
		s, answer, takes = fresh(), errSilent, 3*time.Second
		for _, want := range []struct {
			node          string
			silent, pause bool
		}{{"pve1", true, false}, {"pve1", false, true}, {"pve1", true, true}, {"pve2", false, true}} {
			if silent := ask(s, want.node); silent != want.silent {
				t.Errorf("after %d questions the agent on %s: silent %t", asked, want.node, silent)
			}
			if want.pause {
				time.Sleep(5 * time.Second)
			}
		}
		if asked != 2 {
			t.Errorf("%d questions, want none after the second silence", asked)
		}
		s = fresh()
		ctx, cancel := context.WithCancel(t.Context())
		q := s.Ask(ctx, "pve1", 100, Memory{Enabled: true})
		synctest.Wait()
		cancel()
		begin := time.Now()
		if _, silent := q.Answer(ctx); silent || time.Since(begin) > 0 {
			t.Error("an interrupted read waits, or notes a silence")
		}
		synctest.Wait()
		taken := func() int {
			s.limiter.mu.Lock()
			defer s.limiter.mu.Unlock()
			return len(s.limiter.nodes["pve1"].taken)
		}
		if taken() != 1 {
			t.Error("the place is given back while the agent holds the worker")
		}
		time.Sleep(5 * time.Second)
		if taken() != 0 {
			t.Error("the place is not given back")
		}
	})
}

// TestJudge: the questions under way on a node, and their results, decide alone.
func TestJudge(t *testing.T) {
	several := func(n int, p place) []*place {
		all := make([]*place, n)
		for i := range all {
			all[i] = &place{class: p.class, late: p.late, silent: p.silent}
		}
		return all
	}
	for name, c := range map[string]struct {
		taken  []*place
		node   score    // of the node
		scores [3]score // by class
		class  class
		want   verdict
	}{
		"the first":                            {want: now},
		"a second before an answer":            {taken: several(1, place{}), want: later},
		"beside a late one":                    {taken: several(1, place{late: true}), want: never},
		"beside a late one of the other kind":  {taken: several(1, place{class: doubtful, late: true}), want: now},
		"where agents answer":                  {taken: several(2, place{}), node: score{answers: 1}, want: now},
		"as many as one answer makes room for": {taken: several(3, place{}), node: score{answers: 1}, want: later},
		"as many as ever":                      {taken: several(6, place{}), node: score{answers: 100}, want: later},
		"after a silence":                      {taken: several(2, place{}), node: score{answers: 4, silences: 1}, want: later},
		"when that is made up for":             {taken: several(5, place{}), node: score{answers: 20, silences: 1}, want: now},
		"beside a silent one":                  {taken: several(1, place{silent: true, late: true}), node: score{answers: 9}, want: now},
		"beside two silent ones":               {taken: several(2, place{silent: true, late: true}), node: score{answers: 100}, want: never},
		"after two silences":                   {scores: [3]score{{silences: 2}}, want: never},
		"after two silences of the others":     {scores: [3]score{{}, {silences: 2}}, want: now},
		"after few silences among answers":     {node: score{answers: 16}, scores: [3]score{{answers: 16, silences: 5}}, want: now},
		"after too many":                       {node: score{answers: 16}, scores: [3]score{{answers: 16, silences: 6}}, want: never},
		"one that was silent":                  {taken: several(3, place{}), node: score{answers: 9}, class: doubtful, want: now},
		"a second of them": {taken: several(1, place{class: doubtful}),
			node: score{answers: 9}, class: doubtful, want: later},
		"when one of them has answered": {taken: several(2, place{class: doubtful}), node: score{answers: 1},
			scores: [3]score{doubtful: {answers: 1}}, class: doubtful, want: now},
		"one that is waited for":           {taken: several(1, place{silent: true}), scores: [3]score{{silences: 9}}, class: waited, want: now},
		"a third one that is waited for":   {taken: several(2, place{class: waited}), class: waited, want: later},
		"beside those that are waited for": {taken: several(2, place{class: waited}), node: score{answers: 1}, want: now},
	} {
		l := &limiter{scores: c.scores}
		if got := l.judge(&node{taken: c.taken, score: c.node}, c.class); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := (&limiter{denials: maxDenied}).judge(&node{}, expected); got != never {
		t.Errorf("without the privilege: %d", got)
	}
}

// TestFirstComeFirstAsked lets one place after the other become free while eight wait for one. Without an order the
// last one could lose every race, until the second is over for which a read waits for its turn.
func TestFirstComeFirstAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l limiter
		var under []*place
		for range 2 {
			p := l.take(t.Context(), "pve1", expected)
			l.answered(p)
			under = append(under, p)
		}
		for len(under) < 5 {
			under = append(under, l.take(t.Context(), "pve1", expected))
		}
		order := make(chan int, 8)
		asked := make([]*place, 8)
		for i := range asked {
			go func() {
				asked[i] = l.take(t.Context(), "pve1", expected)
				order <- i
			}()
			synctest.Wait()
		}
		var got []int
		for range asked {
			l.leave(under[0])
			i := <-order
			got, under = append(got, i), append(under[1:], asked[i])
			synctest.Wait()
		}
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(got, want) {
			t.Errorf("asked in the order %v", got)
		}
	})
}

// TestAddressesAreNoTexts: root of a guest puts no text of its choice into the state, from where configurations take addresses into
// commands and inventories, and no number of them.
func TestAddressesAreNoTexts(t *testing.T) {
	says := []string{"2001:db8::1%$(touch /tmp/owned)", "2001:db8::2%x\n[all]\nhost ansible_connection=local", "::ffff:10.0.0.1%eth0", "10.0.0.1; id",
		"10.0.0.2", "2001:DB8:0::3", "fe80::1%eth0"}
	found := Addresses(threeNICs(), interfacesFrom([]pve.AgentInterface{nic("eth0", mac0, says...)}))["net2"]
	if want := (Address{MAC: mac0, IPv4: []string{"10.0.0.2"}, IPv6: []string{"2001:db8::3"}}); !reflect.DeepEqual(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
	says = nil
	for n := range 1000 {
		says = append(says, fmt.Sprintf("10.1.%d.%d", n/250, n%250), fmt.Sprintf("2001:db8::%x", n+1))
	}
	found = Addresses(threeNICs(), interfacesFrom([]pve.AgentInterface{nic("eth0", mac0, says...)}))["net2"]
	if len(found.IPv4) != most || len(found.IPv6) != most {
		t.Errorf("%d and %d addresses are kept, of 1000 each", len(found.IPv4), len(found.IPv6))
	}
}
