package kit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/printed"
)

var update = flag.Bool("update", false, "write the golden file again")

// places is a Locator with two attributes.
type places struct{}

func (places) Parameter(name string) (path.Path, bool) {
	switch name {
	case "net0":
		return path.Root("networks").AtMapKey(name), true
	case "memory":
		return path.Root("memory").AtName("size"), true
	}
	return path.Empty(), false
}

func (places) Attribute(dotted string) (path.Path, bool) {
	return path.Root(dotted), dotted != ""
}

func diagnoses() map[string]struct {
	attempt Attempt
	err     error
} {
	create := Attempt{Verb: "create", Thing: "VM 101 on pve1", At: places{}, As: Identity{Name: "terraform@pve!prov"}}
	kept := create
	kept.Kept = true
	doubt := create
	doubt.Doubt = true
	secret := create
	secret.Secrets = []string{"hunter2"}
	step := "create VM 101 on node pve1"
	task := &pve.TaskError{Op: "task qmcreate of VM 101 on node pve1",
		UPID:       "UPID:pve1:0000:0000:0000:qmcreate:101:root@pam:",
		ExitStatus: "unable to create VM 101 - zfs error: out of space", Log: []string{"scsi0: creating",
			"TASK ERROR: out of space"},
		Kind: pve.Capacity}
	refused := &pve.Error{Op: step, Status: 400, Kind: pve.Invalid, Message: "Parameter verification failed.",
		Params: map[string]string{"net0": "invalid format", "memory": "value must have a minimum value of 16",
			"foo": "unknown"}}
	left := []saga.Residue{
		{Kind: "volume", Node: "pve1", ID: "local-zfs:vm-101-disk-0", What: "volume local-zfs:vm-101-disk-0",
			Reason: "no Datastore.Allocate on /storage/local-zfs", Command: "pvesm free local-zfs:vm-101-disk-0"},
		{Kind: "guest", Node: "pve1", ID: "101", What: "VM 101 on pve1", Command: "qm destroy 101"},
	}
	return map[string]struct {
		attempt Attempt
		err     error
	}{
		"01 rolled back": {create, &saga.Error{Step: step, Err: task}},
		"02 something left": {create, &saga.Error{Step: step, Err: task, Left: left,
			Undo: []error{errors.New("undo of x: node is down")}}},
		"03 kept on purpose":            {kept, &saga.Error{Step: step, Err: task}},
		"04 a diagnostic per parameter": {create, &saga.Error{Step: step, Err: refused}},
		"05 an error of one attribute": {create, &guest.FieldError{Path: "vmid", Summary: "VMID 101 is taken",
			Detail: "VM web has it",
			Err:    &pve.Error{Op: step, Status: 500, Kind: pve.Exists, Message: "VM 101 already exists"}}},
		"16 its cause is a conclusion": {create, &guest.FieldError{Path: "vmid", Summary: "VMID 101 is taken",
			Detail: "VM web has it",
			Err:    errors.New("it was made a moment ago")}},
		"06 several causes": {create, errors.Join(&pve.Error{Op: "a", Status: 403, Kind: pve.Denied,
			Message: "Permission check failed (/vms/101, VM.Allocate)"}, errors.New("b"))},
		"07 another VM": {Attempt{Verb: "read", Thing: "VM 101 on pve1"},
			&guest.IdentityError{VMID: 101, Node: "pve1", State: guest.Identity{UUID: "aaa"},
				Server: guest.Identity{UUID: "bbb"}}},
		"17 another VM, on another node": {Attempt{Verb: "read", Thing: "VM 101 on pve1",
			As: Identity{Endpoint: "https://solo:8006"}},
			&guest.IdentityError{VMID: 101, Node: "solo", Home: "pve1", State: guest.Identity{UUID: "aaa"},
				Server: guest.Identity{UUID: "bbb"}}},
		"08 out of time": {create, fmt.Errorf("start VM 101: %w", context.DeadlineExceeded)},
		"09 interrupted": {create, fmt.Errorf("start VM 101: %w", context.Canceled)},
		"18 interrupted between two steps": {create, &saga.Error{Step: step,
			Err: &saga.NotBegunError{Step: step, Err: context.Canceled}}},
		"10 login refused": {create, &pve.Error{Op: "log in", Status: 401, Kind: pve.Denied,
			Message: "Authentication failed!"}},
		"11 a repeated secret": {secret, &pve.Error{Op: step, Status: 500, Message: "cannot take hunter2"}},
		"12 the answer lost":   {create, &pve.Error{Op: step, Kind: pve.Ambiguous, Message: "connection reset"}},
		"14 worker killed": {create, &saga.Error{Step: step, Err: &pve.TaskError{Op: "task qmcreate", UPID: "UPID:x",
			ExitStatus: "unexpected status", Kind: pve.Ambiguous}}},
		"15 not all could be told": {doubt, &saga.Error{Step: step, Err: task}},
		"19 the text lost on the way": {create, &pve.Error{Op: step, Status: 500, Wordless: true,
			Message: "Internal Server Error (the answer has no text of PVE)"}},
		"13 locked": {create, &pve.Error{Op: step, Status: 500, Kind: pve.Locked,
			Message: "VM is locked (backup)"}},
	}
}

