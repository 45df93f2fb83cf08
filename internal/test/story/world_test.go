package story_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// place is the cluster as a story draws it.
type place struct {
	nodes    []string
	storages []string // two, of different kinds
	ha       bool
}

// workdir is a configuration with a state of its own.
type workdir struct {
	name    string
	session *terraformtest.Session
	vms     []*machine
	disk    *dataDisk
	// reached: an apply has been tried, so that there is something to change.
	reached bool
	empty   bool // the configuration is nothing
}

// copy is what a configuration was before it is edited.
func (d *workdir) copy() (before workdir) {
	for _, m := range d.vms {
		c := *m
		c.disks = maps.Clone(m.disks)
		before.vms = append(before.vms, &c)
	}
	if d.disk != nil {
		c := *d.disk
		before.disk = &c
	}
	return before
}

// machine is a proxmox_vm as the configuration has it.
type machine struct {
	name, node, source string
	vmid               int
	disks              map[string]drive
	memory             int
	label, description string // label is the attribute name
	tags               string
	ha, power          string
	removed, powerOff  string
	attached           bool // has the proxmox_disk
	snapshot           bool
}

// drive is a disk of a machine.
type drive struct {
	storage string
	size    int // GiB
}

// dataDisk is a proxmox_disk.
type dataDisk struct {
	storage string
	size    int
}

// The sources of a machine.
const (
	scratch = "scratch"
	cloned  = "clone"
	image   = "image"
)

func newStory(t *testing.T, seed uint64) *story {
	t.Helper()
	s := &story{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), counts: map[string]int{}, script: map[int]cue{}}
	s.place = place{nodes: []string{"pve1", "pve2"}, ha: s.odds(2)}
	if s.odds(4) {
		s.place.nodes = s.place.nodes[:1]
	}
	all := []string{"local", "local-zfs", "local-lvm", "shared-nfs"}
	s.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	s.place.storages = all[:2]
	s.id = pick(s, []rig.Identity{rig.TokenNoSSH, rig.TokenNoSSH, rig.RootTicket, rig.TokenNoAllocate})
	if s.place.ha { // takes Sys.Console, which the tokens lack
		s.id = rig.RootTicket
	}
	s.w = rig.NewWorld(t, pvesim.Options{Nodes: s.place.nodes, Profile: pick(s, []string{"8.4", "8.4", "9.0", "9.2"})})
	s.w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop, state.PowerReboot, state.PowerRollback, state.PowerSuspend)
	return s
}

// open draws what is there before the first command, and when third parties act.
func (s *story) open() {
	s.user = map[rig.Identity]string{rig.RootTicket: "root@pam", rig.TokenNoSSH: "terraform@pve!prov",
		rig.TokenNoAllocate: "lite@pve!prov"}[s.id]
	s.w.Change(func(w *state.World) {
		if s.odds(2) {
			g := w.Guests[8000]
			g.Running = &state.Running{QMPStatus: "running", StartedAt: w.Clock.Now(), Booted: maps.Clone(g.Config)}
		}
	})
	s.w.Sim.MarkThirdParties()
	s.w.Sim.SetTaskTime(time.Duration(s.rng.IntN(3)) * time.Second)
	s.dirs = append(s.dirs, s.drawDir("first", 400))
	if s.odds(3) {
		s.dirs = append(s.dirs, s.drawDir("second", 500))
	}
	s.note("world: nodes %v, storages %v, HA %v, as %s, profile %s", s.place.nodes, s.place.storages, s.place.ha, s.id,
		s.w.Sim.World().Profile)
	s.guide = newGuide(s)
	s.ledger = newLedger(s)
	for n := range 1 + s.rng.IntN(2) {
		s.script[s.rng.IntN(5)] = s.drawCue(n)
	}
}

