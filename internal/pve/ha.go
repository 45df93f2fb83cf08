package pve

import (
	"context"
	"net/http"
	"strconv"
)

// HAResource is a VM's entry in the HA configuration.
type HAResource struct {
	// SID is "vm:100"; State what is wanted: started, stopped, disabled, ignored.
	SID, State string
	// Group is empty from PVE 9 on.
	Group, Comment string
	// MaxRestart and MaxRelocate are HA's numbers of tries.
	MaxRestart, MaxRelocate int
	// Digest of the HA configuration.
	Digest string
}

type haResourceWire struct {
	SID         flexString `json:"sid"`
	State       flexString `json:"state"`
	Group       flexString `json:"group"`
	Comment     flexString `json:"comment"`
	MaxRestart  flexInt    `json:"max_restart"`
	MaxRelocate flexInt    `json:"max_relocate"`
	Digest      flexString `json:"digest"`
}

// haSID is HA's name of a VM.
func haSID(vmid int) string { return "vm:" + strconv.Itoa(vmid) }

const haPath = "/cluster/ha/resources"

func haOp(verb string, vmid int) string { return verb + " the HA resource " + haSID(vmid) }

// HAResource reads a VM's entry; without one it is NotFound. It needs Sys.Audit on /.
func (c *Client) HAResource(ctx context.Context, vmid int) (HAResource, error) {
	w, err := fetch[haResourceWire](ctx, c, haOp("read", vmid), haPath+"/"+haSID(vmid), nil)
	return HAResource{
		SID: string(w.SID), State: string(w.State), Group: string(w.Group), Comment: string(w.Comment),
		MaxRestart: int(w.MaxRestart), MaxRelocate: int(w.MaxRelocate), Digest: string(w.Digest),
	}, err
}

// CreateHAResource puts a VM under HA; p holds state, group, comment, max_restart, max_relocate. It needs Sys.Console on /.
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
	return c.change(ctx, haOp("delete", vmid), http.MethodDelete, haPath+"/"+haSID(vmid), nil)
}
