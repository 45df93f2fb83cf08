package update

import (
	"errors"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// unbound are changes that end in a request which bears no digest, with what refuses it while a third party holds a
// lock.
func unbound() map[string]struct {
	path, lock string
	alter      func(*Request)
} {
	const locked, users = "VM is locked (backup)", "cfs-lock 'file-user_cfg' error: got lock request timeout"
	return map[string]struct {
		path, lock string
		alter      func(*Request)
	}{
		"pool":     {"/pools", users, func(r *Request) { r.Pool = "web" }},
		"migrate":  {"/nodes/{node}/qemu/{vmid}/migrate", locked, func(r *Request) { r.Node = "pve2" }},
		"template": {"/nodes/{node}/qemu/{vmid}/template", locked, func(r *Request) { r.Planned.Template = new(true) }},
		"cloud-init": {"/nodes/{node}/qemu/{vmid}/cloudinit", locked, func(r *Request) {
			r.Planned.CloudInit.User = new("root")
		}},
		"start": {"/nodes/{node}/qemu/{vmid}/status/start", locked, func(r *Request) { r.PowerState = guest.Running }},
	}
}

// refusedOnce has a request refused for a lock, and something done while that is waited for.
func (w *world) refusedOnce(path, lock string, meanwhile func()) {
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: path, Nth: 1}, Phase: fault.Before, Status: 500, Reason: lock}})
	w.clock.each = func() {
		if len(w.refused(path)) > 0 && meanwhile != nil {
			meanwhile()
			meanwhile = nil
		}
	}
}

// refused are the requests to a path.
func (w *world) refused(path string) []string {
	var all []string
	for _, write := range w.writes() {
		if strings.HasSuffix(write, " "+path) {
			all = append(all, write)
		}
	}
	return all
}

// TestLooksAgainAfterALock: a request that bears no digest is not sent again to another VM that got the id while a lock
// was waited for.
func TestLooksAgainAfterALock(t *testing.T) {
	for name, c := range unbound() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "ide2": "local-zfs:cloudinit", "ciuser": "ops"})
			if name == "cloud-init" {
				w.start()
			}
			r := w.request()
			c.alter(&r)
			w.refusedOnce(c.path, c.lock, w.becomeAnother)
			_, _, err := w.update(r)
			var another *guest.IdentityError
			if !errors.As(err, &another) || len(w.refused(c.path)) != 1 {
				t.Errorf("%v, sent %v", err, w.writes())
			}
		})
	}
}

// TestLooksAgainWhoUsesADisk: nor is one that takes a disk away from a guest which got it while a lock was waited for.
func TestLooksAgainWhoUsesADisk(t *testing.T) {
	cases := unbound()
	move := cases["migrate"]
	move.path, move.lock = "/nodes/{node}/qemu/{vmid}/move_disk",
		"can't lock file '/var/lock/qemu-server/lock-400.conf' - got timeout"
	move.alter = func(r *Request) {
		disk := r.Planned.Disks["scsi0"]
		disk.Storage = "local-lvm"
		r.Planned.Disks["scsi0"] = disk
	}
	cases["move"] = move
	for _, name := range []string{"migrate", "template", "move"} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t, pve.Params{"scsi0": "local-zfs:1"}), cases[name]
			r := w.request()
			c.alter(&r)
			w.sim.MarkThirdParties(theVM)
			w.refusedOnce(c.path, c.lock, func() { w.sim.ThirdParty(thirdparty.Order{Act: thirdparty.Attach, VMID: theVM}) })
			_, _, err := w.update(r)
			var taken *guard.InUseError
			if !errors.As(err, &taken) || len(w.refused(c.path)) != 1 {
				t.Errorf("%v, sent %v", err, w.writes())
			}
		})
	}
}

// TestLooksAgainAfterALostAnswer: a change whose answer was lost is sent again to the same VM only.
func TestLooksAgainAfterALostAnswer(t *testing.T) {
	for _, phase := range []fault.Phase{fault.Before, fault.After} {
		w := newWorld(t, nil)
		r := w.request()
		r.Planned.Description = new("new")
		rule := fault.Rule{Match: fault.Match{Method: "PUT", Nth: 1}, Phase: phase}
		if phase == fault.Before {
			rule.Status = 596
		}
		w.sim.SetFaults([]fault.Rule{rule})
		w.clock.each = func() {
			if w.sent("/config") > 0 {
				w.becomeAnother()
			}
		}
		_, _, err := w.update(r)
		var another *guest.IdentityError
		if !errors.As(err, &another) || w.sent("/config") != 1 {
			t.Errorf("%s: %v, sent %v", phase, err, w.writes())
		}
	}
}
