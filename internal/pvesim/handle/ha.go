package handle

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func haRoutes() Routes {
	return Routes{
		"GET /cluster/ha":                           subdirIndex("id", "groups", "resources", "status"),
		"GET /cluster/ha/resources":                 listHA,
		"POST /cluster/ha/resources":                createHA,
		"POST /cluster/ha/resources/{sid}/migrate":  moveHA("migrate"),
		"POST /cluster/ha/resources/{sid}/relocate": moveHA("relocate"),
		"GET /cluster/ha/resources/{sid}":           readHA,
		"PUT /cluster/ha/resources/{sid}":           updateHA,
		"DELETE /cluster/ha/resources/{sid}":        deleteHA,
		"GET /cluster/ha/status":                    subdirIndex("name", "current", "manager_status"),
		"GET /cluster/ha/status/current":            haStatus,
		"GET /cluster/ha/status/manager_status":     managerStatus,
	}
}

// sid is the service id of the path or body: "vm:100", or a bare VMID whose guest tells the type (pve-ha-manager HA/Config.pm,
// parse_sid).
func (r *Request) sid() (string, error) {
	sid := r.Params["sid"]
	if strings.Contains(sid, ":") {
		return sid, nil
	}
	if g := r.W.Guests[number(sid)]; g != nil {
		return haType(g) + ":" + sid, nil
	}
	return "", Die("unable do detect SID from VMID - VM/CT %s does not exist", sid)
}

// service is the resource that the path names.
func (r *Request) service() (*state.HAResource, error) {
	sid, err := r.sid()
	if err != nil {
		return nil, err
	}
	if h := r.W.HA[sid]; h != nil {
		return h, nil
	}
	return nil, Die("no such resource '%s'", sid)
}