func render(diags diag.Diagnostics) string {
	var b strings.Builder
	for _, d := range diags {
		fmt.Fprintf(&b, "%s: %s", d.Severity(), d.Summary())
		if at, ok := d.(diag.DiagnosticWithPath); ok {
			fmt.Fprintf(&b, " [%s]", at.Path())
		}
		fmt.Fprintf(&b, "\n%s\n\n", d.Detail())
	}
	return b.String()
}

// The texts that people read when something goes wrong. Run with -update after a change, and read the difference.
func TestDiagnose(t *testing.T) {
	var b strings.Builder
	all := diagnoses()
	for i := 1; i <= len(all); i++ {
		for name, tt := range all {
			if strings.HasPrefix(name, fmt.Sprintf("%02d ", i)) {
				fmt.Fprintf(&b, "=== %s\n%s", name, render(Diagnose(tt.attempt, tt.err)))
			}
		}
	}
	b.WriteString("=== warning of a refresh\n" + render(NotRefreshed(Attempt{Thing: "VM 101 on pve1"},
		errors.New("node pve1 is offline"))))
	b.WriteString("=== leftovers of a destroy\n" + render(Leftovers(Attempt{Verb: "destroy", Thing: "VM 101 on pve1"},
		&saga.LeftError{Left: []saga.Residue{{Node: "pve1", What: "volume x:vm-101-disk-0",
			Command: "pvesm free x:vm-101-disk-0"}},
			Err: errors.New("storage x is offline")},
		[]saga.Residue{{Node: "pve1", What: "volume x:vm-101-disk-0", Command: "pvesm free x:vm-101-disk-0"}})))
	golden := filepath.Join("testdata", "diagnose.txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(b.String(), "hunter2") {
		t.Error("a secret is told")
	}
}

func TestDiagnoseNothing(t *testing.T) {
	if diags := Diagnose(Attempt{}, nil); len(diags) != 0 {
		t.Error(diags)
	}
	if diags := Leftovers(Attempt{}, nil, nil); len(diags) != 0 {
		t.Error(diags)
	}
}

// TestLawCommandsOfResidues: a leftover with an unusual name has no command, and the text says why.
func TestLawCommandsOfResidues(t *testing.T) {
	said := ListResidues([]saga.Residue{{ID: "local:vm-1-$(id)", Node: "pve1", What: "volume local:vm-1-$(id)"}, {ID: "100", Node: "pve1",
		What: "VM 100", Command: "qm destroy 100"}, {ID: "101", Node: "pve1", What: "VM 101"}})
	if strings.Count(said, "look at it by hand") != 1 || len(printed.Unsafe(said)) > 0 || len(printed.Commands(said)) != 1 {
		t.Errorf("said %s", said)
	}
}

// TestReasonOfAResidueIsOneLine: several errors are its reason, as errors.Join has them, and each leftover has its lines in the list.
func TestReasonOfAResidueIsOneLine(t *testing.T) {
	said := ListResidues([]saga.Residue{{ID: "100", Node: "pve1", What: "VM 100 on node pve1", Command: "qm config 100",
		Reason: errors.Join(errors.New("no route"), errors.New("no answer")).Error()}})
	if want := "Left on the server:\n  1. VM 100 on node pve1 (no route; no answer)\n     as root on pve1: qm config 100\n"; said != want {
		t.Errorf("said %q", said)
	}
}

// TestDetailsEndWithAFullStop: the details of warnings do, whichever sentence comes last. A list at the end does not.
func TestDetailsEndWithAFullStop(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"Then apply again": "Then apply again.", "It stays.": "It stays.", "": "", "These:\n  one": "These:\n  one",
		"Look (`qm config 100`)": "Look (`qm config 100`).", "Run `qm config 100`": "Run `qm config 100`."} {
		if said := Warn([]guest.Warning{{Summary: "x", Detail: text}})[0].Detail(); said != want {
			t.Errorf("of %q it says %q", text, said)
		}
	}
}
