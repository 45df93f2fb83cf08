package guest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Lease is how long a run that shows no sign of life counts as alive: its mark stays as it is, and no task of its VM
// runs. It is measured on the observer's own clock. A run that works renews its mark in half that time.
const Lease = 2 * time.Minute

// NoKey is the idempotency key of a mark that no create continues.
const NoKey = "00000000000000000000000000000000"

// Runs writes and reads the marks of creates in one cluster, and collects the facts by which package ownership judges
// them.
type Runs struct {
	// Process names this process in the marks of its creates, "" where the system does not tell it from others.
	Process string

	api   *pve.Client
	clock pve.Clock
	jobs  *request.Runner
	key   func() []byte // MarkKey
	born  time.Time     // when this run began
}

// NewMark makes the mark of a new run of this process, whose VM a task qmcreate makes. It belongs to no create that a
// later one continues.
func (r *Runs) NewMark(cluster string, vmid int) ownership.Mark {
	saga := make([]byte, 8)
	_, _ = rand.Read(saga) // never fails, see crypto/rand
	return r.Sign(ownership.Mark{Cluster: cluster, VMID: vmid, Saga: hex.EncodeToString(saga), Key: NoKey,
		User: r.api.Identity().User, By: "qmcreate", Begun: int(r.Now().Unix()), Process: r.Process})
}

// Sign signs a mark that was changed.
func (r *Runs) Sign(mark ownership.Mark) ownership.Mark { return mark.Sign(r.key()) }

// MarkKey is the key with which an identity signs its marks. One that logs in with a password signs with what only this
// boot of this host knows: it recognizes what was begun here.
func MarkKey(api *pve.Client) []byte {
	const purpose = "ownership mark 1"
	if key := api.Key(purpose); key != nil {
		return key
	}
	boot := bootOf()
	if boot == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(purpose + "\n" + api.Identity().User + "\n" + boot))
	return sum[:]
}

// IsGenuine reports whether this identity has signed a mark.
func (r *Runs) IsGenuine(mark ownership.Mark) bool {
	return mark.User == r.api.Identity().User && mark.Verify(r.key())
}

// Placeholder is the mark of the same run on an empty VM that takes the VMID again: PVE gives that a uuid of its own,
// and no create continues it.
func (r *Runs) Placeholder(mark ownership.Mark) ownership.Mark {
	mark.Key, mark.By, mark.UUID, mark.Task = NoKey, "qmcreate", "", ""
	mark.Source, mark.SourceUUID = 0, ""
	return r.Sign(mark)
}

// Renewed is a mark that shows once more that its run lives.
func (r *Runs) Renewed(mark ownership.Mark) ownership.Mark {
	mark.Renewed++
	return r.Sign(mark)
}

// Now is the server's time, or this machine's where the server does not tell. It is good for ages of many minutes: no
// two clocks are alike.
func (r *Runs) Now() time.Time {
	if server := r.api.ServerTime(); !server.IsZero() {
		return server
	}
	return r.clock.Now()
}

// Unfinished reads the mark of a guest that a create of this provider, dead or alive, has not committed.
func (r *Runs) Unfinished(ctx context.Context, resources pve.Resources, guest pve.Resource) (ownership.Mark,
	pve.GuestConfig, bool) {
	if guest.Type != "qemu" {
		return ownership.Mark{}, pve.GuestConfig{}, false
	}
	config, err := r.api.QEMU(guest.Node, guest.VMID).Config(ctx)
	if err != nil {
		return ownership.Mark{}, pve.GuestConfig{}, false
	}
	mark, ok := ownership.Parse(config.Values["description"])
	return mark, config, ok && mark.VMID == guest.VMID && mark.Cluster == ClusterName(resources)
}

// LifeOf tells what is known of the process that made a mark.
func (r *Runs) LifeOf(mark ownership.Mark) Life { return lifeOf(mark.Process, r.Process) }

// Judge collects what can be seen of a marked VM, and judges whose it is. Missing facts are part of the verdict,
// never an error.
func (r *Runs) Judge(ctx context.Context, resources pve.Resources, node string, mark ownership.Mark,
	config map[string]string) ownership.Verdict {
	facts := r.factsOf(resources, mark, config)
	if v := ownership.Judge(facts); !facts.Genuine {
		return v // no request can change it
	}
	snapshots, err := r.api.QEMU(node, mark.VMID).SnapshotNames(ctx)
	if err != nil {
		return ownership.Verdict{Reason: fmt.Sprintf("its snapshots cannot be read: %v", err)}
	}
	facts.Snapshots = len(snapshots) > 0
	began := r.clock.Now()
	for _, n := range resources.Nodes() {
		err := r.seesTasks(ctx, n.Node)
		if err == nil {
			err = addTasks(ctx, r, &facts, n.Node, began)
		}
		if err != nil {
			facts.Unseen = err.Error()
			break
		}
	}
	return ownership.Judge(facts)
}

