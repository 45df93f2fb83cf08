package combination_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// wrong reports a law that was broken, with all that explains it.
func (b *creationBench) wrong(when, law string, err error) {
	b.t.Helper()
	var dump strings.Builder
	for _, op := range b.w.Sim.Ops() {
		if op.Method != http.MethodGet {
			fmt.Fprintf(&dump, "\n    #%d %s %s %v: %d", op.Seq, op.Method, op.Path, strings.ReplaceAll(fmt.Sprint(op.Params), "\n", " "), op.Status)
		}
	}
	for _, d := range b.w.Sim.Reports() {
		fmt.Fprintf(&dump, "\n    before #%d the third party's %s of VM %d: %t %s", d.Seq, d.Act, d.About, d.Done, d.Why)
	}
	b.t.Errorf("%s, %s: %s\n%s\napply: %v\nsaid: %s\nworld: %s%s", b.t.Name(), when, law, b.creation, err, b.said, b.world(), dump.String())
}

// bury is what is left of a killed provider: no state, and marks of a process that is dead.
func (b *creationBench) bury() {
	b.line.revive()
	b.s.RestoreState(b.empty)
	b.said = ""
	b.w.Sim.Advance(time.Minute) // its last task ends
	credentials := b.w.Sim.Credentials()
	b.w.Change(func(w *state.World) {
		for _, g := range w.Guests {
			if text := g.Config["description"]; text != "" {
				g.Config["description"] = rig.Resign(credentials, text, rig.OfADeadProcess)
			}
		}
	})
	b.theirsStand("killed", nil)
}

// ours are the guests that are no third party's, and the volumes that have come and are neither theirs nor in a configuration.
func (b *creationBench) ours() (guests []*state.Guest, loose []*state.Volume) {
	before := map[state.VolumeKey]bool{}
	var base engine.Content
	_ = json.Unmarshal(b.base, &base) // the simulator's own
	for _, v := range base.Volumes {
		before[state.VolumeKey{Storage: v.Storage, Node: v.Node, Name: v.Name}] = true
	}
	b.w.Change(func(w *state.World) {
		used := map[*state.Volume]bool{}
		for _, id := range slices.Sorted(maps.Keys(w.Guests)) {
			g := w.Guests[id]
			if !w.ThirdParties.Guests[g] {
				guests = append(guests, g.Clone())
			}
			for _, volume := range g.Volids() {
				used[w.Volume(g.Node, volume)] = true
			}
		}
		for key, v := range w.Volumes {
			if !before[key] && !w.ThirdParties.Volumes[v] && !used[v] {
				loose = append(loose, v)
			}
		}
	})
	slices.SortFunc(loose, func(a, b *state.Volume) int { return strings.Compare(a.Volid()+a.Node, b.Volid()+b.Node) })
	return guests, loose
}

// lawsHold looks that the VM is whole and in state, or nothing of it is left, or each leftover is named; and at third parties' objects.
func (b *creationBench) lawsHold(when string, err error) {
	b.t.Helper()
	b.theirsStand(when, err)
	guests, loose := b.ours()
	inState, said := len(b.s.Addresses()) > 0, b.said
	for _, address := range b.s.Addresses() {
		if i, err := b.s.Instance(address); err == nil {
			said += i.Value.GoString() + string(i.Private)
		}
	}
	unseen := strings.Contains(said, "cannot be told") || strings.Contains(said, "could not be looked at")
	if err == nil && !inState {
		b.wrong(when, "success, and nothing is in state", err)
	}
	if err == nil && len(guests) == 0 && len(b.w.Sim.Reports()) == 0 {
		b.wrong(when, "success, and there is no VM", err)
	}
	if doubled := len(guests) > 1 && len(b.w.Sim.Reports()) == 0; doubled && !strings.Contains(said, "may be this one") {
		b.wrong(when, "there are two VMs", err)
	}
	for _, g := range guests {
		if !strings.Contains(said, strconv.Itoa(g.VMID)) {
			b.wrong(when, fmt.Sprintf("VM %d is left, and neither in state nor named", g.VMID), err)
		}
	}
	for _, v := range loose {
		if !strings.Contains(said, v.Name) && !(unseen && strings.Contains(said, strconv.Itoa(v.VMID))) {
			b.wrong(when, fmt.Sprintf("%s on %q is left, and not named", v.Volid(), v.Node), err)
		}
	}
	if strings.Contains(b.s.Diagnostics().String(), "nothing is left on the server") && len(guests)+len(loose) > 0 {
		b.wrong(when, "it says that nothing is left", err)
	}
	b.besideNamed(when, said, err)
}

