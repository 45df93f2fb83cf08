package plan_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/printed"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// allowedCase is a change that a plan with enough privileges carries out: from one configuration, or nothing, to another.
type allowedCase struct {
	name    string
	was, is func(s *terraformtest.Session, provider string) error // nil for nothing
	action  string                                                // what is invoked in the place of the second
	seed    func(*state.World)
	as      rig.Identity
	more    []need // what it asks for only where it is refused
}

// need is a privilege on a path: one of several suffices.
type need struct {
	path  string
	anyOf string // joined by "|"
	soft  bool
}

// privilegeLaw is the law in one cluster.
type privilegeLaw struct {
	*testing.T
	w     *rig.World
	token string
	base  []byte
	put   func()

	mu    sync.Mutex
	asked []state.Question
}

func newPrivilegeLaw(t *testing.T) *privilegeLaw {
	w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"}.ForGuides())
	w.Change(func(world *state.World) { // as oneChanges has it
		guest := world.Guests[8000]
		guest.Snaps = map[string]map[string]string{"before": maps.Clone(guest.Config)}
		guest.Config["parent"], world.Guests[9000].Config["tags"] = "before", "golden;silver"
		for _, name := range []string{"vm-8000-efi", "vm-8000-tpm"} {
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: name, Content: "images", VMID: 8000, Format: "raw", Size: 4 << 20, Data: name})
		}
	})
	l := &privilegeLaw{T: t, w: w}
	l.token, _, _ = strings.Cut(w.Sim.Credentials().Token, "=")
	w.ExpectPowerOffs(state.PowerShutdown, state.PowerReboot, state.PowerStop, state.PowerSuspend, state.PowerRollback)
	w.Change(func(world *state.World) {
		addOthers(world)
		addSources(world)
		world.Asked = func(q state.Question) {
			if q.Identity == l.token {
				l.mu.Lock()
				l.asked = append(l.asked, q)
				l.mu.Unlock()
			}
		}
		l.put = world.Remember()
	})
	l.base = w.Sim.Snapshot()
	return l
}

// questions are those since the last call.
func (l *privilegeLaw) questions() []state.Question {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.asked
	l.asked = nil
	return all
}

// stage is a cluster and a state, to which each row goes back.
type stage struct {
	snapshot []byte
	remember func()
	s        *terraformtest.Session
}

// prepare makes what the case begins with, as root.
func (l *privilegeLaw) prepare(c allowedCase) (*stage, error) {
	if err := l.w.Sim.Load(l.base); err != nil {
		return nil, err
	}
	l.w.Change(func(world *state.World) {
		l.put()
		if c.seed != nil {
			c.seed(world)
		}
	})
	s := l.w.NewSession()
	s.TrustPlans = true
	if c.was != nil {
		if err := c.was(s, l.w.ProviderBlock(rig.RootTicket)); err != nil {
			return nil, err
		}
		if err := s.Run(l.Context()); err != nil {
			return nil, err
		}
	}
	at := &stage{s: s}
	l.w.Change(func(world *state.World) { at.remember = world.Remember() })
	at.snapshot = l.w.Sim.Snapshot()
	return at, nil
}

// back puts the cluster back, and gives the token these privileges and no others.
func (l *privilegeLaw) back(at *stage, c allowedCase, has map[string][]string) (*terraformtest.Session, error) {
	if err := l.w.Sim.Load(at.snapshot); err != nil {
		return nil, err
	}
	l.w.Change(func(*state.World) { at.remember() })
	l.database().grant(l.token, has)
	s := l.w.NewSession()
	s.TrustPlans = true
	for _, address := range at.s.Addresses() {
		json, private := at.s.Raw(address)
		s.Put(address, json, private)
	}
	as := c.as
	if as == "" {
		as = rig.TokenNoSSH
	}
	if c.is == nil {
		err := s.Configure(l.w.ProviderBlock(as))
		return s, err
	}
	err := c.is(s, l.w.ProviderBlock(as))
	return s, err
}

