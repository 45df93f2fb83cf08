package proxy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/encode"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// answer is a response. Its reason phrase is PVE's error text, which is why no ResponseWriter could send it.
type answer struct {
	status      int
	reason      string
	contentType string
	body        []byte
	location    string
	cut         bool // drop the connection instead
}

const (
	typeJSON  = "application/json;charset=UTF-8"
	typePlain = "text/plain"
)

// plainError is an error of the HTTP layer itself: not JSON (AnyEvent.pm, error).
func plainError(status int, reason string) *answer {
	return &answer{status: status, reason: reason, contentType: typePlain, body: []byte(reason)}
}

// bare is an answer without a body, as the authentication stage gives it.
func bare(status int, reason string) *answer { return &answer{status: status, reason: reason} }

// document is an answer of the JSON formatter (Formatter/Standard.pm, prepare_response_data).
func document(status int, reason string, members map[string]any) *answer {
	if _, ok := members["data"]; !ok {
		members["data"] = nil
	}
	body, err := encode.Encode(members)
	if err != nil {
		return plainError(500, err.Error())
	}
	return &answer{status: status, reason: reason, contentType: typeJSON, body: body}
}

// failure turns a handler's error into an answer. The body has the text only from http-server 5.2.0 on.
func failure(w *state.World, err error) *answer {
	e := (*perl.Error)(nil)
	if !errors.As(err, &e) {
		e = perl.Die("%s", err.Error())
	}
	members := map[string]any{}
	if w.Has(state.ErrorsHaveMessages) {
		members["message"] = e.Message
		if e.Status != 501 && !strings.HasSuffix(e.Message, "\n") {
			members["message"] = e.Message + "\n" // Perl's die texts end in one; the routing error is not a die
		}
	}
	if e.Errors != nil {
		members["errors"] = e.Errors
	}
	return document(e.Status, e.Message, members)
}

// write sends the answer.
func (a *answer) write(conn net.Conn, p *Proxy, q *httpRequest, last bool) error {
	body, encoding := a.body, ""
	if len(body) > 1024 && strings.Contains(q.header["accept-encoding"], "gzip") {
		body, encoding = p.gzip(body), "gzip"
	}
	reason, _, _ := strings.Cut(strings.TrimRight(a.reason, "\n"), "\n")
	if strings.ContainsRune(reason, '\r') {
		a.status, reason = 400, "Bad Request"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nCache-Control: max-age=0\r\n", a.status, reason)
	if last {
		b.WriteString("Connection: close\r\n")
	} else {
		b.WriteString("Connection: Keep-Alive\r\n")
	}
	p.e.World.Lock()
	at := state.NodeTime(p.e.World, engine.Home(p.e.World)) // by the clock of the node that answers
	now := at.UTC().Format(http.TimeFormat)
	p.e.World.Unlock()
	fmt.Fprintf(&b, "Date: %s\r\nPragma: no-cache\r\nServer: pve-api-daemon/3.0\r\nContent-Length: %d\r\n", now, len(body))
	if a.contentType != "" {
		fmt.Fprintf(&b, "Content-Type: %s\r\n", a.contentType)
	}
	if encoding != "" {
		fmt.Fprintf(&b, "Content-Encoding: %s\r\n", encoding)
	}
	if a.location != "" {
		fmt.Fprintf(&b, "Location: %s\r\n", a.location)
	}
	fmt.Fprintf(&b, "Expires: %s\r\n\r\n", now)
	b.Write(body)
	_, err := conn.Write(b.Bytes())
	return err
}

func (p *Proxy) gzip(body []byte) []byte {
	var b bytes.Buffer
	z, ok := p.gzips.Get().(*gzip.Writer)
	if !ok {
		z, _ = gzip.NewWriterLevel(&b, gzip.BestSpeed) // a level that exists
	}
	z.Reset(&b)
	_, _ = z.Write(body) // into memory
	_ = z.Close()
	p.gzips.Put(z)
	return b.Bytes()
}
