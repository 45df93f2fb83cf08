package oplog_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	frameworkprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog/otlp"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// collected holds the spans that a collector of traces received.
type collected struct {
	mu    sync.Mutex
	raw   strings.Builder
	spans []*tracepb.Span
}

func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var sent tracepb.TracesData
	if err != nil || proto.Unmarshal(body, &sent) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(body)
	for _, of := range sent.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// below are the spans that are a part of one, in the order in which they began.
func (c *collected) below(parent []byte) []*tracepb.Span {
	var found []*tracepb.Span
	for _, s := range c.spans {
		if slices.Equal(s.ParentSpanId, parent) {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b *tracepb.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	return found
}

// tree writes the spans below a span, without requests that only read.
func (c *collected) tree(parent []byte, indent string) string {
	text := ""
	for _, s := range c.below(parent) {
		if strings.HasPrefix(s.Name, "GET ") {
			continue
		}
		failed := ""
		if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			failed = " (" + s.Status.Message + ")"
		}
		text += indent + s.Name + failed + "\n" + c.tree(s.SpanId, indent+"  ")
	}
	return text
}

// TestTraces: a collector gets the tree of an apply's operations, with a task's UPID, every request once, and no secret.
func TestTraces(t *testing.T) {
	c := &collected{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	traces, err := otlp.New(t.Context(), "test", func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL}[name]
	})
	rig.Must(t, err)
	w := rig.NewWorld(t)
	w.Serve = func(func() frameworkprovider.Provider) tfprotov6.ProviderServer {
		return provider.NewServer(provider.NewWith("test", provider.Options{Tracer: traces, Keeps: true,
			DialContext: w.Sim.DialContext, SSHDial: w.Sim.SSHDial, Clock: clock.Client{Cluster: w.Sim.World().Clock}}))()
	}
	config := `
resource "proxmox_vm" "x" {
  node  = "pve1"
  vmid  = 777
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
  cloud_init = { storage = "local-zfs", user = "ops" }
  cloud_init_password_wo         = "correct-horse-battery"
  cloud_init_password_wo_version = 1
  power_state = "running"
}`
	s := w.Session(t, rig.RootTicket, config)
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Task,
		Times: 1, Reason: "bad value correct-horse-battery"}})
	failed := s.Run(t.Context())
	if failed == nil || !strings.Contains(failed.Error(), "Operation ID: ") {
		t.Fatalf("the error names no operation: %v", failed)
	}
	rig.Must(t, s.Run(t.Context()))
	rig.Must(t, traces.Close())

	var roots []string
	requests := 0
	for _, top := range c.below(nil) {
		roots = append(roots, top.Name+"\n"+c.tree(top.SpanId, "  "))
	}
	for _, s := range c.spans {
		for _, a := range s.Attributes {
			if a.Key == "http.request.method" {
				requests++
			}
		}
	}
	whole := strings.Join(roots, "\n")
	const made = `create VM 777 on node pve1
    POST /nodes/{node}/qemu
    wait for task
`
	for _, want := range []string{made, "start VM 777 (failed)\n    POST /nodes/{node}/qemu/{vmid}/status/start\n    wait for task\n",
		"undo of create VM 777 on node pve1\n", "DELETE /nodes/{node}/qemu/{vmid}\n", "commit VM 777\n", "POST /access/ticket\n"} {
		if !strings.Contains(whole, want) {
			t.Errorf("%q is missing in the tree\n%s", want, whole)
		}
	}
	if seen := w.Sim.LastOp(); requests != seen {
		t.Errorf("%d requests were told, the server saw %d", requests, seen)
	}
	if !strings.Contains(fmt.Sprint(c.spans), "UPID:pve1:") {
		t.Error("no span has a task's UPID")
	}
	_, password, _ := strings.Cut(w.ProviderBlock(rig.RootTicket), "password = \"")
	password, _, _ = strings.Cut(password, "\"")
	for _, secret := range []string{"correct-horse-battery", password, "PVE:root@pam:", "bad value"} {
		if len(secret) < 4 || strings.Contains(c.raw.String(), secret) {
			t.Errorf("%q is told:\n%s", secret, around(c.raw.String(), secret))
		}
	}
}

func around(text, needle string) string {
	i := max(0, strings.Index(text, needle))
	return text[max(0, i-200):min(len(text), i+200)]
}