func describeHA(w *state.World, h *state.HAResource) map[string]any {
	typ, _, _ := strings.Cut(h.SID, ":")
	row := map[string]any{"sid": h.SID, "type": typ, "state": h.State, "digest": haDigest(w)}
	for k, v := range h.Options {
		if n, ok := isNumber(v); ok && k != "comment" {
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

// haOptions are the settings that the manager only keeps here; they are stored as given (pve-ha-manager HA/Resources.pm).
var haOptions = []string{"comment", "failback", "max_relocate", "max_restart"}

func (r *Request) setHAOptions(h *state.HAResource) {
	options := map[string]string{}
	maps.Copy(options, h.Options)
	for _, k := range haOptions {
		if v, ok := r.Params[k]; ok {
			options[k] = v
		}
		if slices.Contains(listItems(r.Params["delete"]), k) {
			delete(options, k)
		}
	}
	h.Options = nil
	if len(options) > 0 {
		h.Options = options
	}
}

func listHA(r *Request) (any, error) {
	list := []any{}
	for _, sid := range slices.Sorted(maps.Keys(r.W.HA)) {
		if t := r.Params["type"]; t == "" || strings.HasPrefix(sid, t+":") {
			list = append(list, describeHA(r.W, r.W.HA[sid]))
		}
	}
	return list, nil
}

func createHA(r *Request) (any, error) {
	sid, err := r.sid()
	if err != nil {
		return nil, err
	}
	if err := r.checkHAGroup(); err != nil {
		return nil, err
	}
	if err := r.checkService(sid); err != nil {
		return nil, err
	}
	if r.W.HA[sid] != nil {
		return nil, Die("create resource failed: resource ID '%s' already defined", sid)
	}
	h := &state.HAResource{SID: sid, State: haState(r.Params["state"]), Group: r.Params["group"]}
	r.setHAOptions(h)
	r.W.HA[sid] = h
	r.Server.round(sid)
	return nil, nil
}

// checkService asks whether there is a guest with the id; that it is of the type is asked by newer ones only (HA/Resources/PVEVM.pm and
// PVECT.pm, verify_name and exists).
func (r *Request) checkService(sid string) error {
	typ, id, _ := strings.Cut(sid, ":")
	kind, ok := map[string]string{"vm": "a VM", "ct": "a container"}[typ]
	if !ok {
		return Die("unknown section type '%s'", typ)
	}
	if n, err := strconv.Atoi(id); err != nil || n < 10 {
		return Die("invalid VMID")
	}
	g := r.W.Guests[number(id)]
	switch {
	case g == nil:
		return Die("resource '%s' does not exist in cluster", sid)
	case haType(g) != typ && r.W.Has(state.HAChecksType):
		return Die("resource '%s' - guest with ID %s is not %s", sid, id, kind)
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

func readHA(r *Request) (any, error) {
	h, err := r.service()
	if err != nil {
		return nil, err
	}
	return describeHA(r.W, h), nil
}

func updateHA(r *Request) (any, error) {
	h, err := r.service()
	if err != nil {
		return nil, err
	}
	if err := r.checkHAGroup(); err != nil {
		return nil, err
	}
	if g := r.Params["group"]; g != "" && r.W.HAGroups[g] == nil {
		return nil, Die("HA group '%s' does not exist", g)
	}
	if want := r.Params["digest"]; want != "" && want != haDigest(r.W) {
		return nil, Die("update resources config failed: detected modified configuration - file changed by other user? Try again.")
	}
	for _, k := range listItems(r.Params["delete"]) {
		if !slices.Contains(append([]string{"group", "state"}, haOptions...), k) {
			return nil, Die("update resources config failed: no such option '%s'", k)
		}
	}
	if s, ok := r.Params["state"]; ok {
		if h.Failed && s != "disabled" {
			return nil, Die("service '%s' in error state, must be disabled and fixed first", h.SID)
		}
		h.State, h.Failed, h.Failures, h.Tried = haState(s), false, 0, nil
	}
	if g, ok := r.Params["group"]; ok {
		h.Group = g
	}
	if slices.Contains(listItems(r.Params["delete"]), "group") {
		h.Group = ""
	}
	r.setHAOptions(h)
	r.Server.round(h.SID)
	return nil, nil
}

func deleteHA(r *Request) (any, error) {
	sid, err := r.sid()
	if err != nil {
		return nil, err
	}
	if r.W.HA[sid] == nil {
		return nil, Die("cannot delete service '%s', not HA managed!", sid)
	}
	delete(r.W.HA, sid)
	return nil, nil
}

func haStatus(r *Request) (any, error) {
	node := home(r.W)
	status := "OK"
	if !isQuorate(r.W) {
		status = "No quorum on node '" + node + "'!"
	}
	list := []any{map[string]any{"id": "quorum", "type": "quorum", "status": status, "quorate": flag(isQuorate(r.W)), "node": node}}
	for _, sid := range slices.Sorted(maps.Keys(r.W.HA)) {
		h := r.W.HA[sid]
		on := node
		_, id, _ := strings.Cut(sid, ":")
		g := r.W.Guests[number(id)]
		if g != nil {
			on = g.Node
		}
		now := r.Server.serviceState(h, g)
		list = append(list, map[string]any{
			"id": "service:" + sid, "type": "service", "sid": sid, "node": on, "state": now, "request_state": h.State, "crm_state": now,
			"status": sid + " (" + on + ", " + now + ")",
		})
	}
	return list, nil
}

// moveHA files a command for the manager, which it takes up in its next round (pve-ha-manager API2/HA/Resources.pm). Newer
// ones answer what was asked for.
func moveHA(verb string) Func {
	return func(r *Request) (any, error) {
		sid, err := r.sid()
		if err != nil {
			return nil, err
		}
		h := r.W.HA[sid]
		if h == nil || h.State == "ignored" {
			return nil, Die("resource '%s' is not HA managed", sid)
		}
		if h.Failed {
			return nil, Die("service '%s' in error state, must be disabled and fixed first", h.SID)
		}
		h.Command = &state.HACommand{Verb: verb, Node: r.Params["node"]}
		r.Server.round(h.SID)
		if !r.W.Has(state.MoveAnswersRequested) {
			return nil, nil
		}
		return map[string]any{"sid": h.SID, "requested-node": r.Params["node"]}, nil
	}
}

// checkHAGroup refuses a group where there are rules instead (API2/HA/Resources.pm). That it exists is asked in an update only.
func (r *Request) checkHAGroup() error {
	if r.Params["group"] != "" && r.W.Has(state.GroupsAreRules) {
		return Die("invalid parameter 'group': ha groups have been migrated to rules")
	}
	return nil
}
