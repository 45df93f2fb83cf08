package contention_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
)

// own is what the VM at hand has: the data of its disks, and its options.
type own struct {
	data   []string
	config map[string]string
}

// ownOf reads it from a cluster.
func ownOf(w *state.World, vmid int) (o own) {
	for _, v := range w.Volumes {
		if strings.HasPrefix(v.Data, engine.LabelOf("")) {
			o.data = append(o.data, v.Data)
		}
	}
	if g := w.Guests[vmid]; g != nil && !w.ThirdParties.Guests[g] {
		o.config = settings(g.NextConfig())
	}
	return o
}

// ownNow is what the VM at hand has now.
func (b *adversaryBench) ownNow() (o own) {
	b.w.Change(func(w *state.World) { o = ownOf(w, b.scene.vmid) })
	return o
}

// destructive are the acts by which a third party itself destroys or replaces what the VM at hand has.
var destructive = []thirdparty.Act{thirdparty.Delete, thirdparty.Restore, thirdparty.RestoreHis, thirdparty.Rollback}

// destroyedByThem tells whether a third party did one of these, or half of it: a restore over a VM destroys it first.
func (a *inspection) destroyedByThem() bool {
	return slices.ContainsFunc(a.acts, func(d thirdparty.Report) bool { return slices.Contains(destructive, d.Act) })
}

// ownDataLives wants the data of each disk that the change alone would have kept to be there still.
func (a *inspection) ownDataLives(when string) {
	if a.destroyedByThem() {
		return
	}
	now := a.b.ownNow()
	for _, data := range a.b.kept.data {
		if slices.Contains(a.b.was.data, data) && !slices.Contains(now.data, data) {
			a.add("%s, %q is lost, which the change alone keeps", when, data)
		}
	}
}

// ownSettingsStand wants each option that a third party changed, and that the change alone leaves as it was, to be as the third party has
// left it.
func (a *inspection) ownSettingsStand(when string) {
	now := a.b.ownNow()
	if a.b.scene.before == "" || a.b.plansMore() || a.destroyedByThem() || now.config == nil {
		return
	}
	theirs := map[string]string{}
	for _, d := range a.acts {
		if d.About != a.b.scene.vmid || d.Had == nil || d.Has == nil {
			continue
		}
		had, has := settings(d.Had), settings(d.Has)
		for opt := range both(had, has) {
			if had[opt] != has[opt] {
				theirs[opt] = has[opt]
			}
		}
	}
	for opt, value := range theirs {
		if strings.HasPrefix(opt, "unused") { // a removed disk of the change has one for a moment, which a stop by others makes
			continue
		}
		if opt != "lock" && a.b.was.config[opt] == a.b.kept.config[opt] && now.config[opt] != value {
			a.add("%s, the option %s is %q, which a third party has left as %q", when, opt, now.config[opt], value)
		}
	}
}

// plansMore tells whether the plan that was made while third parties acted names more than the one without them.
func (b *adversaryBench) plansMore() bool {
	return b.renewed != nil && b.renewed.String() != b.plan.String()
}

// settings are the options of a configuration, and the properties of those that have some: "scsi0 cache". A volume is called by nothing,
// since a migration or a conversion renames it.
func settings(config map[string]string) map[string]string {
	all := map[string]string{}
	for opt, value := range config {
		if opt == "description" || opt == "lock" {
			all[opt] = value
			continue
		}
		for _, property := range strings.Split(value, ",") {
			name, is, named := strings.Cut(property, "=")
			switch {
			case named:
				all[opt+" "+name] = is
			case strings.Contains(property, ":"):
				all[opt] = "a volume"
			default:
				all[opt] = property
			}
		}
	}
	return all
}

// both has the keys of two configurations.
func both(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
