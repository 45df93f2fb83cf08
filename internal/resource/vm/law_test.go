package vm

import (
	"context"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"pgregory.net/rapid"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/planning"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/run"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// A model survives the way through Terraform's values.
func TestModelsSurviveTerraform(t *testing.T) {
	v := model.SchemaValues()
	rapid.Check(t, func(t *rapid.T) {
		m := drawConfig(t, "config", rapid.Bool().Draw(t, "clone"))
		if diff := cmp.Diff(m, modelOf(t, v, rawOf(t, v, m))); diff != "" {
			t.Fatalf("lost on the way:\n%s", diff)
		}
	})
}

// The codec that is quick knows every attribute; without it the framework's reflection would do its work, slowly.
func TestCodecFitsTheModel(t *testing.T) {
	if _, err := model.SchemaValues().Codec.Encode(model.Model{}); err != nil {
		t.Error(err)
	}
}

// A configuration of the server becomes a model, and that model says the same as the server.
func TestSpecsSurviveTheModel(t *testing.T) {
	v := model.SchemaValues()
	rapid.Check(t, func(t *rapid.T) {
		config := drawConfig(t, "config", false)
		s := stored(config.Spec(false))
		state := modelOf(t, v, rawOf(t, v, model.FromGuest(guestOf(s, ""))))
		back := state.Spec(false)
		if change := vm.Diff(s, vm.WithRest(back, s)); !change.Empty() {
			t.Fatalf("the state would change the server: %+v", change)
		}
	})
}

// world is a server with one VM, and the state that Terraform has of it.
type world struct {
	v       model.Values
	server  vm.Spec
	pool    string
	status  string
	state   tftypes.Value
	managed plan.Managed
}

func (w *world) plan(config tftypes.Value, clone bool) plan.Planned {
	planned := w.v.Shape.Plan(plan.Input{Config: config, Prior: w.state, Managed: w.managed, Inherits: clone})
	p := &planning.Planning{Server: planning.Server{Run: run.New()}, Change: change.Change{Values: w.v, Config: model.Configuration{Raw: config}, State: w.state, Value: planned.Value}}
	p.PlanTags()
	planned.Value, planned.Changed = p.Value, planned.Changed || !p.Value.Equal(w.state)
	return planned
}

func (w *world) seen(t fataler) tftypes.Value {
	g := guestOf(w.server, w.pool)
	g.Status = w.status
	return rawOf(t, w.v, model.FromGuest(g))
}

func (w *world) power(plan model.Model) {
	switch {
	case plan.PowerState != nil:
		w.status = *plan.PowerState
	case w.status == "":
		w.status = "running"
	}
}

func (w *world) refresh(t fataler) { w.state = w.v.Shape.Refresh(w.state, w.seen(t)) }

// create does what a create does, with a server that is obedient.
func (w *world) create(t fataler, config model.Model, template vm.Spec) {
	clone := config.Clone != nil
	raw := rawOf(t, w.v, config)
	w.state = tftypes.NewValue(raw.Type(), nil)
	planned := w.plan(raw, clone)
	plan := modelOf(t, w.v, planned.Value)
	spec := plan.Spec(clone)
	if clone {
		spec = vm.Merge(template, spec)
	}
	w.server, w.pool = stored(spec), model.Value(plan.Pool)
	w.power(plan)
	w.settle(t, raw, planned.Value)
}

func (w *world) settle(t fataler, config, planned tftypes.Value) {
	w.state = w.v.Shape.Settle(planned, w.seen(t))
	w.managed = w.v.Shape.Managed(config)
	if !w.state.IsFullyKnown() {
		t.Fatalf("unknown values in state: %s", w.state)
	}
}

// update does what an update does.
func (w *world) update(t fataler, config model.Model) {
	raw := rawOf(t, w.v, config)
	planned := w.plan(raw, config.Clone != nil)
	if !planned.Changed {
		return
	}
	prior, plan := modelOf(t, w.v, w.state), modelOf(t, w.v, planned.Value)
	p := &change.Change{Values: w.v, Config: model.Configuration{Raw: raw}, State: w.state, Prior: prior, Plan: plan, Value: planned.Value}
	p.PlanConsequences(func(string) bool { return false })
	value := p.Value
	after, _ := w.v.Essence(context.Background(), value, w.state, nil)
	r := model.UpdateRequest(prior, after, model.PrivateState{Managed: w.managed}, nil)
	diff := vm.Diff(vm.WithRest(r.Prior, w.server), modelled(r.Planned))
	w.server, w.pool = obey(w.server, diff), r.Pool
	w.power(plan)
	managed := w.v.Shape.ManagedAfter(w.managed, raw, w.state, value)
	w.settle(t, raw, value)
	w.managed = managed
}

// modelled gives new network devices the model that package service gives them.
func modelled(planned vm.Spec) vm.Spec {
	planned.Networks = maps.Clone(planned.Networks)
	for slot, nic := range planned.Networks {
		if nic.Model == "" {
			nic.Model = vm.DefaultNICModel
			planned.Networks[slot] = nic
		}
	}
	return planned
}

// obey is a server that carries a change out.
func obey(s vm.Spec, c vm.Change) vm.Spec {
	options := vm.Encode(s)
	for _, slot := range c.DeleteFirst {
		delete(options, slot)
	}
	for _, option := range c.Delete {
		delete(options, option)
	}
	for option, value := range c.Set {
		options[option] = value
	}
	after := vm.Decode(options)
	for _, g := range c.Grow {
		d := after.Disks[g.Slot]
		d.Size = &g.Size
		after.Disks[g.Slot] = d
	}
	return stored(after)
}

func (w *world) mustBeSettled(t fataler, config model.Model, when string) {
	t.Helper()
	w.refresh(t)
	raw := rawOf(t, w.v, config)
	planned := w.plan(raw, config.Clone != nil)
	if planned.Changed {
		t.Fatalf("%s the plan is not empty:\n%s", when, cmp.Diff(modelOf(t, w.v, w.state), modelOf(t, w.v, planned.Value)))
	}
}

// After an apply the plan is empty, for every configuration, new or cloned, and after every change of it.
func TestPlanIsEmptyAfterApply(t *testing.T) {
	v := model.SchemaValues()
	rapid.Check(t, func(t *rapid.T) {
		clone := rapid.Bool().Draw(t, "clone")
		template := vm.Spec{}
		if clone {
			origin := drawConfig(t, "template", false)
			origin.Disks = map[string]model.Disk{"scsi0": drawDisk(t, "template scsi0", false), "virtio0": drawDisk(t, "template virtio0", false)}
			origin.Disks["scsi1"] = origin.Disks["scsi0"]
			origin.CloudInit = &model.CloudInit{Storage: new("local-zfs"), CloudInitOptions: vm.CloudInitOptions{User: new("template")}}
			template = stored(origin.Spec(false))
		}
		first := drawConfig(t, "first", clone)
		w := &world{v: v}
		w.create(t, first, template)
		w.mustBeSettled(t, first, "after the create")

		second := drawConfig(t, "second", clone)
		keepSizes(first, second)
		w.update(t, second)
		w.mustBeSettled(t, second, "after the update")
	})
}

// keepSizes leaves out shrinking, which is refused elsewhere.
func keepSizes(first, second model.Model) {
	for slot, d := range second.Disks {
		if was, ok := first.Disks[slot]; ok {
			d.Size = was.Size
			second.Disks[slot] = d
		}
	}
}
