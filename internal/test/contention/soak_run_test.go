package contention_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// soakRun is a configuration with a state, and who applies it.
type soakRun struct {
	soak *soak
	n    int
	id   rig.Identity
	rng  *rand.Rand
	s    *terraformtest.Session
	line *lifeline
	vms  []soakVM

	made        int      // how many VMs there ever were
	everNamed   []string // and their names
	interrupted bool     // the operation that runs, or the last one
	killed      bool     // an apply was killed, and its results are in no state
	said        string   // every message so far
}

// soakVM is a VM of a configuration.
type soakVM struct {
	name, source, node, storage string
	cores, size                 int
	snapshot, isOff             bool
}

// newSoakRun draws one.
func newSoakRun(s *soak, n int) *soakRun {
	r := &soakRun{soak: s, n: n, id: rig.Identities()[s.rng.IntN(4)], rng: rand.New(rand.NewPCG(s.rng.Uint64(), 2))}
	for range 1 + r.rng.IntN(4) {
		r.add()
	}
	r.connect()
	return r
}

func (r *soakRun) add() {
	r.made++
	vm := soakVM{name: fmt.Sprintf("vm-%d-%d", r.n, r.made), cores: 1 + r.rng.IntN(3), size: 1 + r.rng.IntN(3), isOff: r.rng.IntN(2) == 0,
		node:    []string{"pve1", "pve2"}[r.rng.IntN(2)],
		storage: []string{"local-zfs", "local-lvm", "local", "shared-nfs"}[r.rng.IntN(4)]}
	if r.rng.IntN(3) == 0 {
		vm.source, vm.node, vm.size = "clone", "pve1", 5
	}
	r.vms, r.everNamed = append(r.vms, vm), append(r.everNamed, vm.name)
}

func (vm soakVM) hcl(n int) string {
	text := fmt.Sprintf("resource \"proxmox_vm\" %q {\n  name = %q\n  node = %q\n  cpu = { cores = %d }\n", vm.name, vm.name, vm.node, vm.cores)
	if vm.source == "" {
		text += fmt.Sprintf("  disks = { scsi0 = { storage = %q, size = \"%dG\" } }\n", vm.storage, vm.size)
	} else {
		text += fmt.Sprintf("  clone = { vmid = 9000, full = true }\n  protection = false\n  disks = { scsi0 = { size = \"%dG\" } }\n", vm.size)
	}
	if vm.isOff {
		text += "  power_state = \"stopped\"\n"
	}
	text += "}\n"
	if vm.snapshot {
		text += fmt.Sprintf("resource \"proxmox_vm_snapshot\" %q {\n  vmid = proxmox_vm.%s.vmid\n  name = \"soak%d\"\n}\n", vm.name, vm.name, n)
	}
	return text
}

func (r *soakRun) config() string {
	var all strings.Builder
	for _, vm := range r.vms {
		all.WriteString(vm.hcl(r.n))
	}
	return all.String()
}

func (r *soakRun) describe() string { return fmt.Sprintf("%+v", r.vms) }

// connect starts a provider process, so to speak, with the state that there is.
func (r *soakRun) connect() {
	line := &lifeline{dial: r.soak.w.Sim.DialContext}
	newProvider := provider.NewWith("test", provider.Options{DialContext: line.DialContext, SSHDial: r.soak.w.Sim.SSHDial,
		Clock: clock.Client{Cluster: r.soak.w.Sim.World().Clock}})
	s := terraformtest.NewSession(func() (tfprotov6.ProviderServer, error) { return provider.NewServer(newProvider)(), nil })
	if r.s != nil {
		s.RestoreState(r.s.SaveState())
	}
	s.Parallelism = 4
	r.s, r.line = s, line
}

// draw changes the configuration and chooses the operation on it.
func (r *soakRun) draw() string {
	for range r.rng.IntN(3) {
		switch n := r.rng.IntN(7); {
		case n == 0 || len(r.vms) == 0:
			r.add()
		case n == 1:
			i := r.rng.IntN(len(r.vms))
			r.vms = slices.Delete(slices.Clone(r.vms), i, i+1)
		default:
			vm := &r.vms[r.rng.IntN(len(r.vms))]
			switch n {
			case 2:
				vm.cores = 1 + r.rng.IntN(4)
			case 3:
				vm.size++
			case 4:
				vm.snapshot = !vm.snapshot && (vm.storage == "local-zfs" || vm.source != "")
			case 5:
				vm.isOff = !vm.isOff
			case 6:
				if vm.storage == "shared-nfs" && vm.source == "" {
					vm.node = map[string]string{"pve1": "pve2", "pve2": "pve1"}[vm.node]
				}
			}
		}
	}
	return []string{"apply", "apply", "apply", "apply", "refresh", "interrupted apply", "cut off apply", "killed apply", "destroy"}[r.rng.IntN(9)]
}

