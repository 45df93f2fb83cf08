package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/firewall"
)

func TestFirewallRules(t *testing.T) {
	g := newRig(t, nil)
	const rules = "/qemu/8000/firewall/rules"
	g.steps([]step{
		{"", "POST", rules, "type=in&action=ACCEPT&enable=1&comment=&dest=&source=10.0.0.0/8&proto=tcp&dport=22", "OK"},
		{"", "POST", rules, "type=out&action=DROP&pos=1", "OK"}, // on top all the same
		{"", "POST", rules, "type=in&action=ACCEPT&dport=22", "proto: missing property - 'dport' requires this property"},
		{"", "POST", rules, "type=in&action=ACCEPT&proto=esp&sport=22", "sport: protocol 'esp' does not support ports"},
		{"", "POST", rules, "type=in&action=ACCEPT&proto=nope", "proto: invalid format - unknown protocol 'nope'"},
		{"", "POST", rules, "type=in&action=ACCEPT&proto=7", "proto: invalid format - unknown protocol '7'"},
		{"", "PUT", rules + "/1", "proto=132", "OK"}, {"", "PUT", rules + "/1", "proto=tcp", "OK"},
		{"", "POST", rules, "type=in&action=BURN", "action: unknown action 'BURN'"},
		{"", "POST", rules, "type=in&action=ACCEPT&iface=eth0", `iface: value does not match the regex pattern 'net\d+'`},
		{"", "POST", rules, "type=in&action=ACCEPT&source=%2Babsent", "source: no such ipset 'absent'"},
		{"", "POST", rules, "type=in&action=ACCEPT&dest=absent", "dest: no such alias 'absent'"},
		{"", "PUT", rules + "/1", "delete=proto", "proto: missing property - 'dport' requires this property"},
		{"", "PUT", rules + "/1", "delete=action", "delete: unable to delete required property 'action'"},
		{"", "PUT", rules + "/1", "comment=ssh&source=-&moveto=1", "OK"}, // moved to where it is: a change
		{"", "GET", rules + "/2", "", "no rule at position 2"},
	})
	const token = "root@pam!tf"
	list := g.do(token, "GET", "/nodes/pve1"+rules, "").list()
	one := g.do(token, "GET", "/nodes/pve1"+rules+"/1", "").object(t)
	for _, rule := range append(list, one) {
		delete(rule, "digest")
	}
	second := map[string]any{"type": "in", "action": "ACCEPT", "enable": 1.0, "proto": "tcp", "dport": "22",
		"comment": "ssh", "pos": 1.0}
	want := []map[string]any{{"type": "out", "action": "DROP", "enable": 0.0, "pos": 0.0}, second}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Error(diff)
	}
	second["pos"] = "1" // alone, a rule's position is what stood in the path
	if diff := cmp.Diff(second, one); diff != "" {
		t.Error(diff)
	}
	g.steps([]step{{"", "PUT", rules + "/0", "moveto=2", "OK"}, {"", "DELETE", rules + "/0", "", "OK"}})
	if list = g.do(token, "GET", "/nodes/pve1"+rules, "").list(); len(list) != 1 || list[0]["action"] != "DROP" {
		t.Errorf("after moving the first to the end and removing the other: %v", list)
	}
}

// TestFirewallDigests: a digest is that of the options alone, or of the rules alone, whosever they are; a new rule is
// compared with none.
func TestFirewallDigests(t *testing.T) {
	g := newRig(t, nil)
	const rules, options, none = "/qemu/8000/firewall/rules", "/qemu/8000/firewall/options",
		"da39a3ee5e6b4b0d3255bfef95601890afd80709"
	digest := func(vmid string) (ofOptions, ofRules any) {
		ofOptions = g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/"+vmid+"/firewall/options", "").object(t)["digest"]
		for _, rule := range g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/"+vmid+"/firewall/rules", "").list() {
			ofRules = rule["digest"]
		}
		return ofOptions, ofRules
	}
	g.steps([]step{{"", "POST", "/qemu", "vmid=100", "OK"},
		{"", "POST", rules, "type=in&action=ACCEPT&enable=1&digest=" + none[1:] + "0", "OK"}})
	empty, first := digest("8000")
	if empty != none || first == none {
		t.Errorf("without options %v, with a rule %v", empty, first)
	}
	const changed = "detected modified configuration - file changed by other user? Try again."
	g.steps([]step{
		{"", "PUT", options, "enable=1&digest=" + none, "OK"}, {"", "PUT", options, "dhcp=1&digest=" + none, changed},
		{"", "PUT", rules + "/0", "comment=x&digest=" + none, changed}, {"", "DELETE", rules + "/0", "digest=" + none,
			changed},
		{"", "PUT", "/qemu/100/firewall/options", "enable=1", "OK"}, {"", "POST", "/qemu/100/firewall/rules",
			"type=in&action=ACCEPT&enable=1", "OK"},
	})
	ofOptions, ofRules := digest("8000")
	if hisOptions, hisRules := digest("100"); hisOptions != ofOptions || hisRules != ofRules || ofRules != first {
		t.Errorf("VM 8000 has %v and %v, VM 100 with the same %v and %v", ofOptions, ofRules, hisOptions, hisRules)
	}
}

