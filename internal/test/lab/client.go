package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options say where the cluster is and how time passes.
type Options struct {
	// Getenv reads the environment: PROXMOX_VE_* as the provider does, and PROXMOX_VE_TEST_*, which CONTRIBUTING.md lists.
	Getenv func(string) string
	// DialContext reaches the cluster; nil is the network.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Sleep waits on the cluster's clock; nil is the machine's.
	Sleep func(context.Context, time.Duration) error
	// WithProgram tells that the cases run with a Terraform program, which can do some things that the protocol alone cannot.
	WithProgram bool
	// NoFunctions is why the program cannot call functions of providers, "" where it can.
	NoFunctions string
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Client asks a cluster as curl would: net/http, and nothing of the provider's own client.
type Client struct {
	http           *http.Client
	endpoint       string
	token          string // what goes into Authorization after "PVEAPIToken="; "" works with the ticket
	user, password string
	ticket, csrf   string
	sleep          func(context.Context, time.Duration) error
}

// Answer is the response to a request. Data holds its decoded JSON.
type Answer struct {
	Status int
	Reason string
	Data   any
}

// newClient reads how to reach the cluster from the environment that the provider reads.
func newClient(o Options) (*Client, error) {
	env := func(name string) string { return o.Getenv("PROXMOX_VE_" + name) }
	c := &Client{endpoint: strings.TrimSuffix(env("ENDPOINT"), "/"), token: env("API_TOKEN"), user: env("USERNAME"), password: env("PASSWORD"),
		sleep: o.Sleep}
	if c.endpoint == "" || c.token == "" && (c.user == "" || c.password == "") {
		return nil, errors.New("PROXMOX_VE_ENDPOINT and PROXMOX_VE_API_TOKEN, or _USERNAME and _PASSWORD, say which cluster and as whom")
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	if pem := env("CA_CERTIFICATE"); pem != "" && !roots.AppendCertsFromPEM([]byte(pem)) {
		return nil, errors.New("PROXMOX_VE_CA_CERTIFICATE holds no certificate")
	}
	insecure := env("INSECURE") == "1" || env("INSECURE") == "true" // as the user of a lab cluster says
	dial := o.DialContext
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	c.http = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{
		DialContext: dial, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: insecure},
	}}
	return c, nil
}

// hasRoot tells whether there is a password of root@pam, who alone may do some things.
func (c *Client) hasRoot() bool { return c.user == "root@pam" && c.password != "" }

// ask sends a request as the identity of the tests.
func (c *Client) ask(ctx context.Context, method, path string, params map[string]string) (Answer, error) {
	return c.send(ctx, c.token == "", method, path, params)
}

// askAsRoot sends it with a ticket of root@pam.
func (c *Client) askAsRoot(ctx context.Context, method, path string, params map[string]string) (Answer, error) {
	if !c.hasRoot() {
		return Answer{}, errors.New("no password of root@pam")
	}
	return c.send(ctx, true, method, path, params)
}

func (c *Client) send(ctx context.Context, byTicket bool, method, path string, params map[string]string) (Answer, error) {
	if byTicket && c.ticket == "" && path != "/access/ticket" {
		if err := c.login(ctx); err != nil {
			return Answer{}, err
		}
	}
	q, err := c.request(ctx, method, path, params)
	if err != nil {
		return Answer{}, err
	}
	if byTicket {
		q.Header.Set("Cookie", "PVEAuthCookie="+url.QueryEscape(c.ticket))
		q.Header.Set("CSRFPreventionToken", c.csrf)
	} else {
		q.Header.Set("Authorization", "PVEAPIToken="+c.token)
	}
	resp, err := c.http.Do(q)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Status: resp.StatusCode}
	_, a.Reason, _ = strings.Cut(resp.Status, " ")
	var body struct {
		Data any `json:"data"`
	}
	if err := json.Unmarshal(text, &body); err != nil && a.Status == http.StatusOK {
		return a, fmt.Errorf("%s %s: %w", method, path, err)
	}
	a.Data = body.Data
	return a, nil
}

func (c *Client) request(ctx context.Context, method, path string, params map[string]string) (*http.Request, error) {
	form := url.Values{}
	for k, v := range params {
		form.Set(k, v)
	}
	target, body := c.endpoint+"/api2/json"+path, io.Reader(nil)
	if method == http.MethodGet || method == http.MethodDelete {
		if len(form) > 0 {
			target += "?" + form.Encode()
		}
	} else {
		body = strings.NewReader(form.Encode())
	}
	q, err := http.NewRequestWithContext(ctx, method, target, body)
	if err == nil && body != nil {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return q, err
}

func (c *Client) login(ctx context.Context) error {
	a, err := c.send(ctx, true, http.MethodPost, "/access/ticket", map[string]string{"username": c.user, "password": c.password})
	if err != nil {
		return err
	}
	data, ok := a.Data.(map[string]any)
	if !ok {
		return fmt.Errorf("log in as %s: %d %s", c.user, a.Status, a.Reason)
	}
	c.ticket, c.csrf = text(data["ticket"]), text(data["CSRFPreventionToken"])
	return nil
}

// list asks for a list. A refusal is an error, not an empty list.
func (c *Client) list(ctx context.Context, path string, params map[string]string) ([]map[string]any, error) {
	a, err := c.ask(ctx, http.MethodGet, path, params)
	if err != nil {
		return nil, err
	}
	items, ok := a.Data.([]any)
	if a.Status != http.StatusOK || !ok {
		return nil, fmt.Errorf("GET %s: %d %s", path, a.Status, a.Reason)
	}
	var rows []map[string]any
	for _, item := range items {
		if row, ok := item.(map[string]any); ok {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// do sends a request that changes something, and waits for the task that it starts. Neither may fail.
func (c *Client) do(ctx context.Context, asRoot bool, method, path string, params map[string]string) error {
	send := c.ask
	if asRoot {
		send = c.askAsRoot
	}
	a, err := send(ctx, method, path, params)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if a.Status != http.StatusOK {
		return fmt.Errorf("%s %s: %d %s", method, path, a.Status, a.Reason)
	}
	if upid := text(a.Data); strings.HasPrefix(upid, "UPID:") {
		return c.wait(ctx, upid)
	}
	return nil
}

// wait waits for the end of a task.
func (c *Client) wait(ctx context.Context, upid string) error {
	parts := strings.Split(upid, ":")
	for {
		a, err := c.ask(ctx, http.MethodGet, "/nodes/"+parts[1]+"/tasks/"+url.PathEscape(upid)+"/status", nil)
		if err != nil {
			return err
		}
		state, ok := a.Data.(map[string]any)
		if !ok {
			return fmt.Errorf("task %s: %d %s", upid, a.Status, a.Reason)
		}
		if state["status"] == "stopped" {
			if exit := text(state["exitstatus"]); exit != "OK" && !strings.HasPrefix(exit, "WARNINGS") {
				return fmt.Errorf("task %s: %s", upid, exit)
			}
			return nil
		}
		if err := c.sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// text is a member of an answer as PVE means it: numbers and texts are not told apart.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64, bool:
		return compact(v)
	}
	return compact(v)
}

// compact is a value as JSON on one line.
func compact(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
