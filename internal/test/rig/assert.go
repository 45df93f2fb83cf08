package rig

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// BudgetedRequests are the requests that the budget counts: all but logins, the version, polls of tasks, and the content listings,
// of which there is one per images storage of the node written to.
func BudgetedRequests(ops []pvesim.Op) []string {
	var all []string
	for _, op := range ops {
		switch {
		case op.Path == "/access/ticket", op.Path == "/version":
		case strings.HasPrefix(op.Path, "/nodes/{node}/tasks/{upid}"):
		case op.Path == "/nodes/{node}/storage/{storage}/content":
		default:
			all = append(all, op.Method+" "+op.Path)
		}
	}
	return all
}

// RequestsOf returns the budgeted requests of the calls of an RPC.
func RequestsOf(w *World, rpc string) []string {
	var all []string
	for _, call := range w.Calls() {
		if call.RPC == rpc {
			all = append(all, BudgetedRequests(call.Ops)...)
		}
	}
	return all
}

// MustSay checks that there is an error, and that it contains all words.
func MustSay(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q:\n%v", word, err)
		}
	}
}

// MustNotDropPower checks that guests were switched off in the named ways only.
func MustNotDropPower(t *testing.T, w *World, allowed ...state.PowerKind) {
	t.Helper()
	for _, off := range w.Sim.PowerOffs() {
		if !slices.Contains(allowed, off.Kind) {
			t.Errorf("switched off without being asked to: %+v", off)
		}
	}
}

// MustRefuse wants an error of so many words.
func MustRefuse(t *testing.T, err error, words []string) {
	t.Helper()
	if err == nil {
		t.Error("nothing is refused")
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("it says %v, want %q", err, word)
		}
	}
}

// OnlyReads fails a test if anything but reads was sent.
func OnlyReads(t *testing.T, ops []pvesim.Op) {
	t.Helper()
	for _, op := range ops {
		if op.Method != http.MethodGet && op.Path != "/access/ticket" {
			t.Errorf("sent %s %s", op.Method, op.Path)
		}
	}
}

// MustSayAll fails the test if the text lacks one of the words.
func MustSayAll(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not said in:\n%s", word, text)
		}
	}
}

// Must fails the test at once if err is not nil.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
