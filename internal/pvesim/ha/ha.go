// Package ha is the HA manager: resources, groups, rules, its rounds, and what becomes of nodes that fail.
package ha

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/cluster"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Routes are the routes of HA resources and of the manager's status.
func Routes() engine.Routes {
	return engine.Routes{
		"GET /cluster/ha":                           engine.SubdirIndex("id", "groups", "resources", "status"),
		"GET /cluster/ha/resources":                 listHA,
		"POST /cluster/ha/resources":                createHA,
		"POST /cluster/ha/resources/{sid}/migrate":  moveHA("migrate"),
		"POST /cluster/ha/resources/{sid}/relocate": moveHA("relocate"),
		"GET /cluster/ha/resources/{sid}":           readHA,
		"PUT /cluster/ha/resources/{sid}":           updateHA,
		"DELETE /cluster/ha/resources/{sid}":        deleteHA,
		"GET /cluster/ha/status":                    engine.SubdirIndex("name", "current", "manager_status"),
		"GET /cluster/ha/status/current":            haStatus,
		"GET /cluster/ha/status/manager_status":     managerStatus,
	}
}

// sid is the service id of the path or body: "vm:100", or a bare VMID whose guest tells the type (pve-ha-manager
// HA/Config.pm, parse_sid).
func sid(r *engine.Request) (string, error) {
	sid := r.Params["sid"]
	if strings.Contains(sid, ":") {
		return sid, nil
	}
	if g := r.W.Guests[perl.Number(sid)]; g != nil {
		return engine.HAType(g) + ":" + sid, nil
	}
	return "", perl.Die("unable do detect SID from VMID - VM/CT %s does not exist", sid)
}

// service is the resource that the path names.
func service(r *engine.Request) (*state.HAResource, error) {
	sid, err := sid(r)
	if err != nil {
		return nil, err
	}
	if h := r.W.HA[sid]; h != nil {
		return h, nil
	}
	return nil, perl.Die("no such resource '%s'", sid)
}

func describeHA(w *state.World, h *state.HAResource) map[string]any {
	typ, _, _ := strings.Cut(h.SID, ":")
	row := map[string]any{"sid": h.SID, "type": typ, "state": h.State, "digest": haDigest(w)}
	for k, v := range h.Options {
		if n, ok := perl.ParseNumber(v); ok && k != "comment" {
			row[k] = n
			continue
		}
		row[k] = v
	}
	if h.Group != "" {
		row["group"] = h.Group
	}
	return row
}

// haDigest is the SHA1 of the configuration file of all resources.
func haDigest(w *state.World) string {
	text, _ := json.Marshal(w.HA) // strings only
	sum := sha1.Sum(text)
	return hex.EncodeToString(sum[:])
}

// haOptions are the settings that the manager only keeps here; they are stored as given (pve-ha-manager
// HA/Resources.pm).
var haOptions = []string{"comment", "failback", "max_relocate", "max_restart"}

func setHAOptions(r *engine.Request, h *state.HAResource) {
	options := map[string]string{}
	maps.Copy(options, h.Options)
	for _, k := range haOptions {
		if v, ok := r.Params[k]; ok {
			options[k] = v
		}
		if slices.Contains(perl.ListItems(r.Params["delete"]), k) {
			delete(options, k)
		}
	}
	h.Options = nil
	if len(options) > 0 {
		h.Options = options
	}
}

func listHA(r *engine.Request) (any, error) {
	list := []any{}
	for _, sid := range slices.Sorted(maps.Keys(r.W.HA)) {
		if t := r.Params["type"]; t == "" || strings.HasPrefix(sid, t+":") {
			list = append(list, describeHA(r.W, r.W.HA[sid]))
		}
	}
	return list, nil
}

func createHA(r *engine.Request) (any, error) {
	sid, err := sid(r)
	if err != nil {
		return nil, err
	}
	if err := checkHAGroup(r); err != nil {
		return nil, err
	}
	if err := checkService(r, sid); err != nil {
		return nil, err
	}
	if r.W.HA[sid] != nil {
		return nil, perl.Die("create resource failed: resource ID '%s' already defined", sid)
	}
	h := &state.HAResource{SID: sid, State: haState(r.Params["state"]), Group: r.Params["group"]}
	setHAOptions(r, h)
	r.W.HA[sid] = h
	r.Engine.Round(sid)
	return nil, nil
}

// checkService asks whether there is a guest with the id; that it is of the type is asked by newer ones only
// (HA/Resources/PVEVM.pm and PVECT.pm, verify_name and exists).
func checkService(r *engine.Request, sid string) error {
	typ, id, _ := strings.Cut(sid, ":")
	kind, ok := map[string]string{"vm": "a VM", "ct": "a container"}[typ]
	if !ok {
		return perl.Die("unknown section type '%s'", typ)
	}
	if n, err := strconv.Atoi(id); err != nil || n < 10 {
		return perl.Die("invalid VMID")
	}
	g := r.W.Guests[perl.Number(id)]
	switch {
	case g == nil:
		return perl.Die("resource '%s' does not exist in cluster", sid)
	case engine.HAType(g) != typ && r.W.Has(state.HAChecksType):
		return perl.Die("resource '%s' - guest with ID %s is not %s", sid, id, kind)
	}
	return nil
}