func TestFirewallAliasesAndIPSets(t *testing.T) {
	g := newRig(t, nil)
	before := string(g.s.Snapshot())
	const fw, set = "/qemu/100/firewall", "/qemu/100/firewall/ipset/good"
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100", "OK"},
		{"", "POST", fw + "/aliases", "name=Home&cidr=10.1.2.3/16&comment=x", "OK"},
		{"", "POST", fw + "/aliases", "name=home&cidr=10.1.0.0/16", "name: alias 'home' already exists"},
		{"", "PUT", fw + "/aliases/HOME", "cidr=10.2.0.0/16&rename=office", "OK"},
		{"", "GET", fw + "/aliases/home", "", "name: no such alias"},
		{"", "POST", fw + "/ipset", "name=good&comment=x", "OK"},
		{"", "POST", fw + "/ipset", "name=good", "name: IPSet 'good' already exists"},
		{"", "POST", set, "cidr=10.1.2.3/16&nomatch=1", "OK"},
		{"", "POST", set, "cidr=10.1.0.0/16", "cidr: address '10.1.0.0/16' already exists"},
		{"", "POST", set, "cidr=10.9.9.9/32&comment=one&nomatch=0", "OK"},
		{"", "POST", set, "cidr=0.0.0.0/0", "cidr: a zero prefix is not allowed in ipset entries"},
		{"", "POST", set, "cidr=office", "OK"},
		{"", "POST", set, "cidr=absent", "no such alias 'absent'"},
		{"", "PUT", set + "/10.1.0.0%2F16", "comment=mine&nomatch=1", "OK"}, // options that are not sent are cleared
		{"", "PUT", set + "/10.3.0.0/16", "comment=mine", "cidr: no such IP/Network"},
		{"", "DELETE", set + "/office", "", "OK"},
		{"", "DELETE", set, "", "IPSet 'good' is not empty"},
		{"", "POST", fw + "/rules", "type=in&action=ACCEPT&source=%2Bgood&dest=guest/office", "OK"},
		{"", "POST", fw + "/ipset", "name=better&rename=good&comment=y", "OK"},
		{"", "GET", set, "", "no such IPSet 'good'"},
	})
	read := func(path string) []map[string]any {
		list := g.do("root@pam!tf", "GET", "/nodes/pve1"+fw+path, "").list()
		for _, row := range list {
			delete(row, "digest")
		}
		return list
	}
	for path, want := range map[string][]map[string]any{
		"/aliases":      {{"name": "office", "cidr": "10.2.0.0/16", "ipversion": 4.0}},
		"/ipset":        {{"name": "better", "comment": "y"}},
		"/ipset/better": {{"cidr": "10.9.9.9", "comment": "one"}, {"cidr": "10.1.0.0/16", "nomatch": 1.0, "comment": "mine"}},
		"/refs": {
			{"type": "ipset", "name": "better", "ref": "+better", "scope": "guest", "comment": "y"},
			{"type": "alias", "name": "office", "ref": "office", "scope": "guest"},
		},
	} {
		if diff := cmp.Diff(want, read(path)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	g.steps([]step{
		{"", "DELETE", fw + "/aliases/office", "", "OK"},
		{"", "DELETE", fw + "/ipset/better?force=1", "", "OK"},
		{"", "DELETE", "/qemu/100", "", "OK"},
	})
	if diff := cmp.Diff(before, string(g.s.Snapshot())); diff != "" {
		t.Error(diff)
	}
}

func TestRuleIPVersion(t *testing.T) {
	for _, c := range []struct {
		rule map[string]string
		want int
	}{
		{map[string]string{"source": "10.0.0.0/8"}, 4},
		{map[string]string{"dest": "10.0.0.1-10.0.0.9"}, 4},
		{map[string]string{"dest": "fd00::1,fd00::2"}, 6},
		{map[string]string{"proto": "icmpv6"}, 6},
		{map[string]string{"proto": "icmp"}, 4},
		{map[string]string{"proto": "tcp"}, 0},
	} {
		if got := firewall.RuleIPVersion(c.rule); got != c.want {
			t.Errorf("%v: %d, want %d", c.rule, got, c.want)
		}
	}
}

func TestHAResourceKeepsItsOptions(t *testing.T) {
	g := newRig(t, nil)
	const token, path = "root@pam!tf", "/cluster/ha/resources"
	digest := ""
	read := func() map[string]any {
		h := g.do(token, "GET", path+"/vm:8000", "").object(t)
		digest, _ = h["digest"].(string)
		delete(h, "digest")
		return h
	}
	if r := g.do(token, "POST", path,
		"sid=vm:8000&state=stopped&comment=12&max_restart=3&max_relocate=0"); r.status != 200 {
		t.Fatal(r.reason)
	}
	want := map[string]any{"sid": "vm:8000", "type": "vm", "state": "stopped", "comment": "12", "max_restart": 3.0,
		"max_relocate": 0.0}
	if diff := cmp.Diff(want, read()); diff != "" {
		t.Error(diff)
	}
	if r := g.do(token, "PUT", path+"/vm:8000", "comment=mine&delete=max_restart&digest="+digest); r.status != 200 {
		t.Fatal(r.reason)
	}
	delete(want, "max_restart")
	want["comment"] = "mine"
	stale := digest
	if diff := cmp.Diff(want, read()); diff != "" {
		t.Error(diff)
	}
	const changed = "update resources config failed: detected modified configuration - file changed by other user? Try " +
		"again."
	if r := g.do(token, "PUT", path+"/vm:8000", "state=started&digest="+stale); r.reason != changed {
		t.Error(r.reason)
	}
}

func TestContentHasATimeOfCreation(t *testing.T) {
	g := newRig(t, nil)
	snapshot := g.s.Snapshot()
	if err := g.s.Load(snapshot); err != nil {
		t.Fatal(err)
	}
	for _, item := range g.do("root@pam!tf", "GET", "/nodes/pve1/storage/local/content", "").list() {
		if ctime, _ := item["ctime"].(float64); ctime < 1e9 {
			t.Errorf("%v: ctime %v", item["volid"], item["ctime"])
		}
	}
}
