// Package transport carries requests to a PVE cluster: authentication, limits, retries, several endpoints, redaction.
// chain.go puts together the links that every request passes through.
//
// Two rules shape it. A write is never repeated unless the server proved that nothing happened: a create whose answer
// was lost is reported as Ambiguous, and the caller looks. And no secret leaves it: neither an error nor a trace line
// carries a password, a token, a ticket or the value of a parameter that is one.
package transport

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Params are the values of one request by parameter name. Booleans are "1" and "0": PVE takes nothing else
// (pve-common JSONSchema.pm check_type).
type Params map[string]string

// Conn sends requests to one PVE cluster through one of its nodes, or through the next when that one fails. It is
// safe for concurrent use. Close it when done.
type Conn struct {
	endpoints *endpoints
	agent     string
	timeout   time.Duration
	clock     Clock
	trace     TraceFunc
	creds     credentials
	redact    *redactor
	chance    func() float64 // in [0,1), spreads the callers that wait

	reads, writes, files *http.Transport
	chain                handler
	exchanges            handler // the chain's last links, for logins
	session              session
	refusals             refusals

	offset    atomic.Pointer[time.Duration] // server clock minus ours
	authority atomic.Pointer[string]        // of the cluster's certificates
}

// Open makes a Conn and checks the configuration. It makes no request: a wrong password shows with the first call.
func Open(cfg Config) (*Conn, error) {
	ways, err := cfg.endpoints()
	if err != nil {
		return nil, err
	}
	creds, err := cfg.credentials()
	if err != nil {
		return nil, err
	}
	creds.identity.PlanOnly = cfg.PlanOnly
	tlsConfig, err := cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	c := &Conn{
		endpoints: newEndpoints(ways),
		agent:     cfg.UserAgent,
		timeout:   cfg.RequestTimeout,
		clock:     cfg.Clock,
		trace:     cfg.Trace,
		creds:     creds,
		redact:    newRedactor(creds, cfg),
		chance:    rand.Float64,
		session:   session{turn: NewTurn()},
	}
	c.reads, c.writes, c.files = cfg.transports(tlsConfig)
	c.chain = c.newChain(cfg.MaxInFlight)
	return c, nil
}

// Endpoint is the URL that requests go to, without a trailing slash and without /api2/json.
func (c *Conn) Endpoint() string { return c.endpoints.current().url }

// Members are a cluster's nodes and the fingerprints of their certificates, nil if they have not been asked for.
func Members(c *Conn) map[string]string {
	c.endpoints.mu.Lock()
	defer c.endpoints.mu.Unlock()
	return maps.Clone(c.endpoints.members)
}

// Authority is the id of the authority that has signed the server's certificate: each cluster makes one, with a uuid,
// which stays when certificates are renewed (pve-cluster Cluster/Setup.pm gen_pveca_cert). "" before the first answer,
// and with a certificate of another authority.
func Authority(c *Conn) string {
	if id := c.authority.Load(); id != nil {
		return *id
	}
	return ""
}

// noteAuthority reads that id from a connection.
func noteAuthority(c *Conn, state *tls.ConnectionState) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return
	}
	by := state.PeerCertificates[0].Issuer
	if slices.Contains(by.Organization, "PVE Cluster Manager CA") && len(by.OrganizationalUnit) == 1 {
		c.authority.Store(&by.OrganizationalUnit[0])
	}
}

// Identity is the identity that requests are sent as.
func (c *Conn) Identity() Identity { return c.creds.identity }

// Key derives a key for a purpose from the secret of the API token. It is nil for an identity that logs in with a
// password: a password may be weak, and whatever is made with the key must not help to guess it.
func (c *Conn) Key(purpose string) []byte {
	_, secret, ok := strings.Cut(c.creds.token, "=")
	if !ok {
		return nil
	}
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(purpose)) // never fails, see hash.Hash
	return mac.Sum(nil)
}

// Clock is the time that the Conn lives in.
func (c *Conn) Clock() Clock { return c.clock }

// Redact is a text without any secret that this Conn knows of.
func (c *Conn) Redact(text string) string { return c.redact.text(text) }

// ServerTime is the server's clock, from the Date header of its latest answer; the zero time before the first answer.
// It is never ahead of the real one and up to about a second behind, so it is safe as the start of a search.
func (c *Conn) ServerTime() time.Time {
	offset := c.offset.Load()
	if offset == nil {
		return time.Time{}
	}
	return c.clock.Now().Add(*offset)
}

// Close lets go of idle connections. Requests still under way end on their own.
func (c *Conn) Close() {
	c.reads.CloseIdleConnections()
	c.writes.CloseIdleConnections()
	c.files.CloseIdleConnections()
}
