package pve

import (
	"context"
	"net/http"
	"strconv"
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

// HAResource reads a VM's entry; without one it is NotFound. It needs Sys.Audit on /.
func (c *Client) HAResource(ctx context.Context, vmid int) (HAResource, error) {
	w, err := fetch[map[string]flexString](ctx, c, haOp("read", vmid), haPath+"/"+haSID(vmid), nil)
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

// HAResources lists the service ids of the HA configuration, "vm:100" and "ct:101". It needs Sys.Audit on /.
func (c *Client) HAResources(ctx context.Context) ([]string, error) {
	wire, err := fetch[[]map[string]flexString](ctx, c, "list the HA resources", haPath, nil)
	if err != nil {
		return nil, err
	}
	sids := make([]string, 0, len(wire))
	for _, w := range wire {
		sids = append(sids, string(w["sid"]))
	}
	return sids, nil
}

// CreateHAResource puts a VM under HA; p holds its options. It needs Sys.Console on /.
func (c *Client) CreateHAResource(ctx context.Context, vmid int, p Params) error {
	all := Params{"sid": haSID(vmid)}
	for k, v := range p {
		all[k] = v
	}
	return c.change(ctx, haOp("create", vmid), http.MethodPost, haPath, all)
}

// UpdateHAResource changes a VM's entry; p["delete"] resets options.
func (c *Client) UpdateHAResource(ctx context.Context, vmid int, p Params) error {
	return c.change(ctx, haOp("update", vmid), http.MethodPut, haPath+"/"+haSID(vmid), p)
}

// DeleteHAResource takes a VM out of HA; the VM stays as it is.
func (c *Client) DeleteHAResource(ctx context.Context, vmid int) error {
	return c.DeleteHAEntry(ctx, haSID(vmid))
}
