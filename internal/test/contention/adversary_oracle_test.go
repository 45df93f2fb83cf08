package contention_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
)

// inspection is the result of a case: the messages, and the world at the end and ten minutes later. It shares no code with the
// provider.
type inspection struct {
	b       *adversaryBench
	cell    cell
	err     error
	acts    []thirdparty.Report // with those of the background actors
	reports []thirdparty.Report // of the case
	ops     []pvesim.Op
	theirs  []byte // the objects of third parties at the beginning
	wrong   []string
	// claimed are the sentences that were compared with the world.
	claimed []string
}

// vmid is the id of the VM at hand: the one that a create asked for last. If the create may choose and a third party takes its first
// choice, it chooses another id, and the messages and the state are about that one.
func (a *inspection) vmid() int {
	for _, op := range slices.Backward(a.ops) {
		id := op.Params["vmid"]
		if strings.HasSuffix(op.Path, "/clone") {
			id = op.Params["newid"]
		}
		if made := op.Path == "/nodes/{node}/qemu" || strings.HasSuffix(op.Path, "/clone"); made && op.Method == http.MethodPost {
			if n, err := strconv.Atoi(id); err == nil {
				return n
			}
		}
	}
	return a.b.scene.vmid
}

func (a *inspection) add(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}

// writes are the requests of ours that change something, with what third parties did between them.
func (a *inspection) writes() string {
	var all strings.Builder
	reports := a.acts
	for _, op := range a.ops {
		for len(reports) > 0 && reports[0].Seq <= op.Seq {
			fmt.Fprintf(&all, "  > %d: the third party: %s (done %v) %s\n", reports[0].Seq, reports[0].Act, reports[0].Done, reports[0].Why)
			reports = reports[1:]
		}
		if op.Method != http.MethodGet && op.Path != "/access/ticket" {
			fmt.Fprintf(&all, "  > %d: %s %s %v: %d\n", op.Seq, op.Method, op.Path, op.Params, op.Status)
		}
	}
	return all.String()
}

// said is every message to the user.
func (a *inspection) said() string {
	var all strings.Builder
	for _, d := range a.b.s.Diagnostics() {
		fmt.Fprintf(&all, "  | %s\n", strings.ReplaceAll(d.String(), "\n", "\n  | "))
	}
	return all.String()
}

// look judges the world at the end, ten minutes later, and after every command that was printed.
func (a *inspection) look(t *testing.T) {
	t.Helper()
	a.thirdPartiesUnchanged()
	a.nothingWritten()
	a.ownDataLives("at the end")
	a.ownSettingsStand("at the end")
	a.nothingUnnamed("at the end")
	a.claimsHold("at the end", false)
	a.powerOffs()
	if len(a.wrong) > 0 {
		return
	}
	a.b.w.Sim.Advance(10 * time.Minute)
	a.thirdPartiesUnchanged()
	a.nothingUnnamed("ten minutes later")
	a.claimsHold("ten minutes later", true)
	if len(a.wrong) > 0 {
		return
	}
	a.commandsAreHarmless(t)
}

// lawHolds judges by the law alone: no other party's object is changed, at once, ten minutes later and by any printed command, and
// each of ours is named. In a drawn world HA and jobs act at any time, so the moment that other claims are about is not known.
func (a *inspection) lawHolds(t *testing.T) {
	t.Helper()
	for _, when := range []string{"at the end", "ten minutes later"} {
		a.thirdPartiesUnchanged()
		a.nothingWritten()
		a.ownDataLives(when)
		a.nothingUnnamed(when)
		if len(a.wrong) > 0 {
			return
		}
		a.b.w.Sim.Advance(10 * time.Minute)
	}
	a.commandsAreHarmless(t)
}

// wrote tells whether a request of ours that changes something was carried out.
func (a *inspection) wrote() bool {
	return slices.ContainsFunc(a.ops, func(op pvesim.Op) bool {
		return op.Method != http.MethodGet && op.Path != "/access/ticket" && (op.Status < 400 || op.Status >= 595)
	})
}

// thirdPartiesUnchanged compares the objects of third parties between their acts, and from the last act to now.
func (a *inspection) thirdPartiesUnchanged() {
	if a.unavoidable() || !a.wrote() {
		return
	}
	was := a.theirs
	for _, d := range a.b.w.Sim.Reports() {
		a.sameThirdParties(was, d.Was, "before "+string(d.Act))
		was = d.Is
	}
	a.sameThirdParties(was, a.b.w.Sim.ThirdParties(), "at the end")
}

