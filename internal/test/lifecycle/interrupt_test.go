package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestInterrupt: Ctrl-C while the create's task runs is a failed step like any other.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"scratch": "/nodes/{node}/qemu", "clone": "/nodes/{node}/qemu/{vmid}/clone"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Clock: clock.Real{}, TaskTime: 300 * time.Millisecond})
			s := w.Session(t, rig.TokenSSH, map[string]string{"scratch": rig.ScratchVM, "clone": rig.CloneVM}[name])
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			stop := make(chan struct{})
			defer close(stop)
			go func() { // the user, who watches the server
				for tick := time.NewTicker(time.Millisecond); ; {
					select {
					case <-stop:
						tick.Stop()
						return
					case <-tick.C:
					}
					for _, op := range w.Sim.Ops() {
						if op.Method == http.MethodPost && op.Path == path {
							interrupt()
						}
					}
				}
			}()
			err := s.Run(ctx)
			if err == nil || ctx.Err() == nil {
				t.Fatalf("not interrupted: %v", err)
			}
			if len(s.Addresses()) != 0 {
				t.Errorf("in state: %v, after %v", s.Addresses(), err)
			}
			w.MustBeClean(t)
		})
	}
}

// TestManyAtOnce creates, refreshes and destroys several VMs with Terraform's usual parallelism and automatic ids.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenSSH, `resource "proxmox_vm" "many" {
  count = 12
  node  = count.index % 2 == 0 ? "pve1" : "pve2"
  name  = "many-${count.index}"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
}`)
	s.Parallelism = 10
	rig.Must(t, s.Converge(t.Context()))
	ids := map[string]bool{}
	for _, address := range s.Addresses() {
		ids[terraformtest.ShowValue(s.Attr(address, "id"))] = true
	}
	if len(ids) != 12 {
		t.Errorf("%d different ids: %s", len(ids), strings.Join(slices.Sorted(maps.Keys(ids)), ", "))
	}
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}

// TestOutageDuringALongClone: the API is away for half a minute while a clone goes on. The roll-back would await
// it, and destroy the finished VM.
func TestOutageDuringALongClone(t *testing.T) {
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenSSH, rig.CloneVM)
	w.Sim.SetTaskTime(time.Minute)
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/tasks/{upid}/status"}, Phase: fault.Before,
		Status: 595, Times: 10}})
	if err := s.Run(t.Context()); err != nil {
		t.Errorf("the clone is taken back: %v", err)
	}
}

// sentTwice lets a balancer send each first write of a VM twice, and give the second answer.
func sentTwice(t *testing.T, w *rig.World) {
	t.Helper()
	inner := &http.Transport{DialContext: w.Sim.DialTLSContext, DisableKeepAlives: true}
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		times := 1
		if r.Method == http.MethodPost && (strings.HasSuffix(r.URL.Path, "/qemu") || strings.HasSuffix(r.URL.Path, "/clone")) {
			times = 2
		}
		for i := range times {
			req, reqErr := http.NewRequestWithContext(r.Context(), r.Method,
				"http://pve1.pvesim.test:8006"+r.URL.RequestURI(), bytes.NewReader(body))
			req.Header = r.Header.Clone()
			answer, sendErr := inner.RoundTrip(req)
			if err = errors.Join(err, reqErr, sendErr); err != nil {
				t.Error(err)
				return
			}
			text, readErr := io.ReadAll(answer.Body)
			if err := errors.Join(readErr, answer.Body.Close()); err != nil {
				t.Error(err)
			}
			if i == times-1 {
				maps.Copy(rw.Header(), answer.Header)
				rw.WriteHeader(answer.StatusCode)
				if _, err := rw.Write(text); err != nil {
					t.Error(err)
				}
			}
		}
	}))
	t.Cleanup(front.Close)
	w.Adapt = func(o *provider.Options) {
		o.DialTLSContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, front.Listener.Addr().String())
		}
	}
}

// TestFirstWriteThatABalancerRepeats: PVE says "VM 100 already exists" of this create's own VM. The create goes on with
// it where PVE has written its mark, as here, where tasks take no time. Before that it is a collision
// (TestTwoProcessesRaceForAnID).
func TestFirstWriteThatABalancerRepeats(t *testing.T) {
	disks := "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	for name, config := range map[string]string{
		"scratch, automatic id": rig.VMBlock("name = \"x\"\nnode = \"pve1\"\n" + disks),
		"scratch, fixed id":     rig.NodeVMBlock(disks),
		"clone, automatic id":   rig.VMBlock("name = \"x\"\nnode = \"pve1\"\nclone = { vmid = 9000 }"),
		"clone, fixed id":       rig.NodeVMBlock("clone = { vmid = 9000 }"),
	} {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t)
			sentTwice(t, w)
			s := w.Session(t, rig.TokenSSH, config)
			before := len(w.Sim.World().Guests)
			if err := s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if made := len(w.Sim.World().Guests) - before; made != 1 {
				t.Errorf("%d VMs", made)
			}
		})
	}
}

// TestSourceOfACloneMovesDuringTheApply: a balancer moves a template before any request of the apply. It is looked for
// again.
func TestSourceOfACloneMovesDuringTheApply(t *testing.T) {
	source := "resource \"proxmox_vm\" \"src\" {\n  vmid = 300\n  nodes = [\"pve2\", \"pve3\"]\n  power_state = \"stopped\"\n" +
		"  disks = { scsi0 = { storage = \"shared-nfs\", size = \"1G\" } }\n}\n"
	clone := "resource \"proxmox_vm\" \"c\" {\n  vmid = 400\n  name = \"c\"\n  clone = { vmid = 300, full = true }\n}\n"
	for n := 1; n < 30; n++ {
		w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2", "pve3"}, Clock: rig.NewFastClock()})
		s := w.Session(t, rig.RootTicket, source)
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.RootTicket, source+clone)
		planned, err := s.Plan(t.Context())
		rig.Must(t, err)
		w.Sim.ResetOps()
		w.Sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Migrate, VMID: 300, Node: "pve3",
			Before: fault.Match{Seq: n}}})
		err = s.Apply(t.Context(), planned)
		reports := w.Sim.Reports()
		if err != nil {
			t.Errorf("moved before request %d: %v", n, err)
		}
		w.Close()
		if len(reports) == 0 {
			return
		}
	}
}
