package firewall

import (
	"maps"
	"slices"
)

// Planner works out the requests that lead from one list of rules to another.
type Planner func(has, want []Listed) []Edit

// Edit is one request that changes a list of rules, and the list that it leads to.
type Edit struct {
	Verb  string // add, change, move, delete
	At    int    // position on the server, for all but add, which PVE puts on top
	To    int    // where move brings the rule, in PVE's count: before the rule that is there now
	Set   Listed // the rule, for add and change
	Rule  int    // number of the wanted rule, from 1; 0 for delete
	After []Listed
}

// accepts tells whether a rule may let something pass; a security group may do both.
func accepts(r Listed) bool { return isOn(r) && (r["action"] == "ACCEPT" || r["type"] == "group") }

// refuses tells whether a rule may stop something.
func refuses(r Listed) bool { return isOn(r) && r["action"] != "ACCEPT" }

func isOn(r Listed) bool { return r["enable"] == "1" }

// PlanPlainly leads from one list to another while the firewall is off: with as few requests as rules differ. PVE
// puts a new rule on top, so a list grows from its end upwards; rules in excess go from the end.
func PlanPlainly(has, want []Listed) []Edit {
	p := rulePlan{want: want, nodes: nodesOf(has)}
	for len(p.nodes) > len(want) {
		p.remove(len(p.nodes) - 1)
	}
	missing := len(want) - len(p.nodes)
	for at := range p.nodes {
		if !sameRule(p.nodes[at].rule, want[missing+at]) {
			p.change(at, missing+at)
		}
	}
	for k := missing - 1; k >= 0; k-- {
		p.nodes = slices.Insert(p.nodes, 0, ruleNode{want[k], k, -1})
		p.note(Edit{Verb: "add", Set: want[k], Rule: k + 1})
	}
	return p.edits
}

// PlanSafely leads from one list to another while the firewall is on, so that traffic that passes before and after
// passes all the time. A rule that refuses never comes before the accepting ones that go before it in its list. No
// accepting rule goes before all wanted ones are there. So additions come first, those that refuse last, and
// deletions after. A new rule that is not to be the first is put on top switched off, moved to its place, and then
// switched on.
func PlanSafely(has, want []Listed) []Edit {
	p := rulePlan{want: want, nodes: nodesOf(has)}
	p.align()
	p.pair()
	p.changeWhere(func(now, next Listed) bool { return sameButRemarks(now, next) || !accepts(now) && !refuses(next) })
	for k, r := range want {
		if at := p.replacing(k); at < 0 && !p.has(k) && !refuses(r) {
			p.insert(k)
		}
	}
	p.replaceAccepting()
	for k, r := range want {
		switch at := p.replacing(k); {
		case p.has(k):
		case at < 0:
			p.insert(k)
		case !accepts(p.nodes[at].rule):
			p.change(at, k)
		case accepts(r): // a security group in the place of what accepts
			p.nodes[at].next = -1
			p.insert(k)
		}
	}
	p.removeOld()
	return p.edits
}

// rulePlan is a list of rules on its way.
type rulePlan struct {
	want  []Listed
	nodes []ruleNode
	edits []Edit
}

// ruleNode is a rule in the list: want is which wanted one it is, -1 for none; next is the one that takes its place,
// -1 for none.
type ruleNode struct {
	rule       Listed
	want, next int
}

func nodesOf(rules []Listed) []ruleNode {
	all := make([]ruleNode, len(rules))
	for i, r := range rules {
		all[i] = ruleNode{r, -1, -1}
	}
	return all
}

// note adds a request that has led to the list as it is now.
func (p *rulePlan) note(e Edit) {
	for _, n := range p.nodes {
		e.After = append(e.After, n.rule)
	}
	p.edits = append(p.edits, e)
}

func (p *rulePlan) change(at, k int) {
	p.nodes[at] = ruleNode{p.want[k], k, -1}
	p.note(Edit{Verb: "change", At: at, Set: p.want[k], Rule: k + 1})
}

func (p *rulePlan) remove(at int) {
	p.nodes = slices.Delete(p.nodes, at, at+1)
	p.note(Edit{Verb: "delete", At: at})
}

