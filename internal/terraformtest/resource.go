package terraformtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// instance is a resource instance in a state file: JSON, as Terraform keeps it, so that each operation starts from what a
// file can hold.
type instance struct {
	address  string
	typ      string
	block    string // the address without its key
	json     []byte
	version  int64
	private  []byte
	identity *tfprotov6.ResourceIdentityData
	tainted  bool
	deps     []string // blocks that must outlive this one
	last     bool     // its block had create_before_destroy
}

func (i *instance) clone() *instance {
	c := *i
	return &c
}

// store puts a value into an instance.
func (i *instance) store(schema objchange.ResourceSchema, v cty.Value, private []byte) error {
	b, err := ctyjson.Marshal(v, schema.Typ())
	if err != nil {
		return fmt.Errorf("write %s to state: %w", i.address, err)
	}
	i.json, i.version, i.private = b, schema.Version, private
	return nil
}

// load gives the value of an instance, by UpgradeResourceState, which Terraform calls also where versions agree.
func (p *process) load(ctx context.Context, i *instance) (cty.Value, Diagnostics) {
	const rpc = "UpgradeResourceState"
	schema, ok := p.resources[i.typ]
	if !ok {
		return cty.NilVal, failure(rpc, i.address, "No such resource type", errors.New(i.typ))
	}
	var resp *tfprotov6.UpgradeResourceStateResponse
	err := p.call(ctx, rpc, i.address, func(ctx context.Context) (err error) {
		resp, err = p.server.UpgradeResourceState(ctx, &tfprotov6.UpgradeResourceStateRequest{
			TypeName: i.typ, Version: i.version, RawState: &tfprotov6.RawState{JSON: i.json},
		})
		return err
	})
	if err != nil {
		return cty.NilVal, failure(rpc, i.address, "The call failed", err)
	}
	out := wireDiagnostics(rpc, i.address, resp.Diagnostics)
	if out.err() != nil {
		return cty.NilVal, out
	}
	v, err := decode(resp.UpgradedState, schema.Typ())
	if err != nil {
		return cty.NilVal, append(out, failure(rpc, i.address, "Invalid resource state upgrade", err)...)
	}
	if v.IsNull() || !v.IsWhollyKnown() {
		return cty.NilVal, append(out, violation(rpc, i.address, "Invalid resource state upgrade", objchange.Broken("null or unknown"))...)
	}
	return v, out
}

// read refreshes an instance. The value is null when the object is gone; of the instance only its private data is left then.
func (p *process) read(ctx context.Context, i *instance) (*instance, cty.Value, Diagnostics) {
	prior, out := p.load(ctx, i)
	if out.err() != nil {
		return i, prior, out
	}
	next, v, more := p.readFrom(ctx, i, prior)
	return next, v, append(out, more...)
}

// readFrom refreshes an instance from the value that it has.
func (p *process) readFrom(ctx context.Context, i *instance, prior cty.Value) (*instance, cty.Value, Diagnostics) {
	const rpc = "ReadResource"
	schema := p.resources[i.typ]
	var out Diagnostics
	dv, err := encode(prior, schema.Typ())
	if err != nil {
		return i, prior, append(out, failure(rpc, i.address, "Cannot encode the state", err)...)
	}
	var resp *tfprotov6.ReadResourceResponse
	err = p.call(ctx, rpc, i.address, func(ctx context.Context) (err error) {
		resp, err = p.server.ReadResource(ctx, &tfprotov6.ReadResourceRequest{
			TypeName: i.typ, CurrentState: dv, Private: i.private, CurrentIdentity: i.identity,
			ClientCapabilities: &tfprotov6.ReadResourceClientCapabilities{},
		})
		return err
	})
	if err != nil {
		return i, prior, append(out, failure(rpc, i.address, "The call failed", err)...)
	}
	out = append(out, wireDiagnostics(rpc, i.address, resp.Diagnostics)...)
	if out.err() != nil {
		return i, prior, out
	}
	v, err := decode(resp.NewState, schema.Typ())
	if err != nil {
		return i, prior, append(out, failure(rpc, i.address, "Provider produced invalid object", err)...)
	}
	if v.IsNull() {
		return &instance{private: resp.Private}, v, out
	}
	ps := objchange.CheckWriteOnly(schema.Object, v)
	for _, path := range objchange.UnknownPaths(v) {
		ps.Add(path, "is unknown after a refresh")
	}
	if out = append(out, violation(rpc, i.address, "Provider produced invalid object", ps)...); out.err() != nil {
		return i, prior, out
	}
	next := i.clone()
	if resp.NewIdentity != nil {
		next.identity = resp.NewIdentity
	}
	if err := next.store(schema, v, resp.Private); err != nil {
		return i, prior, append(out, failure(rpc, i.address, "Cannot keep the state", err)...)
	}
	return next, v, out
}

// planned is the answer to one PlanResourceChange.
type planned struct {
	value    cty.Value
	private  []byte
	identity *tfprotov6.ResourceIdentityData
	replace  []cty.Path
}

