package guest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Identity tells one VM from another that later got the same id: the SMBIOS uuid, else the creation time in meta.
type Identity struct {
	UUID  string `json:"uuid,omitempty"`
	CTime string `json:"ctime,omitempty"`
	// None: the VM was read, and has neither.
	None bool `json:"none,omitempty"`
}

// IdentityOf reads what tells a VM from a later one with the same id.
func IdentityOf(config map[string]string) Identity {
	return Identity{UUID: vm.UUID(config), CTime: vm.CTime(config)}
}

// Seen notes of the identity of a VM that was read if there is none.
func (i Identity) Seen() Identity {
	i.None = i.IsZero()
	return i
}

// IsZero reports whether there is nothing to compare.
func (i Identity) IsZero() bool { return i.UUID == "" && i.CTime == "" }

// Matches reports whether other can be the same VM. The uuid decides where both have one. The creation time decides
// only where a uuid is missing, since a clone inherits its template's (qemu-server API2/Qemu.pm keeps meta in
// clone_vm).
func (i Identity) Matches(other Identity) bool {
	if i.UUID != "" && other.UUID != "" {
		return i.UUID == other.UUID
	}
	return i.CTime != "" && i.CTime == other.CTime
}

// Contradicts reports whether a VM certainly is another than the one that was seen without an identity: PVE writes the
// creation time only when it makes a VM (qemu-server 9.2.6 API2/Qemu.pm create_vm). A uuid it may have got since.
func (i Identity) Contradicts(other Identity) bool { return i.None && i.IsZero() && other.CTime != "" }

// Proves reports whether a configuration carries this uuid, which PVE gives to one VM only. The creation time proves
// nothing: clones have their template's.
func (i Identity) Proves(config map[string]string) bool {
	return i.UUID != "" && i.UUID == vm.UUID(config)
}

// String is the uuid, or the creation time where there is none.
func (i Identity) String() string {
	if i.UUID != "" {
		return "uuid " + i.UUID
	}
	if i.CTime != "" {
		return "no uuid, created at " + i.CTime
	}
	return "no uuid"
}

// IdentityError says that the VM under a VMID is not the one in state: ours was destroyed, and another VM was made, or
// this is another cluster.
type IdentityError struct {
	VMID          int
	Node          string
	Home          string // where the state has ours; "" if it does not say
	State, Server Identity
}

// Error names both identities.
func (i *IdentityError) Error() string {
	return fmt.Sprintf("VM %d on node %s is not the VM in state: state has %s, the server has %s",
		i.VMID, i.Node, i.State, i.Server)
}

// IsHalfDestroyed reports whether a configuration holds nothing but the lock of a destroy that died, or is at work:
// PVE puts it in the configuration's place before it takes the VM out of pools, jobs and HA (qemu-server API2/Qemu.pm
// destroy_vm).
func IsHalfDestroyed(config map[string]string) bool {
	return config["lock"] == "destroyed" && IdentityOf(config).IsZero()
}

// IsOwnLock reports whether a lock is one that a dead worker of ours leaves.
func IsOwnLock(lock string) bool { return lock == "create" || lock == "clone" || lock == "destroyed" }

// HalfMade reports whether a configuration looks like a dead worker's. It is locked, or its lock was taken away
// since, or replaced by another task's. And it lacks the options that PVE writes into every VM that it finishes
// (qemu-server API2/Qemu.pm, smbios1 and meta).
func HalfMade(config map[string]string) bool {
	return IsOwnLock(config["lock"]) || config["smbios1"] == "" && config["meta"] == ""
}

// IsRestoring reports whether a configuration may be the one that PVE puts there while it reads a backup (qemu-server
// QemuServer.pm, restore_vma_archive, which sets no lock, and restore_proxmox_backup_archive): it says nothing.
func IsRestoring(config map[string]string) bool {
	for option, value := range config {
		if option != "memory" && option != "digest" && (option != "lock" || value != "create") {
			return false
		}
	}
	return config["memory"] == "128"
}

