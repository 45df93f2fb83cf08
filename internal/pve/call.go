package pve

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
)

// answer lists every shape that the data of an answer is decoded into.
type answer interface {
	flexString | flexInt | guestConfigWire | guestStatusWire | nodeStatusWire | versionWire | taskStatusWire | logWire |
		agentWire | haResourceWire | poolWire | []poolWire | []pendingWire | []resourceWire | []nodeWire | []networkWire |
		[]storageWire | []volumeWire | []taskWire | map[string]map[string]flexBool
}

// fetch sends a read and decodes its data.
func fetch[T answer](ctx context.Context, c *Client, op, path string, p Params) (T, error) {
	return decode[T](ctx, c, &request{op: op, method: http.MethodGet, path: path, params: p})
}

// decode sends a request and decodes its data; null gives the zero value.
func decode[T answer](ctx context.Context, c *Client, r *request) (T, error) {
	var out T
	env, err := c.do(ctx, r)
	if err != nil || len(env.Data) == 0 {
		return out, err
	}
	if err := json.Unmarshal(env.Data, &out); err != nil {
		return out, c.badAnswer(r, http.StatusOK, err)
	}
	return out, nil
}

// change sends a write whose answer says nothing.
func (c *Client) change(ctx context.Context, op, method, path string, p Params) error {
	_, err := c.do(ctx, &request{op: op, method: method, path: path, params: p})
	return err
}

// start sends a write that PVE answers with the UPID of a task, or with null when there is nothing left to wait for.
func (c *Client) start(ctx context.Context, op, method, path string, p Params) (UPID, error) {
	r := &request{op: op, method: method, path: path, params: p}
	text, err := decode[flexString](ctx, c, r)
	if err != nil || text == "" {
		return "", err
	}
	upid, err := ParseUPID(string(text))
	if err != nil {
		return "", c.badAnswer(r, http.StatusOK, err)
	}
	return upid, nil
}

// guestPath is the API path of a VM.
func guestPath(node string, vmid int, rest string) string {
	return "/nodes/" + node + "/qemu/" + strconv.Itoa(vmid) + rest
}

// guestName is a VM in words, for errors.
func guestName(node string, vmid int) string {
	return "VM " + strconv.Itoa(vmid) + " on node " + node
}
