package update

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
)

// TestMoveAfterAIO: a disk of a running guest that gets another aio and another storage moves when the aio is in
// force. Where there is no restart to wait for it moves first, as any disk does.
func TestMoveAfterAIO(t *testing.T) {
	const path = "/nodes/{node}/qemu/{vmid}"
	const options, reboot, move = "PUT " + path + "/config", "POST " + path + "/status/reboot", "POST " + path +
		"/move_disk"
	cases := map[string]struct {
		running bool
		restart Restart
		aio     string
		want    []string
	}{
		"running":                  {running: true, aio: "native", want: []string{options, reboot, move}},
		"stopped":                  {aio: "native", want: []string{move, options}},
		"running, never restarted": {running: true, restart: RestartNever, aio: "native", want: []string{move, options}},
		"running, aio stays":       {running: true, want: []string{move}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "cores": "1"})
			if c.running {
				w.start()
			}
			r := w.request()
			disk := r.Planned.Disks["scsi0"]
			disk.Storage, r.Restart = "local-lvm", c.restart
			if c.aio != "" {
				disk.AIO = &c.aio
			}
			r.Planned.Disks["scsi0"] = disk
			if _, _, err := w.update(r); err != nil {
				t.Fatal(err)
			}
			if got := w.writes(); !slices.Equal(got, c.want) {
				t.Errorf("sent %v, want %v", got, c.want)
			}
			is := w.config()["scsi0"]
			if !strings.HasPrefix(is, "local-lvm:") || c.restart != RestartNever &&
				strings.Contains(is, "aio=native") != (c.aio != "") {
				t.Errorf("scsi0 is %s", is)
			}
		})
	}
}

// TestMoveWithIOUringSaysWhatHelps: PVE's refusal to move a disk with io_uring names the ways out.
func TestMoveWithIOUringSaysWhatHelps(t *testing.T) {
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1"})
	w.start()
	r := w.request()
	disk := r.Planned.Disks["scsi0"]
	disk.Storage = "local-lvm"
	r.Planned.Disks["scsi0"] = disk
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/move_disk"}, Phase: fault.Task,
		Reason: "storage migration failed: target storage is known to cause issues with aio=io_uring (used by " +
			"current drive)"}})
	_, _, err := w.update(r)
	if said := detailOf(err); !strings.Contains(said, `aio = "native"`) || !strings.Contains(said, "power_state") {
		t.Errorf("says %q of %v", said, err)
	}
}
