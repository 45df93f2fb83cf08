package guest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// NotesStop says what HA's manager notes when it is asked to stop or to shut down a guest (pve-ha-manager HA/Manager.pm
// next_state_started). A start through PVE notes the contrary (qemu-server API2/Qemu.pm vm_start).
const NotesStop = "It also sets the state of the VM's HA entry to \"stopped\": HA does not start the guest again " +
	"before that is \"started\""

// HA is a VM's entry in the HA configuration. Nil options are the entry's defaults.
type HA struct {
	State       *string `tfsdk:"state"` // started, stopped, disabled, ignored
	Group       *string `tfsdk:"group"` // until PVE 8
	MaxRestart  *int64  `tfsdk:"max_restart"`
	MaxRelocate *int64  `tfsdk:"max_relocate"`
	Comment     *string `tfsdk:"comment"`
	Failback    *bool   `tfsdk:"failback"` // from PVE 9 on
}

// Options are the entry's options in PVE's names (pve-ha-manager HA/Resources.pm). A state cannot be reset.
func (h *HA) Options() map[string]string {
	all := map[string]string{}
	if h == nil {
		return all
	}
	for name, value := range map[string]*string{"state": h.State, "group": h.Group, "comment": h.Comment} {
		if value != nil && *value != "" {
			all[name] = *value
		}
	}
	for name, value := range map[string]*int64{"max_restart": h.MaxRestart, "max_relocate": h.MaxRelocate} {
		if value != nil {
			all[name] = strconv.FormatInt(*value, 10)
		}
	}
	if h.Failback != nil {
		all["failback"] = property.ShowBool(*h.Failback)
	}
	return all
}

// Stops reports whether HA is to keep the guest off.
func (h *HA) Stops() bool {
	return h != nil && h.State != nil && (*h.State == "stopped" || *h.State == "disabled")
}

// Starts reports whether HA is to keep the guest running.
func (h *HA) Starts() bool {
	return h != nil && (h.State == nil || *h.State == "started")
}

// Ignores reports whether HA is to leave the guest alone: it begins no task on it (pve-ha-manager PVE/HA/Config.pm
// service_is_ha_managed).
func (h *HA) Ignores() bool { return h != nil && h.State != nil && *h.State == "ignored" }

func haFrom(options map[string]string) *HA {
	entry := &HA{State: text(options, "state"), Group: text(options, "group"), Comment: text(options, "comment"),
		MaxRestart: count(options, "max_restart"), MaxRelocate: count(options, "max_relocate")}
	if value, is := options["failback"]; is {
		entry.Failback = new(value == "1")
	}
	return entry
}

func text(values map[string]string, name string) *string {
	if v := values[name]; v != "" {
		return &v
	}
	return nil
}

