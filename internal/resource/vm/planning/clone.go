package planning

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/run"
)

// The plan of a clone says what the clone will be: the values that PVE copies are those of the source. Terraform plans
// each create once more in the apply, in another process, and refuses a plan that differs. So all plans of a process go
// by one reading of a source, and a source that this configuration changes itself is left open, as is one whose create
// is not over.

// cloning is the part of a plan that a new VM has from its source.
type cloning struct{ *Planning }

// planCopied plans the values that the clone has from its source, if the source can be read.
func (p cloning) planCopied(ctx context.Context) {
	clone := p.Config.At("clone")
	if _, isPlanned := serverCheck(p).plannedSource(); isPlanned || p.replaces() || p.Machines == nil || clone.IsNull() ||
		!clone.IsFullyKnown() || !p.Config.IsNull("restore") {
		return
	}
	how := p.Plan.Clone.Request()
	source, _, err := p.Run.Source(ctx, how, p.Machines.CloneSource)
	if err != nil && p.left { // beside Terraform's errors, which do not name the source
		p.Diags.AddAttributeWarning(path.Root("clone"), "The source of the clone could not be read", err.Error()+
			".\n\nA plan that has read it does not hold any more. Terraform says so by \"Provider produced inconsistent final "+
			"plan\" for each of its values, and nothing is made. That is no bug of the provider. Next step: plan again.")
	}
	if err != nil || source.Unfinished || p.Run.Seen(source.Listed.VMID).Changing {
		return
	}
	copied, diags := p.CloneOf(ctx, source, how)
	if diags.HasError() {
		return
	}
	p.Value = p.volumes.withUnknowns(p.withCopied(copied))
}

// replaces reports whether the new VM takes the place of one in state: then Terraform hands on what was noted beside
// that. Its values are left open. With create_before_destroy the old VM is deposed by the time of the plan within the
// apply, and stays so if that plan cannot say again what this one said. A tainted VM does not show here.
func (p cloning) replaces() bool {
	return !p.Private.Identity.IsZero() || len(p.Private.Managed) > 0 || p.Private.Replaces != 0
}

// withCopied is the plan with the values of the source, but for those that PVE changes as the configured ones are set.
func (p cloning) withCopied(copied tftypes.Value) tftypes.Value {
	c := copying{config: p.Config, copied: model.Configuration{Raw: copied}, open: map[string]bool{}}
	remade := c.differs("cloud_init.storage") || c.differs("cloud_init.slot")
	if remade {
		c.leave("cloud_init.slot", "cloud_init.storage")
	}
	if remade || c.appendsCDROMs() {
		c.leave("boot_order")
	}
	if c.differs("ostype") { // PVE pins it for Windows
		c.leave("machine")
	}
	if c.displacesDisk() {
		c.open["unused_volumes"] = true
	}
	if !p.Config.IsNull("firewall") { // PVE copies the rules, which stand beside the configuration
		c.open["firewall"] = true
	}
	for _, family := range []string{"pci", "usb"} {
		slots, _ := p.Config.Keys(family)
		for _, slot := range slots {
			host, mapping := family+"."+slot+".host", family+"."+slot+".mapping"
			if !p.Config.IsNull(host) || !p.Config.IsNull(mapping) { // one takes the place of the other
				c.leave(host, mapping)
			}
		}
	}
	return p.Shape.Inherit(p.Value, p.Config.Raw, plan.Edit(copied, c.open, nil))
}

// copying finds the values of a source that do not stay as they are in the clone.
type copying struct {
	config, copied model.Configuration
	open           map[string]bool
}

// leave leaves values open that the configuration leaves out.
func (c copying) leave(names ...string) {
	for _, name := range names {
		c.open[name] = c.open[name] || c.config.IsNull(name)
	}
}

// differs reports whether the configuration says, or may say, something else than the source.
func (c copying) differs(name string) bool {
	return !c.config.IsNull(name) && !c.config.At(name).Equal(c.copied.At(name))
}

// displacesDisk reports whether a slot in which the source has a disk gets another volume: PVE makes the copied disk an
// unused one (qemu-server API2/Qemu.pm, update_vm_api). Other drives are refused there (vm.Displaced).
func (c copying) displacesDisk() bool {
	slots, _ := c.copied.Keys("disks")
	return slices.ContainsFunc(slots, func(slot string) bool {
		return !c.config.At("disks").IsKnown() || !c.config.IsNull("disks."+slot+".imported_disk")
	})
}

// appendsCDROMs reports whether a CD-ROM drive is set that the boot order does not have: PVE appends it (qemu-server
// API2/Qemu.pm, update_vm_api).
func (c copying) appendsCDROMs() bool {
	order := c.copied.At("boot_order")
	if !order.IsKnown() || order.IsNull() {
		return false
	}
	slots, known := c.config.Keys("cdroms")
	return !known || slices.ContainsFunc(slots, func(slot string) bool {
		return !slices.Contains(model.Texts(order), slot)
	})
}

// Asked is the plan of a new VM without what a clone has from its source: what a create has to do.
func (s Server) Asked(v model.Values, planned, config tftypes.Value) tftypes.Value {
	p := newPlanning(s, v, config)
	if p.Config.IsNull("clone") {
		return planned
	}
	p.Value = p.Shape.Plan(plan.Input{Config: p.Config.Raw, Prior: p.State, Inherits: true}).Value
	p.PlanTags()
	return p.Value
}

