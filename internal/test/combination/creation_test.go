package combination_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// creation is a VM to be made, with several things at once.
type creation struct {
	who     rig.Identity
	source  string // an argument; "" for an empty VM
	from    int    // whose disks it gets
	node    string // an argument's value; "" for that of the source
	vmid    int    // 0: a free one
	attrs   []string
	disks   map[string]string // by slot, the values
	kept    []*state.Volume   // volumes without a VM that the configuration attaches
	doomed  []*state.Volume   // likewise, that on_orphaned_volumes destroys
	seconds int               // that a task takes

	r     *rand.Rand
	slots []string // free ones
}

func (c *creation) pick(all ...string) string { return all[c.r.IntN(len(all))] }

// oneIn is true as often.
func (c *creation) oneIn(n int) bool { return c.r.IntN(n) == 0 }

func (c *creation) set(format string, args ...any) {
	c.attrs = append(c.attrs, fmt.Sprintf(format, args...))
}

// place is the storage of a new disk.
func (c *creation) place() string {
	return c.pick("local-zfs", "local-zfs", "local-lvm", "local-lvm", "local", "local2", "shared-nfs", "shared-nfs")
}

// drawCreation draws a VM. The same numbers draw the same one.
func drawCreation(r *rand.Rand) *creation {
	c := &creation{r: r, disks: map[string]string{}, slots: []string{"scsi0", "scsi1", "scsi3", "scsi7", "scsi30", "virtio0", "virtio15", "sata0", "sata5", "ide1", "ide3"}}
	r.Shuffle(len(c.slots), func(i, j int) { c.slots[i], c.slots[j] = c.slots[j], c.slots[i] })
	c.who = []rig.Identity{rig.TokenNoSSH, rig.TokenNoSSH, rig.TokenNoSSH, rig.TokenSSH, rig.RootTicket, rig.TokenNoAllocate}[r.IntN(6)]
	if c.oneIn(2) {
		c.vmid = 400
	}
	if c.oneIn(3) {
		c.seconds = 3
	}
	c.drawSource()
	c.drawSourceDisks()
	c.drawNewDisks()
	c.drawOrphans()
	c.drawFirmware()
	c.drawMachine()
	c.drawEnd()
	return c
}

// drawSource draws what it is made of, and its node.
func (c *creation) drawSource() {
	full := func(arguments string) {
		if storage := c.pick("", "", "local-lvm", "local-zfs", "local2", "shared-nfs"); storage != "" {
			arguments += fmt.Sprintf(", storage = %q", storage)
			if c.oneIn(3) && strings.HasPrefix(storage, "local2") {
				arguments += `, format = "qcow2"`
			}
		}
		c.source = fmt.Sprintf("clone = { vmid = %d, full = true%s }", c.from, arguments)
		c.node = c.pick("", "", "pve1", "pve2")
	}
	switch c.r.IntN(8) {
	case 0, 1: // an empty one
		c.from, c.node = -1, c.pick("pve1", "pve2")
	case 2, 3:
		c.from = []int{9000, 9100, 9100, 9200, 9300}[c.r.IntN(5)]
		full("")
	case 4:
		c.from = []int{8300, 8400}[c.r.IntN(2)]
		arguments := ""
		if c.from == 8300 && c.oneIn(2) {
			arguments = `, snapshot = "old"`
		}
		full(arguments)
	case 5, 6:
		c.from = []int{9000, 9100, 9200, 9200, 9300}[c.r.IntN(5)]
		c.source = fmt.Sprintf("clone = { vmid = %d, full = false }", c.from)
		if c.node = c.pick("", "pve1"); c.from == 9200 {
			c.node = c.pick("", "pve1", "pve2", "pve2")
		}
	default:
		storage := ""
		if c.oneIn(2) {
			storage = fmt.Sprintf(", storage = %q", c.place())
		}
		c.source = fmt.Sprintf("restore = { archive = %q%s }", rig.WebBackup, storage)
		c.node = "pve1"
	}
}

// drawSourceDisks draws what becomes of the source's disks: some are configured, and grow or move.
func (c *creation) drawSourceDisks() {
	all := sources()[c.from]
	for _, slot := range slices.Sorted(maps.Keys(all)) {
		c.slots = slices.DeleteFunc(c.slots, func(free string) bool { return free == slot })
		if c.oneIn(3) {
			continue
		}
		var arguments []string
		if c.oneIn(2) {
			arguments = append(arguments, fmt.Sprintf("storage = %q", c.place()))
		}
		if c.oneIn(2) {
			arguments = append(arguments, fmt.Sprintf(`size = "%dG"`, all[slot]+c.r.IntN(3)))
		}
		c.disks[slot] = strings.Join(append(arguments, c.options(slot)...), ", ")
	}
}

// options are those of a disk.
func (c *creation) options(slot string) (all []string) {
	if c.oneIn(3) {
		all = append(all, "backup = false")
	}
	if c.oneIn(3) {
		all = append(all, `cache = "writeback"`)
	}
	if c.oneIn(4) {
		all = append(all, fmt.Sprintf("serial = %q", "ser-"+slot))
	}
	if c.oneIn(4) {
		all = append(all, "discard = true")
	}
	return all
}

