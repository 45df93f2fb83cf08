package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/ha"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty/act"
)

// command is the body of the controls that let something happen to the cluster. Which members count depends on the
// control.
type command struct {
	VMID    int     `json:"vmid"`
	Lock    string  `json:"lock"`
	User    string  `json:"user"`
	Node    string  `json:"node"`
	Storage string  `json:"storage"`
	State   string  `json:"state"`
	Seconds float64 `json:"seconds"`
	// Firewall makes a hold one of the lock of the guest's firewall file.
	Firewall bool `json:"firewall"`
}

// change is POST /_sim/hold, /_sim/end and /_sim/node.
func change(e *engine.Engine, path string, body []byte) (any, error) {
	var k command
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&k); err != nil {
		return nil, err
	}
	var guest, storage, node bool
	e.Do(func(w *state.World) {
		guest, storage, node = w.Guests[k.VMID] != nil, w.Storages[k.Storage] != nil, w.Nodes[k.Node] != nil
	})
	d := time.Duration(k.Seconds * float64(time.Second))
	switch {
	case path == "/hold" && k.Storage != "":
		if !storage {
			return nil, fmt.Errorf("no storage %q", k.Storage)
		}
		act.HoldStorage(e, k.Node, k.Storage, d)
	case path == "/hold" && k.Firewall:
		act.HoldFirewall(e, k.VMID, d)
	case path == "/node":
		return changeNode(e, k, node)
	case !guest:
		return nil, fmt.Errorf("no guest %d", k.VMID)
	case path == "/end":
		ha.EndGuest(e, k.VMID)
	case k.Lock == "":
		act.HoldFile(e, k.VMID, d)
	case k.Seconds == 0:
		act.StaleLock(e, k.VMID, k.Lock, k.User)
	default:
		return map[string]any{"upid": act.HoldLock(e, k.VMID, k.Lock, d, k.User)}, nil
	}
	return map[string]any{"ok": true}, nil
}

func changeNode(e *engine.Engine, k command, exists bool) (any, error) {
	if !exists {
		return nil, fmt.Errorf("no node %q", k.Node)
	}
	e.Do(func(w *state.World) { w.Nodes[k.Node].Maintenance = k.State == "maintenance" })
	switch k.State {
	case "maintenance": // its guests that HA does not know stay where they are
	case "online", "offline":
		ha.SetNode(e, k.Node, k.State == "online")
	case "crashed":
		e.Do(func(*state.World) { e.Crash(k.Node, time.Duration(k.Seconds*float64(time.Second))) })
	case "fenced":
		ha.Fence(e, k.Node)
	default:
		return nil, fmt.Errorf("state %q is not one of online, offline, crashed, fenced, maintenance", k.State)
	}
	return map[string]any{"ok": true}, nil
}
