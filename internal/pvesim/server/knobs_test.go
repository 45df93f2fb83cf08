package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestKnobsOverHTTP: a user of the program can cause every event that a Go test can.
func TestKnobsOverHTTP(t *testing.T) {
	g := newRig(t, nil)
	control := func(method, path, body string) reply {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, "http://sim/_sim"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return g.send(q)
	}
	turn := func(path, body string) {
		t.Helper()
		if r := control("POST", path, body); r.status != 200 {
			t.Errorf("%s %s: %d %s", path, body, r.status, r.text)
		}
	}
	g.steps([]step{{"", "POST", "/qemu/8000/status/start", "", "OK"}})
	turn("/hold", `{"vmid": 8000, "lock": "backup", "seconds": 5, "user": "backup@pve"}`)
	g.steps([]step{{"", "PUT", "/qemu/8000/config", "cores=2", "VM is locked (backup)"}})
	g.pass(5 * time.Second)
	turn("/hold", `{"vmid": 8000, "seconds": 3}`)
	if took := g.took(func() {
		g.steps([]step{{"", "PUT", "/qemu/8000/config", "cores=2",
			"OK"}})
	}); took != 3*time.Second {
		t.Errorf("the held file cost %v", took)
	}
	turn("/hold", `{"node": "pve1", "storage": "local-zfs", "seconds": 2}`)
	if took := g.took(func() {
		g.steps([]step{{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1",
			"OK"}})
	}); took != 2*time.Second {
		t.Errorf("the held storage cost %v", took)
	}
	turn("/hold", `{"vmid": 100, "lock": "snapshot"}`)
	g.pass(time.Hour)
	g.steps([]step{{"", "PUT", "/qemu/100/config", "cores=2", "VM is locked (snapshot)"}})
	turn("/end", `{"vmid": 8000}`)
	turn("/node", `{"node": "pve2", "state": "offline"}`)
	g.s.Do(func(w *state.World) {
		if w.Nodes["pve2"].Online {
			t.Error("pve2 is still there")
		}
	})
	turn("/node", `{"node": "pve2", "state": "online"}`)
	turn("/node", `{"node": "pve2", "state": "crashed", "seconds": 10}`)
	turn("/node", `{"node": "pve1", "state": "fenced"}`)
	var offs []state.PowerOff
	if r := control("GET", "/power", ""); json.Unmarshal([]byte(r.text), &offs) != nil || len(offs) != 1 ||
		offs[0].Kind != state.PowerDied {
		t.Errorf("power-offs: %s", r.text)
	}
	if r := control("GET", "/ha", ""); r.text != "[]" {
		t.Errorf("manager: %s", r.text)
	}
	for path, body := range map[string]string{
		"/hold": `{"vmid": 5}`, "/end": `{"vmid": 5}`, "/node": `{"node": "pve9", "state": "online"}`,
		"/node?": `{"node": "pve1", "state": "gone"}`,
		"/hold?": `{"storage": "nowhere"}`, "/end?": `{"vmids": 5}`,
	} {
		if r := control("POST", path, body); r.status != 400 {
			t.Errorf("%s %s: %d %s", path, body, r.status, r.text)
		}
	}
	if control("POST", "/reset", ""); control("GET", "/power", "").text != "[]" {
		t.Error("the count outlives a reset")
	}
}
