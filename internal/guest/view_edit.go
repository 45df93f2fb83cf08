package guest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Begin names the step that is at work. The log names it once the step sends its first request.
func (v *View) Begin(step string) { v.step = step }

// logStep logs which step sends a request, once.
func (v *View) logStep(ctx context.Context) {
	if v.jobs.Log != nil && v.step != "" {
		v.jobs.Log(ctx, v.step, nil)
	}
	v.step = ""
}

// Send sends a request that changes the VM. The configuration is stale afterwards.
func (v *View) Send(ctx context.Context, send func(context.Context) error) error {
	v.logStep(ctx)
	v.Forget()
	v.Written, v.Settled = nil, false
	return send(ctx)
}

// BeforeEach runs look before each try of a request that no digest binds and that may change the configuration. A
// reading from before a wait is no ground to act on.
func (v *View) BeforeEach(look, try func(context.Context) error) func(context.Context) error {
	return v.beforeEach(look, func(ctx context.Context) error {
		v.Forget()
		return try(ctx)
	})
}

func (v *View) beforeEach(look, try func(context.Context) error) func(context.Context) error {
	tries := 0
	once := func(ctx context.Context) error {
		if v.stale = v.stale || v.waited; tries > 0 {
			v.Forget() // a reading from before a wait is no ground to act on
		}
		tries++
		if err := look(ctx); err != nil {
			return err
		}
		if err := GuardUnlessSeen(ctx, v); err != nil {
			return err
		}
		v.logStep(ctx)
		v.waited, v.Written, v.proved, v.Settled = true, nil, false, false
		ctx = Soon(ctx, v.jobs.Clock, v.seen)
		v.NoteSeen(false)
		return try(ctx)
	}
	return func(ctx context.Context) error { return unlessLate(ctx, once) }
}

// IsThere is the plainest look: it proves whose VM it is and nothing else.
func (v *View) IsThere(ctx context.Context) error {
	_, err := v.Fresh(ctx)
	return err
}

// Contend sends a request that no digest binds and that starts no task, as soon as no lock is in its way. look runs
// before each try. node may be "": a lock is then not looked up on any node.
func (v *View) Contend(ctx context.Context, node string, look, send func(context.Context) error) error {
	return v.jobs.Contend(ctx, node, v.VMID, v.BeforeEach(look, send))
}

// Perform sends a request that no digest binds and awaits its task. look runs before each try. The configuration is
// stale afterwards.
func (v *View) Perform(
	ctx context.Context, r request.Request, look func(context.Context) error,
) (pve.TaskResult, error) {
	return v.perform(ctx, r, v.BeforeEach, look)
}

// Act is Perform for a request that leaves the configuration as it is.
func (v *View) Act(ctx context.Context, r request.Request, look func(context.Context) error) (pve.TaskResult, error) {
	return v.perform(ctx, r, v.beforeEach, look)
}

func (v *View) perform(ctx context.Context, r request.Request,
	each func(look, try func(context.Context) error) func(context.Context) error, look func(context.Context) error,
) (pve.TaskResult, error) {
	r.Node, r.ID = v.node, v.VMID
	send, upid := r.Send, pve.UPID("")
	try := each(look, func(ctx context.Context) (err error) { upid, err = send(ctx); return err })
	r.Send = func(ctx context.Context) (pve.UPID, error) {
		upid = ""
		err := try(ctx)
		return upid, err
	}
	return v.jobs.Perform(ctx, &v.Tasks, r)
}

// Power returns what sends a request that starts, stops or restarts the guest. look, if it is not nil, runs before each
// try. Then it is proved whose VM it is, if anything was sent or awaited since the last proof, or since
// Written.Foretold. Such a request changes the configuration only if a change waits for it.
func (v *View) Power(look func(context.Context) error) Performer {
	return func(ctx context.Context, r request.Request) (pve.TaskResult, error) {
		v.Powered = true
		send := r.Send
		r.Send = func(ctx context.Context) (pve.UPID, error) {
			v.stale = v.stale || len(v.config.Waiting()) > 0 || v.config.Current()["lock"] != ""
			return send(ctx)
		}
		return v.Act(ctx, r, func(ctx context.Context) error {
			if look != nil {
				if err := look(ctx); err != nil {
					return err
				}
			}
			if v.proved && v.SeenWithin(Moment) {
				return nil
			}
			return v.IsThere(ctx)
		})
	}
}

