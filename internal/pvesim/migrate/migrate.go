// Package migrate moves virtual machines to other nodes (qemu-server QemuMigrate.pm).
package migrate

import (
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Check is GET migrate: the preconditions (qemu-server API2/Qemu.pm migrate_vm_precondition). A node that may be gone
// to stands in not_allowed_nodes as well, with nothing against it; whether it is up is not asked.
func Check(r *engine.Request) (any, error) {
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	if err := guest.CheckLock(g); err != nil {
		return nil, err
	}
	local := localResources(r.Engine, g)
	if g.Running != nil && perl.Subvalue(g.Config["vga"], "clipboard", false) == "vnc" {
		local.names = append(local.names, "clipboard=vnc")
	}
	dependent, blockers := []string{}, map[string][]string{}
	if h := power.Managed(r); h != nil && r.W.Has(state.MigrateTellsHA) {
		var also []string
		also, blockers = r.Engine.Config.Hooks.Motion(r.Engine, h.SID)
		dependent = append(dependent, also...)
	}
	allowed, refused := []string{}, map[string]any{}
	for _, name := range engine.NodeNames(r.W) {
		if name == g.Node {
			continue
		}
		row := map[string]any{}
		missing, err := missingStorages(r, g, name)
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			row["unavailable_storages"] = missing
		}
		if keys := local.missing(r.W, name); len(keys) > 0 {
			row["unavailable-resources"] = keys
		}
		if rows := engine.Blockers(blockers[name]); len(rows) > 0 {
			row["blocking-ha-resources"] = rows
		}
		refused[name] = row
		if len(row) == 0 {
			allowed = append(allowed, name)
		}
	}
	out := map[string]any{
		"running": perl.Flag(g.Running != nil), "local_disks": describeLocal(r, g), "local_resources": local.names,
		"mapped-resources": local.mappedKeys(), "mapped-resource-info": local.mappedInfo(),
		"allowed_nodes": allowed, "not_allowed_nodes": refused,
	}
	if r.W.Has(state.MigrateTellsHA) && power.Managed(r) != nil {
		out["dependent-ha-resources"] = dependent
	}
	if r.W.Has(state.MigrateTellsVMState) {
		out["has-dbus-vmstate"] = 1
	}
	return out, nil
}

// describeLocal are the volumes on storages that the nodes do not share, each with all that refers to it.
func describeLocal(r *engine.Request, g *state.Guest) []any {
	list := []any{}
	for _, u := range volumesOf(r.Engine, g) {
		storage, _, _ := state.SplitVolid(u.volid)
		if s := r.W.Storages[storage]; s != nil && s.Shared || u.shared || u.cdrom && u.volid == "none" {
			continue
		}
		row := map[string]any{
			"volid": u.volid, "cdrom": perl.Flag(u.cdrom), "replicate": perl.Flag(u.replicate), "shared": 0,
			"is_unused":   perl.Flag(u.unused),
			"is_attached": perl.Flag(u.attached), "is_vmstate": perl.Flag(u.vmstate), "is_tpmstate": perl.Flag(u.tpm),
		}
		if u.drive != "" {
			row["drivename"] = u.drive
		}
		if u.size > 0 {
			row["size"] = u.size
		}
		if u.pending {
			row["referenced_in_pending"] = 1
		}
		snaps := map[string]any{}
		for _, name := range u.snaps {
			snaps[name] = 1
		}
		if len(snaps) > 0 {
			row["referenced_in_snapshot"] = snaps
		}
		list = append(list, row)
	}
	return list
}

// storageMap is parse_idmap's reading of targetstorage (pve-common JSONSchema.pm): "1" keeps the ids, "from:to" maps
// one, a bare id is for all others.
type storageMap struct {
	identity bool
	fallback string
	pairs    map[string]string
}

func parseStorageMap(text string) (storageMap, error) {
	m := storageMap{pairs: map[string]string{}}
	for _, entry := range perl.SplitList(text) {
		from, to, pair := strings.Cut(entry, ":")
		switch {
		case entry == "1":
			m.identity = true
		case pair && m.pairs[from] != "":
			return m, perl.Die("duplicate mapping for source '%s'", from)
		case pair:
			m.pairs[from] = to
		case m.fallback != "":
			return m, perl.Die("default target ID can only be provided once")
		default:
			m.fallback = entry
		}
	}
	if m.identity && (m.fallback != "" || len(m.pairs) > 0) {
		return m, perl.Die("identity mapping cannot be combined with other mappings")
	}
	return m, nil
}

