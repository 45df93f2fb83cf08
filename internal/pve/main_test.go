package pve

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testToken = "terraform@pve!prov=6b0b5c1a-1111-2222-3333-444455556666"

// fakeClock never waits: Sleep moves it on.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	sleeps []time.Duration
}

func newFakeClock() *fakeClock { return &fakeClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (f *fakeClock) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fakeClock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	f.sleeps = append(f.sleeps, d)
	return nil
}

func (f *fakeClock) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// seen is one request as the server got it.
type seen struct {
	method, path string
	form         url.Values
	header       http.Header
}

func (s seen) String() string { return s.method + " " + s.path + " " + s.form.Encode() }

// server is a scripted PVE: answer is called with each request and its number from 1.
type server struct {
	*httptest.Server
	clock *fakeClock
	mu    sync.Mutex
	seen  []seen
}

type answerFunc func(w http.ResponseWriter, s seen, n int)

func newServer(t *testing.T, answer answerFunc) *server {
	t.Helper()
	s := &server{clock: newFakeClock()}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
			body = nil // a file
		}
		form, err := url.ParseQuery(string(body))
		if err != nil {
			t.Errorf("body %q: %v", body, err)
		}
		for k, v := range r.URL.Query() {
			form[k] = v
		}
		if !strings.HasPrefix(r.URL.Path, "/api2/json/") {
			t.Errorf("request outside of the API: %s", r.URL.Path)
		}
		got := seen{method: r.Method, path: strings.TrimPrefix(r.URL.Path, "/api2/json"), form: form, header: r.Header}
		s.mu.Lock()
		s.seen = append(s.seen, got)
		n := len(s.seen)
		s.mu.Unlock()
		answer(w, got, n)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// requests is what the server has seen.
func (s *server) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.seen...)
}

func (s *server) config() Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return Config{Endpoint: s.URL, APIToken: testToken, CACertificate: string(ca), Clock: s.clock}
}

func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (s *server) client(t *testing.T) *Client {
	t.Helper()
	return newClient(t, s.config())
}

// data answers 200 with that JSON as data.
func data(w http.ResponseWriter, json string) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	fmt.Fprintf(w, `{"data":%s}`, json)
}

// reply answers with a status line and a body of its own, as net/http cannot.
func reply(w http.ResponseWriter, status int, reason, body string) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprintf(rw, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: %d\r\nDate: %s\r\n\r\n%s",
		status, reason, len(body), time.Now().UTC().Format(http.TimeFormat), body)
	flush(rw)
}

// die is PVE's answer to die "text" in a call: 500, the text as reason phrase and as message.
func die(w http.ResponseWriter, text string) {
	reply(w, http.StatusInternalServerError, text, fmt.Sprintf(`{"data":null,"message":%q}`, text+"\n"))
}

// cut closes the connection without an answer.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	conn.Close()
}

func flush(rw *bufio.ReadWriter) {
	if err := rw.Flush(); err != nil {
		panic(err)
	}
}

// constant answers every request with the same data.
func constant(json string) answerFunc {
	return func(w http.ResponseWriter, _ seen, _ int) { data(w, json) }
}
