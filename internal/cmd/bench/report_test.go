package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func sample(provider, both, wall time.Duration, requests int) measured {
	return measured{cost: cost{Provider: usage{CPU: provider, RSS: 100 * mib}, Terraform: usage{CPU: both - provider, RSS: 200 * mib}, Wall: wall},
		Requests: requests}
}

func TestMedian(t *testing.T) {
	r := row{runs: []measured{sample(3, 9, 5, 1), sample(1, 2, 6, 2), sample(2, 10, 4, 9)}}
	if m := r.median(); m.Provider.CPU != 2 || m.Terraform.CPU != 6 || m.Wall != 5 || m.Requests != 2 {
		t.Errorf("%+v", m)
	}
	if m := (row{runs: r.runs[:2]}).median(); m.Provider.CPU != 1 {
		t.Errorf("of two: %+v", m)
	}
}

// table is what a run of a few things may have measured.
func table() rows {
	const s = time.Second
	var r rows
	r.add(opPlan, 100, whoProvider, sample(s, 2*s, 2*s, 101))
	r.add(opPlan, 1000, whoFloor, sample(0, s, s, 0))
	r.add(opPlan, 1000, whoProvider, sample(9*s, 18*s, 15*s, 1002))
	r.add(opPlan, 1000, whoPeer, sample(30*s, 40*s, 59*s, 6000))
	r.add(opSlowCreate, 10, whoBare, measured{cost: cost{Wall: 2 * s}, Requests: 31, Polls: 20})
	r.add(opSlowCreate, 10, whoFloor, sample(0, s, s, 0))
	r.add(opSlowCreate, 10, whoProvider, sample(s, 2*s, 4*s, 100))
	return r
}

func TestVerdicts(t *testing.T) {
	type want struct {
		value float64
		ok    bool
	}
	wants := map[string]want{
		"CPU of the provider per VM": {9, false}, "peak memory of the provider": {100, true}, "CPU of both, of bpg's": {0.45, true},
		"CPU of both, of that for 100": {9, true}, "requests": {1002, false},
	}
	got := table().verdicts(opPlan, 1000)
	for _, v := range got {
		if w := wants[v.what]; v.value != w.value || v.ok() != w.ok {
			t.Errorf("%s: %v, ok %t; want %v", v.what, v.value, v.ok(), w)
		}
	}
	if len(got) != len(wants) {
		t.Errorf("%d verdicts, want %d", len(got), len(wants))
	}
	// Without a peer and without the hundred there is nothing to compare with.
	var alone rows
	alone.add(opPlan, 1000, whoProvider, sample(time.Second, time.Second, time.Second, 1001))
	if got := alone.verdicts(opPlan, 1000); len(got) != 3 {
		t.Errorf("alone: %v", got)
	}
	if got := table().verdicts(opSlowCreate, 10); len(got) != 1 || got[0].value != 1.5 || got[0].ok() {
		t.Errorf("slow: %+v", got)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := writeTable(&out, table()); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, part := range []string{
		"plan, 1000 VMs terraform_data 1.00 1.00 1.00", "bpg 30.00 10.00 40.00 59.00 100 200 6000 CPU",
		"9.00 ms at most 8: MISSED", "0.45 x at most 0.6: ok", "create, slow server, 10 VMs bare client 2.00 31 20", "4.00 100 200 100 1.50 wall",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if strings.Index(text, "plan, 100 VMs") > strings.Index(text, "plan, 1000 VMs") {
		t.Error("not in the order in which it was measured")
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	if err := writeJSON(&out, table()); err != nil {
		t.Fatal(err)
	}
	measured, judged := 0, 0
	for text := range strings.Lines(out.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if l.Operation == "" || l.VMs == 0 || l.Who == "" {
			t.Errorf("anonymous: %s", text)
		}
		if l.Target != "" {
			judged++
			if l.OK == nil || *l.OK != (l.Value <= l.Limit) {
				t.Errorf("no verdict: %s", text)
			}
			continue
		}
		measured++
	}
	if measured != 7 || judged != 7 {
		t.Errorf("%d rows and %d verdicts", measured, judged)
	}
}
