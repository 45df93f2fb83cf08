package job

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// AppendsToBootOrder tells whether PVE will append CD-ROM drives of a change to the boot order: it does so with every one that is
// written and not in it, in whatever order it takes the options of a request (qemu-server API2/Qemu.pm update_vm_api). So
// an order that is to be another one has to be written afterwards.
func AppendsToBootOrder(change vm.Change, order []string) bool {
	drives := vm.Decode(change.Set).CDROMs
	for slot := range drives {
		if !slices.Contains(order, slot) {
			return true
		}
	}
	return false
}

// SetBootOrder writes the boot order that is wanted in the place of the one that PVE has made, into the configuration with this digest.
// It reports whether that was what PVE changed, as setRead does.
func (s *Runner) SetBootOrder(ctx context.Context, node string, vmid int, order []string, digest string) (known bool, err error) {
	return s.setRead(ctx, node, vmid, pve.Params{"boot": vm.Encode(vm.Spec{Options: vm.Options{BootOrder: order}})["boot"], "digest": digest})
}

// Problems is what cannot be done in place, worded like a refusal of the options concerned by PVE, so that it is shown on
// their attributes.
func Problems(verb string, vmid int, change vm.Change) error {
	params := map[string]string{}
	for _, p := range change.Problems {
		params[p.Option] = p.Text
	}
	return &pve.Error{Op: fmt.Sprintf("%s VM %d", verb, vmid), Kind: pve.Invalid, Message: "nothing was changed", Params: params}
}

// Apply sends the options of a change: through a task where a volume is allocated, since a request may only take 30 s. It reports
// whether the configuration with this digest was what PVE changed, as setRead does.
func (s *Runner) Apply(ctx context.Context, l *Tasks, node string, vmid int, change vm.Change, digest string) (known bool, err error) {
	if len(change.DeleteFirst) > 0 {
		params := pve.Params{"delete": strings.Join(change.DeleteFirst, ",")}
		if digest != "" {
			params["digest"] = digest
		}
		if err := s.Set(ctx, node, vmid, params); err != nil {
			return false, err
		}
		digest = "" // the request has just changed it
	}
	if len(change.Set)+len(change.Delete) == 0 {
		return false, nil
	}
	params := pve.Params{}
	for option, value := range change.Set {
		params[option] = value
	}
	if len(change.Delete) > 0 {
		params["delete"] = strings.Join(change.Delete, ",")
	}
	if digest != "" {
		params["digest"] = digest
	}
	if !change.Allocates() {
		return s.setRead(ctx, node, vmid, params)
	}
	_, err = s.Perform(ctx, l, Request{Node: node, Type: "qmconfig", ID: vmid,
		Send: func(ctx context.Context) (pve.UPID, error) { return s.API.UpdateConfigTask(ctx, node, vmid, params) }})
	return false, err
}

// Set changes options that allocate nothing, as soon as nobody holds the VM.
func (s *Runner) Set(ctx context.Context, node string, vmid int, params pve.Params) error {
	return s.Contend(ctx, node, vmid, func(ctx context.Context) error { return s.Put(ctx, node, vmid, params) })
}

// setRead is Set for a configuration that was just read, whose digest is in params. It reports whether that was what PVE changed,
// which is not known without a digest, nor once an answer was lost.
func (s *Runner) setRead(ctx context.Context, node string, vmid int, params pve.Params) (known bool, err error) {
	err = s.Contend(ctx, node, vmid, func(ctx context.Context) error {
		resent, err := s.put(ctx, node, vmid, params)
		known = !resent && params["digest"] != ""
		return err
	})
	return known, err
}

// Put changes options that allocate nothing. Such a request means the same when it is sent twice, so a lost answer is
// followed by a second try, without the digest, which the first may have changed.
func (s *Runner) Put(ctx context.Context, node string, vmid int, params pve.Params) error {
	_, err := s.put(ctx, node, vmid, params)
	return err
}

// put is Put, and reports whether it had to send more than once.
func (s *Runner) put(ctx context.Context, node string, vmid int, params pve.Params) (resent bool, err error) {
	err = s.API.UpdateConfig(ctx, node, vmid, params)
	if !pve.IsKind(err, pve.Ambiguous) {
		return false, err
	}
	late, cancel := s.LookAfter(ctx) // an interrupt may have cut the line: a second try settles what is true
	defer cancel()
	params = maps.Clone(params)
	delete(params, "digest")
	for attempt := 1; attempt < 3 && pve.IsKind(err, pve.Ambiguous) && s.Pause(late, attempt) == nil; attempt++ {
		err = s.API.UpdateConfig(late, node, vmid, params)
	}
	return true, err
}

// GrowRead grows a disk of the configuration with this digest.
func (s *Runner) GrowRead(ctx context.Context, l *Tasks, node string, vmid int, g vm.Growth, digest string) error {
	_, err := s.Perform(ctx, l, Request{Node: node, Type: "resize", ID: vmid,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return s.API.Resize(ctx, node, vmid, g.Slot, vm.FormatSize(g.Size), digest)
		}})
	if err != nil {
		return fmt.Errorf("grow %s to %s: %w", g.Slot, vm.FormatSize(g.Size), err)
	}
	return nil
}

// Convert makes a VM a template.
func (s *Runner) Convert(ctx context.Context, l *Tasks, node string, vmid int) error {
	_, err := s.Perform(ctx, l, Request{Node: node, Type: "qmtemplate", ID: vmid,
		Send: func(ctx context.Context) (pve.UPID, error) { return s.API.ConvertToTemplate(ctx, node, vmid) }})
	return err
}

// Revert drops options that wait for a restart, of the configuration with this digest; "" is any.
func (s *Runner) Revert(ctx context.Context, node string, vmid int, options []string, digest string) error {
	params := pve.Params{"revert": strings.Join(options, ",")}
	if digest != "" {
		params["digest"] = digest
	}
	return s.Set(ctx, node, vmid, params)
}