// Proof is what a create that failed and left something knew of its own VM and volumes. It is kept in private state,
// so that a later destroy acts under the same rules as the roll-back did, and not on another guest that has the VMID
// by then.
type Proof struct {
	VMID      int              `json:"vmid"`
	Nodes     []string         `json:"nodes"` // where the configuration can be
	Cluster   string           `json:"cluster"`
	Saga      string           `json:"transaction"`
	Baselines []BaselineRecord `json:"fences"` // where the volumes are
	Tasks     []string         `json:"tasks"`  // UPIDs
	// Guessed are those of Tasks that a search found, which may be another process's.
	Guessed []string `json:"guessed,omitempty"`
	// HalfMade is the digest of the unmarked configuration that a killed task of the create left, as it was right after
	// that.
	HalfMade string `json:"stub,omitempty"`
	Lost     bool   `json:"lost,omitempty"`
	Pool     string `json:"pool,omitempty"`
	// Restored: the create has begun to restore a backup.
	Restored bool `json:"restored,omitempty"`
	// Protected: the protection that the VM may have is the create's.
	Protected bool `json:"protected,omitempty"`

	HA bool `json:"ha,omitempty"` // HA may have an entry for the VM, made by the create
	// HAIgnores: by that entry HA leaves the guest alone.
	HAIgnores bool `json:"ha_ignores,omitempty"`
	// Off: the create has not begun to start the guest, nor has HA by that entry.
	Off bool `json:"off,omitempty"`
	// Identity is the VM's own, where the create came to see it. It proves a VM without a mark only if no other run can
	// have completed the VM: if the create itself saw it without the mark in time (Alone), or if none does that (Kept).
	Identity  Identity `json:"identity,omitzero"`
	Committed bool     `json:"committed,omitempty"` // the commit was sent, and may have taken effect
	Alone     bool     `json:"alone,omitempty"`
	Kept      bool     `json:"kept,omitempty"` // on_failure = "keep"
	// Used are the latest tasks on each node by which others have worked with the VM since, and that a refresh or a plan
	// has named.
	Used []string `json:"used,omitempty"`
	// Snapshots are the times at which those of the VM were taken that were named so, by name. Its create takes none.
	Snapshots map[string]int64 `json:"snapshots,omitempty"`
}

// Knows reports whether a configuration without the create's mark is that of its VM. Any other create of the same
// request may have completed the VM meanwhile, and it is that one's then: the uuid is the same.
func (p *Proof) Knows(config map[string]string) bool {
	return (p.Alone || p.Kept) && !p.mark().IsOvertaken(config) && p.Identity.Proves(config)
}

// MayKnow reports whether such a configuration may be that of the create's VM: its commit was sent, and nothing tells
// whether that completed the VM, or another run that found it still marked. Both leave the same configuration.
func (p *Proof) MayKnow(config map[string]string) bool {
	return p.Committed && !p.Knows(config) && !ownership.IsMark(config["description"]) && p.Identity.Proves(config)
}

// RestoreBaselines returns the create's baselines, as they were before its first write.
func (p *Proof) RestoreBaselines() Baselines {
	var all Baselines
	for _, at := range p.Baselines {
		if len(at.Named) > 0 {
			all = append(all, OwnBaseline(at.Node, p.VMID, at.Named))
			continue
		}
		f := &Baseline{Node: at.Node, vmid: p.VMID, Storages: slices.Clone(at.Storages), Unlisted: map[string]error{},
			Before: map[string]struct{}{}}
		for _, volume := range at.Before {
			f.Before[volume] = struct{}{}
		}
		all = append(all, f)
	}
	return all
}

// mark is as much of the create's ownership mark as tells its VM from others.
func (p *Proof) mark() ownership.Mark {
	return ownership.Mark{Cluster: p.Cluster, VMID: p.VMID, Saga: p.Saga}
}

// MarkOf is a mark of the run that left something, with which its removal goes on.
func (r *Runs) MarkOf(p *Proof) ownership.Mark {
	mark := r.NewMark(p.Cluster, p.VMID)
	mark.Saga = p.Saga
	if p.Restored {
		mark.By = "qmrestore"
	}
	return r.Sign(mark)
}

// Leftover is a proof for a VM that bears the mark of a create, for a state that has lost the proof of that create: it
// is the create's while it bears the mark, and its volumes are those that it has now. Nil for any other VM.
func Leftover(node string, vmid int, config map[string]string) *Proof {
	mark, marked := ownership.Parse(config["description"])
	if !marked || mark.VMID != vmid {
		return nil
	}
	return &Proof{VMID: vmid, Nodes: []string{node}, Cluster: mark.Cluster, Saga: mark.Saga,
		Restored: mark.By == "qmrestore", Identity: IdentityOf(config),
		Baselines: []BaselineRecord{{Node: node, Named: OwnVolumes(vmid, config)}}}
}

// SeenMarked is the proof once the VM was seen with the create's mark, after the create: the commit that it may have
// sent has not completed the VM, so without the mark another run has.
func (p *Proof) SeenMarked() *Proof {
	seen := *p
	seen.Committed = false
	return &seen
}

// Owner judges the configuration that has our VMID now: ours, a third party's, or unknown (NoGuest) while it is locked
// and unmarked, or where a commit of unknown outcome may have completed it.
func (p *Proof) Owner(config map[string]string) Owner {
	_, marked := ownership.Parse(config["description"])
	switch {
	case p.mark().Proves(p.VMID, config), p.Knows(config):
		return Ours
	case !marked && HalfMade(config), p.MayKnow(config):
		return NoGuest
	}
	return ThirdParty
}

// Owner says whose a configuration is.
type Owner int

const (
	NoGuest Owner = iota
	Ours
	ThirdParty
)

