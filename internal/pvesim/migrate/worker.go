package migrate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// migration is a worker that takes a guest to another node (qemu-server QemuMigrate.pm, guest-common
// AbstractMigrate.pm).
type migration struct {
	engine.Process
	g       *state.Guest
	target  string
	storage storageMap
	moving  []*movingVolume
	job     *state.ReplicationJob // to the target; nil without one
	errors  bool
	began   time.Time
}

// movingVolume is a volume on no shared storage.
type movingVolume struct {
	*volumeUse
	source  *state.Volume
	storage string        // on the target
	copy    *state.Volume // there
	kind    string        // attached, generated, unused, snapshot, pending
}

// Run is the work of a migration task: it moves the guest of the request to the target node.
func Run(r *engine.Request, w *engine.Worker, target string) error {
	release, err := r.Engine.Flock(r.W, r.Node(), engine.MigrationLock(r.VMID()), false, engine.LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	m := &migration{Process: engine.Process{Request: r, Worker: w}, target: target, began: r.W.Clock.Now()}
	if err := m.run(); err != nil {
		m.say("ERROR: migration aborted (duration %s): %s", m.duration(), perl.Message(err))
		return perl.Die("migration aborted")
	}
	if m.errors {
		m.say("ERROR: migration finished with problems (duration %s)", m.duration())
		return perl.Die("migration problems")
	}
	m.say("migration finished successfully (duration %s)", m.duration())
	return nil
}

func (m *migration) say(format string, args ...any) {
	m.Logf("%s %s", m.W.Clock.Now().Format(time.DateTime), fmt.Sprintf(format, args...))
}

func (m *migration) duration() string {
	d := m.W.Clock.Now().Sub(m.began)
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// correctSizes writes the sizes of local disks into the slots that have them now, not into those that wait for them
// (qemu-server QemuMigrate.pm config_update_local_disksizes).
func (m *migration) correctSizes() {
	for _, v := range m.moving {
		for opt, value := range m.g.Config {
			if v.cdrom || !drive.IsDrive(opt) || drive.HasIndex(opt, "efidisk", "tpmstate") {
				continue
			}
			d, size := drive.Parse(m.Engine, opt, value), schema.FormatSize(v.source.Size)
			if d != nil && d.File() == v.volid && d["size"] != size {
				d["size"] = size
				m.g.Config[opt] = drive.Print(m.Engine, opt, d)
			}
		}
	}
}

// run is AbstractMigrate's order. A failure before the copies are complete leaves the guest as it was; a running
// guest that does not arrive runs on here, and the task ends with "migration problems".
func (m *migration) run() error {
	release, err := guest.LockInTask(m.Worker, m.VMID(), false, engine.LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	if m.g, err = guest.Load(m.Process.Request); err != nil {
		return err
	}
	if err := m.prepare(); err != nil {
		return err
	}
	m.say("starting migration of VM %d to node '%s' (%s)", m.g.VMID, m.target, m.W.Nodes[m.target].Address)
	m.g.SetLock("migrate", m.Worker.Task.UPID)
	running := m.g.Running != nil
	err = m.scan()
	if err == nil {
		m.correctSizes()
	}
	if err == nil {
		err = m.copyAll(func(v *movingVolume) bool { return !running || v.kind != "attached" })
	}
	if err == nil && !running {
		err = m.Worker.Checkpoint()
	}
	if err != nil {
		m.say("ERROR: %s", perl.Message(err))
		m.say("aborting phase 1 - cleanup resources")
		m.giveUp()
		return err
	}
	if running {
		if err := m.live(); err != nil {
			m.errors = true
			m.say("ERROR: online migrate failure - %s", perl.Message(err))
			m.say("aborting phase 2 - cleanup resources")
			m.say("migrate_cancel")
			m.giveUp()
			return nil
		}
	}
	m.arrive()
	return nil
}

// prepare is what is checked before the guest is locked.
func (m *migration) prepare() error {
	if err := guest.CheckLock(m.g); err != nil {
		return err
	}
	if err := mayMove(m.Process.Request, m.g, m.target); err != nil {
		return err
	}
	if job := state.ReplicationTo(m.W, m.g.VMID, m.target); job != nil {
		m.job = job
	}
	if err := m.checkResources(); err != nil {
		return err
	}
	if m.g.Running != nil && perl.Subvalue(m.g.Config["vga"], "clipboard", false) == "vnc" {
		return perl.Die("VMs with 'clipboard' set to 'vnc' are not live migratable!")
	}
	var err error
	if m.storage, err = parseStorageMap(m.Params["targetstorage"]); err != nil {
		return err
	}
	for _, u := range volumesOf(m.Engine, m.g) {
		id, _, ok := state.SplitVolid(u.volid)
		if !ok {
			continue
		}
		if _, err := m.checkTarget(id, u.volid); err != nil {
			return err
		}
	}
	if !m.W.Nodes[m.target].Online {
		return perl.Die("Can't connect to destination address using public key")
	}
	return nil
}

// checkTarget says which storage a volume goes to, if it may.
func (m *migration) checkTarget(id, volid string) (string, error) {
	s, err := m.W.StorageEnabled(m.g.Node, id)
	if err != nil {
		return "", err
	}
	to := id
	if !s.Shared {
		to = m.storage.target(id)
	}
	t, err := m.W.StorageEnabled(m.target, to)
	if err != nil {
		return "", err
	}
	return to, checkContent(m.Process.Request, t, volid, to)
}

func (m *migration) checkResources() error {
	local := localResources(m.Engine, m.g)
	var blocking, standing []string
	for _, name := range local.names {
		if local.mapped[name] == nil {
			blocking = append(blocking, name)
		}
	}
	switch {
	case len(blocking) > 0 && !m.Flag("force"):
		return perl.Die("can't migrate VM which uses local devices: %s", strings.Join(blocking, ", "))
	case len(blocking) > 0:
		m.say("migrating VM which uses local devices")
	}
	if len(local.mapped) == 0 {
		return nil
	}
	for _, opt := range local.mappedKeys() {
		if !local.mapped[opt].live {
			standing = append(standing, opt+":"+local.mapped[opt].name)
		}
	}
	if missing := local.missing(m.W, m.target); len(missing) > 0 {
		return perl.Die("can't migrate to '%s': missing mapped devices %s", m.target, strings.Join(missing, ", "))
	}
	if m.g.Running != nil && len(standing) > 0 {
		return perl.Die("can't live migrate running VM which uses following mapped devices: %s", strings.Join(standing, ", "))
	}
	m.say("migrating VM which uses mapped local devices")
	return nil
}

// live starts the guest on the target, with new volumes for its attached disks, and moves its memory. The volumes get
// the first free names in the order of their options (QemuServer.pm vm_migrate_alloc_nbd_disks), so two of them may
// change names.
func (m *migration) live() error {
	m.say("starting VM %d on remote node '%s'", m.g.VMID, m.target)
	here := m.g.Node
	m.g.Node = m.target
	err := power.Launch(m.Process, m.g)
	m.g.Node = here
	if err != nil {
		m.say("[%s] %s", m.target, perl.Message(err))
		return perl.Die("remote command failed with exit code 255")
	}
	slices.SortStableFunc(m.moving, func(a, b *movingVolume) int { return strings.Compare(a.drive, b.drive) })
	if err := m.copyAll(func(v *movingVolume) bool { return v.kind == "attached" }); err != nil {
		return err
	}
	m.say("starting online/live migration on unix:/run/qemu-server/%d.migrate", m.g.VMID)
	if err := m.Worker.Checkpoint(); err != nil {
		return err
	}
	if m.g.Running == nil {
		return perl.Die("VM %d not running", m.g.VMID)
	}
	return nil
}

// giveUp takes the lock away and the copies with it.
func (m *migration) giveUp() {
	for _, v := range m.moving {
		if v.copy != nil && m.job == nil {
			volume.CleanUp(m.Process, m.target, []string{v.copy.Volid()})
		}
	}
	m.g.SetLock("", "")
}

// migratable are the types of storage that volumes can be sent from.
func migratable(typ string) bool {
	return slices.Contains([]string{"dir", "btrfs", "zfspool", "lvmthin", "lvm"}, typ)
}
