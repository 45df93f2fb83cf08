package combination_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// wrong reports a law that was broken, with all that explains it.
func (b *bench) wrong(when, law string, err error) {
	b.t.Helper()
	b.t.Errorf("%s: WRONG: %s\n%s\nplans: %s\napply: %v\n%s%s", when, law, b.change, b.said, err, b.s.Diagnostics(), b.look())
}

// look lists the VMs of the change, their volumes, and the requests that may change something.
func (b *bench) look() string {
	var dump strings.Builder
	b.w.Change(func(w *state.World) {
		for _, id := range []int{vmid, otherVM, holder} {
			if g := w.Guests[id]; g != nil {
				for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
					fmt.Fprintf(&dump, "\n    %d %s: %s", id, opt, g.Config[opt])
				}
				fmt.Fprintf(&dump, "\n    %d on %s: pending %v %v, snapshots %v", id, g.Node, g.Pending, g.Deletes, g.Snaps)
			}
		}
		for _, v := range w.Volumes {
			if v.VMID == vmid || v.VMID == otherVM || v.VMID == holder {
				fmt.Fprintf(&dump, "\n    %s on %s: %q, %d MiB %v", v.Volid(), v.Node, v.Data, v.Size>>20, v.Snaps)
			}
		}
	})
	for _, op := range b.w.Sim.Ops() {
		if op.Method != http.MethodGet {
			fmt.Fprintf(&dump, "\n    #%d %s %s %v: %d", op.Seq, op.Method, op.Path, op.Params, op.Status)
		}
	}
	return dump.String()
}

// lawsHold looks at data, at third parties' objects, and at guests that went down.
func (b *bench) lawsHold(when string, err error) {
	b.t.Helper()
	data := b.data()
	isNamed := func(slot string) bool {
		return strings.Contains(b.said, slot+" of VM 400 on pve1 is destroyed with its data") || strings.Contains(b.said, slot+" of VM 400 on pve2 is destroyed with its data")
	}
	for _, d := range b.disks {
		if len(data[d.label]) == 0 && (d.fate != removed || !isNamed(d.slot)) {
			b.wrong(when, d.label+" is lost", err)
		}
	}
	for _, slot := range b.firmwareSlots() {
		if len(data[slot]) == 0 && !isNamed(slot) && !isNamed(argument[slot]) {
			b.wrong(when, slot+" is lost", err)
		}
	}
	if offs := b.w.Sim.PowerOffs(); !b.down && slices.ContainsFunc(offs, func(off state.PowerOff) bool { return !strings.HasPrefix(off.User, "thirdparty") }) {
		b.wrong(when, fmt.Sprintf("the guest went down, and no plan says so: %v", offs), err)
	}
	b.theirsStand(when, err)
	b.partsHold(when, err, func(p *part, w *state.World) string {
		if p.holds == nil {
			return ""
		}
		return p.holds(b, w)
	})
}

// partsHold asks each part, and wants each snapshot to have its disks.
func (b *bench) partsHold(when string, err error, ask func(*part, *state.World) string) {
	b.t.Helper()
	var broken []string
	b.w.Change(func(w *state.World) {
		for _, p := range b.parts {
			broken = append(broken, ask(p, w))
		}
		if g := w.Guests[vmid]; g != nil {
			broken = append(broken, lacking(w, g))
		}
	})
	for _, law := range broken {
		if law != "" {
			b.wrong(when, law, err)
		}
	}
}

// theirsStand wants the disks of third parties to be there still, unless a plan has named the slot.
func (b *bench) theirsStand(when string, err error) {
	b.t.Helper()
	const theirs, slot = "the third party's data", "scsi29 of VM 400"
	for _, d := range b.w.Sim.Reports() {
		if had := bytes.Count(d.Is, []byte(theirs)); d.Done && len(b.data()[theirs]) < had && !strings.Contains(b.said, slot) {
			b.wrong(when, fmt.Sprintf("a third party had %d disks after %s, and has %d", had, d.Act, len(b.data()[theirs])), err)
		}
	}
}

var argument = map[string]string{"efidisk0": "efi_disk", "tpmstate0": "tpm_state"}

func (b *bench) firmwareSlots() []string {
	if !b.firmware {
		return nil
	}
	return []string{"efidisk0", "tpmstate0"}
}

// data are the volumes by their contents.
func (b *bench) data() (all map[string][]string) {
	b.w.Change(func(w *state.World) { all = dataOf(w) })
	return all
}

func dataOf(w *state.World) map[string][]string {
	all := map[string][]string{}
	for _, v := range w.Volumes {
		if v.Data != "" {
			all[v.Data] = append(all[v.Data], v.Volid())
		}
	}
	return all
}

// isMade holds a change that has succeeded to the configuration: each disk is in its slot, with its data and its options.
func (b *bench) isMade(when string, err error) {
	b.t.Helper()
	data, config := b.data(), map[string]string{}
	defer b.partsHold(when, err, func(p *part, w *state.World) string {
		if p.made == nil {
			return ""
		}
		return p.made(b, w, config)
	})
	b.w.Change(func(w *state.World) {
		if g := w.Guests[vmid]; g != nil {
			config = g.NextConfig()
		}
	})
	for _, d := range b.disks {
		if d.fate == removed || d.label == b.leaving && d.fate != kept { // a third party's removal stands where the disk would not stay as it is
			continue
		}
		value := config[d.target]
		volume, _, _ := strings.Cut(value, ",")
		if !slices.ContainsFunc(data[d.label], func(name string) bool { return plain(name) == plain(volume) }) {
			b.wrong(when, fmt.Sprintf("%s is not in %s: %q", d.label, d.target, value), err)
		}
		for _, option := range []string{"serial=ser" + d.label[4:], "backup=0"} {
			if !strings.Contains(value, option) {
				b.wrong(when, fmt.Sprintf("%s has lost %s: %s", d.label, option, value), err)
			}
		}
		if strings.Contains(d.options, "cache") && !strings.Contains(value, "cache=writeback") {
			b.wrong(when, fmt.Sprintf("%s has lost its cache: %s", d.label, value), err)
		}
	}
}

// plain is a volume's name before its VM became a template.
func plain(volume string) string { return strings.Replace(volume, "base-", "vm-", 1) }

// tally counts what became of the changes.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (n *tally) add(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts[what]++
}

func (n *tally) String() string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(n.counts)) {
		all = append(all, fmt.Sprintf("%d %s", n.counts[what], what))
	}
	return strings.Join(all, ", ")
}
