package terraformtest

import (
	"fmt"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// module is a parsed configuration: one root module, one provider without aliases.
type module struct {
	provider  hcl.Attributes
	local     string                    // the provider's name in the configuration
	variables map[string]hcl.Expression // default, nil for none
	locals    map[string]hcl.Expression
	blocks    map[string]*block
	actions   map[string]*block // by address: action.proxmox_vm_power.off
	outputs   map[string]hcl.Expression
}

// block is a resource or data block.
type block struct {
	addr           string // proxmox_vm.web, data.proxmox_node.one
	data           bool
	typ, name      string
	attrs          hcl.Attributes
	count, forEach hcl.Expression
	ignore         []hcl.Traversal
	preventDestroy bool
	createFirst    bool            // create_before_destroy
	triggers       []hcl.Traversal // actions
	deps           []string        // blocks it refers to, also through locals
	explicit       []hcl.Traversal
}

func newModule() *module {
	return &module{
		variables: map[string]hcl.Expression{}, locals: map[string]hcl.Expression{},
		blocks: map[string]*block{}, actions: map[string]*block{}, outputs: map[string]hcl.Expression{},
	}
}

// parse adds one file to the module.
func (m *module) parse(filename, src string) error {
	file, diags := hclsyntax.ParseConfig([]byte(src), filename, hcl.InitialPos)
	if diags.HasErrors() {
		return diags
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return fmt.Errorf("%s: not native HCL", filename)
	}
	for name := range body.Attributes {
		return fmt.Errorf("%s: unexpected argument %q outside of a block", filename, name)
	}
	for _, b := range body.Blocks {
		if err := m.add(b); err != nil {
			return fmt.Errorf("%s: %w", b.DefRange(), err)
		}
	}
	return m.link()
}

func (m *module) add(b *hclsyntax.Block) error {
	switch {
	case b.Type == "terraform":
		return nil // versions and backends mean nothing here
	case b.Type == "provider" && len(b.Labels) == 1:
		attrs, diags := b.Body.JustAttributes()
		if diags.HasErrors() {
			return diags
		}
		if attrs["alias"] != nil || m.provider != nil {
			return fmt.Errorf("one provider block without an alias, please")
		}
		m.provider, m.local = attrs, b.Labels[0]
		return nil
	case b.Type == "variable" && len(b.Labels) == 1:
		m.variables[b.Labels[0]] = nil
		if a := b.Body.Attributes["default"]; a != nil {
			m.variables[b.Labels[0]] = a.Expr
		}
		return nil
	case b.Type == "locals":
		for name, a := range b.Body.Attributes {
			m.locals[name] = a.Expr
		}
		return nil
	case b.Type == "output" && len(b.Labels) == 1:
		a := b.Body.Attributes["value"]
		if a == nil {
			return fmt.Errorf("output %s has no value", b.Labels[0])
		}
		m.outputs[b.Labels[0]] = a.Expr
		return nil
	case (b.Type == "resource" || b.Type == "data") && len(b.Labels) == 2:
		return m.addBlock(b)
	case b.Type == "action" && len(b.Labels) == 2:
		return m.addAction(b)
	}
	return fmt.Errorf("the driver does not know %s blocks with %d labels", b.Type, len(b.Labels))
}

func (m *module) addBlock(b *hclsyntax.Block) error {
	blk := &block{data: b.Type == "data", typ: b.Labels[0], name: b.Labels[1], addr: strings.Join(b.Labels, "."), attrs: hcl.Attributes{}}
	if blk.data {
		blk.addr = "data." + blk.addr
	}
	if m.blocks[blk.addr] != nil {
		return fmt.Errorf("%s is defined twice", blk.addr)
	}
	for name, a := range b.Body.Attributes {
		switch name {
		case "count":
			blk.count = a.Expr
		case "for_each":
			blk.forEach = a.Expr
		case "depends_on":
			ts, err := traversals(a.Expr)
			if err != nil {
				return err
			}
			blk.explicit = ts
		default:
			blk.attrs[name] = a.AsHCLAttribute()
		}
	}
	for _, inner := range b.Body.Blocks {
		if inner.Type != "lifecycle" {
			return fmt.Errorf("the driver does not know %s blocks in %s", inner.Type, blk.addr)
		}
		if err := blk.lifecycle(inner.Body); err != nil {
			return err
		}
	}
	m.blocks[blk.addr] = blk
	return nil
}

// addAction adds an action. Its arguments stand in a block of their own.
func (m *module) addAction(b *hclsyntax.Block) error {
	a := &block{typ: b.Labels[0], name: b.Labels[1], addr: "action." + strings.Join(b.Labels, "."), attrs: hcl.Attributes{}}
	for name := range b.Body.Attributes {
		return fmt.Errorf("the driver does not know argument %s in %s", name, a.addr)
	}
	for _, inner := range b.Body.Blocks {
		attrs, diags := inner.Body.JustAttributes()
		if inner.Type != "config" || diags.HasErrors() {
			return fmt.Errorf("the driver does not know this %s block in %s: %w", inner.Type, a.addr, diags)
		}
		a.attrs = attrs
	}
	m.actions[a.addr] = a
	return nil
}

// traversals reads a list of references.
func traversals(e hcl.Expression) ([]hcl.Traversal, error) {
	list, diags := hcl.ExprList(e)
	if diags.HasErrors() {
		return nil, diags
	}
	out := make([]hcl.Traversal, len(list))
	for i, item := range list {
		if out[i], diags = hcl.AbsTraversalForExpr(item); diags.HasErrors() {
			return nil, diags
		}
	}
	return out, nil
}

// link finds out which block refers to which.
func (m *module) link() error {
	for _, b := range m.blocks {
		for _, t := range b.triggers {
			if addr := blockAddr(t); m.actions[addr] == nil {
				return fmt.Errorf("%s is triggered by %s, and there is none", addr, b.addr)
			}
		}
		found := map[string]bool{}
		var ts []hcl.Traversal
		for _, a := range b.attrs {
			ts = append(ts, a.Expr.Variables()...)
		}
		for _, e := range []hcl.Expression{b.count, b.forEach} {
			if e != nil {
				ts = append(ts, e.Variables()...)
			}
		}
		m.follow(append(ts, b.explicit...), found, map[string]bool{})
		delete(found, b.addr)
		b.deps = sortedKeys(found)
	}
	_, err := m.levels()
	if err == nil {
		m.createDependenciesFirst()
	}
	return err
}

// createDependenciesFirst forces create_before_destroy on what a block that has it depends on (terraform internal/terraform,
// transform_destroy_cbd.go, ForcedCBDTransformer).
func (m *module) createDependenciesFirst() {
	for _, b := range m.blocks {
		for _, addr := range m.needs(b) {
			m.blocks[addr].createFirst = m.blocks[addr].createFirst || b.createFirst
		}
	}
}

// needs are all blocks that a block depends on, directly or not.
func (m *module) needs(b *block) []string {
	all := map[string]bool{}
	var add func(*block)
	add = func(b *block) {
		for _, addr := range b.deps {
			if !all[addr] {
				all[addr] = true
				add(m.blocks[addr])
			}
		}
	}
	add(b)
	return sortedKeys(all)
}

// follow adds the blocks that references lead to.
func (m *module) follow(ts []hcl.Traversal, found, seen map[string]bool) {
	for _, t := range ts {
		if t.RootName() == "local" && len(t) > 1 {
			name, _ := attrStep(t[1])
			if e := m.locals[name]; e != nil && !seen[name] {
				seen[name] = true
				m.follow(e.Variables(), found, seen)
			}
			continue
		}
		if addr := blockAddr(t); m.blocks[addr] != nil {
			found[addr] = true
		}
	}
}

// undeclared refuses references to undeclared objects.
func (m *module) undeclared(ts []hcl.Traversal) error {
	for _, t := range ts {
		kind, there := "", true
		name := ""
		if len(t) > 1 {
			name, _ = attrStep(t[1])
		}
		switch root := t.RootName(); root {
		case "local":
			kind, there = "local value", m.locals[name] != nil
		case "var":
			_, there = m.variables[name]
			kind = "input variable"
		case "each", "count", "self", "path", "terraform":
		default:
			kind, there = "resource", m.blocks[blockAddr(t)] != nil || strings.HasPrefix(root, "unknown")
		}
		if !there {
			return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Reference to undeclared " + kind, Detail: "There is no " + name + "."}}
		}
	}
	return nil
}

// blockAddr is the block that a reference may mean.
func blockAddr(t hcl.Traversal) string {
	parts := []string{t.RootName()}
	want := 2
	if t.RootName() == "data" || t.RootName() == "action" {
		want = 3
	}
	for _, step := range t[1:] {
		name, ok := attrStep(step)
		if !ok || len(parts) == want {
			break
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ".")
}

func attrStep(step hcl.Traverser) (string, bool) {
	a, ok := step.(hcl.TraverseAttr)
	return a.Name, ok
}

// levels orders the blocks so that each refers only to blocks of earlier levels.
func (m *module) levels() ([][]*block, error) {
	done := map[string]bool{}
	var out [][]*block
	for len(done) < len(m.blocks) {
		var level []*block
		for _, addr := range sortedKeys(m.blocks) {
			b := m.blocks[addr]
			if !done[addr] && allDone(b.deps, done) {
				level = append(level, b)
			}
		}
		if len(level) == 0 {
			return nil, fmt.Errorf("the configuration refers to itself in a circle")
		}
		for _, b := range level {
			done[b.addr] = true
		}
		out = append(out, level)
	}
	return out, nil
}

func allDone(names []string, done map[string]bool) bool {
	for _, n := range names {
		if !done[n] {
			return false
		}
	}
	return true
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// staticBlock makes a block of plain values.
func staticBlock(addr string, attrs map[string]cty.Value) (*block, error) {
	typ, name, ok := strings.Cut(addr, ".")
	if !ok {
		return nil, fmt.Errorf("%q is no address of a resource", addr)
	}
	b := &block{addr: addr, typ: typ, name: name, attrs: hcl.Attributes{}}
	for k, v := range attrs {
		b.attrs[k] = &hcl.Attribute{Name: k, Expr: hcl.StaticExpr(v, hcl.Range{Filename: addr})}
	}
	return b, nil
}