func newPlanning(s Server, v model.Values, config tftypes.Value) *Planning {
	p := &Planning{Server: s, Change: change.Change{Values: v, Config: model.Configuration{Raw: config},
		State: tftypes.NewValue(v.Typ, nil)}}
	p.Config.Raw = p.withDefaults(config)
	return p
}

// AsPlanned compares the source of a clone, as the create finds it, with the plan of the clone.
func (s Server) AsPlanned(ctx context.Context, v model.Values, planned, config tftypes.Value,
	how *guest.Clone) func(guest.Source) error {
	return func(source guest.Source) error {
		p := newPlanning(s, v, config)
		p.Value = s.Asked(v, planned, config)
		copied, diags := v.CloneOf(ctx, source, how)
		if diags.HasError() {
			return fmt.Errorf("%s: %s", diags[0].Summary(), diags[0].Detail())
		}
		return changedSource(source, planned, cloning{p}.withCopied(copied))
	}
}

// changedSource is the error about values that the source does not have any more; nil if there are none.
func changedSource(source guest.Source, planned, now tftypes.Value) error {
	var lines []string
	first := ""
	for _, d := range plan.Differences(planned, now) {
		lines = append(lines, fmt.Sprintf("  %s: planned %s, now %s", d.At, said(d.Before), said(d.After)))
		first = cmp.Or(first, d.At)
	}
	if len(lines) == 0 {
		return nil
	}
	return &guest.FieldError{Path: first, Summary: fmt.Sprintf("VM %d has changed since the plan", source.Listed.VMID),
		Detail: fmt.Sprintf("The plan says what the clone of VM %d on node %s will have, and by now it would have "+
			"something else:\n%s\nNothing was made. Next step: plan again, and apply the new plan",
			source.Listed.VMID, source.Listed.Node, strings.Join(lines, "\n"))}
}

// said is a value for a message.
func said(v tftypes.Value) string {
	var flag bool
	switch {
	case v.IsNull():
		return "nothing"
	case v.Type().Is(tftypes.String):
		return fmt.Sprintf("%q", model.StringOf(v))
	case v.Type().Is(tftypes.Number):
		return strconv.FormatFloat(model.FloatOf(v), 'g', -1, 64)
	case v.As(&flag) == nil:
		return strconv.FormatBool(flag)
	case v.Type().Is(tftypes.List{}), v.Type().Is(tftypes.Set{}):
		return fmt.Sprintf("%q", model.Texts(v))
	}
	return "another one"
}

// inherits reports whether a new VM has a value as its source has it: no request of ours writes it.
func (p cloning) inherits(dotted string) bool {
	return p.Creating() && p.Config.Copies() && p.Config.IsNull(dotted)
}

// noteLinkedClones notes the linked clones of a template that is replaced, for the plans of its clones, which Terraform
// makes after it.
func noteLinkedClones(ctx context.Context, p *Planning) {
	if !model.Value(p.Prior.Template) || p.Machines == nil || p.Acting {
		return
	}
	var bases []string
	for _, disk := range p.Prior.Disks {
		if volume := model.Value(disk.Volume); volume != "" {
			bases = append(bases, volume)
		}
	}
	clones, err := p.Machines.LinkedClones(ctx, model.Value(p.Prior.Node), bases)
	if err == nil { // else the apply looks
		p.Run.Note(int(model.Value(p.Prior.VMID)), func(vm *run.VM) { vm.Clones = clones })
	}
}

// warnOfOtherClones warns where a VM and the template that it was cloned of are replaced, and the template has linked
// clones of which no plan of this run has told yet that they go. Terraform destroys the clones before the template, and
// PVE refuses to destroy that while there is one more. It is no error: the plans of further clones may follow, and of
// some Terraform may not even have shown the state yet. The first plan that tells of it does so for all. One of this
// configuration that stays is as much in the way as one of another.
func warnOfOtherClones(p *Planning) {
	c := p.Prior.Clone
	if c == nil {
		return
	}
	source, stay := int(cmp.Or(model.Value(c.SourceVMID), model.Value(c.VMID))), []string{}
	for _, clone := range p.Run.Seen(source).Clones {
		if !p.Run.Seen(clone.VMID).Changing {
			stay = append(stay, clone.Text)
		}
	}
	if len(stay) == 0 {
		return
	}
	p.Run.Note(source, func(vm *run.VM) { vm.Clones = nil })
	const most = 10
	slices.Sort(stay)
	if more := len(stay) - most; more > 0 {
		stay = append(stay[:most], fmt.Sprintf("%d more", more))
	}
	p.Diags.AddWarning(fmt.Sprintf("Template %d is replaced, and has other linked clones", source),
		fmt.Sprintf("%s was cloned of it, and is destroyed first. PVE destroys the template only once none of these "+
			"is left: %s. Look whether this plan destroys or replaces them all. Else the apply ends there, with %s gone and "+
			"none made. Destroy the others first, or make them independent by moving their disks to another storage.",
			p.Prior.Thing(), strings.Join(stay, "; "), p.Prior.Thing()))
}