// planError is what a plan refuses.
type planError struct{ error }

// carryOut plans and applies, with something else between the two.
func (c allowedCase) carryOut(ctx context.Context, s *terraformtest.Session, between func()) error {
	if c.action != "" {
		planned := false
		_, err := s.Invoke(ctx, "action."+c.action+".it", func() { planned = true; between() })
		if err != nil && !planned {
			return planError{err}
		}
		return err
	}
	pl, err := s.Plan(ctx)
	if err != nil {
		return planError{err}
	}
	between()
	return s.Apply(ctx, pl)
}

func nothing() {}

// everything are all privileges.
func everything(world *state.World) map[string][]string {
	var all []string
	for _, privileges := range world.Roles {
		all = append(all, privileges...)
	}
	all = append(all, "Sys.Console", "Sys.Modify", "Mapping.Use", "VM.Backup", "VM.Snapshot", "VM.Replicate", "Sys.Incoming", "Permissions.Modify")
	return map[string][]string{"/": slices.Compact(slices.Sorted(slices.Values(all)))}
}

// needs are the privileges that the case asks for when the token has all of them.
func (l *privilegeLaw) needs(at *stage, c allowedCase) ([]need, error) {
	var all map[string][]string
	l.w.Change(func(world *state.World) { all = everything(world) })
	s, err := l.back(at, c, nil)
	if err != nil {
		return nil, err
	}
	l.grantAll(all)
	l.questions()
	l.w.ResetCalls()
	if err := c.carryOut(l.Context(), s, nothing); err != nil {
		return nil, err
	}
	hard := map[need]bool{}
	for _, q := range l.questions() {
		n := need{path: q.Path, anyOf: strings.Join(q.AnyOf, "|")}
		if q.Held {
			hard[n] = hard[n] || !q.Soft
		}
	}
	var found []need
	for n, is := range hard {
		found = append(found, need{n.path, n.anyOf, !is})
	}
	found = append(found, c.more...)
	if c.is != nil && l.removedVM() { // with which its permissions go (qemu-server API2/Qemu.pm, destroy_vm)
		for i := range found {
			if found[i].path == "/vms/500" {
				found[i].path = "/vms"
			}
		}
	}
	slices.SortFunc(found, func(a, b need) int { return strings.Compare(a.path+a.anyOf, b.path+b.anyOf) })
	return found, nil
}

func (l *privilegeLaw) database() accessDatabase { return accessDatabase{l.w} }

// removedVM reports whether a VM was destroyed since the operations were last forgotten.
func (l *privilegeLaw) removedVM() bool {
	return slices.ContainsFunc(l.w.Sim.Ops(), func(op pvesim.Op) bool {
		return op.Method == http.MethodDelete && op.Path == "/nodes/{node}/qemu/{vmid}"
	})
}

// narrow are the privileges that meet the needs but one, each on its own path alone.
func narrow(all []need, without need) map[string][]string {
	has := map[string][]string{}
	missing := func(n need, privilege string) bool {
		return n.path == without.path && slices.Contains(strings.Split(without.anyOf, "|"), privilege)
	}
	for _, single := range []bool{true, false} {
		for _, n := range all {
			anyOf := strings.Split(n.anyOf, "|")
			has[n.path] = append(has[n.path], []string{}...)
			if len(anyOf) == 1 != single || slices.ContainsFunc(anyOf, func(p string) bool { return slices.Contains(has[n.path], p) }) {
				continue
			}
			for _, privilege := range anyOf {
				if !missing(n, privilege) {
					has[n.path] = append(has[n.path], privilege)
					break
				}
			}
		}
	}
	return has
}

// verdict is how a row ended.
type verdict string

const (
	refusedRightly verdict = "refused, and the commands were enough"
	notNeeded      verdict = "not needed"
)

