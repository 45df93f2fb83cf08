// Package pve is a client for the HTTP API of Proxmox VE 8.0 to 9.x, in nouns: client.QEMU(node, vmid).Config(ctx).
//
// It knows PVE's API and nothing else: no Terraform, no idea of what a whole VM is. nouns.go lists the nouns, and a
// file per noun has its calls. Package transport sends the requests, package fault gives its errors a meaning,
// package task reads UPIDs and task logs, and package wire decodes Perl's JSON.
//
// A Reader has every call that changes nothing, and no other. The calls that destroy are in destroy.go.
package pve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/transport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// Client talks to one PVE cluster, in nouns: client.QEMU(node, vmid).Config(ctx). It is safe for concurrent use.
// Close it when done.
type Client struct {
	conn       *transport.Conn
	send       func(context.Context, *transport.Request) (transport.Answer, error)
	clock      Clock
	waits      taskWaits
	shared     sharedResources
	changes    guestChanges
	power      sharedPower
	versions   sharedVersions
	privileges sharedPrivileges
	datacenter sharedDatacenter
}

// New makes a Client and checks the configuration. It makes no request: a wrong password shows with the first call.
func New(cfg Config) (*Client, error) {
	conn, err := transport.Open(cfg)
	if err != nil {
		return nil, err
	}
	return &Client{
		conn:       conn,
		send:       conn.Do,
		clock:      conn.Clock(),
		waits:      taskWaits{nodes: map[string]*nodeWaits{}, took: map[string]time.Duration{}},
		shared:     sharedResources{turn: transport.NewTurn()},
		changes:    guestChanges{of: map[int]uint64{}},
		power:      sharedPower{nodes: map[string]*nodePower{}},
		versions:   sharedVersions{nodes: map[string]*sharedVersion{}},
		privileges: sharedPrivileges{turn: transport.NewTurn(), held: map[string]map[string]bool{}},
		datacenter: sharedDatacenter{turn: transport.NewTurn()},
	}, nil
}

// Endpoint is the URL that requests go to, without a trailing slash and without /api2/json.
func (c *Client) Endpoint() string { return c.conn.Endpoint() }

// Members are the cluster's nodes with the fingerprints of their certificates, as a Client with several endpoints has
// read them before its first request. nil: not known.
func (c *Client) Members() map[string]string { return transport.Members(c.conn) }

// Identity is the identity that the Client acts as.
func (c *Client) Identity() Identity { return c.conn.Identity() }

// Key derives a key for a purpose from the secret of the API token, which does not leave the Client. It is nil for an
// identity that logs in with a password.
func (c *Client) Key(purpose string) []byte { return c.conn.Key(purpose) }

// ServerTime is the server's clock, from the Date header of its latest answer; the zero time before the first answer.
// It is never ahead of the real one and up to about a second behind, so it is safe as the start of a search.
func (c *Client) ServerTime() time.Time { return c.conn.ServerTime() }

// Close lets go of idle connections. Requests still under way end on their own.
func (c *Client) Close() { c.conn.Close() }

// do sends a request and notes what it may have changed. Every error is an *Error.
func (c *Client) do(ctx context.Context, r *transport.Request) (transport.Answer, error) {
	if r.IsWrite() {
		// Before and after: a listing that was fetched meanwhile may show either state.
		c.noteWrite(leaves(r), changes(r))
		defer c.noteWrite(leaves(r), changes(r))
	}
	began := c.clock.Now()
	answer, err := c.send(ctx, r)
	if err == nil && !r.IsWrite() {
		c.waits.answered(c.clock.Now().Sub(began))
	}
	return answer, err
}

// answer lists every shape that the data of an answer is decoded into.
type answer interface {
	wire.Int | wire.String | guestConfigWire | guestStatusWire | preconditionsWire | nodeStatusWire | versionWire |
		datacenterWire | idRangeWire | taskStatusWire | logWire |
		agentWire | poolWire | []poolWire | userWire | []pendingWire | []resourceWire | []nodeWire | []networkWire |
		[]storageWire | []storageConfigWire | []volumeWire | volumeWire | []snapshotWire | []namedWire | []taskWire |
		[]backupJobWire | featureWire | []mappingWire |
		[]logEntryWire | []powerWire |
		map[string]map[string]wire.Bool |
		map[string]wire.String | []map[string]wire.String | []ruleWire | importWire | haRuleWire | []haRuleWire |
		urlMetadataWire
}

// fetch sends a read and decodes its data.
func fetch[T answer](ctx context.Context, c *Client, op, path string, p Params) (T, error) {
	return read[T](ctx, c, &transport.Request{Op: op, Method: http.MethodGet, Path: path, Params: p})
}

// read sends a request and decodes its data. A read without data is an error: an empty listing would be taken for
// proof.
func read[T answer](ctx context.Context, c *Client, r *transport.Request) (T, error) {
	var out T
	env, err := c.do(ctx, r)
	if err != nil {
		return out, err
	}
	if len(env.Data) == 0 || string(env.Data) == "null" {
		return out, c.conn.BadAnswer(r, http.StatusOK, errors.New("it has no data"))
	}
	if err := json.Unmarshal(env.Data, &out); err != nil {
		return out, c.conn.BadAnswer(r, http.StatusOK, err)
	}
	return out, nil
}

// change sends a write whose answer says nothing.
func (c *Client) change(ctx context.Context, op, method, path string, p Params) error {
	_, err := c.do(ctx, &transport.Request{Op: op, Method: method, Path: path, Params: p})
	return err
}

// start sends a write that PVE answers with the UPID of a task. Any other answer leaves open what was done.
func (c *Client) start(ctx context.Context, op, method, path string, p Params) (UPID, error) {
	upid, err := c.startOrFinish(ctx, op, method, path, p)
	if err == nil && upid == "" {
		err = c.conn.BadAnswer(&transport.Request{Op: op, Method: method, Path: path}, http.StatusOK,
			errors.New("it names no task"))
	}
	return upid, err
}

// startOrFinish sends a write that PVE answers with the UPID of a task, or with null when it has ended well already.
func (c *Client) startOrFinish(ctx context.Context, op, method, path string, p Params) (UPID, error) {
	r := &transport.Request{Op: op, Method: method, Path: path, Params: p}
	env, err := c.do(ctx, r)
	if err != nil || len(env.Data) == 0 || string(env.Data) == "null" {
		return "", err
	}
	var text wire.String
	if err := json.Unmarshal(env.Data, &text); err != nil {
		return "", c.conn.BadAnswer(r, http.StatusOK, err)
	}
	upid, err := ParseUPID(string(text))
	if err != nil {
		return "", c.conn.BadAnswer(r, http.StatusOK, err)
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
