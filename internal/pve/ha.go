package pve

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// HAResource is a VM's entry in the HA configuration.
type HAResource struct {
	// Options are those that the entry has: state (started, stopped, disabled, ignored), group (until PVE 8), comment,
	// max_restart, max_relocate, failback (from PVE 9 on); numbers and booleans in their text form.
	Options map[string]string
	// Digest of the HA configuration, which all entries share.
	Digest string
}

// haSID is HA's name of a VM.
func haSID(vmid int) string { return "vm:" + strconv.Itoa(vmid) }

const haPath = "/cluster/ha/resources"

func haOp(verb string, vmid int) string { return verb + " the HA resource " + haSID(vmid) }

// Resource reads a VM's entry; without one it is NotFound. It needs Sys.Audit on /.
func (h HAReader) Resource(ctx context.Context, vmid int) (HAResource, error) {
	w, err := fetch[map[string]wire.String](ctx, h.client, haOp("read", vmid), haPath+"/"+haSID(vmid), nil)
	if err != nil {
		return HAResource{}, err
	}
	entry := HAResource{Options: map[string]string{}, Digest: string(w["digest"])}
	for _, option := range []string{"state", "group", "comment", "max_restart", "max_relocate", "failback"} {
		if value, ok := w[option]; ok {
			entry.Options[option] = string(value)
		}
	}
	return entry, nil
}

// Resources lists the service ids of the HA configuration, "vm:100" and "ct:101". It needs Sys.Audit on /.
func (h HAReader) Resources(ctx context.Context) ([]string, error) {
	return h.client.names(ctx, "list the HA resources", haPath, func(w namedWire) string { return string(w.SID) })
}

// Create puts a VM under HA; p holds its options. It needs Sys.Console on /.
func (h HAClient) Create(ctx context.Context, vmid int, p Params) error {
	all := Params{"sid": haSID(vmid)}
	for k, v := range p {
		all[k] = v
	}
	return h.client.change(ctx, haOp("create", vmid), http.MethodPost, haPath, all)
}

// Update changes a VM's entry; p["delete"] resets options.
func (h HAClient) Update(ctx context.Context, vmid int, p Params) error {
	return h.client.change(ctx, haOp("update", vmid), http.MethodPut, haPath+"/"+haSID(vmid), p)
}

// RemoveGuest takes a VM out of HA; the VM stays as it is.
func (h HAClient) RemoveGuest(ctx context.Context, vmid int) error {
	return h.RemoveEntry(ctx, haSID(vmid))
}

// HARule is a rule by which HA chooses the nodes of its guests. PVE 9.0 and later have them.
type HARule struct {
	// ID is its name, and Type is node-affinity or resource-affinity. Neither can change.
	ID, Type string
	// Resources are HA's names of the guests, "vm:100" and "ct:101", sorted.
	Resources []string
	// Nodes have their priorities, and Strict forbids all other nodes; of node affinity.
	Nodes  map[string]int64
	Strict bool
	// Affinity is positive (together) or negative (apart); of resource affinity.
	Affinity string
	Disabled bool
	Comment  string
	// Problems are the reasons why HA does not follow it, as it is read.
	Problems []string
}

const haRulesPath = "/cluster/ha/rules"

func haRuleOp(verb, id string) string { return verb + " the HA rule " + id }

// haRuleWire is a rule in PVE's answer, which leaves out what is not set (pve-ha-manager API2/HA/Rules.pm
// get_api_ha_rule).
type haRuleWire struct {
	Type      wire.String `json:"type"`
	Resources wire.String `json:"resources"`
	Nodes     wire.String `json:"nodes"`
	Affinity  wire.String `json:"affinity"`
	Comment   wire.String `json:"comment"`
	Strict    wire.Bool   `json:"strict"`
	Disable   wire.Bool   `json:"disable"`
	Digest    wire.String `json:"digest"`
	Rule      wire.String `json:"rule"`

	Errors map[string][]wire.String `json:"errors"`
}

