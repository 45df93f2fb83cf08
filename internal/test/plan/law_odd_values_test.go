package plan_test

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// attributeKind is what an attribute holds; the others hold true, false or attributes.
type attributeKind int

const (
	textKind    attributeKind = iota
	textsKind                 // a list or a set of texts
	wholeKind                 // a whole number
	decimalKind               // a number
)

// leafAttribute is an attribute that can be configured, and holds texts or a number.
type leafAttribute struct {
	typ, path string // of a resource; "*" for a slot, "#" for an element of a list
	kind      attributeKind
	bounds    []float64 // the numbers in the requirements of its validators
	secret    bool      // sensitive, or write-only
}

// leafAttributes are those of all resources, by their schemas.
func leafAttributes(t *testing.T) (all []leafAttribute) {
	t.Helper()
	for _, make := range rig.Resources(t.Context()) {
		var meta resource.MetadataResponse
		var response resource.SchemaResponse
		r := make()
		r.Metadata(t.Context(), resource.MetadataRequest{ProviderTypeName: "proxmox"}, &meta)
		r.Schema(t.Context(), resource.SchemaRequest{}, &response)
		walkLeaves(t.Context(), meta.TypeName, "", response.Schema.Attributes, &all)
	}
	slices.SortFunc(all, func(a, b leafAttribute) int { return strings.Compare(a.typ+" "+a.path, b.typ+" "+b.path) })
	return all
}

func walkLeaves(ctx context.Context, typ, prefix string, level map[string]schema.Attribute, all *[]leafAttribute) {
	for name, a := range level {
		leaf := leafAttribute{typ: typ, path: prefix + name, secret: a.IsSensitive() || a.IsWriteOnly()}
		if !a.IsOptional() && !a.IsRequired() || leaf.path == "ha.group" { // PVE 9 has no groups
			continue
		}
		switch at := a.(type) {
		case schema.SingleNestedAttribute:
			walkLeaves(ctx, typ, leaf.path+".", at.Attributes, all)
			continue
		case schema.MapNestedAttribute:
			walkLeaves(ctx, typ, leaf.path+".*.", at.NestedObject.Attributes, all)
			continue
		case schema.ListNestedAttribute:
			walkLeaves(ctx, typ, leaf.path+".#.", at.NestedObject.Attributes, all)
			continue
		case schema.StringAttribute:
			leaf.kind = textKind
		case schema.ListAttribute, schema.SetAttribute:
			leaf.kind = textsKind
		case schema.Int64Attribute:
			leaf.kind, leaf.bounds = wholeKind, bounds(ctx, at.Validators)
		case schema.Float64Attribute:
			leaf.kind, leaf.bounds = decimalKind, bounds(ctx, at.Validators)
		default:
			continue
		}
		*all = append(*all, leaf)
	}
}

var numeral = regexp.MustCompile(`-?\d+(\.\d+)?`)

func bounds[V validator.Describer](ctx context.Context, validators []V) (all []float64) {
	for _, v := range validators {
		for _, text := range numeral.FindAllString(v.Description(ctx), -1) {
			f, _, _ := big.ParseFloat(text, 10, 64, big.ToNearestEven)
			bound, _ := f.Float64()
			all = append(all, bound)
		}
	}
	return all
}

// oddTexts are texts that a program easily mistakes, by their oddity.
func oddTexts() map[string]string {
	return map[string]string{
		"empty": "", "blank": " ", "newline only": "\n", "two newlines": "\n\n", "tab only": "\t", "trailing blanks": "odd  ", "leading blank": " odd",
		"trailing newline": "odd\n", "CRLF": "a\r\nb", "tabs": "a\tb\t", "8192 of two bytes": strings.Repeat("é", 8192), "8193 of two bytes": strings.Repeat("é", 8193),
		"emoji": "😀", "percent": "%41", "section": "[snap]", "zero": "0", "double quotes": `say "x"`, "single quote": "it's", "comma": "a,b",
		"equals sign": "a=b", "semicolon": "a;b", "comment": "#a: b", "option": "cores: 7", "backslash": `a\nb`, "control character": "a\x01b",
		"no-break space": "a\u00a0", "direction": "a\u202eb",
	}
}

// oddNumbers are numbers at and beyond the bounds of an attribute, and such as no attribute has a use for.
func oddNumbers(bounds []float64) map[string]cty.Value {
	third := cty.NumberIntVal(1).Divide(cty.NumberIntVal(3))
	tenths := cty.MustParseNumberVal("1.1")
	all := map[string]cty.Value{
		"zero": cty.Zero, "minus one": cty.NumberIntVal(-1), "one third": third, "100/3": cty.NumberIntVal(100).Divide(cty.NumberIntVal(3)),
		"1.1*1.1": tenths.Multiply(tenths), "22 digits": cty.MustParseNumberVal("1234567890123456789012"), "a tenth": cty.MustParseNumberVal("0.1"),
		"22 decimals": cty.MustParseNumberVal("0.3333333333333333333333"), "2**31": cty.NumberIntVal(1 << 31), "2**53+1": cty.NumberIntVal(1<<53 + 1),
		"2**63": cty.MustParseNumberVal("9223372036854775808"), "too large for a float": cty.MustParseNumberVal("1e400"),
		"too small for a float": cty.MustParseNumberVal("1e-400"), "minus a third": third.Negate(), "ten millionths": cty.MustParseNumberVal("0.00001"),
	}
	for _, b := range bounds {
		for _, beside := range []float64{-1, 0, 1} {
			all[fmt.Sprint("bound ", b, " and ", beside)] = cty.NumberFloatVal(b + beside)
		}
	}
	return all
}

