package conformance_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
)

// plainClient speaks to a server as curl would: net/http, and nothing of the provider's own client.
type plainClient struct {
	http     *http.Client
	endpoint string
	secrets  map[string]string // identity -> what goes into Authorization after "PVEAPIToken="
	user     string            // of the ticket
	password string
	ticket   string
	csrf     string
	second   [2]string   // ticket and CSRF prevention token of the identity "limited", from its first request on
	sim      *pvesim.Sim // whose clock moves while a request waits; nil on a real server
}

// plainAnswer is the response to a request.
type plainAnswer struct {
	status int
	reason string
	closes bool
	empty  bool
	data   any
	body   struct {
		Data    json.RawMessage   `json:"data"`
		Message *string           `json:"message"`
		Errors  map[string]string `json:"errors"`
		Total   *int              `json:"total"`
	}
}

func newPlainClient(endpoint string, ca []byte, insecure bool, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *plainClient {
	pool := x509.NewCertPool()
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure} // as the user of a lab cluster says
	if len(ca) > 0 && pool.AppendCertsFromPEM(ca) {
		config.RootCAs = pool
	}
	return &plainClient{
		endpoint: strings.TrimSuffix(endpoint, "/"), secrets: map[string]string{},
		http: &http.Client{Transport: &http.Transport{DialContext: dial, TLSClientConfig: config}},
	}
}

func (c *plainClient) close() { c.http.CloseIdleConnections() }

// login gets the ticket of the identity "root".
func (c *plainClient) login(ctx context.Context) error {
	var err error
	c.ticket, c.csrf, err = c.ticketOf(ctx, c.user, c.password)
	return err
}

// ticketOf logs a user in.
func (c *plainClient) ticketOf(ctx context.Context, user, password string) (ticket, csrf string, err error) {
	a, err := c.do(ctx, "none", http.MethodPost, "/access/ticket", map[string]string{"username": user, "password": password})
	if err != nil {
		return "", "", err
	}
	data, ok := a.data.(map[string]any)
	if !ok {
		return "", "", fmt.Errorf("log in as %s: %d %s", user, a.status, a.reason)
	}
	ticket, _ = data["ticket"].(string)
	csrf, _ = data["CSRFPreventionToken"].(string)
	return ticket, csrf, nil
}

func (c *plainClient) request(ctx context.Context, as, method, path string, params map[string]string) (*http.Request, error) {
	form := url.Values{}
	for k, v := range params {
		form.Set(k, v)
	}
	kind := "application/x-www-form-urlencoded"
	segments := strings.Split(path, "/")
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	target, body := c.endpoint+"/api2/json"+strings.Join(segments, "/"), io.Reader(nil)
	switch {
	case form.Has(multipartMark):
		var err error
		if body, kind, err = multipartBody(params); err != nil {
			return nil, err
		}
	case method != http.MethodGet && method != http.MethodDelete:
		body = strings.NewReader(form.Encode())
	case len(form) > 0:
		target += "?" + form.Encode()
	}
	q, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		q.Header.Set("Content-Type", kind)
	}
	switch as {
	case "none":
	case "limited":
		q.Header.Set("Cookie", "PVEAuthCookie="+url.QueryEscape(c.second[0]))
		q.Header.Set("CSRFPreventionToken", c.second[1])
	case "root", "root without token", "root with wrong token":
		q.Header.Set("Cookie", "PVEAuthCookie="+url.QueryEscape(c.ticket))
		switch as {
		case "root":
			q.Header.Set("CSRFPreventionToken", c.csrf)
		case "root with wrong token":
			q.Header.Set("CSRFPreventionToken", "00000000:wrong")
		}
	default:
		secret, ok := c.secrets[as]
		if !ok {
			return nil, fmt.Errorf("no secret for the identity %q", as)
		}
		q.Header.Set("Authorization", "PVEAPIToken="+secret)
	}
	return q, nil
}

// multipartMark is the parameter that stands for the file of an upload: its size.
const multipartMark = "_multipart"

// multipartBody is the upload of a file that the table only gives name and size of.
func multipartBody(params map[string]string) (io.Reader, string, error) {
	var size int
	if _, err := fmt.Sscanf(params[multipartMark], "%d bytes", &size); err != nil {
		return nil, "", fmt.Errorf("size of an upload %q: %w", params[multipartMark], err)
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, k := range slices.Sorted(maps.Keys(params)) {
		if k == multipartMark || k == "filename" {
			continue
		}
		if err := w.WriteField(k, params[k]); err != nil {
			return nil, "", err
		}
	}
	part, err := w.CreateFormFile("filename", params["filename"])
	if err != nil {
		return nil, "", err
	}
	if _, err := part.Write(conformanceFile(params["filename"], size)); err != nil {
		return nil, "", err
	}
	return &b, w.FormDataContentType(), w.Close()
}

// conformanceFile is a file of a size; an image of 256 MiB if its name is a qcow2's and there is room for the header.
func conformanceFile(name string, size int) []byte {
	data := bytes.Repeat([]byte("x"), size)
	if strings.HasSuffix(name, ".qcow2") && size >= 104 {
		clear(data)
		copy(data, "QFI\xfb")
		binary.BigEndian.PutUint32(data[4:], 3)
		binary.BigEndian.PutUint64(data[24:], 256<<20)
	}
	return data
}

// do sends a request and lets simulated time pass until it is answered.
func (c *plainClient) do(ctx context.Context, as, method, path string, params map[string]string) (plainAnswer, error) {
	q, err := c.request(ctx, as, method, path, params)
	if err != nil {
		return plainAnswer{}, err
	}
	type outcome struct {
		answer plainAnswer
		err    error
	}
	if c.sim != nil {
		c.sim.ResetOps()
	}
	done := make(chan outcome, 1)
	go func() {
		a, err := c.send(q)
		done <- outcome{a, err}
	}()
	if c.sim == nil {
		o := <-done
		return o.answer, o.err
	}
	patience := time.NewTicker(time.Millisecond)
	defer patience.Stop()
	for {
		select {
		case o := <-done:
			return o.answer, o.err
		case <-patience.C:
			if c.waits() {
				c.sim.Advance(200 * time.Millisecond)
			}
		}
	}
}

// waits reports whether the server has begun the request and now waits for time to pass: only then it may, so that the
// machine's load does not show in the simulated time.
func (c *plainClient) waits() bool {
	begun := func() bool {
		ops := c.sim.Ops()
		return len(ops) == 1 && ops[0].Status == 0
	}
	v, ok := c.sim.World().Clock.(*clock.Virtual)
	return ok && begun() && v.Idle() && begun()
}

func (c *plainClient) send(q *http.Request) (plainAnswer, error) {
	resp, err := c.http.Do(q)
	if err != nil {
		return plainAnswer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return plainAnswer{}, err
	}
	a := plainAnswer{status: resp.StatusCode, closes: resp.Close, empty: len(text) == 0}
	_, a.reason, _ = strings.Cut(resp.Status, " ")
	if a.empty {
		return a, nil
	}
	if err := json.Unmarshal(text, &a.body); err != nil {
		return a, errors.Join(fmt.Errorf("body %q", text), err)
	}
	if len(a.body.Data) == 0 {
		return a, fmt.Errorf("body %q has no data", text)
	}
	return a, json.Unmarshal(a.body.Data, &a.data)
}
