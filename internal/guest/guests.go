// Package guest says what is at an id: whose VM it is (identity, the mark of a create, proof), where it is, what it
// is like, and which volumes carry its id. It reads guests, and does what creates, changes and removals need alike:
// power, HA, the firewall, waiting. It removes nothing.
package guest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// Guests reads and changes the guests of one cluster.
type Guests struct {
	*Runs
	*HAEntries
	api    *pve.Client
	clock  pve.Clock
	jobs   *request.Runner
	agents *agent.Agents

	// Completed are the VMs that creates have completed, and that other runs had begun. A destroy leaves them alone,
	// though it knows them by a create that failed.
	Completed VMIDs
	// Destroyed are the VMs in state that were to be destroyed. Volumes that are there after that are no earlier VM's:
	// they were beside the VM, or in it and spared.
	Destroyed VMIDs
	// Leaving are the VMs that destroys of this process are at work on.
	Leaving Departures

	astray      sync.Map // the Astray of each VM that a refresh has found so, by VMID
	occupied    occupied
	lists       volumeLists
	sources     request.Recent[map[string]string]          // configurations of the sources of clones
	permissions request.Recent[map[string]map[string]bool] // of the identity
	entries     request.Recent[[]pve.ACLEntry]
}

// New makes Guests.
func New(jobs *request.Runner) *Guests {
	return &Guests{Runs: &Runs{Process: thisProcess(), api: jobs.API, clock: jobs.Clock, jobs: jobs,
		born: jobs.Clock.Now(), key: sync.OnceValue(func() []byte { return MarkKey(jobs.API) })},
		HAEntries: &HAEntries{api: jobs.API, jobs: jobs},
		api:       jobs.API, clock: jobs.Clock, jobs: jobs,
		agents:      agent.New(jobs.API.Reader()),
		permissions: request.Recent[map[string]map[string]bool]{Life: time.Minute}}
}

// occupied are the VMIDs that creates and destroys of this process are at work on. PVE reserves no id that it gives
// as the next free one, and frees one before the volumes that carry it are gone.
type occupied struct {
	mu  sync.Mutex
	ids map[int]int // how many are at work on each
}

// VMIDs are ids that something was noted of in this process.
type VMIDs struct{ all sync.Map }

// Note notes an id.
func (v *VMIDs) Note(vmid int) { v.all.Store(vmid, true) }

// Has reports whether an id was noted.
func (v *VMIDs) Has(vmid int) bool {
	_, noted := v.all.Load(vmid)
	return noted
}

// Departures are the destroys of this process, by VMID.
type Departures struct {
	mu    sync.Mutex
	begun map[int]int // how many, from the first
	ends  map[int]chan struct{}
}

// Begin notes that a destroy of a VM is at work until the returned function is called.
func (d *Departures) Begin(vmid int) (end func()) {
	done := make(chan struct{})
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun == nil {
		d.begun, d.ends = map[int]int{}, map[int]chan struct{}{}
	}
	d.begun[vmid]++
	d.ends[vmid] = done
	return func() { close(done) }
}

// Await waits until the last destroy of a VM that has begun is over, and returns how many have begun by then. It waits
// for nothing else: a destroy that has not begun may never begin while its caller waits, since Terraform works on so
// many objects at once and no more.
func (d *Departures) Await(ctx context.Context, vmid int) (begun int, err error) {
	for {
		d.mu.Lock()
		is, done := d.begun[vmid], d.ends[vmid]
		d.mu.Unlock()
		if is == begun {
			return begun, nil
		}
		select {
		case <-done:
			begun = is
		case <-ctx.Done():
			return begun, fmt.Errorf("wait for the destroy of VM %d by the same apply: %w", vmid, ctx.Err())
		}
	}
}

func (o *occupied) add(vmid, n int) {
	if o.ids == nil {
		o.ids = map[int]int{}
	}
	if o.ids[vmid] += n; o.ids[vmid] == 0 {
		delete(o.ids, vmid)
	}
}

func (o *occupied) leave(vmid int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(vmid, -1)
}

// Occupy notes that something is at work on an id until the returned function is called.
func (g *Guests) Occupy(vmid int) (done func()) {
	o := &g.occupied
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(vmid, 1)
	return func() { o.leave(vmid) }
}

// IsIdle reports whether nothing here is at work on a VMID. Another goroutine may occupy it at once.
func (g *Guests) IsIdle(vmid int) bool {
	o := &g.occupied
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ids[vmid] == 0
}

// OccupyIdle is Occupy for an id that nothing here is at work on; ok is false where something is.
func (g *Guests) OccupyIdle(vmid int) (done func(), ok bool) {
	o := &g.occupied
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[vmid] > 0 {
		return nil, false
	}
	o.add(vmid, 1)
	return func() { o.leave(vmid) }, true
}

// Ref is a VM in state.
type Ref struct {
	VMID int
	Node string
	// Identity is what proves that the VM is still the one in state; zero proves nothing and is filled by Read.
	Identity Identity
	// NextUUID is the uuid that the VM gets when it is restarted, where a change of it waited for that when state was
	// written.
	NextUUID string
	// Status is the power status in state; a listing that says the same is believed, another is asked about.
	Status string
	// Agent is what state knows of the guest's agent.
	Agent agent.Memory
	// Firewall and HA say that state knows of them; without that they are not read.
	Firewall, HA bool
	// Proof stands in for the identity while a failed create of ours is all that state has.
	Proof *Proof
	// Astray is what an earlier look has found astray.
	Astray Astray
	// Generation is its generation id in state; "" if that has none.
	Generation string
}