// haState is the requested state as it is stored: "enabled" is the old word for started.
func haState(s string) string {
	if s == "" || s == "enabled" {
		return "started"
	}
	return s
}

func readHA(r *engine.Request) (any, error) {
	h, err := service(r)
	if err != nil {
		return nil, err
	}
	return describeHA(r.W, h), nil
}

func updateHA(r *engine.Request) (any, error) {
	h, err := service(r)
	if err != nil {
		return nil, perl.Die("update resources config failed: %s", perl.Message(err))
	}
	if err := checkHAGroup(r); err != nil {
		return nil, err
	}
	if g := r.Params["group"]; g != "" && r.W.HAGroups[g] == nil {
		return nil, perl.Die("HA group '%s' does not exist", g)
	}
	if want := r.Params["digest"]; want != "" && want != haDigest(r.W) {
		return nil, perl.Die("update resources config failed: detected modified configuration - file changed by other " +
			"user? Try again.")
	}
	for _, k := range perl.ListItems(r.Params["delete"]) {
		if !slices.Contains(append([]string{"group", "state"}, haOptions...), k) {
			return nil, perl.Die("update resources config failed: no such option '%s'", k)
		}
	}
	if h.Failed && r.Params["state"] != "disabled" { // pve-ha-manager API2/HA/Resources.pm check_service_state
		return nil, perl.Die("service '%s' in error state, must be disabled and fixed first", h.SID)
	}
	if s, ok := r.Params["state"]; ok {
		was := h.State
		h.State, h.Failed, h.Failures, h.Tried, h.Leaving = haState(s), false, 0, nil, ""
		if h.State == "ignored" && was != "ignored" {
			h.Leaving = was
		}
	}
	if g, ok := r.Params["group"]; ok {
		h.Group = g
	}
	if slices.Contains(perl.ListItems(r.Params["delete"]), "group") {
		h.Group = ""
	}
	setHAOptions(r, h)
	r.Engine.Round(h.SID)
	return nil, nil
}

func deleteHA(r *engine.Request) (any, error) {
	sid, err := sid(r)
	if err != nil {
		return nil, err
	}
	if r.W.HA[sid] == nil {
		return nil, perl.Die("cannot delete service '%s', not HA managed!", sid)
	}
	state.LeaveHA(r.W, sid, r.Params["purge"] == "" || r.Flag("purge"))
	return nil, nil
}

func haStatus(r *engine.Request) (any, error) {
	node := engine.Home(r.W)
	status := "OK"
	if !cluster.IsQuorate(r.W) {
		status = "No quorum on node '" + node + "'!"
	}
	list := []any{map[string]any{"id": "quorum", "type": "quorum", "status": status,
		"quorate": perl.Flag(cluster.IsQuorate(r.W)), "node": node}}
	for _, sid := range slices.Sorted(maps.Keys(r.W.HA)) {
		h := r.W.HA[sid]
		on := node
		_, id, _ := strings.Cut(sid, ":")
		g := r.W.Guests[perl.Number(id)]
		if g != nil {
			on = g.Node
		}
		now := ServiceState(r.Engine, h, g)
		list = append(list, map[string]any{
			"id": "service:" + sid, "type": "service", "sid": sid, "node": on, "state": now, "request_state": h.State,
			"crm_state": now,
			"status":    sid + " (" + on + ", " + now + ")",
		})
	}
	return list, nil
}

// moveHA files a command for the manager, which it takes up in its next round (pve-ha-manager API2/HA/Resources.pm).
// Newer ones answer what was asked for.
func moveHA(verb string) engine.Func {
	return func(r *engine.Request) (any, error) {
		sid, err := sid(r)
		if err != nil {
			return nil, err
		}
		h := r.W.HA[sid]
		if h == nil || h.State == "ignored" {
			return nil, perl.Die("resource '%s' is not HA managed", sid)
		}
		if h.Failed {
			return nil, perl.Die("service '%s' in error state, must be disabled and fixed first", h.SID)
		}
		h.Command = &state.HACommand{Verb: verb, Node: r.Params["node"]}
		r.Engine.Round(h.SID)
		if !r.W.Has(state.MoveAnswersRequested) {
			return nil, nil
		}
		out := map[string]any{"sid": h.SID, "requested-node": r.Params["node"]}
		if also := companions(r.W, h.SID); len(also) > 0 {
			out["comigrated-resources"] = also
		}
		if blockers := engine.Blockers(blocking(r.Engine, h.SID, r.Params["node"])); len(blockers) > 0 {
			out["blocking-resources"] = blockers
		}
		return out, nil
	}
}

// checkHAGroup refuses a group where there are rules instead (API2/HA/Resources.pm). That it exists is asked in an
// update only.
func checkHAGroup(r *engine.Request) error {
	if r.Params["group"] != "" && r.W.Has(state.GroupsAreRules) {
		return perl.Die("invalid parameter 'group': ha groups have been migrated to rules")
	}
	return nil
}
