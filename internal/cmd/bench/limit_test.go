package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// TestLimit: one VM takes its requests and tasks one after the other; of many the server's three workers are the limit, or the ten that
// are worked on at a time.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		op       string
		n        int
		wall     time.Duration
		requests int
	}{
		{opSlowCreate, 1, 550 * time.Millisecond, 3},
		{opSlowClone, 1, 850 * time.Millisecond, 5},
		{opSlowUpdate, 1, 100 * time.Millisecond, 2},
		{opSlowUpdate, 9, 200 * time.Millisecond, 10},
		{opSlowUpdate, 90, 1550 * time.Millisecond, 91},
		{opSlowCreate, 10, 700 * time.Millisecond, 21},
	} {
		if m := limit(c.op, c.n); m.Wall != c.wall || m.Requests != c.requests {
			t.Errorf("%s of %d: %s, %d requests; want %s, %d", c.op, c.n, m.Wall, m.Requests, c.wall, c.requests)
		}
	}
}

// TestShares: the parts of a command's time. A task whose end was not noticed yet counts as running.
func TestShares(t *testing.T) {
	const ms = time.Millisecond
	requests := []span{{100 * ms, 150 * ms}, {120 * ms, 160 * ms}, {400 * ms, 450 * ms}, {700 * ms, 750 * ms}}
	tasks := []span{{150 * ms, 350 * ms}}
	want := share{asking: 160 * ms, tasks: 240 * ms, nothing: 600 * ms, starting: 100 * ms}
	if got := shares(1000*ms, requests, tasks); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := shares(ms, nil, nil); got != (share{nothing: ms}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// TestBaseline: what is written is read again, and compared by ratio.
func TestBaseline(t *testing.T) {
	r := table()
	dir := t.TempDir()
	if err := write(dir, r, nil); err != nil {
		t.Fatal(err)
	}
	base, err := readBaselines(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	compared := func() string {
		var out bytes.Buffer
		if err := compare(&out, r, base); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if text := compared(); strings.Contains(text, "worse") || strings.Contains(text, "better") || strings.Count(text, "within noise") < 3 {
		t.Errorf("the same differs:\n%s", text)
	}
	for file := range base {
		for i := range base[file] {
			base[file][i].value *= 2
		}
	}
	if text := compared(); strings.Contains(text, "within noise") || !strings.Contains(text, "better") {
		t.Errorf("half of it is not better:\n%s", text)
	}
	for file := range base {
		for i := range base[file] {
			base[file][i].value /= 4
		}
	}
	if text := compared(); strings.Contains(text, "within noise") || !strings.Contains(text, "worse") {
		t.Errorf("twice as much is not worse:\n%s", text)
	}
	bad := fstest.MapFS{keptFigures[0].file: {Data: []byte("plan\tmany\t1\n")}}
	if _, err := readBaselines(bad); err == nil {
		t.Error("a line without a number was taken")
	}
	if _, err := embedded(); err != nil {
		t.Error(err)
	}
}
