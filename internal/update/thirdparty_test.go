package update

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// changesAmongThirdParties are updates of VM 400 that write in every way there is.
func changesAmongThirdParties() map[string]func(*Request) {
	disk := func(r *Request, slot string, alter func(*vm.Disk)) {
		disks := map[string]vm.Disk{}
		for name, d := range r.Planned.Disks {
			if name == slot {
				alter(&d)
			}
			disks[name] = d
		}
		r.Planned.Disks = disks
	}
	rule := func(port string) firewall.Rule {
		return firewall.Rule{Type: new("in"), Action: new("ACCEPT"), Proto: new("tcp"), DPort: new(port)}
	}
	return map[string]func(*Request){
		"grow": func(r *Request) {
			disk(r, "scsi0", func(d *vm.Disk) { d.Size = new(int64(6 << 30)) })
			disk(r, "scsi1", func(d *vm.Disk) { d.Size = new(int64(3 << 30)) })
		},
		"move":    func(r *Request) { disk(r, "scsi0", func(d *vm.Disk) { d.Storage = "local-lvm" }) },
		"options": func(r *Request) { r.Planned.Name, r.Planned.CPU.Cores = new("renamed"), new(int64(2)) },
		"boot order": func(r *Request) {
			r.Planned.CDROMs, r.BootOrder = map[string]vm.CDROM{"ide0": {File: "none"}}, []string{"scsi1"}
		},
		"pool and start": func(r *Request) { r.Pool, r.PowerState = "web", guest.Running },
		"firewall and start": func(r *Request) {
			r.PriorFirewall = &firewall.Settings{Enabled: new(true), Rules: []firewall.Rule{rule("22")}}
			r.Firewall = &firewall.Settings{Enabled: new(true), PolicyIn: new("DROP"),
				Rules: []firewall.Rule{rule("22"), rule("80"), rule("443")}}
			r.PowerState = guest.Running
		},
		"cloud-init":                func(r *Request) { r.Planned.CloudInit.User = new("root") },
		"move the cloud-init drive": func(r *Request) { r.Planned.CloudInit.Storage = "local-lvm" },
		"uuid and pool": func(r *Request) {
			r.Planned.SMBIOS.UUID, r.Pool = new("11111111-2222-3333-4444-555555555555"), "web"
		},
		"destroy a removed disk": func(r *Request) {
			disk(r, "scsi0", func(*vm.Disk) {})
			delete(r.Planned.Disks, "scsi0")
			r.DestroyRemoved = true
		},
		"force a restart": func(r *Request) {
			r.Planned.CPU.Type, r.Restart, r.StopTimeout = new("host"), RestartForcibly, 30*time.Second
		},
		"shut down, and migrate": func(r *Request) { r.PowerState, r.Node = guest.Stopped, "pve2" },
		"migrate":                func(r *Request) { r.Node = "pve2" },
		"become template":        func(r *Request) { r.Planned.Template = new(true) },
	}
}

// ofARunningGuest are those of the changes that are made while it runs. It does not obey when it is asked to restart.
func ofARunningGuest() []string {
	return []string{"cloud-init", "move the cloud-init drive", "force a restart", "shut down, and migrate"}
}

// takingVolumes are those of the changes that take a volume away under its name.
func takingVolumes() []string {
	return []string{"move", "migrate", "become template", "destroy a removed disk", "move the cloud-init drive",
		"shut down, and migrate"}
}

// amongThirdParties is a cluster with a stopped VM 400 that has disks and a firewall.
func amongThirdParties(t *testing.T) *world {
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "scsihw": "virtio-scsi-pci",
		"ide2": "local-zfs:cloudinit", "ciuser": "ops"})
	rule := pve.Params{"type": "in", "action": "ACCEPT", "proto": "tcp", "dport": "22", "enable": "1"}
	if err := w.api.Firewall("pve1", theVM).AddRule(t.Context(), rule); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Firewall("pve1", theVM).SetOptions(t.Context(), pve.Params{"enable": "1"}); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestNothingOfAThirdPartyChanges: before any request of an update the VM is deleted and a third party makes one under
// its id, or he attaches its first disk to a VM of his. Nothing of his is changed, unless he came between the last look
// and a request that takes no digest.
func TestNothingOfAThirdPartyChanges(t *testing.T) {
	for name, alter := range changesAmongThirdParties() {
		t.Run(name, func(t *testing.T) {
			w := amongThirdParties(t)
			if slices.Contains(ofARunningGuest(), name) {
				w.start()
			}
			if name == "force a restart" {
				w.ignoreShutdown()
			}
			base := w.sim.Snapshot()
			r := w.request()
			alter(&r)
			if _, _, err := w.update(r); err != nil {
				t.Fatal(err)
			}
			spots, played := w.sim.Ops(), 0
			for _, acts := range [][]thirdparty.Act{{thirdparty.Delete, thirdparty.TakeID},
				{thirdparty.Delete, thirdparty.MakeID}, {thirdparty.RestoreHis},
				{thirdparty.Attach}, {thirdparty.AttachContainer}} {
				if isAttaching(acts[0]) && !slices.Contains(takingVolumes(), name) {
					continue // the disk stays, or grows, and is ours
				}
				for n, spot := range spots {
					w.again(base, acts, fault.Match{Seq: n + 1})
					_, _, err := w.update(r)
					reports := w.sim.Reports()
					if len(reports) == 0 || !reports[len(reports)-1].Done {
						continue
					}
					played++
					last := reports[len(reports)-1]
					if !bytes.Equal(last.Is, w.sim.ThirdParties()) && !tooLate(w.sim.Ops(), last) {
						t.Errorf("%v before %s %s (%d): %v\n%s", acts, spot.Method, spot.Path, n+1, err, written(w.sim.Ops(), last))
					}
				}
			}
			if played < 6 {
				t.Errorf("only %d cases", played)
			}
		})
	}
}