// Guest is a VM as it was read from the server.
type Guest struct {
	VMID     int
	Node     string
	Spec     vm.Spec // pending values merged
	Identity Identity
	Status   string // running, stopped
	Lock     string
	Pool     string
	Firewall *firewall.Settings // nil: not asked
	HA       *HA                // nil: none, or not asked
	Pending  []string           // options that wait for a restart
	// Leaving are the volumes of disks that leave their slots at the next stop, by slot.
	Leaving map[string]string
	// Renamed are the names that a migration of this update has given to volumes, by those of before.
	Renamed map[string]string
	Source  int // VMID of the clone source, create only
	// LegacyBoot: its boot order is in the old notation, which names kinds of devices.
	LegacyBoot bool
	// Interfaces is what the agent said; nil if it was not asked or silent.
	Interfaces []agent.Interface
	Silent     bool // the agent was asked and did not answer
	// Placeholder: there is only the empty VM under which a destroy takes a volume away, and no VM any more.
	Placeholder bool
	// Leftover is the proof for a VM that bears the mark of a create; nil for any other. Read tells it only of a mark that
	// this identity has signed.
	Leftover *Proof
	// Untraced: it is gone, and no task of the cluster names its VMID.
	Untraced bool
	// Astray are the volumes that it may have by name alone. Read tells them.
	Astray Astray
}

// NameOf is the present name of a volume that a VM had before an update.
func (g Guest) NameOf(volume string) string { return cmp.Or(g.Renamed[volume], volume) }

// HasAgent reports whether the guest can have an agent that answers. One that was enabled while the guest ran gets
// its device at the next start.
func (g Guest) HasAgent() bool {
	return g.Status == string(Running) && g.Spec.Agent.Enabled != nil && *g.Spec.Agent.Enabled &&
		!slices.Contains(g.Pending, "agent")
}

// Addresses are the addresses by network device; nil if the agent did not answer.
func (g Guest) Addresses() map[string]agent.Address {
	return agent.Addresses(g.Spec.Networks, g.Interfaces)
}

// NICs are the slots of network devices in the order of their numbers.
func (g Guest) NICs() []string { return agent.NICs(g.Spec.Networks) }

// PowerState is what the configuration wants of a guest's power; "" leaves it alone.
type PowerState string

// The power states that can be asked for.
const (
	Unmanaged PowerState = ""
	Running   PowerState = "running"
	Stopped   PowerState = "stopped"
)

// Presence is the result of a look for a VM.
type Presence int

// The outcomes of a read.
const (
	Found   Presence = iota
	Gone             // no such VM anywhere in the cluster, and the whole cluster could be seen
	Unknown          // cannot be told now (node offline, no permission): state is kept, with a warning
)

// Warning is something the operator should know although the operation succeeded.
type Warning struct {
	Summary, Detail string
	Path            string // the attribute that it is about, one of the resource's own; "" for none
}

// FieldError is an error that belongs to one attribute. Path is in terms of the resource: "vmid", "clone.vmid",
// "disks.scsi0.storage".
type FieldError struct {
	Path            string
	Summary, Detail string
	Err             error // what the server said, or nil
}

// Error is the detail, with what the server said behind it.
func (f *FieldError) Error() string {
	if f.Err == nil {
		return f.Summary + ": " + f.Detail
	}
	return f.Summary + ": " + f.Detail + ": " + f.Err.Error()
}

// Unwrap gives what the server said.
func (f *FieldError) Unwrap() error { return f.Err }

// Permissions are the privileges of the identity, by the paths that access control entries name or that a pool
// grants. They are at most a minute old: the plan of a create asks for them, and the create right after it need not
// again.
func (g *Guests) Permissions(ctx context.Context) (map[string]map[string]bool, error) {
	return g.permissions.Get(ctx, g.clock, "", func(ctx context.Context) (map[string]map[string]bool, error) {
		return g.api.Access().Permissions(ctx, "")
	})
}

// PermissionsFor names the permissions that this identity sees on a VMID. PVE keeps them by id, and removes them with
// any guest of the id, whatever it is told (qemu-server API2/Qemu.pm destroy_vm; pve-access-control AccessControl.pm
// remove_vm_access).
func PermissionsFor(ctx context.Context, g *Guests, vmid int) []string {
	paths, _ := g.api.Access().Permissions(ctx, "") // none are seen then
	return permissionsIn(paths, vmid)
}

// RecentPermissionsFor is the same by an answer that is at most a minute old, for sentences: PVE works out the
// privileges on all paths for it.
func RecentPermissionsFor(ctx context.Context, g *Guests, vmid int) []string {
	paths, _ := g.Permissions(ctx)
	return permissionsIn(paths, vmid)
}

func permissionsIn(paths map[string]map[string]bool, vmid int) []string {
	path := fmt.Sprintf("/vms/%d", vmid)
	if paths[path] == nil {
		return nil
	}
	return []string{"permissions on " + path + ", or its place in a pool"}
}

// GrantsFor names the access control entries on a VMID, as far as this identity sees them. A place in a pool is none of
// them.
func GrantsFor(ctx context.Context, g *Guests, vmid int) []string {
	path := fmt.Sprintf("/vms/%d", vmid)
	entries, _ := g.entries.Get(ctx, g.clock, "", g.api.Access().ACL) // none are seen then
	var all []string
	for _, e := range entries {
		if e.Path == path {
			all = append(all, fmt.Sprintf("the role %s of %s on %s", e.Role, e.Subject, path))
		}
	}
	return all
}
