package action

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/action"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/service"
)

// TestNoActionOnDisksOfOthers: HA has recovered a VM from its node, and the refresh has found its disks astray. The plan
// starts and rolls back nothing; that of a shutdown is content, and all are where the refresh finds the VM back.
func TestNoActionOnDisksOfOthers(t *testing.T) {
	sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	change := func(f func(*state.World)) {
		w := sim.World()
		w.Lock()
		defer w.Unlock()
		f(w)
	}
	change(func(w *state.World) {
		w.Guests[500] = &state.Guest{VMID: 500, Type: "qemu", Node: "pve2",
			Config: map[string]string{"scsi0": "local-zfs:vm-500-disk-0,size=1G"}}
		w.HA["vm:500"] = &state.HAResource{SID: "vm:500", State: "ignored"}
		for _, node := range []string{"pve1", "pve2"} {
			w.Put(&state.Volume{Storage: "local-zfs", Node: node, Name: "vm-500-disk-0", VMID: 500, Content: "images",
				Format: "raw", Size: 1 << 30})
		}
	})
	here := clock.Client{Cluster: sim.World().Clock}
	api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(),
		DialTLSContext: sim.DialTLSContext, Clock: here, APIToken: sim.Credentials().Token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	session := &kit.Session{API: api.Reader(), VMs: service.New(api, nil, here)}
	power, rollback := &VMPower{}, &VMSnapshotRollback{}
	power.Session, rollback.Session = session, session
	check := func(a action.ActionWithModifyPlan, values map[string]any, refused bool) {
		t.Helper()
		values["vmid"] = 500
		var resp action.ModifyPlanResponse
		a.ModifyPlan(t.Context(), action.ModifyPlanRequest{Config: configOf(t, a, values)}, &resp)
		says := ""
		for _, d := range resp.Diagnostics {
			says += d.Summary() + ": " + d.Detail()
		}
		if strings.Contains(says, "may have disks of others") != refused || resp.Diagnostics.HasError() != refused {
			t.Errorf("%T %v: %s", a, values, says)
		}
	}
	for _, back := range []bool{false, true} {
		if back {
			change(func(w *state.World) { w.Guests[500].Node = "pve1" })
		}
		ref := guest.Ref{VMID: 500, Node: "pve1"}
		if _, _, err := session.VMs.Guests.Read(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"start", "reboot", "resume", "shutdown", "stop"} {
			check(power, map[string]any{"action": verb}, !back && verb != "shutdown" && verb != "stop")
		}
		check(rollback, map[string]any{"name": "first"}, !back)
	}
}
