// Package orphan finds objects that no configuration and no guest owns: volumes without a guest, guests that were
// half made or half destroyed, locks that no task holds, entries elsewhere that name an id without a guest. It reads,
// and judges by the rules of packages guest and volumeuse. It removes only one item that a user names, found once
// more, by way of package destroy.
package orphan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// Finder looks for orphans in one cluster.
type Finder struct {
	api      pve.Reader
	jobs     *request.Runner
	guests   *guest.Guests
	surveyor *volumeuse.Reader
	// exclusive are the shared storages that no other cluster uses, by the provider's configuration.
	exclusive []string
}

// New makes a Finder. exclusive are the shared storages that no other cluster uses.
func New(jobs *request.Runner, guests *guest.Guests, exclusive ...string) *Finder {
	return &Finder{api: jobs.API.Reader(), jobs: jobs, guests: guests, surveyor: volumeuse.Whole(jobs, &request.Order{}),
		exclusive: exclusive}
}

// fresh is how long an object that was just made may be waiting for its maker. It is a create's lease.
const fresh = ownership.FreshVolume

// look is one look at the cluster. The field before has the state from before the volumes were listed. A volume that
// was listed after its guest is no orphan because the guest has gone meanwhile. One that is new is none because its
// guest came with it.
type look struct {
	*Finder
	options Options
	before  pve.Resources
	unseen  error // why there may be guests that this identity does not see
	apart   error // why not all guests could be read at once although all nodes are online
	surveys []survey
	places  volumeuse.Places
	free    map[int]bool // ids that were asked for
	volumes []placed
	listed  int // storages
	only    *Named
	report  Report
}

// placed is a volume, and the storage and the node from which it was seen.
type placed struct {
	pve.Volume
	storage pve.Storage
	node    string
}

// survey is a look at the guests of a node, or of all with node "".
type survey struct {
	node string
	*volumeuse.Use
	err error
}

// miss notes what could not be looked at.
func (l *look) miss(what string, why error) {
	l.report.Unchecked = append(l.report.Unchecked, fmt.Sprintf("%s: %v", what, why))
}

// add records an item. An unknown one has no command.
func (l *look) add(i Item) {
	switch {
	case i.Certainty == Unknown:
		i.Command = ""
	case i.Command == "" && slices.ContainsFunc(strings.Fields(i.ID), isUnusual):
		i.Reason += "; " + shell.ByHand
	}
	l.report.Items = append(l.report.Items, i)
}

// survey reads all guests that can be read: at once where all nodes are there, else node by node, so that one which
// is not reached hides nothing of the others.
func (l *look) survey(ctx context.Context) error {
	asked := l.surveyor.Ask()
	var err error
	if l.unseen, err = l.surveyor.Visible(ctx, asked); err != nil {
		return err
	}
	if l.unseen != nil {
		l.miss("guests that are not listed", l.unseen)
	}
	if len(l.offline()) == 0 {
		all := l.surveyNode(ctx, asked, "")
		if all.err == nil || len(l.nodes()) == 1 || !notReached(all.err) {
			l.take(all, "the guests of the cluster")
			return ctx.Err()
		}
		l.apart = all.err
	}
	for _, n := range l.nodes() {
		l.take(l.surveyNode(ctx, asked, n), "the guests of node "+n)
	}
	return ctx.Err()
}

// notReached reports whether a node did not answer.
func notReached(err error) bool {
	return pve.IsKind(err, pve.Unavailable) || pve.IsKind(err, pve.Ambiguous)
}

func (l *look) surveyNode(ctx context.Context, asked uint64, node string) survey {
	s := survey{node: node}
	s.Use, s.err = l.surveyor.Since(ctx, asked, node)
	return s
}

func (l *look) take(s survey, what string) {
	if s.err != nil {
		l.miss(what, s.err)
	}
	l.surveys = append(l.surveys, s)
}

// of is the survey that has the guests of a node; with node "" that of all guests.
func (l *look) of(node string) (*volumeuse.Use, error) {
	for _, s := range l.surveys {
		if s.node == "" || s.node == node {
			return s.Use, s.err
		}
	}
	if l.apart != nil {
		return nil, l.apart
	}
	return nil, fmt.Errorf("guests of the nodes %v, which are not online, may use it", l.offline())
}

// nodes are those that are online.
func (l *look) nodes() []string {
	return l.nodesThat(func(status string) bool { return status == "online" })
}

func (l *look) offline() []string {
	return l.nodesThat(func(status string) bool { return status != "online" })
}

func (l *look) nodesThat(fits func(status string) bool) []string {
	var names []string
	for _, n := range l.before.Nodes() {
		if fits(n.Status) {
			names = append(names, n.Node)
		}
	}
	slices.Sort(names)
	return names
}

// isFree reports whether no guest has an id, nor had it when the look began. PVE tells everybody, also of guests that
// he does not see.
func (l *look) isFree(ctx context.Context, vmid int) (bool, error) {
	if _, ok := l.before.Guest(vmid); ok {
		return false, nil
	}
	if free, asked := l.free[vmid]; asked {
		return free, nil
	}
	free, err := l.api.Cluster().IsFreeID(ctx, vmid)
	if err == nil {
		l.free[vmid] = free
	}
	return free, err
}

// nameOf is the name in the configuration of a guest.
func nameOf(config map[string]string) string {
	if name := config["name"]; name != "" {
		return name
	}
	return config["hostname"]
}

func isUnusual(name string) bool { return !shell.IsPlain(name) }
