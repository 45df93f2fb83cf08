package lint

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Schema is what a provider accepts: the arguments of its own block, and of each type by the kind of block.
type Schema struct {
	source   string // namespace/type, without a host
	name     string // the local name of the provider where a module does not choose another
	provider *shape
	types    map[string]map[string]*shape
}

// kind is the kind of a value.
type kind int

const (
	leaf kind = iota
	object
	list
	mapping
)

// shape is the form of a value, as far as it has keys.
type shape struct {
	kind       kind
	elem       *shape
	attributes map[string]attribute
}

// attribute is one key of an object.
type attribute struct {
	shape      *shape
	deprecated string // what to use instead, or "deprecated"
}

// NewSchema reads a provider's schema. Address is the source address of the provider.
func NewSchema(address string, from *tfprotov6.GetProviderSchemaResponse) (*Schema, error) {
	for _, d := range from.Diagnostics {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			return nil, fmt.Errorf("read the schema: %s: %s", d.Summary, d.Detail)
		}
	}
	source := withoutHost(address)
	s := &Schema{source: source, name: source[strings.LastIndex(source, "/")+1:], provider: ofBlock(from.Provider.Block)}
	actions := map[string]*tfprotov6.Schema{}
	for name, action := range from.ActionSchemas {
		actions[name] = action.Schema
	}
	s.types = map[string]map[string]*shape{
		"resource": ofBlocks(from.ResourceSchemas), "data": ofBlocks(from.DataSourceSchemas),
		"ephemeral": ofBlocks(from.EphemeralResourceSchemas), "list": ofBlocks(from.ListResourceSchemas),
		"action": ofBlocks(actions),
	}
	return s, nil
}

// withoutHost returns namespace and type of a source address, in lower case, as registries compare them.
func withoutHost(address string) string {
	parts := strings.Split(strings.ToLower(address), "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

func ofBlocks(all map[string]*tfprotov6.Schema) map[string]*shape {
	shapes := map[string]*shape{}
	for name, s := range all {
		shapes[name] = ofBlock(s.Block)
	}
	return shapes
}

func ofBlock(b *tfprotov6.SchemaBlock) *shape {
	s := &shape{kind: object, attributes: ofAttributes(b.Attributes)}
	for _, nested := range b.BlockTypes {
		s.attributes[nested.TypeName] = attribute{shape: ofBlock(nested.Block)}
	}
	return s
}

func ofAttributes(all []*tfprotov6.SchemaAttribute) map[string]attribute {
	attributes := map[string]attribute{}
	for _, a := range all {
		made := attribute{deprecated: a.DeprecationMessage}
		if a.Deprecated && made.deprecated == "" {
			made.deprecated = "deprecated"
		}
		if a.NestedType == nil {
			made.shape = ofType(a.Type)
		} else {
			made.shape = ofObject(a.NestedType)
		}
		attributes[a.Name] = made
	}
	return attributes
}

func ofObject(o *tfprotov6.SchemaObject) *shape {
	inner := &shape{kind: object, attributes: ofAttributes(o.Attributes)}
	switch o.Nesting {
	case tfprotov6.SchemaObjectNestingModeList, tfprotov6.SchemaObjectNestingModeSet:
		return &shape{kind: list, elem: inner}
	case tfprotov6.SchemaObjectNestingModeMap:
		return &shape{kind: mapping, elem: inner}
	default:
		return inner
	}
}

func ofType(t tftypes.Type) *shape {
	switch t := t.(type) {
	case tftypes.List:
		return &shape{kind: list, elem: ofType(t.ElementType)}
	case tftypes.Set:
		return &shape{kind: list, elem: ofType(t.ElementType)}
	case tftypes.Map:
		return &shape{kind: mapping, elem: ofType(t.ElementType)}
	case tftypes.Object:
		inner := &shape{kind: object, attributes: map[string]attribute{}}
		for name, one := range t.AttributeTypes {
			inner.attributes[name] = attribute{shape: ofType(one)}
		}
		return inner
	default:
		return &shape{}
	}
}

// hasKeys reports whether objects with keys of their own are somewhere in values of this shape.
func (s *shape) hasKeys() bool {
	for s.elem != nil {
		s = s.elem
	}
	return s.kind == object
}
