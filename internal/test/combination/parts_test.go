package combination_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// The ids of the VMs beside the one that changes.
const (
	otherVM = 401
	holder  = 900
)

// piece is a part of a configuration: blocks beside the VM, its arguments, and its slots.
type piece struct{ blocks, arguments, disks string }

func (p *piece) add(q piece) {
	p.blocks, p.arguments, p.disks = p.blocks+q.blocks, p.arguments+q.arguments, p.disks+q.disks
}

// part is one more thing that the VM has, or that is beside it, before and after the change.
type part struct {
	name    string
	before  piece
	after   func(volumes map[string]string) piece
	late    bool // the VM is made without it
	root    bool // takes root@pam
	byName  bool // another VM copies a disk by its name, which the change may give to no disk, or to another one
	profile string
	prepare func(b *bench, w *state.World) // the world, before the change
	theirs  thirdparty.Act                 // of a third party, before the change
	// holds is a law, after every apply; made is one for a change that has succeeded. They tell the fault.
	holds func(b *bench, w *state.World) string
	made  func(b *bench, w *state.World, config map[string]string) string
}

func constant(p piece) func(map[string]string) piece {
	return func(map[string]string) piece { return p }
}

// arguments is a part that is arguments of the VM only.
func arguments(name, before, after string) *part {
	return &part{name: fmt.Sprintf("%s: %q becomes %q", name, before, after), before: piece{arguments: before}, after: constant(piece{arguments: after})}
}

// drawParts draws what the change does beside the disks.
func (c *change) drawParts(r *rand.Rand) {
	kinds := []func(*rand.Rand, *change) *part{drawCloudInit, drawMedium, drawNetworks, drawNotes, drawHA, drawHeld, drawOther, drawWaiting, drawTemplate}
	if c.snapped {
		c.parts = append(c.parts, drawSnapshot(r))
	}
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for _, kind := range kinds[:r.IntN(4)] {
		if p := kind(r, c); p != nil {
			c.parts = append(c.parts, p)
		}
	}
}

// two draws two of a list, the same one twice too.
func two(r *rand.Rand, all ...string) (one, other string) {
	return all[r.IntN(len(all))], all[r.IntN(len(all))]
}

// isRoot reports whether a part takes root@pam, and profile is the version of PVE.
func (c *change) isRoot() bool {
	return slices.ContainsFunc(c.parts, func(p *part) bool { return p.root })
}

// copiesByName reports whether a part does that.
func (c *change) copiesByName() bool {
	return slices.ContainsFunc(c.parts, func(p *part) bool { return p.byName })
}

func (c *change) profile() string {
	for _, p := range c.parts {
		if p.profile != "" {
			return p.profile
		}
	}
	return ""
}

// otherName is the second name of shared-nfs.
const otherName = "nfs-new"

// nameTwice gives an export its second name.
func nameTwice(w *state.World) {
	twin := *w.Storages["shared-nfs"]
	w.Storages["shared-nfs"].Export, twin.Export = "/srv/vms", "/srv/vms"
	twin.ID, twin.Same, twin.Path = otherName, "shared-nfs", "/mnt/pve/"+otherName
	w.Storages[otherName] = &twin
}

// nameFor is what names a disk's volume: it has the other name of its storage, where that has two.
func (c *change) nameFor(d *disk, volumes map[string]string) string {
	if storage, name, _ := strings.Cut(volumes[d.label], ":"); c.twoNames && storage == "shared-nfs" && (d.fate != changes || d.size == "1G") {
		return otherName + ":" + name
	}
	return volumes[d.label]
}

// has wants an option to have a value.
func has(config map[string]string, option string, words ...string) string {
	for _, word := range words {
		if !strings.Contains(config[option], word) {
			return fmt.Sprintf("%s is %q, without %q", option, config[option], word)
		}
	}
	return ""
}
