// Package cluster has the routes about the cluster as a whole, its nodes, its pools and its jobs.
package cluster

import (
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
)

// CapabilityRoutes are what a node's QEMU can do, and the one key press that the API offers.
func CapabilityRoutes() engine.Routes {
	return engine.Routes{
		"GET /nodes/{node}/capabilities/qemu":          engine.SubdirIndex("name", "cpu", "machines"),
		"GET /nodes/{node}/capabilities/qemu/machines": listMachines,
		"PUT /nodes/{node}/qemu/{vmid}/sendkey":        sendKey,
	}
}

// listMachines is GET /nodes/{node}/capabilities/qemu/machines (qemu-server API2/Qemu/Machine.pm): the versions since
// 2.4 in steps that guests are pinned to; here those of the release's QEMU and of the first that is still supported.
func listMachines(r *engine.Request) (any, error) {
	list := []any{}
	full := r.W.QEMUVersion()
	newest := full[:strings.LastIndexByte(full, '.')]
	for _, kind := range []string{"i440fx", "q35"} {
		for _, version := range slices.Compact([]string{newest, "8.0", "6.0"}) {
			list = append(list, map[string]any{"id": "pc-" + kind + "-" + version, "type": kind, "version": version})
		}
	}
	return list, nil
}

// sendKey presses a key in a running guest, which does nothing with it.
func sendKey(r *engine.Request) (any, error) {
	if _, err := guest.SkipLock(r); err != nil {
		return nil, err
	}
	return nil, power.CheckRunning(r)
}
