package pve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// tracer collects every line.
type tracer struct {
	mu    sync.Mutex
	lines []string
}

func (t *tracer) trace(_ context.Context, msg string, fields map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprint(msg, " ", fields))
}

func (t *tracer) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// A server that repeats everything it is given in its messages, and the trace of all that a client does with it.
func TestNoSecretInTraceOrError(t *testing.T) {
	const (
		password   = "pass word+/=ä1"
		totpSecret = "JBSWY3DPEHPK3PXP"
		cipassword = "$6$salt$hashhashhash"
		sshkeys    = "ssh-ed25519%20AAAAC3NzaC1lZDI1%2Babc%20me%40x%0Assh-rsa%20BBBBB3NzaC1%20you%40y"
		ticketText = "PVE:root@pam:6B00505B::c2lnbmF0dXJl"
		csrf       = "6B00505B:Y3NyZnRva2Vu"
	)
	s := newServer(t, func(w http.ResponseWriter, s seen, n int) {
		switch {
		case s.path == "/access/ticket" && n == 1:
			data(w, `{"NeedTFA":1,"ticket":"PVE:!tfa!Y2hhbGxlbmdl"}`)
		case s.path == "/access/ticket":
			data(w, fmt.Sprintf(`{"ticket":%q,"CSRFPreventionToken":%q}`, ticketText, csrf))
		case strings.HasSuffix(s.path, "/status"):
			data(w, fmt.Sprintf(`{"status":"stopped","exitstatus":%q}`, "failed with "+cipassword))
		case strings.HasSuffix(s.path, "/log"):
			fmt.Fprintf(w, `{"total":1,"data":[{"n":1,"t":%q}]}`, "log of "+cipassword)
		default:
			cookie, _ := url.QueryUnescape(s.header.Get("Cookie"))
			die(w, fmt.Sprint("no: ", s.form, s.form.Encode(), cookie, s.header))
		}
	})
	var tr tracer
	cfg := s.config()
	cfg.APIToken, cfg.Username, cfg.Password, cfg.TOTPSecret = "", "root@pam", password, totpSecret
	cfg.Trace = tr.trace
	c := newClient(t, cfg)
	p := Params{"vmid": "100", "name": "web-1", "cipassword": cipassword, "sshkeys": sshkeys}
	_, err := c.Node("pve1").CreateVM(t.Context(), p)
	_, taskErr := c.Tasks().Wait(t.Context(), taskUPID)
	if err == nil || taskErr == nil {
		t.Fatal(err, taskErr)
	}
	var task *TaskError
	if !errors.As(taskErr, &task) || len(task.Log) != 1 {
		t.Fatalf("%#v", taskErr)
	}
	all := strings.Join([]string{err.Error(), fmt.Sprintf("%+v", err), taskErr.Error(), strings.Join(task.Log, ""), tr.text()}, "\n")
	for _, secret := range []string{
		password, url.QueryEscape(password), totpSecret, cipassword, url.QueryEscape(cipassword),
		"c2lnbmF0dXJl", "Y3NyZnRva2Vu", "Y2hhbGxlbmdl",
	} {
		if strings.Contains(all, secret) {
			t.Errorf("%q can be read in:\n%s", secret, all)
		}
	}
	for _, wanted := range []string{"create VM 100 on node pve1", "name=web-1", "cipassword=(redacted)", "sshkeys=(redacted)", "/nodes/pve1/qemu", "POST"} {
		if !strings.Contains(tr.text(), wanted) {
			t.Errorf("%q is missing in the trace:\n%s", wanted, tr.text())
		}
	}
	if p["cipassword"] != cipassword || s.requests()[2].form.Get("cipassword") != cipassword {
		t.Error("the request itself was redacted")
	}
}

func TestTokenIsRedacted(t *testing.T) {
	var tr tracer
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) { die(w, "you sent "+s.header.Get("Authorization")) })
	cfg := s.config()
	cfg.Trace = tr.trace
	_, err := newClient(t, cfg).Node("pve1").Version(t.Context())
	_, secret, _ := strings.Cut(testToken, "=")
	if text := fmt.Sprint(err, tr.text()); strings.Contains(text, secret) || !strings.Contains(text, "trying again") {
		t.Error(text)
	}
}
