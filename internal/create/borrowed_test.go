package create

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestBorrowedDiskThatAnotherGuestHasGot: a new VM has the disk of a proxmox_disk. Its start, or its HA entry, waits for
// a lock, and an administrator attaches the disk to VM 8000 meanwhile. Two guests on one disk destroy what is on it, so
// the new one is not started.
func TestBorrowedDiskThatAnotherGuestHasGot(t *testing.T) {
	const lent = "local-zfs:vm-300-disk-0"
	for _, how := range []string{"/status/start", "/cluster/ha/resources"} {
		for _, taken := range []bool{true, false} {
			t.Run(how+map[bool]string{true: ", taken", false: ", free"}[taken], func(t *testing.T) {
				t.Parallel()
				b := benchOf(t, pvesim.Options{}, ticket)
				b.change(func(w *state.World) {
					w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-0", VMID: 300, Content: "images",
						Format: "raw", Size: 1 << 30})
					w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"protection": "1",
						"description": vm.HolderDescription(""), "scsi0": lent + ",backup=0,size=1G"}}
				})
				config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(),
					DialTLSContext: b.sim.DialTLSContext, Clock: b.jobs.Clock}
				ticket(&config, b.sim.Credentials())
				came, attached := false, error(nil)
				config.Trace = func(_ context.Context, _ string, fields map[string]string) {
					if came || fields["method"] != http.MethodPost || !strings.HasSuffix(fields["path"], how) {
						return
					}
					if came = true; taken {
						attached = b.api.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"scsi5": lent})
					}
				}
				rule := fault.Rule{Match: fault.Match{Method: http.MethodPost, Path: how}, Phase: fault.Before, Status: 500,
					Times: 2, Reason: "cfs-lock 'domain-ha' error: got lock request timeout"}
				r := onZFS()
				r.VMID, r.HA = 150, &guest.HA{}
				r.Spec.Disks = map[string]vm.Disk{"scsi1": {Storage: "local-zfs", Volume: lent}}
				if how == "/status/start" {
					rule.Phase, rule.Status, rule.Reason = fault.Task, 0, "VM is locked (backup)"
					rule.Match.Path = "/nodes/{node}/qemu/{vmid}/status/start"
					r.HA, r.Start = nil, true
				}
				creator := creatorWith(t, config)
				b.sim.SetFaults([]fault.Rule{rule})
				_, err := creator.Create(t.Context(), r)
				b.sim.Advance(time.Minute)
				var field *guest.FieldError
				refused := errors.As(err, &field) && field.Path == "disks.scsi1.imported_disk.volume"
				b.change(func(w *state.World) {
					g := w.Guests[150]
					runs := g != nil && g.Running != nil
					if !came || attached != nil || refused != taken || (err != nil) != taken || runs == taken || w.Guests[300].Config["scsi0"] == "" {
						t.Errorf("locked %t, attached %v: runs %t (HA %v): %v", came, attached, runs, w.HA["vm:150"], err)
					}
				})
			})
		}
	}
}

// copiesOf901 are the ways to copy VM 901, or its disk.
func copiesOf901() map[string]Request {
	imported := onZFS()
	imported.Spec.Disks = map[string]vm.Disk{"scsi0": {Storage: "local-zfs", ImportFrom: to("local-zfs:vm-901-disk-0")}}
	return map[string]Request{"clone by VMID": {Node: "pve1", Clone: &guest.Clone{VMID: 901}},
		"clone by name": {Node: "pve1", Clone: &guest.Clone{Name: "golden"}}, "import_from": imported}
}

// describe901 makes VM 901 with a description, or gives it another one.
func (b bench) describe901(description string) {
	b.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-901-disk-0", VMID: 901, Content: "images", Format: "raw", Size: 1 << 30})
		w.Guests[901] = &state.Guest{VMID: 901, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "golden", "memory": "512",
			"scsi0": "local-zfs:vm-901-disk-0,size=1G", "smbios1": "uuid=11111111-2222-3333-4444-000000000901",
			"meta": "creation-qemu=9.2.0,ctime=1", "description": description}}
	})
}

// TestNothingIsCopiedOfAnUnfinishedVM: a VM that another run is still making is copied when it is committed, however long the create's own
// time lets it wait. One that no run will commit is refused, before anything is made, with its transaction and a way out. A mark that
// was copied from another VM says nothing.
func TestNothingIsCopiedOfAnUnfinishedVM(t *testing.T) {
	const lives, dead, elsewhere, damaged = "lives", "dead", "elsewhere", "damaged"
	for what, c := range map[string]struct {
		run     string
		kept    bool
		vmid    int           // in its mark; 0: its own
		commits time.Duration // after which the mark is gone; 0: never
		says    string
	}{
		"its run commits in time":        {run: lives, commits: 3 * time.Minute},
		"its run takes too long":         {run: lives, says: "A run is at work on it"},
		"its run is dead":                {run: dead, says: "No run is at work on it"},
		"it was kept":                    {run: lives, kept: true, says: "on_failure = \"keep\" keeps it"},
		"its run elsewhere commits":      {run: elsewhere, commits: time.Minute},
		"its run elsewhere is dead":      {run: elsewhere, says: "No run is at work on it"},
		"its mark is damaged":            {run: damaged, says: "another release wrote it"},
		"it is a copy of another VM":     {run: lives, vmid: 902},
		"it was committed since a plan":  {run: dead, commits: time.Nanosecond},
		"the plan read it half a minute": {run: lives, commits: 30 * time.Second},
	} {
		for how, r := range copiesOf901() {
			t.Run(what+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
					process := map[string]func() string{lives: func() string { return processOf(t, b.Creator, living(t).Process.Pid) },
						dead:      func() string { return deadProcess(t, b.Creator) },
						elsewhere: func() string { return "host 0123456789abcdef pid:[1] 7 7" }, damaged: func() string { return "" }}[c.run]()
					mark := b.markOf(cmp.Or(c.vmid, 901), Request{}, process)
					mark.Kept = c.kept
					mark = b.guests.Sign(mark)
					text := mark.String()
					if c.run == damaged {
						text += "\nours"
					}
					b.describe901(text)
					if _, err := b.guests.SourceConfig(t.Context(), "pve1", 901); err != nil { // as the plan does
						t.Fatal(err)
					}
					if c.commits > 0 {
						time.AfterFunc(c.commits, func() { b.describe901("golden") })
					}
					time.Sleep(time.Second)
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
					defer cancel()
					before := len(b.vms())
					created, err := b.Create(ctx, r)
					if c.says == "" {
						if err != nil || created.Guest.VMID == 0 {
							t.Errorf("%v", err)
						}
						return
					}
					var refused *guest.FieldError
					if !errors.As(err, &refused) || len(b.vms()) != before {
						t.Fatalf("%v; there are %d VMs after %d", err, len(b.vms()), before)
					}
					for _, part := range []string{c.says, "VM 901 (golden) on node pve1 cannot be", "before it is finished"} {
						if !strings.Contains(err.Error(), part) {
							t.Errorf("%q lacks %q", err, part)
						}
					}
					if c.run != damaged && (!strings.Contains(err.Error(), mark.Saga) || !strings.Contains(err.Error(), "`terraform apply`")) {
						t.Errorf("%q names no transaction, or no command", err)
					}
				})
			})
		}
	}
}