// grownHeld is how large a disk that is held for others is, in the configuration of a VM that has it.
var grownHeld = regexp.MustCompile(`(vm-300-disk-\d+)([^"]*),size=\w+`)

// sameThirdParties compares two exports. A disk of ours that a third party has attached may grow, since it is ours; one that is held for others
// grows by way of the VM that has it. That is all.
func (a *inspection) sameThirdParties(was, is []byte, when string) {
	if bytes.Equal(was, is) {
		return
	}
	before, after := engine.Exported(was), engine.Exported(is)
	for _, section := range slices.Sorted(maps.Keys(before)) {
		for name, object := range before[section] {
			now, ok := after[section][name]
			if a.b.scene.isDisk() {
				object, now = grownHeld.ReplaceAllString(object, "$1$2"), grownHeld.ReplaceAllString(now, "$1$2")
			}
			switch {
			case section == "broken" && a.crashed():
			case !ok && section == "volumes" && (strings.Contains(object, `"gone":true`) || a.movedAlong(object)): // a new volume may get the name
			case !ok:
				a.add("%s, a third party's %s %s is gone: %s", when, section, name, object)
			case section == "volumes" && a.movedAlong(object): // it became a base image with the VM's other disks
			case now != object:
				a.add("%s, a third party's %s %s has changed:\n%s\n%s", when, section, name, object, now)
			}
		}
		for name, object := range after[section] {
			// one of ours, under a name that a guest of theirs has kept of one that is gone
			ours := section == "volumes" && strings.Contains(object, `"shared":true`)
			if _, ok := before[section][name]; !ok && !ours && !(section == "broken" && a.crashed()) && !a.movedAlong(object) {
				a.add("%s, something is new among a third party's %s: %s", when, section, object)
			}
		}
	}
}

// crashed tells whether a node lost its power or left the cluster: the tasks that hold locks die with it.
func (a *inspection) crashed() bool {
	return slices.ContainsFunc(a.acts, func(d thirdparty.Report) bool {
		return d.Done && (d.Act == thirdparty.NodeCrash || d.Act == thirdparty.NodeOffline)
	})
}

// movedAlong tells whether a volume has moved to another node with the VM at hand: HA has moved the VM some time after a third party's
// order, with a disk that a third party's guest names too, or a rescan has made the volume an unused disk of the VM. It is whole there, on
// the same storage or one that is the same place, and the VM names it: another volume with the same name or content is no proof. A disk
// that was given to the VM goes with the VM's others: to another storage, and by another name.
func (a *inspection) movedAlong(object string) (moved bool) {
	did := func(acts ...thirdparty.Act) bool {
		return slices.ContainsFunc(a.acts, func(d thirdparty.Report) bool { return slices.Contains(acts, d.Act) && d.Done })
	}
	given := did(thirdparty.GiveDisk, thirdparty.Migrate) // it goes where the VM's disks go, under another name
	if !given && !did(thirdparty.HAMove, thirdparty.Rescan) {
		return false
	}
	a.b.w.Change(func(w *state.World) {
		g := w.Guests[a.vmid()]
		for _, v := range w.Volumes {
			is := func(storage string) bool { return strings.Contains(object, fmt.Sprintf(`%s:%s"`, storage, v.Name)) }
			named := is(v.Storage)
			for alias, s := range w.Storages {
				named = named || s.Same == v.Storage && is(alias)
			}
			there := g != nil && v.VMID == g.VMID && v.Node == g.Node && (named || given) && isNamed(g, v.Volid())
			moved = moved || there && (strings.Contains(object, `"gone":true`) || strings.Contains(object, fmt.Sprintf(`"data":%q`, v.Data)))
		}
	})
	return moved
}

// isNamed tells whether a guest's configuration, or a snapshot of it, names a volume.
func isNamed(g *state.Guest, volume string) bool {
	for _, config := range append(slices.Collect(maps.Values(g.Snaps)), g.Config, g.Pending) {
		for _, value := range config {
			if file, _, _ := strings.Cut(value, ","); file == volume {
				return true
			}
		}
	}
	return false
}

