package otlp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog/otlp"
)

// collector is a collector that keeps the spans it receives.
type collector struct {
	mu    sync.Mutex
	paths []string
	auth  []string
	all   []*tracepb.ResourceSpans
}

func collect(t *testing.T) (*collector, string) {
	t.Helper()
	c := &collector{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var sent tracepb.TracesData // the same bytes as an ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s: %v", r.Header.Get("Content-Type"), err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.paths, c.auth = append(c.paths, r.URL.Path), append(c.auth, r.Header.Get("Authorization"))
		c.all = append(c.all, sent.ResourceSpans...)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	return c, s.URL
}

func env(t *testing.T, variables map[string]string) func(string) string {
	t.Helper()
	for name, value := range variables {
		t.Setenv(name, value) // OpenTelemetry's own code reads some of these
	}
	return func(name string) string { return variables[name] }
}

// TestSpansReachTheCollector: the spans form a tree below the parent of the environment. They carry the credentials and
// the resource attributes of the environment.
func TestSpansReachTheCollector(t *testing.T) {
	c, url := collect(t)
	e, err := otlp.New(t.Context(), "1.2.3", env(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20abc",
		"OTEL_RESOURCE_ATTRIBUTES": "team=ops",
		"TRACEPARENT":              "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}))
	if err != nil || e == nil {
		t.Fatal(e, err)
	}
	ctx, o := oplog.Begin(t.Context(), oplog.Config{Name: "create", Type: "proxmox_vm", Tracer: e})
	o.About(101, "pve1")
	_, answered := oplog.Send(ctx, oplog.Request{Method: "POST", Path: "/nodes/pve1/qemu", Write: true,
		Server: "https://pve1:8006"})
	answered(500)
	o.Close("warning")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if len(c.all) != 1 || !slices.Equal(c.paths, []string{"/v1/traces"}) || !slices.Equal(c.auth, []string{"Bearer abc"}) {
		t.Fatalf("%v %v %v", c.paths, c.auth, c.all)
	}
	who := fmt.Sprint(c.all[0].Resource)
	for _, want := range []string{"terraform-provider-proxmox", "1.2.3", "team", "ops"} {
		if !strings.Contains(who, want) {
			t.Errorf("%s is not in the resource %s", want, who)
		}
	}
	spans := map[string]*tracepb.Span{}
	for _, s := range c.all[0].ScopeSpans[0].Spans {
		spans[s.Name] = s
	}
	root, post := spans["create proxmox_vm"], spans["POST /nodes/{node}/qemu"]
	if len(spans) != 2 || root == nil || post == nil {
		t.Fatalf("%v", spans)
	}
	if fmt.Sprintf("%x %x", root.TraceId, root.ParentSpanId) != "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331" ||
		!slices.Equal(post.ParentSpanId, root.SpanId) || root.Status.Code == tracepb.Status_STATUS_CODE_ERROR ||
		post.Status.Code != tracepb.Status_STATUS_CODE_ERROR || post.Kind != tracepb.Span_SPAN_KIND_CLIENT {
		t.Errorf("%v\n%v", root, post)
	}
	if about := fmt.Sprint(root.Attributes); !strings.Contains(about, "pve.vmid") || !strings.Contains(about, o.ID()) {
		t.Error(about)
	}
}

// TestNoCollector: without a collector there is no exporter. A protocol that the provider does not speak is an error.
func TestNoCollector(t *testing.T) {
	for _, variables := range []map[string]string{
		{}, {"OTEL_SERVICE_NAME": "x"}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces", "OTEL_TRACES_EXPORTER": "none"},
	} {
		e, err := otlp.New(t.Context(), "1", func(name string) string { return variables[name] })
		if e != nil || err != nil {
			t.Errorf("%v: %v %v", variables, e, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	e, err := otlp.New(t.Context(), "1", func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}[name]
	})
	if e != nil || err == nil || !strings.Contains(err.Error(), "http/protobuf only") {
		t.Errorf("%v %v", e, err)
	}
}
