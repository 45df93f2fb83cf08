// Package capture looks at a Proxmox VE cluster and writes down what it sees as a world for the simulator.
//
// It only looks: every request is a GET, except the one that logs in with a password. The file lists everything that
// it may not see, or that has no place in a world, as not seen. Passwords and the secrets of tokens never come along,
// and free texts, which may hold any secret, only if they are asked for.
package capture

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

// Config says where to look, and as whom.
type Config struct {
	Endpoint string // https://host:8006, with or without /api2/json
	// Token is user@realm!name=secret. Without it Username and Password log in.
	Token, Username, Password string
	CACertificate             string // PEM; empty: the system's
	Insecure                  bool   // verify no certificate
	// Mask are the kinds of words that are replaced by pseudonyms, of MaskKinds.
	Mask []string
	// Texts takes descriptions, comments, notes and args along. Secrets in them are masked as a best effort only.
	Texts bool
	// DialContext connects; nil is the network.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// client asks one cluster.
type client struct {
	http   *http.Client
	base   string
	header http.Header
}

const (
	requestTimeout = 60 * time.Second
	answerLimit    = 256 << 20
)

func newClient(ctx context.Context, c Config) (*client, error) {
	u, err := url.Parse(strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(c.Endpoint, "/"), "/api2/json"), "/"))
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil { // not repeated: it may hold a password
		return nil, errors.New("the endpoint is not an address like https://pve1.example.org:8006, without a user name")
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.Insecure}
	if c.CACertificate != "" {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM([]byte(c.CACertificate)) {
			return nil, errors.New("the CA certificate holds no certificate in PEM format")
		}
	}
	k := &client{base: u.Scheme + "://" + u.Host, header: http.Header{}, http: &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{TLSClientConfig: t, DialContext: c.DialContext, MaxIdleConnsPerHost: atOnce,
			Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a redirected request could carry the token elsewhere
		},
	}}
	switch {
	case c.Token != "":
		k.header.Set("Authorization", "PVEAPIToken="+c.Token)
	case c.Username != "" && c.Password != "":
		err = k.login(ctx, c.Username, c.Password)
	default:
		err = errors.New("neither an API token nor a user name with a password is given")
	}
	return k, err
}

// login gets a ticket: the only request that is not a GET, and it changes nothing.
func (k *client) login(ctx context.Context, user, password string) error {
	form := url.Values{"username": {user}, "password": {password}}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, k.base+"/api2/json/access/ticket",
		strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	v, err := k.send(q)
	if err != nil {
		return fmt.Errorf("log in as %s: %w", user, err)
	}
	r, _ := v.(map[string]any)
	if row(r).text("NeedTFA") != "" || row(r).text("ticket") == "" {
		return fmt.Errorf("log in as %s: a second factor is asked for; use an API token", user)
	}
	k.header.Set("Cookie", "PVEAuthCookie="+url.QueryEscape(row(r).text("ticket")))
	return nil
}

// get asks for a path below /api2/json, whose parts are escaped, and gives the answer's data.
func (k *client) get(ctx context.Context, path string) (any, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, k.base+"/api2/json"+path, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range k.header {
		q.Header[name] = values
	}
	return k.send(q)
}

// refused is an answer of the server that is not what was asked for.
type refused struct {
	status int
	reason string
}

// Error is the status and the reason phrase.
func (e *refused) Error() string { return fmt.Sprintf("%d %s", e.status, e.reason) }

func (k *client) send(q *http.Request) (any, error) {
	resp, err := k.http.Do(q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_, reason, _ := strings.Cut(resp.Status, " ")
		return nil, &refused{resp.StatusCode, strings.TrimSpace(reason)}
	}
	var answer struct {
		Data any `json:"data"`
	}
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.UseNumber()
	if err := dec.Decode(&answer); err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	return answer.Data, nil
}