func (m storageMap) target(storage string) string {
	switch {
	case m.pairs[storage] != "":
		return m.pairs[storage]
	case m.fallback != "":
		return m.fallback
	}
	return storage
}

// Migrate is POST migrate (API2/Qemu.pm migrate_vm).
func Migrate(r *engine.Request) (any, error) {
	target := r.Params["target"]
	if target == r.Node() {
		return nil, perl.Invalid("target", "target is local node.")
	}
	if r.W.Nodes[target] == nil {
		return nil, perl.Die("no such cluster node '%s'", target)
	}
	for _, k := range []string{"force", "migration_type", "migration_network"} {
		if r.Params[k] != "" && r.Params[k] != "0" && !r.Auth.IsRoot() {
			return nil, perl.Invalid(k, "Only root may use this option.")
		}
	}
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	if err := guest.CheckLock(g); err != nil {
		return nil, err
	}
	if err := mayMove(r, g, target); err != nil {
		return nil, err
	}
	if err := checkTargets(r, g, target); err != nil {
		return nil, err
	}
	if power.Managed(r) != nil {
		return power.AskManager(r, "hamigrate", "Requesting HA migration for VM "+strconv.Itoa(r.VMID())+" to node "+target,
			func(w *engine.Worker, h *state.HAResource) error {
				h.Command = &state.HACommand{Verb: "migrate", Node: target}
				return keptApart(r, w, h.SID, target)
			}), nil
	}
	return guest.Fork(r, "qmigrate", func(w *engine.Worker) error { return Run(r, w, target) }), nil
}

// keptApart is how the command line of HA, which a task runs, ends where a rule keeps the guest from the node, although
// the request is filed (pve-ha-manager CLI/ha_manager.pm, print_resource_motion_output).
func keptApart(r *engine.Request, w *engine.Worker, sid, target string) error {
	if !r.W.Has(state.MigrateTellsHA) {
		return nil
	}
	_, blockers := r.Engine.Config.Hooks.Motion(r.Engine, sid)
	if len(blockers[target]) == 0 {
		return nil
	}
	w.Logf("cannot migrate resource '%s' to node '%s':", sid, target)
	w.Logf("")
	for _, other := range blockers[target] {
		w.Logf("- resource '%s' on target node '%s' in negative affinity with resource '%s'", other, target, sid)
	}
	return perl.Die("command 'ha-manager migrate %s %s' failed: exit code 255", sid, target)
}

// mayMove refuses to move a running guest unless asked to, and one that is replicated elsewhere.
func mayMove(r *engine.Request, g *state.Guest, target string) error {
	if g.Running == nil {
		return nil
	}
	if !r.Flag("online") {
		return perl.Die("can't migrate running VM without --online")
	}
	if r.W.ReplicationOf(g.VMID) != nil && state.ReplicationTo(r.W, g.VMID, target) == nil && !r.Flag("force") {
		return perl.Die("Cannot live-migrate replicated VM to node '%s' - not a replication target. Use 'force' to override.",
			target)
	}
	return nil
}

// checkTargets checks the storages that the disks are to go to.
func checkTargets(r *engine.Request, g *state.Guest, target string) error {
	if r.Params["targetstorage"] == "" {
		return checkStorages(r, g, target)
	}
	m, err := parseStorageMap(r.Params["targetstorage"])
	if err != nil {
		return perl.Invalid("targetstorage", "failed to parse storage map: "+perl.Message(err)+"\n")
	}
	if m.identity {
		return checkStorages(r, g, target)
	}
	if err := r.Check("/vms/"+r.Params["vmid"], "VM.Config.Disk"); err != nil {
		return err
	}
	ids := []string{}
	for _, to := range m.pairs {
		ids = append(ids, to)
	}
	if m.fallback != "" {
		ids = append(ids, m.fallback)
	}
	for _, id := range ids {
		s, err := r.W.StorageEnabled(target, id)
		if err != nil {
			return perl.Die("%s", err)
		}
		if err := r.Check("/storage/"+id, "Datastore.AllocateSpace"); err != nil {
			return err
		}
		if !s.Has("images") {
			return perl.Die("storage '%s' does not support vm images", id)
		}
	}
	return nil
}