// Rule reads a rule, and the digest of the file that has all rules. It needs Sys.Audit on /.
func (h HAReader) Rule(ctx context.Context, id string) (rule HARule, digest string, err error) {
	w, err := fetch[haRuleWire](ctx, h.client, haRuleOp("read", id), haRulesPath+"/"+id, nil)
	if err != nil {
		return HARule{}, "", err
	}
	return w.rule(id), string(w.Digest), nil
}

// Rules lists the rules. It needs Sys.Audit on /, and fails before PVE 9, which has none.
func (h HAReader) Rules(ctx context.Context) ([]HARule, error) {
	listed, err := fetch[[]haRuleWire](ctx, h.client, "list the HA rules", haRulesPath, nil)
	if err != nil {
		return nil, err
	}
	all := make([]HARule, 0, len(listed))
	for _, w := range listed {
		all = append(all, w.rule(string(w.Rule)))
	}
	return all, nil
}

func (w haRuleWire) rule(id string) HARule {
	rule := HARule{ID: id, Type: string(w.Type), Strict: bool(w.Strict), Affinity: string(w.Affinity),
		Disabled: bool(w.Disable), Comment: string(w.Comment),
		Resources: slices.Sorted(slices.Values(fields(string(w.Resources))))}
	for _, option := range slices.Sorted(maps.Keys(w.Errors)) {
		for _, reason := range w.Errors[option] {
			rule.Problems = append(rule.Problems, option+": "+string(reason))
		}
	}
	for _, entry := range fields(string(w.Nodes)) {
		if rule.Nodes == nil {
			rule.Nodes = map[string]int64{}
		}
		node, priority, _ := strings.Cut(entry, ":")
		rule.Nodes[node], _ = strconv.ParseInt(priority, 10, 64) // none is 0 (HA/Tools.pm parse_node_priority)
	}
	return rule
}

// fields splits a list as PVE does (pve-common Tools.pm split_list).
func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(",; \t\n\x00", r) })
}

// params are the options that a rule has, and the names of those that it could have and has not. One that is not
// disabled says nothing of it: an update would pass over disable=0, and before pve-ha-manager 5.0.4 a rule with
// disable 0 counted as disabled (API2/HA/Rules.pm update_rule, HA/Rules.pm foreach_rule).
func (r HARule) params() (set Params, unset []string) {
	set = Params{"type": r.Type, "resources": strings.Join(r.Resources, ",")}
	flags := map[string]bool{"disable": r.Disabled}
	if r.Affinity != "" {
		set["affinity"] = r.Affinity
	} else {
		var nodes []string
		for _, node := range slices.Sorted(maps.Keys(r.Nodes)) {
			nodes = append(nodes, node+":"+strconv.FormatInt(r.Nodes[node], 10))
		}
		set["nodes"], flags["strict"] = strings.Join(nodes, ","), r.Strict
	}
	for _, option := range slices.Sorted(maps.Keys(flags)) {
		if flags[option] {
			set[option] = "1"
		} else {
			unset = append(unset, option)
		}
	}
	if r.Comment != "" {
		set["comment"] = r.Comment
	} else {
		unset = append(unset, "comment")
	}
	return set, unset
}

// CreateRule makes a rule. An id that is taken is Exists. It needs Sys.Console on /.
func (h HAClient) CreateRule(ctx context.Context, r HARule) error {
	set, _ := r.params()
	set["rule"] = r.ID
	return h.client.change(ctx, haRuleOp("create", r.ID), http.MethodPost, haRulesPath, set)
}

// UpdateRule writes all options of a rule, if the file with the rules has that digest. It needs Sys.Console on /.
func (h HAClient) UpdateRule(ctx context.Context, r HARule, digest string) error {
	set, unset := r.params()
	set["digest"] = digest
	if len(unset) > 0 {
		set["delete"] = strings.Join(unset, ",") // resets options of the user's own plan, and destroys nothing
	}
	return h.client.change(ctx, haRuleOp("update", r.ID), http.MethodPut, haRulesPath+"/"+r.ID, set)
}
