package plan_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// otherResource is a resource that is no VM: a configuration of it, and for each attribute a change.
type otherResource struct {
	who        rig.Identity
	base       flat
	anotherOne flat // what replaces it; nil: nothing does
	changes    map[string]oneChange
}

// othersShare is the part of the rows of TestLawUnknownsOfOthers that `make test` plays.
const othersShare = 16

// TestLawUnknownsOfOthers holds every attribute of every other resource to the law of unknown values, at create, update
// and replacement, each also while the provider's endpoint is not known.
func TestLawUnknownsOfOthers(t *testing.T) {
	t.Parallel()
	all := otherResources(t)
	for _, make := range rig.Resources(t.Context()) {
		var meta resource.MetadataResponse
		var response resource.SchemaResponse
		r := make()
		r.Metadata(t.Context(), resource.MetadataRequest{ProviderTypeName: "proxmox"}, &meta)
		r.Schema(t.Context(), resource.SchemaRequest{}, &response)
		if meta.TypeName == "proxmox_vm" {
			continue
		}
		t.Run(meta.TypeName, func(t *testing.T) {
			t.Parallel()
			of, ok := all[meta.TypeName]
			if !ok {
				t.Fatal("the law has no configuration of it")
			}
			rows := of.rows(t, meta.TypeName, response.Schema.Attributes)
			outcomes := carryOutRows(t, rows, othersShare)
			t.Logf("%d rows; of this share %d hold, %d more are refused as the known value is, and %d begin with null where that is refused",
				len(rows), outcomes[holds], outcomes[refusedToo], outcomes[noBeginning])
			if len(rows) < 30 {
				t.Errorf("%d rows, want at least 30", len(rows))
			}
		})
	}
}

// rows are those of all attributes that can be configured.
func (o otherResource) rows(t *testing.T, typ string, attributes map[string]schema.Attribute) (all []unknownRow) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := attributes[name]
		if _, ok := o.changes[name]; !ok && (a.IsOptional() || a.IsRequired()) {
			t.Errorf("%s has no example value", name)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(o.changes)) {
		c := o.changes[what]
		name, _, _ := strings.Cut(what, ", ")
		before := maps.Clone(o.base)
		for path, v := range c.beside {
			before[path] = v
		}
		if c.from != cty.NilVal {
			before[name] = c.from
		}
		maps.DeleteFunc(before, func(_ string, v cty.Value) bool { return v == cty.NilVal })
		without := before.with(name, cty.NullVal(cty.DynamicPseudoType))
		after := without
		if c.to != cty.NilVal {
			after = before.with(name, c.to)
		}
		all = append(all, o.rowsOf(typ+"."+what, name, before, after, without)...)
	}
	return all
}

// rowsOf are the rows of one attribute.
func (o otherResource) rowsOf(title, name string, before, after, without flat) (all []unknownRow) {
	for _, noEndpoint := range []bool{false, true} {
		add := func(what string, before, known flat) {
			if noEndpoint {
				what += ", endpoint"
			}
			row := unknownRow{name: title + ": " + what, before: before, open: known.with(name, cty.DynamicVal), known: known,
				address: strings.Split(title, ".")[0] + ".it", who: o.who, noEndpoint: noEndpoint}
			all = append(all, row)
			if noEndpoint {
				row.name, row.open = row.name+" alone", known
				all = append(all, row)
			}
		}
		add("made with a value", nil, before)
		add("made with null", nil, without)
		add("the same", before, before)
		add("another", before, after)
		add("null", before, without)
		add(afterNull, without, before)
		for what, known := range map[string]flat{"the same": before, "another": after, "null": without} {
			if elsewhere := maps.Clone(known); o.anotherOne != nil && !o.anotherOne.has(name) {
				maps.Copy(elsewhere, o.anotherOne)
				add(what+" in a replacement", before, elsewhere)
			}
		}
	}
	slices.SortFunc(all, func(a, b unknownRow) int { return strings.Compare(a.name, b.name) })
	return all
}

