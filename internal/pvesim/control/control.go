// Package control is the control plane below /_sim, with which tests steer the simulator.
package control

import (
	"bytes"
	"encoding/json"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty/act"
)

// Answer answers a request below /_sim.
func Answer(e *engine.Engine, method, path string, body []byte) (status int, reason string, answer []byte) {
	reply := func(v any, err error) (int, string, []byte) {
		if err != nil {
			return 400, err.Error(), nil
		}
		body, err := json.Marshal(v)
		if err != nil {
			return 500, err.Error(), nil
		}
		return 200, "OK", body
	}
	e.Do(func(*state.World) {}) // what time has brought
	done := map[string]any{"ok": true}
	switch method + " " + path {
	case "GET /snapshot":
		return 200, "OK", e.Snapshot()
	case "POST /state":
		return reply(done, e.Load(body))
	case "POST /reset":
		return reply(done, e.Reset())
	case "GET /ops":
		return reply(e.Ops(), nil)
	case "POST /hold", "POST /end", "POST /node":
		return reply(change(e, path, body))
	case "GET /power":
		return reply(PowerOffs(e), nil)
	case "GET /ha":
		return reply(ManagerLog(e), nil)
	case "GET /faults":
		return reply(e.Faults().List(), nil)
	case "PUT /faults":
		rules, err := fault.Read(body)
		if err != nil {
			return reply(nil, err)
		}
		return reply(done, e.Faults().Put(rules))
	case "PUT /strangers":
		orders, err := decoded[[]thirdparty.Order](body)
		if err != nil {
			return reply(nil, err)
		}
		return reply(done, e.ThirdParties().Put(orders))
	case "GET /strangers":
		return reply(append([]thirdparty.Report{}, e.ThirdParties().Reports()...), nil)
	case "POST /strangers":
		order, err := decoded[thirdparty.Order](body)
		if err != nil {
			return reply(nil, err)
		}
		return reply(act.Now(e, order))
	case "DELETE /faults":
		e.Faults().Clear()
		return reply(done, nil)
	}
	return 404, "no such control", nil
}

// decoded reads a document that must not have unknown members.
func decoded[T any](body []byte) (v T, err error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	err = dec.Decode(&v)
	return v, err
}

// PowerOffs are the power-offs and restarts of guests since the start, the last reset or the last ResetPowerOffs.
func PowerOffs(e *engine.Engine) []state.PowerOff {
	e.World.Lock()
	defer e.World.Unlock()
	return append([]state.PowerOff{}, e.World.PowerOffs...)
}

// ResetPowerOffs starts the count again.
func ResetPowerOffs(e *engine.Engine) {
	e.World.Lock()
	defer e.World.Unlock()
	e.World.PowerOffs = nil
}

// ManagerLog is what the HA manager said.
func ManagerLog(e *engine.Engine) []string {
	e.World.Lock()
	defer e.World.Unlock()
	return append([]string{}, e.World.HALog...)
}