// oddValues are the odd values of an attribute, by their oddity.
func (a leafAttribute) oddValues() map[string]cty.Value {
	if a.kind == wholeKind || a.kind == decimalKind {
		return oddNumbers(a.bounds)
	}
	all := map[string]cty.Value{}
	for what, text := range oddTexts() {
		all[what] = cty.StringVal(text)
		if a.kind == textsKind {
			all[what] = cty.ListVal([]cty.Value{all[what]})
		}
	}
	return all
}

// oddBase is a configuration of a resource in which an attribute can be set, its path there, and its plain value;
// cty.NilVal for none.
func (l *oddLaw) oddBase(a leafAttribute, vmid int) (base flat, path string, plain cty.Value) {
	text := cty.StringVal
	switch a.typ {
	case "proxmox_vm":
		return l.oddBaseOfVM(a.path, vmid)
	case "proxmox_disk":
		base = flat{"vmid": cty.NumberIntVal(int64(vmid)), "node": text("pve1"), "storage": text("local"), "size": text("1G"), "description": text("plain"), "pool": text("web")}
	case "proxmox_vm_snapshot":
		base = flat{"vmid": cty.NumberIntVal(8000), "name": text("odd"), "description": text("plain")}
	case "proxmox_ha_rule":
		base = flat{"rule": text("odd"), "type": text("node-affinity"), "resources": cty.ListVal(texts("vm:8000")), "nodes.pve1": cty.NumberIntVal(1), "comment": text("plain")}
		if a.path == "affinity" {
			base = flat{"rule": text("odd"), "type": text("resource-affinity"), "resources": cty.ListVal(texts("vm:8000", "vm:9000")), "affinity": text("negative")}
		}
	case "proxmox_image":
		base = flat{"node": text("pve1"), "storage": text("local"), "url": text(l.files + "/plain.qcow2"), "checksum": text(rig.SHA256([]byte(l.image)))}
		if a.path == "source_file" {
			base.drop("url", "checksum")
			base["file_name"] = text("odd.qcow2")
		}
		if a.path == "url" {
			base["file_name"] = text("odd.qcow2")
		}
	case "proxmox_snippet":
		base = flat{"node": text("pve1"), "storage": text("local"), "name": text("odd.yaml"), "content": text("#cloud-config\n{}\n")}
	case "proxmox_cloud_init_iso":
		base = flat{"node": text("pve1"), "storage": text("local"), "name": text("odd"), "user_data": text("#cloud-config\n{}\n"), "meta_data": text("instance-id: x\n")}
	}
	return base, a.path, base[a.path]
}

func (l *oddLaw) oddBaseOfVM(path string, vmid int) (flat, string, cty.Value) {
	if rule, key, ok := strings.Cut(path, ".#."); ok {
		base, _ := l.changes[rule].configs(vmid)
		switch base[rule] = ruleLists()[1]; key {
		case "sport", "dport", "proto":
			base[rule] = ruleLists()[2]
		case "icmp_type":
			base[rule] = ruleLists()[3]
		}
		return base, path, cty.NilVal
	}
	c, ok := l.changes[path]
	if !ok { // without a change of its own
		c = oneChange{path: strings.ReplaceAll(path, "*", "scsi0"), beside: flat{}}
		switch group, _, _ := strings.Cut(path, "."); group {
		case "restore":
			c.beside = flat{"restore.archive": cty.StringVal(rig.WebBackup), "power_state": cty.NilVal, "ostype": cty.NilVal}
		case "disks":
			c.beside = flat{"disks.scsi0.imported_disk.volume": cty.StringVal("local-lvm:vm-8001-disk-0")}
		case "cpu":
			c.beside = flat{"cpu.type": cty.StringVal("host")}
		}
	}
	base, _ := c.configs(vmid)
	if strings.Contains(path, ".imported_disk.") {
		base.drop("disks.scsi0.size", "disks.scsi0.storage")
	}
	return base, c.path, base[c.path]
}

// addHolder makes VMs that hold a disk for others each.
func addHolder(world *state.World) {
	world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "8002/vm-8002-disk-0.qcow2", Content: "images", VMID: 8002, Format: "qcow2", Size: 2 << 30})
	world.Guests[8002] = &state.Guest{VMID: 8002, Type: "qemu", Node: "pve1", Config: map[string]string{
		"description": rig.HolderDescription(), "scsi0": "local:8002/vm-8002-disk-0.qcow2,size=2G", "memory": "16", "protection": "1"}}
	world.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-8001-disk-0", Content: "images", VMID: 8001, Format: "raw", Size: 4 << 30})
	world.Guests[8001] = &state.Guest{VMID: 8001, Type: "qemu", Node: "pve1", Config: map[string]string{
		"description": rig.HolderDescription(), "scsi0": "local-lvm:vm-8001-disk-0,size=4G", "memory": "16", "protection": "1"}}
}

// withOdd is a configuration with one value, which may stand in a list.
func (f flat) withOdd(path string, v cty.Value) flat {
	f = maps.Clone(f)
	list, key, ok := strings.Cut(path, ".#.")
	if !ok {
		f[path] = v
		return f
	}
	var elements []cty.Value
	for _, element := range f[list].AsValueSlice() {
		values := element.AsValueMap()
		if len(elements) == 0 {
			values[key] = v
		}
		elements = append(elements, cty.ObjectVal(values))
	}
	f[list] = cty.TupleVal(elements)
	return f
}