// otherResources are the resources, by their types.
func otherResources(t *testing.T) map[string]otherResource {
	t.Helper()
	text, none := cty.StringVal, cty.NilVal
	change := func(from, to cty.Value) oneChange { return oneChange{from: from, to: to} }
	node, times := change(text("pve1"), text("pve2")), change(cty.ObjectVal(map[string]cty.Value{"create": text("9m")}), none)
	storage := change(text("local"), none)
	place := flat{"node": text("pve1"), "storage": text("local")}
	with := func(f flat) flat { g := maps.Clone(place); maps.Copy(g, f); return g }
	return map[string]otherResource{
		"proxmox_disk": {base: with(flat{"vmid": cty.NumberIntVal(0), "size": text("1G")}), changes: map[string]oneChange{
			"vmid": change(cty.NumberIntVal(0), cty.NumberIntVal(1)), "node": {from: node.from, to: node.to, beside: flat{"storage": text("local-zfs")}},
			"storage": change(text("local"), text("local-zfs")), "size": change(text("1G"), text("2G")),
			"format": change(text("raw"), text("qcow2")), "name": change(text("one"), text("two")),
			"description": change(text("a"), text("b")), "pool": change(text("web"), none), "timeouts": times}},
		"proxmox_vm_snapshot": {base: flat{"vmid": cty.NumberIntVal(8000), "name": text("odd")}, anotherOne: flat{"name": text("odd2")},
			changes: map[string]oneChange{"vmid": change(cty.NumberIntVal(8000), cty.NumberIntVal(8001)), "name": change(text("odd"), text("odd3")),
				"uuid":        change(text(uuidOf8000), text("11111111-2222-3333-4444-555555555555")),
				"description": change(text("a"), text("b")), "vmstate": change(cty.False, none), "timeouts": times}},
		"proxmox_ha_rule": {base: flat{"rule": text("odd"), "type": text("node-affinity"), "resources": cty.ListVal(texts("vm:8000")),
			"nodes": cty.MapVal(map[string]cty.Value{"pve1": cty.NumberIntVal(1)})}, anotherOne: flat{"rule": text("odd2")},
			changes: map[string]oneChange{"rule": change(text("odd"), text("odd3")), "type": change(text("node-affinity"), text("resource-affinity")),
				"resources": change(cty.ListVal(texts("vm:8000")), cty.ListVal(texts("vm:8000", "vm:9000"))),
				"nodes":     change(cty.MapVal(map[string]cty.Value{"pve1": cty.NumberIntVal(1)}), cty.MapVal(map[string]cty.Value{"pve2": cty.NumberIntVal(1)})),
				"strict":    change(cty.True, cty.False), "disable": change(cty.True, cty.False), "comment": change(text("a"), text("b")),
				"affinity": {from: text("negative"), to: text("positive"), beside: flat{"type": text("resource-affinity"), "nodes": none,
					"resources": cty.ListVal(texts("vm:8000", "vm:9000"))}}, "timeouts": times}},
		"proxmox_image": otherImage(t, with),
		"proxmox_snippet": {who: rig.TokenSSH, base: with(flat{"name": text("odd.yaml"), "content": text("#cloud-config\n{}\n")}),
			anotherOne: flat{"name": text("odd2.yaml")}, changes: map[string]oneChange{"node": node, "storage": storage,
				"name": change(text("odd.yaml"), text("odd3.yaml")), "content": change(text("#cloud-config\n{}\n"), text("#cloud-config\na: 1\n")),
				"kind": change(text("user-data"), text("vendor-data")), "timeouts": times}},
		"proxmox_cloud_init_iso": {base: with(flat{"name": text("odd"), "user_data": text("#cloud-config\n{}\n"), "meta_data": text("instance-id: x\n")}),
			changes: map[string]oneChange{"node": node, "storage": storage, "name": change(text("odd"), text("odd3")),
				"user_data": change(text("#cloud-config\n{}\n"), text("#cloud-config\na: 1\n")),
				"meta_data": change(text("instance-id: x\n"), text("instance-id: y\n")), "network_config": change(text("version: 2\n"), none),
				"vendor_data": change(text("#cloud-config\n{}\n"), none), "timeouts": times}},
	}
}

// otherImage is proxmox_image, with two files to download and two to upload.
func otherImage(t *testing.T, with func(flat) flat) otherResource {
	t.Helper()
	text, none := cty.StringVal, cty.NilVal
	one, two := rig.QCOW2("one"), rig.QCOW2("two")
	url := rig.ServeFiles(t, map[string][]byte{"/odd1.qcow2": one, "/odd2.qcow2": two, "/odd.iso": []byte("an ISO image"), "/odd.img": one})
	dir := t.TempDir()
	for name, data := range map[string][]byte{"odd1.qcow2": one, "odd2.qcow2": two} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	iso := flat{"content": text("iso"), "url": text(url + "/odd.iso")}
	upload := flat{"url": none, "source_file": text(filepath.Join(dir, "odd1.qcow2"))}
	return otherResource{base: with(flat{"url": text(url + "/odd1.qcow2")}), anotherOne: flat{"file_name": text("odd9.qcow2")},
		changes: map[string]oneChange{"node": {from: text("pve1"), to: text("pve2")}, "storage": {from: text("local")},
			"content":     {from: text("iso"), to: text("import"), beside: flat{"url": text(url + "/odd.img"), "file_name": text("odd.img")}},
			"url":         {from: text(url + "/odd1.qcow2"), to: text(url + "/odd2.qcow2")},
			"source_file": {from: text(filepath.Join(dir, "odd1.qcow2")), to: text(filepath.Join(dir, "odd2.qcow2")), beside: flat{"url": none}},
			"checksum":    {from: text(rig.SHA256(one))}, "compression": {from: none, beside: iso},
			"verify_certificates": {from: cty.True, to: cty.False}, "file_name": {from: text("odd3.qcow2"), to: text("odd4.qcow2")},
			"url, of an upload": {beside: upload}, "verify_certificates, of an upload": {beside: upload}, "source_file, of a download": {},
			"compression, of an import": {}, "timeouts.create, alone": {from: text("9m"), to: text("8m")},
			"on_destroy": {from: text("delete"), to: text("keep")}, "timeouts": {from: cty.ObjectVal(map[string]cty.Value{"create": text("9m")})}}}
}

// forgetOthers takes out of a cluster what the rows have made.
func forgetOthers(world *state.World) {
	clear(world.HARules)
	for _, sid := range []string{"vm:8000", "vm:9000"} { // of which a rule may speak
		world.HA[sid] = &state.HAResource{SID: sid, State: "ignored"}
	}
	for id := range world.Guests {
		if id != 8000 && id != 8001 && id != 9000 {
			forget(world, id)
		}
	}
	for key := range world.Volumes {
		if strings.Contains(key.Name, "odd") {
			delete(world.Volumes, key)
		}
	}
	for id, g := range map[int]*state.Guest{8000: world.Guests[8000], 8001: world.Guests[8001]} {
		if maps.DeleteFunc(g.Snaps, func(name string, _ map[string]string) bool { return name != "before" }); id == 8000 {
			g.Config["parent"] = "before"
		} else {
			delete(g.Config, "parent")
		}
	}
}
