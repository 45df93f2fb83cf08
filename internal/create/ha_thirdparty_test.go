package create

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestHAIsEnteredForOurVMOnly: a create waits for the lock on HA's configuration, and meanwhile a third party replaces the
// VM. HA's request names the id alone: his VM is not put under HA, which would start it.
func TestHAIsEnteredForOurVMOnly(t *testing.T) {
	b := benchOf(t, pvesim.Options{}, ticket)
	config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
		Clock: b.jobs.Clock}
	ticket(&config, b.sim.Credentials())
	came := false
	config.Trace = func(_ context.Context, _ string, fields map[string]string) {
		if fields["method"] != http.MethodPost || !strings.HasSuffix(fields["path"], "/cluster/ha/resources") || came {
			return
		}
		came = true
		b.change(func(w *state.World) {
			w.Guests[150].Config = map[string]string{"name": "his", "smbios1": "uuid=99999999-2222-3333-4444-555555555555"}
		})
	}
	b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/cluster/ha/resources"},
		Phase: fault.Before, Status: 500, Reason: "cfs-lock 'domain-ha' error: got lock request timeout"}})
	r := onZFS()
	r.VMID, r.HA = 150, &guest.HA{State: to("started")}
	_, err := creatorWith(t, config).Create(t.Context(), r)
	b.change(func(w *state.World) {
		if his := w.Guests[150]; !came || err == nil || w.HA["vm:150"] != nil || his == nil || his.Config["name"] != "his" {
			t.Errorf("a third party came: %t; %v; the entry of his VM is %v, his VM %+v", came, err, w.HA["vm:150"], his)
		}
	})
}