// JudgeLive judges the marked VM of a run that is still under way, whose configuration is on one of the nodes. Others
// may have used it meanwhile. Tasks of others that this identity may not see are no reason against it, nor is any
// other node that does not answer. ha: by the run's own entry HA acts on the VM.
func JudgeLive(ctx context.Context, r *Runs, resources pve.Resources, nodes []string, mark ownership.Mark,
	config map[string]string, ha bool) (ownership.Verdict, error) {
	facts := r.factsOf(resources, mark, config)
	facts.HA = ha
	if err := r.seeTasks(ctx, &facts, resources, nodes, ""); err != nil {
		return ownership.Verdict{}, err
	}
	return ownership.Judge(facts), nil
}

// seeTasks adds the tasks that can be seen on all nodes, and the clocks that put them in order. Those of some nodes
// have to be seen. Of the others one that is off is not asked: PVE would wait for it. first is the node of a known task
// that they are compared with, "" for none: that task may be in no list, such as a clone's, which names its source.
func (r *Runs) seeTasks(ctx context.Context, facts *ownership.Guest, resources pve.Resources, must []string,
	first string) error {
	facts.Live = true
	var at []string // nodes with tasks
	for _, n := range resources.Nodes() {
		if n.Status == "offline" && !slices.Contains(must, n.Node) {
			continue
		}
		tasks, err := r.listTasks(ctx, n.Node, facts.Mark)
		if err != nil && slices.Contains(must, n.Node) {
			return err
		}
		if len(tasks) > 0 {
			at, facts.Tasks = append(at, n.Node), append(facts.Tasks, tasks...)
		}
	}
	isUnlisted := first != "" && len(at) > 0 && !slices.Contains(at, first)
	if isUnlisted {
		at = append(at, first)
	}
	if len(at) < 2 { // the order of tasks on one node needs no clock
		return nil
	}
	began := r.clock.Now()
	for _, node := range at {
		now, err := r.api.Node(node).Time(ctx)
		switch {
		case pve.IsKind(err, pve.Denied): // without Sys.Audit (pve-manager PVE/API2/Nodes.pm, time)
			now = r.Now()
		case err != nil && isUnlisted && node == first: // it may be off: all tasks count as later ones then
			continue
		case err != nil:
			return err
		}
		facts.Clocks[node] = r.at(began, now)
	}
	return nil
}

// factsOf is what is known of a marked VM without a request.
func (r *Runs) factsOf(resources pve.Resources, mark ownership.Mark, config map[string]string) ownership.Guest {
	return ownership.Guest{VMID: mark.VMID, Cluster: ClusterName(resources), Identity: r.api.Identity().User, Mark: mark,
		Marked: true, Genuine: r.IsGenuine(mark), UUID: IdentityOf(config).UUID, Clocks: map[string]int64{}}
}

// at is what a node's clock showed when a judgement began, which it shows now. Nodes are asked one after the other.
func (r *Runs) at(began, now time.Time) int64 { return now.Add(began.Sub(r.clock.Now())).Unix() }

// addTasks adds the tasks of a node that name a marked VM, or the one that it is a clone of, and the node's time.
func addTasks(ctx context.Context, r *Runs, facts *ownership.Guest, node string, began time.Time) error {
	tasks, err := r.listTasks(ctx, node, facts.Mark)
	if err != nil || len(tasks) == 0 {
		return err
	}
	facts.Tasks = append(facts.Tasks, tasks...)
	if now, err := r.api.Node(node).Time(ctx); err == nil {
		facts.Clocks[node] = r.at(began, now)
	}
	return nil
}

// listTasks returns those tasks of a node that this identity may see.
func (r *Runs) listTasks(ctx context.Context, node string, mark ownership.Mark) (all []ownership.Task, err error) {
	filters := []pve.TaskFilter{{VMID: mark.VMID}}
	if mark.Source != 0 {
		filters = append(filters, pve.TaskFilter{VMID: mark.Source})
	}
	for i := 0; i < len(filters); i++ {
		tasks, err := r.api.Tasks().List(ctx, node, filters[i])
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			all = append(all, ownership.Task{UPID: string(t.UPID), Type: t.UPID.Type(), ID: t.UPID.ID(), User: t.UPID.User(),
				Node: node, Start: t.StartTime.Unix(), End: t.EndTime.Unix(), Running: t.Running(),
				Well: t.Status == "OK" || strings.HasPrefix(t.Status, "WARNINGS"),
				Died: !t.Running() && fault.KindOfExit(t.Status) == pve.Ambiguous})
		}
		if filters[i].Type == "" && len(filters) < 3 && slices.ContainsFunc(all, ownership.Task.MayBeBackups) {
			filters = append(filters, pve.TaskFilter{Type: "vzdump"}) // a job of several guests names none
		}
	}
	return all, nil
}

// MayBeLost finds the task by which this identity may have made a finished guest on a node that no state knows. mark
// says how a create makes it. Facts that cannot be seen are no task.
func (r *Runs) MayBeLost(ctx context.Context, node string, mark ownership.Mark) (ownership.Task, bool) {
	tasks, err := r.listTasks(ctx, node, mark)
	if err != nil || len(tasks) == 0 {
		return ownership.Task{}, false
	}
	now, err := r.api.Node(node).Time(ctx)
	if err != nil {
		return ownership.Task{}, false
	}
	return ownership.MayBeLost(ownership.Guest{VMID: mark.VMID, Identity: r.api.Identity().User, Mark: mark, Tasks: tasks,
		Clocks: map[string]int64{node: now.Unix()}}, r.clock.Now().Sub(r.born))
}

