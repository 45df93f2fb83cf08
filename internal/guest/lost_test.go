package guest

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestLostAnswerKeepsAThirdPartysChange: the answer to a change is lost, with or without its effect. Before the request
// is sent again a third party changes the VM. The values that he has set stay, and a drive that he has detached is not
// attached again, since it may be another guest's by then. A change of something else does not keep ours from its end.
func TestLostAnswerKeepsAThirdPartysChange(t *testing.T) {
	const disk = "local-zfs:vm-400-disk-0,size=1G"
	for name, c := range map[string]struct {
		act           thirdparty.Act
		option, value string
		his           string // the value of the option that he has set
		ours          bool
	}{
		"the same name":        {act: thirdparty.Rename, option: "name", value: "ours", his: "his"},
		"the drive":            {act: thirdparty.Detach, option: "scsi0", value: disk + ",discard=on", his: ""},
		"another drive":        {act: thirdparty.Detach, option: "scsi1", value: "local-zfs:vm-400-disk-1,discard=on"},
		"another option":       {act: thirdparty.Describe, option: "name", value: "ours", ours: true},
		"a drive, ours is not": {act: thirdparty.Detach, option: "name", value: "ours", ours: true},
	} {
		for phase, status := range map[fault.Phase]int{fault.Before: 596, fault.After: 0} {
			t.Run(name+" "+string(phase), func(t *testing.T) {
				w := newWorld(t, map[string]string{"scsi0": disk, "scsi1": "local-zfs:vm-400-disk-1,size=1G",
					"boot": "order=scsi0"})
				v, _ := w.viewOf()
				read, err := v.Fresh(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT"}, Phase: phase, Status: status}})
				w.sim.SetThirdParties([]thirdparty.Order{{Act: c.act, VMID: theVM, Name: "his",
					Before: fault.Match{Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/pending"}}})
				w.sim.ResetOps()
				err = v.Apply(t.Context(), vm.Change{Set: map[string]string{c.option: c.value}}, read, nil)
				if done := w.sim.Reports(); len(done) != 1 || !done[0].Done {
					t.Fatalf("the third party has done nothing: %+v", done)
				}
				is, sent := w.configuration(), 0
				for _, op := range w.sim.Ops() {
					if op.Method == http.MethodPut {
						sent++
					}
				}
				switch {
				case c.ours && (err != nil || is[c.option] != c.value):
					t.Errorf("%s is %q: %v", c.option, is[c.option], err)
				case !c.ours && (!pve.IsKind(err, pve.DigestMismatch) || sent != 1):
					t.Errorf("sent %d times: %v", sent, err)
				case !c.ours && c.option != "scsi1" && is[c.option] != c.his:
					t.Errorf("%s is %q, he has set %q", c.option, is[c.option], c.his)
				}
			})
		}
	}
}

// TestRevertDropsWhatWasRead: a disk that is about to leave is to stay, with its place in the boot order. A third party
// changes the VM before the request, or after its answer was lost. A value of theirs that waits is not dropped, and a
// change of other options and drives is no reason to refuse.
func TestRevertDropsWhatWasRead(t *testing.T) {
	const disk = "local-zfs:vm-400-disk-1,size=1G"
	for name, c := range map[string]struct {
		set     func(*state.Guest)
		refused bool
	}{
		"another value":  {func(g *state.Guest) { g.Pending["scsi1"], g.Deletes = disk+",ssd=1", nil }, true},
		"another order":  {func(g *state.Guest) { g.Pending["boot"] = "order=scsi0;net0" }, true},
		"another drive":  {func(g *state.Guest) { g.Config["scsi0"] = "local-zfs:vm-400-disk-0,size=2G" }, false},
		"another option": {func(g *state.Guest) { g.Config["name"], g.Pending["cores"] = "theirs", "2" }, false},
	} {
		for lost, at := range map[fault.Phase][]string{"": {"GET", "/pending"}, fault.Before: {"PUT", "/config"}, fault.After: {"PUT", "/config"}} {
			t.Run(name+", lost "+string(lost), func(t *testing.T) {
				w := newWorld(t, map[string]string{"scsi0": "local-zfs:vm-400-disk-0,size=1G", "scsi1": disk, "boot": "order=scsi0;scsi1"})
				w.run(time.Hour)
				w.vm(func(g *state.Guest) {
					g.Pending, g.Deletes = map[string]string{"boot": "order=scsi0"}, map[string]int{"scsi1": 1}
				})
				var theirs, waits map[string]string
				w.once(at[0], at[1], func() {
					w.vm(func(g *state.Guest) {
						g.Pending = maps.Clone(g.Pending)
						if g.Pending == nil {
							g.Pending = map[string]string{}
						}
						c.set(g)
						theirs = maps.Clone(g.Pending)
					})
				})
				v, _ := w.viewOf()
				read, err := v.Fresh(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if lost != "" {
					w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT"}, Phase: lost, Status: 596}})
				}
				err = v.Revert(t.Context(), []string{"scsi1", "boot"}, read)
				w.vm(func(g *state.Guest) { waits = g.Pending })
				kept, dropped := maps.Equal(waits, theirs), waits["scsi1"]+waits["boot"] == ""
				if c.refused && (!kept || !pve.IsKind(err, pve.DigestMismatch)) || !c.refused && (!dropped || err != nil) {
					t.Errorf("%v waits, they have set %v: %v", waits, theirs, err)
				}
			})
		}
	}
}
