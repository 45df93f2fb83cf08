package planning

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Restriction is a limit on who may set an attribute, or on which servers have it.
type Restriction struct {
	At      string   // dotted path of the attribute, "*" for every slot
	Root    vm.Root  // whether only root may set it
	since   vm.Since // the first server that has it
	removed vm.Since // the first server that no longer has it; the zero Since means none
}

// Restrictions are the attributes that not every identity may set or not every server has. Privileges are not
// among them: package preflight checks those.
func Restrictions() []Restriction {
	all := []Restriction{
		{At: "import_working_storage",
			since: vm.Since{Manager: [3]int{8, 2, 8}, Release: "8.3",
				Source: "qemu-server 8.2.7: API2/Qemu.pm, create_vm (95ae60c8)"}},
		{At: "ha.failback",
			since: vm.Since{Manager: [3]int{9, 0, 0}, Release: "9.0",
				Source: "pve-ha-manager 5.0.2: HA/Resources.pm, failback (5c528dd)"}},
		{At: "ha.group",
			removed: vm.Since{Manager: [3]int{9, 0, 0}, Release: "9",
				Source: "pve-ha-manager 5.0.2: API2/HA/Groups.pm, index (0533db0, 1bc1db5)"}},
	}
	for _, a := range vm.Attributes() {
		r := Restriction{At: a.Path, Root: a.Root, since: a.Since}
		limited := r.Root.Instead != "" || r.since.Release != ""
		// buses share their sub-keys
		if limited && !slices.ContainsFunc(all, func(other Restriction) bool { return other.At == r.At }) {
			all = append(all, r)
		}
	}
	return all
}

// restrictionCheck compares the changed values of a plan with the restrictions of their attributes.
type restrictionCheck struct{ *Planning }

// checkRestrictions refuses what this identity may not set and what this server does not have, as far as it changes.
func (p restrictionCheck) checkRestrictions(ctx context.Context) {
	for _, rule := range Restrictions() {
		for _, dotted := range expand(rule.At, p.Value, p.State) {
			if is, was, ok := p.changedValue(dotted); ok {
				p.checkRestriction(ctx, rule, dotted, is, was)
			}
		}
	}
}

// expand is a path with the slots that are in use for its "*".
func expand(at string, values ...tftypes.Value) []string {
	family, rest, starred := strings.Cut(at, ".*")
	if !starred {
		return []string{at}
	}
	slots := map[string]bool{}
	for _, v := range values {
		all := map[string]tftypes.Value{}
		if m := plan.At(v, family); m.IsKnown() && !m.IsNull() && m.As(&all) == nil {
			for slot := range all {
				slots[slot] = true
			}
		}
	}
	var paths []string
	for _, slot := range slices.SortedFunc(maps.Keys(slots), model.BySlot) {
		paths = append(paths, family+"."+slot+rest)
	}
	return paths
}

// changedValue gives a value in plan and state if the plan is known to change it on the server.
func (p restrictionCheck) changedValue(dotted string) (is, was tftypes.Value, ok bool) {
	steps := strings.Split(dotted, ".")
	is, was = plan.At(p.Value, steps...), plan.At(p.State, steps...)
	switch {
	case !is.IsKnown(), is.IsNull() && was.IsNull(), is.Equal(was), cloning(p).inherits(dotted):
		return is, was, false
	case is.IsNull() && len(steps) > 1 && model.IsBySlot(steps[0]) && plan.At(p.Value, steps[:2]...).IsNull():
		return is, was, p.Managed(steps[0] + "." + steps[1]) // else the slot is forgotten
	}
	return is, was, true
}

func (p restrictionCheck) checkRestriction(ctx context.Context, rule Restriction, dotted string, is,
	was tftypes.Value) {
	identity := p.Session.API.Identity()
	mayBeRoot := identity.IsRootTicket() || identity.PlanOnly
	if rule.Root.Instead != "" && !mayBeRoot && (rule.isRoots(is) || rule.isRoots(was)) {
		p.refuseRestricted(dotted, "Only root@pam may set "+dotted,
			fmt.Sprintf("PVE lets only the user root@pam with a password change this option; the provider acts as %s. "+
				"Give the provider username = \"root@pam\" and a password, or %s.", identity.User, rule.Root.Instead))
	}
	if is.IsNull() {
		return
	}
	p.checkVersion(ctx, rule, dotted)
}

// isRoots reports whether a value is one that only root may set.
func (r Restriction) isRoots(v tftypes.Value) bool {
	return !v.IsNull() && (r.Root.Values == nil || r.Root.Values(model.StringOf(v)))
}

// nodes are those whose release decides about an attribute. PVE hands the requests for a VM to its node, whose
// qemu-server checks their options (pve-manager HTTPServer.pm, rest_handler; "proxyto" in qemu-server API2/Qemu.pm). HA
// is the business of the node that the endpoint names, "". Of nodes to choose from it is the first that is online, and
// a clone that names none is made on the node of its source.
func (p restrictionCheck) node(ctx context.Context, dotted string) string {
	clone := p.Config.At("clone")
	_, isPlanned := serverCheck(p).plannedSource()
	switch {
	case strings.HasPrefix(dotted, "ha."), p.Machines == nil:
	case p.Plan.Node != nil:
		return *p.Plan.Node
	case p.Plan.Nodes != nil:
		return p.Machines.Place(ctx, p.Plan.Nodes)
	case p.Creating() && !isPlanned && !clone.IsNull() && clone.IsFullyKnown():
		if source, _, err := p.Run.Source(ctx, p.Plan.Clone.Request(), p.Machines.CloneSource); err == nil {
			return source.Listed.Node
		}
	}
	return ""
}

// checkVersion refuses what the release of a node does not have. One that does not tell is left to refuse it itself.
func (p restrictionCheck) checkVersion(ctx context.Context, rule Restriction, dotted string) {
	if rule.since.Release == "" && rule.removed.Release == "" {
		return
	}
	api, node := p.Session.API, p.node(ctx, dotted)
	v, err := api.Cluster().VersionOf(ctx, node)
	if err != nil || v.Major == 0 {
		return
	}
	server := "Node " + node
	if node == "" {
		server = "The server at " + api.Endpoint()
	}
	p.refuseVersion(rule, dotted, server, v)
}

func (p restrictionCheck) refuseVersion(rule Restriction, dotted, server string, v pve.Version) {
	if rule.since.Release != "" && !rule.since.Has([3]int{v.Major, v.Minor, v.Patch}) {
		p.refuseRestricted(dotted, fmt.Sprintf("%s needs Proxmox VE %s", dotted, rule.since.Releases()),
			fmt.Sprintf("%s runs Proxmox VE %s, which does not have this option. Leave it out, or upgrade the server.",
				server, v.Version))
		return
	}
	const instead = "use an HA rule (proxmox_ha_rule of type node-affinity), which names the VM and its nodes. PVE " +
		"makes none while the cluster has groups, and turns these into rules once all its nodes are upgraded"
	if rule.removed.Release != "" && v.AtLeast(rule.removed.Manager[:]...) {
		p.refuseRestricted(dotted, fmt.Sprintf("Proxmox VE %s has no %s any more", rule.removed.Release, dotted),
			fmt.Sprintf("%s runs Proxmox VE %s. Leave the attribute out, and %s.", server, v.Version, instead))
	}
}

func (p restrictionCheck) refuseRestricted(dotted, summary, detail string) {
	at, _ := p.Plan.Locator().Attribute(dotted)
	p.Diags.AddAttributeError(at, summary, detail)
}
