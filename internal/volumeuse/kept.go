package volumeuse

import (
	"cmp"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// kept is what a Reader keeps of a guest. It never changes: a guest that is read again has another one.
type kept struct {
	Reading
	names   []naming
	place   uint64    // in the order, before it was read
	began   time.Time // when the read began
	changes uint64    // of this process, before it was read
}

// naming is a volume that a guest names.
type naming struct {
	part  string // the last part of its name
	where string // the option or the snapshot
	as    string // the name
}

// keep takes in what was read of a guest, all of it or only the volumes. Its configuration knows its name; a listing
// learns it late.
func keep(r Reading, all bool) *kept {
	config := r.Config.Current()
	r.Guest.Name = cmp.Or(config["name"], config["hostname"], r.Guest.Name)
	k := &kept{Reading: r}
	for _, e := range r.Config.Entries {
		k.note(e.Key, e.Value, e.Key)
		k.note(e.Key, e.Pending, e.Key+", pending")
	}
	for name, options := range r.Snapshots {
		for option, value := range options {
			k.note(option, value, "snapshot "+name)
		}
	}
	if !all && vm.HeldVolume(r.Guest.VMID, config) == "" {
		k.Config = pve.PendingConfig{Digest: r.Config.Digest}
		k.Snapshots = nil
	}
	return k
}

func (k *kept) note(option, value, where string) {
	for _, as := range namesIn(option, value) {
		as = strings.Clone(as) // not the whole option
		part := nameOf(as)
		if isNumbered(as) {
			part = numberedPart
		}
		k.names = append(k.names, naming{part: part, where: where, as: as})
	}
}

// differs reports whether a listing shows that something was done to a guest since it was read. A guest that is about
// to go is being switched off.
func (k *kept) differs(now pve.Resource, going bool) bool {
	was := k.Guest
	switch {
	case was.Node != now.Node, was.Type != now.Type, was.Template != now.Template, was.MaxDisk != now.MaxDisk,
		was.MaxMem != now.MaxMem, was.MaxCPU != now.MaxCPU, was.Tags != now.Tags, was.Pool != now.Pool:
		return true
	case going:
		return false
	}
	return was.Status != now.Status || now.Uptime < was.Uptime || isHeld(now) || isHeld(was)
}

// isHeld reports whether something is at work on a guest. One that is suspended to disk bears its lock for long.
func isHeld(g pve.Resource) bool { return g.Lock != "" && g.Lock != request.Suspended }
