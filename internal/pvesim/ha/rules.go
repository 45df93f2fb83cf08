package ha

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// RuleRoutes are what took the place of groups (pve-ha-manager API2/HA/Rules.pm).
func RuleRoutes() engine.Routes {
	const base = "/cluster/ha/rules"
	return engine.Routes{
		"GET " + base: listHARules, "POST " + base: createHARule, "GET " + base + "/{rule}": readHARule,
		"PUT " + base + "/{rule}": updateHARule, "DELETE " + base + "/{rule}": deleteHARule,
	}
}

// describeHARule is a rule as the API gives it. An option that is not set is not there: the default of strict is 0,
// which is false to Perl (HA/Rules.pm set_rule_defaults). A rule that PVE does not follow has errors, each
// with its reasons.
func describeHARule(w *state.World, id string) map[string]any {
	row := map[string]any{"rule": id, "digest": rulesDigest(w)}
	for k, v := range w.HARules[id] {
		row[k] = v
		switch n, ok := perl.ParseNumber(v); {
		case ok && (k == "strict" || k == "disable"):
			row[k] = n
		case k == "resources":
			row[k] = strings.Join(slices.Sorted(slices.Values(perl.ListItems(v))), ",")
		case k == "nodes":
			row[k] = describeNodes(v)
		}
	}
	if problems := infeasible(w, w.HARules)[id]; len(problems) > 0 {
		row["errors"] = map[string]any{"resources": problems}
	}
	return row
}

// describeNodes is a list of nodes as the API gives it: sorted, and without the priority 0 (HA/Rules/NodeAffinity.pm
// encode_plugin_value).
func describeNodes(list string) string {
	nodes := slices.Sorted(slices.Values(perl.ListItems(list)))
	for i, node := range nodes {
		nodes[i] = strings.TrimSuffix(node, ":0")
	}
	return strings.Join(nodes, ",")
}

// rulesDigest is the SHA1 of the file of all rules.
func rulesDigest(w *state.World) string {
	text, _ := json.Marshal(w.HARules) // strings only
	sum := sha1.Sum(text)
	return hex.EncodeToString(sum[:])
}

func listHARules(r *engine.Request) (any, error) {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.HARules)) {
		rule := r.W.HARules[id]
		if t := r.Params["type"]; t != "" && rule["type"] != t {
			continue
		}
		if sid := r.Params["resource"]; sid != "" && !slices.Contains(perl.ListItems(rule["resources"]), sid) {
			continue
		}
		list = append(list, describeHARule(r.W, id))
	}
	return list, nil
}

func readHARule(r *engine.Request) (any, error) {
	if r.W.HARules[r.Params["rule"]] == nil {
		return nil, perl.Die("no such ha rule '%s'", r.Params["rule"])
	}
	return describeHARule(r.W, r.Params["rule"]), nil
}

// ruleOptions are the keys of each type (HA/Rules/NodeAffinity.pm, ResourceAffinity.pm); the first of them must be
// there.
func ruleOptions(typ string) (required, optional []string) {
	if typ == "node-affinity" {
		return []string{"resources", "nodes"}, []string{"strict", "disable", "comment"}
	}
	return []string{"resources", "affinity"}, []string{"disable", "comment"}
}

// setHARule checks and takes over what the request says of a rule.
func setHARule(r *engine.Request, rule map[string]string) error {
	required, optional := ruleOptions(rule["type"])
	for _, k := range []string{"resources", "nodes", "strict", "affinity", "disable", "comment"} {
		v, given := r.Params[k]
		if !given {
			continue
		}
		if !slices.Contains(required, k) && !slices.Contains(optional, k) {
			return &perl.Error{Status: 400, Message: "Parameter verification failed.",
				Errors: map[string]string{k: "unexpected property '" + k + "'"}}
		}
		if k == "disable" && v == "0" {
			continue // dropped from the request (API2/HA/Rules.pm): a rule that is disabled stays so
		}
		rule[k] = v
	}
	for _, k := range perl.ListItems(r.Params["delete"]) { // pve-common SectionConfig.pm delete_from_config
		switch {
		case slices.Contains(required, k):
			return perl.Die("unable to delete required option '%s'", k)
		case !slices.Contains(optional, k):
			return perl.Die("no such option '%s'", k)
		case r.Params[k] != "" && (k != "disable" || r.Params[k] != "0"):
			return perl.Die("cannot set and delete property '%s' at the same time!", k)
		}
		delete(rule, k)
	}
	for _, k := range required {
		if rule[k] == "" {
			return perl.Die("missing value for required option '%s'", k)
		}
	}
	return ruleMembers(r, rule)
}

func ruleMembers(r *engine.Request, rule map[string]string) error {
	var unmanaged, unknown []string
	for _, sid := range slices.Sorted(slices.Values(perl.ListItems(rule["resources"]))) {
		if r.W.HA[sid] == nil {
			unmanaged = append(unmanaged, sid)
		}
	}
	if len(unmanaged) > 0 {
		return perl.Die("cannot use unmanaged resource(s) %s.", strings.Join(unmanaged, ", "))
	}
	for _, entry := range slices.Sorted(slices.Values(perl.ListItems(rule["nodes"]))) {
		if name, _, _ := strings.Cut(entry, ":"); r.W.Nodes[name] == nil {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return perl.Die("cannot use non-existent node(s) %s.", strings.Join(unknown, ", "))
	}
	return nil
}

func createHARule(r *engine.Request) (any, error) {
	id := r.Params["rule"]
	if r.W.HARules[id] != nil {
		return nil, perl.Die("create ha rule failed: HA rule '%s' already defined", id)
	}
	rule := map[string]string{"type": r.Params["type"]}
	if err := setHARule(r, rule); err != nil {
		return nil, inLock("create ha rule failed", err)
	}
	if r.W.HARules == nil {
		r.W.HARules = map[string]map[string]string{}
	}
	return nil, putRule(r, id, rule)
}

func updateHARule(r *engine.Request) (any, error) {
	id := r.Params["rule"]
	old := r.W.HARules[id]
	if want := r.Params["digest"]; want != "" && want != rulesDigest(r.W) {
		return nil, perl.Die("update HA rules failed: detected modified configuration - file changed by other user? " +
			"Try again.")
	}
	if old == nil {
		return nil, perl.Die("update HA rules failed: HA rule '%s' does not exist", id)
	}
	rule := maps.Clone(old)
	if err := setHARule(r, rule); err != nil {
		return nil, inLock("update HA rules failed", err)
	}
	return nil, putRule(r, id, rule)
}

func deleteHARule(r *engine.Request) (any, error) {
	delete(r.W.HARules, r.Params["rule"]) // one that does not exist is none, either
	return nil, nil
}

// inLock is an error as lock_ha_domain passes it on: a plain die gets its prefix, a refused parameter comes before the
// lock.
func inLock(prefix string, err error) error {
	if e := (*perl.Error)(nil); errors.As(err, &e) && e.Status != 500 {
		return err
	}
	return perl.Die("%s: %s", prefix, perl.Message(err))
}
