package handle

import (
	"maps"
	"strconv"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
)

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
	// Came and Left are when the request came and when it was answered, on the cluster's clock; Left is zero while it runs.
	Came, Left time.Time `json:"-"`
}

// begin numbers an operation, lets strangers come before it, and finds the faults that it meets.
func (s *Server) begin(method, path string, params map[string]string, node string) (*Op, fault.Strikes) {
	op := &Op{Seq: len(s.ops) + 1, Method: method, Path: path, Params: redacted(params), Node: params["node"], Came: s.world.Clock.Now()}
	if op.Node == "" && method == "SSH" {
		op.Node = node
	}
	ids := subjects(path, params)
	if len(ids) > 0 {
		op.VMID = ids[0]
	}
	s.ops = append(s.ops, op)
	seen := fault.Operation{Seq: op.Seq, Method: method, Path: path, VMIDs: ids}
	for _, order := range s.strangers.Due(seen) {
		s.visit(order, seen, params)
	}
	return op, s.faults.Strike(seen)
}

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
