// Package cluster has the routes about the cluster as a whole, its nodes, its pools and its jobs.
package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// CapabilityRoutes are what a node's QEMU can do, and the one key press that the API offers.
func CapabilityRoutes() engine.Routes {
	return engine.Routes{
		"GET /nodes/{node}/capabilities/qemu/migration": func(*engine.Request) (any, error) {
			return map[string]any{"has-dbus-vmstate": true}, nil // qemu-server API2/NodeCapabilities/Qemu/Migration.pm
		},
		"GET /nodes/{node}/capabilities/qemu":          engine.SubdirIndex("name", "cpu", "machines"),
		"GET /nodes/{node}/capabilities/qemu/machines": listMachines,
		"PUT /nodes/{node}/qemu/{vmid}/sendkey":        sendKey,
	}
}

// machineSteps are the minor versions of QEMU by its major ones, as far as it still has their machines: with PVE's
// revisions these are the 52 of 8.4.
var machineSteps = []struct {
	major  int
	minors []int
}{
	{2, []int{10, 11, 12}}, {3, []int{0, 1}}, {4, []int{0, 1, 2}}, {5, []int{0, 1, 2}}, {6, []int{0, 1, 2}},
	{7, []int{0, 1, 2}}, {8, []int{0, 1, 2}}, {9, []int{0, 1, 2}}, {10, []int{0, 1, 2}}, {11, []int{0, 1, 2}},
}

// revisionChanges say what PVE's revisions of a machine version brought (QemuServer/Machine.pm, PVE_MACHINE_VERSION).
var revisionChanges = map[string]string{
	"4.1+pve1": "Introduction of pveX versioning, no changes.",
	"4.1+pve2": "Increases the number of SCSI drives supported.",
	"9.2+pve1": "Disables S3/S4 power states by default.",
}

// listMachines is GET /nodes/{node}/capabilities/qemu/machines (qemu-server API2/Qemu/Machine.pm): what a guest can be
// pinned to, up to the release's QEMU, the last in the order of their ids first.
func listMachines(r *engine.Request) (any, error) {
	list := []any{}
	full := r.W.QEMUVersion()
	newest := full[:strings.LastIndexByte(full, '.')]
	add := func(version string) {
		for _, kind := range []string{"i440fx", "q35"} {
			row := map[string]any{"id": "pc-" + kind + "-" + version, "type": kind, "version": version}
			if text := revisionChanges[version]; text != "" {
				row["changes"] = text
			}
			list = append(list, row)
		}
	}
	for _, step := range machineSteps {
		for _, minor := range step.minors {
			version := fmt.Sprintf("%d.%d", step.major, minor)
			if release.Newer(version, newest) {
				continue
			}
			add(version)
			for n := 1; n <= state.MachineRevision(r.W, version); n++ {
				add(fmt.Sprintf("%s+pve%d", version, n))
			}
		}
	}
	slices.SortFunc(list, func(a, b any) int {
		x, _ := a.(map[string]any)["id"].(string)
		y, _ := b.(map[string]any)["id"].(string)
		return strings.Compare(y, x)
	})
	return list, nil
}

// sendKey presses a key in a running guest, which does nothing with it.
func sendKey(r *engine.Request) (any, error) {
	if _, err := guest.SkipLock(r); err != nil {
		return nil, err
	}
	return nil, power.CheckRunning(r)
}
