package file

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
)

// TestLostUploadIsFoundOnTheNodeThatTookIt: the answer to an upload is lost, and its task verifies the checksum for a
// minute, so that no file is listed. PVE does the work of an upload on the node that takes the request, whichever node the
// file is for (pve-storage API2/Storage/Status.pm upload has no proxyto). The create finds the task there and awaits it;
// it said that nothing was left, and the file came afterwards.
func TestLostUploadIsFoundOnTheNodeThatTookIt(t *testing.T) {
	for _, node := range []string{"pve1", "pve2"} {
		synctest.Test(t, func(t *testing.T) { uploadsAndLosesTheAnswer(t, node) })
	}
}

func uploadsAndLosesTheAnswer(t *testing.T, node string) {
	t.Cleanup(func() { time.Sleep(time.Minute) }) // until idle connections have ended
	sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1", "pve2"}, TaskTime: 4 * time.Minute, Clock: clock.Real{},
		Latency: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	source := Of("disc", []byte("an image of some bytes"))
	spec := Spec{Node: node, Storage: "local", Content: ISO, Source: source, Checksum: source.Checksum}
	if spec.Name, err = Name(spec.Content, "disc.iso", source.Checksum); err != nil {
		t.Fatal(err)
	}
	api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), DialTLSContext: sim.DialTLSContext,
		APIToken: sim.Credentials().Token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost}, Phase: fault.After}})
	jobs := request.New(api, nil)
	made, warnings, err := New(jobs, destroy.New(jobs, guest.New(jobs), nil).Guard, nil).Create(t.Context(), spec)
	w := sim.World()
	w.Lock()
	there := w.Volume(node, spec.Volume()) != nil
	w.Unlock()
	if err != nil || !there || made.Made || len(warnings) != 1 || sim.FaultsFired() != 1 {
		t.Errorf("for %s: there %t, made %t, %v, %v", node, there, made.Made, warnings, err)
	}
}