// seesTasks is the error of an identity that does not see the tasks of other users on a node.
func (r *Runs) seesTasks(ctx context.Context, node string) error {
	audits, err := r.jobs.Audits(ctx, node)
	if err == nil && !audits {
		err = fmt.Errorf("the tasks of other users on node %s cannot be seen without Sys.Audit on /nodes/%s", node, node)
	}
	return err
}

// Watch observes until it is known whether the run of a mark lives. Of a process on this host that is known at once.
// Another run is dead when its mark has stayed as it is for one Lease, measured on this machine's clock, and no task of
// its VM runs. life is what is known of the process. A mark that changes is a sign of life.
func (r *Runs) Watch(ctx context.Context, listed pve.Resource, mark ownership.Mark, life Life) (Life, error) {
	const pause = 10 * time.Second
	if life != Unsure {
		return life, nil
	}
	r.jobs.Tell(ctx, fmt.Sprintf("VM %d on node %s is being made by a run that may have died (transaction %s). It is "+
		"watched for %s", listed.VMID, listed.Node, mark.Saga, Lease))
	for began := r.clock.Now(); ; {
		if err := r.clock.Sleep(ctx, pause); err != nil {
			return Unsure, err
		}
		config, err := r.api.QEMU(listed.Node, listed.VMID).Config(ctx)
		if pve.IsKind(err, pve.NotFound) { // it has moved, or is gone
			return Unsure, err
		}
		if found, ok := ownership.Parse(config.Values["description"]); err == nil && (!ok || found != mark) {
			return Alive, nil
		}
		if r.clock.Now().Sub(began) < Lease {
			continue
		}
		running, tasksErr := r.isAtWork(ctx, listed.Node, mark)
		switch {
		case err != nil:
			return Unsure, err
		case tasksErr != nil:
			return Unsure, tasksErr
		case !running:
			return Dead, nil
		}
		began = r.clock.Now()
	}
}

// isAtWork reports whether a task of a marked VM runs on a node. Only those of this identity are visible without
// Sys.Audit (pve-manager PVE/API2/Tasks.pm), so of another identity's mark it may not tell.
func (r *Runs) isAtWork(ctx context.Context, node string, mark ownership.Mark) (bool, error) {
	if mark.User != r.api.Identity().User {
		if err := r.seesTasks(ctx, node); err != nil {
			return false, err
		}
	}
	tasks, err := r.api.Tasks().List(ctx, node, pve.TaskFilter{RunningOnly: true})
	return slices.ContainsFunc(tasks, func(t pve.Task) bool {
		typ, id := t.UPID.Type(), t.UPID.ID()
		clones := typ == "qmclone" && mark.By == "qmclone" && id == strconv.Itoa(mark.Source) && mark.Task == ""
		return clones || id == strconv.Itoa(mark.VMID) && !slices.Contains([]string{"vncproxy", "spiceproxy"}, typ)
	}), err
}

// OnHalfMade says of a guest that is locked and not whole what is known of the task that makes it, and what to do. It
// gives no command that removes it: the guest may be a third party's, and `qm importovf`, for one, makes a VM under
// that lock without a task (qemu-server CLI/qm.pm).
func (r *Runs) OnHalfMade(ctx context.Context, node string, vmid int, lock string) string {
	held, err := r.jobs.Holder(ctx, node, vmid, request.LockedBy(lock, "make it"))
	switch {
	case len(held.Runs) > 0:
		return fmt.Sprintf("Task %s is at work on it: wait for its end", held.Runs[0])
	case err != nil || !held.Audit:
		return fmt.Sprintf("Whether a task is at work on it cannot be seen without Sys.Audit on /nodes/%s. Look there "+
			"(`pvenode task list --vmid %d --source active`), and leave it alone while one is", node, vmid)
	}
	if now, err := r.api.QEMU(node, vmid).Config(ctx); err != nil || now.Values["lock"] != lock {
		return "It has just changed: try again"
	}
	return "No task is at work on it, but a program may be, such as `qm importovf`. If a task is known to have died " +
		"over it, proxmox_orphans lists it, and proxmox_orphan_delete removes it"
}

// isPlaceholder reports whether a configuration is the empty VM under which a destroy takes away a volume that
// outlived its VM: it has the mark, and neither disks, drives nor network devices but the volumes that are to go.
func isPlaceholder(vmid int, config map[string]string) bool {
	mark, ok := ownership.Parse(config["description"])
	if !ok || mark.VMID != vmid || len(vm.Slots(config)) > 0 {
		return false
	}
	for option := range config {
		if rest, ok := strings.CutPrefix(option, "net"); ok && rest != "" && strings.Trim(rest, "0123456789") == "" {
			return false
		}
	}
	return true
}