// besideNamed looks at what PVE keeps by a VMID of a guest that is gone.
func (b *creationBench) besideNamed(when, said string, err error) {
	b.t.Helper()
	var left []string
	b.w.Change(func(w *state.World) {
		for sid := range w.HA {
			if _, id, _ := strings.Cut(sid, ":"); w.Guests[number(id)] == nil {
				left = append(left, sid)
			}
		}
		for id := range w.Firewall {
			if w.Guests[id] == nil {
				left = append(left, fmt.Sprintf("%d.fw", id))
			}
		}
		for _, p := range w.Pools {
			for _, id := range p.Guests {
				if w.Guests[id] == nil {
					left = append(left, fmt.Sprintf("%d in pool %s", id, p.ID))
				}
			}
		}
	})
	for _, thing := range left {
		if !strings.Contains(said, thing) {
			b.wrong(when, thing+" is left, and not named", err)
		}
	}
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // 0 is no guest
	return n
}

// converges applies the same configuration again, and wants the world of the undisturbed create.
func (b *creationBench) converges(d disturbance, first error, sum *tally) {
	b.t.Helper()
	how := "converged"
	if first == nil {
		how = "made at once"
	}
	var last error
	for round := 0; ; round++ {
		pl, err := b.s.Plan(b.t.Context())
		b.said += b.s.Diagnostics().String()
		if err == nil && pl.Empty() {
			break
		}
		if err == nil {
			err = b.apply(b.t.Context(), pl)
			b.lawsHold(fmt.Sprintf("%s, apply %d after it", d, round+1), err)
		}
		if last = err; err != nil && (b.adopt(errors.Join(err, first)) || round > 0) {
			how = "converged with a hand"
			b.obey()
		}
		if round == 4 {
			b.wrong(d.String(), fmt.Sprintf("it does not converge; at first: %v", first), err)
			sum.add("not at its end")
			return
		}
		b.w.Sim.Advance(3 * time.Minute)
	}
	if guests, _ := b.ours(); len(guests) > 1 && strings.Contains(b.said, "may be this one") {
		sum.add("a killed create's VM is named")
		return
	}
	if !b.asWanted() {
		b.obey() // what is named may be left
		if how = "converged, and named what is left"; !b.asWanted() {
			b.wrong(d.String(), "the world is another one than undisturbed: "+cmp.Diff(strings.Split(b.want, "\n"), strings.Split(b.world(), "\n")), last)
		}
	}
	b.theirsStand(d.String()+", at the end", last)
	sum.add(how)
}

// adopt keeps the VM where an error advises that: it is untainted, or imported.
func (b *creationBench) adopt(err error) bool {
	const address = "proxmox_vm.x"
	if m := adoptable.FindStringSubmatch(err.Error()); m != nil && len(b.s.Addresses()) == 0 {
		b.adopted = b.s.Import(b.t.Context(), address, m[1]+m[2]) == nil
	} else if strings.Contains(err.Error(), "terraform untaint") && len(b.s.Addresses()) > 0 {
		b.s.Taint(address, false)
		b.adopted = true
	}
	return b.adopted
}

var adoptable = regexp.MustCompile("`terraform import ADDRESS ([0-9]+)`|is a disk of VM ([0-9]+).* taken over with `terraform import`")

// unset are values that only a create gives: whether a guest runs, and the boot order, where they are not configured.
var unset = regexp.MustCompile(`, runs (true|false)|(?m)^  boot: .*$`)

// asWanted tells whether the world is as after the undisturbed create, as far as an adopted VM can be.
func (b *creationBench) asWanted() bool {
	is, want := b.world(), b.want
	if b.adopted {
		is, want = unset.ReplaceAllString(is, ""), unset.ReplaceAllString(want, "")
	}
	return is == want
}

