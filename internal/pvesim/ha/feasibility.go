package ha

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// putRule stores a rule, unless it could not be followed beside the others (API2/HA/Rules.pm, $assert_feasibility).
func putRule(r *engine.Request, id string, rule map[string]string) error {
	next := maps.Clone(r.W.HARules)
	if next == nil {
		next = map[string]map[string]string{}
	}
	next[id] = rule
	if problems := infeasible(r.W, next)[id]; len(problems) > 0 {
		return &perl.Error{Status: 400, Message: "Rule '" + id + "' is invalid.",
			Errors: map[string]string{"resources": strings.Join(problems, ", ")}}
	}
	r.W.HARules = next
	return nil
}

// ruleSet are rules by kind, those in force only.
type ruleSet struct{ nodes, positive, negative map[string]map[string]bool }

func resourcesOf(rule map[string]string) map[string]bool {
	set := map[string]bool{}
	for _, sid := range perl.ListItems(rule["resources"]) {
		set[sid] = true
	}
	return set
}

func sortRules(rules map[string]map[string]string) ruleSet {
	s := ruleSet{map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]map[string]bool{}}
	for id, rule := range rules {
		switch {
		case rule["disable"] == "1":
		case rule["type"] == "node-affinity":
			s.nodes[id] = resourcesOf(rule)
		case rule["affinity"] == "positive":
			s.positive[id] = resourcesOf(rule)
		default:
			s.negative[id] = resourcesOf(rule)
		}
	}
	return s
}

func common(a, b map[string]bool) (n int) {
	for sid := range a {
		n += perl.Flag(b[sid])
	}
	return n
}

// clusters are positive rules that share resources, with all of these (HA/Rules/Helpers.pm,
// find_disjoint_rules_resource_sets).
func clusters(rules map[string]map[string]bool) (ids [][]string, sets []map[string]bool) {
	for _, id := range slices.Sorted(maps.Keys(rules)) {
		members, set := []string{id}, maps.Clone(rules[id])
		for i := len(sets) - 1; i >= 0; i-- {
			if common(sets[i], set) > 0 {
				members = append(ids[i], members...)
				maps.Copy(set, sets[i])
				ids, sets = slices.Delete(ids, i, i+1), slices.Delete(sets, i, i+1)
			}
		}
		ids, sets = append(ids, members), append(sets, set)
	}
	return ids, sets
}

// infeasible says of each rule why it cannot be followed (HA/Rules.pm, check_feasibility, and the checks that
// NodeAffinity.pm and ResourceAffinity.pm register).
func infeasible(w *state.World, rules map[string]map[string]string) map[string][]string {
	found, s := map[string][]string{}, sortRules(rules)
	add := func(text string, ids ...string) {
		for _, id := range ids {
			found[id] = append(found[id], text)
		}
	}
	checkReferences(s, add)
	for _, set := range []map[string]map[string]bool{s.positive, s.negative} {
		for _, id := range slices.Sorted(maps.Keys(set)) {
			if len(set[id]) < 2 {
				add("rule is ineffective as there are less than two resources", id)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.negative)) {
		if len(s.negative[id]) > len(w.Nodes) {
			add("rule defines more resources than available nodes", id)
		}
	}
	ids, sets := clusters(s.positive)
	for i, set := range sets {
		for _, id := range slices.Sorted(maps.Keys(s.negative)) {
			if common(set, s.negative[id]) >= 2 {
				add("rule shares two or more resources with a positive resource affinity rule", id)
				add("rule shares two or more resources with a negative resource affinity rule", ids[i]...)
			}
		}
	}
	checkPriorities(rules, s, add)
	checkNodeRules(rules, s, add)
	return found
}

// checkReferences finds resources that more than one node affinity rule is about.
func checkReferences(s ruleSet, add func(text string, ids ...string)) {
	of := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		for sid := range s.nodes[id] {
			of[sid] = append(of[sid], id)
		}
	}
	for _, sid := range slices.Sorted(maps.Keys(of)) {
		if len(of[sid]) > 1 {
			add("resource '"+sid+"' is already used in another node affinity rule", of[sid]...)
		}
	}
}

