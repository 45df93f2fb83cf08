package transport

import (
	"testing"
	"time"
)

// TestIdleConnections: a read uses no connection that PVE is about to close, and a write none that was used before.
func TestIdleConnections(t *testing.T) {
	c := newTestConn(t)
	if c.reads.IdleConnTimeout >= 5*time.Second || !c.writes.DisableKeepAlives {
		t.Error("idle connections live longer than PVE lets them")
	}
}

func newTestConn(t *testing.T) *Conn {
	t.Helper()
	c, err := Open(Config{Endpoint: "https://pve", APIToken: "terraform@pve!prov=6b0b5c1a-1111-2222-3333-444455556666"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
