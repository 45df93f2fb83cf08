package oplog_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestTracesOfAProcess: what a real provider did under a real CLI has reached the collector when the CLI is done, to the last operation,
// and the log has what its levels ask for.
func TestTracesOfAProcess(t *testing.T) {
	t.Parallel()
	tools := engine.NewKillTools(t)
	c := &collected{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	w := rig.NewWorld(t, pvesim.Options{RealNetwork: true})
	r := &engine.KillHost{Tools: tools, World: w, Dir: t.TempDir(), Env: engine.WithoutProviders(os.Environ())}
	log := filepath.Join(r.Dir, "proxmox.log")
	for name, value := range w.Environment() {
		r.Env = append(r.Env, name+"="+value)
	}
	r.Env = append(r.Env, "TF_CLI_CONFIG_FILE="+tools.Settings, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "TF_LOG_PATH="+log,
		"TF_LOG_PROVIDER=DEBUG", "TF_LOG_PROVIDER_PROXMOX_PVE=INFO", "TF_LOG_SDK=OFF",
		"TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	r.Configure(t, "data \"proxmox_version\" \"it\" {}\noutput \"release\" { value = data.proxmox_version.it.release }\n")
	text, err := r.Run(t, "apply", "-auto-approve")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	isRead := func(s *tracepb.Span) bool { return s.Name == "read data.proxmox_version" }
	i := slices.IndexFunc(c.spans, isRead)
	if i < 0 || string(c.spans[i].TraceId) != "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c" || len(c.below(c.spans[i].SpanId)) != 1 {
		t.Errorf("the read and its request are missing in %v", c.spans)
	}
	lines := rig.ReadFile(t, log)
	if !strings.Contains(lines, "Operation ended") || !strings.Contains(lines, "resource=data.proxmox_version") || strings.Contains(lines, "PVE request") {
		t.Error(lines)
	}
}
