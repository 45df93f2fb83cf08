package engine

import (
	"maps"
	"strconv"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// Faults are the fault rules in force.
func (e *Engine) Faults() *fault.Set { return &e.faults }

// Ops are the operations since the last reset, in order.
func (e *Engine) Ops() []Op { return e.OpsAfter(0) }

// OpsAfter are the operations with a greater number.
func (e *Engine) OpsAfter(seq int) []Op {
	e.World.Lock()
	defer e.World.Unlock()
	later := e.ops[min(seq, len(e.ops)):]
	list := make([]Op, 0, len(later))
	for _, op := range later {
		list = append(list, *op)
	}
	return list
}

// LastOp is the number of the last operation; 0 before the first.
func (e *Engine) LastOp() int {
	e.World.Lock()
	defer e.World.Unlock()
	return len(e.ops)
}

// ResetOps starts the numbering of operations again.
func (e *Engine) ResetOps() {
	e.World.Lock()
	defer e.World.Unlock()
	e.ops = nil
}

// Op is one request or SSH command, as it is numbered for tests and for fault rules.
type Op struct {
	Seq      int               `json:"seq"`
	Method   string            `json:"method"` // HTTP method, or "SSH"
	Path     string            `json:"path"`   // the API's template, or the command's words ("qm unlock")
	Params   map[string]string `json:"params,omitempty"`
	VMID     int               `json:"vmid,omitempty"`
	Status   int               `json:"status"` // HTTP status, or the command's exit status; 0 while it runs
	Node     string            `json:"node,omitempty"`
	Identity string            `json:"identity,omitempty"`
	// Came and Left are when the request came and when it was answered, on the cluster's clock; Left is zero while it
	// runs.
	Came, Left time.Time `json:"-"`
}

// Begin numbers an operation, lets third parties come before it, and finds the faults that it meets.
func (e *Engine) Begin(method, path string, params map[string]string, node string) (*Op, fault.Strikes) {
	op := &Op{Seq: len(e.ops) + 1, Method: method, Path: path, Params: redacted(params), Node: params["node"],
		Came: e.World.Clock.Now()}
	if op.Node == "" && method == "SSH" {
		op.Node = node
	}
	ids := subjects(path, params)
	if len(ids) > 0 {
		op.VMID = ids[0]
	}
	e.ops = append(e.ops, op)
	seen := fault.Operation{Seq: op.Seq, Method: method, Path: path, VMIDs: ids}
	for _, order := range e.thirdParties.Due(seen) {
		e.Config.Hooks.Act(e, order, seen, params)
	}
	return op, e.faults.Strike(seen)
}

// ThirdParties are the orders in force and what became of them.
func (e *Engine) ThirdParties() *thirdparty.Set { return &e.thirdParties }

// redacted leaves passwords out of what a test may print.
func redacted(params map[string]string) map[string]string {
	out := maps.Clone(params)
	for _, key := range []string{"password", "cipassword", "otp", "tfa-challenge"} {
		if _, ok := out[key]; ok {
			out[key] = "(" + strconv.Itoa(len(out[key])) + " characters)"
		}
	}
	return out
}