// tooLate tells whether the look that would have shown a third party was the last before the request that did harm,
// and that request takes no digest: PVE has none that looks and acts at once.
func tooLate(ops []pvesim.Op, act thirdparty.Report) bool {
	looked := false
	for _, op := range ops {
		switch write := op.Method != http.MethodGet; {
		case op.Seq < act.Seq && write:
			looked = false
		case op.Seq < act.Seq && (strings.HasSuffix(op.Path, "/pending") || strings.HasSuffix(op.Path, "/config")):
			looked = true
		case op.Seq >= act.Seq && write:
			return looked && (isAttaching(act.Act) || !takesDigest(op.Path))
		}
	}
	return false
}

// isAttaching tells whether an act is about a disk of ours. Of that no digest tells.
func isAttaching(act thirdparty.Act) bool {
	return act == thirdparty.Attach || act == thirdparty.AttachContainer
}

// takesDigest tells whether PVE lets a request be bound to what was read, of the VM itself: not of who else uses its
// disks, nor to what stands in its firewall, which may be the same of another.
func takesDigest(path string) bool {
	return strings.HasSuffix(path, "/config") || strings.HasSuffix(path, "/resize") ||
		strings.HasSuffix(path, "/move_disk")
}

// written are the requests that change something, with the moment of the third party's act.
func written(ops []pvesim.Op, act thirdparty.Report) string {
	var all strings.Builder
	for _, op := range ops {
		if op.Method != http.MethodGet {
			fmt.Fprintf(&all, "  %d (he came before %d): %s %s %v: %d\n", op.Seq, act.Seq, op.Method, op.Path, op.Params,
				op.Status)
		}
	}
	return all.String()
}

// TestLeftFirewallIsNamed: a third party removes the VM right before a request about its firewall. PVE writes the file
// all the same, and a warning names it with the command that removes it. So it does where the node's pvestatd is silent,
// and the listing does not tell that the VM is gone.
func TestLeftFirewallIsNamed(t *testing.T) {
	for _, op := range []string{"PUT options", "POST rules", "GET options", "PUT options silent", "POST rules silent"} {
		method, last, _ := strings.Cut(op, " ")
		last, silent := strings.CutSuffix(last, " silent")
		w := newWorld(t, nil)
		nodes := w.sim.World()
		nodes.Lock()
		nodes.Nodes["pve1"].Silent = silent
		nodes.Unlock()
		w.sim.Advance(10 * time.Minute)
		r := w.request()
		r.Firewall = &firewall.Settings{Enabled: new(true), Rules: rules("22")}
		w.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Delete, VMID: theVM,
			Before: fault.Match{Method: method, Path: "/nodes/{node}/qemu/{vmid}/firewall/" + last}}})
		_, warnings, err := w.update(r)
		all := w.sim.World()
		all.Lock()
		left := all.Firewall[theVM] != nil
		all.Unlock()
		if err == nil || left != (method != "GET") {
			t.Errorf("%s: %v, and the file is left: %t", op, err, left)
		}
		named := slices.ContainsFunc(warnings, func(g guest.Warning) bool {
			return strings.Contains(g.Detail, "`grep -w -- 400 /etc/pve/.vmlist; [ $? = 1 ] && rm -f -- /etc/pve/firewall/400.fw`")
		})
		if named != left {
			t.Errorf("%s: named %t, left %t: %+v", op, named, left, warnings)
		}
	}
}

// again goes back to a snapshot, and has a third party act before a request.
func (w *world) again(base []byte, acts []thirdparty.Act, before fault.Match) {
	w.t.Helper()
	w.sim.SetThirdParties(nil)
	w.must(w.sim.Load(base))
	w.sim.MarkThirdParties(theVM)
	w.sim.ResetOps()
	w.order(acts, before)
}

// order has a third party act on the VM before a request.
func (w *world) order(acts []thirdparty.Act, before fault.Match) {
	var orders []thirdparty.Order
	for _, act := range acts {
		orders = append(orders, thirdparty.Order{Act: act, VMID: theVM, Before: before})
	}
	w.sim.SetThirdParties(orders)
}

// TestNothingIsSaidOfAVMThatIsGone: what a step that failed said is not true any more when a third party has taken the
// id since.
func TestNothingIsSaidOfAVMThatIsGone(t *testing.T) {
	for name, acts := range map[string][]thirdparty.Act{"taken": {thirdparty.Delete, thirdparty.TakeID},
		"gone": {thirdparty.Delete}} {
		w := newWorld(t, nil)
		r := w.request()
		r.Planned.Description = new("new")
		w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT"}, Phase: fault.Before, Status: 400,
			Reason: "the disk is in use"}})
		w.sim.MarkThirdParties(theVM)
		w.order(acts, fault.Match{Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/pending", Nth: 2})
		g, _, err := w.update(r)
		if err == nil || g.VMID != 0 || strings.Contains(err.Error(), "the disk is in use") || w.sim.FaultsFired() != 1 {
			t.Errorf("%s: VM %d: %v", name, g.VMID, err)
		}
	}
}
