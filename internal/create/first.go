package create

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// committedLater are the options that only the commit may set: the stamp stands in for the description, and a VM with
// protection cannot be removed.
var committedLater = []string{"description", "protection", "template"}

// create claims the id with a new VM. Everything but description, protection and the sizes of imported disks is in it.
func (c *creation) create(ctx context.Context) error {
	c.cloudInit = c.r.Spec.CloudInit.Storage != ""
	if len(c.change.Problems) > 0 {
		return job.Problems("create", c.vmid, c.change)
	}
	params := pve.Params{}
	maps.Copy(params, c.change.Set)
	for _, option := range committedLater {
		delete(params, option)
	}
	params["vmid"], params["description"] = strconv.Itoa(c.vmid), c.mark()
	if c.r.ImportStorage != "" && c.change.Unpacks() {
		params["import-working-storage"] = c.r.ImportStorage
	}
	if c.r.Pool != "" {
		params["pool"] = c.r.Pool
	}
	return c.sendFirst(ctx, job.Request{Node: c.node, Type: "qmcreate", ID: c.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) { return c.sendCreate(ctx, params) }})
}

// sendCreate sends the request with a uuid of our own making, unless the configuration has one: PVE makes one only where smbios1 is
// not sent at all (qemu-server API2/Qemu.pm create_vm), and one that is known beforehand proves what became of a request whose
// answer is lost. An identity without VM.Config.HWType has to do without.
func (c *creation) sendCreate(ctx context.Context, params pve.Params) (pve.UPID, error) {
	if vm.UUID(params) != "" {
		return c.s.api.CreateVM(ctx, c.node, params)
	}
	return c.sendWithUUID(ctx, params, params["smbios1"])
}

// sendWithUUID sends it with a uuid of our own making in an SMBIOS table.
func (c *creation) sendWithUUID(ctx context.Context, params pve.Params, smbios string) (pve.UPID, error) {
	c.uuid = newUUID()
	with := maps.Clone(params)
	with["smbios1"] = uuidIn(smbios, c.uuid)
	upid, err := c.s.api.CreateVM(ctx, c.node, with)
	if params["smbios1"] == "" && pve.IsKind(err, pve.Denied) {
		c.uuid = ""
		return c.s.api.CreateVM(ctx, c.node, params)
	}
	return upid, err
}

// uuidIn is the SMBIOS table in an option, with another uuid.
func uuidIn(smbios, uuid string) string {
	fields := slices.DeleteFunc(strings.Split(smbios, ","), func(f string) bool { return f == "" || strings.HasPrefix(f, "uuid=") })
	return strings.Join(append([]string{"uuid=" + uuid}, fields...), ",")
}

// newUUID is a random one (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// owns reports whether a configuration without our stamp is ours: the commit may have taken effect.
func (c *creation) owns(config map[string]string) bool {
	return c.identity.Proves(config) || guest.Identity{UUID: c.uuid}.Proves(config)
}

// clone claims the id with a copy of the source.
func (c *creation) clone(ctx context.Context) error {
	params := c.from.cloneParams(c.vmid, c.r, c.node)
	params["description"] = c.mark()
	return c.sendFirst(ctx, job.Request{Node: c.from.node, Type: "qmclone", ID: c.from.vmid, Done: c.cloned,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return c.s.api.CloneVM(ctx, c.from.node, c.from.vmid, params)
		}})
}

// sendFirst sends the first write. An id that is taken already is a collision, never a success.
func (c *creation) sendFirst(ctx context.Context, j job.Request) error {
	since := c.s.api.ServerTime()
	send := j.Send
	j.Send = func(ctx context.Context) (pve.UPID, error) {
		upid, err := send(ctx)
		c.sent = !pve.IsKind(err, pve.Exists) // said at once, it was said before anything was done
		return upid, err
	}
	result, err := c.s.jobs.Once(ctx, &c.tasks, j)
	if c.held = pve.IsKind(err, pve.Locked); pve.Contended(err) {
		c.sent = false
	}
	if pve.IsKind(err, pve.Ambiguous) && len(c.tasks.UPIDs) == 0 {
		c.lost = &job.Lost{Request: j, Since: since, Patience: job.Patience(err)}
	}
	if err == nil && len(c.tasks.Guessed) > 0 {
		err = c.verify(ctx)
	}
	if pve.IsKind(err, pve.Exists) {
		c.taken = true
		err = &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VMID %d is taken", c.vmid),
			Detail: "Another VM or container has this id; it was not touched. Choose another vmid, or leave it out to get a free one", Err: err}
	}
	c.done = err == nil
	c.warn(fmt.Sprintf("Creation of VM %d ended with warnings", c.vmid), result)
	return err
}

// verify looks whose VM the task made that a search took for ours. Another process with the same identity may have
// created a VM under the same id while our own request was refused, or cloned the same source while it was lost.
func (c *creation) verify(ctx context.Context) error {
	var mine bool
	var err error
	if c.from != nil && c.from.vmid != 0 {
		mine, err = c.cloned(ctx)
	} else {
		var config pve.GuestConfig
		config, err = c.s.api.CurrentConfig(ctx, c.node, c.vmid)
		mine = err == nil && c.stamp.Proves(c.vmid, config.Values)
	}
	if err != nil {
		return fmt.Errorf("look what became of VM %d, since the answer to its create was lost: %w", c.vmid, err)
	}
	if mine {
		return nil
	}
	return &pve.Error{Op: fmt.Sprintf("create VM %d on node %s", c.vmid, c.node), Kind: pve.Exists,
		Message: "the answer was lost, and the VM that has the id now is not marked as this create's"}
}

// cloned awaits the end of a clone whose task is not known: several clones of one source are under way, and PVE lists
// their tasks under the source. Our stamp on the target tells which target is ours. A lock that no task holds is a dead
// worker's, and nothing comes of it any more.
func (c *creation) cloned(ctx context.Context) (bool, error) {
	dead := 0
	for attempt := 0; ; attempt++ {
		if err := c.s.jobs.Pause(ctx, attempt); err != nil {
			return false, err
		}
		config, err := c.s.api.CurrentConfig(ctx, c.from.node, c.vmid)
		if pve.IsKind(err, pve.NotFound) && c.node != c.from.node {
			config, err = c.s.api.CurrentConfig(ctx, c.node, c.vmid)
		}
		if err != nil {
			return false, err
		}
		if config.Values["lock"] == "" {
			return c.stamp.Proves(c.vmid, config.Values), nil
		}
		running, err := c.s.api.Tasks(ctx, c.from.node, pve.TaskFilter{VMID: c.from.vmid, Type: "qmclone", RunningOnly: true})
		if err == nil && len(running) == 0 {
			if dead++; dead > 1 {
				return false, nil
			}
		}
	}
}
