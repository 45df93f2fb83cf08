package vm

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/planning"
)

func TestRun(t *testing.T) {
	isPlanned := func(r *planning.Run, like planning.PlannedVM) bool {
		_, ok := r.Planned(like)
		return ok
	}
	r := planning.NewRun()
	if r.WasInState(101) || isPlanned(r, planning.PlannedVM{VMID: 9000}) {
		t.Error("a new run has seen something")
	}
	r.NoteInState(101)
	r.NotePlanned(planning.PlannedVM{VMID: 9000, Name: "tpl", Tags: []string{"Base", "linux"}})
	if !r.WasInState(101) || r.WasInState(102) {
		t.Error("refreshed ids are not remembered")
	}
	for _, like := range []planning.PlannedVM{{VMID: 9000}, {Name: "tpl"}, {Tags: []string{"base"}}, {Tags: []string{"linux", "base"}}} {
		if !isPlanned(r, like) {
			t.Errorf("%+v is planned", like)
		}
	}
	for _, other := range []planning.PlannedVM{{}, {VMID: 9001}, {Name: "x"}, {Tags: []string{"base", "windows"}}} {
		if isPlanned(r, other) {
			t.Errorf("%+v is not planned", other)
		}
	}
}
