package handle

import (
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// migrateCheck is GET migrate: the preconditions (qemu-server API2/Qemu.pm migrate_vm_precondition). A node that may be gone to
// stands in not_allowed_nodes as well, with nothing against it; whether it is up nobody asks.
func migrateCheck(r *Request) (any, error) {
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
	if err := checkLock(g); err != nil {
		return nil, err
	}
	local := r.Server.localResources(g)
	if g.Running != nil && subvalue(g.Config["vga"], "clipboard", false) == "vnc" {
		local.names = append(local.names, "clipboard=vnc")
	}
	allowed, refused := []string{}, map[string]any{}
	for _, name := range nodeNames(r.W) {
		if name == g.Node {
			continue
		}
		row := map[string]any{}
		missing, err := r.missingStorages(g, name)
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			row["unavailable_storages"] = missing
		}
		if keys := local.missing(r.W, name); len(keys) > 0 {
			row["unavailable-resources"] = keys
		}
		refused[name] = row
		if len(row) == 0 {
			allowed = append(allowed, name)
		}
	}
	out := map[string]any{
		"running": boolean(g.Running != nil), "local_disks": r.describeLocal(g), "local_resources": local.names,
		"mapped-resources": local.mappedKeys(), "mapped-resource-info": local.mappedInfo(),
		"allowed_nodes": allowed, "not_allowed_nodes": refused,
	}
	if r.W.Has(state.MigrateTellsHA) && r.managed() != nil {
		out["dependent-ha-resources"] = []string{}
	}
	if r.W.Has(state.MigrateTellsVMState) {
		out["has-dbus-vmstate"] = 1
	}
	return out, nil
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// describeLocal are the volumes on storages that the nodes do not share, each with all that refers to it.
func (r *Request) describeLocal(g *state.Guest) []any {
	list := []any{}
	for _, u := range r.Server.volumesOf(g) {
		storage, _, _ := state.SplitVolid(u.volid)
		if s := r.W.Storages[storage]; s != nil && s.Shared || u.shared || u.cdrom && u.volid == "none" {
			continue
		}
		row := map[string]any{
			"volid": u.volid, "cdrom": boolean(u.cdrom), "replicate": boolean(u.replicate), "shared": 0, "is_unused": boolean(u.unused),
			"is_attached": boolean(u.attached), "is_vmstate": boolean(u.vmstate), "is_tpmstate": boolean(u.tpm),
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

// storageMap is parse_idmap's reading of targetstorage (pve-common JSONSchema.pm): "1" keeps the ids, "from:to" maps one, a bare
// id is for all others.
type storageMap struct {
	identity bool
	fallback string
	pairs    map[string]string
}

func parseStorageMap(text string) (storageMap, error) {
	m := storageMap{pairs: map[string]string{}}
	for _, entry := range splitList(text) {
		from, to, pair := strings.Cut(entry, ":")
		switch {
		case entry == "1":
			m.identity = true
		case pair && m.pairs[from] != "":
			return m, Die("duplicate mapping for source '%s'", from)
		case pair:
			m.pairs[from] = to
		case m.fallback != "":
			return m, Die("default target ID can only be provided once")
		default:
			m.fallback = entry
		}
	}
	if m.identity && (m.fallback != "" || len(m.pairs) > 0) {
		return m, Die("identity mapping cannot be combined with other mappings")
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

// migrate is POST migrate (API2/Qemu.pm migrate_vm).
func migrate(r *Request) (any, error) {
	target := r.Params["target"]
	if target == r.node() {
		return nil, Invalid("target", "target is local node.")
	}
	if r.W.Nodes[target] == nil {
		return nil, Die("no such cluster node '%s'", target)
	}
	for _, k := range []string{"force", "migration_type", "migration_network"} {
		if r.Params[k] != "" && r.Params[k] != "0" && !r.Auth.IsRoot() {
			return nil, Invalid(k, "Only root may use this option.")
		}
	}
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
	if err := checkLock(g); err != nil {
		return nil, err
	}
	if err := r.mayMove(g, target); err != nil {
		return nil, err
	}
	if err := r.checkTargets(g, target); err != nil {
		return nil, err
	}
	if r.managed() != nil {
		return r.askManager("hamigrate", "Requesting HA migration for VM "+itoa(r.vmid())+" to node "+target, func(h *state.HAResource) error {
			h.Command = &state.HACommand{Verb: "migrate", Node: target}
			return nil
		}), nil
	}
	return r.task("qmigrate", func(w *Worker) error { return r.migrateWorker(w, target) }), nil
}

// mayMove refuses to move a running guest unless asked to, and one that is replicated elsewhere.
func (r *Request) mayMove(g *state.Guest, target string) error {
	if g.Running == nil {
		return nil
	}
	if !r.flag("online") {
		return Die("can't migrate running VM without --online")
	}
	if job := r.W.ReplicationOf(g.VMID); job != nil && job.Target != target && !r.flag("force") {
		return Die("Cannot live-migrate replicated VM to node '%s' - not a replication target. Use 'force' to override.", target)
	}
	return nil
}

// checkTargets checks the storages that the disks are to go to.
func (r *Request) checkTargets(g *state.Guest, target string) error {
	if r.Params["targetstorage"] == "" {
		return r.checkStorages(g, target)
	}
	m, err := parseStorageMap(r.Params["targetstorage"])
	if err != nil {
		return Invalid("targetstorage", "failed to parse storage map: "+text(err)+"\n")
	}
	if m.identity {
		return r.checkStorages(g, target)
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
			return Die("%s", err)
		}
		if err := r.Check("/storage/"+id, "Datastore.AllocateSpace"); err != nil {
			return err
		}
		if !s.Has("images") {
			return Die("storage '%s' does not support vm images", id)
		}
	}
	return nil
}