// drawNewDisks draws disks that the source does not have.
func (c *creation) drawNewDisks() {
	n := c.r.IntN(3)
	if c.from < 0 {
		n++
	}
	for range n {
		slot := c.slot()
		storage := c.place()
		arguments := []string{fmt.Sprintf("storage = %q", storage)}
		size := fmt.Sprintf(`size = "%dG"`, 1+c.r.IntN(3))
		switch c.r.IntN(6) {
		case 0:
			arguments = append(arguments, `import_from = "local:import/disk.qcow2"`)
			size = c.pick("", `size = "2G"`, `size = "5G"`)
		case 1:
			if c.node == "pve2" {
				break
			}
			arguments = append(arguments, fmt.Sprintf("import_from = %q", c.pick("local-lvm:vm-8000-disk-0", "shared-nfs:9200/base-9200-disk-1.qcow2", c.shared()+":9200/base-9200-disk-1.qcow2")))
			size = c.pick("", `size = "5G"`)
		case 2:
			if c.who == rig.TokenSSH || c.who == rig.RootTicket {
				arguments = append(arguments, `import_from = "local:iso/debian.iso"`)
			}
		}
		if size != "" {
			arguments = append(arguments, size)
		}
		if strings.HasPrefix(storage, "shared") && c.oneIn(2) {
			arguments = append(arguments, `format = "qcow2"`)
		}
		c.disks[slot] = strings.Join(append(arguments, c.options(slot)...), ", ")
	}
}

// shared is the second name of the shared storage, where there is one.
func (c *creation) shared() string {
	if c.from == 0 {
		return "shared-nfs"
	}
	return alias
}

func (c *creation) slot() string {
	slot := c.slots[0]
	c.slots = c.slots[1:]
	return slot
}

// where is the node of the VM.
func (c *creation) where() string {
	if c.node == "" {
		return "pve1"
	}
	return c.node
}

// drawOrphans draws volumes of the id that no VM has: some that are attached, some that are in the way.
func (c *creation) drawOrphans() {
	if c.vmid == 0 {
		return
	}
	orphan := func(n int) (*state.Volume, string) {
		v := &state.Volume{Storage: c.pick("local-zfs", "local-lvm", "shared-nfs"), Node: c.where(), VMID: c.vmid, Content: "images", Format: "raw", Size: 1 << 30, Data: fmt.Sprintf("kept %d", n)}
		v.Name = fmt.Sprintf("vm-%d-disk-%d", c.vmid, n)
		name := v.Storage
		if v.Storage == "shared-nfs" {
			v.Node, v.Name = "", fmt.Sprintf("%d/%s.raw", c.vmid, v.Name)
			name = c.pick(name, c.shared())
		}
		return v, name + ":" + v.Name
	}
	attached := []int{0, 0, 0, 1, 1, 2}[c.r.IntN(6)]
	if c.source != "" {
		attached = 0 // a clone gets its disks from its source
	}
	for n := range attached {
		v, name := orphan(n * c.r.IntN(4))
		if slices.ContainsFunc(c.kept, func(o *state.Volume) bool { return o.Name == v.Name && o.Storage == v.Storage }) {
			continue
		}
		v.Data = fmt.Sprintf("kept %d", n)
		arguments := []string{fmt.Sprintf("imported_disk = { volume = %q }", name)}
		if c.oneIn(3) {
			arguments = append(arguments, `size = "2G"`)
		}
		slot := c.slot()
		c.disks[slot] = strings.Join(append(arguments, c.options(slot)...), ", ")
		c.kept = append(c.kept, v)
	}
	if !c.oneIn(4) {
		return
	}
	c.set(`on_orphaned_volumes = "destroy"`)
	// Without Datastore.Allocate it goes with an empty VM, which an interrupt or a kill leaves; the next apply names it.
	if v, _ := orphan(6 + c.r.IntN(3)); v.Node != "" && !c.oneIn(3) && c.who != rig.TokenNoAllocate {
		v.Data = "in the way"
		c.doomed = append(c.doomed, v)
	}
}

// configuration is that of the VM.
func (c *creation) configuration() string {
	var text strings.Builder
	fmt.Fprintf(&text, "resource \"proxmox_vm\" \"x\" {\n  name = \"x\"\n")
	if c.vmid != 0 {
		fmt.Fprintf(&text, "  vmid = %d\n", c.vmid)
	}
	if c.node != "" {
		fmt.Fprintf(&text, "  node = %q\n", c.node)
	}
	if c.source != "" {
		fmt.Fprintf(&text, "  %s\n", c.source)
	}
	for _, line := range c.attrs {
		fmt.Fprintf(&text, "  %s\n", line)
	}
	if len(c.disks) > 0 {
		text.WriteString("  disks = {\n")
		for _, slot := range slices.Sorted(maps.Keys(c.disks)) {
			fmt.Fprintf(&text, "    %s = { %s }\n", slot, c.disks[slot])
		}
		text.WriteString("  }\n")
	}
	text.WriteString("}\n")
	return text.String()
}

// String tells of the creation.
func (c *creation) String() string {
	text := fmt.Sprintf("%s, tasks of %d s\n%s", c.who, c.seconds, c.configuration())
	for _, v := range append(slices.Clone(c.kept), c.doomed...) {
		text += fmt.Sprintf("beside it %s on %q: %s\n", v.Volid(), v.Node, v.Data)
	}
	return text
}
