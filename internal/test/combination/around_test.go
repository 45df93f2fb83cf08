package combination_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// drawSnapshot draws a snapshot that is there before the change: a third party's, or one of the configuration, which stays, comes or leaves.
func drawSnapshot(r *rand.Rand) *part {
	const block = "resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.x.vmid\n  name = \"mine\"\n}\n"
	kind := []string{"of a third party", "of a third party", "kept", "removed", "made"}[r.IntN(5)]
	p := &part{name: "a snapshot, " + kind, late: true, after: constant(piece{})}
	if kind == "of a third party" {
		p.theirs = thirdparty.Snapshot
	}
	if kind == "kept" || kind == "removed" {
		p.before.blocks = block
	}
	if kind == "kept" || kind == "made" {
		p.after = constant(piece{blocks: block})
	}
	p.holds = func(b *bench, w *state.World) string {
		g := w.Guests[vmid]
		switch {
		case g == nil:
		case kind == "of a third party" && g.Snaps["thirdparty1"] == nil:
			return "the snapshot of a third party is gone"
		case kind == "kept" && g.Snaps["mine"] == nil:
			return "the snapshot is gone"
		}
		return ""
	}
	p.made = func(b *bench, w *state.World, _ map[string]string) string {
		if g := w.Guests[vmid]; g != nil && (kind == "made") != (g.Snaps["mine"] != nil) && (kind == "made" || kind == "removed") {
			return fmt.Sprintf("the snapshot that is to be %s: %v", kind, g.Snaps["mine"])
		}
		return ""
	}
	return p
}

// lacking is what a snapshot of a guest needs and does not have.
func lacking(w *state.World, g *state.Guest) string {
	for name, snap := range g.Snaps {
		for slot, value := range snap {
			volume, _, _ := strings.Cut(value, ",")
			isDisk := strings.Contains(volume, ":vm-") || strings.Contains(volume, ":base-") || strings.Contains(volume, ":400/") || strings.Contains(volume, ":900/")
			if slot == "description" || slot == "vmstate" || !isDisk || strings.Contains(volume, "cloudinit") || snap["snapstate"] != "" {
				continue
			}
			if v := w.Volume(g.Node, volume); v == nil || !slices.Contains(v.Snaps, name) {
				return fmt.Sprintf("snapshot %s has lost %s: %s", name, slot, value)
			}
		}
	}
	return ""
}

// drawHA draws an HA entry that comes, leaves, or changes its state, and a rule about it.
func drawHA(r *rand.Rand, c *change) *part {
	states := []string{"", "ignored", "stopped"}
	if c.running {
		states[2] = "started"
	}
	before, after := states[r.IntN(3)], []string{"", "started", "stopped", "ignored", "disabled"}[r.IntN(5)]
	switch {
	case strings.Contains(c.power, "running") && (after == "stopped" || after == "disabled"):
		after = "started"
	case strings.Contains(c.power, "stopped") && after == "started":
		after = "stopped"
	}
	entry := func(state string) string {
		if state == "" {
			return ""
		}
		return fmt.Sprintf("ha = { state = %q }\n", state)
	}
	p := arguments("HA", entry(before), entry(after))
	p.root, p.late = true, true
	p.made = func(_ *bench, w *state.World, _ map[string]string) string {
		e := w.HA["vm:400"]
		switch {
		case after == "" && before != "" && e != nil:
			return fmt.Sprintf("the HA entry is still there: %+v", e)
		case after != "" && (e == nil || e.State != after):
			return fmt.Sprintf("the HA entry is %+v", e)
		}
		return ""
	}
	if before != "" && after != "" && r.IntN(2) == 0 {
		p.rules(r)
	}
	return p
}

// rules adds a rule that comes, leaves or changes.
func (p *part) rules(r *rand.Rand) {
	rule := func(comment string) string {
		if comment == "" {
			return ""
		}
		return fmt.Sprintf("resource \"proxmox_ha_rule\" \"r\" {\n  rule = \"rule\"\n  type = \"node-affinity\"\n  resources = [\"vm:${proxmox_vm.x.vmid}\"]\n  nodes = { pve1 = 1, pve2 = 1 }\n  comment = %q\n}\n", comment)
	}
	before, after := two(r, "", "one", "two")
	arguments, made := p.after(nil).arguments, p.made
	p.profile, p.before.blocks, p.after = "9.2", rule(before), constant(piece{arguments: arguments, blocks: rule(after)})
	p.name += fmt.Sprintf(", a rule: %q becomes %q", before, after)
	p.made = func(b *bench, w *state.World, config map[string]string) string {
		if said := made(b, w, config); said != "" {
			return said
		}
		rule := w.HARules["rule"]
		if (rule != nil) != (after != "") || rule != nil && rule["comment"] != after {
			return fmt.Sprintf("the HA rule is %+v", rule)
		}
		return ""
	}
}