// nothingWritten holds a scene that only reads to it.
func (a *inspection) nothingWritten() {
	for _, op := range a.ops {
		if a.b.scene.reads && op.Method != http.MethodGet && op.Path != "/access/ticket" {
			a.add("it wrote: %s %s", op.Method, op.Path)
		}
	}
}

// powerOffs counts our guests that the provider switched off: only those that the change asks for.
func (a *inspection) powerOffs() {
	if a.b.scene.before == "" {
		return // a create removes its own VM
	}
	rest := slices.Clone(a.b.scene.offs)
	for _, d := range a.reports {
		switch { // the third party has caused what follows
		case d.Act == thirdparty.Start && a.b.scene.plans: // that plan may have seen the guest run
			rest = append(rest, state.PowerShutdown, state.PowerReboot)
		case d.Act == thirdparty.Start && (a.b.scene.destroys() || strings.Contains(a.b.scene.after, engine.PoweredOff)):
			rest = append(rest, state.PowerShutdown)
		case d.Act == thirdparty.AddHA: // whose shutdown is root's task, and forced (pve-ha-manager HA/Resources/PVEVM.pm shutdown)
			rest = append(rest, state.PowerStop)
		case (d.Act == thirdparty.Stop || d.Act == thirdparty.Delete) && strings.Contains(a.b.scene.name, "HA"): // root's own tasks carry it out
			rest = append(rest, state.PowerStop)
		}
	}
	for _, off := range a.b.w.Sim.PowerOffs() {
		if off.User != identityOf(a.b.w, a.b.id) {
			continue
		}
		n := slices.Index(rest, off.Kind)
		if n < 0 || off.VMID != a.b.scene.vmid {
			a.add("VM %d was switched off (%s by %s), which no configuration asked for", off.VMID, off.Kind, off.TaskType)
			continue
		}
		rest = slices.Delete(rest, n, n+1)
	}
}

// left is what of ours is on the cluster: the guest, and volumes of its id that no configuration refers to.
type left struct {
	guest   *state.Guest
	his     bool // the id is a third party's
	orphans []*state.Volume
	others  []string // HA entry, firewall file
}

func (a *inspection) left() (l left) {
	id := a.vmid()
	a.b.w.Change(func(w *state.World) {
		refers := map[string]bool{}
		for _, g := range w.Guests {
			for _, volid := range g.Volids() {
				refers[volid] = true
			}
		}
		g := w.Guests[id]
		if g != nil && w.ThirdParties.Guests[g] {
			l.his = true
		} else if g != nil {
			l.guest = g.Clone()
		}
		for _, v := range w.Volumes {
			if v.VMID == id && !w.ThirdParties.Volumes[v] && !refers[v.Volid()] {
				l.orphans = append(l.orphans, v)
			}
		}
		if g == nil {
			if w.HA[fmt.Sprintf("vm:%d", id)] != nil {
				l.others = append(l.others, fmt.Sprintf("vm:%d", id))
			}
			if w.Firewall[id] != nil {
				l.others = append(l.others, fmt.Sprintf("/etc/pve/firewall/%d.fw", id))
			}
		}
	})
	return l
}

// named is every text that can name an object: the messages, and the state with the private data.
func (a *inspection) named() string {
	text := a.said()
	for _, address := range a.b.s.Addresses() {
		i, err := a.b.s.Instance(address)
		if err != nil {
			a.add("state: %v", err)
			continue
		}
		text += i.Value.GoString() + string(i.Private)
	}
	return text
}

// nothingUnnamed wants each of our objects to be in state or in a message.
func (a *inspection) nothingUnnamed(when string) {
	l, text := a.left(), a.named()
	id := strconv.Itoa(a.vmid())
	if l.guest != nil && !strings.Contains(text, id) {
		a.add("%s, VM %s is there, and neither state nor what was said names it", when, id)
	}
	unseen := strings.Contains(text, "cannot be told") || strings.Contains(text, "could not be looked at")
	for _, v := range l.orphans {
		if !strings.Contains(text, v.Name) && !(unseen && strings.Contains(text, id)) {
			a.add("%s, volume %s (of ours) is left, and neither state nor what was said names it", when, v.Volid())
		}
	}
	for _, other := range l.others {
		if !strings.Contains(text, other) {
			a.add("%s, %s is left, and neither state nor what was said names it", when, other)
		}
	}
}