// align finds the rules that stay: a longest common subsequence.
func (p *rulePlan) align() {
	n, m := len(p.nodes), len(p.want)
	length := make([][]int, n+1)
	for i := range length {
		length[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for k := m - 1; k >= 0; k-- {
			if length[i][k] = max(length[i+1][k], length[i][k+1]); sameRule(p.nodes[i].rule, p.want[k]) {
				length[i][k] = length[i+1][k+1] + 1
			}
		}
	}
	for i, k := 0, 0; i < n && k < m; {
		switch {
		case sameRule(p.nodes[i].rule, p.want[k]):
			p.nodes[i].want = k
			i, k = i+1, k+1
		case length[i+1][k] > length[i][k+1]: // else a new rule is rather the first one
			i++
		default:
			k++
		}
	}
}

// pair has wanted rules take the places of those that go, where both stand between the same rules that stay.
func (p *rulePlan) pair() {
	k := 0
	for i := range p.nodes {
		if p.nodes[i].want >= 0 {
			k = p.nodes[i].want + 1
			continue
		}
		if k < len(p.want) && !p.has(k) {
			p.nodes[i].next = k
			k++
		}
	}
}

func (p *rulePlan) has(k int) bool {
	return slices.ContainsFunc(p.nodes, func(n ruleNode) bool { return n.want == k })
}

// replacing is the position of the rule whose place a wanted one takes, -1 for none.
func (p *rulePlan) replacing(k int) int {
	return slices.IndexFunc(p.nodes, func(n ruleNode) bool { return n.next == k })
}

func (p *rulePlan) changeWhere(may func(now, next Listed) bool) {
	for at, n := range p.nodes {
		if n.next >= 0 && may(n.rule, p.want[n.next]) {
			p.change(at, n.next)
		}
	}
}

// removeOld takes out the rules that are not wanted, or has the last wanted ones take their places. Rules that only
// refuse go first, then the rest from the end. So no rule that refuses is ever without the accepting rules that came
// before it.
func (p *rulePlan) removeOld() {
	for _, all := range []bool{false, true} {
		for at := len(p.nodes) - 1; at >= 0; at-- {
			switch n := p.nodes[at]; {
			case n.want >= 0 || !all && accepts(n.rule):
			case n.next >= 0:
				p.change(at, n.next)
			default:
				p.remove(at)
			}
		}
	}
}

// replaceAccepting changes accepting rules into other accepting ones, where no traffic that the old one let pass
// waits for another wanted rule, or comes to an old one that refuses. Elsewhere the new rule is put beside the old
// one, which goes in the end.
func (p *rulePlan) replaceAccepting() {
	for {
		var waiting []int
		for at, n := range p.nodes {
			if n.next >= 0 && accepts(n.rule) && accepts(p.want[n.next]) && !refuses(p.want[n.next]) {
				waiting = append(waiting, at)
			}
		}
		if len(waiting) == 0 {
			return
		}
		which := slices.IndexFunc(waiting, func(at int) bool { return p.isReplaceable(at, waiting) })
		if which >= 0 {
			p.change(waiting[which], p.nodes[waiting[which]].next)
			continue
		}
		k := p.nodes[waiting[0]].next
		p.nodes[waiting[0]].next = -1
		p.insert(k)
	}
}

// isReplaceable tells whether an accepting rule may be changed in its place.
func (p *rulePlan) isReplaceable(at int, waiting []int) bool {
	for _, other := range waiting {
		if other != at && !areDisjoint(p.nodes[at].rule, p.want[p.nodes[other].next]) {
			return false
		}
	}
	return !p.lacksAccepting() && !slices.ContainsFunc(p.nodes[at+1:], func(n ruleNode) bool {
		return n.want < 0 &&
			refuses(n.rule)
	})
}

// lacksAccepting tells whether a security group is still to come, which may accept anything.
func (p *rulePlan) lacksAccepting() bool {
	for k, r := range p.want {
		if accepts(r) && refuses(r) && !p.has(k) {
			return true
		}
	}
	return false
}

// insert puts a wanted rule behind those that go before it.
func (p *rulePlan) insert(k int) {
	at := 0
	for i, n := range p.nodes {
		if order := max(n.want, n.next); order >= 0 && order < k {
			at = i + 1
		}
	}
	wanted := p.want[k]
	if at == 0 {
		p.nodes = slices.Insert(p.nodes, 0, ruleNode{wanted, k, -1})
		p.note(Edit{Verb: "add", Set: wanted, Rule: k + 1})
		return
	}
	off := maps.Clone(wanted)
	off["enable"] = "0"
	node := ruleNode{off, k, -1}
	rest := p.nodes
	p.nodes = slices.Insert(slices.Clone(rest), 0, node)
	p.note(Edit{Verb: "add", Set: off, Rule: k + 1})
	p.nodes = slices.Insert(slices.Clone(rest), at, node)
	p.note(Edit{Verb: "move", At: 0, To: at + 1, Rule: k + 1})
	if isOn(wanted) {
		p.change(at, k)
	}
}

// sameButRemarks tells whether two rules stop and let pass the same.
func sameButRemarks(a, b Listed) bool {
	bare := func(r Listed) Listed {
		r = maps.Clone(r)
		delete(r, "comment")
		delete(r, "log")
		return r
	}
	return sameRule(bare(a), bare(b))
}

// areDisjoint tells whether it is certain that no packet is meant by both rules.
func areDisjoint(a, b Listed) bool {
	if a["type"] != b["type"] && a["type"] != "group" && b["type"] != "group" {
		return true
	}
	differ := func(name string) bool { return a[name] != "" && b[name] != "" && a[name] != b[name] }
	isPort := func(s string) bool {
		return s != "" && len(s) <= 5 && !slices.ContainsFunc([]byte(s), func(c byte) bool { return c < '0' || c > '9' })
	}
	return differ("proto") || a["proto"] != "" && differ("dport") && isPort(a["dport"]) && isPort(b["dport"])
}