// row plays the case without a need, and says how the law is broken.
func (l *privilegeLaw) row(at *stage, c allowedCase, all []need, without need) (verdict, error) {
	has := narrow(all, without)
	s, err := l.back(at, c, has)
	if err != nil {
		return "", err
	}
	err = c.carryOut(l.Context(), s, nothing)
	var refused planError
	switch {
	case err == nil:
		return notNeeded, nil
	case !errors.As(err, &refused):
		return "", fmt.Errorf("the plan passed, and the apply says %w", err)
	}
	said := err.Error()
	if wrong := printed.Unsafe(said); len(wrong) > 0 {
		return "", fmt.Errorf("%v in %s", wrong, said)
	}
	ran, err := l.database().obey(l.Context(), said)
	if err != nil {
		return "", fmt.Errorf("%w; the plan said %s", err, said)
	}
	if ran == 0 {
		return "", fmt.Errorf("the plan gives no command: %s", said)
	}
	l.questions()
	if err := c.carryOut(l.Context(), s, nothing); err != nil {
		return "", fmt.Errorf("after the commands: %w; before them the plan said %s", err, said)
	}
	if slices.Contains(ownRules(), without) {
		return refusedRightly, l.fails(at, c, has, said)
	}
	return refusedRightly, l.decisive(has, said)
}

// ownRules are the privileges of which the provider asks for itself: whether the identity sees all guests, it reads from
// the list of permissions. PVE would allow what it refuses.
func ownRules() []need {
	return []need{{path: "/vms", anyOf: "VM.Audit"}, {path: "/access", anyOf: "Sys.Audit"}}
}

// fails wants the apply to fail with these privileges, if the plan had more: else the plan refused what the apply would
// have done.
func (l *privilegeLaw) fails(at *stage, c allowedCase, has map[string][]string, said string) error {
	var all map[string][]string
	l.w.Change(func(world *state.World) { all = everything(world) })
	s, err := l.back(at, c, nil)
	if err != nil {
		return err
	}
	l.grantAll(all)
	err = c.carryOut(l.Context(), s, func() { l.database().grant(l.token, has) })
	var refused planError
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("with all privileges: %w", err)
	case err == nil:
		return fmt.Errorf("the plan refused what the apply does: %s", said)
	}
	return nil
}

// grantAll grants privileges on these paths and all below.
func (l *privilegeLaw) grantAll(all map[string][]string) {
	l.database().grant(l.token, all)
	l.w.Change(func(world *state.World) {
		for i := range world.ACL {
			world.ACL[i].Propagate = true
		}
	})
}

// decisive wants one of the questions since the commands to be one that the privileges before them do not answer: else
// PVE would have allowed what the plan refused.
func (l *privilegeLaw) decisive(has map[string][]string, said string) error {
	asked := l.questions()
	l.database().grant(l.token, has)
	l.w.Change(func(world *state.World) {
		world.ACL = slices.DeleteFunc(world.ACL, func(e state.ACLEntry) bool { return strings.HasPrefix(e.Role, "terraform") })
	})
	held := map[string]map[string]int{}
	for _, q := range asked {
		if !q.Held || q.Soft {
			continue
		}
		if held[q.Path] == nil {
			var err error
			if held[q.Path], err = l.database().held(l.Context(), l.token, q.Path); err != nil {
				return err
			}
		}
		if !slices.ContainsFunc(q.AnyOf, func(p string) bool { _, ok := held[q.Path][p]; return ok }) {
			return nil
		}
	}
	return fmt.Errorf("the plan refused what PVE allows: %s", said)
}

// usual are the needs of each case of an operation.
func (l *privilegeLaw) usual(cases []allowedCase) map[string]bool {
	all := map[string]bool{}
	for _, c := range cases {
		operation, rest, _ := strings.Cut(c.name, " ")
		if rest != "with description" {
			continue
		}
		at, err := l.prepare(c)
		if err != nil {
			l.Fatal(err)
		}
		needs, err := l.needs(at, c)
		if err != nil {
			l.Fatal(err)
		}
		for _, n := range needs {
			all[operation+" "+n.path+" "+n.anyOf] = true
		}
	}
	return all
}

