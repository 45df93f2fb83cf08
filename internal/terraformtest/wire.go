package terraformtest

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"github.com/zclconf/go-cty/cty/msgpack"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/printed"
)

// Diagnostic is one message of a provider, or of the driver itself where a provider broke one of Terraform's rules.
type Diagnostic struct {
	Error     bool // an error, otherwise a warning
	Summary   string
	Detail    string
	Attribute string // disks["scsi0"].size, or "" for the whole object
	Address   string // proxmox_vm.web[0], or "provider"
	RPC       string // the protocol's name of the call that brought it: PlanResourceChange
	Violation bool   // the driver's: a rule of Terraform core was broken, which is a bug of the provider
}

// String prints the diagnostic in one block, much as Terraform does.
func (d Diagnostic) String() string {
	kind := "Warning"
	if d.Error {
		kind = "Error"
	}
	where := d.Address
	if d.Attribute != "" {
		where += "." + d.Attribute
	}
	s := fmt.Sprintf("%s: %s (%s, %s)", kind, d.Summary, where, d.RPC)
	if d.Detail != "" {
		s += "\n  " + strings.ReplaceAll(d.Detail, "\n", "\n  ")
	}
	return s
}

// Diagnostics is everything that was said in an operation.
type Diagnostics []Diagnostic

// Errors keeps the errors.
func (ds Diagnostics) Errors() Diagnostics {
	return ds.filter(func(d Diagnostic) bool { return d.Error })
}

// Warnings keeps the warnings.
func (ds Diagnostics) Warnings() Diagnostics {
	return ds.filter(func(d Diagnostic) bool { return !d.Error })
}

// Violations keeps the broken rules.
func (ds Diagnostics) Violations() Diagnostics {
	return ds.filter(func(d Diagnostic) bool { return d.Violation })
}

func (ds Diagnostics) filter(keep func(Diagnostic) bool) Diagnostics {
	var out Diagnostics
	for _, d := range ds {
		if keep(d) {
			out = append(out, d)
		}
	}
	return out
}

// String prints all of them.
func (ds Diagnostics) String() string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// Error is returned by an operation that had at least one error. Diagnostics holds the warnings as well.
type Error struct{ Diagnostics Diagnostics }

// Error prints the diagnostics.
func (e *Error) Error() string { return e.Diagnostics.String() }

// err makes an error of diagnostics if one of them is.
func (ds Diagnostics) err() error {
	if len(ds.Errors()) == 0 {
		return nil
	}
	return &Error{ds}
}

// wireDiagnostics takes in what a provider says. It is the one way for that, so each text is judged here: one that a
// terminal or a shell must not get ends the test.
func wireDiagnostics(rpc, address string, in []*tfprotov6.Diagnostic) Diagnostics {
	var out Diagnostics
	for _, d := range in {
		if d == nil {
			continue
		}
		if wrong := printed.Unsafe(d.Summary + "\n" + d.Detail); len(wrong) > 0 {
			panic(fmt.Sprintf("%s of %s: a diagnostic %s: %q, %q", rpc, address, strings.Join(wrong, "; and it "), d.Summary, d.Detail))
		}
		out = append(out, Diagnostic{
			Error: d.Severity != tfprotov6.DiagnosticSeverityWarning, Summary: d.Summary, Detail: d.Detail,
			Attribute: objchange.PathString(ctyPath(d.Attribute)), Address: address, RPC: rpc,
		})
	}
	return out
}

// failure is an error of the driver's own.
func failure(rpc, address, summary string, err error) Diagnostics {
	return Diagnostics{{Error: true, Summary: summary, Detail: err.Error(), Address: address, RPC: rpc}}
}

// violation reports broken rules under Terraform's own summary.
func violation(rpc, address, summary string, ps objchange.Problems) Diagnostics {
	var out Diagnostics
	for _, p := range ps {
		out = append(out, Diagnostic{
			Error: true, Violation: true, Summary: summary, Detail: p.Text, Attribute: objchange.PathString(p.Path),
			Address: address, RPC: rpc,
		})
	}
	return out
}

// ctyPath translates an attribute path. It ends at an element of a set, which has no address.
func ctyPath(p *tftypes.AttributePath) cty.Path {
	if p == nil {
		return nil
	}
	var out cty.Path
	for _, step := range p.Steps() {
		switch s := step.(type) {
		case tftypes.AttributeName:
			out = out.GetAttr(string(s))
		case tftypes.ElementKeyString:
			out = out.IndexString(string(s))
		case tftypes.ElementKeyInt:
			out = out.IndexInt(int(s))
		default:
			return out
		}
	}
	return out
}

func encode(v cty.Value, ty cty.Type) (*tfprotov6.DynamicValue, error) {
	b, err := msgpack.Marshal(v, ty)
	if err != nil {
		return nil, err
	}
	return &tfprotov6.DynamicValue{MsgPack: b}, nil
}

// decode reads a value of a provider; nothing at all is null.
func decode(dv *tfprotov6.DynamicValue, ty cty.Type) (cty.Value, error) {
	switch {
	case dv == nil || len(dv.MsgPack) == 0 && len(dv.JSON) == 0:
		return cty.NullVal(ty), nil
	case len(dv.MsgPack) > 0:
		return msgpack.Unmarshal(dv.MsgPack, ty)
	default:
		return ctyjson.Unmarshal(dv.JSON, ty)
	}
}