// plan asks for one plan and checks it. Both config and prior may be null: a destroy, a create.
func (p *process) plan(ctx context.Context, address, typ string, prior, config cty.Value, private []byte,
	identity *tfprotov6.ResourceIdentityData,
) (planned, Diagnostics) {
	const rpc = "PlanResourceChange"
	schema := p.resources[typ]
	proposed := cty.NullVal(schema.Typ())
	if config.IsNull() && !p.planDestroy {
		return planned{value: proposed, private: private}, nil
	}
	if !config.IsNull() {
		proposed = objchange.ProposeNew(schema.Object, prior, config)
	}
	vals, err := encodeAll(schema.Typ(), prior, proposed, config)
	if err != nil {
		return planned{}, failure(rpc, address, "Cannot encode the request", err)
	}
	var resp *tfprotov6.PlanResourceChangeResponse
	err = p.call(ctx, rpc, address, func(ctx context.Context) (err error) {
		resp, err = p.server.PlanResourceChange(ctx, &tfprotov6.PlanResourceChangeRequest{
			TypeName: typ, PriorState: vals[0], ProposedNewState: vals[1], Config: vals[2], PriorPrivate: private,
			PriorIdentity:      identity,
			ClientCapabilities: &tfprotov6.PlanResourceChangeClientCapabilities{DeferralAllowed: p.applying},
		})
		return err
	})
	if err != nil {
		return planned{}, failure(rpc, address, "The call failed", err)
	}
	out := wireDiagnostics(rpc, address, resp.Diagnostics)
	if out.err() != nil {
		return planned{}, out
	}
	v, err := decode(resp.PlannedState, schema.Typ())
	if err != nil {
		return planned{}, append(out, failure(rpc, address, "Provider produced invalid plan", err)...)
	}
	ps := objchange.CheckPlanned(schema.Object, prior, config, v)
	res := planned{value: v, private: resp.PlannedPrivate, identity: resp.PlannedIdentity}
	for _, ap := range resp.RequiresReplace {
		path := ctyPath(ap)
		exists, changed := changedAt(prior, v, path)
		if !exists {
			ps.Add(path, "replacement is asked for where neither the prior state nor the plan has anything")
		}
		if changed {
			res.replace = append(res.replace, path)
		}
	}
	return res, append(out, violation(rpc, address, "Provider produced invalid plan", ps)...)
}

// changedAt says whether there is anything at a path, and whether it differs, or may differ, between prior state and plan.
// Nothing has changed where there was no state.
func changedAt(prior, planned cty.Value, path cty.Path) (exists, changed bool) {
	if prior.IsNull() {
		return true, false
	}
	a, errA := path.Apply(prior)
	b, errB := path.Apply(planned)
	if errA != nil || errB != nil {
		one := errA == nil || errB == nil
		return one, one
	}
	return true, !a.RawEquals(b)
}

func encodeAll(ty cty.Type, vs ...cty.Value) ([]*tfprotov6.DynamicValue, error) {
	out := make([]*tfprotov6.DynamicValue, len(vs))
	for i, v := range vs {
		var err error
		if out[i], err = encode(v, ty); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// apply carries one change out and checks the result. The value is what belongs in state, null for nothing, also
// beside an error.
func (p *process) apply(ctx context.Context, address, typ string, prior, config cty.Value, pl planned,
) (cty.Value, *tfprotov6.ApplyResourceChangeResponse, Diagnostics) {
	const rpc = "ApplyResourceChange"
	schema := p.resources[typ]
	vals, err := encodeAll(schema.Typ(), prior, pl.value, config)
	if err != nil {
		return prior, nil, failure(rpc, address, "Cannot encode the request", err)
	}
	if p.Applying != nil {
		defer p.Applying(typ, prior, pl.value)()
	}
	var resp *tfprotov6.ApplyResourceChangeResponse
	err = p.call(ctx, rpc, address, func(ctx context.Context) (err error) {
		resp, err = p.server.ApplyResourceChange(ctx, &tfprotov6.ApplyResourceChangeRequest{
			TypeName: typ, PriorState: vals[0], PlannedState: vals[1], Config: vals[2], PlannedPrivate: pl.private,
			PlannedIdentity: pl.identity,
		})
		return err
	})
	if err != nil {
		return prior, nil, failure(rpc, address, "The call failed", err)
	}
	out := wireDiagnostics(rpc, address, resp.Diagnostics)
	v, err := decode(resp.NewState, schema.Typ())
	if err != nil {
		return prior, resp, append(out, failure(rpc, address, "Provider produced invalid object", err)...)
	}
	// An error without a new state keeps the old one: a failed destroy has not destroyed.
	if out.err() != nil && v.IsNull() {
		return prior, resp, out
	}
	var ps objchange.Problems
	for _, path := range objchange.UnknownPaths(v) {
		ps.Add(path, "is unknown after apply")
	}
	out = append(out, violation(rpc, address, "Provider returned invalid result object after apply", ps)...)
	v = objchange.UnknownAsNull(v)
	if ps := objchange.CheckWriteOnly(schema.Object, v); len(ps) > 0 { // then nothing is kept of it
		return cty.NullVal(schema.Typ()), resp, append(out, violation(rpc, address, "Provider produced invalid object", ps)...)
	}
	if ps = nil; out.err() == nil {
		ps = objchange.CheckCompletes(schema.Object, pl.value, v)
	}
	return v, resp, append(out, violation(rpc, address, "Provider produced inconsistent result after apply", ps)...)
}