// drawHeld draws a proxmox_disk that comes into a slot, leaves it, or changes it, for one that an own disk leaves too.
func drawHeld(r *rand.Rand, c *change) *part {
	c.held[0] = []string{"scsi8", "sata4", "virtio8", ""}[r.IntN(4)]
	c.held[1] = []string{"scsi8", "scsi9", "sata4", "virtio9", ""}[r.IntN(5)]
	if r.IntN(3) == 0 {
		c.exchange()
	}
	storage := c.drawStorage(r)
	size, to := "1G", storage
	switch r.IntN(6) {
	case 0:
		size = "2G"
	case 1:
		to = c.drawStorage(r)
	}
	slot := func(name string) string {
		if name == "" {
			return ""
		}
		return fmt.Sprintf("    %s = { imported_disk = { volume = proxmox_disk.data.volume }, serial = \"held\" }\n", name)
	}
	block := func(storage, size string) string {
		return fmt.Sprintf("resource \"proxmox_disk\" \"data\" {\n  vmid = %d\n  node = \"pve1\"\n  storage = %q\n  size = %q\n}\n", holder, storage, size)
	}
	before := block(storage, "1G")
	after := piece{blocks: block(to, size), disks: slot(c.held[1])}
	p := &part{name: fmt.Sprintf("a proxmox_disk: in %q on %s becomes in %q on %s, %s", c.held[0], storage, c.held[1], to, size),
		before: piece{blocks: before, disks: slot(c.held[0])}, after: constant(after)}
	if c.held[1] == "" && !c.hasOther() && r.IntN(2) == 0 { // it goes to another VM
		given := "    scsi5 = { imported_disk = { volume = proxmox_disk.data.volume }, serial = \"held\" }\n"
		p.before.blocks += otherBlock("")
		after.blocks += otherBlock(given)
		p.after = constant(after)
		p.name += ", and to another VM"
	}
	p.prepare = func(b *bench, w *state.World) {
		if g := w.Guests[holder]; g != nil {
			volume, _, _ := strings.Cut(g.Config["scsi0"], ",")
			w.Volume("pve1", volume).Data = "held"
		}
	}
	p.holds = func(b *bench, w *state.World) string {
		if len(dataOf(w)["held"]) == 0 {
			return "the data of the proxmox_disk are lost"
		}
		return ""
	}
	p.made = func(b *bench, w *state.World, config map[string]string) string {
		if c.held[1] == "" {
			return ""
		}
		volume, _, _ := strings.Cut(config[c.held[1]], ",")
		if !slices.Contains(dataOf(w)["held"], volume) || w.Guests[holder] == nil || !strings.HasPrefix(w.Guests[holder].Config["scsi0"], volume) {
			return fmt.Sprintf("the proxmox_disk is not in %s: %q", c.held[1], config[c.held[1]])
		}
		return ""
	}
	return p
}

// exchange has the disk take the slot of an own one, which goes to its slot.
func (c *change) exchange() {
	for _, d := range c.disks {
		isTaken := slices.ContainsFunc(c.disks, func(e *disk) bool { return e.target == d.slot }) || c.fresh == d.slot
		if d.fate == changes && c.held[0] != "" && !isTaken {
			c.held[1], d.target = d.slot, c.held[0]
			return
		}
	}
}

// hasOther reports whether a part has the second VM.
func (c *change) hasOther() bool {
	return slices.ContainsFunc(c.parts, func(p *part) bool { return strings.Contains(p.after(nil).blocks, `"y"`) })
}

// otherBlock is a second VM.
func otherBlock(disks string) string {
	return fmt.Sprintf("resource \"proxmox_vm\" \"y\" {\n  name = \"y\"\n  vmid = %d\n  node = \"pve1\"\n  power_state = \"stopped\"\n  boot_order = [\"scsi0\"]\n  disks = {\n    scsi0 = { storage = \"local-zfs\", size = \"1G\" }\n%s  }\n}\n", otherVM, disks)
}

// drawOther draws a second VM that copies a disk of the first one, by its name or by a reference.
func drawOther(r *rand.Rand, c *change) *part {
	if c.hasOther() {
		return nil
	}
	d := c.disks[r.IntN(len(c.disks))]
	isNew, refers := r.IntN(2) == 0, r.IntN(3) == 0 && d.target != ""
	p := &part{name: fmt.Sprintf("another VM, new %t, copies %s, by a reference %t", isNew, d.label, refers), byName: !refers}
	if !isNew {
		p.before.blocks = otherBlock("")
	}
	p.after = func(volumes map[string]string) piece {
		source := fmt.Sprintf("%q", c.nameFor(d, volumes))
		if refers {
			source = fmt.Sprintf("proxmox_vm.x.disks.%s.volume", d.target)
		}
		return piece{blocks: otherBlock(fmt.Sprintf("    scsi5 = { storage = \"local-lvm\", import_from = %s }\n", source))}
	}
	p.made = func(b *bench, w *state.World, _ map[string]string) string {
		g := w.Guests[otherVM]
		if g == nil {
			return "the other VM is not there"
		}
		volume, _, _ := strings.Cut(g.Config["scsi5"], ",")
		if v := w.Volume(g.Node, volume); v == nil || v.Data != d.label {
			return fmt.Sprintf("the other VM's disk is no copy of %s: %s, %+v", d.label, g.Config["scsi5"], v)
		}
		return ""
	}
	return p
}
