package pve

import (
	"testing"
)

func TestFilter(t *testing.T) {
	yes, no := true, false
	listed := Resources{
		{Type: "qemu", VMID: 200, Name: "web-2", Node: "b", Tags: "Prod;web", Status: "running"},
		{Type: "lxc", VMID: 150, Name: "web-1", Node: "a", Tags: "prod", Status: "running"},
		{Type: "qemu", VMID: 100, Name: "web-1", Node: "a", Pool: "p", Tags: "prod", Status: "stopped"},
		{Type: "qemu", VMID: 900, Name: "base", Node: "a", Status: "stopped", Template: true},
		{Type: "node", Node: "a", Status: "online"},
	}
	for _, c := range []struct {
		filter Filter
		exact  bool
		want   []int
	}{
		{Filter{}, false, []int{100, 200, 900}},
		{Filter{Name: "web-*"}, false, []int{100, 200}},
		{Filter{Name: "web-1"}, false, []int{100}},
		{Filter{Name: "["}, false, nil},
		{Filter{Node: "a"}, false, []int{100, 900}},
		{Filter{Pool: "p"}, false, []int{100}},
		{Filter{Tag: "prod"}, false, []int{100, 200}},
		{Filter{Tag: "prod"}, true, []int{100}},
		{Filter{Tag: "pro"}, false, nil},
		{Filter{Status: "running"}, false, []int{200}},
		{Filter{Template: &yes}, false, []int{900}},
		{Filter{Template: &no, Node: "a"}, false, []int{100}},
	} {
		var got []int
		for _, r := range listed.VMs(c.filter, c.exact) {
			got = append(got, r.VMID)
		}
		if len(got) != len(c.want) {
			t.Errorf("%+v: %v, want %v", c.filter, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%+v: %v, want %v", c.filter, got, c.want)
				break
			}
		}
	}
}
