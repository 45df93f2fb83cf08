package server

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// answer is the reason of a reply, or the one parameter that it refuses.
func answer(r reply) string {
	for k, v := range r.body.Errors {
		return k + ": " + strings.TrimSpace(v)
	}
	return r.reason
}

// TestFirewallOfClusterAndNodes: the cluster, its nodes, its groups and containers have rules, each with the types and
// options of its place, and a guest's rule may use what the cluster defines.
func TestFirewallOfClusterAndNodes(t *testing.T) {
	g := newRig(t, nil)
	const cluster, node, group, ct = "/cluster/firewall", "/nodes/pve1/firewall", "/cluster/firewall/groups", "/nodes/pve1/lxc/8100/firewall"
	for _, s := range []struct{ method, path, params, want string }{
		{"POST", cluster + "/aliases", "name=office&cidr=10.1.0.0/16&comment=c", "OK"},
		{"POST", cluster + "/ipset", "name=trusted", "OK"},
		{"POST", cluster + "/ipset/trusted", "cidr=office", "OK"},
		{"POST", cluster + "/rules", "type=forward&action=DROP&source=%2Btrusted", "OK"},
		{"POST", cluster + "/rules", "type=forward&action=REJECT", "action: cannot define REJECT rules on forward chain"},
		{"POST", cluster + "/rules", "type=in&action=ACCEPT&source=absent", "source: no such alias 'absent'"},
		{"POST", "/nodes/pve1/qemu/8000/firewall/rules", "type=in&action=ACCEPT&source=dc/office", "OK"},
		{"POST", ct + "/rules", "type=in&action=ACCEPT&source=office&iface=net0", "OK"},
		{"POST", ct + "/rules", "type=forward&action=ACCEPT", "type: invalid rule type 'forward' for rule_env 'ct'"},
		{"PUT", ct + "/options", "enable=1&ipfilter=1", "OK"},
		{"PUT", cluster + "/options", "enable=1&policy_in=ACCEPT&log_ratelimit=enable=1,rate=5/second", "OK"},
		{"PUT", cluster + "/options", "delete=nosmurfs", "delete: no such option 'nosmurfs'"},
		{"PUT", node + "/options", "nosmurfs=0&nf_conntrack_max=100000", "OK"},
		{"PUT", node + "/options", "delete=policy_in", "delete: no such option 'policy_in'"},
		{"POST", node + "/rules", "type=in&action=ACCEPT&iface=vmbr0&macro=SSH", "OK"},
		{"POST", node + "/rules", "type=group&action=web", "OK"},
		{"POST", group, "group=web", "OK"},
		{"POST", group, "group=web", "group: Security group 'web' already exists"},
		{"POST", group + "/none", "type=in&action=ACCEPT", "no such security group 'none'"},
		{"GET", group + "/none", "", "no such security group 'none'"},
		{"POST", group + "/web", "type=in&action=ACCEPT&macro=HTTP&enable=1", "OK"},
		{"POST", group + "/web", "type=in&action=ACCEPT&iface=net0", "type: parameter -i not allowed for this rule type"},
		{"POST", group + "/web", "type=group&action=web", "type: invalid rule type 'group' for rule_env 'group'"},
		{"PUT", group + "/web/0", "comment=http", "OK"},
		{"DELETE", group + "/web", "", "Security group 'web' is not empty"},
		{"POST", group, "group=web2&rename=web&comment=second", "OK"},
		{"GET", group + "/web2/1", "", "no rule at position 1"},
		{"DELETE", group + "/web", "", "no such security group 'web'"},
	} {
		if got := answer(g.do("root", s.method, s.path, s.params)); got != s.want {
			t.Errorf("%s %s %s: %q, want %q", s.method, s.path, s.params, got, s.want)
		}
	}
	if list := g.do("root", "GET", group+"/web2", "").list(); len(list) != 1 || list[0]["macro"] != "HTTP" || list[0]["comment"] != "http" {
		t.Errorf("the rules of the renamed group: %v", list)
	}
	if list := g.do("root", "GET", node+"/rules", "").list(); len(list) != 2 || list[0]["action"] != "web2" || list[1]["iface"] != "vmbr0" {
		t.Errorf("the rules of the node: %v", list)
	}
	if list := g.do("root", "GET", "/nodes/pve2/firewall/rules", "").list(); len(list) != 0 {
		t.Errorf("the other node has rules: %v", list)
	}
	if o := g.do("root", "GET", cluster+"/options", "").object(t); o["enable"] != 1.0 || o["log_ratelimit"] != "enable=1,rate=5/second" {
		t.Errorf("the options of the cluster: %v", o)
	}
	if o := g.do("root", "GET", node+"/options", "").object(t); o["nosmurfs"] != 0.0 || o["nf_conntrack_max"] != 1e5 {
		t.Errorf("the options of the node: %v", o)
	}
	scopes := map[any]int{}
	for _, row := range g.do("root", "GET", "/nodes/pve1/qemu/8000/firewall/refs", "").list() {
		scopes[row["scope"]]++
	}
	if scopes["dc"] != 2 || len(scopes) != 1 {
		t.Errorf("the names that a guest's rule may use: %v", scopes)
	}
	g.s.Do(func(w *state.World) {
		if f := w.Firewall[8100]; f == nil || f.Options["ipfilter"] != "1" {
			t.Errorf("the file of the container: %+v", f)
		}
	})
}

// TestFirewallEnableTwice: enable above 1 is a time, by which a client guards against locking itself out (API2/Firewall/
// Cluster.pm, set_options).
func TestFirewallEnableTwice(t *testing.T) {
	g := newRig(t, nil)
	g.do("root", "PUT", "/cluster/firewall/options", "enable=2")
	if o := g.do("root", "GET", "/cluster/firewall/options", "").object(t); o["enable"] != float64(g.clock.Now().Unix()) {
		t.Errorf("enable is %v", o["enable"])
	}
}