func count(values map[string]string, name string) *int64 {
	n, err := strconv.ParseInt(values[name], 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// HAEntries reads and changes the HA entries of VMs, of one cluster.
type HAEntries struct {
	api  *pve.Client
	jobs *request.Runner
}

// ReadHA reads a VM's entry; nil if it has none.
func (h *HAEntries) ReadHA(ctx context.Context, vmid int) (*HA, error) {
	entry, err := h.api.HA().Resource(ctx, vmid)
	if pve.IsKind(err, pve.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return haFrom(entry.Options), nil
}

// contend sends a request that names the VMID alone. prove is called before each try, since the lock of HA's
// configuration may be waited for: it returns nil if the VMID still has the VM that is meant.
func (h *HAEntries) contend(ctx context.Context, vmid int, prove, send func(context.Context) error) error {
	return h.jobs.Contend(ctx, "", vmid, SoonAfter(h.jobs.Clock, prove, send))
}

// EnterHA makes an entry. prove is called before each try.
func (h *HAEntries) EnterHA(ctx context.Context, vmid int, options pve.Params,
	prove func(context.Context) error) error {
	return h.contend(ctx, vmid, prove, func(ctx context.Context) error { return h.api.HA().Create(ctx, vmid, options) })
}

// IgnoredByHA warns of a VM whose HA entry, which is not of the configuration, has the state ignored. A destroy sets
// that for its shutdown, and one that is killed leaves it so.
func IgnoredByHA(vmid int) Warning {
	return Warning{Summary: fmt.Sprintf("HA ignores VM %d", vmid),
		Detail: fmt.Sprintf("Its HA entry is not of the configuration and has the state ignored, so HA neither starts nor "+
			"moves the VM. A destroy that was killed leaves an entry like that. If it is not meant, `%s` on a node has HA "+
			"manage the VM.", shell.VM("ha-manager set vm:{vmid} --state started", vmid))}
}

// RefusedHA explains a refusal: HA belongs to the cluster, so a role on VMs is not enough.
func RefusedHA(vmid int, err error) error {
	if !pve.IsKind(err, pve.Denied) {
		return err
	}
	return &FieldError{Path: "ha", Summary: fmt.Sprintf("No permission to change the HA entry of VM %d", vmid),
		Detail: "It takes the privileges Sys.Console and Sys.Audit on /. Grant them, or leave ha out and manage HA " +
			"elsewhere", Err: err}
}

// ChangeHA brings the entry from what state knows to what is planned; only what differs is sent. prove is called before
// each try.
func (h *HAEntries) ChangeHA(ctx context.Context, vmid int, prior, want *HA,
	prove func(context.Context) error) error {
	before, after := prior.Options(), want.Options()
	var err error
	switch {
	case prior == nil && want == nil || prior != nil && want != nil && maps.Equal(before, after):
		return nil
	case want == nil:
		err = h.DropHA(ctx, vmid, func(ctx context.Context) error {
			if err := h.checkRemoval(ctx, vmid, before); err != nil {
				return err
			}
			return prove(ctx)
		})
	case prior == nil:
		err = h.set(ctx, vmid, nil, after, prove, func(has map[string]string) error {
			return refuseUnknown(vmid, has, after)
		})
	default:
		err = h.set(ctx, vmid, before, after, prove, func(has map[string]string) error {
			return refuseChanged(vmid, sent(differing(before, after, has)), has, before, inForce(after))
		})
	}
	return RefusedHA(vmid, err)
}

// CheckUnknownHA refuses an update that would change an entry of which neither the state nor, by that, the plan knows.
// A refresh takes each entry of the listing into the state, so such an entry came after it.
func (h *HAEntries) CheckUnknownHA(ctx context.Context, vmid int, want *HA) error {
	entry, err := h.api.HA().Resource(ctx, vmid)
	if pve.IsKind(err, pve.NotFound) {
		return nil
	}
	if err != nil {
		return RefusedHA(vmid, err)
	}
	return refuseUnknown(vmid, entry.Options, want.Options())
}

// inForce are the options of an entry with the defaults of those that it leaves out; "enabled" is an alias
// (pve-ha-manager HA/Resources.pm, HA/Config.pm read_and_check_resources_config).
func inForce(options map[string]string) map[string]string {
	is := map[string]string{"state": "started", "max_restart": "1", "max_relocate": "1", "failback": "1"}
	maps.Copy(is, options)
	if is["state"] == "enabled" {
		is["state"] = "started"
	}
	return is
}

// refuseUnknown compares an entry with the wanted one.
func refuseUnknown(vmid int, has, want map[string]string) error {
	is := inForce(has)
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if is[name] != want[name] {
			changed = append(changed, fmt.Sprintf("%s: %s, becomes %s", name, cmp.Or(is[name], "none"), want[name]))
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return &FieldError{Path: "ha", Summary: fmt.Sprintf("VM %d has an HA entry that the state does not know", vmid),
		Detail: fmt.Sprintf("The plan has not seen it, and shows a new one. These options of it, in PVE's names, "+
			"would change:\n  %s\nThe entry was left as it is. Make a new plan, which shows that. Or remove the entry "+
			"in PVE's interface (Datacenter, HA)", strings.Join(changed, "\n  "))}
}

// checkRemoval refuses to remove an entry that has other options than the state. PVE binds the removal to no digest
// (pve-ha-manager API2/HA/Resources.pm delete).
func (h *HAEntries) checkRemoval(ctx context.Context, vmid int, before map[string]string) error {
	entry, err := h.api.HA().Resource(ctx, vmid)
	if pve.IsKind(err, pve.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	all := inForce(before)
	maps.Copy(all, entry.Options)
	return refuseChanged(vmid, slices.Collect(maps.Keys(all)), entry.Options, before, nil)
}

// refuseChanged refuses a request for some options of an entry if one has neither the value in state nor the planned
// one. A state that PVE writes for a power request is as good as that in state, since the request may be this update's.
// PVE writes none while HA ignores the VM (qemu-server API2/Qemu.pm vm_start, vm_shutdown; pve-ha-manager HA/Manager.pm
// update_crm_commands, HA/Config.pm vm_is_ha_managed).
func refuseChanged(vmid int, options []string, has, before, after map[string]string) error {
	was, is := inForce(before), inForce(has)
	if was["state"] != "ignored" && (is["state"] == "started" || is["state"] == "stopped") {
		is["state"] = was["state"]
	}
	changed := changedSince(options, is, was, after)
	if len(changed) == 0 {
		return nil
	}
	return &FieldError{Path: "ha",
		Summary: fmt.Sprintf("The HA entry of VM %d was changed outside Terraform since the plan", vmid),
		Detail: fmt.Sprintf("The plan changes or removes these options of it, in PVE's names, and has not seen their "+
			"values:\n  %s\nThe entry was left as it is. Make a new plan, which shows them",
			strings.Join(changed, "\n  "))}
}

// DropHA removes the entry. Removing it twice is as good as once. prove is called before each try.
func (h *HAEntries) DropHA(ctx context.Context, vmid int, prove func(context.Context) error) error {
	for attempt := 0; ; attempt++ {
		err := h.contend(ctx, vmid, prove, func(ctx context.Context) error { return h.api.HA().RemoveGuest(ctx, vmid) })
		if err == nil || pve.IsKind(err, pve.NotFound) {
			return nil
		}
		if attempt == 2 || !pve.IsKind(err, pve.Ambiguous) || h.jobs.Pause(ctx, attempt+1) != nil {
			return err
		}
	}
}

// SetHA changes the options that differ. Without an entry it makes one if before is nil; else a third party has taken
// the VM out of HA, which is an error. The digest is that of all entries, so a refusal for its sake is only a conflict
// if this entry has changed. prove is called before each try.
func (h *HAEntries) SetHA(ctx context.Context, vmid int, before, after map[string]string,
	prove func(context.Context) error) error {
	return h.set(ctx, vmid, before, after, prove, func(map[string]string) error { return nil })
}

// set is SetHA. check refuses to change an entry that has some options.
func (h *HAEntries) set(ctx context.Context, vmid int, before, after map[string]string,
	prove func(context.Context) error, check func(has map[string]string) error) error {
	var seen map[string]string
	var last error
	for attempt := 0; ; attempt++ {
		entry, err := h.api.HA().Resource(ctx, vmid)
		switch {
		case pve.IsKind(err, pve.NotFound) && before != nil:
			return &FieldError{Path: "ha", Summary: fmt.Sprintf("VM %d is not under HA any more", vmid),
				Detail: "The plan changes its HA entry, and a third party has removed the entry since. It was not made again. " +
					"Make a new plan, which shows that", Err: err}
		case pve.IsKind(err, pve.NotFound):
			err = h.EnterHA(ctx, vmid, after, prove)
		case err != nil:
			return err
		case pve.IsKind(last, pve.DigestMismatch) && !maps.Equal(seen, entry.Options):
			return last
		default:
			if err := check(entry.Options); err != nil {
				return err
			}
			params := differing(before, after, entry.Options)
			if len(params) == 0 {
				return nil
			}
			seen, params["digest"] = entry.Options, entry.Digest
			err = h.contend(ctx, vmid, prove, func(ctx context.Context) error { return h.api.HA().Update(ctx, vmid, params) })
		}
		again := pve.IsKind(err, pve.Ambiguous) || pve.IsKind(err, pve.Exists) || pve.IsKind(err, pve.DigestMismatch)
		if err == nil || !again || attempt >= 3 || h.jobs.Pause(ctx, attempt+1) != nil {
			return err
		}
		last = err
	}
}

// differing is what is to be sent: what the plan changes, as far as the server does not have it.
func differing(before, after, has map[string]string) pve.Params {
	params, gone := pve.Params{}, []string{}
	for name, value := range after {
		if before[name] != value && has[name] != value {
			params[name] = value
		}
	}
	for name := range before {
		_, wanted := after[name]
		if _, there := has[name]; !wanted && there && name != "state" {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		params["delete"] = strings.Join(gone, ",")
	}
	return params
}

// sent are the names of the options that a request sets or resets.
func sent(p pve.Params) []string {
	names := strings.FieldsFunc(p["delete"], func(r rune) bool { return r == ',' })
	for name := range p {
		if name != "delete" {
			names = append(names, name)
		}
	}
	return names
}

// changedSince describes those of some options that have a third value beside the one before and the planned one.
func changedSince(options []string, has, before, after map[string]string) []string {
	var changed []string
	for _, name := range slices.Sorted(slices.Values(options)) {
		if is := has[name]; is != before[name] && is != after[name] {
			changed = append(changed, fmt.Sprintf("%s: was %s, is %s, planned %s", name, cmp.Or(before[name], "none"),
				cmp.Or(is, "none"), cmp.Or(after[name], "none")))
		}
	}
	return changed
}
