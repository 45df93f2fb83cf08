package terraformtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"
)

// Session is a working directory of Terraform without Terraform: a configuration, a state, and the operations on them.
// It speaks protocol 6 to a provider in the same process and holds it to the rules that Terraform core enforces; a broken
// rule is an error whose Diagnostic has Violation set. Operations of one Session must not overlap.
//
// Known differences to Terraform: one provider without aliases and one module; no moved (see Move), removed, import or check blocks,
// actions are carried out by Invoke only, never by a trigger;
// changes that nothing orders come one level of references after the other.
type Session struct {
	Caller
	// Parallelism bounds the resources that are worked on at once. One makes requests countable and is the default.
	Parallelism int
	// TrustPlans applies a plan as it is, and validates once. Terraform asks for a plan once more during the apply, and
	// validates a configuration before a plan and in it; a sweep saves the time.
	TrustPlans bool

	module    *module
	variables map[string]cty.Value
	state     map[string]*instance
	outputs   map[string]cty.Value
	last      Diagnostics
}

// NewSession makes an empty session.
func NewSession(factory Factory) *Session {
	return &Session{
		Caller: Caller{TerraformVersion: "1.14.0", factory: factory}, Parallelism: 1,
		module: newModule(), variables: map[string]cty.Value{}, state: map[string]*instance{}, outputs: map[string]cty.Value{},
	}
}

// Configure replaces the configuration by HCL text: provider, resource, data, variable, locals and output blocks.
func (s *Session) Configure(hcl ...string) error {
	m := newModule()
	for i, src := range hcl {
		if err := m.parse(fmt.Sprintf("main%d.tf", i), src); err != nil {
			return err
		}
	}
	s.module = m
	return nil
}

// SetResource puts a resource of plain values ("proxmox_vm.web") into the configuration, or replaces it.
func (s *Session) SetResource(address string, attrs map[string]cty.Value) error {
	b, err := staticBlock(address, attrs)
	if err != nil {
		return err
	}
	s.module.blocks[address] = b
	return s.module.link()
}

// SetVariable gives a variable of the configuration its value.
func (s *Session) SetVariable(name string, v cty.Value) { s.variables[name] = v }

// SetString gives a variable of the configuration a text.
func (s *Session) SetString(name, value string) { s.SetVariable(name, cty.StringVal(value)) }

// Diagnostics is everything said in the last operation.
func (s *Session) Diagnostics() Diagnostics { return s.last }

// Instance is a resource instance in state.
type Instance struct {
	Address, Type string
	Value         cty.Value
	Private       []byte
	Tainted       bool
}

// Addresses lists the addresses in state, sorted.
func (s *Session) Addresses() []string { return sortedKeys(s.state) }

// Instance gives an instance in state, decoded by the provider's present schema.
func (s *Session) Instance(address string) (Instance, error) {
	i := s.state[address]
	if i == nil {
		return Instance{}, fmt.Errorf("%s is not in state", address)
	}
	p, err := s.start(context.Background())
	if err != nil {
		return Instance{}, err
	}
	v, diags := p.load(context.Background(), i)
	if err := diags.err(); err != nil {
		return Instance{}, err
	}
	return Instance{Address: address, Type: i.typ, Value: v, Private: i.private, Tainted: i.tainted}, nil
}

// Attr gives a part of an instance by a path such as disks.scsi0.size; cty.NilVal if there is no such thing.
func (s *Session) Attr(address, path string) cty.Value {
	i, err := s.Instance(address)
	if err != nil {
		return cty.NilVal
	}
	return At(i.Value, path)
}

// Text is a text or a number in a value, by a path as At takes it; "" where there is none.
func Text(v cty.Value, path string) string {
	switch at := At(v, path); {
	case at == cty.NilVal || at.IsNull() || !at.IsKnown():
		return ""
	case at.Type() == cty.String:
		return at.AsString()
	case at.Type() == cty.Number:
		return at.AsBigFloat().Text('f', -1)
	}
	return ""
}

// At gives a part of a value by a path such as disks.scsi0.size; cty.NilVal if there is no such thing.
func At(v cty.Value, path string) cty.Value {
	for _, name := range strings.Split(path, ".") {
		switch {
		case v.IsNull() || !v.IsKnown():
			return cty.NilVal
		case v.Type().IsObjectType() && v.Type().HasAttribute(name):
			v = v.GetAttr(name)
		case v.Type().IsMapType() && v.HasIndex(cty.StringVal(name)).True():
			v = v.Index(cty.StringVal(name))
		default:
			return cty.NilVal
		}
	}
	return v
}

// Output gives an output value of the last apply.
func (s *Session) Output(name string) cty.Value { return s.outputs[name] }

// Outputs lists the names of the output values, sorted.
func (s *Session) Outputs() []string { return sortedKeys(s.outputs) }

// Forget drops an instance from state, as terraform state rm does.
func (s *Session) Forget(address string) { delete(s.state, address) }

