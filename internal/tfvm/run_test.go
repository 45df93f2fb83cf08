package tfvm

import "testing"

func TestRun(t *testing.T) {
	var none *Run
	none.noteRefreshed(1)
	none.notePlanned(plannedVM{VMID: 1})
	none.noteFailed(1, failedVM{})
	if none.wasRefreshed(1) || none.isPlanned(plannedVM{VMID: 1}) || none.allFailed() != nil {
		t.Error("no run has seen something")
	}
	r := NewRun()
	r.noteRefreshed(101)
	r.notePlanned(plannedVM{VMID: 9000, Name: "tpl", Tags: []string{"Base", "linux"}})
	if !r.wasRefreshed(101) || r.wasRefreshed(102) {
		t.Error("refreshed ids are not remembered")
	}
	for _, like := range []plannedVM{{VMID: 9000}, {Name: "tpl"}, {Tags: []string{"base"}}, {Tags: []string{"linux", "base"}}} {
		if !r.isPlanned(like) {
			t.Errorf("%+v is planned", like)
		}
	}
	for _, other := range []plannedVM{{}, {VMID: 9001}, {Name: "x"}, {Tags: []string{"base", "windows"}}} {
		if r.isPlanned(other) {
			t.Errorf("%+v is not planned", other)
		}
	}
}