// Edit changes the VM as decide wants it: it reads the configuration, decides, and writes with the digest of that
// reading. If the configuration has changed meanwhile it does all of that again, a few times. An empty change sends
// nothing.
func (v *View) Edit(ctx context.Context, decide func(context.Context, pve.PendingConfig) (vm.Change, error)) error {
	return v.Try(ctx, func(ctx context.Context, read pve.PendingConfig) error {
		change, err := decide(ctx, read)
		if err != nil || len(change.Set)+len(change.Delete)+len(change.DeleteFirst) == 0 {
			return err
		}
		_, err = v.Write(ctx, change, read)
		return err
	})
}

// Try runs a function with the configuration. While it fails because PVE refuses the digest, the function runs again
// with the configuration as it is then.
func (v *View) Try(ctx context.Context, try func(context.Context, pve.PendingConfig) error) error {
	read := v.Fresh
	return v.jobs.Retry(ctx, request.Conflict(), func(ctx context.Context) error {
		config, err := read(ctx)
		if err != nil {
			return err
		}
		read = v.reread
		return try(ctx, config)
	})
}

// reread reads the configuration after PVE has refused a digest. A lock that came since changes the digest too, and PVE
// compares that before it looks at the lock (qemu-server API2/Qemu.pm update_vm_api, resize_vm). So the lock is
// awaited.
func (v *View) reread(ctx context.Context) (pve.PendingConfig, error) {
	began := v.jobs.Clock.Now()
	config, err := v.unlocked(ctx)
	if err == nil {
		v.accept(config, began)
	}
	return config, err
}

// Write sends a change of the configuration as it was read. exact reports that PVE changed this very configuration: it
// is false if nothing was sent, or if an answer was lost.
func (v *View) Write(ctx context.Context, c vm.Change, read pve.PendingConfig) (exact bool, err error) {
	return v.write(ctx, c, read, nil)
}

func (v *View) write(ctx context.Context, c vm.Change, read pve.PendingConfig, look Look) (exact bool, err error) {
	if _, renewed := c.Set["smbios1"]; renewed {
		v.identity = Identity{}
	}
	v.NoteSeen(false)
	began := v.jobs.Clock.Now() // the machine may sleep before it hears the answer
	err = v.Send(ctx, func(ctx context.Context) (err error) {
		exact, err = v.jobs.Apply(ctx, &v.Tasks, v.node, v.VMID, c, bound(v, read, c, look))
		return err
	})
	if exact && err == nil {
		v.seen, v.Written = began, &Written{v, c, read, began}
	}
	return exact, err
}

// Look returns nil if a change may be sent. now is what was read of the VM last.
type Look func(ctx context.Context, now pve.PendingConfig) error

// Apply is Write for a change that was worked out from the configuration as it was read: it is sent again only while
// nothing but the lock differs. look, if it is not nil, runs before each try.
func (v *View) Apply(ctx context.Context, c vm.Change, read pve.PendingConfig, look Look) error {
	return v.resend(ctx, read, sameButLock, func(ctx context.Context, read pve.PendingConfig) error {
		exact, err := v.write(ctx, c, read, look)
		if err == nil && exact && isImmediate(c, read) {
			v.Expect(read.With(c.Set, c.Delete))
		}
		return err
	})
}

// Set changes options that allocate nothing, while nothing but the lock differs from what Fresh returns.
func (v *View) Set(ctx context.Context, params pve.Params) error {
	read, err := v.Fresh(ctx)
	if err != nil {
		return err
	}
	return v.resend(ctx, read, sameButLock, func(ctx context.Context, read pve.PendingConfig) error {
		return v.Send(ctx, func(ctx context.Context) error {
			return v.jobs.Set(ctx, v.node, v.VMID, params, bound(v, read, vm.Change{}, nil))
		})
	})
}

// Revert drops options that wait for a restart, while they are as they were read: PVE drops any value that waits by
// then (qemu-server API2/Qemu.pm update_vm_api).
func (v *View) Revert(ctx context.Context, options []string, read pve.PendingConfig) error {
	changed := -1
	same := func(was, now pve.PendingConfig) bool {
		changed = slices.IndexFunc(options, func(option string) bool { return !sameOption(option, was, now) })
		return changed < 0
	}
	err := v.resend(ctx, read, same, func(ctx context.Context, read pve.PendingConfig) error {
		return v.Send(ctx, func(ctx context.Context) error {
			return v.jobs.Revert(ctx, v.node, v.VMID, options, bound(v, read, vm.Change{}, nil))
		})
	})
	if changed >= 0 {
		return disturbed(v.VMID, options[changed])
	}
	return err
}

