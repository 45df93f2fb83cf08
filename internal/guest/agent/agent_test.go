package agent

import (
	"context"
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
	return map[string]vm.NIC{"net10": {NICOptions: vm.NICOptions{MACAddr: &second}}, "net2": {NICOptions: vm.NICOptions{MACAddr: &first}}, "net3": {}}
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
		"what nobody else can use": {
			[]pve.AgentInterface{nic("lo", "00:00:00:00:00:00", "127.0.0.1", "::1"), nic("eth0", "bc:24:11:00:00:01", "169.254.7.7", "fe80::1", "224.0.0.1", "0.0.0.0", "nonsense", "10.0.0.1")},
			map[string]Address{"net2": {MAC: mac0, IPv4: []string{"10.0.0.1"}, IPv6: none}},
		},
		"interfaces of the guest's own": {
			[]pve.AgentInterface{nic("docker0", "02:42:5d:00:00:01", "172.17.0.1"), nic("br-1a2b", "02:42:6d:00:00:01", "172.18.0.1"), nic("veth1", "fa:00:00:00:00:01", "172.17.0.2"),
				nic("virbr0", "52:54:00:00:00:01", "192.168.122.1"), nic("cni0", "d2:00:00:00:00:01", "10.244.0.1"), nic("tun0", "", "10.8.0.2"), nic("wg0", "", "10.9.0.2"),
				nic("tailscale0", "00:00:00:00:00:00", "100.64.0.1"), nic("eth0", "bc:24:11:00:00:01", "10.0.0.1")},
			map[string]Address{"net2": {MAC: mac0, IPv4: []string{"10.0.0.1"}, IPv6: none}},
		},
		"a bridge over the device, and a VLAN on it": {
			[]pve.AgentInterface{nic("eth0", "bc:24:11:00:00:01"), nic("br0", "bc:24:11:00:00:01", "10.0.0.1", "2001:db8::1"), nic("br0.7", "BC:24:11:00:00:01", "10.7.0.1", "10.0.0.1")},
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

// reads refreshes VMs, ten at a time, whose agents take so long to answer each; it says which were heard and how long it
// took all of them.
func reads(vms int, answerTime func(vm int) time.Duration, c func(vm int) class) (heardOf int, took time.Duration) {
	var d desk
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	lanes := make(chan int)
	for range 10 {
		wg.Go(func() {
			for n := range lanes {
				q := &Question{desk: &d, node: "pve1", class: c(n), begun: make(chan begun, 1), answer: make(chan heard, 1)}
				go func() {
					at := d.enter(context.Background(), q.node, q.class)
					if at == none {
						q.answer <- heard{}
						return
					}
					q.begun <- begun{since: time.Now(), at: at}
					time.Sleep(answerTime(n))
					d.leave(q.node, at)
					var err error
					if answerTime(n) > time.Second {
						err = context.DeadlineExceeded
					}
					q.answer <- heard{asked: true, interfaces: []Interface{}, err: err}
				}()
				time.Sleep(20 * time.Millisecond) // the rest of the read
				interfaces, _ := q.Hear(context.Background())
				mu.Lock()
				if interfaces != nil {
					heardOf++
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
	return heardOf, took
}

// TestDesk: agents that answer are all heard, and silent ones among them cost little, whoever comes first.
func TestDesk(t *testing.T) {
	silent := func(every int) func(int) time.Duration {
		return func(n int) time.Duration {
			if every > 0 && n%every == every-1 {
				return 3 * time.Second
			}
			return 15 * time.Millisecond
		}
	}
	known := func(every int) func(int) class {
		return func(n int) class {
			if every > 0 && n%every == every-1 {
				return doubtful
			}
			return expected
		}
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
