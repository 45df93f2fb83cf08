package transport

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// repeating is a body of a text that is repeated without end after another.
type repeating struct{ rest, block string }

func (r *repeating) Read(p []byte) (int, error) {
	if r.rest == "" {
		r.rest = r.block
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// packed is a gzip body of 21.6 million empty objects in a list.
func packed(t *testing.T) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, io.LimitReader(&repeating{`{"data":[{}`, strings.Repeat(",{}", 10_000)}, 3*21_600_000)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAnswersAreBoundedInMemory: a small packed body that becomes millions of objects is refused before it takes memory.
func TestAnswersAreBoundedInMemory(t *testing.T) {
	endless := func(begin, repeated string) io.Reader { return &repeating{begin, strings.Repeat(repeated, 10_000)} }
	for what, c := range map[string]struct {
		body io.Reader
		says string
	}{
		"packed":      {packed(t), "elements"},
		"objects":     {endless(`{"data":[{}`, `,{}`), "elements"},
		"lists":       {endless(`{"data":[[]`, `,[]`), "elements"},
		"numbers":     {endless(`{"data":[0`, `,0`), "elements"},
		"members":     {endless(`{"data":{"":0`, `,"":0`), "elements"},
		"nested":      {endless(`{"data":`, `[`), "nested"},
		"a long text": {endless(`{"data":"`, `aaaaaaaa`), "longer"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := readAnswer(c.body)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.says) || len(got) > maxAnswer {
			t.Errorf("%s: %d bytes, %v", what, len(got), err)
		}
		allocated, most := after.TotalAlloc-before.TotalAlloc, uint64(100<<20)
		if c.says == "longer" {
			most = 8 * maxAnswer // as its buffer grows; it becomes no values
		}
		if allocated > most {
			t.Errorf("%s: %d MiB were allocated", what, allocated>>20)
		}
	}
}

// TestAnswersOfLargeClustersPass: twenty thousand guests, and texts that look like lists, are no reason to refuse.
func TestAnswersOfLargeClustersPass(t *testing.T) {
	guest := map[string]string{"name": `a "web", {[,,,]} \`, "description": strings.Repeat(`,[{"`, 100)}
	for _, field := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		guest[field] = "1"
	}
	var all []map[string]string
	for range 20_000 {
		all = append(all, guest)
	}
	text, err := json.Marshal(map[string][]map[string]string{"data": all})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]io.Reader{"at once": bytes.NewReader(text), "byte by byte": iotest.OneByteReader(bytes.NewReader(text[:1<<20]))} {
		got, err := readAnswer(r)
		if err != nil || !bytes.Equal(got, text[:len(got)]) || len(got) < 1<<20 {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(text), err)
		}
	}
	for _, text := range []string{"", "null", "<html>]]}},,,</html>", `{"data":"`} {
		if got, err := readAnswer(strings.NewReader(text)); err != nil || string(got) != text {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
}

// BenchmarkReadAnswer: counting must cost little beside the decoding.
func BenchmarkReadAnswer(b *testing.B) {
	text := []byte(`{"data":[` + strings.Repeat(`{"id":"qemu/100","node":"pve1","vmid":100,"name":"web-1","status":"running"},`, 10_000) + `{}]}`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := readAnswer(bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
