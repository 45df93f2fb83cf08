package handle

import (
	"slices"
	"strings"
)

// capabilityRoutes are what a node's QEMU can do, and the one key press that the API offers.
func capabilityRoutes() Routes {
	return Routes{
		"GET /nodes/{node}/capabilities/qemu":          subdirIndex("name", "cpu", "machines"),
		"GET /nodes/{node}/capabilities/qemu/machines": listMachines,
		"PUT /nodes/{node}/qemu/{vmid}/sendkey":        sendKey,
	}
}

// listMachines is GET /nodes/{node}/capabilities/qemu/machines (qemu-server API2/Qemu/Machine.pm): the versions since 2.4 in
// steps that guests are pinned to; here those of the release's QEMU and of the first that is still supported.
func listMachines(r *Request) (any, error) {
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
func sendKey(r *Request) (any, error) {
	if _, err := r.skiplock(); err != nil {
		return nil, err
	}
	return nil, r.running()
}
