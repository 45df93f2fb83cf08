package pve

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// TestLawReadOnlyOperations: a request that may change something leaves the client only in an operation that may write.
func TestLawReadOnlyOperations(t *testing.T) {
	var sent atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent.Add(1)
		_, _ = w.Write([]byte(`{"data":null}`))
	}))
	defer server.Close()
	client := newClient(t, Config{Endpoint: server.URL, Insecure: true, APIToken: "root@pam!tf=6b0b5c1a"})
	for name, may := range map[string]bool{"read": false, "plan": false, "import": false, "list": false, "validate": false, "": false,
		"create": true, "update": true, "delete": true, "invoke": true} {
		ctx, operation := oplog.Begin(t.Context(), oplog.Config{Name: name, Type: "proxmox_vm"})
		sent.Store(0)
		err := client.QEMU("pve1", 100).UpdateConfig(ctx, Params{"cores": "2"})
		if (err == nil) != may || (sent.Load() > 0) != may {
			t.Errorf("%q: %v, and %d requests were sent", name, err, sent.Load())
		}
		if sum := operation.Close("ok"); (sum.Refused == "") != may {
			t.Errorf("%q: the summary says that it refused %q", name, sum.Refused)
		}
	}
	if err := client.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"cores": "2"}); err != nil {
		t.Errorf("without an operation: %v", err)
	}
}