// UsesOf are the tasks by which others have worked with the VM that a failed create has left, and that no refresh has
// named. Those of this identity are none, but for snapshots and clones: the apply that destroys the VM is its own, too.
func (r *Runs) UsesOf(ctx context.Context, p *Proof, node string) ([]ownership.Task, error) {
	resources, err := r.api.Listing().Shared(ctx)
	if err != nil {
		return nil, err
	}
	mark, first := r.MarkOf(p), ownership.Task{}
	if len(p.Tasks) > 0 {
		upid := pve.UPID(p.Tasks[0])
		first = ownership.Task{UPID: string(upid), Node: upid.Node(), Start: upid.Start().Unix()}
	} else if config, err := r.api.QEMU(node, p.VMID).Config(ctx); err != nil {
		return nil, err
	} else if found, marked := ownership.Parse(config.Values["description"]); marked {
		mark = found
	}
	facts := r.factsOf(resources, mark, nil)
	facts.HA = p.HA && !p.HAIgnores
	if err := r.seeTasks(ctx, &facts, resources, []string{node}, first.Node); err != nil {
		return nil, err
	}
	start, err := unlistedStart(ctx, r, p, node, facts.Tasks)
	return slices.DeleteFunc(append(ownership.Uses(facts, first), start...), func(t ownership.Task) bool {
		return slices.Contains(p.Tasks, t.UPID) || p.hasNamed(t)
	}), err
}

// unlistedStart stands for the start of a guest that runs, that its create has not started, and whose start no task
// list has: a node keeps some thousand tasks (pve-common RESTEnvironment.pm active_workers). The process tells it from
// a later start. A backup runs a guest that is off without a task for it. It is of no node, and so stands for no task
// before it (NoteUses).
func unlistedStart(ctx context.Context, r *Runs, p *Proof, node string, tasks []ownership.Task) ([]ownership.Task,
	error) {
	isStart := func(t ownership.Task) bool { return t.Type == "qmstart" && t.ID == strconv.Itoa(p.VMID) }
	if !p.Off || slices.ContainsFunc(tasks, isStart) {
		return nil, nil
	}
	status, err := r.api.QEMU(node, p.VMID).Status(ctx)
	if err != nil || !status.IsRunning() || status.Lock == "backup" {
		return nil, err
	}
	shown := fmt.Sprintf("no task that can be seen shows it, but its guest runs: process %d on node %s", status.PID, node)
	return []ownership.Task{{UPID: shown, Type: "qmstart", ID: strconv.Itoa(p.VMID), User: "a user",
		Start: r.Now().Unix() - status.Uptime}}, nil
}

// Unnamed is the proof without the uses that a refresh or a plan has named.
func (p *Proof) Unnamed() *Proof {
	unnamed := *p
	unnamed.Used, unnamed.Snapshots = nil, nil
	return &unnamed
}

// NewSnapshots is the end of a sentence about the snapshots of that VM that were not named: a user has taken them, also
// where the task is not seen. "": there is none.
func (p *Proof) NewSnapshots(taken map[string]int64) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(taken)) {
		if at, named := p.Snapshots[name]; !named || at != taken[name] {
			all = append(all, name)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "it has snapshots, which go with it: " + strings.Join(all, ", ")
}

// hasNamed reports whether a refresh has named a task: it, or a later one of its node.
func (p *Proof) hasNamed(t ownership.Task) bool {
	return slices.ContainsFunc(p.Used, func(upid string) bool {
		used := pve.UPID(upid)
		return upid == t.UPID || used.Node() == t.Node && used.Start().Unix() > t.Start
	})
}

// NoteUses is the proof once some more tasks are named: of each node it keeps those of the last second.
func (p *Proof) NoteUses(tasks []ownership.Task) *Proof {
	noted := *p
	noted.Used = slices.DeleteFunc(slices.Clone(p.Used), func(upid string) bool {
		return slices.ContainsFunc(tasks, func(t ownership.Task) bool { return t.Node == pve.UPID(upid).Node() })
	})
	for _, t := range tasks {
		isLater := func(o ownership.Task) bool { return o.Node == t.Node && o.Start > t.Start }
		if !slices.ContainsFunc(tasks, isLater) {
			noted.Used = append(noted.Used, t.UPID)
		}
	}
	return &noted
}

// NameUses is such tasks as the end of a sentence: "root@pam has begun qmstart on it since (UPID:…)". Of many it names
// the first and the last.
func NameUses(tasks []ownership.Task) string {
	const most = 3 // at each end
	var all []string
	for i, t := range tasks {
		switch more := len(tasks) - 2*most; {
		case more <= 1 || i < most || i >= len(tasks)-most:
			all = append(all, fmt.Sprintf("%s has begun %s on it since (%s)", t.User, t.Type, t.UPID))
		case i == most:
			all = append(all, fmt.Sprintf("%d more tasks", more))
		}
	}
	return strings.Join(all, "; ")
}