// TestLawPrivileges: a privilege that is missing is refused by the plan, with commands that make it pass; or it is not
// needed. No apply fails for want of a privilege after a plan that passed, and no plan refuses what PVE allows. The rows are
// every change of one attribute, every creation with it, and the operations of privilegeCases; each without each privilege
// that PVE asks it for, on that path alone.
func TestLawPrivileges(t *testing.T) {
	t.Parallel()
	part := uint32(share.Of(privilegeShare))
	queue := slices.DeleteFunc(privilegeCases(t), func(c allowedCase) bool { return !share.Picks(c.name) })
	var mu sync.Mutex
	counts, seen, skipped := map[verdict]int{}, map[string]bool{}, map[string]string{}
	first := newPrivilegeLaw(t)
	base := first.usual(queue)
	// isNew leaves out what each case of an operation asks for, but for the first that does.
	isNew := func(c allowedCase, n need) bool {
		operation, _, _ := strings.Cut(c.name, " ")
		key := operation + " " + n.path + " " + n.anyOf
		mu.Lock()
		defer mu.Unlock()
		was := seen[key]
		seen[key] = true
		return !was || !base[key] && !strings.HasSuffix(n.anyOf, ".Audit")
	}
	skips := map[string]bool{} // the cases of which another one has played a privilege
	play := func(l *privilegeLaw, c allowedCase) error {
		at, err := l.prepare(c)
		if err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		all, err := l.needs(at, c)
		if err != nil {
			mu.Lock()
			skipped[c.name], _, _ = strings.Cut(err.Error(), "\n")
			mu.Unlock()
			return nil
		}
		if how, err := l.row(at, c, all, need{}); err != nil || how != notNeeded {
			all = append(all, ownRules()...)
		}
		var errs []error
		for _, n := range append([]need{{}}, all...) {
			if n.path != "" && !isNew(c, n) {
				mu.Lock()
				skips[c.name] = true
				mu.Unlock()
				continue
			}
			how, err := l.row(at, c, all, n)
			if err == nil && n.path == "" && how != notNeeded {
				err = errors.New("the narrow privileges are refused")
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("without %s on %s: %w", n.anyOf, n.path, err))
			}
			mu.Lock()
			counts[how]++
			mu.Unlock()
		}
		return errors.Join(errs...)
	}
	workers := sync.WaitGroup{}
	for _, l := range []*privilegeLaw{first, newPrivilegeLaw(t)} {
		workers.Go(func() {
			for {
				mu.Lock()
				if len(queue) == 0 {
					mu.Unlock()
					return
				}
				c := queue[0]
				queue = queue[1:]
				mu.Unlock()
				sum := fnv.New32a()
				_, _ = sum.Write([]byte(c.name))
				if sum.Sum32()%part != 0 {
					continue
				}
				err, why := play(l, c), beyondLaw()[c.name]
				mu.Lock()
				isWhole := !skips[c.name]
				mu.Unlock()
				switch {
				case err != nil && why == "":
					t.Errorf("%s: %v", c.name, err)
				case err == nil && why != "" && isWhole:
					t.Errorf("%s obeys the law: take it out of beyondLaw", c.name)
				case why != "":
					t.Logf("beyond the law: %s: %s: %v", c.name, why, err)
				}
			}
		})
	}
	workers.Wait()
	rows := 0
	for _, n := range counts {
		rows += n
	}
	t.Logf("%d rows: %v; %d cases that no token may make", rows, counts, len(skipped))
	for _, name := range slices.Sorted(maps.Keys(skipped)) {
		t.Logf("left out: %s: %s", name, skipped[name])
	}
}

// privilegeShare is one in how many cases a short run plays.
const privilegeShare = 75
