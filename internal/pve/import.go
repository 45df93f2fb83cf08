package pve

import (
	"context"
	"encoding/json"
	"fmt"
)

// ImportMetadata is what PVE makes of a guest of another hypervisor: a machine on an ESXi host, or an appliance.
type ImportMetadata struct {
	// Options are those of a create, by PVE's names, without disks and network devices.
	Options map[string]string
	// Disks are the volumes to import by the slot for them.
	Disks map[string]ImportDisk
	// Networks are the sub-keys of the network devices by slot: model, macaddr.
	Networks map[string]map[string]string
	Warnings []ImportWarning
}

// ImportDisk is a volume to import, with its virtual size in bytes, 0 where PVE does not know it.
type ImportDisk struct {
	Volume string
	Size   int64
}

// ImportWarning is what an import loses or changes: Type is PVE's word for it, Key and Value what it is about, if anything.
type ImportWarning struct{ Type, Key, Value string }

type importWire struct {
	Options  map[string]flexString            `json:"create-args"`
	Disks    map[string]json.RawMessage       `json:"disks"`
	Networks map[string]map[string]flexString `json:"net"`
	Warnings []struct {
		Type  flexString `json:"type"`
		Key   flexString `json:"key"`
		Value flexString `json:"value"`
	} `json:"warnings"`
}

// ImportMetadata reads a machine on an ESXi host ("ha-datacenter/datastore1/web/web.vmx") or an appliance ("import/web.ova"); the volume
// is named without its storage (pve-storage API2/Storage/Status.pm get_import_metadata, ESXiPlugin.pm, GuestImport/OVF.pm).
func (c *Client) ImportMetadata(ctx context.Context, node, storage, volume string) (ImportMetadata, error) {
	op := "read the import metadata of " + storage + ":" + volume + " on node " + node
	wire, err := fetch[importWire](ctx, c, op, "/nodes/"+node+"/storage/"+storage+"/import-metadata", Params{"volume": volume})
	if err != nil {
		return ImportMetadata{}, err
	}
	m := ImportMetadata{Options: plainTexts(wire.Options), Disks: map[string]ImportDisk{}, Networks: map[string]map[string]string{}}
	for slot, raw := range wire.Disks {
		if raw[0] != '{' { // an EFI disk is a bare 1: its variables are made anew (ESXiPlugin.pm get_create_args)
			continue
		}
		var disk struct {
			Volume flexString `json:"volid"`
			Size   flexInt    `json:"size"`
		}
		if err := json.Unmarshal(raw, &disk); err != nil {
			return ImportMetadata{}, fmt.Errorf("%s: disk %s: %w", op, slot, err)
		}
		m.Disks[slot] = ImportDisk{Volume: string(disk.Volume), Size: int64(disk.Size)}
	}
	for slot, options := range wire.Networks {
		m.Networks[slot] = plainTexts(options)
	}
	for _, w := range wire.Warnings {
		m.Warnings = append(m.Warnings, ImportWarning{string(w.Type), string(w.Key), string(w.Value)})
	}
	return m, nil
}

// plainTexts leaves out what is not said: PVE has an empty text or null there.
func plainTexts(wire map[string]flexString) map[string]string {
	out := map[string]string{}
	for key, value := range wire {
		if value != "" {
			out[key] = string(value)
		}
	}
	return out
}