func (s *story) drawDir(name string, vmid int) *workdir {
	d := &workdir{name: name, session: s.w.NewSession(), vms: []*machine{s.drawMachine("a", vmid)}}
	if vmid == 400 && s.odds(3) {
		d.disk = &dataDisk{storage: pick(s, s.place.storages), size: 1}
		d.vms = append(d.vms, s.drawMachine("b", vmid+1))
		d.vms[0].attached = s.odds(2)
	}
	return d
}

func (s *story) drawMachine(name string, vmid int) *machine {
	m := &machine{name: name, vmid: vmid, node: "pve1", memory: 512,
		source: pick(s, []string{scratch, scratch, cloned, image}),
		label:  fmt.Sprint("vm-", name, vmid), disks: map[string]drive{}}
	m.disks["scsi0"] = drive{pick(s, s.place.storages), 3}
	if s.odds(2) {
		m.disks["scsi1"] = drive{pick(s, s.place.storages), 1}
	}
	m.power = pick(s, []string{"", "running", "stopped"})
	if s.place.ha && s.odds(2) {
		m.ha, m.power = "started", ""
	}
	m.removed = pick(s, []string{"", "destroy"})
	m.snapshot = s.odds(4)
	return m
}

func (m *machine) address() string { return "proxmox_vm." + m.name }

// hcl is the block of a machine, and of its snapshot.
func (m *machine) hcl(d *workdir) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	fmt.Fprintf(&b, "resource \"proxmox_vm\" %q {\n", m.name)
	line("vmid = %d", m.vmid)
	line("node = %q", m.node)
	line("name = %q", m.label)
	line("memory = { size = %d }", m.memory)
	line("networks = { net0 = { bridge = \"vmbr0\" } }")
	if m.source == cloned {
		line("clone = { vmid = 9000, full = true, storage = %q%s }", m.disks["scsi0"].storage,
			formatOn(m.disks["scsi0"].storage))
		line("protection = false")
	}
	line("disks = {")
	for _, slot := range slices.Sorted(maps.Keys(m.disks)) {
		disk := m.disks[slot]
		more := formatOn(disk.storage)
		if m.source == image && slot == "scsi0" {
			more += `, import_from = "local:import/disk.qcow2"`
		}
		line("  %s = { storage = %q, size = \"%dG\"%s }", slot, disk.storage, disk.size, more)
	}
	if m.attached && d.disk != nil {
		line("  scsi5 = { imported_disk = { volume = proxmox_disk.data.volume } }")
	}
	line("}")
	for _, attribute := range [][2]string{
		{"description", m.description}, {"power_state", m.power}, {"removed_disks", m.removed},
	} {
		if attribute[1] != "" {
			line("%s = %q", attribute[0], attribute[1])
		}
	}
	if m.tags != "" {
		line("tags = [%q]", m.tags)
	}
	if m.ha != "" {
		line("ha = { state = %q }", m.ha)
	}
	if m.powerOff != "" {
		line("on_destroy = { power_off = %q }", m.powerOff)
	}
	b.WriteString("}\n")
	if m.snapshot {
		fmt.Fprintf(&b, "resource \"proxmox_vm_snapshot\" %q {\n  vmid = proxmox_vm.%s.vmid\n  name = \"before\"\n}\n",
			m.name, m.name)
	}
	return b.String()
}

// formatOn is the format of an image on a storage of files, with which snapshots can be taken.
func formatOn(storage string) string {
	if storage == "local" || storage == "shared-nfs" {
		return `, format = "qcow2"`
	}
	return ""
}

// configure gives the session its configuration; only some machines where names are given.
func (s *story) configure(d *workdir, only ...string) {
	text := ""
	if d.disk != nil {
		text = fmt.Sprintf("resource \"proxmox_disk\" \"data\" {\n  node = \"pve1\"\n  vmid = 300\n"+
			"  storage = %q\n  size = \"%dG\"\n}\n",
			d.disk.storage, d.disk.size)
	}
	for _, m := range d.vms {
		if len(only) == 0 || slices.Contains(only, m.name) {
			text += m.hcl(d)
		}
	}
	if d.empty {
		text = ""
	}
	s.w.Reconfigure(s.T, d.session, s.id, text)
}
