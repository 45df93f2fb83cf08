package pve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

// answer lists every shape that the data of an answer is decoded into.
type answer interface {
	flexInt | flexString | guestConfigWire | guestStatusWire | preconditionsWire | nodeStatusWire | versionWire |
		datacenterWire | idRangeWire | taskStatusWire | logWire |
		agentWire | poolWire | []poolWire | []pendingWire | []resourceWire | []nodeWire | []networkWire |
		[]storageWire | []volumeWire | volumeWire | []snapshotWire | []namedWire | []taskWire | map[string]map[string]flexBool |
		map[string]flexString | []map[string]flexString | importWire
}

// fetch sends a read and decodes its data.
func fetch[T answer](ctx context.Context, c *Client, op, path string, p Params) (T, error) {
	return read[T](ctx, c, &request{op: op, method: http.MethodGet, path: path, params: p})
}

// read sends a request and decodes its data. A read without data is an error: an empty listing would be taken for proof.
func read[T answer](ctx context.Context, c *Client, r *request) (T, error) {
	var out T
	env, err := c.do(ctx, r)
	if err != nil {
		return out, err
	}
	if len(env.Data) == 0 || string(env.Data) == "null" {
		return out, c.badAnswer(r, http.StatusOK, errors.New("it has no data"))
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

// start sends a write that PVE answers with the UPID of a task. Any other answer leaves open what was done.
func (c *Client) start(ctx context.Context, op, method, path string, p Params) (UPID, error) {
	upid, err := c.startOrFinish(ctx, op, method, path, p)
	if err == nil && upid == "" {
		err = c.badAnswer(&request{op: op, method: method, path: path}, http.StatusOK, errors.New("it names no task"))
	}
	return upid, err
}

// startOrFinish sends a write that PVE answers with the UPID of a task, or with null when it has ended well already.
func (c *Client) startOrFinish(ctx context.Context, op, method, path string, p Params) (UPID, error) {
	r := &request{op: op, method: method, path: path, params: p}
	env, err := c.do(ctx, r)
	if err != nil || len(env.Data) == 0 || string(env.Data) == "null" {
		return "", err
	}
	var text flexString
	if err := json.Unmarshal(env.Data, &text); err != nil {
		return "", c.badAnswer(r, http.StatusOK, err)
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