// do runs the operation. It may fail if it names its leftovers and breaks no rule of Terraform.
func (r *soakRun) do(ctx context.Context, what string) {
	if err := r.s.Configure(r.soak.w.ProviderBlock(r.id), r.config()); err != nil {
		r.soak.t.Errorf("run %d: %v\n%s", r.n, err, r.config())
		return
	}
	r.interrupted = what == "interrupted apply"
	switch what {
	case "destroy":
		r.listen(r.s.Destroy(ctx))
	case "refresh":
		r.listen(r.s.Refresh(ctx))
	case "apply":
		r.listen(r.s.Run(ctx))
	case "interrupted apply":
		ctx, interrupt := context.WithCancel(ctx)
		defer r.after(interrupt)()
		r.listen(r.s.Run(ctx))
		interrupt()
	case "cut off apply":
		stop := r.after(r.line.cut)
		err := r.s.Run(ctx)
		stop() // no cut comes after the mend
		r.listen(err)
		r.line.mend()
	case "killed apply":
		before := r.s.SaveState()
		ctx, interrupt := context.WithCancel(ctx)
		stop := r.after(func() { r.line.cut(); interrupt() })
		err := r.s.Run(ctx)
		stop()
		interrupt()
		if !r.line.isCut() {
			r.listen(err)
			return
		}
		r.killed = true
		r.s.RestoreState(before)
		r.connect()
	}
}

// after has something happen after a few of the cluster's next requests.
func (r *soakRun) after(do func()) (stop func()) {
	sim := r.soak.w.Sim
	ctx, end := context.WithCancel(r.soak.t.Context())
	at := sim.LastOp() + 5 + r.rng.IntN(60)
	var watching sync.WaitGroup
	watching.Go(func() {
		if awaitOp(ctx, sim, at) {
			do()
		}
	})
	return func() { end(); watching.Wait() }
}

// awaitOp waits until the cluster has had so many requests, or ctx ends.
func awaitOp(ctx context.Context, sim *pvesim.Sim, at int) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for sim.LastOp() < at {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// listen keeps the messages.
func (r *soakRun) listen(err error) {
	for _, d := range r.s.Diagnostics() {
		r.said += d.String() + "\n"
	}
	if err != nil {
		r.said += err.Error() + "\n"
	}
	broken := slices.DeleteFunc(r.s.Diagnostics().Violations(), func(d terraformtest.Diagnostic) bool {
		// The template of a clone could be read in the plan and not within the apply (docs/design/plan.md, Clones).
		return r.isDisturbed() && d.Summary == "Provider produced inconsistent final plan" && slices.ContainsFunc(r.vms, func(vm soakVM) bool {
			return vm.source == "clone" && d.Address == "proxmox_vm."+vm.name
		})
	})
	if len(broken) > 0 {
		r.soak.t.Errorf("run %d has broken a rule of Terraform: %v", r.n, broken)
	}
}

// isDisturbed reports whether some request of the operation may have failed: its line was cut, it was interrupted, or the
// server failed one in this round.
func (r *soakRun) isDisturbed() bool {
	return r.line.isCut() || r.interrupted || r.soak.w.Sim.FaultsFired() > 0
}

var soakNumber = regexp.MustCompile(`\d+`)

// ids are those of the VMs in its state.
func (r *soakRun) ids() (all []int) {
	for _, address := range r.s.Addresses() {
		var id int
		if _, err := fmt.Sscan(soakNumber.FindString(terraformtest.ShowValue(r.s.Attr(address, "vmid"))), &id); err == nil {
			all = append(all, id)
		}
	}
	return all
}

// actAsThirdParty makes VMs under the next free id, and removes some again, which no other may do. It waits for a request
// of the runs between two acts: the cluster's clock jumps to the next sleeper's time, so that a third party alone would
// let days pass while a run waits for a processor.
func (s *soak) actAsThirdParty(ctx context.Context, rng *rand.Rand) {
	clock, sim := clock.Client{Cluster: s.w.Sim.World().Clock}, s.w.Sim
	for ; clock.Sleep(ctx, time.Duration(500+rng.IntN(3000))*time.Millisecond) == nil; awaitOp(ctx, sim, sim.LastOp()+1) {
		s.w.Change(func(world *state.World) {
			if len(s.theirs) >= 6 {
				for id := range s.theirs {
					delete(world.Guests, id)
					delete(s.theirs, id)
					return
				}
			}
			id := 100
			for world.Guests[id] != nil {
				id++
			}
			g := &state.Guest{VMID: id, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "theirs", "cores": "2",
				"smbios1": fmt.Sprintf("uuid=%08x-0000-4000-8000-000000000000", rng.Uint32()), "meta": "creation-qemu=9.2.0,ctime=1"}}
			world.Guests[id] = g
			s.theirs[id] = fmt.Sprint(g.Type, g.Node, g.Config, g.Pending)
		})
	}
}

