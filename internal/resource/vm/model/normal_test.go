package model

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// texts is a list of texts.
func texts(all ...string) tftypes.Value {
	var elements []tftypes.Value
	for _, text := range all {
		elements = append(elements, Text(text))
	}
	return tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, elements)
}

// rule is a list of one firewall rule.
func rule(values map[string]tftypes.Value) tftypes.Value {
	typ := tftypes.Object{AttributeTypes: map[string]tftypes.Type{}}
	for name, value := range values {
		typ.AttributeTypes[name] = value.Type()
	}
	return tftypes.NewValue(tftypes.List{ElementType: typ}, []tftypes.Value{tftypes.NewValue(typ, values)})
}

// TestSameValues: two spellings that PVE keeps as one value are the same, whichever of them is configured; others are not.
func TestSameValues(t *testing.T) {
	with := func(name, value string) tftypes.Value { return rule(map[string]tftypes.Value{name: Text(value)}) }
	for name, c := range map[string]struct {
		same  func(a, b tftypes.Value) bool
		a, b  tftypes.Value
		other tftypes.Value
	}{
		"keys with a line end":    {sameKeys, texts("ssh-ed25519 A a\n", ""), texts("ssh-ed25519 A a"), texts("ssh-ed25519 A b")},
		"a macro in another case": {sameRules, with("macro", "SSH"), with("macro", "ssh"), with("macro", "HTTP")},
		"a comment with blanks":   {sameRules, with("comment", " web "), with("comment", "web"), with("comment", "db")},
		"a blank comment":         {sameRules, with("comment", "  "), rule(nil), with("comment", "x")},
		"a rule that counts anyway": {sameRules, rule(map[string]tftypes.Value{"enabled": truth(true)}), rule(nil),
			rule(map[string]tftypes.Value{"enabled": truth(false)})},
	} {
		t.Run(name, func(t *testing.T) {
			if !c.same(c.a, c.b) || !c.same(c.b, c.a) {
				t.Errorf("%s and %s are not the same", c.a, c.b)
			}
			if c.same(c.a, c.other) || c.same(c.other, c.b) {
				t.Errorf("%s and %s are the same", c.a, c.other)
			}
		})
	}
}

// TestSentInNormalForm: tags and keys are sent as PVE keeps them.
func TestSentInNormalForm(t *testing.T) {
	if got := Lowered([]string{"Web;DB", "web"}); !slices.Equal(got, []string{"db", "web"}) {
		t.Errorf("tags %q", got)
	}
	m := Model{CloudInit: &CloudInit{CloudInitOptions: vm.CloudInitOptions{SSHKeys: []string{"ssh-ed25519 A a\n", " "}}}}
	if got := m.Spec(false).CloudInit.SSHKeys; !slices.Equal(got, []string{"ssh-ed25519 A a"}) {
		t.Errorf("keys %q", got)
	}
}

// TestMovedVMIsKnownByItsMACAddresses: in any case of their letters.
func TestMovedVMIsKnownByItsMACAddresses(t *testing.T) {
	moved := Moved{From: "another_vm", Name: "old", MACs: []string{"BC:24:11:00:00:01"}}
	for mac, differs := range map[string]bool{"bc:24:11:00:00:01": false, "BC:24:11:00:00:01": false, "bc:24:11:00:00:02": true} {
		found := guest.Guest{Spec: vm.Spec{Networks: map[string]vm.NIC{"net0": {NICOptions: vm.NICOptions{MACAddr: new(mac)}}}}}
		if said := moved.Differs(found, true); (said != "") != differs {
			t.Errorf("%s: %q", mac, said)
		}
	}
}
