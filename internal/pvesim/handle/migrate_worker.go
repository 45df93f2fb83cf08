package handle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// migration is a worker that takes a guest to another node (qemu-server QemuMigrate.pm, guest-common AbstractMigrate.pm).
type migration struct {
	process
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

func (r *Request) migrateWorker(w *Worker, target string) error {
	lock := fmt.Sprintf("/var/lock/pve-manager/pve-migrate-%d", r.vmid())
	release, err := r.Server.Flock(r.W, r.node(), lock, false, LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	m := &migration{process: process{r, w}, target: target, began: r.W.Clock.Now()}
	if err := m.run(); err != nil {
		m.say("ERROR: migration aborted (duration %s): %s", m.duration(), text(err))
		return Die("migration aborted")
	}
	if m.errors {
		m.say("ERROR: migration finished with problems (duration %s)", m.duration())
		return Die("migration problems")
	}
	m.say("migration finished successfully (duration %s)", m.duration())
	return nil
}

func (m *migration) say(format string, args ...any) {
	m.logf("%s %s", m.W.Clock.Now().Format(time.DateTime), fmt.Sprintf(format, args...))
}

func (m *migration) duration() string {
	d := m.W.Clock.Now().Sub(m.began)
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// run is AbstractMigrate's order. What goes wrong before the copies are complete leaves the guest as it was; a running guest
// that does not arrive runs on here, and the task ends with "migration problems".
func (m *migration) run() error {
	release, err := m.worker.lockGuest(m.vmid(), false, LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	if m.g, err = m.guest(); err != nil {
		return err
	}
	if err := m.prepare(); err != nil {
		return err
	}
	m.say("starting migration of VM %d to node '%s' (%s)", m.g.VMID, m.target, m.W.Nodes[m.target].Address)
	m.g.SetLock("migrate", m.worker.Task.UPID)
	running := m.g.Running != nil
	err = m.scan()
	if err == nil {
		err = m.copyAll(func(v *movingVolume) bool { return !running || v.kind != "attached" })
	}
	if err == nil && !running {
		err = m.worker.Checkpoint()
	}
	if err != nil {
		m.say("ERROR: %s", text(err))
		m.say("aborting phase 1 - cleanup resources")
		m.giveUp()
		return err
	}
	if running {
		if err := m.live(); err != nil {
			m.errors = true
			m.say("ERROR: online migrate failure - %s", text(err))
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
	if err := checkLock(m.g); err != nil {
		return err
	}
	if err := m.mayMove(m.g, m.target); err != nil {
		return err
	}
	if job := m.W.ReplicationOf(m.g.VMID); job != nil && job.Target == m.target {
		m.job = job
	}
	if err := m.checkResources(); err != nil {
		return err
	}
	if m.g.Running != nil && subvalue(m.g.Config["vga"], "clipboard", false) == "vnc" {
		return Die("VMs with 'clipboard' set to 'vnc' are not live migratable!")
	}
	var err error
	if m.storage, err = parseStorageMap(m.Params["targetstorage"]); err != nil {
		return err
	}
	for _, u := range m.Server.volumesOf(m.g) {
		id, _, ok := state.SplitVolid(u.volid)
		if !ok {
			continue
		}
		if _, err := m.checkTarget(id, u.volid); err != nil {
			return err
		}
	}
	if !m.W.Nodes[m.target].Online {
		return Die("Can't connect to destination address using public key")
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
	return to, m.checkContent(t, volid, to)
}

func (m *migration) checkResources() error {
	local := m.Server.localResources(m.g)
	var blocking, standing []string
	for _, name := range local.names {
		if local.mapped[name] == nil {
			blocking = append(blocking, name)
		}
	}
	switch {
	case len(blocking) > 0 && !m.flag("force"):
		return Die("can't migrate VM which uses local devices: %s", strings.Join(blocking, ", "))
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
		return Die("can't migrate to '%s': missing mapped devices %s", m.target, strings.Join(missing, ", "))
	}
	if m.g.Running != nil && len(standing) > 0 {
		return Die("can't live migrate running VM which uses following mapped devices: %s", strings.Join(standing, ", "))
	}
	m.say("migrating VM which uses mapped local devices")
	return nil
}

// live starts the guest on the target, with new volumes for its attached disks, and moves its memory.
func (m *migration) live() error {
	m.say("starting VM %d on remote node '%s'", m.g.VMID, m.target)
	here := m.g.Node
	m.g.Node = m.target
	err := m.launch(m.g)
	m.g.Node = here
	if err != nil {
		m.say("[%s] %s", m.target, text(err))
		return Die("remote command failed with exit code 255")
	}
	if err := m.copyAll(func(v *movingVolume) bool { return v.kind == "attached" }); err != nil {
		return err
	}
	m.say("starting online/live migration on unix:/run/qemu-server/%d.migrate", m.g.VMID)
	if err := m.worker.Checkpoint(); err != nil {
		return err
	}
	if m.g.Running == nil {
		return Die("VM %d not running", m.g.VMID)
	}
	return nil
}

// giveUp takes the lock away and the copies with it.
func (m *migration) giveUp() {
	for _, v := range m.moving {
		if v.copy != nil && m.job == nil {
			m.cleanUp(m.target, []string{v.copy.Volid()})
		}
	}
	m.g.SetLock("", "")
}

// migratable are the types of storage that volumes can be sent from.
func migratable(typ string) bool {
	return slices.Contains([]string{"dir", "btrfs", "zfspool", "lvmthin", "lvm"}, typ)
}