// settle ends the troubles: everything converges, and is destroyed.
func (s *soak) settle() {
	s.w.Sim.Advance(20 * time.Minute) // leases end, tasks that died are known to be dead
	for _, r := range s.runs {
		r.forgetReplaced()
		var err error
		for range 4 {
			rig.Must(s.t, r.s.Configure(s.w.ProviderBlock(r.id), r.config()))
			err = r.s.Run(s.t.Context())
			if r.listen(err); err == nil {
				break
			}
			r.removeComplete(err)
		}
		if err != nil && !r.needsRoot(err) {
			s.t.Errorf("run %d (%s) does not converge: %v", r.n, r.id, err)
		}
	}
	s.thirdPartiesUnchanged("after all has converged")
	s.nothingUnnamed("after all has converged")
	for _, r := range s.runs {
		if err := r.s.Destroy(s.t.Context()); err != nil && !r.needsRoot(err) {
			s.t.Errorf("run %d (%s) cannot be destroyed: %v", r.n, r.id, err)
		}
		r.listen(nil)
	}
	s.thirdPartiesUnchanged("after all is destroyed")
	s.nothingUnnamed("after all is destroyed")
}

var soakTaken = regexp.MustCompile(`VM or container (\d+) exists, and the volumes may be in use by it`)

var soakComplete = regexp.MustCompile(`VM (\d+) \(([\w-]+)\) is complete but for its last request`)

// removeComplete follows the provider's instructions about a complete VM of a killed run, as root on the node. (It says how to import it, too; but
// a run that is killed here leaves a process that lives, that of the test.)
func (r *soakRun) removeComplete(err error) {
	for _, found := range soakComplete.FindAllStringSubmatch(err.Error(), -1) {
		var id int
		if _, err := fmt.Sscan(found[1], &id); err != nil || !r.killed || !slices.Contains(r.everNamed, found[2]) {
			r.soak.t.Errorf("run %d is told of a VM that it has not made: %s", r.n, found[0])
			continue
		}
		r.soak.w.Change(func(world *state.World) {
			delete(world.Guests, id)
			maps.DeleteFunc(world.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.VMID == id })
		})
	}
}

// needsRoot reports whether an error is that something is left which only root on the node may remove, by the command that is named: the lock of
// a worker that died, without SSH and without root's password, or a volume whose id a third party has taken before it could be held.
func (r *soakRun) needsRoot(err error) bool {
	var id int
	if found := soakTaken.FindStringSubmatch(err.Error()); found != nil {
		_, _ = fmt.Sscan(found[1], &id)
	}
	_, theirs := r.soak.theirs[id]
	return (theirs || r.id == rig.TokenNoSSH || r.id == rig.TokenNoAllocate) && strings.Contains(err.Error(), "as root on ")
}

// forgetReplaced does what the provider says when a VM in state belongs to another run now: a killed run has destroyed its own, and could not say
// so, and the third party has taken the id.
func (r *soakRun) forgetReplaced() {
	for _, address := range r.s.Addresses() {
		var id int
		_, err := fmt.Sscan(soakNumber.FindString(terraformtest.ShowValue(r.s.Attr(address, "vmid"))), &id)
		if _, theirs := r.soak.theirs[id]; err == nil && theirs && r.killed {
			r.s.Forget(address)
		}
	}
}

// lifeline is a provider's network, which can be cut.
type lifeline struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

func (l *lifeline) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, errors.New("network is unreachable")
	}
	conn, err := l.dial(ctx, network, address)
	if err == nil {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

func (l *lifeline) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for _, conn := range l.conns {
		_ = conn.Close() // whatever it says
	}
	l.conns = nil
}

func (l *lifeline) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

func (l *lifeline) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}
