package pve

import (
	"context"
	"net/http"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// HAResource is a VM's entry in the HA configuration.
type HAResource struct {
	// Options are those that the entry has: state (started, stopped, disabled, ignored), group (until PVE 8), comment,
	// max_restart, max_relocate, failback (from PVE 9 on); numbers and booleans in their text form.
	Options map[string]string
	// Digest of the HA configuration, which all entries share.
	Digest string
}

// haSID is HA's name of a VM.
func haSID(vmid int) string { return "vm:" + strconv.Itoa(vmid) }

const haPath = "/cluster/ha/resources"

func haOp(verb string, vmid int) string { return verb + " the HA resource " + haSID(vmid) }

// Resource reads a VM's entry; without one it is NotFound. It needs Sys.Audit on /.
func (h HAReader) Resource(ctx context.Context, vmid int) (HAResource, error) {
	w, err := fetch[map[string]wire.String](ctx, h.client, haOp("read", vmid), haPath+"/"+haSID(vmid), nil)
	if err != nil {
		return HAResource{}, err
	}
	entry := HAResource{Options: map[string]string{}, Digest: string(w["digest"])}
	for _, option := range []string{"state", "group", "comment", "max_restart", "max_relocate", "failback"} {
		if value, ok := w[option]; ok {
			entry.Options[option] = string(value)
		}
	}
	return entry, nil
}

// Resources lists the service ids of the HA configuration, "vm:100" and "ct:101". It needs Sys.Audit on /.
func (h HAReader) Resources(ctx context.Context) ([]string, error) {
	list, err := fetch[[]map[string]wire.String](ctx, h.client, "list the HA resources", haPath, nil)
	if err != nil {
		return nil, err
	}
	sids := make([]string, 0, len(list))
	for _, w := range list {
		sids = append(sids, string(w["sid"]))
	}
	return sids, nil
}

// Create puts a VM under HA; p holds its options. It needs Sys.Console on /.
func (h HAClient) Create(ctx context.Context, vmid int, p Params) error {
	all := Params{"sid": haSID(vmid)}
	for k, v := range p {
		all[k] = v
	}
	return h.client.change(ctx, haOp("create", vmid), http.MethodPost, haPath, all)
}

// Update changes a VM's entry; p["delete"] resets options.
func (h HAClient) Update(ctx context.Context, vmid int, p Params) error {
	return h.client.change(ctx, haOp("update", vmid), http.MethodPut, haPath+"/"+haSID(vmid), p)
}

// RemoveGuest takes a VM out of HA; the VM stays as it is.
func (h HAClient) RemoveGuest(ctx context.Context, vmid int) error {
	return h.RemoveEntry(ctx, haSID(vmid))
}