// checkPriorities refuses nodes of several priorities for resources that belong together or apart.
func checkPriorities(rules map[string]map[string]string, s ruleSet, add func(text string, ids ...string)) {
	all := maps.Clone(s.positive)
	maps.Copy(all, s.negative)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		var paired []string
		several := false
		for _, other := range slices.Sorted(maps.Keys(s.nodes)) {
			if common(all[id], s.nodes[other]) > 0 {
				paired = append(paired, other)
				several = several || priorities(rules[other]) > 1
			}
		}
		if several {
			add("resources are in node affinity rules with multiple priorities", id)
			add("resources are in a resource affinity rule and cannot be in a node affinity rule with multiple priorities",
				paired...)
		}
	}
}

// checkNodeRules refuses node affinity rules that contradict those about resources.
func checkNodeRules(rules map[string]map[string]string, s ruleSet, add func(text string, ids ...string)) {
	ids, sets := clusters(s.positive)
	for i, set := range sets {
		if paired, _, _ := pairedRules(rules, s, set); len(paired) > 1 {
			add("resources are in multiple node affinity rules", ids[i]...)
			add("at least one resource is in a positive resource affinity rule and there are other resources in at least one "+
				"other node affinity rule already", paired...)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.negative)) {
		if paired, located, nodes := pairedRules(rules, s, s.negative[id]); nodes < located {
			add("two or more resources are restricted to less nodes than available to the resources", id)
			add("at least one resource is in a negative resource affinity rule and this rule would restrict these to less "+
				"nodes than available to the resources", paired...)
		}
	}
}

// pairedRules are the node affinity rules about some of the resources, with how many of these, and on how many nodes.
func pairedRules(rules map[string]map[string]string, s ruleSet, set map[string]bool) (paired []string, located,
	nodes int) {
	resources, where := map[string]bool{}, map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		if common(set, s.nodes[id]) == 0 {
			continue
		}
		paired = append(paired, id)
		for sid := range s.nodes[id] {
			if set[sid] {
				resources[sid] = true
			}
		}
		for _, entry := range perl.ListItems(rules[id]["nodes"]) {
			node, _ := classOf(entry)
			where[node] = true
		}
	}
	return paired, len(resources), len(where)
}

func priorities(rule map[string]string) int {
	classes := map[string]bool{}
	for _, entry := range perl.ListItems(rule["nodes"]) {
		_, class := classOf(entry)
		classes[strconv.Itoa(class)] = true
	}
	return len(classes)
}

// feasibleRules are those that the manager follows: the others it drops (HA/Rules.pm, transform).
func feasibleRules(w *state.World) map[string]map[string]string {
	rules := maps.Clone(w.HARules)
	for id := range infeasible(w, rules) {
		delete(rules, id)
	}
	maps.DeleteFunc(rules, func(_ string, rule map[string]string) bool { return rule["disable"] == "1" })
	return rules
}

// nodeRule is the rule about where a service runs: one about itself, or about a service that it belongs to.
func nodeRule(rules map[string]map[string]string, sid string) map[string]string {
	related, _ := affinities(rules, sid)
	related = maps.Clone(related)
	related[sid] = true
	for _, id := range slices.Sorted(maps.Keys(rules)) {
		if rules[id]["type"] == "node-affinity" && common(related, resourcesOf(rules[id])) > 0 {
			return rules[id]
		}
	}
	return nil
}

// affinities are the services that one belongs to, and those that it, or one that it belongs to, keeps from.
func affinities(rules map[string]map[string]string, sid string) (positive, negative map[string]bool) {
	positive, negative = map[string]bool{}, map[string]bool{}
	s := sortRules(rules)
	_, sets := clusters(s.positive)
	for _, set := range sets {
		if set[sid] {
			maps.Copy(positive, set)
		}
	}
	own := maps.Clone(positive)
	own[sid] = true
	delete(positive, sid)
	for _, set := range s.negative {
		if common(own, set) > 0 {
			for other := range set {
				if !own[other] {
					negative[other] = true
				}
			}
		}
	}
	return positive, negative
}