// Taint marks an instance for replacement, or takes that mark away: terraform taint and untaint.
func (s *Session) Taint(address string, tainted bool) {
	if i := s.state[address]; i != nil {
		c := i.clone()
		c.tainted = tainted
		s.state[address] = c
	}
}

// SetPrivate gives an instance in state other private data, as if the provider had left that behind.
func (s *Session) SetPrivate(address string, private []byte) {
	if i := s.state[address]; i != nil {
		c := i.clone()
		c.private = private
		s.state[address] = c
	}
}

// SaveState keeps the state for RestoreState, as a backup of a state file would be.
func (s *Session) SaveState() SavedState { return SavedState{maps.Clone(s.state)} }

// RestoreState goes back to a saved state.
func (s *Session) RestoreState(saved SavedState) { s.state = maps.Clone(saved.instances) }

// SavedState is a copy of a session's state.
type SavedState struct{ instances map[string]*instance }

// Equal tells whether two states say the same of the same objects.
func (s SavedState) Equal(other SavedState) bool {
	return maps.EqualFunc(s.instances, other.instances, func(a, b *instance) bool {
		return a.typ == b.typ && a.tainted == b.tainted && bytes.Equal(a.json, b.json) && bytes.Equal(a.private, b.private)
	})
}

// finish records the diagnostics of an operation and makes its error.
func (s *Session) finish(diags Diagnostics) error {
	s.last = diags
	return diags.err()
}

// walk is one pass over the configuration with a provider process of its own.
type walk struct {
	*process
	s      *Session
	scope  *scope
	state  map[string]*instance
	mu     sync.Mutex
	diags  Diagnostics
	failed map[string]bool // blocks whose dependents are skipped
	stuck  map[string]bool // addresses whose change a failed destroy keeps from coming
	// pending are the blocks that a plan changes; unchanged those that an apply leaves alone, which no failure takes along.
	pending, unchanged map[string]bool
	// gone holds the private data of objects that a refresh has missed. Terraform shows it to the plan that makes them again.
	gone map[string][]byte
}

func (w *walk) report(ds Diagnostics) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diags = append(w.diags, ds...)
}

func (w *walk) instance(address string) *instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state[address]
}

// lose drops an instance that a refresh has missed.
func (w *walk) lose(address string, private []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.state, address)
	w.gone[address] = private
}

func (w *walk) leftOf(address string) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone[address]
}

func (w *walk) keep(address string, i *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i == nil {
		delete(w.state, address)
		return
	}
	w.state[address] = i
}

// newWalk starts a process over a copy of the state. The provider is configured when the first object needs it.
func (s *Session) newWalk(ctx context.Context, state map[string]*instance) (*walk, error) {
	sc, err := newScope(s.module, s.variables)
	if err != nil {
		return nil, err
	}
	p, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	if sc.own, err = p.ownFunctions(ctx, s.module.local); err != nil {
		return nil, err
	}
	return &walk{process: p, s: s, scope: sc, state: maps.Clone(state), failed: map[string]bool{}, pending: map[string]bool{},
		stuck: map[string]bool{}, gone: map[string][]byte{}}, nil
}

// configureProvider evaluates the provider block and hands it over, with values that are not known yet as unknown.
func (w *walk) configureProvider(ctx context.Context) {
	v, ds := w.scope.object(w.provider.Object, w.s.module.provider, nil)
	for i := range ds {
		ds[i].Address = "provider"
	}
	if ds.err() == nil {
		ds = append(ds, w.configure(ctx, v)...)
	}
	w.report(ds)
}

// eachBlock visits the blocks in the order of their references, those of one level at once up to Parallelism. A block
// whose visit fails takes its dependents with it.
func (w *walk) eachBlock(ctx context.Context, visit func(*block) Diagnostics) {
	levels, err := w.s.module.levels()
	if err != nil {
		w.report(failure("configuration", "", "Invalid configuration", err))
		return
	}
	for _, level := range levels {
		w.each(len(level), func(n int) {
			b := level[n]
			ds := failure("walk", b.addr, "Interrupted", errors.New("the operation was cancelled before this object's turn"))
			if ctx.Err() == nil {
				if w.skip(b) {
					return
				}
				ds = visit(b)
			}
			w.report(ds)
			if ds.err() != nil {
				w.fail(b)
			}
		})
	}
}

// fail makes the dependents of a block be skipped.
func (w *walk) fail(b *block) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed[b.addr] = true
}

func (w *walk) skip(b *block) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range b.deps {
		if w.failed[d] && !w.unchanged[b.addr] {
			w.failed[b.addr] = true
		}
	}
	return w.failed[b.addr]
}

// each runs n jobs, at most Parallelism at once.
func (w *walk) each(n int, job func(int)) {
	limit := max(1, w.s.Parallelism)
	if limit == 1 {
		for i := range n {
			job(i)
		}
		return
	}
	slots := make(chan struct{}, limit)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			job(i)
		})
	}
	wg.Wait()
}