var leftAlone = regexp.MustCompile(`nothing shows that this create has made them: (.*)\. They were left alone`)

// obey runs the commands that were printed, and removes the volumes that a user was told to look at.
func (b *creationBench) obey() {
	for _, m := range leftAlone.FindAllStringSubmatch(b.said, -1) {
		for volume := range slices.Values(strings.Split(m[1], ", ")) {
			for _, node := range []string{"pve1", "pve2"} {
				_, _ = b.root.Run(b.t.Context(), node, "pvesm", "free", volume) // the world is looked at
			}
		}
	}
	for _, m := range engine.Printed.FindAllStringSubmatch(b.said, -1) {
		words := strings.Fields(strings.ReplaceAll(m[1]+m[3], "'", ""))
		for command := range slices.Values(strings.Split(strings.Join(words, " "), " && ")) {
			_, _ = b.root.Run(b.t.Context(), m[2]+m[4], strings.Fields(command)...) // the world is looked at
		}
	}
}

// ends applies again after the act of a third party. It may be refused; nothing of the third party's changes.
func (b *creationBench) ends(d disturbance, first error, sum *tally) {
	b.t.Helper()
	for round := range 3 {
		pl, err := b.s.Plan(b.t.Context())
		b.said += b.s.Diagnostics().String()
		if err != nil {
			sum.add("refused after an act")
			return
		}
		if pl.Empty() {
			sum.add("at its end after an act")
			return
		}
		err = b.apply(b.t.Context(), pl)
		b.lawsHold(fmt.Sprintf("%s (at first: %v), apply %d after it", d, first, round+1), err)
		b.w.Sim.Advance(3 * time.Minute)
	}
	sum.add("not at its end after an act")
}

var ownValues = regexp.MustCompile(`([0-9A-F]{2}:){5}[0-9A-F]{2}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|ctime=\d+`)

// world tells of the VM and of each difference from the beginning, by the slots of disks and without values that PVE draws.
func (b *creationBench) world() string {
	guests, loose := b.ours()
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	b.w.Change(func(w *state.World) {
		for _, g := range guests {
			add("a VM on %s, runs %t, in pool %q, HA %+v, firewall %+v, snapshots %v, pending %v %v, cloud-init %v", g.Node, g.Running != nil, w.PoolOf(g.VMID),
				entryOf(w, g.VMID), w.Firewall[g.VMID], slices.Sorted(maps.Keys(g.Snaps)), g.Pending, g.Deletes, len(g.Cloudinit))
			for _, option := range slices.Sorted(maps.Keys(g.Config)) {
				value := g.Config[option]
				volume, rest, _ := strings.Cut(value, ",")
				if v := w.Volume(g.Node, volume); v != nil && v.VMID == g.VMID {
					value = fmt.Sprintf("(%s on %q, %s, %d KiB, %q, of %q, snapshots %v, linked %t) %s", v.Storage, v.Node, v.Format, v.Size>>10, v.Data, v.Parent, v.Snaps, strings.Count(volume, "/") > 1, rest)
				}
				add("  %s: %s", option, ownValues.ReplaceAllString(value, "…"))
			}
		}
		for _, v := range loose {
			add("left: %s on %q: %q", v.Volid(), v.Node, v.Data)
		}
		for _, v := range append(slices.Clone(b.kept), b.doomed...) {
			now := w.Volumes[state.VolumeKey{Storage: v.Storage, Node: v.Node, Name: v.Name}]
			add("beside it %s: %t", v.Volid(), now != nil && now.Data == v.Data)
		}
		for _, task := range w.Tasks {
			if task.Running {
				add("at work: %s", task.Type)
			}
		}
	})
	return strings.Join(lines, "\n")
}

// entryOf is the HA entry of a VM.
func entryOf(w *state.World, vmid int) string {
	if h := w.HA[fmt.Sprintf("vm:%d", vmid)]; h != nil {
		return fmt.Sprint(h.State, h.Group, h.Options)
	}
	return "none"
}
