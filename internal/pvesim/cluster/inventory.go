package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// InventoryRoutes are short lists of what a node and a cluster consist of.
func InventoryRoutes() engine.Routes {
	return engine.Routes{
		"GET /nodes/{node}/hardware": engine.SubdirIndex("type", "pci", "usb"),
		"GET /nodes/{node}/scan": engine.SubdirIndex("method", "cifs", "glusterfs", "iscsi", "lvm", "nfs", "pbs",
			"zfs"),
		"GET /nodes/{node}/services":          engine.EmptyList,
		"GET /nodes/{node}/sdn/zones":         engine.EmptyList,
		"GET /nodes/{node}/certificates/info": certificates,
		"GET /cluster/config/nodes":           configNodes,
		"GET /cluster/sdn/vnets/{vnet}": func(r *engine.Request) (any, error) {
			return nil, perl.Die("sdn vnet '%s' does not exist", r.Params["vnet"])
		},
		"PUT /cluster/options": setOptions,
	}
}

// configNodes are the nodes of corosync.conf, which a node of its own has not.
func configNodes(r *engine.Request) (any, error) {
	names, list := engine.NodeNames(r.W), []any{}
	if len(names) == 1 {
		return list, nil
	}
	for i, name := range names {
		list = append(list, map[string]any{"node": name, "name": name, "nodeid": strconv.Itoa(i + 1), "quorum_votes": "1",
			"ring0_addr": r.W.Nodes[name].Address})
	}
	return list, nil
}

// certificates are those of the cluster's authority and of the node (API2/Certificates.pm, info).
func certificates(r *engine.Request) (any, error) {
	const authority = "/CN=Proxmox Virtual Environment/OU=00000000-0000-4000-8000-000000000000/O=PVE Cluster Manager CA"
	n := r.W.Nodes[r.Node()]
	now := r.W.Clock.Now().Unix()
	row := func(file, subject string, bits int, names []string) map[string]any {
		return map[string]any{
			"filename": file, "subject": subject, "issuer": authority, "pem": "",
			"fingerprint":     state.Fingerprint(file + n.Name),
			"public-key-bits": bits, "public-key-type": "rsaEncryption", "san": names,
			"notbefore": now - nodeUptime, "notafter": now + 365*86400,
		}
	}
	own := row("pve-ssl.pem", "/OU=PVE Cluster Node/O=Proxmox Virtual Environment/CN="+n.Name, 2048,
		[]string{"127.0.0.1", "0000:0000:0000:0000:0000:0000:0000:0001", "localhost", n.Address, n.Name})
	own["fingerprint"] = n.Fingerprint()
	return []any{row("pve-root-ca.pem", authority, 4096, []string{}), own}, nil
}

// setOptions is PUT /cluster/options: a part of datacenter.cfg (API2/Cluster.pm, set_options).
func setOptions(r *engine.Request) (any, error) {
	next := maps.Clone(r.W.Options)
	if next == nil {
		next = map[string]string{}
	}
	deletes := perl.ListItems(r.Params["delete"])
	for k, v := range r.Params {
		if k != "delete" {
			next[k] = v
		}
	}
	for _, k := range deletes {
		delete(next, k)
		if k == "keyboard" { // the installer's, which does not come back
			next[k] = ""
		}
	}
	_, tags := r.Params["tag-style"]
	_, ids := r.Params["next-id"]
	if tags || slices.Contains(deletes, "tag-style") {
		r.W.CaseSensitiveTags = perl.Subvalue(next["tag-style"], "case-sensitive", false) == "1"
	}
	if ids || slices.Contains(deletes, "next-id") {
		r.W.NextID.Lower = perl.Number(perl.Subvalue(next["next-id"], "lower", false))
		r.W.NextID.Upper = perl.Number(perl.Subvalue(next["next-id"], "upper", false))
	}
	r.W.Options = next
	return nil, nil
}

// datacenterOptions are the options as they are read: those that are property strings as objects, lists of tags as
// lists (pve-cluster DataCenterConfig.pm, parse_datacenter_config).
func datacenterOptions(w *state.World) map[string]any {
	out := map[string]any{}
	for k, v := range w.Options {
		switch k {
		case "migration", "ha", "crs", "notify", "u2f", "webauthn", "tag-style", "user-tag-access", "next-id", "replication":
			object := map[string]any{}
			for _, part := range strings.Split(v, ",") {
				key, value, ok := strings.Cut(part, "=")
				if !ok {
					key, value = map[string]string{"migration": "type", "ha": "shutdown_policy"}[k], key
				}
				object[key] = value
				if n, isNumber := perl.ParseNumber(value); isNumber && k != "next-id" {
					object[key] = n
				}
				if key == "user-allow-list" {
					object[key] = strings.Split(value, ";")
				}
			}
			out[k] = object
		case "registered-tags":
			out[k] = perl.ListItems(v)
		default:
			out[k] = v
		}
	}
	return out
}

// allowedTags are the tags that the caller may set, as GET /cluster/options lists them (DataCenterConfig.pm,
// get_allowed_tags; pve-manager PVE/GuestHelpers).
func allowedTags(r *engine.Request) []string {
	policy := state.TagPolicyOf(r.W)
	tags := map[string]bool{}
	for _, tag := range policy.Listed {
		tags[tag] = true
	}
	if policy.Existing {
		for id, g := range r.W.Guests {
			if auth.Has(r.W, r.Auth, "/vms/"+strconv.Itoa(id), "VM.Audit") {
				for _, tag := range perl.ListItems(g.Config["tags"]) {
					tags[tag] = true
				}
			}
		}
	}
	if auth.Has(r.W, r.Auth, "/", "Sys.Modify") {
		for _, tag := range policy.Registered {
			tags[tag] = true
		}
	}
	return append([]string{}, slices.Sorted(maps.Keys(tags))...)
}
