package run_test

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/run"
)

func TestNotesOfARun(t *testing.T) {
	isPlanned := func(r *run.Notes, like run.PlannedVM) bool {
		_, ok := r.Planned(like)
		return ok
	}
	r := run.New()
	if r.Seen(101).InState || isPlanned(r, run.PlannedVM{VMID: 9000}) {
		t.Error("a new run has seen something")
	}
	r.NoteInState(101)
	r.NotePlanned(run.PlannedVM{VMID: 9000, Name: "tpl", Tags: []string{"Base", "linux"}})
	if !r.Seen(101).InState || r.Seen(102).InState {
		t.Error("refreshed ids are not remembered")
	}
	for _, like := range []run.PlannedVM{{VMID: 9000}, {Name: "tpl"}, {Tags: []string{"base"}}, {Tags: []string{"linux", "base"}}} {
		if !isPlanned(r, like) {
			t.Errorf("%+v is planned", like)
		}
	}
	for _, other := range []run.PlannedVM{{}, {VMID: 9001}, {Name: "x"}, {Tags: []string{"base", "windows"}}} {
		if isPlanned(r, other) {
			t.Errorf("%+v is not planned", other)
		}
	}
}