// unavoidable tells whether the third party came between a read and the write that relied on it, too late for the provider to see it:
// PVE has no request that looks and acts at once. Only reads may lie between the last look that would have shown that act and the
// request that did harm, and that request must be one that takes no digest: of a VM that is theirs by now, since a digest tells
// nothing of who else uses a disk of ours.
func (a *inspection) unavoidable() bool {
	if len(a.reports) == 0 {
		return false
	}
	if len(a.acts) > len(a.reports) { // a background actor may have come last
		return slices.ContainsFunc(a.acts, func(d thirdparty.Report) bool { return d.Done && a.tooLate(d) })
	}
	return a.tooLate(a.decisive())
}

// tooLate tells whether an act came after the last look that would have shown it.
func (a *inspection) tooLate(d thirdparty.Report) bool {
	harm := slices.IndexFunc(a.ops, func(op pvesim.Op) bool { return op.Seq >= d.Seq && op.Method != http.MethodGet && op.Status == 200 })
	attached := d.Act == thirdparty.Attach || d.Act == thirdparty.AttachContainer
	switch {
	case harm < 0:
		return a.pveActsLater(d)
	case isBound(a.ops[harm]) && !attached:
		return false
	}
	return lookedBefore(a.ops[:harm], d)
}

// pveActsLater tells whether the last write came before the third party's act and is one that PVE itself carries out some time later.
// HA's manager migrates (pve-ha-manager HA/Manager.pm). PVE starts a restarted guest when its old process has ended, even if the id
// belongs to another guest by then (qemu-server CLI/qm.pm cleanup).
func (a *inspection) pveActsLater(d thirdparty.Report) bool {
	for _, op := range slices.Backward(a.ops) {
		if op.Method != http.MethodGet {
			return op.Seq < d.Seq && (strings.HasSuffix(op.Path, "/migrate") || strings.HasSuffix(op.Path, "/status/reboot"))
		}
	}
	return false
}

// lookedBefore tells whether an act came right after a read that would have shown it: only reads lie between that read and the end.
func lookedBefore(ops []pvesim.Op, d thirdparty.Report) bool {
	for _, op := range slices.Backward(ops) {
		switch {
		case shows(op, d):
			return op.Seq < d.Seq
		case op.Method != http.MethodGet && op.Status == 200:
			return false
		}
	}
	return false
}

// isBound tells whether a request bears a digest that is the VM's own. That of a firewall is the same for all that have the same rules
// (pve-firewall Firewall.pm copy_list_with_digest), that of HA is of all entries.
func isBound(op pvesim.Op) bool {
	ends := func(suffix string) bool { return strings.HasSuffix(op.Path, suffix) }
	return op.Params["digest"] != "" && slices.ContainsFunc([]string{"/config", "/resize", "/move_disk"}, ends)
}

// decisive is the act that a read would have had to show: an attachment at the moment of the last act, or else the last act.
func (a *inspection) decisive() thirdparty.Report {
	last := a.reports[len(a.reports)-1]
	for _, d := range a.reports {
		if d.Seq == last.Seq && (d.Act == thirdparty.Attach || d.Act == thirdparty.AttachContainer) {
			return d
		}
	}
	return last
}

// shows tells whether a request shows an act, by the guest that the act was about or by the guest that it made.
func shows(op pvesim.Op, d thirdparty.Report) bool {
	if op.Status != 200 {
		return false
	}
	switch d.Act {
	case thirdparty.Plant:
		return strings.HasSuffix(op.Path, "/content")
	case thirdparty.Attach, thirdparty.AttachContainer:
		return op.Path == "/cluster/resources" || d.Made != 0 && op.VMID == d.Made
	}
	if op.Method != http.MethodGet { // a change that bore the digest of a look, and was carried out, has shown as much as another look
		return op.VMID == d.About && isBound(op)
	}
	return op.VMID == d.About && (strings.HasSuffix(op.Path, "/config") || strings.HasSuffix(op.Path, "/pending"))
}

// asks tells what requests are about a VM, answered or not.
func asks(vmid int) func(pvesim.Op) bool {
	return func(op pvesim.Op) bool {
		return op.VMID == vmid || op.Path == "/cluster/resources" || strings.HasPrefix(op.Path, "/nodes/{node}/tasks")
	}
}