// Grow grows disks in the order of their slots, as long as each has the volume that it had.
func (v *View) Grow(ctx context.Context, all []vm.Growth) error {
	grow := slices.SortedFunc(slices.Values(all), func(a, b vm.Growth) int { return strings.Compare(a.Slot, b.Slot) })
	for _, g := range grow {
		read, err := v.Fresh(ctx)
		if err != nil {
			return err
		}
		same := func(was, now pve.PendingConfig) bool {
			return VolumeOf(was.Current()[g.Slot]) == VolumeOf(now.Current()[g.Slot])
		}
		err = v.resend(ctx, read, same, func(ctx context.Context, read pve.PendingConfig) error {
			return v.Send(ctx, func(ctx context.Context) error {
				return v.jobs.GrowRead(ctx, &v.Tasks, v.node, v.VMID, g, read.Digest)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// resend sends a request with the digest of the last reading, and again with a new digest while the VM is the same as
// far as the request is concerned.
func (v *View) resend(ctx context.Context, read pve.PendingConfig, same func(was, now pve.PendingConfig) bool,
	send func(context.Context, pve.PendingConfig) error) error {
	var refused error
	policy, differs := request.Conflict(), false
	isConflict := policy.Again
	policy.Again = func(err error) bool { return !differs && isConflict(err) }
	return v.jobs.Retry(ctx, policy, func(ctx context.Context) error {
		if refused != nil {
			now, err := v.reread(ctx)
			if pve.IsKind(err, pve.Locked) {
				return err
			}
			if differs = err != nil || !same(read, now); differs {
				return refused
			}
			read = now
		}
		refused = send(ctx, read)
		return refused
	})
}

// bound binds the requests of a change to the configuration that it was worked out from. One that follows another, or
// that is sent again since its answer was lost, has the digest of then, unless a third party has changed what the
// change is about: PVE would put the older values in the place of his.
func bound(v *View, read pve.PendingConfig, c vm.Change, look Look) request.Bound {
	last := read
	b := request.Bound{Digest: read.Digest, Again: func(ctx context.Context, next map[string]string) (string, error) {
		now, err := v.read(ctx, true)
		if err == nil {
			last, err = now, CheckUndisturbed(v.VMID, read, now, c, next)
		}
		return now.Digest, err
	}}
	if look != nil {
		b.Each = func(send func(context.Context) error) func(context.Context) error {
			return SoonAfter(v.jobs.Clock, func(ctx context.Context) error { return look(ctx, last) }, send)
		}
	}
	return b
}

// CheckUndisturbed refuses to send options of a change, the next ones, if one of them has by now neither the value that
// was read nor the one that the change gives it. If drives are written, all drives count: PVE would attach one volume
// twice. The boot order then does not count, since PVE itself changes it with the drives (qemu-server API2/Qemu.pm
// update_vm_api).
func CheckUndisturbed(vmid int, read, now pve.PendingConfig, c vm.Change, next map[string]string) error {
	was, is := read.Merged(), now.Merged()
	deleted, reverted := strings.Split(next["delete"], ","), strings.Split(next["revert"], ",")
	about := slices.Concat(slices.Collect(maps.Keys(next)), deleted)
	if slices.ContainsFunc(about, vm.IsSlot) {
		about = slices.Concat(about, vm.Slots(was), vm.Slots(is))
		about = slices.DeleteFunc(about, func(option string) bool { return option == "boot" })
	}
	emptied := slices.Concat(deleted, c.DeleteFirst)
	for _, option := range slices.Concat(about, reverted) {
		value, isNext := next[option]
		_, sent := c.Set[option]
		switch {
		case is[option] == was[option], isNext && vm.MeansSame(option, is[option], value), sent && !isNext,
			is[option] == "" && slices.Contains(emptied, option),
			is[option] == now.Current()[option] && slices.Contains(reverted, option):
		default:
			return disturbed(vmid, option)
		}
	}
	return nil
}
